"""Indexing (dynamic): positions that are bound variables reach the library as expressions, and what
is written to a part at one is written to its tensor."""

from __future__ import annotations

from typing import Any

from .. import _native
from . import Part, dim, dims_of, is_bound, rule


def _place(i: Any) -> Any:
    """An index as the library takes it."""
    if isinstance(i, slice):
        return slice(dim(i.start), dim(i.stop), int(i.step) if is_bound(i.step) else i.step)
    return dim(i)


def _places(items: tuple[Any, ...], x: Any) -> tuple[Any, ...]:
    from ..mixin.indexing import normalize_indices

    sizes, axis = dims_of(x), 0
    for i in normalize_indices(items, len(sizes)):
        if isinstance(i, _native.Lazy) and _native.lazy_dtype(i) == 1:
            axis += _native.lazy_ndim(i)  # a mask
        elif i is not None:
            _inside(i, sizes[axis])
            axis += 1
    return tuple(map(_place, items))


def _inside(i: Any, size: Any) -> bool:
    """Whether an index is inside whatever the values: where a comparison says so for some of them,
    a recording serves these (symbolic.note_seen)."""
    if isinstance(i, _native.Lazy):
        return True
    if not isinstance(i, slice):
        return bool(-size <= i < size) if not is_bound(i) else bool(i >= 0 and i < size)
    back = i.step is not None and i.step < 0
    start, stop = (
        p + size if p is not None and not is_bound(p) and p < 0 else p for p in (i.start, i.stop)
    )
    if start is not None and not (start >= 0 and (start < size if back else start <= size)):
        return False
    if stop is not None and not (stop >= 0 and stop <= size):
        return False
    return start is None or stop is None or bool(stop <= start if back else start <= stop)


def _moves(i: Any) -> bool:
    """Whether an index stands for a place that is a variable."""
    return is_bound(i.start if isinstance(i, slice) else i)


@rule("index")
def _index(native: Any, x: Any, items: Any) -> Any:
    wanted = items if isinstance(items, tuple) else (items,)
    out = _native.lazy_index_dims(x, _places(wanted, x))
    if any(isinstance(i, _native.Lazy) for i in wanted):
        return out
    return _as_part(out, (x, wanted)) if x.__class__ is Part or any(map(_moves, wanted)) else out


def _as_part(x: Any, source: tuple[Any, Any]) -> Part:
    out = Part()
    _native.replace(out, x)
    out._source = source
    return out


@rule("index_assign")
def _index_assign(native: Any, target: Any, items: Any, value: Any) -> None:
    wanted = items if isinstance(items, tuple) else (items,)
    _native.lazy_index_assign_dims(target, _places(wanted, target), value)
    if target.__class__ is Part:
        source, place = target._source
        source[place] = target


@rule("assign")
def _assign(native: Any, target: Any, value: Any) -> Any:
    if target.__class__ is not Part:
        return NotImplemented
    source, items = target._source
    source[items] = value
    _native.replace(target, source[items])
