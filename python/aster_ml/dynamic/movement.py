"""Rules (dynamic) of movement: shapes, axes, parts joined, elements in another order."""

from __future__ import annotations

import re
from typing import Any, Callable, Sequence

from .. import _native
from ..helpers import prod
from ..symbolic import BoundInt, Expression
from ..tensor import Tensor
from . import (
    NATIVE,
    all_axes,
    beside,
    bound_axes,
    cut,
    dims_of,
    inside_of,
    iota,
    is_bound,
    most_of,
    rule,
    same,
    seen,
    special,
    take,
    value_of,
    whole,
    wrap,
)

# ---- shapes


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
    """Of memory where the variables can stay on their axes, else place by place."""
    out = _reshape_whole(native, x, shape)
    if out is NotImplemented:
        out = _reshape_places(x, list(shape))
    return wrap(native(seen(x), seen(shape)), shape) if out is NotImplemented else out


def _reshape_places(x: Any, shape: list[Any]) -> Any:
    dims, wanted = dims_of(x), _inferred(dims_of(x), shape)
    if wanted is None or _product(dims) != _product(wanted):
        return NotImplemented
    most = most_of(wanted)
    if prod(most) >= 2**31 or prod(_native.lazy_shape(whole(x))) >= 2**31:
        return NotImplemented
    element: Any = 0  # its number among those meant
    for k, d in enumerate(wanted):
        element = element * value_of(d) + iota(most[k], len(most) - 1 - k)
    place, step = element * 0, 1  # in memory
    for d, n in zip(reversed(dims), reversed(_native.lazy_shape(whole(x)))):
        place = place + element % value_of(d) * step
        element, step = element // value_of(d), step * n
    return wrap(take(whole(x).flatten(), 0, place), wanted)


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
    before, after = list(before), list(after)
    if any(is_bound(b) for b in before):
        return _pad_places(x, before, after, fill)
    if any(b < 0 for b in before):
        return NotImplemented
    out = [d + b + a for d, b, a in zip(dims, before, after)]
    extent = [k for k, (d, a) in enumerate(zip(dims, after)) if is_bound(d) or is_bound(a)]
    changed = [k for k in extent if before[k] or is_bound(after[k]) or after[k]]
    if changed:
        inside = inside_of(x, changed)
        value = 0 if fill is None else fill
        if inside is not None:
            padded = inside.where(padded, value[0] if isinstance(value, tuple) else value)
            padded = padded.cast(x.dtype)  # which holds the value: a number may be of another kind
    for k in changed:
        if not is_bound(after[k]) and after[k] < 0:
            return NotImplemented
        most = out[k].vmax if is_bound(out[k]) else out[k]
        after[k] = most - sizes[k] - before[k]
        if after[k] < 0:  # the variable's greatest value is less than the memory
            padded, after[k] = cut(padded, k, most - before[k]), 0
    return wrap(native(padded, before, after, fill), out)


def _pad_places(x: Any, before: list[Any], after: list[Any], fill: Any) -> Any:
    """Padding where a variable says how much comes before."""
    dims, value = list(dims_of(x)), fill[0] if isinstance(fill, tuple) else fill or 0
    out, inside = whole(x), Tensor(True)
    for k, (d, b, a) in enumerate(zip(dims, before, after)):
        if not (b >= 0 and a >= 0):
            return NotImplemented
        (most,) = most_of([d + b + a])
        place = iota(most, len(dims) - 1 - k) - value_of(b)
        inside = inside & (place >= 0) & (place < value_of(d))
        out, dims[k] = take(out, k, place.flatten().maximum(0)), d + b + a
    return wrap(inside.where(out, value).cast(x.dtype), dims)


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
    if len(set(listed)) != len(listed):
        return NotImplemented
    bound = bound_axes(x, listed)
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
    new = [1] * (len(repeats) - len(dims_of(x)))
    if len(repeats) < len(dims_of(x)) or any(r < 0 for r in repeats):
        return NotImplemented
    dims, sizes = [*new, *dims_of(x)], [*new, *_native.lazy_shape(whole(x))]
    turns = [is_bound(d) or is_bound(r) for d, r in zip(dims, repeats)]
    out = native(whole(x).reshape(*sizes), [1 if turn else r for turn, r in zip(turns, repeats)])
    for a, (d, r) in enumerate(zip(dims, repeats)):
        dims[a] = d * r
        if turns[a] and not same(dims[a], d):
            out = take(out, a, iota(sizes[a] * most_of([r])[0]) % value_of(d))
    return wrap(out, dims)


@rule("repeat_interleave")
def _repeat_interleave(native: Any, x: Any, repeats: Any, axis: int) -> Any:
    if is_bound(repeats):
        return NotImplemented
    dims, (at,) = list(dims_of(x)), all_axes(x, axis)
    dims[at] = dims[at] * repeats
    return wrap(native(whole(x), repeats, axis), dims)


@rule("diag")
def _diag(native: Any, x: Any) -> Any:
    return wrap(native(whole(x)), dims_of(x) * 2)


rule("pad_mode")(beside(lambda x, before, after, *_: _padded_axes(before, after)))


def _padded_axes(before: Sequence[int], after: Sequence[int]) -> list[int]:
    return [k for k, pair in enumerate(zip(before, after)) if any(pair)]


@rule("rearrange")
def _rearrange(native: Any, x: Any, formula: str, names: Any, sizes: Any) -> Any:
    """Axes split by a reshape, permuted, joined by another."""
    left, arrow, right = formula.partition("->")
    (before, split), (after, joined) = _groups(left), _groups(right)
    dims, known = dims_of(x), dict(zip(names, sizes))
    if not arrow or len(split) != len(dims) or sorted(before) != sorted(after):
        return NotImplemented
    if len(set(before)) != len(before) or not all(name.isidentifier() for name in before):
        return NotImplemented
    for group, d in zip(split, dims):
        rest = [name for name in group if name not in known]
        wanted = _inferred([d], [known.get(name, -1) for name in group])
        if len(rest) > 1 or wanted is None:
            return NotImplemented
        known.update(zip(group, wanted))
    out = _native.lazy_reshape(x, [known[name] for name in before])
    out = _native.lazy_permute(out, [before.index(name) for name in after])
    shape: list[Any] = []
    for group in joined:
        size: Any = 1
        for name in group:
            size = size * known[name]
        shape.append(size)
    return _native.lazy_reshape(out, shape)


def _groups(side: str) -> tuple[list[str], list[list[str]]]:
    """The names of one side of a formula of axes, and those of each of its axes."""
    groups = [part.strip("()").split() for part in re.findall(r"\([^()]*\)|[^\s()]+", side)]
    return [name for group in groups for name in group], groups
