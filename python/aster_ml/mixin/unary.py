"""Dtypes, and functions of one tensor element by element: one native call each."""

from __future__ import annotations

import builtins
from typing import Any, Literal, Self

from .. import _native as _n
from ..dtype import DType, DTypeLike, dtypes, from_code, is_weak_code, to_dtype


# What there is to look up beside the library's handles: "file" once a tensor is a part of a file.
# Nothing is looked up while it is empty.
_marks: dict[str, bool] = {}


def remember_file(out: Any, x: Any) -> Any:
    """out, a view of x, is a part of the file that x is a part of."""
    path = getattr(x, "_file", None) if _marks else None
    if path is not None:
        out._file = path
    return out


class UnaryMixin(_n.Lazy):
    """Methods that work on the elements of one tensor."""

    __slots__ = ()

    # ---- dtypes

    @property
    def dtype(self) -> DType:
        """The dtype.

        >>> Tensor([1, 2]).dtype
        dtypes.int
        """
        return from_code(_n.lazy_dtype(self))

    def cast(self, dtype: DTypeLike) -> Self:
        """Converted to dtype: integers wrap, floats are truncated toward zero.

        >>> Tensor([1.7, -2.5]).cast(dtypes.int32).tolist()
        [1, -2]
        """
        code = to_dtype(dtype).code
        return self if code == _n.lazy_dtype(self) else _n.lazy_cast(self, code)

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The bits read as dtype; the last axis grows or shrinks where the sizes differ.

        >>> Tensor([1.0], dtype="float32").bitcast("uint32").tolist()
        [1065353216]
        """
        code = to_dtype(dtype).code
        if is_weak_code(code) or is_weak_code(_n.lazy_dtype(self)):
            raise RuntimeError(f"bitcast needs concrete dtypes, got {self.dtype} -> {dtype}")
        if code == _n.lazy_dtype(self):
            return self
        return remember_file(_n.lazy_bitcast(self, code), self)

    def element_size(self) -> builtins.int:
        """Bytes of one element.

        >>> Tensor([1, 2], dtype="int16").element_size()
        2
        """
        if self.dtype in dtypes.weaks:
            raise RuntimeError(f"element_size needs a concrete dtype, got {self.dtype}")
        return self.dtype.itemsize

    def is_floating_point(self) -> builtins.bool:
        """True for float dtypes.

        >>> Tensor([1.5]).is_floating_point(), Tensor([1]).is_floating_point()
        (True, False)
        """
        return dtypes.is_float(self.dtype)

    def float(self) -> Self:
        """Cast to float32.

        >>> Tensor([0.0, 2.0]).float().dtype
        dtypes.float
        """
        return self.cast(dtypes.float32)

    def half(self) -> Self:
        """Cast to float16.

        >>> Tensor([0.0, 2.0]).half().dtype
        dtypes.half
        """
        return self.cast(dtypes.float16)

    def int(self) -> Self:
        """Cast to int32.

        >>> Tensor([0.0, 2.0]).int().dtype
        dtypes.int
        """
        return self.cast(dtypes.int32)

    def bool(self) -> Self:
        """Cast to bool.

        >>> Tensor([0.0, 2.0]).bool().dtype
        dtypes.bool
        """
        return self.cast(dtypes.bool)

    def bfloat16(self) -> Self:
        """Cast to bfloat16.

        >>> Tensor([0.0, 2.0]).bfloat16().dtype
        dtypes.bfloat16
        """
        return self.cast(dtypes.bfloat16)

    def double(self) -> Self:
        """Cast to float64.

        >>> Tensor([0.0, 2.0]).double().dtype
        dtypes.double
        """
        return self.cast(dtypes.float64)

    def long(self) -> Self:
        """Cast to int64.

        >>> Tensor([0.0, 2.0]).long().dtype
        dtypes.long
        """
        return self.cast(dtypes.int64)

    def short(self) -> Self:
        """Cast to int16.

        >>> Tensor([0.0, 2.0]).short().dtype
        dtypes.short
        """
        return self.cast(dtypes.int16)

    # ---- one operand

    def neg(self) -> Self:
        """-x; logical not for bool.

        >>> Tensor([1, -2]).neg().tolist()
        [-1, 2]
        """
        return _n.lazy_neg(self)

    def abs(self) -> Self:
        """|x|.

        >>> Tensor([1, -2]).abs().tolist()
        [1, 2]
        """
        return _n.lazy_abs(self)

    def sign(self) -> Self:
        """-1, 0 or 1.

        >>> Tensor([3.0, 0.0, -2.0]).sign().tolist()
        [1.0, 0.0, -1.0]
        """
        return _n.lazy_sign(self)

    def square(self) -> Self:
        """x * x.

        >>> Tensor([3, -2]).square().tolist()
        [9, 4]
        """
        return _n.lazy_square(self)

    def trunc(self) -> Self:
        """Rounded toward zero.

        >>> Tensor([1.7, -1.7]).trunc().tolist()
        [1.0, -1.0]
        """
        return _n.lazy_trunc(self)

    def floor(self) -> Self:
        """Rounded down.

        >>> Tensor([1.7, -1.7]).floor().tolist()
        [1.0, -2.0]
        """
        return _n.lazy_floor(self)

    def ceil(self) -> Self:
        """Rounded up.

        >>> Tensor([1.7, -1.7]).ceil().tolist()
        [2.0, -1.0]
        """
        return _n.lazy_ceil(self)

    def round(self) -> Self:
        """Rounded to the nearest integer, ties to even.

        >>> Tensor([0.5, 1.5, -1.2]).round().tolist()
        [0.0, 2.0, -1.0]
        """
        return _n.lazy_round(self)

    def logical_not(self) -> Self:
        """x == 0, as bool.

        >>> Tensor([0, 2]).logical_not().tolist()
        [True, False]
        """
        return _n.lazy_logical_not(self)

    def bitwise_not(self) -> Self:
        """~x; logical for bool.

        >>> Tensor([0, 5]).bitwise_not().tolist()
        [-1, -6]
        """
        return _n.lazy_bitwise_not(self)

    def isnan(self) -> Self:
        """True for NaN.

        >>> Tensor([1.0, float('nan')]).isnan().tolist()
        [False, True]
        """
        return _n.lazy_isnan(self)

    def is_error(self) -> Self:
        """True for ERR of sticky integers.

        >>> Tensor([1, 200], dtype=dtypes.tbb8).is_error().tolist()
        [False, True]
        """
        return _n.lazy_is_error(self)

    def error_count(self) -> Self:
        """How many elements are ERR.

        >>> Tensor([1, 200, -128], dtype=dtypes.tbb8).error_count().item()
        2
        """
        return _n.lazy_error_count(self)

    def error_rows(self) -> Self:
        """Which rows, along the last axis, have an ERR: those that a product from here spoils.

        >>> Tensor([[1, 2], [3, 200]], dtype=dtypes.tbb8).error_rows().tolist()
        [False, True]
        """
        return _n.lazy_error_rows(self)

    def error_columns(self) -> Self:
        """Which columns, along the last axis but one, have an ERR.

        >>> Tensor([[1, 2], [200, 3]], dtype=dtypes.tbb8).error_columns().tolist()
        [True, False]
        """
        return _n.lazy_error_columns(self)

    def first_error(self) -> Self:
        """Where the first ERR is, an index for every axis; -1 where there is none.

        >>> Tensor([[1, 2], [200, 3]], dtype=dtypes.tbb8).first_error().tolist()
        [1, 0]
        """
        return _n.lazy_first_error(self)

    def isfinite(self) -> Self:
        """True for what is neither infinite nor NaN.

        >>> Tensor([1.0, float('inf')]).isfinite().tolist()
        [True, False]
        """
        return _n.lazy_isfinite(self)

    def reciprocal(self) -> Self:
        """1 / x.

        >>> Tensor([2.0, 4.0]).reciprocal().tolist()
        [0.5, 0.25]
        """
        return _n.lazy_reciprocal(self)

    def sqrt(self) -> Self:
        """Square root.

        >>> Tensor([4.0, 9.0]).sqrt().tolist()
        [2.0, 3.0]
        """
        return _n.lazy_sqrt(self)

    def rsqrt(self) -> Self:
        """1 / sqrt(x).

        >>> Tensor([4.0, 16.0]).rsqrt().tolist()
        [0.5, 0.25]
        """
        return _n.lazy_rsqrt(self)

    def exp(self) -> Self:
        """e^x.

        >>> Tensor([0.0]).exp().tolist()
        [1.0]
        """
        return _n.lazy_exp(self)

    def exp2(self) -> Self:
        """2^x.

        >>> Tensor([3.0, -1.0]).exp2().tolist()
        [8.0, 0.5]
        """
        return _n.lazy_exp2(self)

    def log(self) -> Self:
        """Natural logarithm.

        >>> Tensor([1.0]).log().tolist()
        [0.0]
        """
        return _n.lazy_log(self)

    def log2(self) -> Self:
        """Logarithm to base 2.

        >>> Tensor([8.0, 0.5]).log2().tolist()
        [3.0, -1.0]
        """
        return _n.lazy_log2(self)

    def log10(self) -> Self:
        """Logarithm to base 10.

        >>> Tensor([1.0]).log10().tolist()
        [0.0]
        """
        return _n.lazy_log10(self)

    def sin(self) -> Self:
        """Sine.

        >>> Tensor([0.0]).sin().tolist()
        [0.0]
        """
        return _n.lazy_sin(self)

    def cos(self) -> Self:
        """Cosine.

        >>> Tensor([0.0]).cos().tolist()
        [1.0]
        """
        return _n.lazy_cos(self)

    def tan(self) -> Self:
        """Tangent.

        >>> Tensor([0.0]).tan().tolist()
        [0.0]
        """
        return _n.lazy_tan(self)

    def asin(self) -> Self:
        """Arc sine.

        >>> round(Tensor([1.0]).asin().item(), 3)
        1.571
        """
        return _n.lazy_asin(self)

    def acos(self) -> Self:
        """Arc cosine.

        >>> round(Tensor([0.0]).acos().item(), 3)
        1.571
        """
        return _n.lazy_acos(self)

    def atan(self) -> Self:
        """Arc tangent.

        >>> round(Tensor([1.0]).atan().item(), 3)
        0.785
        """
        return _n.lazy_atan(self)

    def sinh(self) -> Self:
        """Hyperbolic sine.

        >>> Tensor([0.0]).sinh().tolist()
        [0.0]
        """
        return _n.lazy_sinh(self)

    def cosh(self) -> Self:
        """Hyperbolic cosine.

        >>> Tensor([0.0]).cosh().tolist()
        [1.0]
        """
        return _n.lazy_cosh(self)

    def tanh(self) -> Self:
        """Hyperbolic tangent.

        >>> Tensor([0.0]).tanh().tolist()
        [0.0]
        """
        return _n.lazy_tanh(self)

    def asinh(self) -> Self:
        """Inverse hyperbolic sine.

        >>> Tensor([0.0]).asinh().tolist()
        [0.0]
        """
        return _n.lazy_asinh(self)

    def acosh(self) -> Self:
        """Inverse hyperbolic cosine.

        >>> Tensor([1.0]).acosh().tolist()
        [0.0]
        """
        return _n.lazy_acosh(self)

    def atanh(self) -> Self:
        """Inverse hyperbolic tangent.

        >>> Tensor([0.0]).atanh().tolist()
        [0.0]
        """
        return _n.lazy_atanh(self)

    def erf(self) -> Self:
        """Error function.

        >>> round(Tensor([1.0]).erf().item(), 3)
        0.843
        """
        return _n.lazy_erf(self)

    def relu(self) -> Self:
        """x where x > 0, else 0.

        >>> Tensor([-1.0, 2.0]).relu().tolist()
        [0.0, 2.0]
        """
        return _n.lazy_relu(self)

    def relu6(self) -> Self:
        """min(max(x, 0), 6).

        >>> Tensor([-1.0, 2.0, 9.0]).relu6().tolist()
        [0.0, 2.0, 6.0]
        """
        return _n.lazy_relu6(self)

    def sigmoid(self) -> Self:
        """1 / (1 + e^-x).

        >>> Tensor([0.0]).sigmoid().tolist()
        [0.5]
        """
        return _n.lazy_sigmoid(self)

    def silu(self) -> Self:
        """x * sigmoid(x).

        >>> Tensor([0.0]).silu().tolist()
        [0.0]
        """
        return _n.lazy_silu(self)

    def hardswish(self) -> Self:
        """x * relu6(x + 3) / 6.

        >>> Tensor([-4.0, 0.0]).hardswish().tolist()
        [-0.0, 0.0]
        """
        return _n.lazy_hardswish(self)

    def quick_gelu(self) -> Self:
        """x * sigmoid(1.702 x).

        >>> Tensor([0.0]).quick_gelu().tolist()
        [0.0]
        """
        return _n.lazy_quick_gelu(self)

    def mish(self) -> Self:
        """x * tanh(softplus(x)).

        >>> Tensor([0.0]).mish().tolist()
        [0.0]
        """
        return _n.lazy_mish(self)

    def logsigmoid(self) -> Self:
        """log(sigmoid(x)).

        >>> round(Tensor([0.0]).logsigmoid().item(), 3)
        -0.693
        """
        return _n.lazy_logsigmoid(self)

    def softsign(self) -> Self:
        """x / (1 + |x|).

        >>> Tensor([1.0, -3.0]).softsign().tolist()
        [0.5, -0.75]
        """
        return _n.lazy_softsign(self)

    def swish(self) -> Self:
        """x * sigmoid(x), as silu.

        >>> Tensor([0.0]).swish().tolist()
        [0.0]
        """
        return _n.lazy_silu(self)

    def gelu(self, approximate: str = "tanh") -> Self:
        """x/2 (1 + erf(x / sqrt(2))), by tanh unless approximate is "none".

        >>> round(Tensor([1.0]).gelu().item(), 3)
        0.841
        """
        if approximate == "tanh":
            return _n.lazy_gelu(self)
        if approximate == "none":
            return _n.lazy_gelu_erf(self)
        raise RuntimeError(f"approximate is 'tanh' or 'none', not {approximate!r}")

    def isinf(
        self, detect_positive: builtins.bool = True, detect_negative: builtins.bool = True
    ) -> Self:
        """True for +inf and -inf, as asked.

        >>> Tensor([1.0, float("-inf")]).isinf().tolist()
        [False, True]
        """
        return _n.lazy_isinf_signed(self, detect_positive, detect_negative)

    def leaky_relu(self, neg_slope: builtins.float = 0.01) -> Self:
        """x where x > 0, else neg_slope * x.

        >>> Tensor([-2.0, 2.0]).leaky_relu(0.5).tolist()
        [-1.0, 2.0]
        """
        return _n.lazy_leaky_relu(self, neg_slope)

    def elu(self, alpha: builtins.float = 1.0) -> Self:
        """x where x > 0, else alpha (e^x - 1).

        >>> Tensor([2.0, 0.0]).elu().tolist()
        [2.0, 0.0]
        """
        return _n.lazy_elu(self, alpha)

    def celu(self, alpha: builtins.float = 1.0) -> Self:
        """max(x, 0) + min(alpha (e^(x/alpha) - 1), 0).

        >>> Tensor([2.0, 0.0]).celu().tolist()
        [2.0, 0.0]
        """
        return _n.lazy_celu(self, alpha)

    def selu(self, alpha: builtins.float = 1.67326, gamma: builtins.float = 1.0507) -> Self:
        """gamma x where x >= 0, else gamma alpha (e^x - 1).

        >>> Tensor([0.0]).selu().tolist()
        [0.0]
        """
        return _n.lazy_selu(self, alpha, gamma)

    def softplus(self, beta: builtins.float = 1.0) -> Self:
        """log(1 + e^(beta x)) / beta.

        >>> round(Tensor([0.0]).softplus().item(), 3)
        0.693
        """
        return _n.lazy_softplus_beta(self, beta) if beta != 1 else _n.lazy_softplus(self)

    def hardsigmoid(self, alpha: builtins.float = 1 / 6, beta: builtins.float = 0.5) -> Self:
        """alpha x + beta between 0 and 1.

        >>> Tensor([-4.0, 0.0, 4.0]).hardsigmoid().tolist()
        [0.0, 0.5, 1.0]
        """
        return _n.lazy_hardsigmoid(self, alpha, beta)

    def hardtanh(self, min_val: builtins.float = -1, max_val: builtins.float = 1) -> Self:
        """x between min_val and max_val.

        >>> Tensor([-4.0, 0.5]).hardtanh().tolist()
        [-1.0, 0.5]
        """
        return _n.lazy_hardtanh(self, min_val, max_val)

    def detach(self) -> Self:
        """The same value, through which no gradient flows.

        >>> Tensor([1.0]).detach().tolist()
        [1.0]
        """
        return _n.lazy_detach(self)

    def contiguous(self, **kwargs: Any) -> Self:
        """The same value, in storage of its own layout when realised.

        >>> Tensor([[1, 2], [3, 4]]).T.contiguous().tolist()
        [[1, 3], [2, 4]]
        """
        if self.dtype in dtypes.weaks:
            return self
        return _n.lazy_contiguous(self)

    def checkpoint(self, *inputs: Any) -> Self:
        """self, whose gradient computes anew what lies between the inputs and self.

        A training step then holds less memory, and takes the time of that part once more. Values
        and gradients have the same bits. Gradients of the last layers are to be asked for first:
        results are computed in their order, and what is computed anew is held for the last of them.

        >>> x = Tensor([1.0, 2.0])
        >>> _ = (x.exp().sin().checkpoint(x) * 2).sum().backward()
        >>> y = Tensor([1.0, 2.0])
        >>> _ = (y.exp().sin() * 2).sum().backward()
        >>> x.grad.tolist() == y.grad.tolist()
        True
        """
        return _n.gradient_checkpoint(self, inputs)

    def contiguous_backward(self) -> Self:
        """The same value; its gradient is made contiguous.

        >>> Tensor([1.0]).contiguous_backward().tolist()
        [1.0]
        """
        return _n.lazy_contiguous_backward(self)
