"""Rules (dynamic) of indexing: x[...] and what is written there."""

from __future__ import annotations

from typing import Any, Sequence

from .. import _native
from . import (
    NATIVE,
    Part,
    align,
    cut,
    dim,
    dims_of,
    iota,
    is_bound,
    rule,
    same,
    take,
    value_of,
    whole,
    wrap,
)


class _Unlike(Exception):
    """The sizes have to be seen."""


# ---- one axis


def _full_slice(i: Any) -> bool:
    return isinstance(i, slice) and i.start is None and i.stop is None and i.step in (None, 1)


def _concerns(i: Any, d: Any) -> bool:
    """Whether a variable has to do with an index i of an axis of size d."""
    if isinstance(i, slice):
        return is_bound(i.start) or is_bound(i.stop) or is_bound(d) and not _full_slice(i)
    return is_bound(i) or is_bound(d)


def _position(i: Any, size: Any) -> Any:
    """An index within the size, counted from the front."""
    if not is_bound(i) and i < 0:
        i = i + size
    if not (i >= 0 and i < size):
        raise _Unlike
    return i


def _range(index: slice, size: Any) -> tuple[Any, Any, int]:
    """First place, count and step of a slice. Raises _Unlike for what Python would clamp."""
    step = 1 if index.step is None else index.step
    if is_bound(step):
        raise _Unlike
    begin, end = (size - 1, -1) if step < 0 else (0, size)
    if index.start is not None:
        begin = index.start + size if not is_bound(index.start) and index.start < 0 else index.start
    if index.stop is not None:
        end = index.stop + size if not is_bound(index.stop) and index.stop < 0 else index.stop
    if step < 0:
        if not (begin < size and end <= begin and end >= -1):
            raise _Unlike
        return begin, (begin - end - step - 1) // -step, step
    if not ((same(end, size) or end <= size) and begin >= 0 and begin <= end):
        raise _Unlike
    return begin, (end - begin + step - 1) // step if step > 1 else end - begin, step


def _part(x: Any, axis: int, i: slice, size: Any) -> tuple[Any, Any]:
    """The elements of an axis that a slice says, and how many are meant."""
    begin, count, step = _range(i, size)
    here: int = _native.lazy_shape(x)[axis]
    most = min(count.vmax if is_bound(count) else count, here)
    if is_bound(begin) or step < 0:
        return take(x, axis, value_of(begin) + iota(most) * step), count
    end = min(begin + most * step, here)
    if begin == 0 and step == 1:
        return cut(x, axis, end), count
    return NATIVE["lazy_index"](x, (slice(None),) * axis + (slice(begin, end, step),)), count


# ---- reading


@rule("index")
def _index(native: Any, x: Any, items: Any) -> Any:
    from ..mixin.indexing import normalize_indices

    wanted = items if isinstance(items, tuple) else (items,)
    if (part := _first_part(x, wanted)) is not None:
        return part
    out, dims = whole(x), list(dims_of(x))
    tensors: list[tuple[int, Any]] = []
    axis = 0
    try:
        for i in normalize_indices(wanted, len(dims)):
            d = dims[axis] if axis < len(dims) else 1
            if i is None:
                out = _native.lazy_unsqueeze(out, axis)
                dims.insert(axis, 1)
            elif isinstance(i, _native.Lazy):
                if _native.lazy_dtype(i) == 1:
                    raise _Unlike
                tensors.append((axis, i))
            elif not isinstance(i, slice):
                out = take(out, axis, value_of(_position(i, d)) if _concerns(i, d) else i)
                del dims[axis]
                continue
            elif _concerns(i, d):
                out, dims[axis] = _part(out, axis, i, d)
            elif not _full_slice(i):
                out = take(out, axis, i)
                dims[axis] = _native.lazy_shape(out)[axis]
            axis += 1
        if tensors:
            return _index_tensors(native, out, dims, tensors)
    except _Unlike:
        return NotImplemented
    out = wrap(out, dims)
    return _as_part(out, (x, wanted)) if x.__class__ is Part or any(map(_moves, wanted)) else out


def _first_part(x: Any, items: tuple[Any, ...]) -> Any:
    """x[...] of slices that stay inside whatever the values: one call; None where it is another."""
    dims, end = dims_of(x), list[Any]()
    begin = [0] * len(dims)
    if len(items) > len(dims):
        return None
    for k, d in enumerate(dims):
        i = items[k] if k < len(items) else _ALL
        if i.__class__ is not slice or i.step is not None and i.step != 1:
            return None
        if i.start is not None:
            begin[k] = i.start
            if i.start.__class__ is not int or i.start < 0:
                return None
        stop = d if i.stop is None else i.stop
        if stop is not d and is_bound(d) or not is_bound(stop) and not begin[k] <= stop <= d:
            return None
        if stop is not d and is_bound(stop) and not begin[k] <= stop.vmin <= stop.vmax <= d:
            return None
        end.append(dim(stop))
    return _native.lazy_shrink_dims(x, begin, end)


_ALL = slice(None)


def _moves(i: Any) -> bool:
    """Whether an index stands for a place that is a variable."""
    return is_bound(i.start if isinstance(i, slice) else i)


def _as_part(x: Any, source: tuple[Any, Any]) -> Part:
    out = Part()
    _native.replace(out, x)
    out._source = source
    return out


def _index_tensors(native: Any, x: Any, dims: list[Any], tensors: list[tuple[int, Any]]) -> Any:
    """Axes by tensors, which are broadcast: their axes take the place of those they index, or
    come first where these are not beside each other."""
    aligned = align([index for _, index in tensors])
    if aligned is None:
        raise _Unlike
    axes = [axis for axis, _ in tensors]
    items: list[Any] = [slice(None)] * len(dims)
    for axis, index in zip(axes, aligned[0]):
        n = dims[axis]
        if is_bound(n):
            n = value_of(n)
            place = (index < 0).where(index + n, index)
            index = ((place >= 0) & (place < n)).where(place, _native.lazy_shape(x)[axis])
        items[axis] = index
    rest = [d for k, d in enumerate(dims) if k not in axes]
    at = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return wrap(native(x, tuple(items)), [*rest[:at], *aligned[1], *rest[at:]])


# ---- writing


@rule("index_assign")
def _index_assign(native: Any, target: Any, items: Any, value: Any) -> Any:
    if target.__class__ is Part:
        source, place = target._source
        _native.replace(target, _native.lazy_shrink(target, *_present(target)))
        native(target, items, value)
        source[place] = target
        return None
    items = items if isinstance(items, tuple) else (items,)
    if any(isinstance(i, _native.Lazy) for i in items):
        return NotImplemented
    try:
        places, sizes, owners = _places(items, dims_of(target))
    except _Unlike:
        return NotImplemented
    if not _fits(dims_of(value), sizes):
        return NotImplemented
    held = whole(value)
    for back, d in enumerate(reversed(dims_of(value)), 1):
        if is_bound(d):
            at = owners[-back]
            least = min(_native.lazy_shape(held)[-back], _native.lazy_shape(places[at])[0])
            held, places[at] = cut(held, -back, least), cut(places[at], 0, least)
    ranges = [k for k in owners if isinstance(places[k], _native.Lazy)]
    for k, at in enumerate(ranges):  # every place of one with every place of the others
        places[at] = places[at].reshape(-1, *[1] * (len(ranges) - 1 - k))
    return native(target, tuple(places), held)


def _places(items: Any, dims: Sequence[Any]) -> tuple[list[Any], list[Any], list[int]]:
    """Indices with tensors, beside each other, where there are variables; the sizes of the part,
    and which index each is of."""
    from ..mixin.indexing import normalize_indices

    given = normalize_indices(items, len(dims))
    if any(i is None for i in given):
        raise _Unlike
    out: list[Any] = []
    sizes: list[Any] = []
    owners: list[int] = []
    for k, (i, d) in enumerate(zip(given, dims)):
        if not isinstance(i, slice):
            out.append(value_of(_position(i, d)) if is_bound(i) else i)
            continue
        owners.append(k)
        if not _concerns(i, d):
            out.append(i)
            sizes.append(len(range(*i.indices(d))))
        else:
            begin, count, step = _range(i, d)
            most = min(count.vmax, d) if is_bound(count) else count
            place = value_of(begin) + iota(most) * step
            if is_bound(count):  # those beyond the size are outside and write nothing
                place = (iota(most) < value_of(count)).where(place, d)
            out.append(place)
            sizes.append(count)
    tensors = [k for k, i in enumerate(out) if isinstance(i, _native.Lazy)]
    if tensors and tensors[-1] - tensors[0] != len(tensors) - 1:
        raise _Unlike
    return out, sizes, owners


def _fits(dims: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """Whether a value of these dims is broadcast to a part of these sizes."""
    for back, d in enumerate(reversed(dims), 1):
        n = sizes[-back] if back <= len(sizes) else 1
        if not same(d, n) and (is_bound(d) or is_bound(n) and d != 1):
            return False
    return True


def _present(x: Any) -> tuple[list[int], list[int]]:
    sizes = [int(d) for d in dims_of(x)]
    return [0] * len(sizes), sizes


@rule("assign")
def _assign(native: Any, target: Any, value: Any) -> Any:
    if target.__class__ is not Part:
        return NotImplemented
    source, items = target._source
    source[items] = value
    _native.replace(target, source[items])
