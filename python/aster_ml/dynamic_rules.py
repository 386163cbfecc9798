"""How the operations of the library treat tensors whose sizes are bound variables (dynamic.py).

A rule is called as f(native, *arguments): native is the function of the library, the arguments hold
Symbolic tensors or BoundInts. It gives NotImplemented where the sizes have to be seen.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from . import _native
from .dtype import dtypes, from_code
from .dynamic import (
    NATIVE,
    WEAK_INT,
    Rule,
    Symbolic,
    align,
    cut,
    dims_of,
    inside_of,
    iota,
    is_bound,
    masked,
    rule,
    special,
    seen,
    value_of,
    whole,
    wrap,
)
from .symbolic import BoundInt, Expression

_ELEMENTWISE = """abs acos acosh add asin asinh atan atanh bitwise_and bitwise_not bitwise_or
bitwise_xor cast ceil celu clamp clone const_like contiguous contiguous_backward copy copysign cos
cosh detach div elu empty_like eq erf exp exp2 floor floordiv fmod full_like ge gelu gelu_erf gt
hardsigmoid hardswish hardtanh isclose isfinite isinf_signed isnan le leaky_relu lerp log log10 log2
logaddexp logical_not logsigmoid lt masked_fill maximum minimum mish mod mul ne neg ones_like pow
quick_gelu reciprocal relu relu6 round rsqrt selu shl shr sigmoid sign silu sin sinh softplus
softplus_beta softsign sqrt square sub tan tanh trunc truncdiv where zeros_like"""


@rule(*_ELEMENTWISE.split())
def _elementwise(native: Any, *args: Any) -> Any:
    at = [k for k, a in enumerate(args) if isinstance(a, _native.Lazy)]
    aligned = align([args[k] for k in at])
    if aligned is None or not at:
        return NotImplemented
    values = list(args)
    for k, padded in zip(at, aligned[0]):
        values[k] = padded
    dtype = _native.lazy_dtype(values[at[-1]])
    if dtype >= WEAK_INT and any(is_bound(a) for a in args):
        return NotImplemented
    for k, a in enumerate(args):
        if is_bound(a):  # as a number: it takes the dtype of what it meets
            values[k] = value_of(a).cast(from_code(_native.dtype_promote(dtype, WEAK_INT)))
    return wrap(native(*values), aligned[1])


@rule("bitcast")
def _bitcast(native: Any, x: Any, code: int) -> Any:
    if from_code(code).itemsize != x.dtype.itemsize:
        return NotImplemented
    return wrap(native(whole(x), code), dims_of(x))


@rule("dtype", "device", "ndim", "is_realized")
def _of_whole(native: Any, x: Any) -> Any:
    return native(whole(x))


@rule("shape")
def _shape(native: Any, x: Any) -> Any:
    return x.shape


@rule("realize")
def _realize(native: Any, tensors: Any) -> Any:
    return native(
        [whole(x) for x in tensors] if isinstance(tensors, (list, tuple)) else whole(tensors)
    )


# ---- movement


@rule("permute")
def _permute(native: Any, x: Any, order: Any) -> Any:
    dims = dims_of(x)
    return wrap(native(whole(x), order), [dims[k] for k in order])


@rule("transpose")
def _transpose(native: Any, x: Any, a: int, b: int) -> Any:
    dims = list(dims_of(x))
    out = native(whole(x), a, b)
    dims[a], dims[b] = dims[b], dims[a]
    return wrap(out, dims)


@rule("unsqueeze")
def _unsqueeze(native: Any, x: Any, axis: int) -> Any:
    dims, out = list(dims_of(x)), native(whole(x), axis)
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 1)
    return wrap(out, dims)


@rule("squeeze")
def _squeeze(native: Any, x: Any, axis: int) -> Any:
    dims = list(dims_of(x))
    if -len(dims) <= axis < len(dims):
        if is_bound(dims[axis]):
            return x if dims[axis].vmin > 1 else NotImplemented
        if dims[axis] == 1:
            del dims[axis]
    return wrap(native(whole(x), axis), dims)


@rule("expand")
def _expand(native: Any, x: Any, shape: Any) -> Any:
    dims, wanted = dims_of(x), [-1 if s is None else s for s in shape]
    sizes, new = _native.lazy_shape(whole(x)), len(wanted) - len(dims)
    if new < 0:
        return NotImplemented
    padded, out = list(wanted), list(wanted)
    want: Any
    for k, want in enumerate(wanted):
        now: Any = dims[k - new] if k >= new else 1
        if is_bound(now):
            if not (now.same(want) or not is_bound(want) and want == -1):
                return NotImplemented
            padded[k], out[k] = sizes[k - new], now
        elif is_bound(want):
            if now != 1:
                return NotImplemented
            padded[k] = want.vmax
        elif want == -1:
            padded[k] = out[k] = now
    return wrap(native(whole(x), padded), out)


def _factors(d: Any) -> tuple[int, tuple[Expression, ...]]:
    """A size as a number times expressions."""
    if not is_bound(d):
        return d, ()
    terms, constant = d.expression.linear()
    if constant == 0 and len(terms) == 1:
        ((term, n),) = terms.items()
        if term.op == "*":
            return n, tuple(s for s in term.src if isinstance(s, Expression))
        return n, (term,)
    return 1, (d.expression,)


def _product(dims: Sequence[Any]) -> tuple[int, dict[Expression, int]]:
    number, found = 1, dict[Expression, int]()
    for d in dims:
        n, expressions = _factors(d)
        number *= n
        for e in expressions:
            found[e] = found.get(e, 0) + 1
    return number, found


def _inferred(dims: Sequence[Any], wanted: list[Any]) -> list[Any] | None:
    """wanted with -1 replaced by what is left of dims."""
    at = [k for k, w in enumerate(wanted) if not is_bound(w) and w == -1]
    if not at:
        return wanted
    rest = wanted[: at[0]] + wanted[at[0] + 1 :]
    (n, left), (m, used) = _product(dims), _product(rest)
    if len(at) > 1 or m == 0 or n % m or any(left.get(e, 0) < k for e, k in used.items()):
        return None
    left = {e: k - used.get(e, 0) for e, k in left.items() if k > used.get(e, 0)}
    size: Any = n // m
    for d in dims:
        for e in _factors(d)[1]:
            while left.get(e, 0):
                left[e] -= 1
                size = BoundInt(e.infer({v.name: k for v, k in d.bound.items()}), e, d.bound) * size
    return wanted[: at[0]] + [size] + wanted[at[0] + 1 :]


@rule("reshape")
def _reshape(native: Any, x: Any, shape: Any) -> Any:
    """The variables stay where they can, else the shape shows them at least."""
    out = _reshape_whole(native, x, shape)
    return out if out is not NotImplemented else wrap(native(seen(x), seen(shape)), shape)


def _reshape_whole(native: Any, x: Any, shape: Any) -> Any:
    """Every group of axes that are split or merged has at most one variable, on its first axis."""
    dims, sizes = dims_of(x), _native.lazy_shape(whole(x))
    wanted = _inferred(dims, list(shape))
    if wanted is None:
        return NotImplemented
    padded: list[int] = []
    i = j = 0
    while i < len(dims) or j < len(wanted):
        i0, j0 = i, j
        i, j = min(i + 1, len(dims)), min(j + 1, len(wanted))
        while (a := _product(dims[i0:i])) != (b := _product(wanted[j0:j])):
            grow_out = a[0] > b[0] or len(a[1]) > len(b[1])
            if grow_out and j < len(wanted):
                j += 1
            elif i < len(dims):
                i += 1
            else:
                return NotImplemented
        part = _padded_group(dims[i0:i], sizes[i0:i], wanted[j0:j])
        if part is None:
            return NotImplemented
        padded += part
    return wrap(native(whole(x), padded), wanted)


def _padded_group(dims: Any, sizes: Any, wanted: Any) -> list[int] | None:
    """The sizes in memory of one group of axes of a reshape."""
    if not any(is_bound(d) for d in wanted):
        return list(wanted) if not any(is_bound(d) for d in dims) else None
    for part in (dims, wanted):
        real = [d for d in part if is_bound(d) or d != 1]
        if sum(map(is_bound, real)) != 1 or not is_bound(real[0]):
            return None
    total, rest = 1, 1
    for n in sizes:
        total *= n
    for d in wanted:
        rest *= 1 if is_bound(d) else d
    return None if total % rest else [total // rest if is_bound(d) else d for d in wanted]


@rule("flatten")
def _flatten(native: Any, x: Any, first: int, last: int) -> Any:
    dims = dims_of(x)
    first, last = first % len(dims), last % len(dims)
    size: Any = 1
    for d in dims[first : last + 1]:
        size = size * d
    return _native.lazy_reshape(x, (*dims[:first], size, *dims[last + 1 :]))


@rule("pad")
def _pad(native: Any, x: Any, before: Any, after: Any, fill: Any = None) -> Any:
    """Elements before and after; those after a variable size are written there by a mask."""
    dims, padded = dims_of(x), whole(x)
    sizes = list(_native.lazy_shape(padded))
    after = list(after)
    if any(is_bound(b) or b < 0 for b in before):
        return NotImplemented
    out = [d + b + a for d, b, a in zip(dims, before, after)]
    extent = [k for k, (d, a) in enumerate(zip(dims, after)) if is_bound(d) or is_bound(a)]
    changed = [k for k in extent if before[k] or is_bound(after[k]) or after[k]]
    if changed:
        inside = inside_of(x, changed)
        value = 0 if fill is None else fill
        if inside is not None:
            padded = inside.where(padded, value[0] if isinstance(value, tuple) else value)
    for k in changed:
        if not is_bound(after[k]) and after[k] < 0:
            return NotImplemented
        most = out[k].vmax if is_bound(out[k]) else out[k]
        after[k] = most - sizes[k] - before[k]
        if after[k] < 0:  # the variable's greatest value is less than the memory
            padded, after[k] = cut(padded, k, most - before[k]), 0
    return wrap(native(padded, before, after, fill), out)


@rule("cat")
def _cat(native: Any, tensors: Any, axis: int) -> Any:
    shapes = [dims_of(t) for t in tensors]
    if len({len(s) for s in shapes}) != 1 or not -len(shapes[0]) <= axis < len(shapes[0]):
        return NotImplemented
    axis %= len(shapes[0])
    for k, sizes in enumerate(zip(*shapes)):
        first = sizes[0]
        if k != axis and not all(same(first, s) for s in sizes):
            return NotImplemented
    parts = _same_sizes(tensors, axis)
    total: Any = shapes[0][axis]
    out = list(shapes[0])
    joined = parts[0]
    if not any(is_bound(s[axis]) for s in shapes):
        out[axis] = sum(s[axis] for s in shapes)
        return wrap(native(parts, axis), out)
    dtype = native(parts, axis).dtype
    for part, shape in zip(parts[1:], shapes[1:]):
        # Element j is that of the first, or of the second at j - size of the first.
        new = total + shape[axis]
        most = new.vmax if is_bound(new) else new
        place = iota(most) - value_of(total)
        late = take(part, axis, place.maximum(0))
        early = take(joined, axis, iota(most))
        behind = len(out) - 1 - axis
        joined = (place < 0).reshape(most, *[1] * behind).where(early, late).cast(dtype)
        total = new
    out[axis] = total
    return wrap(joined, out)


def _same_sizes(tensors: Any, axis: int) -> list[Any]:
    """The whole tensors, cut to equal sizes but for an axis."""
    parts = [whole(t) for t in tensors]
    shapes = [_native.lazy_shape(p) for p in parts]
    for k in range(len(shapes[0])):
        if k != axis:
            parts = [cut(p, k, min(s[k] for s in shapes)) for p in parts]
    return parts


@rule("stack")
def _stack(native: Any, tensors: Any, axis: int) -> Any:
    count = len(dims_of(tensors[0])) + 1
    if not -count <= axis < count:
        return NotImplemented
    return _cat(
        _native.lazy_cat, [_native.lazy_unsqueeze(t, axis % count) for t in tensors], axis % count
    )


@rule("triu", "tril")
def _triangle(native: Any, x: Any, diagonal: Any) -> Any:
    if not is_bound(diagonal):
        return wrap(native(whole(x), diagonal), dims_of(x))
    rows, columns = _native.lazy_shape(whole(x))[-2:]
    place = iota(columns) - iota(rows, 1) - value_of(diagonal)
    keep = place >= 0 if native is NATIVE["lazy_triu"] else place <= 0
    return wrap(keep.where(whole(x), 0), dims_of(x))


# ---- making


@rule("full")
def _full(native: Any, value: Any, code: int, shape: Any, *rest: Any) -> Any:
    if is_bound(value):
        return NotImplemented
    return wrap(native(value, code, _most(shape), *rest), shape)


@rule("empty", "zeros", "ones")
def _empty(native: Any, code: int, shape: Any, *rest: Any) -> Any:
    return wrap(native(code, _most(shape), *rest), shape)


def _most(shape: Any) -> list[int]:
    return [s.vmax if is_bound(s) else s for s in shape]


@rule("arange")
def _arange(native: Any, start: Any, stop: Any, step: Any, code: int, *rest: Any) -> Any:
    if is_bound(step) or step != 1 or not stop - start >= 0:
        return NotImplemented
    count = stop - start
    out = native(0, count.vmax if is_bound(count) else count, 1, code, *rest)
    if is_bound(start) or start:
        out = out + value_of(start)
    return wrap(out, [count])


# ---- indexing


def take(x: Any, axis: int, index: Any) -> Any:
    """Elements of an axis of an ordinary tensor; beyond it 0."""
    return NATIVE["lazy_index"](x, (slice(None),) * axis + (index,))


def _full_slice(i: Any) -> bool:
    return isinstance(i, slice) and i.start is None and i.stop is None and i.step in (None, 1)


@rule("shrink")
def _shrink(native: Any, x: Any, begin: Any, end: Any) -> Any:
    items = tuple(slice(b, e) for b, e in zip(begin, end))
    for d, i in zip(dims_of(x), items):
        if not (0 <= i.start <= i.stop and (d.same(i.stop) if is_bound(d) else i.stop <= d)):
            return NotImplemented
    return _index(NATIVE["lazy_index"], x, items)


class _Unlike(Exception):
    """The sizes have to be seen."""


def _range(index: slice, size: Any) -> tuple[Any, Any]:
    """Begin and end of a slice, within the size. Raises _Unlike for what Python would clamp."""
    if index.step is not None and (is_bound(index.step) or index.step != 1):
        raise _Unlike
    begin = 0 if index.start is None else index.start
    end = size if index.stop is None else index.stop
    if not is_bound(begin) and begin < 0:
        begin = begin + size
    if not is_bound(end) and end < 0:
        end = end + size
    fits = end is size or (is_bound(end) and end.same(size)) or end <= size
    if not (fits and begin >= 0 and begin <= end):
        raise _Unlike
    return begin, end


def _split(items: Any, dims: Sequence[Any]) -> tuple[list[Any], list[tuple[int, Any]]]:
    """An index for every axis, of two steps: what concerns no variable, then (axis, index) of the
    others, for the axes that stand then."""
    from .mixin.indexing import normalize_indices

    items = normalize_indices(items if isinstance(items, tuple) else (items,), len(dims))
    first: list[Any] = []
    later: list[tuple[int, Any]] = []
    axis = place = 0
    for i in items:
        if i is None:
            first.append(None)
            place += 1
            continue
        d = dims[axis]
        bound = is_bound(i) or isinstance(i, slice) and (is_bound(i.start) or is_bound(i.stop))
        if isinstance(i, _native.Lazy):
            raise _Unlike
        if bound or (is_bound(d) and not _full_slice(i)):
            later.append((place, i))
            first.append(slice(None))
            place += 1
        else:
            first.append(i)
            place += isinstance(i, slice)
        axis += 1
    return first, later


@rule("index")
def _index(native: Any, x: Any, items: Any) -> Any:
    items = items if isinstance(items, tuple) else (items,)
    if any(isinstance(i, _native.Lazy) for i in items):
        return _index_tensor(native, x, items)
    try:
        first, later = _split(items, dims_of(x))
        out = native(whole(x), tuple(first)) if any(not _full_slice(i) for i in first) else whole(x)
        dims: list[Any] = _dims_after(first, dims_of(x))
        removed = 0
        for place, i in later:
            axis = place - removed
            out, size = _index_axis(out, axis, i, dims[axis])
            if size is None:
                del dims[axis]
                removed += 1
            else:
                dims[axis] = size
    except _Unlike:
        return NotImplemented
    return wrap(out, dims, (x, items))


def _dims_after(items: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """The sizes of x[items] of items that concern no variable."""
    out: list[Any] = []
    axis = 0
    for i in items:
        if i is None:
            out.append(1)
            continue
        if isinstance(i, slice):
            d = dims[axis]
            out.append(d if _full_slice(i) else len(range(*i.indices(d))))
        axis += 1
    return out


def _index_axis(x: Any, axis: int, i: Any, size: Any) -> tuple[Any, Any]:
    """An integer or a slice of one axis, and the size left (None: the axis disappears)."""
    if not isinstance(i, slice):
        if not is_bound(i) and i < 0:
            i = i + size
        if not (i >= 0 and i < size):
            raise _Unlike
        return take(x, axis, value_of(i)), None
    begin, end = _range(i, size)
    count = end - begin
    most = min(count.vmax if is_bound(count) else count, _native.lazy_shape(x)[axis])
    if not is_bound(begin):
        shape = list(_native.lazy_shape(x))
        low, high = [0] * len(shape), shape
        low[axis], high[axis] = begin, min(begin + most, shape[axis])
        if low[axis] == 0 and high[axis] == _native.lazy_shape(x)[axis]:
            return x, count
        return NATIVE["lazy_shrink"](x, low, high), count
    return take(x, axis, value_of(begin) + iota(most)), count


def _index_tensor(native: Any, x: Any, items: Any) -> Any:
    """One tensor among whole axes: its axes take the place of the one that it indexes."""
    known = all(isinstance(i, _native.Lazy) or _full_slice(i) for i in items)
    if len(items) > len(dims_of(x)) or not known:
        return NotImplemented
    tensors = [k for k, i in enumerate(items) if isinstance(i, _native.Lazy)]
    axis, dims = tensors[0], dims_of(x)
    index = items[axis]
    if len(tensors) > 1 or _native.lazy_dtype(index) == 1 or is_bound(dims[axis]):
        return NotImplemented
    out = native(whole(x), items[:axis] + (whole(index),))
    return wrap(out, dims[:axis] + dims_of(index) + dims[axis + 1 :])


@rule("index_assign")
def _index_assign(native: Any, target: Any, items: Any, value: Any) -> Any:
    if target.__class__ is Symbolic and target._padded is not None:
        source = target._source
        target.become(target)
        target[items] = value
        if source is not None:
            source[0][source[1]] = target
        return None
    items = items if isinstance(items, tuple) else (items,)
    if any(isinstance(i, _native.Lazy) for i in items):
        return NotImplemented
    try:
        wanted, sizes = _places(items, dims_of(target))
    except _Unlike:
        return NotImplemented
    if value.__class__ is Symbolic and value._padded is not None:
        value = _fitting(value, sizes)
        if value is None:
            return NotImplemented
    else:
        given = _native.lazy_shape(value)
        for d, n in zip(reversed(given), reversed(sizes)):
            if d != 1 and is_bound(n):
                return NotImplemented
    return native(target, tuple(wanted), value)


def _places(items: Any, dims: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Indices with tensors where there are variables, and the sizes of the part."""
    from .mixin.indexing import normalize_indices

    out: list[Any] = []
    sizes: list[Any] = []
    axis = tensors = 0
    for i in normalize_indices(items, len(dims)):
        if i is None:
            raise _Unlike
        d = dims[axis]
        axis += 1
        if is_bound(i):
            if not (i >= 0 and i < d):
                raise _Unlike
            out.append(slice(i, i + 1))
            i = value_of(i)
            if tensors:
                raise _Unlike
            tensors += 1
            out[-1] = i
        elif isinstance(i, slice) and (is_bound(i.start) or is_bound(i.stop)):
            begin, end = _range(i, d)
            count = end - begin
            most = min(count.vmax, d) if is_bound(count) else count
            place = value_of(begin) + iota(most)
            if is_bound(count):  # those beyond the size are outside and write nothing
                place = (iota(most) < value_of(count)).where(place, d)
            if tensors:
                raise _Unlike
            tensors += 1
            out.append(place)
            sizes.append(count)
        else:
            out.append(i)
            if isinstance(i, slice):
                sizes.append(len(range(*i.indices(d))))
    return out, sizes


def _fitting(value: Symbolic, sizes: Sequence[Any]) -> Any:
    """The whole of a value for a part of these sizes; None where they do not fit."""
    dims, out = dims_of(value), whole(value)
    shape = _native.lazy_shape(out)
    for back in range(1, len(dims) + 1):
        d, n = dims[-back], sizes[-back] if back <= len(sizes) else 1
        if is_bound(d):
            if not d.same(n):
                return None
        elif is_bound(n) and d != 1:
            return None
    del shape
    return out


@rule("assign")
def _assign(native: Any, target: Any, value: Any) -> Any:
    if target.__class__ is Symbolic and target._padded is not None and target._source is not None:
        source, items = target._source
        source[items] = value
        target._padded = whole(source[items])
        return None
    aligned = align([target, value])
    if target.__class__ is not Symbolic or target._padded is None or aligned is None:
        return NotImplemented
    if aligned[0][0] is not target._padded or len(aligned[1]) != len(dims_of(target)):
        return NotImplemented
    return native(*aligned[0])


# ---- reductions


def all_axes(x: Any, axes: Any) -> list[int]:
    count = len(dims_of(x))
    if axes is None:
        return list(range(count))
    listed = [axes] if isinstance(axes, int) else list(axes)
    if any(not -count <= a < count for a in listed):
        raise IndexError(f"axes {listed} are out of range for {count} axes")
    return [a % count for a in listed]


def _reduced(x: Any, axes: Sequence[int], keepdim: Any) -> list[Any]:
    return [1 if k in axes else d for k, d in enumerate(dims_of(x)) if keepdim or k not in axes]


def bound_axes(x: Any, axes: Sequence[int]) -> bool:
    return any(is_bound(dims_of(x)[a]) for a in axes)


_IDENTITY: dict[str, Callable[[Any], Any]] = {
    "sum": lambda dtype: 0,
    "sum_dtype": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "prod_dtype": lambda dtype: 1,
    "max": lambda dtype: dtype.min,
    "min": lambda dtype: dtype.max,
    "any": lambda dtype: False if dtype is dtypes.bool else 0,
    "all": lambda dtype: True if dtype is dtypes.bool else 1,
    "logsumexp": lambda dtype: dtype.min,
    "argmax": lambda dtype: dtype.min,
    "argmin": lambda dtype: dtype.max,
}


def _reduction(identity: Callable[[Any], Any]) -> Rule:
    def applied(native: Any, x: Any, axes: Any, keepdim: Any, *rest: Any) -> Any:
        listed = all_axes(x, axes)
        padded = masked(x, listed, identity(x.dtype))
        return wrap(native(padded, axes, keepdim, *rest), _reduced(x, listed, keepdim))

    return applied


for _name, _function in _IDENTITY.items():
    rule(_name)(_reduction(_function))


def wide(x: Any) -> Any:
    return dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32


def _size(x: Any, axes: Sequence[int]) -> Any:
    """The number of elements along axes, as a tensor."""
    out: Any = 1
    for a in axes:
        d = dims_of(x)[a]
        out = value_of(d) * out if is_bound(d) else out * d
    return out


def mean_of(x: Any, axes: list[int], keepdim: Any) -> Any:
    kind = wide(x)
    total = _native.lazy_sum(masked(x, axes, 0).cast(kind), axes, keepdim)
    return total / _size(x, axes).cast(kind)


@rule("mean")
def _mean(native: Any, x: Any, axes: Any, keepdim: Any) -> Any:
    listed, dims = all_axes(x, axes), None
    dims = _reduced(x, listed, keepdim)
    plain = native(whole(x), axes, keepdim)
    if not bound_axes(x, listed):
        return wrap(plain, dims)
    return wrap(mean_of(x, listed, keepdim).cast(plain.dtype), dims)


def variance(x: Any, axes: Any, keepdim: Any, correction: int) -> Any:
    listed, kind = all_axes(x, axes), wide(x)
    inside = inside_of(x, listed)
    apart = inside.where(whole(x).cast(kind) - mean_of(x, listed, True), 0)
    count = (_size(x, listed) - correction).maximum(0).cast(kind)
    return _native.lazy_sum(apart * apart, listed, keepdim) / count


def _spread(root: bool, with_mean: bool) -> Rule:
    def applied(native: Any, x: Any, axes: Any, keepdim: Any, correction: int) -> Any:
        listed = all_axes(x, axes)
        dims = _reduced(x, listed, keepdim)
        plain = native(whole(x), axes, keepdim, correction)
        results = plain if with_mean else (plain,)
        if bound_axes(x, listed):
            code: Any = results[0].dtype
            out = variance(x, axes, keepdim, correction)
            out = (out.sqrt() if root else out).cast(code)
            results = (out, mean_of(x, listed, keepdim).cast(code))[: len(results)]
        wrapped = tuple(wrap(r, dims) for r in results)
        return wrapped if with_mean else wrapped[0]

    return applied


rule("var")(_spread(False, False))
rule("std")(_spread(True, False))
rule("var_mean")(_spread(False, True))
rule("std_mean")(_spread(True, True))


@rule("softmax_dtype", "log_softmax_dtype")
def _softmax(native: Any, x: Any, axis: int, *rest: Any) -> Any:
    padded = masked(x, all_axes(x, axis), x.dtype.min)
    return wrap(native(padded, axis, *rest), dims_of(x))


def _along(position: int, scan: bool = False) -> Rule:
    """An operation along axes: the other axes stay, and for one that runs forward those too."""

    def applied(native: Any, x: Any, *args: Any) -> Any:
        axes = all_axes(x, args[position])
        if not scan and bound_axes(x, axes) or special(args):
            return NotImplemented
        results = native(whole(x), *args)
        several = results if isinstance(results, tuple) else (results,)
        out = []
        for r in several:
            sizes = _native.lazy_shape(r)
            dims = [d if is_bound(d) else n for d, n in zip(dims_of(x), sizes)]
            out.append(wrap(r, dims))
        return tuple(out) if isinstance(results, tuple) else out[0]

    return applied


rule("batchnorm")(_along(4))
for _name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
    rule(_name)(_along(0, scan=True))


# ---- products


@rule("matmul", "dot")
def _matmul(native: Any, a: Any, b: Any, *rest: Any) -> Any:
    if not all(isinstance(x, _native.Lazy) for x in (a, b)):
        return NotImplemented
    left, right = dims_of(a), dims_of(b)
    if not left or not right:
        return NotImplemented
    k, n = left[-1], right[-2] if len(right) > 1 else right[0]
    if not (k.same(n) if is_bound(k) else not is_bound(n) and k == n):
        return NotImplemented
    inner = max(len(right) - 2, 0)
    both = masked(a, [len(left) - 1], 0), masked(b, [inner], 0)
    if is_bound(k):
        least = min(_native.lazy_shape(both[0])[-1], _native.lazy_shape(both[1])[inner])
        both = cut(both[0], -1, least), cut(both[1], inner, least)
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    if len(left) < 3 and len(right) < 3:
        return wrap(native(*both, *rest), [*rows, *columns])
    if len(left) < 2 or len(right) < 2:
        return NotImplemented
    aligned = align([wrap(both[0], left), wrap(both[1], right)], skip=2)
    if aligned is None:
        return NotImplemented
    return wrap(native(*aligned[0], *rest), [*aligned[1], *rows, *columns])


@rule("linear")
def _linear(native: Any, x: Any, weight: Any, bias: Any, code: int) -> Any:
    if any(t.__class__ is Symbolic for t in (weight, bias)) or _native.lazy_ndim(weight) == 1:
        return NotImplemented
    dims = dims_of(x)
    if is_bound(dims[-1]):
        return NotImplemented
    out = native(whole(x), weight, bias, code)
    return wrap(out, [*dims[:-1], _native.lazy_shape(out)[-1]])


@rule("scaled_dot_product_attention")
def _attention(native: Any, q: Any, k: Any, v: Any, mask: Any, p: float, causal: Any, gqa: Any,
               training: Any) -> Any:  # fmt: skip
    if training and p:
        raise ValueError(f"dropout of a symbolic shape is not supported: {q.shape}, {k.shape}")
    queries, keys = dims_of(q), dims_of(k)
    if (
        any(is_bound(d) for d in (queries[-1], keys[-1], dims_of(v)[-1]))
        or mask is not None
        and causal
    ):
        return NotImplemented
    aligned = align([q, k, v], skip=2) if not gqa else None
    batch: Any = list(queries[:-2])
    if aligned is not None:
        batch = aligned[1]
    elif any(is_bound(d) for d in (*batch, *keys[:-2], *dims_of(v)[:-2])):
        return NotImplemented
    if not same(keys[-2], dims_of(v)[-2]):
        return NotImplemented
    parts = [whole(t) for t in (q, k, v)] if aligned is None else aligned[0]
    if is_bound(keys[-2]):
        least = min(_native.lazy_shape(p_)[-2] for p_ in parts[1:])
        inside = iota(least) < value_of(keys[-2])
        parts[1:] = [inside.reshape(least, 1).where(cut(t, -2, least), 0) for t in parts[1:]]
        if causal:
            rows = _native.lazy_shape(parts[0])[-2]
            inside, causal = inside & (iota(least) <= iota(rows, 1)), False
        if mask is None:
            mask = inside if inside.ndim > 1 else inside.reshape(1, least)
        else:
            if not same(dims_of(mask)[-1], keys[-2]) and dims_of(mask)[-1:] != (1,):
                return NotImplemented
            shown = whole(mask)
            if _native.lazy_shape(shown)[-1] not in (1, least):
                shown = cut(shown, -1, least)
            mask = (
                shown & inside if mask.dtype is dtypes.bool else inside.where(shown, -float("inf"))
            )
    elif mask is not None and mask.__class__ is Symbolic:
        if any(is_bound(d) for d in dims_of(mask)[:-2]) or not same(dims_of(mask)[-1], keys[-2]):
            return NotImplemented
        mask = whole(mask)
    if mask is not None and mask.ndim > 1 and mask.shape[-2] not in (1, parts[0].shape[-2]):
        mask = cut(mask, -2, parts[0].shape[-2])
    out = native(*parts, mask, p, causal, gqa, training)
    return wrap(out, [*batch, queries[-2], dims_of(v)[-1]])


def same(a: Any, b: Any) -> bool:
    return bool(a.same(b) if is_bound(a) else not is_bound(b) and a == b)
