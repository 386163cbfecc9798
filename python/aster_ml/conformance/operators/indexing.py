"""Indexing in all its forms, gathering and scattering."""

from __future__ import annotations

import numpy as np

from ..row import COMMON, NUMBER, Draw, row

GROUP = "indexing"
FEW = ("float32", "int32", "float16", "uint8", "bool", "float64")


def slices(draw: Draw, n: int, steps=(1, 2, -1, -2)):
    step = draw.pick(*steps)
    bounds = [draw.pick(None, *range(n), *range(-n, 0)) for _ in range(2)]
    return {"slice": [*bounds, step]}


def basic(draw: Draw):
    """Integers, slices, None and an ellipsis."""
    shape = draw.tensor(draw.shape(1, 4, 5), "all")
    items = []
    for n in shape[: draw.integer(1, len(shape))]:
        kind = draw.integer(0, 2)
        items.append(
            draw.integer(-n, n - 1)
            if kind == 0
            else slices(draw, n) if kind == 1 else {"slice": [None] * 3}
        )
    if draw.integer(0, 3) == 3:
        items.insert(draw.integer(0, len(items)), None)
    if draw.integer(0, 3) == 3:
        items.append("...")
    return {"index": items}


def advanced(draw: Draw):
    """Tensors and lists of indices among slices and integers."""
    shape = draw.tensor(draw.shape(1, 4, 5), "all")
    together = draw.shape(1, 2, 4)
    items, count = [], 0
    for n in shape[: draw.integer(1, len(shape))]:
        kind = draw.integer(0, 4)
        if kind <= 1:
            count += 1
            items.append({"tensor": count})
            low = draw.pick(0, -n)
            draw.tensor(
                together[draw.integer(0, len(together) - 1) :],
                "range",
                "int32",
                low=low,
                high=n,
                view=False,
            )
        elif kind == 2:
            items.append({"list": [draw.integer(-n, n - 1) for _ in range(together[-1])]})
        elif kind == 3:
            items.append(draw.integer(-n, n - 1))
        else:
            items.append(slices(draw, n))
    if draw.integer(0, 4) == 4:
        items.insert(draw.integer(0, len(items)), None)
    return {"index": items}


def subscript(items, tensors):
    """The Python index that a list of items in JSON stands for."""

    def item(i):
        if isinstance(i, dict):
            if "slice" in i:
                return slice(*i["slice"])
            return tensors[i["tensor"] - 1] if "tensor" in i else list(i["list"])
        return Ellipsis if i == "..." else i

    return tuple(item(i) for i in items)


def numpy_get(x, *tensors, index):
    return x[subscript(index, [np.asarray(t, np.int64) for t in tensors])]


def torch_get(T, x, *tensors, index):
    flips = []
    for i in index:  # torch has no negative steps
        if isinstance(i, dict) and i.get("slice", [0, 0, 1])[2] not in (None, 1, 2):
            flips.append(i)
    if flips:
        raise NotImplementedError("negative step")
    return x[subscript(index, [t.long() for t in tensors])]


def get(f, x, *tensors, index):
    return x[subscript(index, tensors)]


row("__getitem__", GROUP, basic, call=get, numpy=numpy_get, torch=torch_get, dtypes=COMMON)
row("__getitem__.advanced", GROUP, advanced, call=get, numpy=numpy_get, torch=torch_get, dtypes=FEW)


def result_shape(draw: Draw, items):
    """The shape that an index of input 0 selects."""
    bounds = [np.zeros(i["shape"], np.int64) for i in draw.inputs[1:]]
    return np.zeros(draw.inputs[0]["shape"])[subscript(items, bounds)].shape


def written(draw: Draw):
    shape = draw.shape(1, 3, 5)
    draw.tensor(shape, "plain", view=False)
    items = []
    for n in shape[: draw.integer(1, len(shape))]:
        items.append(draw.integer(-n, n - 1) if draw.maybe() else slices(draw, n, (1, 2)))
    target = result_shape(draw, items)
    draw.tensor(target[draw.integer(0, len(target)) :], "plain", view=False)
    return {"index": items}


def put(f, x, *rest, index):
    x = x.clone().realize()
    x[subscript(index, rest[:-1])] = rest[-1]
    return x


def numpy_put(x, *rest, index):
    x = np.array(x)
    x[subscript(index, [np.asarray(t, np.int64) for t in rest[:-1]])] = rest[-1]
    return x


row("__setitem__", GROUP, written, call=put, numpy=numpy_put, dtypes=FEW, gradient=False)


def written_advanced(draw: Draw):
    """Rows named by distinct indices: the order of writes does not matter."""
    shape = draw.shape(1, 3, 5)
    draw.tensor(shape, "plain", view=False)
    count = draw.size(1, shape[0])
    draw.tensor((count,), "permutation", "int32", high=shape[0], view=False)
    draw.tensor((count, *shape[1:])[draw.integer(0, len(shape)) :], "plain", view=False)
    return {"index": [{"tensor": 1}]}


row(
    "__setitem__.advanced",
    GROUP,
    written_advanced,
    call=put,
    numpy=numpy_put,
    dtypes=FEW,
    gradient=False,
)


def gathered(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3, 5), "plain")
    dim = draw.axis(len(shape))
    index = [draw.integer(1, n) for n in shape]
    index[dim] = draw.size(1, 6)
    draw.index(index, shape[dim])
    return {"dim": dim}


def clipped(x, shape, dim):
    return x[tuple(slice(None) if k == dim % x.ndim else slice(0, n) for k, n in enumerate(shape))]


row(
    "gather",
    GROUP,
    gathered,
    call=lambda f, x, index, dim: x.gather(dim, index),
    torch=lambda T, x, index, dim: T.gather(x, dim, index.long()),
    numpy=lambda x, i, dim: np.take_along_axis(
        clipped(x, i.shape, dim), np.asarray(i, np.int64), dim
    ),
    dtypes=FEW,
    ulps=4,
    norm=True,
)


def scattered(draw: Draw, unique=True):
    shape = draw.tensor(draw.shape(1, 3, 5), "small")
    dim = draw.axis(len(shape))
    count = draw.size(1, shape[dim])
    index = list(shape)
    index[dim] = count
    if unique:
        draw.tensor(
            index, "permutation", "int32", high=shape[dim], axis=dim % len(shape), view=False
        )
    else:
        draw.index(index, shape[dim])
    draw.tensor(index, "small", view=False)
    return {"dim": dim}


def numpy_scatter(x, index, src, dim, reduce=None):
    out = np.array(x)
    places = list(np.indices(index.shape))
    places[dim] = np.asarray(index, np.int64)
    for at in np.ndindex(index.shape):
        place = tuple(p[at] for p in places)
        if reduce == "add":
            out[place] += src[at]
        elif reduce == "multiply":
            out[place] *= src[at]
        else:
            out[place] = src[at]
    return out


row(
    "scatter",
    GROUP,
    scattered,
    call=lambda f, x, index, src, dim: x.scatter(dim, index, src),
    torch=lambda T, x, index, src, dim: T.scatter(x, dim, index.long(), src),
    numpy=numpy_scatter,
    dtypes=FEW,
)


def scattered_number(draw: Draw):
    out = scattered(draw, unique=False)
    draw.inputs.pop()
    return {**out, "number": draw.pick(2, 3), "reduce": draw.pick("add", "multiply")}


row(
    "scatter.reduce",
    GROUP,
    scattered_number,
    call=lambda f, x, index, dim, number, reduce: x.scatter(dim, index, number, reduce=reduce),
    torch=lambda T, x, index, dim, number, reduce: T.scatter(
        x, dim, index.long(), number, reduce=reduce
    ),
    numpy=lambda x, index, dim, number, reduce: numpy_scatter(
        x, index, np.full(index.shape, number, x.dtype), dim, reduce
    ),
    dtypes=("float32", "int32", "float64", "float16"),
    ulps=8,
    norm=True,
    gradient=False,
)


def reduced(draw: Draw):
    out = scattered(draw, unique=False)
    reduce = draw.pick("sum", "prod", "mean", "amax", "amin")
    return {**out, "reduce": reduce, "include_self": draw.maybe()}


row(
    "scatter_reduce",
    GROUP,
    reduced,
    call=lambda f, x, index, src, dim, **k: x.scatter_reduce(dim, index, src, **k),
    torch=lambda T, x, index, src, dim, **k: T.scatter_reduce(x, dim, index.long(), src, **k),
    dtypes=("float32", "int32", "float64", "float16"),
    ulps=16,
    slack=8,
    norm=True,
)


def selected(draw: Draw):
    shape = draw.tensor(draw.shape(1, 2, 6), "plain")
    draw.tensor(shape, "all", "bool", view=False)


row(
    "masked_select",
    GROUP,
    selected,
    torch="masked_select",
    numpy=lambda x, mask: x[mask],
    dtypes=FEW,
    gradient=False,
    alone=True,
)


def selected_size(draw: Draw):
    selected(draw)
    return {"size": draw.size(1, 9), "fill_value": draw.pick(0, 1)}


def numpy_select(x, mask, size, fill_value):
    return np.concatenate([x[mask], np.full(size, fill_value, x.dtype)])[:size]


row(
    "masked_select.size",
    GROUP,
    selected_size,
    numpy=numpy_select,
    dtypes=FEW,
    gradient=False,
    call=lambda f, x, mask, **k: x.masked_select(mask, **k),
)
row(
    "nonzero",
    GROUP,
    lambda draw: draw.tensor(draw.shape(1, 2, 6), "small") and {},
    torch="nonzero",
    numpy=lambda x: np.argwhere(x),
    dtypes=("float32", "int32", "bool", "uint8"),
    gradient=False,
    alone=True,
)


def hot(draw: Draw):
    draw.index(draw.shape(0, 2), 5)
    return {"num_classes": draw.size(5, 7)}


row(
    "one_hot",
    GROUP,
    hot,
    torch=lambda T, x, num_classes: T.nn.functional.one_hot(x.long(), num_classes),
    numpy=lambda x, num_classes: np.eye(num_classes, dtype=np.int32)[np.asarray(x, np.int64)],
    dtypes=("int32",),
    gradient=False,
)


def assigned(draw: Draw):
    shape = draw.tensor(draw.shape(1, 2, 6), "plain", view=False)
    return {
        "steps": [draw.pick("double", "add_one", "flip", "shrink") for _ in range(draw.size(1, 3))],
        "shape": shape,
    }


def assign(f, x, steps, shape):
    x = x.clone().realize()
    before = x + 1
    for step in steps:
        if step == "double":
            x.assign(x + x)
        elif step == "add_one":
            x.assign(x + 1)
        elif step == "flip":
            x.assign(x.flip(0))
        else:
            view = x.shrink(((0, 1), *((0, n) for n in shape[1:])))
            view.assign(view + 2)
    return [x, before]


row(
    "assign",
    GROUP,
    assigned,
    call=assign,
    gradient=False,
    alone=True,
    dtypes=("float32", "float64", "int32"),
)
row(
    "replace",
    GROUP,
    lambda draw: (draw.tensor((3,)), draw.tensor((3,))) and {},
    call=lambda f, a, b: a.clone().replace(b) + 1,
    numpy=lambda a, b: b + 1,
    dtypes=NUMBER,
    ulps=1,
    gradient=False,
    alone=True,
)
