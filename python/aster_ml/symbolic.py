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

from .dtype import DType, dtypes, least_upper_dtype


def _floordiv(x: int, y: int) -> int:
    return x // y if y else 0


def _mod(x: int, y: int) -> int:
    return x % y if y else x


_VALUE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": _floordiv,
    "%": _mod,
    "max": max,
    "min": min,
    "<": lambda x, y: int(x < y),
    "<=": lambda x, y: int(x <= y),
    ">": lambda x, y: int(x > y),
    ">=": lambda x, y: int(x >= y),
    "==": lambda x, y: int(x == y),
    "!=": lambda x, y: int(x != y),
}


_installed: list[bool] = []  # nothing looks out for variables until one is bound


class UOp:
    """A symbolic integer: a variable, bound or not, or what is computed of variables.

    >>> isinstance(UOp.variable("n", 1, 4).bind(2) + 1, UOp)
    True
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return Variable(*args, **kwargs) if cls is UOp else object.__new__(cls)

    @staticmethod
    def variable(
        name: str, min_val: int, max_val: int, dtype: DType = dtypes.weakint, multiple_of: int = 1
    ) -> Variable:
        """A Variable.

        >>> UOp.variable("n", 1, 4)
        Variable('n', 1, 4)
        """
        return Variable(name, min_val, max_val, dtype, multiple_of)

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def ndim(self) -> int:
        return 0

    def numel(self) -> int:
        return 1


class Expression(UOp):
    """An integer made of variables: an operation on two expressions or numbers."""

    __slots__ = ("op", "src")

    def __init__(self, op: str, src: tuple[Union[Expression, int], ...]):
        self.op, self.src = op, src

    # ---- structure

    def linear(self) -> tuple[dict[Expression, int], int]:
        """Factors of the terms, and the constant, of the sum that it is."""
        parts = [x.linear() if isinstance(x, Expression) else ({}, int(x)) for x in self.src]
        if self.op == "*" and not all(terms for terms, _ in parts):
            (terms, constant), (_, factor) = parts if parts[0][0] else parts[::-1]
            return {t: n * factor for t, n in terms.items()}, constant * factor
        if self.op not in "+-":
            return {self: 1}, 0
        sign = 1 if self.op == "+" else -1
        terms, constant = dict(parts[0][0]), parts[0][1] + sign * parts[1][1]
        for term, n in parts[1][0].items():
            terms[term] = terms.get(term, 0) + sign * n
        return {t: n for t, n in terms.items() if n}, constant

    def _is_sum(self) -> bool:
        return self.op in "+-" or (
            self.op == "*" and not all(isinstance(x, Expression) for x in self.src)
        )

    def _key(self) -> tuple[Any, ...]:
        if self._is_sum():
            terms, constant = self.linear()
            return ("sum", frozenset(terms.items()), constant)
        src = self.src
        if self.op == "*":
            src = tuple(sorted(src, key=lambda x: x.render()))  # type: ignore[union-attr]
        return (self.op, src)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Expression) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<{self.render()}>"

    def __bool__(self) -> bool:
        if self.vmin == self.vmax:
            return bool(self.vmin)
        raise ValueError(f"{self.render()} may be true or false: bind its variables")

    def __index__(self) -> int:
        raise TypeError(f"{self.render()} has no value: bind its variables first")

    def render(self) -> str:
        """The expression as text."""
        a, b = (x.render() if isinstance(x, Expression) else str(int(x)) for x in self.src)
        return f"{self.op}({a}, {b})" if self.op.isalpha() else f"({a}{self.op}{b})"

    def variables(self) -> list[Variable]:
        """The variables inside, by name."""
        found = {v for x in self.src if isinstance(x, Expression) for v in x.variables()}
        return sorted(found, key=lambda v: v.expr)

    vars = variables

    def infer(self, values: dict[str, int]) -> int:
        """The value for these values of the variables."""
        a, b = (x.infer(values) if isinstance(x, Expression) else int(x) for x in self.src)
        return _VALUE[self.op](a, b)

    def substitute(self, values: dict[Any, Any]) -> Any:
        """The expression with variables replaced by numbers or other expressions."""
        if self in values:
            return values[self]
        a, b = (x.substitute(values) if isinstance(x, Expression) else x for x in self.src)
        return _combine(self.op, a, b)

    def simplify(self) -> Any:
        """A number where only one is possible, else the expression."""
        return self.vmin if self.vmin == self.vmax else self

    # ---- bounds

    def _bounds(self) -> tuple[int, int]:
        (a, b), (c, d) = (
            (x.vmin, x.vmax) if isinstance(x, Expression) else (int(x), int(x)) for x in self.src
        )
        if self.op == "%":
            if c > 0:
                return (a % c, b % c) if c == d and a // c == b // c else (0, d - 1)
            return min(0, c + 1 if c < 0 else a), max(0, d - 1 if d > 0 else b)
        if self.op in ("==", "!="):
            same = 1 if a == b == c == d else 0 if b < c or d < a else None
            if same is None:
                return 0, 1
            return (same, same) if self.op == "==" else (1 - same, 1 - same)
        value = _VALUE[self.op]
        if self.op == "//" and c <= 0 <= d:
            ends = [x // y for x in (a, b) for y in {c, d, -1, 1} - {0}] + [0]
        else:
            ends = [value(x, y) for x in (a, b) for y in (c, d)]
        return min(ends), max(ends)

    @property
    def vmin(self) -> int:
        """The least value possible."""
        return self._bounds()[0]

    @property
    def vmax(self) -> int:
        """The greatest value possible."""
        return self._bounds()[1]

    @property
    def dtype(self) -> DType:
        if self.op in ("<", "<=", ">", ">=", "==", "!="):
            return dtypes.bool
        kinds = [x.dtype if isinstance(x, Expression) else dtypes.weakint for x in self.src]
        return least_upper_dtype(*kinds)

    # ---- arithmetic

    def __add__(self, x: Any) -> Any:
        return _combine("+", self, x)

    def __radd__(self, x: Any) -> Any:
        return _combine("+", x, self)

    def __sub__(self, x: Any) -> Any:
        return _combine("-", self, x)

    def __rsub__(self, x: Any) -> Any:
        return _combine("-", x, self)

    def __mul__(self, x: Any) -> Any:
        return _combine("*", self, x)

    def __rmul__(self, x: Any) -> Any:
        return _combine("*", x, self)

    def __floordiv__(self, x: Any) -> Any:
        return _combine("//", self, x)

    def __rfloordiv__(self, x: Any) -> Any:
        return _combine("//", x, self)

    def __mod__(self, x: Any) -> Any:
        return _combine("%", self, x)

    def __rmod__(self, x: Any) -> Any:
        return _combine("%", x, self)

    def __neg__(self) -> Any:
        return _combine("*", self, -1)

    def __lt__(self, x: Any) -> Any:
        return _combine("<", self, x)

    def __le__(self, x: Any) -> Any:
        return _combine("<=", self, x)

    def __gt__(self, x: Any) -> Any:
        return _combine(">", self, x)

    def __ge__(self, x: Any) -> Any:
        return _combine(">=", self, x)

    def eq(self, x: Any) -> Any:
        return _combine("==", self, x)

    def ne(self, x: Any) -> Any:
        return _combine("!=", self, x)

    def maximum(self, x: Any) -> Any:
        return _combine("max", self, x)

    def minimum(self, x: Any) -> Any:
        return _combine("min", self, x)


class Variable(Expression):
    """An integer between min_val and max_val, both included.

    >>> Variable("n", 0, 7).bind(9)
    Traceback (most recent call last):
    AssertionError: bind 9 not in range [0, 7]
    """

    __slots__ = ("name", "min_val", "max_val", "_dtype", "multiple_of")

    def __init__(
        self,
        name: str,
        min_val: int,
        max_val: int,
        dtype: DType = dtypes.weakint,
        multiple_of: int = 1,
    ):
        assert min_val <= max_val, f"{name} has no values: {min_val} > {max_val}"
        super().__init__("variable", ())
        self.name, self.min_val, self.max_val = name, int(min_val), int(max_val)
        self._dtype, self.multiple_of = dtype, multiple_of

    def _key(self) -> tuple[Any, ...]:
        return ("variable", self.name, self.min_val, self.max_val, self._dtype, self.multiple_of)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.min_val}, {self.max_val})"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Variable) and self._key() == other._key()

    def render(self) -> str:
        return self.name

    def linear(self) -> tuple[dict[Expression, int], int]:
        return {self: 1}, 0

    def variables(self) -> list[Variable]:
        return [self]

    vars = variables

    def infer(self, values: dict[str, int]) -> int:
        return values[self.name]

    def substitute(self, values: dict[Any, Any]) -> Any:
        return values.get(self, self)

    def _bounds(self) -> tuple[int, int]:
        return self.min_val, self.max_val

    @property
    def expr(self) -> str:
        """Its name."""
        return self.name

    @property
    def dtype(self) -> DType:
        return self._dtype

    def bind(self, val: int) -> BoundInt:
        """An int of this value that remembers the variable."""
        val = int(val)
        assert (
            self.min_val <= val <= self.max_val
        ), f"bind {val} not in range [{self.min_val}, {self.max_val}]"
        assert val % self.multiple_of == 0, f"bind {val} not divisible by {self.multiple_of}"
        if not _installed:
            from . import dynamic

            _installed.append(True)
            dynamic.install()
        return BoundInt(val, self, {self: val})

    def unbind(self) -> tuple[Variable, int]:
        raise AssertionError(f"{self!r} is not bound")


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

    def rebound(self, values: dict[str, int]) -> BoundInt:
        """The same expression of other values."""
        bound = {v: values[v.name] for v in self.bound}
        return BoundInt(self.expression.infer(values), self.expression, bound)

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


_COMPARE: dict[str, Callable[[Any, Any], Any]] = dict(_VALUE)


def _compare(op: str, a: BoundInt, b: Any) -> Any:
    """A comparison as bool; noted as seen where the bounds do not decide it."""
    if isinstance(b, float) or hasattr(b, "__index__") and not isinstance(b, (int, BoundInt)):
        return _COMPARE[op](int(a), b)
    if not isinstance(b, (int, BoundInt)):
        if op in ("==", "!="):
            return op == "!="
        return NotImplemented
    if isinstance(b, BoundInt) and a.same(b) and a._value != b._value:
        return _VALUE[op](a._value, b._value)  # two bindings of one variable
    value = bool(_VALUE[op](a._value, b._value if isinstance(b, BoundInt) else b))
    if _seen and isinstance(expression := _combine("-", a, b), Expression):
        condition = Expression(op, (expression, 0))
        if condition.vmin != condition.vmax:
            _seen[0][condition] = int(value)
    return value


def _bound(op: str, a: Any, b: Any) -> Any:
    """op on numbers of which one is bound."""
    if not (isinstance(a, (int, BoundInt)) and isinstance(b, (int, BoundInt))):
        if isinstance(a, Expression) or isinstance(b, Expression):
            return _combine(op, a, b)
        if isinstance(a, float) or isinstance(b, float):
            plain: list[Any] = [int(x) if isinstance(x, BoundInt) else x for x in (a, b)]
            plainly: Callable[[Any, Any], Any] = _PLAIN.get(op, _VALUE[op])
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
    number = _PLAIN.get(op, _VALUE[op])(numbers[0], numbers[1])
    expression = _combine(op, a, b)
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
    return _bound(op, a, b) if BoundInt in (type(a), type(b)) else _combine(op, a, b)


_PLAIN: dict[str, Callable[[Any, Any], Any]] = {"//": operator.floordiv, "%": operator.mod}


def _combine(op: str, a: Any, b: Any) -> Any:
    """op on expressions and numbers; sums are brought to one form."""
    if not all(isinstance(x, (int, Expression, BoundInt)) for x in (a, b)):
        return NotImplemented
    a, b = (getattr(x, "expression", x) for x in (a, b))
    if isinstance(a, int) and isinstance(b, int):
        return _VALUE[op](a, b)
    made = Expression(op, (a, b))
    if op in ("+", "-", "*") and made._is_sum():
        return _sum(*made.linear())
    if op in ("//", "%") and isinstance(a, Expression) and isinstance(b, int) and b > 0:
        terms, constant = a.linear()
        if not any(n % b for n in (*terms.values(), constant)):
            return _sum({t: n // b for t, n in terms.items()}, constant // b) if op == "//" else 0
    return made


def _sum(terms: dict[Expression, int], constant: int) -> Any:
    """The terms times their factors and the constant, added."""
    total: Any = None
    for term, n in terms.items():
        part = term if n == 1 else Expression("*", (term, n))
        total = part if total is None else Expression("+", (total, part))
    if total is None:
        return constant
    if constant:
        total = Expression("+" if constant > 0 else "-", (total, abs(constant)))
    return total


def resolve(x: Any, default: bool = True) -> bool:
    """A condition as bool; default where it depends on unbound variables."""
    if not isinstance(x, Expression):
        return bool(x)
    return bool(x.vmin) if x.vmin == x.vmax else default


def sym_infer(x: Any, var_vals: dict[str, int]) -> int:
    """The value of a size for these values of the variables."""
    x = getattr(x, "expression", x)
    return x.infer(var_vals) if isinstance(x, Expression) else int(x)


def bindings(values: Any) -> dict[Variable, int]:
    """The variables in sizes, with their values. Raises RuntimeError where two differ."""
    out: dict[Variable, int] = {}
    for x in values:
        for variable, value in getattr(x, "bound", {}).items():
            if out.setdefault(variable, value) != value:
                raise RuntimeError(f"bind mismatch: {variable!r} is {out[variable]} and {value}")
    return out
