"""Symbolic integers without values: variables, and what is computed of them.

>>> n = Variable("n", 1, 10)
>>> n * 2 + 1, (n * 2 + 1).vmax, n - n
(<((n*2)+1)>, 21, 0)
"""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Union

from .dtype import DType, dtypes, least_upper_dtype


def _floordiv(x: int, y: int) -> int:
    return x // y if y else 0


def _mod(x: int, y: int) -> int:
    return x % y if y else x


VALUE: dict[str, Callable[[int, int], int]] = {
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

    @property
    def is_variable(self) -> bool:
        """Whether it is a variable without a value.

        >>> n = UOp.variable("n", 1, 4)
        >>> n.is_variable, n.bind(2).is_variable, n.bind(2).is_bound_var
        (True, False, True)
        """
        return isinstance(self, Variable)

    @property
    def is_bound_var(self) -> bool:
        """Whether it is a variable that has a value."""
        return not isinstance(self, Variable) and isinstance(self._unbound(), Variable)

    def _unbound(self) -> Any:
        return getattr(self, "expression", self)

    def ssimplify(self) -> Any:
        """A number where only one is possible, else the expression."""
        return self.simplify()  # type: ignore[attr-defined]

    def sym_infer(self, var_vals: dict[str, int]) -> int:
        """The value for these values of the variables."""
        return sym_infer(self, var_vals)

    def overflows(self, dtype: DType) -> bool:
        """Whether a value of it may lie outside what a dtype holds.

        >>> UOp.variable("n", 0, 300).overflows(dtypes.uint8)
        True
        """
        unbound = self._unbound()
        return bool(unbound.vmin < dtype.min or dtype.max < unbound.vmax)

    def const_factor(self) -> int:
        """A number that divides it whatever the values.

        >>> (UOp.variable("n", 1, 4) * 6 + 4).const_factor()
        2
        """
        terms, constant = self._unbound().linear()
        factors = [getattr(t, "multiple_of", 1) if n == 1 else n for t, n in terms.items()]
        return math.gcd(*factors, constant)

    def divides(self, v: int) -> Any:
        """It, divided, where that leaves no rest whatever the values, else None.

        >>> n = UOp.variable("n", 1, 4)
        >>> (n * 6 + 4).divides(2), (n * 6 + 4).divides(3)
        (<((n*3)+2)>, None)
        """
        terms, constant = self._unbound().linear()
        whole = constant % v == 0 and all(
            n % v == 0 or getattr(t, "multiple_of", 1) % v == 0 for t, n in terms.items()
        )
        return self // v if whole else None  # type: ignore[operator]

    def add(self, x: Any, reverse: bool = False) -> Any:
        """self + x; with reverse x + self, as in its like below."""
        return x + self if reverse else self + x

    def sub(self, x: Any, reverse: bool = False) -> Any:
        return x - self if reverse else self - x

    def mul(self, x: Any, reverse: bool = False) -> Any:
        return x * self if reverse else self * x

    def mod(self, x: Any, reverse: bool = False) -> Any:
        return x % self if reverse else self % x

    def neg(self) -> Any:
        return -self  # type: ignore[operator]


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
        return VALUE[self.op](a, b)

    def substitute(self, values: dict[Any, Any]) -> Any:
        """The expression with variables replaced by numbers or other expressions."""
        if self in values:
            return values[self]
        a, b = (x.substitute(values) if isinstance(x, Expression) else x for x in self.src)
        return combine(self.op, a, b)

    def unbind_all(self) -> tuple[Expression, dict[Variable, int]]:
        """The expression, and the values of its variables: none."""
        return self, {}

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
        value = VALUE[self.op]
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
        return combine("+", self, x)

    def __radd__(self, x: Any) -> Any:
        return combine("+", x, self)

    def __sub__(self, x: Any) -> Any:
        return combine("-", self, x)

    def __rsub__(self, x: Any) -> Any:
        return combine("-", x, self)

    def __mul__(self, x: Any) -> Any:
        return combine("*", self, x)

    def __rmul__(self, x: Any) -> Any:
        return combine("*", x, self)

    def __floordiv__(self, x: Any) -> Any:
        return combine("//", self, x)

    def __rfloordiv__(self, x: Any) -> Any:
        return combine("//", x, self)

    def __mod__(self, x: Any) -> Any:
        return combine("%", self, x)

    def __rmod__(self, x: Any) -> Any:
        return combine("%", x, self)

    def __neg__(self) -> Any:
        return combine("*", self, -1)

    def __lt__(self, x: Any) -> Any:
        return combine("<", self, x)

    def __le__(self, x: Any) -> Any:
        return combine("<=", self, x)

    def __gt__(self, x: Any) -> Any:
        return combine(">", self, x)

    def __ge__(self, x: Any) -> Any:
        return combine(">=", self, x)

    def eq(self, x: Any) -> Any:
        return combine("==", self, x)

    def ne(self, x: Any) -> Any:
        return combine("!=", self, x)

    def maximum(self, x: Any) -> Any:
        return combine("max", self, x)

    def minimum(self, x: Any) -> Any:
        return combine("min", self, x)


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

    def bind(self, val: int) -> Any:
        """An int of this value that remembers the variable."""
        val = int(val)
        assert (
            self.min_val <= val <= self.max_val
        ), f"bind {val} not in range [{self.min_val}, {self.max_val}]"
        assert val % self.multiple_of == 0, f"bind {val} not divisible by {self.multiple_of}"
        from .symbolic import bound

        return bound(self, val)

    def unbind(self) -> tuple[Variable, int]:
        raise AssertionError(f"{self!r} is not bound")


def combine(op: str, a: Any, b: Any) -> Any:
    """op on expressions and numbers; sums are brought to one form."""
    if not all(isinstance(x, (int, UOp)) for x in (a, b)):
        return NotImplemented
    a, b = (getattr(x, "expression", x) for x in (a, b))
    if isinstance(a, int) and isinstance(b, int):
        return VALUE[op](a, b)
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
