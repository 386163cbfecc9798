"""Reductions, running reductions, sorting and statistics."""

from __future__ import annotations

from typing import Any, Self, Sequence

from .. import _native as _n
from ..dtype import DTypeLike, code_of
from .movement import MovementMixin

Axes = int | Sequence[int] | None


def _axes(x: MovementMixin, axis: Axes) -> Any:
    """Axes as the library takes them: None means all. Of a 0-d tensor 0 and -1 are axes as well."""
    if axis is None:
        return None
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if axes and not x.ndim:
        for a in axes:
            x._resolve_dim(a)
        return ()
    return axes


def _along(x: Any, axis: int) -> Any:
    """x, with an axis to work along: a 0-d tensor gets one."""
    if x.ndim:
        return x
    x._resolve_dim(axis)
    return x.reshape(1)


class ReduceMixin(MovementMixin):
    """Methods that combine elements along axes."""

    __slots__ = ()

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum over axes, all without axis; in dtype, or at least 32 bits wide inside.

        >>> Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
        [4, 6]
        """
        if dtype is not None:
            return _n.lazy_sum_dtype(self, _axes(self, axis), keepdim, code_of(dtype))
        return _n.lazy_sum(self, _axes(self, axis), keepdim)

    def prod(
        self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """The product over axes.

        >>> Tensor([[1, 2], [3, 4]]).prod(axis=1).tolist()
        [2, 12]
        """
        if dtype is not None:
            return _n.lazy_prod_dtype(self, _axes(self, axis), keepdim, code_of(dtype))
        return _n.lazy_prod(self, _axes(self, axis), keepdim)

    def max(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The maximum over axes; NaN wins.

        >>> Tensor([[1, 2], [3, 4]]).max(axis=1, keepdim=True).tolist()
        [[2], [4]]
        """
        return _n.lazy_max(self, _axes(self, axis), keepdim)

    def min(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The minimum over axes; NaN wins.

        >>> Tensor([[1, 2], [3, 4]]).min().item()
        1
        """
        return _n.lazy_min(self, _axes(self, axis), keepdim)

    def any(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """True where any element is not 0.

        >>> Tensor([[True, False], [False, False]]).any(axis=1).tolist()
        [True, False]
        """
        return _n.lazy_any(self, _axes(self, axis), keepdim)

    def all(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """True where no element is 0.

        >>> Tensor([[True, False], [True, True]]).all(axis=1).tolist()
        [False, True]
        """
        return _n.lazy_all(self, _axes(self, axis), keepdim)

    def mean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The mean over axes; float32 for integers.

        >>> Tensor([[1, 2], [3, 5]]).mean(axis=1).tolist()
        [1.5, 4.0]
        """
        return _n.lazy_mean(self, _axes(self, axis), keepdim)

    def var(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """The variance over axes: squares divided by max(n - correction, 0).

        >>> Tensor([1.0, 3.0]).var().item()
        2.0
        """
        return _n.lazy_var(self, _axes(self, axis), keepdim, correction)

    def var_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """Variance and mean.

        >>> [t.item() for t in Tensor([1.0, 3.0]).var_mean()]
        [2.0, 2.0]
        """
        return _n.lazy_var_mean(self, _axes(self, axis), keepdim, correction)

    def std(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """The standard deviation over axes: the root of var.

        >>> Tensor([1.0, 5.0]).std(correction=0).item()
        2.0
        """
        return _n.lazy_std(self, _axes(self, axis), keepdim, correction)

    def std_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """Standard deviation and mean.

        >>> [t.item() for t in Tensor([1.0, 5.0]).std_mean(correction=0)]
        [2.0, 3.0]
        """
        return _n.lazy_std_mean(self, _axes(self, axis), keepdim, correction)

    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """log sum e^x over axes, without overflow.

        >>> round(Tensor([0.0, 0.0]).logsumexp().item(), 3)
        0.693
        """
        return _n.lazy_logsumexp(self, _axes(self, axis), keepdim)

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The place of the first maximum along an axis, or in the flattened tensor.

        >>> Tensor([[1, 3], [4, 2]]).argmax(axis=1).tolist()
        [1, 0]
        """
        if axis is None:
            return _n.lazy_argmax(self.flatten(), 0, False)
        return _n.lazy_argmax(self if self.ndim else self.reshape(1), axis, keepdim)

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The place of the first minimum along an axis, or in the flattened tensor.

        >>> Tensor([[1, 3], [4, 2]]).argmin(axis=1).tolist()
        [0, 1]
        """
        if axis is None:
            return _n.lazy_argmin(self.flatten(), 0, False)
        return _n.lazy_argmin(self if self.ndim else self.reshape(1), axis, keepdim)

    # ---- running reductions

    def cumsum(self, axis: int = 0) -> Self:
        """The sum of the elements up to each, along an axis.

        >>> Tensor([1, 2, 3]).cumsum().tolist()
        [1, 3, 6]
        """
        return _n.lazy_cumsum(self, axis)

    def cumprod(self, axis: int) -> Self:
        """The product of the elements up to each, along an axis.

        >>> Tensor([1, 2, 3]).cumprod(0).tolist()
        [1, 2, 6]
        """
        return _n.lazy_cumprod(self, axis)

    def cummax(self, axis: int = 0) -> tuple[Self, Self]:
        """The maximum of the elements up to each, and its place.

        >>> [t.tolist() for t in Tensor([1, 3, 2]).cummax()]
        [[1, 3, 3], [0, 1, 1]]
        """
        return _n.lazy_cummax(self, axis)

    def cummin(self, axis: int = 0) -> tuple[Self, Self]:
        """The minimum of the elements up to each, and its place.

        >>> [t.tolist() for t in Tensor([3, 1, 2]).cummin()]
        [[3, 1, 1], [0, 1, 1]]
        """
        return _n.lazy_cummin(self, axis)

    def logcumsumexp(self, axis: int = 0) -> Self:
        """log of the sum of e^x of the elements up to each.

        >>> [round(v, 3) for v in Tensor([0.0, 0.0]).logcumsumexp().tolist()]
        [0.0, 0.693]
        """
        return _n.lazy_logcumsumexp(self, axis)

    # ---- sorting

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """The elements in order, and where each came from; equal ones keep their order.

        >>> [t.tolist() for t in Tensor([3, 1, 2]).sort()]
        [[1, 2, 3], [1, 2, 0]]
        """
        return _n.lazy_sort(self, dim, descending)

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        """The places of the elements in order.

        >>> Tensor([3, 1, 2]).argsort().tolist()
        [1, 2, 0]
        """
        return _n.lazy_argsort(self, dim, descending)

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """The k greatest (or least) elements in order, and their places.

        >>> [t.tolist() for t in Tensor([3, 1, 2]).topk(2)]
        [[3, 2], [0, 2]]
        """
        if not sorted_:
            raise NotImplementedError("topk with sorted_=False is not supported")
        return _n.lazy_topk(self, k, dim, largest)

    # ---- normalising

    def softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """e^(x - max) / sum e^(x - max) along an axis.

        >>> Tensor([0.0, 0.0]).softmax().tolist()
        [0.5, 0.5]
        """
        out = _n.lazy_softmax_dtype(_along(self, axis), axis, code_of(dtype))
        return out if self.ndim else out.reshape(())

    def softmin(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """softmax(-x).

        >>> Tensor([0.0, 0.0]).softmin().tolist()
        [0.5, 0.5]
        """
        out = _n.lazy_softmin(_along(self, axis), axis, code_of(dtype))
        return out if self.ndim else out.reshape(())

    def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """log(softmax(x)).

        >>> [round(v, 3) for v in Tensor([0.0, 0.0]).log_softmax().tolist()]
        [-0.693, -0.693]
        """
        out = _n.lazy_log_softmax_dtype(_along(self, axis), axis, code_of(dtype))
        return out if self.ndim else out.reshape(())

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """x divided by its p-norm along an axis, by eps where that is less.

        >>> Tensor([[3.0, 4.0]]).normalize().tolist()
        [[0.6000000238418579, 0.800000011920929]]
        """
        return _n.lazy_normalize(self, p, dim, eps)

    def layernorm(self, axis: int | tuple[int, ...] = -1, eps: float = 1e-5) -> Self:
        """(x - mean) / sqrt(var + eps) over axes.

        >>> [round(v, 2) for v in Tensor([1.0, 3.0]).layernorm().tolist()]
        [-1.0, 1.0]
        """
        return _n.lazy_layernorm(self, _axes(self, axis), eps)

    def batchnorm(
        self,
        weight: Self | None,
        bias: Self | None,
        mean: Self,
        invstd: Self,
        axis: int | tuple[int, ...] = 1,
    ) -> Self:
        """(x - mean) * weight * invstd + bias along an axis.

        >>> x, ones = Tensor([[1.0, 2.0]]), Tensor([1.0, 1.0])
        >>> x.batchnorm(ones, None, ones, ones).tolist()
        [[0.0, 1.0]]
        """
        return _n.lazy_batchnorm(self, weight, bias, mean, invstd, _axes(self, axis))
