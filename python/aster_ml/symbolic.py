"""Variables: sizes and indices that change between calls of a captured function.

>>> i = Variable("i", 1, 10)
>>> n = i.bind(3)
>>> n, n + 1, (n + 1).unbind_all()[1]
(i=3, (i+1)=4, {Variable('i', 1, 10): 3})
>>> (i * 2 + 1).vmax
21

A bound variable is a number that remembers where it came from. As a size or a position it stays a
variable: what is built from it serves every value (see the package dynamic). Where a program looks
at its value (int(), a comparison that the bounds do not decide), a recording TinyJit notes what it
saw, and replays only where that holds. An unbound one has no value, so it cannot be a size.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Union

from .dtype import DType
from .expression import VALUE, Expression, UOp, Variable, combine, resolve, sym_infer

__all__ = [
    "BoundInt", "Expression", "UOp", "Variable", "bindings", "extreme", "note_seen", "resolve",
    "sint", "sym_infer",
]  # fmt: skip

_installed: list[bool] = []  # nothing looks out for variables until one is bound


def bound(variable: Variable, value: int) -> BoundInt:
    """The variable with a value, which it may have."""
    if not _installed:
        from . import dynamic

        _installed.append(True)
        dynamic.install()
    return BoundInt(value, variable, {variable: value})


# While a TinyJit records: what the program saw of bound variables, expression by expression.
_seen: list[dict[Expression, int]] = []


def note_seen(into: dict[Expression, int] | None) -> None:
    """From now on values that are looked at are noted in a dict; None: no longer."""
    _seen.clear()
    if into is not None:
        _seen.append(into)


class BoundInt(UOp):
    """A bound variable, or what was computed from bound ones: a value with its expression."""

    __slots__ = ("expression", "bound", "_value")

    def __init__(self, value: int, expression: Expression, bound: dict[Variable, int]):
        self._value, self.expression, self.bound = value, expression, bound

    def __repr__(self) -> str:
        return f"{self.expression.render()}={self._value}"

    # ---- its value, seen

    def __index__(self) -> int:
        if _seen:
            _seen[0][self.expression] = self._value
        return self._value

    __int__ = __index__
    __trunc__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __bool__(self) -> bool:
        return _compare("!=", self, 0)

    def __eq__(self, x: object) -> bool:
        return _compare("==", self, x)

    def __ne__(self, x: object) -> bool:
        return _compare("!=", self, x)

    def __lt__(self, x: Any) -> bool:
        return _compare("<", self, x)

    def __le__(self, x: Any) -> bool:
        return _compare("<=", self, x)

    def __gt__(self, x: Any) -> bool:
        return _compare(">", self, x)

    def __ge__(self, x: Any) -> bool:
        return _compare(">=", self, x)

    def __truediv__(self, x: Any) -> Any:
        return NotImplemented if hasattr(x, "dtype") else int(self) / x

    def __rtruediv__(self, x: Any) -> Any:
        return x / int(self)

    def __pow__(self, x: Any) -> Any:
        return NotImplemented if hasattr(x, "dtype") else int(self) ** x

    def __rpow__(self, x: Any) -> Any:
        return x ** int(self)

    def __abs__(self) -> Any:
        return self if self.vmin >= 0 else abs(int(self))

    def __format__(self, how: str) -> str:
        return format(int(self), how) if how else repr(self)

    @property
    def val(self) -> int:
        """The value as a plain int."""
        return int(self)

    # ---- what is known without it

    def same(self, x: Any) -> bool:
        """Whether x is this number whatever the values of the variables."""
        return isinstance(x, BoundInt) and x.expression == self.expression

    @property
    def vmin(self) -> int:
        return self.expression.vmin

    @property
    def vmax(self) -> int:
        return self.expression.vmax

    @property
    def dtype(self) -> DType:
        return self.expression.dtype

    @property
    def expr(self) -> str:
        return self.expression.render()

    def render(self) -> str:
        return self.expression.render()

    def simplify(self) -> BoundInt:
        return self

    def variables(self) -> list[Variable]:
        return self.expression.variables()

    def unbind(self) -> tuple[Variable, int]:
        """The variable and its value; only of a variable itself."""
        assert isinstance(self.expression, Variable), f"cannot unbind {self!r}"
        return self.expression, self._value

    def unbind_all(self) -> tuple[Expression, dict[Variable, int]]:
        """The expression, and the values of its variables."""
        return self.expression, dict(self.bound)

    def __add__(self, x: Any) -> Any:
        return _bound("+", self, x)

    def __radd__(self, x: Any) -> Any:
        return _bound("+", x, self)

    def __sub__(self, x: Any) -> Any:
        return _bound("-", self, x)

    def __rsub__(self, x: Any) -> Any:
        return _bound("-", x, self)

    def __mul__(self, x: Any) -> Any:
        return _bound("*", self, x)

    def __rmul__(self, x: Any) -> Any:
        return _bound("*", x, self)

    def __floordiv__(self, x: Any) -> Any:
        return _bound("//", self, x)

    def __rfloordiv__(self, x: Any) -> Any:
        return _bound("//", x, self)

    def __mod__(self, x: Any) -> Any:
        return _bound("%", self, x)

    def __rmod__(self, x: Any) -> Any:
        return _bound("%", x, self)

    def __neg__(self) -> Any:
        return _bound("*", self, -1)


sint = Union[int, Expression, BoundInt]


_COMPARE: dict[str, Callable[[Any, Any], Any]] = dict(VALUE)


def _compare(op: str, a: BoundInt, b: Any) -> Any:
    """A comparison as bool; noted as seen where the bounds do not decide it."""
    if isinstance(b, float) or hasattr(b, "__index__") and not isinstance(b, (int, BoundInt)):
        return _COMPARE[op](int(a), b)
    if not isinstance(b, (int, BoundInt)):
        if op in ("==", "!="):
            return op == "!="
        return NotImplemented
    if isinstance(b, BoundInt) and a.same(b) and a._value != b._value:
        return VALUE[op](a._value, b._value)  # two bindings of one variable
    value = bool(VALUE[op](a._value, b._value if isinstance(b, BoundInt) else b))
    if _seen and isinstance(expression := combine("-", a, b), Expression):
        condition = Expression(op, (expression, 0))
        if condition.vmin != condition.vmax:
            _seen[0][condition] = int(value)
    return value


def _bound(op: str, a: Any, b: Any) -> Any:
    """op on numbers of which one is bound."""
    if not (isinstance(a, (int, BoundInt)) and isinstance(b, (int, BoundInt))):
        if isinstance(a, Expression) or isinstance(b, Expression):
            return combine(op, a, b)
        if isinstance(a, float) or isinstance(b, float):
            plain: list[Any] = [int(x) if isinstance(x, BoundInt) else x for x in (a, b)]
            plainly: Callable[[Any, Any], Any] = _PLAIN.get(op, VALUE[op])
            return plainly(plain[0], plain[1])
        return NotImplemented
    if b.__class__ is int and (b == 0 and op in "+-" or b == 1 and op == "*"):
        return a
    values: dict[Variable, int] = {}
    for x in (a, b):
        for variable, value in getattr(x, "bound", {}).items():
            if values.setdefault(variable, value) != value:
                raise RuntimeError(f"bind mismatch: {variable!r} is {values[variable]} and {value}")
    # As Python has it: a zero divisor is an error once values are known.
    numbers = [x._value if isinstance(x, BoundInt) else x for x in (a, b)]
    number = _PLAIN.get(op, VALUE[op])(numbers[0], numbers[1])
    expression = combine(op, a, b)
    if not isinstance(expression, Expression):
        return number
    return BoundInt(number, expression, {v: values[v] for v in expression.variables()})


def extreme(op: str, a: Any, b: Any) -> Any:
    """max or min of two numbers; one of them where the bounds decide it."""
    low = (getattr(a, "expression", a), getattr(b, "expression", b))
    least = [getattr(x, "vmin", x) for x in low]
    most = [getattr(x, "vmax", x) for x in low]
    if least[0] >= most[1]:
        return a if op == "max" else b
    if least[1] >= most[0]:
        return b if op == "max" else a
    return _bound(op, a, b) if BoundInt in (type(a), type(b)) else combine(op, a, b)


_PLAIN: dict[str, Callable[[Any, Any], Any]] = {"//": operator.floordiv, "%": operator.mod}


def bindings(values: Any) -> dict[Variable, int]:
    """The variables in sizes, with their values. Raises RuntimeError where two differ."""
    out: dict[Variable, int] = {}
    for x in values:
        for variable, value in getattr(x, "bound", {}).items():
            if out.setdefault(variable, value) != value:
                raise RuntimeError(f"bind mismatch: {variable!r} is {out[variable]} and {value}")
    return out
