"""Reductions, prefix scans, sorting."""

from __future__ import annotations

import numpy as np

from ..row import COMMON, NUMBER, REAL, Draw, row

FEW = ("float32", "float64", "float16", "int32", "uint8")


def along(kind="plain", side=7):
    """A tensor, axes and keepdim."""

    def make(draw: Draw):
        shape = draw.tensor(draw.shape(0, 3, side, least=0), kind)
        return {"axis": draw.axes(len(shape)), "keepdim": draw.maybe()}

    return make


def on_axes(function):
    """Lists of axes as NumPy and torch want them."""

    def numpy(x, axis=None, keepdim=False, **more):
        return function(
            x,
            axis=tuple(axis) if isinstance(axis, (list, tuple)) else axis,
            keepdims=keepdim,
            **more,
        )

    return numpy


def torch_axes(name, **fixed):
    def call(T, x, axis=None, keepdim=False, correction=None):
        axis = tuple(range(x.ndim)) if axis is None else axis
        more = dict(fixed) if correction is None else {**fixed, "correction": correction}
        return getattr(T, name)(x, dim=axis, keepdim=keepdim, **more)

    return call


def logsumexp(x, axis, keepdims):
    top = np.max(x, axis=axis, keepdims=True)
    out = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdims else np.squeeze(out, axis=axis)


# name, kind, dtypes, ULPs, torch, NumPy, gradient, not of an empty tensor
REDUCTIONS = [
    ("sum", "plain", COMMON, 8, torch_axes("sum"), np.sum, True),
    ("mean", "plain", (*REAL, "int32", "uint8"), 8, torch_axes("mean"), np.mean, True),
    ("max", "plain", COMMON, 0, torch_axes("amax"), np.max, True),
    ("min", "plain", COMMON, 0, torch_axes("amin"), np.min, True),
    ("any", "small", COMMON, 0, None, np.any, False),
    ("all", "small", COMMON, 0, None, np.all, False),
    ("logsumexp", "plain", REAL, 16, torch_axes("logsumexp"), logsumexp, True),
]

for name, kind, dtypes, ulps, torch, numpy, gradient in REDUCTIONS:
    row(
        name,
        "reduce",
        along(kind),
        torch=torch,
        numpy=on_axes(numpy),
        dtypes=dtypes,
        ulps=ulps,
        norm=ulps > 0,
        gradient=gradient,
    )

row(
    "prod",
    "reduce",
    along("unit", 4),
    numpy=on_axes(np.prod),
    dtypes=(*REAL, "int32"),
    ulps=48,
    norm=True,
)


def with_correction(draw: Draw):
    shape = draw.tensor([*draw.shape(0, 2), draw.size(3, 7)])
    return {
        "axis": draw.pick(-1, len(shape) - 1),
        "keepdim": draw.maybe(),
        "correction": draw.pick(1, 0, 2),
    }


for name in ("var", "std", "var_mean", "std_mean"):
    row(name, "reduce", with_correction, torch=torch_axes(name), ulps=32, slack=8, norm=True)
row(
    "var.axes",
    "reduce",
    along("plain"),
    call=lambda f, x, **k: x.var(**k),
    ulps=32,
    slack=8,
    norm=True,
)


def with_dtype(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3))
    return {
        "axis": draw.axis(len(shape)),
        "dtype": draw.pick("float32", "float64", "int32", "int64"),
    }


row(
    "sum.dtype",
    "reduce",
    with_dtype,
    call=lambda f, x, axis, dtype: x.sum(axis, dtype=dtype),
    torch=lambda T, x, axis, dtype: x.sum(axis, dtype=getattr(T, dtype)),
    dtypes=FEW,
    ulps=8,
    norm=True,
    gradient=False,
)
row(
    "prod.dtype",
    "reduce",
    with_dtype,
    call=lambda f, x, axis, dtype: x.prod(axis, dtype=dtype),
    torch=lambda T, x, axis, dtype: x.prod(axis, dtype=getattr(T, dtype)),
    dtypes=("float32", "int8", "uint8"),
    ulps=48,
    norm=True,
    gradient=False,
)


def arg_axis(draw: Draw):
    shape = draw.tensor(draw.shape(0, 3), "plain")
    axis = draw.axis(len(shape)) if shape and draw.maybe() else None
    return {"axis": axis, "keepdim": axis is not None and draw.maybe()}


for name in ("argmax", "argmin"):
    row(
        name,
        "reduce",
        arg_axis,
        numpy=lambda x, axis, keepdim, n=name: getattr(np, n)(x, axis=axis, keepdims=keepdim),
        dtypes=COMMON,
        gradient=False,
    )


def last_axis(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3, 7))
    return {"axis": draw.axis(len(shape))}


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


SOFT = (*REAL, "int32")
row(
    "softmax",
    "reduce",
    last_axis,
    numpy=softmax,
    ulps=24,
    slack=8,
    norm=True,
    dtypes=SOFT,
    torch=lambda T, x, axis: T.softmax(x, axis),
)
row(
    "log_softmax",
    "reduce",
    last_axis,
    ulps=24,
    slack=8,
    norm=True,
    torch=lambda T, x, axis: T.log_softmax(x, axis),
    numpy=lambda x, axis: np.log(softmax(x, axis)),
)
row(
    "softmin",
    "reduce",
    last_axis,
    ulps=24,
    slack=8,
    norm=True,
    torch=lambda T, x, axis: T.nn.functional.softmin(x, axis),
    numpy=lambda x, axis: softmax(-x, axis),
)


def soft_dtype(draw: Draw):
    return {**last_axis(draw), "dtype": draw.pick("float32", "float64", "float16")}


for name in ("softmax", "log_softmax"):
    row(
        f"{name}.dtype",
        "reduce",
        soft_dtype,
        call=lambda f, x, axis, dtype, n=name: getattr(x, n)(axis, dtype=dtype),
        torch=lambda T, x, axis, dtype, n=name: getattr(T, n)(x, axis, dtype=getattr(T, dtype)),
        dtypes=("float32", "float16", "bfloat16"),
        ulps=24,
        slack=8,
        norm=True,
        gradient=False,
    )


def norm_axis(draw: Draw):
    shape = draw.tensor([*draw.shape(0, 2), draw.size(2, 9)])
    last = len(shape) - 1
    return {"axis": draw.pick(-1, tuple(range(last // 2, last + 1))), "eps": draw.pick(1e-5, 1e-3)}


def layernorm(x, axis, eps):
    centred = x - np.mean(x, axis=axis, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=axis, keepdims=True) + eps)


row("layernorm", "reduce", norm_axis, numpy=layernorm, ulps=64, slack=16, norm=True)


def normal(draw: Draw):
    shape = draw.tensor(draw.shape(2, 3))
    return {"p": draw.pick(2.0, 1.0, 3.0), "dim": draw.axis(len(shape))}


row("normalize", "reduce", normal, torch="nn.functional.normalize", ulps=32, slack=8, norm=True)


def batch(draw: Draw):
    channels = draw.size(1, 4)
    draw.tensor((draw.size(), channels, *draw.shape(0, 2, 4)))
    for kind in ("plain", "plain", "plain", "positive"):
        draw.tensor((channels,), kind, view=False)


def batchnorm(x, w, b, mean, invstd):
    shape = (-1, *[1] * (x.ndim - 2))
    return (x - mean.reshape(shape)) * (w * invstd).reshape(shape) + b.reshape(shape)


row("batchnorm", "reduce", batch, numpy=batchnorm, ulps=16, slack=8, norm=True)


def scanned(kind):
    def make(draw: Draw):
        shape = draw.tensor(draw.shape(0, 3, 9), kind)
        return {"axis": draw.axis(len(shape))}

    return make


def in_its_dtype(function):
    """Products of small integers wrap in their dtype, sums in what NumPy adds them in."""

    def numpy(x, axis):
        dtype = {"dtype": x.dtype} if function is np.cumprod else {}
        return function(np.atleast_1d(x), axis, **dtype).reshape(x.shape)

    return numpy


# name, kind, dtypes, ULPs, torch
SCANS = [
    ("cumsum", "plain", FEW, 16, lambda T, x, axis: T.cumsum(x, axis)),
    ("cumprod", "unit", FEW, 48, lambda T, x, axis: T.cumprod(x, axis)),
    ("cummax", "plain", FEW, 0, None),  # torch gives the last index of a tie
    ("cummin", "plain", FEW, 0, None),
    ("logcumsumexp", "plain", REAL, 32, lambda T, x, axis: T.logcumsumexp(x, axis)),
]
for name, kind, dtypes, ulps, torch in SCANS:
    numpy = getattr(np, name, None)
    row(
        name,
        "scan",
        scanned(kind),
        torch=torch,
        numpy=in_its_dtype(numpy) if numpy else None,
        dtypes=dtypes,
        ulps=ulps,
        slack=8 if ulps else 0,
        norm=ulps > 0,
    )


for name, ufunc in (("cummax", np.maximum), ("cummin", np.minimum)):
    row(
        f"{name}.values",
        "scan",
        scanned("plain"),
        call=lambda f, x, axis, n=name: getattr(x, n)(axis)[0],
        torch=lambda T, x, axis, n=name: getattr(T, n)(x, axis)[0],
        numpy=lambda x, axis, u=ufunc: u.accumulate(np.atleast_1d(x), axis).reshape(x.shape),
        dtypes=FEW,
    )


def sorted_(draw: Draw):
    kind = draw.pick("distinct", "plain", "small")
    shape = draw.tensor(draw.shape(1, 3, 12, least=0), kind)
    return {"dim": draw.axis(len(shape)), "descending": draw.maybe()}


def in_order(x, dim, descending):
    """Values and indices of a stable sort."""
    keys = -x.astype(np.float64) if descending else x
    order = np.argsort(keys, axis=dim, kind="stable")
    return [np.take_along_axis(x, order, dim), order]


def torch_sort(T, x, dim, descending):
    return list(T.sort(x, dim=dim, descending=descending, stable=True))


row("sort", "sort", sorted_, torch=torch_sort, numpy=in_order, dtypes=NUMBER)
row(
    "argsort",
    "sort",
    sorted_,
    torch=lambda T, x, **k: torch_sort(T, x, **k)[1],
    numpy=lambda x, **k: in_order(x, **k)[1],
    dtypes=NUMBER,
    gradient=False,
)


def top(draw: Draw):
    shape = draw.tensor([*draw.shape(0, 2, 4), draw.size(1, 12)], draw.pick("distinct", "plain"))
    dim = draw.axis(len(shape))
    return {"k": draw.size(1, shape[dim]), "dim": dim, "largest": draw.maybe()}


def first(x, k, dim, largest):
    return [np.take(part, range(k), axis=dim) for part in in_order(x, dim, largest)]


row("topk", "sort", top, numpy=first, dtypes=NUMBER)
