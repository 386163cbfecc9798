"""Rules (dynamic) of sums of products, of windows, and of matrices."""

from __future__ import annotations

import string
from typing import Any, Sequence

from .. import _native
from . import (
    NATIVE,
    align,
    beside,
    bound_axes,
    cut,
    dims_of,
    inside_of,
    is_bound,
    masked,
    rule,
    same,
    sized_as,
    special,
    whole,
    wrap,
)

# ---- products


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


rule("qr", "svd")(beside(lambda x, *_: (-2, -1)))
