"""Tensors whose sizes are bound variables: one graph, and one recording, for all their values.

Such a tensor is kept as one of the greatest size, with the variables beside it. What lies beyond a
size is unspecified: reductions and products leave it out by a mask that compares positions with
the size, a 0-d tensor. A TinyJit gives these sizes anew at every replay.

Operations of the library meet them through `_native`, whose functions look out for them as soon as
a variable is bound: a rule (of a module beside this one) builds the operation on the whole tensors;
where there is none, or the sizes do not go together, the tensors are cut to their present sizes
first, which a recording TinyJit notes as a use of the values.

>>> from aster_ml import Tensor, Variable
>>> x, n = Tensor.arange(6).reshape(2, 3), Variable("n", 1, 3).bind(2)
>>> x[:, :n].shape, x[:, :n].sum(1).tolist(), x[:, n].tolist()
((2, n=2), [1, 7], [2, 5])
"""

from __future__ import annotations

import array
import functools
from typing import Any, Callable, Iterable, Sequence

from .. import _native
from ..device import Device, on_device
from ..dtype import DType, dtypes, from_code
from ..symbolic import BoundInt, Expression, Variable
from ..tensor import Tensor

WEAK_INT = dtypes.weakint.code


class Symbolic(Tensor):
    """A tensor of the greatest size and the sizes meant. No value of the library's while it is so.
    A part of another tensor knows that one and its place in it, to be written there."""

    __slots__ = ("_padded", "_dims", "_source")
    _padded: Any
    _dims: tuple[Any, ...]
    _source: tuple[Any, Any] | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Methods make tensors of data by type(self)(data): those are ordinary ones.
        return Tensor(*args, **kwargs) if args or kwargs else _native.Lazy.__new__(cls)

    @property
    def shape(self) -> tuple[Any, ...]:
        return self._dims if self._padded is not None else _native.lazy_shape(self)

    def concrete(self) -> Any:
        """The tensor cut to its present sizes: their values are seen."""
        if self._padded is None:
            return self
        sizes = [int(d) for d in self._dims]
        return _native.lazy_shrink(self._padded, [0] * len(sizes), sizes)

    def become(self, x: Any) -> None:
        """Becomes an ordinary tensor."""
        _native.replace(self, x.concrete() if isinstance(x, Symbolic) else x)
        self._padded = None

    def rebind(self, values: dict[str, int]) -> None:
        """The same tensor where the variables have other values."""
        self._dims = tuple(d.rebound(values) if isinstance(d, BoundInt) else d for d in self._dims)


def whole(x: Any) -> Any:
    """The tensor that holds x."""
    return x._padded if x.__class__ is Symbolic and x._padded is not None else x


def dims_of(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape)


def wrap(padded: Any, dims: Sequence[Any], source: tuple[Any, Any] | None = None) -> Any:
    """padded, of which dims are meant."""
    if source is None and not any(d.__class__ is BoundInt for d in dims):
        return padded
    out = Symbolic()
    out._padded, out._dims, out._source = padded, tuple(dims), source
    return out


def is_bound(x: Any) -> bool:
    return x.__class__ is BoundInt


def most_of(dims: Iterable[Any]) -> list[int]:
    """The greatest that sizes can be."""
    return [d.vmax if is_bound(d) else d for d in dims]


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are equal whatever the values of the variables."""
    return bool(a.same(b) if is_bound(a) else not is_bound(b) and a == b)


def all_axes(x: Any, axes: Any) -> list[int]:
    """The axes as a list, counted from the front; None: all."""
    count = len(dims_of(x))
    if axes is None:
        return list(range(count))
    listed = [axes] if isinstance(axes, int) else list(axes)
    if any(not -count <= a < count for a in listed):
        raise IndexError(f"axes {listed} are out of range for {count} axes")
    return [a % count for a in listed]


def bound_axes(x: Any, axes: Iterable[int]) -> list[int]:
    """Those of the axes whose sizes are variables."""
    return [a for a in axes if is_bound(dims_of(x)[a])]


# ---- values in memory

_inputs: dict[Variable, tuple[int, Any]] = {}  # of the recording under way


def set_inputs(inputs: dict[Variable, tuple[int, Any]]) -> None:
    """The 0-d tensors that hold variables from now on, with their present values."""
    _inputs.clear()
    _inputs.update(inputs)


def new_cell(variable: Variable, value: int, device: str) -> Any:
    """Memory that holds a variable's value: int32 where all values fit, else int64."""
    fits = -(2**31) <= variable.min_val and variable.max_val < 2**31
    dtype = dtypes.int32 if fits else dtypes.int64
    numbers = array.array("i" if dtype is dtypes.int32 else "q", [value])
    return on_device(device, _native.lazy_from, numbers, dtype.code, ())


_cell = functools.lru_cache(256)(new_cell)


def value_of(x: Any, bound: dict[Variable, int] | None = None) -> Any:
    """A number or an expression of variables as a 0-d tensor (a number stays one)."""
    if isinstance(x, BoundInt):
        return value_of(x.expression, x.bound)
    if not isinstance(x, Expression):
        return x
    assert bound is not None
    if isinstance(x, Variable):
        value, tensor = _inputs.get(x, (None, None))
        return tensor if value == bound[x] else _cell(x, bound[x], Device.DEFAULT)
    dtype = dtypes.int64 if _is_wide(x) else dtypes.int32
    a, b = (_as_tensor(value_of(part, bound), dtype) for part in x.src)
    return _OPERATIONS[x.op](a, b)


def _as_tensor(x: Any, dtype: DType) -> Any:
    return x.cast(dtype) if isinstance(x, Tensor) else Tensor(int(x), dtype=dtype)


def _is_wide(x: Any) -> bool:
    """Whether an expression, or a part of it, has values that int32 does not hold."""
    if isinstance(x, Expression):
        beyond = x.vmin < -(2**31) or x.vmax >= 2**31
        return beyond or any(_is_wide(part) for part in x.src)
    return not -(2**31) <= int(x) < 2**31


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": lambda a, b: a.maximum(b),
    "min": lambda a, b: a.minimum(b),
}


def iota(n: int, after: int = 0) -> Any:
    """0 to n - 1 along an axis that has `after` axes behind it."""
    out = Tensor.arange(n, dtype=dtypes.int32)
    return out.reshape(n, *[1] * after) if after else out


def inside_of(x: Any, axes: Sequence[int]) -> Any:
    """True where the positions along those axes are within the sizes; None: everywhere."""
    dims, out = dims_of(x), None
    sizes = _native.lazy_shape(whole(x))
    for axis in axes:
        if is_bound(dims[axis]):
            part = iota(sizes[axis], len(dims) - 1 - axis) < value_of(dims[axis])
            out = part if out is None else out & part
    return out


def masked(x: Any, axes: Sequence[int], identity: Any) -> Any:
    """The whole tensor, with identity beyond the sizes of those axes."""
    inside = inside_of(x, axes)
    return whole(x) if inside is None else inside.where(whole(x), identity)


def filled(padded: Any, dims: Sequence[Any]) -> Any:
    """padded, of which dims are meant, with 0 beyond them: kernels compute no more than that."""
    out = wrap(padded, dims)
    return wrap(masked(out, range(len(dims)), 0), dims)


# ---- sizes that go together


def align(tensors: Sequence[Any], skip: int = 0) -> tuple[list[Any], list[Any]] | None:
    """The whole tensors, and the sizes that they broadcast to but for the last `skip` axes; None
    where an axis is a variable's for one and something else for another."""
    shapes = [dims_of(t)[: len(dims_of(t)) - skip] for t in tensors]
    count = max((len(s) for s in shapes), default=0)
    wholes = [whole(t) for t in tensors]
    dims: list[Any] = []
    for back in range(count, 0, -1):
        found = [(k, s[-back]) for k, s in enumerate(shapes) if len(s) >= back]
        found = [(k, d) for k, d in found if is_bound(d) or d != 1]
        bound = [d for _, d in found if is_bound(d)]
        if bound:
            if len(bound) != len(found) or not all(bound[0].same(d) for d in bound):
                return None
            least = min(_native.lazy_shape(wholes[k])[-back - skip] for k, _ in found)
            for k, _ in found:
                wholes[k] = cut(wholes[k], -back - skip, least)
        dims.append(bound[0] if bound else max((d for _, d in found), default=1))
    return wholes, dims


def cut(x: Any, axis: int, size: int) -> Any:
    """The first elements of an axis of an ordinary tensor."""
    shape = list(_native.lazy_shape(x))
    if shape[axis] == size:
        return x
    shape[axis] = size
    return _native.lazy_shrink(x, [0] * len(shape), shape)


def take(x: Any, axis: int, index: Any) -> Any:
    """Elements of an axis of an ordinary tensor; beyond it 0."""
    return NATIVE["lazy_index"](x, (slice(None),) * axis + (index,))


# ---- rules: f(native, *arguments), where native is the function of the library and the arguments
# hold Symbolic tensors or BoundInts; NotImplemented where the sizes have to be seen

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(f: Rule) -> Rule:
        RULES.update((f"lazy_{name}", f) for name in names)
        return f

    return add


def beside(axes_of: Callable[..., Any]) -> Rule:
    """An operation along the axes that axes_of(x, *arguments) names: others may be variables'."""

    def applied(native: Any, x: Any, *args: Any) -> Any:
        if special(args) or bound_axes(x, all_axes(x, axes_of(x, *args))):
            return NotImplemented
        results = native(whole(x), *args)
        if isinstance(results, tuple):
            return tuple(sized_as(r, dims_of(x)) for r in results)
        return sized_as(results, dims_of(x))

    return applied


def sized_as(out: Any, dims: Sequence[Any]) -> Any:
    """A result whose axes are those of dims where these are variables, else as large as it is."""
    sizes = list(_native.lazy_shape(out))
    for k, d in enumerate(dims[: len(sizes)]):
        if is_bound(d):
            sizes[k] = d
    return wrap(out, sizes)


# ---- the functions of _native, which look out for variables

NATIVE: dict[str, Any] = {}


def special(x: Any) -> bool:
    kind = x.__class__
    if kind is Symbolic or kind is BoundInt:
        return True
    if kind is slice:
        return x.start.__class__ is BoundInt or x.stop.__class__ is BoundInt or is_bound(x.step)
    if kind is dict:
        return any(special(i) for i in x.values())
    return (kind is tuple or kind is list) and any(special(i) for i in x)


def seen(x: Any) -> Any:
    """x with present values in place of variables."""
    kind = x.__class__
    if kind is Symbolic:
        return x.concrete()
    if kind is BoundInt:
        return int(x)
    if kind is slice:
        return slice(seen(x.start), seen(x.stop), seen(x.step))
    if kind is dict:
        return {name: seen(i) for name, i in x.items()}
    return kind(seen(i) for i in x) if kind is tuple or kind is list else x


def _looking(native: Any, rule: Rule | None) -> Any:
    """native, or where variables are among the arguments the rule."""

    def call(*args: Any) -> Any:
        for a in args:
            if special(a):
                break
        else:
            return native(*args)
        if rule is not None:
            out = rule(native, *args)
            if out is not NotImplemented:
                return out
        return native(*(seen(a) for a in args))

    return call


def install() -> None:
    """Makes the functions of _native look out for variables; before, they cost nothing."""
    from . import elementwise, indexing, movement, products, reduce  # noqa: F401: they fill RULES

    for name in dir(_native):
        if name.startswith("lazy_") or name == "gradient":
            NATIVE[name] = getattr(_native, name)
    for name, native in NATIVE.items():
        setattr(_native, name, functools.wraps(native)(_looking(native, RULES.get(name))))
