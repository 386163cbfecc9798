"""Rules (dynamic) of reductions, orders, norms and losses."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import _native
from ..dtype import dtypes
from . import (
    Rule,
    align,
    all_axes,
    beside,
    bound_axes,
    cut,
    dims_of,
    filled,
    inside_of,
    is_bound,
    masked,
    rule,
    same,
    special,
    value_of,
    whole,
    wrap,
)


def _reduced(x: Any, axes: Sequence[int], keepdim: Any) -> list[Any]:
    return [1 if k in axes else d for k, d in enumerate(dims_of(x)) if keepdim or k not in axes]


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
    listed, plain = all_axes(x, axes), native(whole(x), axes, keepdim)
    if bound_axes(x, listed):
        plain = mean_of(x, listed, keepdim).cast(plain.dtype)
    return wrap(plain, _reduced(x, listed, keepdim))


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
    return filled(native(padded, axis, *rest), dims_of(x))


# ---- scans run forward: what comes first does not depend on the size


def _scan(native: Any, x: Any, *args: Any) -> Any:
    results = native(whole(x), *args)
    if isinstance(results, tuple):
        return tuple(wrap(r, dims_of(x)) for r in results)
    return wrap(results, dims_of(x))


rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")(_scan)


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


rule("batchnorm")(beside(lambda x, *args: args[4]))


# ---- losses: one of each sample, then their sum or mean

_MEAN, _SUM, _NONE = 0, 1, 2


def _sum_up(losses: Any, reduction: int, counts: Any = None) -> Any:
    """The losses reduced; counts: what each counts for in a mean."""
    if reduction == _NONE:
        return losses
    if reduction == _SUM:
        return _native.lazy_sum(losses, None, False)
    if counts is None:
        return _native.lazy_mean(losses, None, False)
    total = _native.lazy_sum(counts, None, False)
    return _native.lazy_div(_native.lazy_sum(losses, None, False), total.cast(losses.dtype))


@rule("binary_crossentropy", "binary_crossentropy_logits")
def _binary(native: Any, *args: Any) -> Any:
    """The arguments: predictions, targets, weights or None; the reduction."""
    *given, reduction = args
    aligned = align(tensors := [t for t in given if t is not None])
    if aligned is None or not all(isinstance(t, _native.Lazy) for t in tensors):
        return NotImplemented
    parts = aligned[0] + [None] * (len(given) - len(tensors))
    return _sum_up(wrap(native(*parts, _NONE), aligned[1]), reduction)


def _labelled(scores: Any, labels: Any, axis: int) -> tuple[Any, Any, list[Any]] | None:
    """Scores of classes along an axis and the labels, in equal sizes; and those meant."""
    dims, wanted = list(dims_of(scores)), list(dims_of(labels))
    if not dims or is_bound(dims.pop(axis)) or not isinstance(labels, _native.Lazy):
        return None
    if len(dims) != len(wanted) or not all(same(d, w) for d, w in zip(dims, wanted)):
        return None
    left, right = whole(scores), whole(labels)
    for k in range(len(dims)):
        at = k + (k >= axis)
        least = min(_native.lazy_shape(left)[at], _native.lazy_shape(right)[k])
        left, right = cut(left, at, least), cut(right, k, least)
    return left, right, dims


@rule("sparse_categorical_crossentropy")
def _sparse(
    native: Any, x: Any, labels: Any, ignored: int, smoothing: float, reduction: int
) -> Any:
    parts = _labelled(x, labels, len(dims_of(x)) - 1)
    if parts is None:
        return NotImplemented
    losses = wrap(native(*parts[:2], ignored, smoothing, _NONE), parts[2])
    counted = None if ignored == -1 else wrap(parts[1] != ignored, parts[2])
    return _sum_up(losses, reduction, counted)


@rule("nll_loss")
def _nll(native: Any, x: Any, labels: Any, weight: Any, ignored: Any, reduction: int) -> Any:
    parts = _labelled(x, labels, 1) if len(dims_of(x)) > 1 else None
    if parts is None or special(weight):
        return NotImplemented

    def losses(scores: Any) -> Any:
        return wrap(native(scores, parts[1], weight, ignored, _NONE), parts[2])

    minus_one = _native.lazy_full_like(parts[0], -1, x.dtype.code)  # whose loss is the weight
    return _sum_up(losses(parts[0]), reduction, losses(minus_one))


@rule("categorical_crossentropy")
def _categorical(native: Any, x: Any, target: Any, smoothing: float, reduction: int) -> Any:
    axis = min(1, len(dims_of(x)) - 1)
    if len(dims_of(target)) == len(dims_of(x)):
        aligned = align([x, target])
        if aligned is None or is_bound(dims_of(x)[axis]):
            return NotImplemented
        both, dims = aligned
        parts = both[0], both[1], [d for k, d in enumerate(dims) if k != axis]
    elif (labelled := _labelled(x, target, axis)) is None:
        return NotImplemented
    else:
        parts = labelled
    return _sum_up(wrap(native(*parts[:2], smoothing, _NONE), parts[2]), reduction)
