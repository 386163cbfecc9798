"""Tensors whose sizes are bound variables: one graph, and one recording, for all their values.

Such a tensor is the library's (aster_ml/symbolic.h): it knows the tensor of the greatest sizes, and
an expression an axis, which `shape` shows as the bound variable that it is. The rules of functions
are the library's. Here bound variables become expressions of it and the other way round, and
functions that take sizes and positions are told of those that are variables. Where there is no
rule, or the sizes do not go together, the tensors are those of the present sizes, which a recording
TinyJit notes as a use of the values.

>>> from aster_ml import Tensor, Variable
>>> x, n = Tensor.arange(6).reshape(2, 3), Variable("n", 1, 3).bind(2)
>>> x[:, :n].shape, x[:, :n].sum(1).tolist(), x[:, n].tolist()
((2, n=2), [1, 7], [2, 5])
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Sequence

from .. import _native
from ..dtype import dtypes, from_code
from ..symbolic import BoundInt, Expression, Variable, extreme
from ..tensor import Tensor

WEAK_INT = dtypes.weakint.code


# ---- bound variables as expressions of the library, and back

_variables: dict[tuple[str, int, int], Variable] = {}


@functools.lru_cache(1024)
def _unbound(variable: Variable, context: Any) -> Any:
    name, least, most = variable.name, variable.min_val, variable.max_val
    _variables[name, least, most] = variable
    return _native.symbolic_init(name, least, most, context)


@functools.lru_cache(4096)
def _with_value(variable: Variable, value: int, context: Any) -> Any:
    unbound = _unbound(variable, context)
    return _native.symbolic_bind(unbound, variable.name, value, context)


_COMBINE = {
    "+": "Add", "-": "Sub", "*": "Mul", "//": "FloorDiv", "%": "FloorMod",
    "max": "Max", "min": "Min",
}  # fmt: skip


def _expression(x: Any, values: dict[Variable, int], context: Any) -> Any:
    if isinstance(x, Variable):
        return _with_value(x, values[x], context)
    if not isinstance(x, Expression):
        return int(x)
    a, b = (_expression(part, values, context) for part in x.src)
    return _native.symbolic_combine(_COMBINE[x.op], a, b, context)


def dim(x: Any) -> Any:
    """A size as functions of the library take it."""
    if x.__class__ is not BoundInt:
        return x
    return _expression(x.expression, x.bound, _native.current())


def dims(sizes: Any) -> list[Any]:
    return [dim(s) for s in (sizes if isinstance(sizes, (tuple, list)) else (sizes,))]


def dims_where(sizes: Iterable[Any], values: dict[str, int]) -> list[Any]:
    """The same of sizes whose variables have other values."""
    context = _native.current()
    return [
        _expression(d.expression, {v: values[v.name] for v in d.bound}, context)
        if d.__class__ is BoundInt
        else d
        for d in sizes
    ]


def _size(uop: Any) -> Any:
    """An expression of the library's as a bound variable, or a number."""
    op = str(_native.uop_op(uop))
    if op == "Const":
        return _native.uop_argument_at(uop, 0)
    if op == "Range":
        name, least, most, value, _ = _native.symbolic_get(uop)
        key = str(name), least, most
        variable = _variables[key] if key in _variables else Variable(*key)
        return BoundInt(value, variable, {variable: value}) - least
    parts = (_size(_native.uop_source_at(uop, k)) for k in range(_native.uop_source_count(uop)))
    return _OPERATIONS[op](*parts)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Max": lambda a, b: extreme("max", a, b),
    "Min": lambda a, b: extreme("min", a, b),
}


def is_bound(x: Any) -> bool:
    return x.__class__ is BoundInt


def is_symbolic(x: Any) -> bool:
    """Whether x is a tensor with sizes that are variables."""
    return isinstance(x, _native.Lazy) and _native.lazy_is_symbolic(x)


class Part(Tensor):
    """A part of another tensor at a position that is a variable: what is written to it is written
    there."""

    __slots__ = ("_source",)
    _source: tuple[Any, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Methods make tensors of data by type(self)(data): those are ordinary ones.
        return Tensor(*args, **kwargs) if args or kwargs else _native.Lazy.__new__(cls)


def whole(x: Any) -> Any:
    """The tensor of the greatest sizes that x is the first part of."""
    return _native.lazy_whole(x) if is_symbolic(x) else x


def dims_of(x: Any) -> tuple[Any, ...]:
    return tuple(_native.lazy_shape(x))


def wrap(padded: Any, sizes: Sequence[Any]) -> Any:
    """padded, of which sizes are meant."""
    if not any(d.__class__ is BoundInt for d in sizes):
        return padded
    return _native.lazy_shrink_dims(padded, [0] * len(sizes), dims(sizes))


def most_of(sizes: Iterable[Any]) -> list[int]:
    """The greatest that sizes can be."""
    return [d.vmax if is_bound(d) else d for d in sizes]


def all_axes(x: Any, axes: Any) -> list[int]:
    """The axes as a list, counted from the front; None: all."""
    count = len(dims_of(x))
    if axes is None:
        return list(range(count))
    listed = [axes] if isinstance(axes, int) else list(axes)
    if any(not -count <= a < count for a in listed):
        raise IndexError(f"axes {listed} are out of range for {count} axes")
    return [a % count for a in listed]


# ---- values


def value_of(x: Any) -> Any:
    """A bound variable as a 0-d tensor (a number stays one)."""
    return _native.lazy_from_dim(dim(x)) if is_bound(x) else x


def operand(x: BoundInt, like: Any) -> Any:
    """A bound variable beside a tensor: as a number, it takes the dtype of what it meets."""
    dtype = WEAK_INT if like is None else _native.lazy_dtype(like)
    if dtype >= WEAK_INT or (code := _native.dtype_promote(dtype, WEAK_INT)) >= WEAK_INT:
        return int(x)
    return value_of(x).cast(from_code(code))


def iota(n: int, after: int = 0) -> Any:
    """0 to n - 1 along an axis that has `after` axes behind it."""
    out = Tensor.arange(n, dtype=dtypes.int32)
    return out.reshape(n, *[1] * after) if after else out


def take(x: Any, axis: int, index: Any) -> Any:
    """Elements of an axis of an ordinary tensor; beyond it 0."""
    return NATIVE["lazy_index"](x, (slice(None),) * axis + (index,))


# ---- rules: f(native, *arguments), where native is the function of the library and the arguments
# hold symbolic tensors or BoundInts; NotImplemented: as native does with numbers

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
SIZES: dict[str, Rule] = {}  # of functions that take sizes: rules for those that are variables


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(f: Rule) -> Rule:
        RULES.update((f"lazy_{name}", f) for name in names)
        return f

    return add


def sizes(*names: str) -> Callable[[Rule], Rule]:
    def add(f: Rule) -> Rule:
        SIZES.update((f"lazy_{name}", f) for name in names)
        return f

    return add


# ---- the functions of _native, which look out for variables

NATIVE: dict[str, Any] = {}


def placed(x: Any) -> bool:
    """Whether bound variables, or tensors that have them, are among arguments and positions."""
    kind = x.__class__
    if kind is slice:
        return is_bound(x.start) or is_bound(x.stop) or is_bound(x.step)
    if isinstance(x, _native.Lazy):
        return kind is Part or _native.lazy_is_symbolic(x)
    return kind is BoundInt or kind is tuple and any(map(placed, x))


def bound_in(x: Any) -> bool:
    """Whether bound variables are among sizes."""
    return any(i.__class__ is BoundInt for i in x) if isinstance(x, (tuple, list)) else is_bound(x)


def _looking(native: Any, rule: Rule, concerns: Callable[[Any], bool]) -> Any:
    """native, or where variables are among the arguments the rule."""

    def call(*args: Any) -> Any:
        for a in args:
            if concerns(a):
                out = rule(native, *args)
                return native(*args) if out is NotImplemented else out
        return native(*args)

    return call


def install() -> None:
    """Makes the functions of _native look out for variables; before, they cost nothing."""
    from . import indexing, shapes  # noqa: F401: the rules

    _native.set_size(_size)
    for name in RULES | SIZES:
        NATIVE[name] = getattr(_native, name)
    for name, native in NATIVE.items():
        rules, concerns = (SIZES, bound_in) if name in SIZES else (RULES, placed)
        looking = _looking(native, rules[name], concerns)
        setattr(_native, name, functools.wraps(native)(looking))
