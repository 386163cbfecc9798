"""Movement: shapes change, values do not."""

from __future__ import annotations

import math

import numpy as np

from ..row import COMMON, EVERY, Draw, row, tuples

GROUP = "movement"


def movement(name, make, numpy=None, torch=None, call=None, dtypes=COMMON, gradient=True):
    row(name, GROUP, make, call=call, torch=torch, numpy=numpy, dtypes=dtypes, gradient=gradient)


def reshaped(draw: Draw):
    shape = draw.tensor(draw.shape(0, 3, least=0), "all")
    count = math.prod(shape)
    if count == 0:
        return {"shape": [0, 2]}
    factors = [k for k in range(1, count + 1) if count % k == 0]
    first = draw.pick(*factors)
    target = [first, count // first]
    if draw.maybe():
        target[draw.integer(0, 1)] = -1
    return {"shape": target}


for name in ("reshape", "view"):
    movement(
        name,
        reshaped,
        lambda x, shape: x.reshape(shape),
        lambda T, x, shape: x.reshape(shape),
        dtypes=EVERY,
    )


def expanded(draw: Draw):
    shape = [draw.size(1, 4) if draw.maybe() else 1 for _ in range(draw.integer(1, 3))]
    draw.tensor(shape, "all")
    target = [draw.size(1, 4) if n == 1 else n for n in shape]
    return {"shape": [draw.size(1, 3), *target] if draw.maybe() else target}


movement(
    "expand",
    expanded,
    lambda x, shape: np.broadcast_to(x, shape),
    lambda T, x, shape: x.expand(shape),
)


def permuted(draw: Draw):
    shape = draw.tensor(draw.shape(1, 4, 4), "all")
    order = list(range(len(shape)))
    for k in range(len(order)):
        j = draw.integer(k, len(order) - 1)
        order[k], order[j] = order[j], order[k]
    return {"order": order}


movement(
    "permute",
    permuted,
    lambda x, order: x.transpose(order),
    lambda T, x, order: x.permute(order),
    dtypes=EVERY,
)


def swapped(draw: Draw):
    shape = draw.tensor(draw.shape(1, 4, 4), "all")
    return {"dim0": draw.axis(len(shape)), "dim1": draw.axis(len(shape))}


movement("transpose", swapped, lambda x, dim0, dim1: x.swapaxes(dim0, dim1), "transpose")


def flipped(draw: Draw):
    shape = draw.tensor(draw.shape(1, 4, 4), "all")
    return {"axis": [k for k in range(len(shape)) if draw.maybe()] or [0]}


movement("flip", flipped, lambda x, axis: np.flip(x, axis), lambda T, x, axis: T.flip(x, axis))


def padded(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3), "plain")
    return {
        "padding": [(draw.integer(0, 3), draw.integer(0, 3)) for _ in shape],
        "value": draw.pick(0, 1, 2),
    }


def pad(x, padding, value=0, mode="constant"):
    names = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, padding, mode=names[mode], **more)


movement("pad", padded, pad)


def padded_mode(draw: Draw):
    shape = draw.tensor((1, draw.size(1, 2), draw.size(3, 6), draw.size(3, 6)), "plain")
    each = [draw.integer(0, 2) for _ in range(4)]
    mode = draw.pick("reflect", "replicate", "circular")
    return {"padding": [(0, 0)] * (len(shape) - 2) + [each[2:], each[:2]], "mode": mode}


movement(
    "pad.mode",
    padded_mode,
    pad,
    lambda T, x, padding, mode: T.nn.functional.pad(x, (*padding[3], *padding[2]), mode=mode),
    call=lambda f, x, padding, mode: x.pad((*padding[3], *padding[2]), mode=mode),
    dtypes=("float32", "float64", "int32", "float16"),
)


def fitted(draw: Draw, sign):
    shape = draw.tensor(draw.shape(1, 3), "plain")
    return {"shape": [max(1, n + sign * draw.integer(0, 3)) for n in shape]}


movement(
    "pad_to",
    lambda draw: fitted(draw, 1),
    lambda x, shape: np.pad(x, [(0, m - n) for m, n in zip(shape, x.shape)]),
    call=lambda f, x, shape: x.pad_to(shape),
)
movement(
    "shrink_to",
    lambda draw: fitted(draw, -1),
    lambda x, shape: x[tuple(slice(0, n) for n in shape)],
    call=lambda f, x, shape: x.shrink_to(shape),
)


def shrunk(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3), "all")
    bounds = []
    for n in shape:
        start = draw.integer(0, n - 1)
        bounds.append((start, draw.integer(start + 1, n)))
    return {"arg": bounds}


movement("shrink", shrunk, lambda x, arg: x[tuple(slice(a, b) for a, b in arg)])


def squeezed(draw: Draw):
    shape = draw.tensor([draw.size(1, 2) for _ in range(draw.integer(1, 4))], "all")
    return {"dim": draw.axis(len(shape)) if draw.maybe() else None}


movement(
    "squeeze",
    squeezed,
    lambda x, dim: x.squeeze(dim) if dim is None or x.shape[dim] == 1 else x,
    lambda T, x, dim: x.squeeze() if dim is None else x.squeeze(dim),
)


def unsqueezed(draw: Draw):
    shape = draw.tensor(draw.shape(0, 3), "all")
    return {"dim": draw.integer(-len(shape) - 1, len(shape))}


movement("unsqueeze", unsqueezed, lambda x, dim: np.expand_dims(x, dim), "unsqueeze")


def flattened(draw: Draw):
    shape = draw.tensor(draw.shape(1, 4, 4), "all")
    start = draw.integer(0, len(shape) - 1)
    return {"start_dim": start, "end_dim": draw.integer(start, len(shape) - 1)}


movement(
    "flatten",
    flattened,
    lambda x, start_dim, end_dim: x.reshape(*x.shape[:start_dim], -1, *x.shape[end_dim + 1 :]),
    "flatten",
)


def unflattened(draw: Draw):
    a, b = draw.size(1, 3), draw.size(1, 3)
    shape = list(draw.shape(0, 2))
    dim = draw.integer(0, len(shape))
    draw.tensor([*shape[:dim], a * b, *shape[dim:]], "all")
    return {"dim": dim, "sizes": draw.pick((a, b), (a, -1), (-1, b))}


movement("unflatten", unflattened, torch="unflatten")


FORMULAS = [
    ("b c -> c b", (2, 3), {}),
    ("b c h w -> b (c h) w", (2, 3, 2, 4), {}),
    ("b (c h) w -> b c h w", (2, 6, 3), {"c": 2}),
    ("... a b -> ... b a", (2, 3, 4), {}),
    ("(a b) c -> a b c", (6, 2), {"b": 3}),
    ("a 1 b -> b a", (3, 1, 2), {}),
    ("b s (h d) -> b h s d", (1, 3, 8), {"h": 2}),
    ("a b -> a b 1", (2, 3), {}),
    ("a () b -> (a b)", (2, 1, 3), {}),
]


def rearranged(draw: Draw):
    formula, shape, sizes = draw.pick(*FORMULAS)
    draw.tensor(shape, "all")
    return {"formula": formula, **sizes}


movement("rearrange", rearranged)


def split_sizes(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3, 7), "all")
    dim = draw.axis(len(shape))
    first = draw.integer(1, shape[dim])
    sizes = draw.pick(first, [first, shape[dim] - first])
    return {"sizes": sizes, "dim": dim}


def numpy_split(x, sizes, dim):
    n = x.shape[dim]
    points = range(sizes, n, sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1]
    return np.split(x, list(points), dim)


movement(
    "split",
    split_sizes,
    numpy_split,
    lambda T, x, sizes, dim: list(
        T.split(x, sizes if isinstance(sizes, int) else list(sizes), dim)
    ),
)


def chunked(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3, 7), "all")
    return {"chunks": draw.size(1, 4), "dim": draw.axis(len(shape))}


movement("chunk", chunked, torch=lambda T, x, **k: list(T.chunk(x, **k)))


def meshed(draw: Draw):
    for _ in range(draw.size(1, 3)):
        draw.tensor((draw.size(1, 4),), "all")
    return {"indexing": draw.pick("ij", "xy")}


movement(
    "meshgrid",
    meshed,
    lambda *a, indexing: list(np.meshgrid(*a, indexing=indexing)),
    lambda T, *a, indexing: list(T.meshgrid(*a, indexing=indexing)),
)
movement("diag", lambda draw: draw.tensor((draw.size(),), "all") and {}, np.diag, "diag")


def diagonal(draw: Draw):
    shape = draw.tensor(draw.shape(2, 3), "all")
    dim1, dim2 = draw.pick((0, 1), (-2, -1), (1, 0))
    return {"offset": draw.pick(0, *range(1, shape[dim2])), "dim1": dim1, "dim2": dim2}


movement(
    "diagonal",
    diagonal,
    lambda x, offset, dim1, dim2: np.diagonal(x, offset, dim1, dim2),
    "diagonal",
)


def rolled(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3), "all")
    kind = draw.integer(0, 2)
    if kind == 0:
        return {"shifts": draw.integer(-7, 7), "dims": None}
    if kind == 1:
        return {"shifts": draw.integer(-7, 7), "dims": draw.axis(len(shape))}
    dims = list(range(len(shape)))
    return {"shifts": [draw.integer(-7, 7) for _ in dims], "dims": dims}


movement("roll", rolled, lambda x, shifts, dims: np.roll(x, shifts, dims), "roll")


def repeated(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3, 4), "all")
    return {"repeats": [draw.size(1, 3) for _ in range(len(shape) + draw.integer(0, 1))]}


movement(
    "repeat",
    repeated,
    lambda x, repeats: np.tile(x, repeats),
    lambda T, x, repeats: x.repeat(repeats),
)


def interleaved(draw: Draw):
    shape = draw.tensor(draw.shape(1, 3, 4), "all")
    return {"repeats": draw.size(1, 3), "dim": draw.axis(len(shape)) if draw.maybe() else None}


movement(
    "repeat_interleave",
    interleaved,
    lambda x, repeats, dim: np.repeat(x, repeats, dim),
    lambda T, x, repeats, dim: T.repeat_interleave(x, repeats, dim),
)


def unfolded(draw: Draw):
    shape = draw.tensor([draw.size(3, 7) for _ in range(draw.integer(1, 3))], "all")
    dim = draw.axis(len(shape))
    return {"dim": dim, "size": draw.size(1, shape[dim]), "step": draw.size(1, 3)}


movement("unfold", unfolded, torch=lambda T, x, dim, size, step: x.unfold(dim, size, step))


def triangle(draw: Draw):
    draw.tensor(draw.shape(2, 3), "plain")
    return {"diagonal": draw.integer(-3, 3)}


movement("tril", triangle, lambda x, diagonal: np.tril(x, diagonal), "tril")
movement("triu", triangle, lambda x, diagonal: np.triu(x, diagonal), "triu")


def joined(draw: Draw):
    shape = draw.shape(1, 3, 4)
    dim = draw.axis(len(shape))
    for _ in range(draw.size(1, 3)):
        part = list(shape)
        part[dim] = draw.size(1, 4)
        draw.tensor(part, "all")
    return {"dim": dim}


def stacked(draw: Draw):
    shape = draw.shape(0, 3, 4)
    for _ in range(draw.size(1, 3)):
        draw.tensor(shape, "all")
    return {"dim": draw.integer(-len(shape) - 1, len(shape))}


movement("cat", joined, lambda *a, dim: np.concatenate(a, dim), lambda T, *a, dim: T.cat(a, dim))
movement("stack", stacked, lambda *a, dim: np.stack(a, dim), lambda T, *a, dim: T.stack(a, dim))
movement(
    "T",
    lambda draw: draw.tensor((draw.size(), draw.size()), "all") and {},
    lambda x: x.T,
    lambda T, x: x.T,
    call=lambda f, x: x.T,
)


def chained(draw: Draw):
    """A row of movements, each on what the last one left."""
    shape = list(draw.tensor(draw.shape(2, 3, 5), "all"))
    steps = []
    for _ in range(draw.size(1, 5)):
        kind = draw.pick("flip", "transpose", "flatten", "pad", "shrink", "repeat")
        axis = draw.integer(0, len(shape) - 1)
        if kind == "transpose":
            other = draw.integer(0, len(shape) - 1)
            shape[axis], shape[other] = shape[other], shape[axis]
            steps.append([kind, axis, other])
        elif kind == "flatten":
            steps.append([kind, 0, 0])
            shape = [math.prod(shape), 1]
        elif kind == "pad":
            before, after = draw.integer(0, 2), draw.integer(0, 2)
            steps.append([kind, axis, before, after])
            shape[axis] += before + after
        elif kind == "shrink":
            start = draw.integer(0, shape[axis] - 1)
            stop = draw.integer(start + 1, shape[axis])
            steps.append([kind, axis, start, stop])
            shape[axis] = stop - start
        elif kind == "repeat" and math.prod(shape) < 200:
            steps.append([kind, axis])
            shape[axis] *= 2
        else:
            steps.append(["flip", axis])
    return {"steps": steps}


def moved(f, x, steps):
    for kind, axis, *more in tuples(list(steps)):
        ndim = len(x.shape)
        if kind == "flip":
            x = x.flip(axis)
        elif kind == "transpose":
            x = x.transpose(axis, more[0])
        elif kind == "flatten":
            x = x.reshape(-1, 1)
        elif kind == "pad":
            x = x.pad(tuple(tuple(more) if k == axis else (0, 0) for k in range(ndim)))
        elif kind == "shrink":
            x = x.shrink(tuple(tuple(more) if k == axis else (0, x.shape[k]) for k in range(ndim)))
        else:
            x = x.repeat(tuple(2 if k == axis else 1 for k in range(ndim)))
    return x


def numpy_moved(x, steps):
    for kind, axis, *more in steps:
        if kind == "flip":
            x = np.flip(x, axis)
        elif kind == "transpose":
            x = x.swapaxes(axis, more[0])
        elif kind == "flatten":
            x = x.reshape(-1, 1)
        elif kind == "pad":
            x = np.pad(x, [tuple(more) if k == axis else (0, 0) for k in range(x.ndim)])
        elif kind == "shrink":
            x = x[tuple(slice(*more) if k == axis else slice(None) for k in range(x.ndim))]
        else:
            x = np.tile(x, [2 if k == axis else 1 for k in range(x.ndim)])
    return x


movement("movements", chained, numpy_moved, call=moved)
