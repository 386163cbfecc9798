"""Products, convolutions, pools, attention, losses, linear algebra."""

from __future__ import annotations

import functools
from typing import Any, Callable, Literal, Self, Sequence

from .. import _native as _n
from ..dtype import DTypeLike, code_of
from ..helpers import TRAINING, argfix, flat_to_grouped, make_tuple, resolve_pool_pads
from .indexing import IndexingMixin

ReductionStr = Literal["mean", "sum", "none"]
_REDUCTIONS = {"mean": 0, "sum": 1, "none": 2}


def _reduction(name: str) -> int:
    if name not in _REDUCTIONS:
        raise ValueError(f"reduction is one of {tuple(_REDUCTIONS)}, not {name!r}")
    return _REDUCTIONS[name]


def _pads(padding: int | Sequence[int], dims: int) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial axis, first axis first."""
    pairs = flat_to_grouped(resolve_pool_pads(padding, dims))
    return [p[0] for p in pairs], [p[1] for p in pairs]


def _sizes(name: str, values: int | Sequence[int], dims: int) -> tuple[int, ...]:
    """One number for each axis."""
    out = make_tuple(values, dims)
    if len(out) != dims:
        raise ValueError(f"{name} has to be one number or {dims}, got {values}")
    return out


def _pool(
    kernel: Sequence[int], stride: Any, dilation: Any, padding: Any, ceil_mode: bool
) -> _n.PoolOptions:
    """Options of the pools."""
    dims = len(kernel)
    before, after = _pads(padding, dims)
    return {
        "ceil_mode": ceil_mode,
        "stride": kernel if stride is None else _sizes("stride", stride, dims),
        "dilation": _sizes("dilation", dilation, dims),
        "before": before,
        "after": after,
    }


class OpMixin(IndexingMixin):
    """Methods that are more than one primitive operation."""

    __slots__ = ()

    # ---- products

    def dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """The matrix product [..., m, k] x [..., k, n]; 1-d operands are vectors.

        >>> Tensor([[1, 2], [3, 4]]).dot(Tensor([1, 1])).tolist()
        [3, 7]
        """
        if dtype is not None:
            return _n.lazy_dot(self, w, code_of(dtype))
        return _n.lazy_matmul(self, w)

    def matmul(self, x: Self, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """As dot; with reverse, x dot self.

        >>> Tensor([[1, 2], [3, 4]]).matmul(Tensor([[1], [1]])).tolist()
        [[3], [7]]
        """
        return x.dot(self, dtype) if reverse else self.dot(x, dtype)

    def __matmul__(self, x: Self) -> Self:
        return _n.lazy_matmul(self, x)

    def __rmatmul__(self, x: Self) -> Self:
        return _n.lazy_matmul(x, self)

    def linear(
        self, weight: Self, bias: Self | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """x weight + bias; weight is [in, out], or a vector that scales.

        >>> Tensor([[1.0, 2.0]]).linear(Tensor([[1.0], [1.0]]), Tensor([0.5])).tolist()
        [[3.5]]
        """
        return _n.lazy_linear(self, weight, bias, code_of(dtype))

    @classmethod
    def einsum(cls, formula: str, *operands: Any, dtype: DTypeLike | None = None) -> Self:
        """The sum of products that a formula says.

        >>> x, y = Tensor([[1, 2], [3, 4]]), Tensor([[5, 6], [7, 8]])
        >>> Tensor.einsum("ij,ij->", x, y).item()
        70
        """
        return _n.lazy_einsum(formula, argfix(*operands), code_of(dtype))

    def sequential(self, ll: Sequence[Callable[[Self], Self]]) -> Self:
        """The functions applied one after another.

        >>> Tensor([1, 2]).sequential([lambda x: x * 2, lambda x: x + 1]).tolist()
        [3, 5]
        """
        return functools.reduce(lambda x, f: f(x), ll, self)

    # ---- convolutions and pools over the last axes

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """Cross-correlation of [n, groups c, ...] with weight [o, c, ...], of any rank.

        >>> Tensor.ones(1, 1, 3, 3).conv2d(Tensor.ones(1, 1, 2, 2)).tolist()
        [[[[4.0, 4.0], [4.0, 4.0]]]]
        """
        dims = weight.ndim - 2
        if self.ndim != weight.ndim:
            raise AssertionError(f"input {self.shape} does not fit weight {weight.shape}")
        before, after = _pads(padding, dims)
        options: _n.ConvOptions = {
            "groups": groups,
            "dtype": code_of(dtype),
            "stride": _sizes("stride", stride, dims),
            "dilation": _sizes("dilation", dilation, dims),
            "before": before,
            "after": after,
        }
        return _n.lazy_conv(self, weight, bias, options)

    def conv_transpose2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
    ) -> Self:
        """The transpose of conv2d: weight is [groups c, o, ...].

        >>> Tensor.ones(1, 1, 2, 2).conv_transpose2d(Tensor.ones(1, 1, 2, 2)).tolist()
        [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
        """
        dims = weight.ndim - 2
        before, after = _pads(padding, dims)
        options: _n.ConvOptions = {
            "groups": groups,
            "stride": _sizes("stride", stride, dims),
            "dilation": _sizes("dilation", dilation, dims),
            "output_padding": _sizes("output_padding", output_padding, dims),
            "before": before,
            "after": after,
        }
        return _n.lazy_conv_transpose(self, weight, bias, options)

    def avg_pool2d(
        self,
        kernel_size: int | tuple[int, ...] = (2, 2),
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """The mean of windows of the last axes, as many as kernel_size has.

        >>> Tensor.arange(16).reshape(1, 1, 4, 4).avg_pool2d().tolist()
        [[[[2.5, 4.5], [10.5, 12.5]]]]
        """
        kernel = make_tuple(kernel_size, 2)
        options = _pool(kernel, stride, dilation, padding, ceil_mode)
        options["exclude_pad"] = not count_include_pad
        return _n.lazy_avg_pool(self, kernel, options)

    def max_pool2d(
        self,
        kernel_size: int | tuple[int, ...] = (2, 2),
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The maximum of windows of the last axes; with return_indices, its place as well.

        >>> Tensor.arange(16).reshape(1, 1, 4, 4).max_pool2d().tolist()
        [[[[5, 7], [13, 15]]]]
        """
        kernel = make_tuple(kernel_size, 2)
        options = _pool(kernel, stride, dilation, padding, ceil_mode)
        if return_indices:
            return _n.lazy_max_pool_with_indices(self, kernel, options)
        return _n.lazy_max_pool(self, kernel, options)

    def max_unpool2d(
        self,
        indices: Self,
        kernel_size: int | tuple[int, ...] = (2, 2),
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """Puts maxima back to the places that max_pool2d returned, 0 elsewhere.

        >>> x = Tensor.arange(16).reshape(1, 1, 4, 4)
        >>> values, places = x.max_pool2d(return_indices=True)
        >>> values.max_unpool2d(places).shape
        (1, 1, 4, 4)
        """
        dims = self.ndim - 2
        kernel = _sizes("kernel_size", kernel_size, dims)
        options = _pool(kernel, stride, dilation, padding, False)
        if output_size is not None:
            options["size"] = _sizes("output_size", tuple(output_size)[-dims:], dims)
        return _n.lazy_max_unpool(self, indices, kernel, options)

    def interpolate(
        self, size: tuple[int, ...], mode: str = "linear", align_corners: bool = False
    ) -> Self:
        """The last axes resampled to size: linear, nearest or nearest-exact.

        >>> Tensor([[1.0, 3.0]]).interpolate((4,)).tolist()
        [[1.0, 1.5, 2.5, 3.0]]
        """
        assert (
            isinstance(size, (tuple, list)) and 0 < len(size) <= self.ndim
        ), f"size {size} does not fit {self.ndim} axes"
        assert mode in _INTERPOLATION, f"mode is one of {tuple(_INTERPOLATION)}, not {mode!r}"
        assert not align_corners or mode == "linear", "align_corners needs mode linear"
        return _n.lazy_interpolate(self, size, _INTERPOLATION[mode], align_corners)

    # ---- attention

    def scaled_dot_product_attention(
        self,
        key: Self,
        value: Self,
        attn_mask: Self | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        enable_gqa: bool = False,
    ) -> Self:
        """softmax(q k^T / sqrt(d) + mask) v over the last two axes.

        >>> q = Tensor.ones(1, 2, 4)
        >>> q.scaled_dot_product_attention(q, q).shape
        (1, 2, 4)
        """
        return _n.lazy_scaled_dot_product_attention(
            self, key, value, attn_mask, dropout_p, is_causal, enable_gqa, bool(TRAINING)
        )

    # ---- losses

    def binary_crossentropy(self, Y: Self, reduction: ReductionStr = "mean") -> Self:
        """-Y log(p) - (1 - Y) log(1 - p).

        >>> round(Tensor([0.5]).binary_crossentropy(Tensor([1.0])).item(), 3)
        0.693
        """
        return _n.lazy_binary_crossentropy(self, Y, _reduction(reduction))

    def binary_crossentropy_logits(
        self, Y: Self, reduction: ReductionStr = "mean", pos_weight: Self | None = None
    ) -> Self:
        """binary_crossentropy of sigmoid(x), without overflow.

        >>> round(Tensor([0.0]).binary_crossentropy_logits(Tensor([1.0])).item(), 3)
        0.693
        """
        return _n.lazy_binary_crossentropy_logits(self, Y, pos_weight, _reduction(reduction))

    def sparse_categorical_crossentropy(
        self,
        Y: Self,
        ignore_index: int = -1,
        label_smoothing: float = 0.0,
        reduction: ReductionStr = "mean",
    ) -> Self:
        """-log_softmax(x)[..., Y] for labels Y; those equal to ignore_index count nothing.

        >>> round(Tensor([[0.0, 0.0]]).sparse_categorical_crossentropy(Tensor([1])).item(), 3)
        0.693
        """
        assert 0.0 <= label_smoothing <= 1.0, f"label_smoothing {label_smoothing} not in [0, 1]"
        return _n.lazy_sparse_categorical_crossentropy(
            self, Y, ignore_index, label_smoothing, _reduction(reduction)
        )

    def cross_entropy(
        self, Y: Self, reduction: ReductionStr = "mean", label_smoothing: float = 0.0
    ) -> Self:
        """Cross entropy of logits [n, classes, ...] with labels [n, ...] or probabilities.

        >>> round(Tensor([[0.0, 0.0]]).cross_entropy(Tensor([1])).item(), 3)
        0.693
        """
        assert 0.0 <= label_smoothing <= 1.0, f"label_smoothing {label_smoothing} not in [0, 1]"
        return _n.lazy_categorical_crossentropy(self, Y, label_smoothing, _reduction(reduction))

    def nll_loss(
        self,
        Y: Self,
        weight: Self | None = None,
        ignore_index: int | None = None,
        reduction: ReductionStr = "mean",
    ) -> Self:
        """-x[n, Y[n]] of log probabilities x [n, classes, ...], weighted by class.

        >>> Tensor([[-0.5, -1.0]]).nll_loss(Tensor([1])).item()
        1.0
        """
        return _n.lazy_nll_loss(self, Y, weight, ignore_index, _reduction(reduction))

    # ---- linear algebra

    def qr(self) -> tuple[Self, Self]:
        """Q [..., m, m] orthogonal and R [..., m, n] upper triangular, Q R = x.

        >>> Q, R = Tensor([[1.0, 2.0], [3.0, 4.0]]).qr()
        >>> Q.shape, R.shape
        ((2, 2), (2, 2))
        """
        return _n.lazy_qr(self)

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """U, S and V^T with U diag(S) V^T = x, the singular values descending.

        >>> [round(v, 3) for v in Tensor([[3.0, 0.0], [0.0, 2.0]]).svd()[1].tolist()]
        [3.0, 2.0]
        """
        return _n.lazy_svd(self, full_matrices)

    def newton_schulz(self, steps: int, params: Sequence[float], eps: float = 1.0e-7) -> Self:
        """The nearest orthogonal matrix, by iteration of a polynomial.

        >>> Tensor.ones(2, 3).newton_schulz(2, (1.5, -0.5)).shape
        (2, 3)
        """
        return _n.lazy_newton_schulz(self, steps, params, eps)

    # ---- hashes

    def keccak(self, cfg: str | tuple[int, int] = "sha3_256") -> Self:
        """The Keccak hash of the bytes of the last axis.

        >>> Tensor(b"abc").keccak().data().tobytes().hex()[:8]
        '3a985da7'
        """
        if isinstance(cfg, tuple):
            return _n.lazy_keccak_rate(self, *cfg)
        return _n.lazy_keccak(self, cfg)

    def hash(self) -> Self:
        """16 bytes that identify the data.

        >>> Tensor(b"abc").hash().shape
        (16,)
        """
        return _n.lazy_hash(self)

    # ---- not offered

    def image_dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """As dot: there are no image formats.

        >>> Tensor([[1.0, 2.0]]).image_dot(Tensor([[1.0], [1.0]])).tolist()
        [[3.0]]
        """
        return self.dot(w, dtype)

    def image_conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """As conv2d: there are no image formats.

        >>> Tensor.ones(1, 1, 2, 2).image_conv2d(Tensor.ones(1, 1, 2, 2)).tolist()
        [[[[4.0]]]]
        """
        return self.conv2d(weight, bias, groups, stride, dilation, padding, dtype)


_INTERPOLATION = {"linear": 0, "nearest": 1, "nearest-exact": 2}
