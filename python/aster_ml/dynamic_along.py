"""Rules (dynamic_rules.py) of what works along an axis whose size is a variable: orders, sorts,
norms, sums of products, convolutions."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from . import _native
from .dtype import dtypes
from .dynamic import (
    cut,
    dims_of,
    iota,
    is_bound,
    masked,
    rule,
    special,
    value_of,
    whole,
    wrap,
)
from .dynamic_rules import all_axes, bound_axes, mean_of, same, take, variance, wide

# ---- other places


def _reordered(x: Any, axes: Sequence[int], place: Callable[[int, Any, Any], Any]) -> Any:
    """Element place(axis, i, n) along each of those axes comes to i, n being the size."""
    dims, out = dims_of(x), whole(x)
    for a in axes:
        out = take(out, a, place(a, iota(_native.lazy_shape(out)[a]), value_of(dims[a])))
    return wrap(out, dims)


@rule("flip")
def _flip(native: Any, x: Any, axes: Any) -> Any:
    listed = all_axes(x, axes)
    bound = [a for a in listed if is_bound(dims_of(x)[a])]
    if len(set(listed)) != len(listed):
        return NotImplemented
    out = native(whole(x), [a for a in listed if a not in bound])
    return _reordered(wrap(out, dims_of(x)), bound, lambda _, i, n: (n - 1 - i).maximum(0))


@rule("roll")
def _roll(native: Any, x: Any, shifts: Any, axes: Any) -> Any:
    amounts = dict[int, Any]()
    for a, s in zip(all_axes(x, axes), shifts, strict=True):
        amounts[a] = amounts.get(a, 0) + value_of(s)
    return _reordered(x, list(amounts), lambda a, i, n: (i - amounts[a]) % n)


@rule("repeat")
def _repeat(native: Any, x: Any, repeats: Any) -> Any:
    if special(repeats) or len(repeats) < len(dims_of(x)) or any(r < 0 for r in repeats):
        return NotImplemented
    dims = [1] * (len(repeats) - len(dims_of(x))) + list(dims_of(x))
    sizes = [1] * (len(repeats) - len(dims_of(x))) + list(_native.lazy_shape(whole(x)))
    out = native(whole(x).reshape(*sizes), [1 if is_bound(d) else r for d, r in zip(dims, repeats)])
    for a, (d, r) in enumerate(zip(dims, repeats)):
        dims[a] = d * r
        if is_bound(d) and r != 1:
            out = take(out, a, iota(sizes[a] * r) % value_of(d))
    return wrap(out, dims)


@rule("repeat_interleave")
def _repeat_interleave(native: Any, x: Any, repeats: Any, axis: int) -> Any:
    if is_bound(repeats):
        return NotImplemented
    dims, (at,) = list(dims_of(x)), all_axes(x, axis)
    dims[at] = dims[at] * repeats
    return wrap(native(whole(x), repeats, axis), dims)


@rule("gather")
def _gather(native: Any, x: Any, axis: int, index: Any) -> Any:
    (at,), dims, wanted = all_axes(x, axis), dims_of(x), dims_of(index)
    if len(dims) != len(wanted):
        return NotImplemented
    places, source = whole(index), masked(x, [at], 0)
    for k, (d, n) in enumerate(zip(dims, wanted)):
        if k == at or not (is_bound(d) or is_bound(n)):
            continue
        if not same(d, n):
            return NotImplemented
        least = min(_native.lazy_shape(source)[k], _native.lazy_shape(places)[k])
        source, places = cut(source, k, least), cut(places, k, least)
    return wrap(native(source, axis, places), wanted)


# ---- in order: behind every element stands what comes last


def _last(x: Any, axis: int, descending: Any) -> Any:
    if descending:
        return masked(x, [axis], x.dtype.min)
    return masked(x, [axis], float("nan") if dtypes.is_float(x.dtype) else x.dtype.max)


@rule("sort")
def _sort(native: Any, x: Any, axis: int, descending: Any) -> Any:
    values, places = native(_last(x, all_axes(x, axis)[0], descending), axis, descending)
    return wrap(values, dims_of(x)), wrap(places, dims_of(x))


@rule("argsort")
def _argsort(native: Any, x: Any, axis: int, descending: Any) -> Any:
    return wrap(native(_last(x, all_axes(x, axis)[0], descending), axis, descending), dims_of(x))


@rule("topk")
def _topk(native: Any, x: Any, k: Any, axis: int, largest: Any) -> Any:
    (at,), dims = all_axes(x, axis), list(dims_of(x))
    if is_bound(k) or not dims[at] >= k:
        return NotImplemented
    dims[at] = k
    values, places = native(_last(x, at, largest), k, axis, largest)
    return wrap(values, dims), wrap(places, dims)


# ---- norms


@rule("layernorm")
def _layernorm(native: Any, x: Any, axes: Any, eps: float) -> Any:
    plain, listed = native(whole(x), axes, eps), all_axes(x, axes)
    if bound_axes(x, listed):
        apart = whole(x).cast(wide(x)) - mean_of(x, listed, True)
        plain = (apart * (variance(x, listed, True, 0) + eps).rsqrt()).cast(plain.dtype)
    return wrap(plain, dims_of(x))


@rule("normalize")
def _normalize(native: Any, x: Any, p: float, axis: int, eps: float) -> Any:
    if p <= 0:
        return NotImplemented
    return wrap(native(masked(x, all_axes(x, axis), 0), p, axis, eps), dims_of(x))


@rule("softmin")
def _softmin(native: Any, x: Any, axis: int, *rest: Any) -> Any:
    return wrap(native(masked(x, all_axes(x, axis), x.dtype.max), axis, *rest), dims_of(x))


# ---- products


@rule("einsum")
def _einsum(native: Any, formula: str, tensors: Any, *rest: Any) -> Any:
    left, arrow, out = formula.replace(" ", "").partition("->")
    names = left.split(",")
    if "." in formula or len(names) != len(tensors):
        return NotImplemented
    if not arrow:
        out = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    sizes: dict[str, Any] = {}
    least: dict[str, int] = {}
    for name, t in zip(names, tensors):
        if len(name) != len(dims_of(t)) or len(set(name)) != len(name):
            return NotImplemented
        for c, d, n in zip(name, dims_of(t), _native.lazy_shape(whole(t))):
            if not same(sizes.setdefault(c, d), d):
                return NotImplemented
            least[c] = min(least.get(c, n), n)
    if not set(out) <= set(sizes):
        return NotImplemented
    parts = []
    for name, t in zip(names, tensors):
        part = masked(t, [k for k, c in enumerate(name) if c not in out], 0)
        for k, c in enumerate(name):
            part = cut(part, k, least[c])
        parts.append(part)
    return wrap(native(formula, parts, *rest), [sizes[c] for c in out])


@rule("conv")
def _conv(native: Any, x: Any, weight: Any, bias: Any, options: Any) -> Any:
    """Beyond the size of a spatial axis stands 0, as padding does."""
    dims = list(dims_of(x))
    kernel = _native.lazy_shape(whole(weight))[2:]
    if special((weight, bias)) or is_bound(dims[1]) or special(tuple(options.values())):
        return NotImplemented
    for k, window in enumerate(kernel):
        d = dims[k + 2]
        reach = options["dilation"][k] * (window - 1) + 1
        room = d + (options["before"][k] + options["after"][k] - reach)
        if is_bound(d) and (options["after"][k] < 0 or not room >= 0):
            return NotImplemented
        dims[k + 2] = room // options["stride"][k] + 1
    dims[1] = _native.lazy_shape(weight)[0]
    return wrap(native(masked(x, range(2, len(dims)), 0), weight, bias, options), dims)
