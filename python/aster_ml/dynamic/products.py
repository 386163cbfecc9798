"""Rules (dynamic) of products of tensors, of windows, and of matrices."""

from __future__ import annotations

import string
from typing import Any, Sequence

from .. import _native
from ..dtype import dtypes
from . import (
    NATIVE,
    Symbolic,
    align,
    all_axes,
    beside,
    bound_axes,
    cut,
    dims_of,
    inside_of,
    iota,
    is_bound,
    masked,
    rule,
    same,
    sized_as,
    special,
    value_of,
    whole,
    wrap,
)

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
    if _thin(a, b) and not rest:
        aligned = align([a, b], skip=2)
        if aligned is not None:
            (x, y), dims = aligned
            return _sums(x, y, [*dims, left[-2], k, right[-1]])
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


_THIN = 4  # products with a thinner side are sums of rows


def _thin(a: Any, b: Any) -> bool:
    """Whether a product is generated, so that it can end where the sizes do."""
    sides = dims_of(a)[-2:-1] + dims_of(b)[-1:]
    floats = a.dtype == b.dtype and a.dtype in (dtypes.float32, dtypes.float64)
    thin = any(not is_bound(d) and d < _THIN for d in sides)
    return floats and thin and len(dims_of(a)) > 1 and len(dims_of(b)) > 1


def _sums(a: Any, b: Any, dims: list[Any]) -> Any:
    """Products of rows and columns within the sizes, added up."""
    least = min(_native.lazy_shape(a)[-1], _native.lazy_shape(b)[-2])
    rows = cut(a, -1, least).unsqueeze(-2)
    columns = cut(b, -2, least).transpose(-1, -2).unsqueeze(-3)
    terms = wrap(rows * columns, [*dims[:-2], dims[-1], dims[-2]])
    total = _native.lazy_sum(masked(terms, range(len(dims)), 0), [len(dims) - 1], False)
    return wrap(total, [*dims[:-2], dims[-1]])


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
    if is_bound(keys[-2]) and not gqa and mask is None and not causal and _thin(q, v):
        return _few_keys(q, k, v)
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


def _few_keys(q: Any, k: Any, v: Any) -> Any:
    """Attention whose keys are as many as a variable says: its parts end there."""
    scores = q.dot(k.transpose(-1, -2)) / float(dims_of(q)[-1]) ** 0.5
    return scores.softmax(-1).dot(v)


@rule("einsum")
def _einsum(native: Any, formula: str, tensors: Any, *rest: Any) -> Any:
    left, arrow, out = _spelled_out(formula.replace(" ", ""), tensors).partition("->")
    names = left.split(",")
    if "." in left + out or len(names) != len(tensors):
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
    return wrap(native(f"{left}->{out}", parts, *rest), [sizes[c] for c in out])


def _spelled_out(formula: str, tensors: Any) -> str:
    """The formula with letters for the ellipsis, where all operands have as many axes there."""
    names = formula.partition("->")[0].split(",")
    counts = {len(dims_of(t)) - len(n) + 3 for n, t in zip(names, tensors) if "..." in n}
    free = [c for c in string.ascii_letters if c not in formula]
    if len(counts) != 1 or "->" not in formula or not 0 <= (count := counts.pop()) <= len(free):
        return formula
    return formula.replace("...", "".join(free[:count]))


# ---- windows: convolutions and pools


def _windows(x: Any, options: Any, kernel: Sequence[int]) -> list[Any] | None:
    """The number of windows along the last axes; None where it has to be seen."""
    dims = dims_of(x)[len(dims_of(x)) - len(kernel) :]
    out: list[Any] = []
    for k, (d, size) in enumerate(zip(dims, kernel)):
        after = options["after"][k]
        room = d + (options["before"][k] + after - options["dilation"][k] * (size - 1) - 1)
        if is_bound(d) and (after < 0 or options.get("ceil_mode") or not room >= 0):
            return None
        out.append(room // options["stride"][k] + 1)
    return out


def _spatial(x: Any, kernel: Sequence[int]) -> list[int]:
    """Those of the axes that windows move along whose sizes are variables."""
    return bound_axes(x, range(len(dims_of(x)) - len(kernel), len(dims_of(x))))


def _pooled(x: Any, out: Any, counts: Sequence[Any]) -> Any:
    """The result of a pool: windows along axes of variables are as many as counted."""
    dims = list(dims_of(x))
    first = len(dims) - len(counts)
    for k, count in enumerate(counts):
        dims[first + k] = count if is_bound(count) else _native.lazy_shape(out)[first + k]
    return wrap(out, dims)


@rule("conv")
def _conv(native: Any, x: Any, weight: Any, bias: Any, options: Any) -> Any:
    """Beyond the size of a spatial axis stands 0, as padding does."""
    kernel = _native.lazy_shape(whole(weight))[2:]
    if special((weight, bias, options)) or is_bound(dims_of(x)[1]):
        return NotImplemented
    counts = _windows(x, options, kernel)
    if counts is None:
        return NotImplemented
    out = native(masked(x, _spatial(x, kernel), 0), weight, bias, options)
    return wrap(out, [dims_of(x)[0], _native.lazy_shape(weight)[0], *counts])


@rule("conv_transpose")
def _conv_transpose(native: Any, x: Any, weight: Any, bias: Any, options: Any) -> Any:
    kernel = _native.lazy_shape(whole(weight))[2:]
    if special((weight, bias, options)) or is_bound(dims_of(x)[1]):
        return NotImplemented
    out = native(masked(x, _spatial(x, kernel), 0), weight, bias, options)
    dims = [dims_of(x)[0], *_native.lazy_shape(out)[1:]]
    for k, size in enumerate(kernel):
        more = options["dilation"][k] * (size - 1) + options["output_padding"][k] + 1
        room = (dims_of(x)[k + 2] - 1) * options["stride"][k]
        if is_bound(room):
            dims[k + 2] = room + (more - options["before"][k] - options["after"][k])
            if not dims[k + 2] >= 1:
                return NotImplemented
    return wrap(out, dims)


@rule("max_pool", "max_pool_with_indices")
def _max_pool(native: Any, x: Any, kernel: Any, options: Any) -> Any:
    axes, several = _spatial(x, kernel), native is NATIVE["lazy_max_pool_with_indices"]
    counts = _windows(x, options, kernel)
    # An index counts in the sizes of all of these axes but the first.
    if counts is None or several and any(a != len(dims_of(x)) - len(kernel) for a in axes):
        return NotImplemented
    out = native(masked(x, axes, x.dtype.min), kernel, options)
    return tuple(_pooled(x, r, counts) for r in out) if several else _pooled(x, out, counts)


@rule("avg_pool")
def _avg_pool(native: Any, x: Any, kernel: Any, options: Any) -> Any:
    counts = _windows(x, options, kernel)
    if counts is None:
        return NotImplemented
    if not (axes := _spatial(x, kernel)):
        return _pooled(x, native(whole(x), kernel, options), counts)
    plain = {**options, "exclude_pad": False}
    out = native(masked(x, axes, 0), kernel, plain)
    if options.get("exclude_pad"):
        inside: Any = inside_of(x, axes)
        shape = _native.lazy_shape(whole(x))
        out = out / native(inside.cast(out.dtype).expand(*shape), kernel, plain)
    return _pooled(x, out, counts)


@rule("max_unpool")
def _max_unpool(native: Any, x: Any, places: Any, kernel: Any, options: Any) -> Any:
    aligned = align([x, places])
    if aligned is None or _spatial(x, kernel) or special(options):
        return NotImplemented
    return sized_as(native(*aligned[0], kernel, options), aligned[1])


@rule("unfold")
def _unfold(native: Any, x: Any, axis: int, size: int, step: int) -> Any:
    (at,), dims = all_axes(x, axis), list(dims_of(x))
    if special((size, step)) or size < 0 or step < 1 or not dims[at] >= size:
        return NotImplemented
    dims[at] = (dims[at] - size) // step + 1
    return wrap(native(whole(x), axis, size, step), [*dims, size])


rule("interpolate")(beside(lambda x, size, *_: range(-len(size), 0)))
rule("qr", "svd", "newton_schulz")(beside(lambda x, *_: (-2, -1)))
rule("keccak", "keccak_rate")(beside(lambda x, *_: -1))
