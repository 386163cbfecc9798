"""Elementwise functions of several tensors, and operators: one native call each.

Operands broadcast and promote; Python numbers are weak and take the tensor's dtype. Results have
the broadcast shape.
"""

from __future__ import annotations

import builtins
from typing import Any, Literal, Protocol, Self, Sequence, Union

from .. import _native as _n
from ..dtype import InvalidType
from ..wide import is_element
from .unary import UnaryMixin


class Array(Protocol):
    """An array of NumPy, or one of its scalars."""

    def __array__(self) -> Any: ...


Operand = Union[
    "ElementwiseMixin", builtins.int, builtins.float, builtins.bool, Array, Sequence[Any]
]


def _listed(xs: Any) -> Any:
    """f(a, b) and f([a, b]) mean the same."""
    return xs[0] if len(xs) == 1 and isinstance(xs[0], (list, tuple)) else xs


class ElementwiseMixin(UnaryMixin):
    """Methods that work element by element."""

    __slots__ = ()

    # ---- two operands

    def add(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x + y; logical or for bool. With reverse, y is self.

        >>> Tensor([1, 2]).add(3).tolist()
        [4, 5]
        """
        return _n.lazy_add(x, self) if reverse else _n.lazy_add(self, x)

    def sub(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x - y. With reverse, y is self.

        >>> Tensor([1, 2]).sub(3).tolist()
        [-2, -1]
        """
        return _n.lazy_sub(x, self) if reverse else _n.lazy_sub(self, x)

    def mul(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x * y; logical and for bool. With reverse, y is self.

        >>> Tensor([1, 2]).mul(3).tolist()
        [3, 6]
        """
        return _n.lazy_mul(x, self) if reverse else _n.lazy_mul(self, x)

    def mod(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """The remainder of floor division, with the sign of y. With reverse, y is self.

        >>> Tensor([-7, 7]).mod(3).tolist()
        [2, 1]
        """
        return _n.lazy_mod(x, self) if reverse else _n.lazy_mod(self, x)

    def bitwise_and(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x & y; logical for bool. With reverse, y is self.

        >>> Tensor([6, 5]).bitwise_and(3).tolist()
        [2, 1]
        """
        return _n.lazy_bitwise_and(x, self) if reverse else _n.lazy_bitwise_and(self, x)

    def bitwise_or(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x | y; logical for bool. With reverse, y is self.

        >>> Tensor([6, 5]).bitwise_or(3).tolist()
        [7, 7]
        """
        return _n.lazy_bitwise_or(x, self) if reverse else _n.lazy_bitwise_or(self, x)

    def bitwise_xor(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x ^ y; logical for bool. With reverse, y is self.

        >>> Tensor([6, 5]).bitwise_xor(3).tolist()
        [5, 6]
        """
        return _n.lazy_bitwise_xor(x, self) if reverse else _n.lazy_bitwise_xor(self, x)

    def lshift(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x << y. With reverse, y is self.

        >>> Tensor([1, 2]).lshift(3).tolist()
        [8, 16]
        """
        return _n.lazy_shl(x, self) if reverse else _n.lazy_shl(self, x)

    def rshift(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x >> y. With reverse, y is self.

        >>> Tensor([8, 16]).rshift(2).tolist()
        [2, 4]
        """
        return _n.lazy_shr(x, self) if reverse else _n.lazy_shr(self, x)

    def fmod(self, x: Operand) -> Self:
        """The remainder of truncating division, with the sign of x.

        >>> Tensor([-7, 7]).fmod(3).tolist()
        [-1, 1]
        """
        return _n.lazy_fmod(self, x)

    def maximum(self, x: Operand) -> Self:
        """The larger; NaN wins.

        >>> Tensor([1, 5]).maximum(3).tolist()
        [3, 5]
        """
        return _n.lazy_maximum(self, x)

    def minimum(self, x: Operand) -> Self:
        """The smaller; NaN wins.

        >>> Tensor([1, 5]).minimum(3).tolist()
        [1, 3]
        """
        return _n.lazy_minimum(self, x)

    def eq(self, x: Operand) -> Self:
        """x == y.

        >>> Tensor([1, 2]).eq(2).tolist()
        [False, True]
        """
        return _n.lazy_eq(self, x)

    def ne(self, x: Operand) -> Self:
        """x != y.

        >>> Tensor([1, 2]).ne(2).tolist()
        [True, False]
        """
        return _n.lazy_ne(self, x)

    def copysign(self, other: Operand) -> Self:
        """|x| with the sign of y.

        >>> Tensor([1.0, 2.0]).copysign(Tensor([-1.0, 1.0])).tolist()
        [-1.0, 2.0]
        """
        return _n.lazy_copysign(self, other)

    def logaddexp(self, other: Operand) -> Self:
        """log(e^x + e^y), without overflow.

        >>> round(Tensor([0.0]).logaddexp(0.0).item(), 3)
        0.693
        """
        return _n.lazy_logaddexp(self, other)

    def div(
        self,
        x: Operand,
        reverse: builtins.bool = False,
        rounding_mode: Literal["trunc", "floor"] | None = None,
    ) -> Self:
        """x / y as a real number, or rounded toward zero or down. With reverse, y is self.

        >>> Tensor([7.0, -7.0]).div(2).tolist()
        [3.5, -3.5]
        >>> Tensor([7, -7]).div(2, rounding_mode="floor").tolist()
        [3, -4]
        """
        a, b = (x, self) if reverse else (self, x)
        if rounding_mode is None:
            return _n.lazy_div(a, b)
        if rounding_mode == "floor":
            return _n.lazy_floordiv(a, b)
        if rounding_mode == "trunc":
            return _n.lazy_truncdiv(a, b)
        raise RuntimeError(f"rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")

    def pow(self, x: Operand, reverse: builtins.bool = False) -> Self:
        """x^y. With reverse, y is self.

        >>> Tensor([2.0, 3.0]).pow(2).tolist()
        [4.0, 9.0]
        """
        if isinstance(x, builtins.int) and x < 0 and not reverse and not self.is_floating_point():
            raise RuntimeError(f"base needs to be float for the power {x}, got {self.dtype}")
        return _n.lazy_pow(x, self) if reverse else _n.lazy_pow(self, x)

    def where(self, x: Operand, y: Operand) -> Self:
        """x where self holds, else y.

        >>> Tensor([True, False]).where(Tensor([1, 2]), 0).tolist()
        [1, 0]
        """
        if isinstance(x, InvalidType) or isinstance(y, InvalidType):  # any value will do there
            x = y = y if isinstance(x, InvalidType) else x
        return _n.lazy_where(self, x, y)

    def masked_fill(self, mask: Self, value: Operand) -> Self:
        """value where mask holds, else self.

        >>> Tensor([1, 2]).masked_fill(Tensor([True, False]), 9).tolist()
        [9, 2]
        """
        if is_element(value):
            value = self.const_like(value)  # type: ignore[attr-defined]
        return _n.lazy_masked_fill(self, mask, value)

    def clamp(self, min_: Operand | None = None, max_: Operand | None = None) -> Self:
        """self, but min_ where it is less and max_ where it is greater.

        >>> Tensor([-3, 0, 5]).clamp(-1, 2).tolist()
        [-1, 0, 2]
        """
        if min_ is None and max_ is None:
            raise RuntimeError("clamp needs min_ or max_")
        return _n.lazy_clamp(self, min_, max_)

    def clip(self, min_: Operand | None = None, max_: Operand | None = None) -> Self:
        """As clamp.

        >>> Tensor([-3, 0, 5]).clip(max_=2).tolist()
        [-3, 0, 2]
        """
        return self.clamp(min_, max_)

    def lerp(self, end: Self, weight: Operand) -> Self:
        """self + (end - self) * weight.

        >>> Tensor([1.0, 2.0]).lerp(Tensor([3.0, 4.0]), 0.5).tolist()
        [2.0, 3.0]
        """
        return _n.lazy_lerp(self, end, weight)

    def isclose(
        self,
        other: Operand,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> Self:
        """|x - y| <= atol + rtol |y|; infinities are close to themselves.

        >>> Tensor([1.0, 2.0]).isclose(Tensor([1.0, 2.1])).tolist()
        [True, False]
        """
        return _n.lazy_isclose(self, other, rtol, atol, equal_nan)

    def allclose(
        self,
        other: Operand,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> Self:
        """True, as a 0-d tensor, if isclose holds everywhere.

        >>> Tensor([1.0, 2.0]).allclose(Tensor([1.0, 2.0])).item()
        True
        """
        return _n.lazy_allclose(self, other, rtol, atol, equal_nan)

    def threefry(self, seed: Self) -> Self:
        """The Threefry 2x32 hash of uint64 counters with a uint64 seed.

        >>> Tensor([1], dtype="uint64").threefry(Tensor([2], dtype="uint64")).dtype
        dtypes.ulong
        """
        return _n.lazy_threefry(self, seed)

    def usum(self, *uops: Any) -> Self:
        """The sum of self and the others; logical or for bool.

        >>> Tensor([1, 2]).usum(Tensor([3, 4]), Tensor([5, 6])).tolist()
        [9, 12]
        """
        return _n.lazy_usum([self, *_listed(uops)])

    def uprod(self, *uops: Any) -> Self:
        """The product of self and the others; logical and for bool.

        >>> Tensor([1, 2]).uprod(Tensor([3, 4]), Tensor([5, 6])).tolist()
        [15, 48]
        """
        return _n.lazy_uprod([self, *_listed(uops)])

    # ---- operators

    def __add__(self, x: Operand) -> Self:
        return _n.lazy_add(self, x)

    def __radd__(self, x: Operand) -> Self:
        return _n.lazy_add(x, self)

    def __sub__(self, x: Operand) -> Self:
        return _n.lazy_sub(self, x)

    def __rsub__(self, x: Operand) -> Self:
        return _n.lazy_sub(x, self)

    def __mul__(self, x: Operand) -> Self:
        return _n.lazy_mul(self, x)

    def __rmul__(self, x: Operand) -> Self:
        return _n.lazy_mul(x, self)

    def __truediv__(self, x: Operand) -> Self:
        return _n.lazy_div(self, x)

    def __rtruediv__(self, x: Operand) -> Self:
        return _n.lazy_div(x, self)

    def __floordiv__(self, x: Operand) -> Self:
        return _n.lazy_floordiv(self, x)

    def __rfloordiv__(self, x: Operand) -> Self:
        return _n.lazy_floordiv(x, self)

    def __mod__(self, x: Operand) -> Self:
        return _n.lazy_mod(self, x)

    def __rmod__(self, x: Operand) -> Self:
        return _n.lazy_mod(x, self)

    def __and__(self, x: Operand) -> Self:
        return _n.lazy_bitwise_and(self, x)

    def __rand__(self, x: Operand) -> Self:
        return _n.lazy_bitwise_and(x, self)

    def __or__(self, x: Operand) -> Self:
        return _n.lazy_bitwise_or(self, x)

    def __ror__(self, x: Operand) -> Self:
        return _n.lazy_bitwise_or(x, self)

    def __xor__(self, x: Operand) -> Self:
        return _n.lazy_bitwise_xor(self, x)

    def __rxor__(self, x: Operand) -> Self:
        return _n.lazy_bitwise_xor(x, self)

    def __lshift__(self, x: Operand) -> Self:
        return _n.lazy_shl(self, x)

    def __rlshift__(self, x: Operand) -> Self:
        return _n.lazy_shl(x, self)

    def __rshift__(self, x: Operand) -> Self:
        return _n.lazy_shr(self, x)

    def __rrshift__(self, x: Operand) -> Self:
        return _n.lazy_shr(x, self)

    def __pow__(self, x: Operand) -> Self:
        return self.pow(x)

    def __rpow__(self, x: Operand) -> Self:
        return self.pow(x, True)

    def __neg__(self) -> Self:
        return _n.lazy_neg(self)

    def __pos__(self) -> Self:
        return self

    def __round__(self, digits: builtins.int | None = None) -> Self:
        if not digits:
            return _n.lazy_round(self)
        return _n.lazy_div(_n.lazy_round(_n.lazy_mul(self, 10.0**digits)), 10.0**digits)

    def __invert__(self) -> Self:
        return _n.lazy_bitwise_not(self)

    def __abs__(self) -> Self:
        return _n.lazy_abs(self)

    def __lt__(self, x: Operand) -> Self:
        return _n.lazy_lt(self, x)

    def __gt__(self, x: Operand) -> Self:
        return _n.lazy_gt(self, x)

    def __le__(self, x: Operand) -> Self:
        return _n.lazy_le(self, x)

    def __ge__(self, x: Operand) -> Self:
        return _n.lazy_ge(self, x)

    def __eq__(self, x: Operand) -> Self:  # type: ignore[override]
        return NotImplemented if x is None else _n.lazy_eq(self, x)  # None equals nothing

    def __ne__(self, x: Operand) -> Self:  # type: ignore[override]
        return NotImplemented if x is None else _n.lazy_ne(self, x)

    def __hash__(self) -> builtins.int:
        return builtins.id(self)
