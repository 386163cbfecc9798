"""Rules (dynamic) of what works element by element, and of what makes tensors."""

from __future__ import annotations

from typing import Any

from .. import _native
from ..dtype import dtypes, from_code
from . import (
    RULES,
    WEAK_INT,
    align,
    dims_of,
    iota,
    is_bound,
    masked,
    most_of,
    rule,
    value_of,
    whole,
    wrap,
)

_ELEMENTWISE = """abs acos acosh add asin asinh atan atanh bitwise_and bitwise_not bitwise_or
bitwise_xor cast ceil celu clamp clone const_like contiguous contiguous_backward copy copysign cos
cosh detach div elu empty_like eq erf exp exp2 floor floordiv fmod full_like ge gelu gelu_erf gt
hardsigmoid hardswish hardtanh isclose isfinite isinf_signed isnan le leaky_relu lerp log log10 log2
logaddexp logical_not logsigmoid lt masked_fill maximum minimum mish mod mul ne neg ones_like pow
quick_gelu reciprocal relu relu6 round rsqrt selu shl shr sigmoid sign silu sin sinh softplus
softplus_beta softsign sqrt square sub tan tanh to trunc truncdiv where zeros_like"""


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
    dims, size, wanted = list(dims_of(x)), x.dtype.itemsize, from_code(code).itemsize
    if size < wanted and dims and is_bound(dims[-1]):
        return NotImplemented
    out = native(whole(x), code)
    if size != wanted:
        dims[-1] = dims[-1] * size // wanted
    return wrap(out, dims)


@rule("one_hot")
def _one_hot(native: Any, labels: Any, classes: Any) -> Any:
    if is_bound(classes):
        return NotImplemented
    return wrap(native(whole(labels), classes), [*dims_of(labels), classes])


@rule("dtype", "device", "ndim", "is_realized", "is_stored")
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


def _gradient(native: Any, loss: Any, targets: Any, options: Any) -> Any:
    if (seed := options.get("seed")) is not None:
        options = {**options, "seed": masked(seed, range(len(dims_of(seed))), 0)}
    found = native(whole(loss), [whole(t) for t in targets], options)
    return [None if g is None else wrap(g, dims_of(t)) for t, g in zip(targets, found)]


RULES["gradient"] = _gradient


# ---- making


@rule("full")
def _full(native: Any, value: Any, code: int, shape: Any, *rest: Any) -> Any:
    if is_bound(value):
        return NotImplemented
    return wrap(native(value, code, most_of(shape), *rest), shape)


@rule("empty", "zeros", "ones")
def _empty(native: Any, code: int, shape: Any, *rest: Any) -> Any:
    return wrap(native(code, most_of(shape), *rest), shape)


@rule("eye")
def _eye(native: Any, rows: Any, columns: Any, *rest: Any) -> Any:
    return wrap(native(*most_of((rows, columns)), *rest), (rows, columns))


@rule("arange")
def _arange(native: Any, start: Any, stop: Any, step: Any, code: int, *rest: Any) -> Any:
    if is_bound(step) or step != 1 or not stop - start >= 0:
        return NotImplemented
    count = stop - start
    out = native(0, count.vmax if is_bound(count) else count, 1, code, *rest)
    if is_bound(start) or start:
        out = out + value_of(start)
    return wrap(out, [count])


@rule("linspace")
def _linspace(native: Any, start: Any, stop: Any, count: Any, code: int, *rest: Any) -> Any:
    if is_bound(start) or is_bound(stop) or not count >= 2:
        return NotImplemented
    wanted = from_code(code) if code else dtypes.default_float
    kind = dtypes.float64 if wanted is dtypes.float64 else dtypes.float32
    step = (stop - start) / (value_of(count) - 1).cast(kind)
    return wrap((iota(count.vmax) * step + start).cast(wanted), [count])
