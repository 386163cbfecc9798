"""Indexing (dynamic): positions that are bound variables reach the library as expressions, and what
is written to a part at one is written to its tensor."""

from __future__ import annotations

from typing import Any

from .. import _native
from . import Part, dim, is_bound, rule


def _place(i: Any) -> Any:
    """An index as the library takes it."""
    if isinstance(i, slice):
        return slice(dim(i.start), dim(i.stop), int(i.step) if is_bound(i.step) else i.step)
    return dim(i)


def _moves(i: Any) -> bool:
    """Whether an index stands for a place that is a variable."""
    return is_bound(i.start if isinstance(i, slice) else i)


@rule("index")
def _index(native: Any, x: Any, items: Any) -> Any:
    wanted = items if isinstance(items, tuple) else (items,)
    out = _native.lazy_index_dims(x, tuple(map(_place, wanted)))
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
    _native.lazy_index_assign_dims(target, tuple(map(_place, wanted)), value)
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
