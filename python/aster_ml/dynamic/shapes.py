"""Functions that take sizes (dynamic): those that are bound variables reach the library as
expressions."""

from __future__ import annotations

from typing import Any

from .. import _native
from ..dtype import dtypes, from_code
from . import (
    NATIVE,
    all_axes,
    dims,
    dims_of,
    iota,
    is_bound,
    most_of,
    sizes,
    take,
    value_of,
    whole,
    wrap,
)


@sizes("reshape")
def _reshape(native: Any, x: Any, shape: Any) -> Any:
    return _native.lazy_reshape_dims(x, dims(shape))


@sizes("expand")
def _expand(native: Any, x: Any, shape: Any) -> Any:
    return _native.lazy_expand_dims(x, [-1 if s is None else s for s in dims(shape)])


@sizes("shrink")
def _shrink(native: Any, x: Any, begin: Any, end: Any) -> Any:
    return _native.lazy_shrink_dims(x, dims(begin), dims(end))


@sizes("pad")
def _pad(native: Any, x: Any, before: Any, after: Any, fill: Any = None) -> Any:
    return _native.lazy_pad_dims(x, dims(before), dims(after), fill)


@sizes("rearrange")
def _rearrange(native: Any, x: Any, formula: str, names: Any, sizes: Any) -> Any:
    return _native.lazy_rearrange_dims(x, formula, names, dims(sizes))


@sizes("interpolate")
def _interpolate(native: Any, x: Any, size: Any, mode: int, align_corners: Any) -> Any:
    return _native.lazy_interpolate_dims(x, dims(size), mode, align_corners)


@sizes("full")
def _full(native: Any, value: Any, code: int, shape: Any, *rest: Any) -> Any:
    return NotImplemented if is_bound(value) else _native.lazy_full_dims(value, code, dims(shape))


@sizes("empty")
def _empty(native: Any, code: int, shape: Any, *rest: Any) -> Any:
    return _native.lazy_empty_dims(code, dims(shape))


@sizes("arange")
def _arange(native: Any, start: Any, stop: Any, step: Any, code: int, *rest: Any) -> Any:
    if is_bound(step) or step != 1 or not stop - start >= 0:
        return NotImplemented
    begin, end = dims((start, stop))
    return _native.lazy_arange_dims(begin, end, code)


@sizes("eye")
def _eye(native: Any, rows: Any, columns: Any, *rest: Any) -> Any:
    return wrap(native(*most_of((rows, columns)), *rest), (rows, columns))


@sizes("linspace")
def _linspace(native: Any, start: Any, stop: Any, count: Any, code: int, *rest: Any) -> Any:
    if is_bound(start) or is_bound(stop) or not count >= 2:
        return NotImplemented
    wanted = from_code(code) if code else dtypes.default_float
    kind = dtypes.float64 if wanted is dtypes.float64 else dtypes.float32
    step = (stop - start) / (value_of(count) - 1).cast(kind)
    return wrap((iota(count.vmax) * step + start).cast(wanted), [count])


# ---- by a variable


@sizes("triu", "tril")
def _triangle(native: Any, x: Any, diagonal: Any) -> Any:
    rows, columns = _native.lazy_shape(whole(x))[-2:]
    place = iota(columns) - iota(rows, 1) - value_of(diagonal)
    keep = place >= 0 if native is NATIVE["lazy_triu"] else place <= 0
    return wrap(keep.where(whole(x), 0), dims_of(x))


@sizes("roll")
def _roll(native: Any, x: Any, shifts: Any, axes: Any) -> Any:
    for axis, shift in zip(all_axes(x, axes), shifts, strict=True):
        n = value_of(dims_of(x)[axis])
        place = (iota(_native.lazy_shape(whole(x))[axis]) - value_of(shift)) % n
        x = wrap(take(whole(x), axis, place), dims_of(x))
    return x


@sizes("repeat")
def _repeat(native: Any, x: Any, repeats: Any) -> Any:
    x = native(x, [1 if is_bound(r) else r for r in repeats])
    for axis, r in enumerate(repeats):
        if is_bound(r):
            sizes, size = dims_of(x), dims_of(x)[axis]
            place = iota(most_of([size])[0] * r.vmax) % value_of(size)
            taken = take(whole(x), axis, place)
            x = wrap(taken, [*sizes[:axis], size * r, *sizes[axis + 1 :]])
    return x
