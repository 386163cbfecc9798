"""The operators that write: +=, *= and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from .creation import CreationMixin


class InPlaceMixin(CreationMixin):
    """Operators that assign what the operator of two operands gives."""

    __slots__ = ()

    if TYPE_CHECKING:  # of Tensor

        def assign(self, x: Any) -> Self: ...

    def __iadd__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self + x)

    def __isub__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self - x)

    def __imul__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self * x)

    def __itruediv__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self / x)

    def __ifloordiv__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self // x)

    def __imod__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self % x)

    def __ipow__(self, x: Any) -> Self:  # type: ignore[override, misc]
        return self.assign(self**x)

    def __iand__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self & x)

    def __ior__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self | x)

    def __ixor__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self ^ x)

    def __ilshift__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self << x)

    def __irshift__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self >> x)

    def __imatmul__(self, x: Any) -> Self:  # type: ignore[misc]
        return self.assign(self @ x)
