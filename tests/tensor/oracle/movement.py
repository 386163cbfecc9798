#!/usr/bin/env python3
"""Asks tinygrad 0.14.0 what movement does to 0, 1, 2, ..., and writes movement.tsv.

A row: the operation, the dtype and shape of x, arguments as key=value, then for every result its
shape and its elements (bitcasts: the hexadecimal of its bytes).
"""

import os

import numpy as np
from tinygrad import Tensor, dtypes

HERE = os.path.dirname(os.path.abspath(__file__))
rows = []


def text(values):
    return ",".join(str(int(v)) for v in values)


def row(op, shape, results, dtype="int32", raw=False, **args):
    fields = [op, dtype, text(shape)]
    for key, value in args.items():
        fields.append(f"{key}={value if isinstance(value, str) else text(np.atleast_1d(value))}")
    fields.append("->")
    for result in results if isinstance(results, (list, tuple)) else [results]:
        array = result.numpy()
        fields.append(text(array.shape))
        fields.append(array.tobytes().hex() if raw else text(array.reshape(-1)))
    rows.append(fields)


def count(*shape):
    return Tensor(np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape))


REARRANGE = [
    ((2, 3), "batch channel -> (batch channel)", {}),
    ((2, 3, 4), "b h w -> w b h", {}),
    ((2, 6, 4), "b (h p) w -> b h (p w)", {"p": 2}),
    ((2, 6, 4), "b (h p) (w q) -> (b p q) h w", {"p": 3, "q": 2}),
    ((1, 2, 3), "1 a b -> b 1 a 1", {}),
    ((1, 2, 3), "() a b -> (a b) ()", {}),
    ((2, 3, 4, 5), "a ... b -> b ... a", {}),
    ((2, 3, 4, 5), "... (b c) -> c ... b", {"b": 5}),
    ((2, 3, 4), "a ... -> (a ...)", {}),
    ((2, 3, 4), "a … -> … a", {}),
    ((6,), "(x y1)->y1 x", {"x": 2}),
    ((4, 3), "... a b -> b a ...", {}),
    ((2, 12), "n (a b c) -> c n (a b)", {"a": 2, "c": 3}),
    ((2, 3), "a b -> a b", {"a": 2}),
]


def movement():
    for shape, formula, sizes in REARRANGE:
        row("rearrange", shape, count(*shape).rearrange(formula, **sizes), formula=formula,
            names=",".join(sizes), sizes=text(sizes.values()))
    for shape, shifts, axes in [((4,), 1, 0), ((4,), -1, 0), ((3, 4), (1, 2), (0, 1)),
                                ((3, 4), (-7, 9), (1, 0)), ((3, 4), 5, None), ((2, 0, 3), 1, 0),
                                ((5,), 10, 0)]:
        args = {} if axes is None else {"axes": axes}
        row("roll", shape, count(*shape).roll(shifts, axes), shifts=shifts, **args)
    for shape, repeats in [((3,), (2,)), ((2, 3), (2, 1)), ((2, 3), (1, 3, 2)), ((2, 1), (4, 2)),
                           ((2, 3), (1, 1)), ((), (2, 2))]:
        row("repeat", shape, count(*shape).repeat(*repeats), repeats=repeats)
    for shape, repeats, axis in [((3,), 2, 0), ((2, 3), 3, 1), ((2, 3), 2, -2), ((2, 3), 1, 0)]:
        row("repeat_interleave", shape, count(*shape).repeat_interleave(repeats, axis),
            repeats=repeats, axis=axis)
    for shape, axis, size, step in [((8,), 0, 2, 2), ((3, 3, 3), -1, 2, 3), ((7, 2), 0, 3, 2),
                                    ((5,), 0, 5, 1), ((4, 3), 1, 1, 1)]:
        windows = count(*shape).unfold(axis, size, step)
        row("unfold", shape, windows, axis=axis, size=size, step=step)
    for shape, args in [((3, 3), {}), ((3, 3), {"offset": 1}), ((3, 4), {"offset": -1}),
                        ((3, 4), {"offset": 2}), ((2, 3, 4), {"dim1": 0, "dim2": 2}),
                        ((2, 3, 4), {"dim1": -1, "dim2": 1, "offset": 1}), ((2, 3), {"offset": 3}),
                        ((2, 3), {"offset": -2})]:
        row("diagonal", shape, count(*shape).diagonal(**args), offset=args.get("offset", 0),
            axis0=args.get("dim1", 0), axis1=args.get("dim2", 1))
    for n in (1, 4):
        row("diag", (n,), (count(n) + 1).diag(), plus=1)
    for name in ("tril", "triu"):
        for shape, diagonal in [((3, 4), 0), ((4, 3), 1), ((2, 3, 3), -1), ((3, 3), 7),
                                ((3, 3), -7)]:
            row(name, shape, getattr(count(*shape) + 1, name)(diagonal), plus=1, diagonal=diagonal)
    for mode in ("constant", "reflect", "replicate", "circular"):
        for shape, pads in [((4,), ((2, 1),)), ((4,), ((0, 3),)), ((3, 4), ((1, 2), (3, 0))),
                            ((3, 4), ((1, -1), (-2, 1))), ((2, 3, 2), ((0, 0), (1, 1), (1, 0)))]:
            row("pad_mode", shape, count(*shape).pad(pads, mode=mode), mode=mode,
                before=[p[0] for p in pads], after=[p[1] for p in pads])
    row("pad_to", (2, 3), count(2, 3).pad_to((4, None)), sizes=(4, -1))
    row("shrink_to", (2, 3), count(2, 3).shrink_to((None, 2)), sizes=(-1, 2))
    for shape, axis, sizes in [((3, 4, 1), 1, (2, 2)), ((3, 4, 1), 1, (-1, 2)),
                               ((5, 12, 3), -2, (2, 2, 3, 1, 1))]:
        row("unflatten", shape, count(*shape).unflatten(axis, sizes), axis=axis, sizes=sizes)
    row("squeeze_all", (2, 1, 3, 1), count(2, 1, 3, 1).squeeze())
    row("squeeze_all", (1, 1), count(1, 1).squeeze())
    for shape, sizes, axis in [((5, 2), [1, 4], 0), ((2, 6), [1, 0, 5], -1)]:
        row("split", shape, count(*shape).split(sizes, axis), sizes=sizes, axis=axis)
    for shape, size, axis in [((5, 2), 2, 0), ((2, 6), 3, 1), ((2, 6), 9, 1), ((0, 2), 3, 0)]:
        row("split_every", shape, count(*shape).split(size, axis), size=size, axis=axis)
    for shape, chunks, axis in [((11,), 6, 0), ((12,), 6, 0), ((13,), 6, 0), ((2, 3), 5, 1),
                                ((0, 2), 3, 0)]:
        row("chunk", shape, count(*shape).chunk(chunks, axis), chunks=chunks, axis=axis)
    for indexing in ("ij", "xy"):
        row("meshgrid", (3,), count(3).meshgrid(count(2), indexing=indexing), others="2",
            indexing=indexing)
        row("meshgrid", (3,), count(3).meshgrid(count(2), count(4), indexing=indexing),
            others="2,4", indexing=indexing)
        row("meshgrid", (3,), count(3).meshgrid(indexing=indexing), others="", indexing=indexing)


def bitcasts():
    """Every pair of dtypes whose sizes differ: numpy's views, on which tinygrad agrees."""
    names = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "int32": 4, "uint32": 4,
             "float32": 4, "int64": 8, "uint64": 8, "float64": 8}
    for source, size in names.items():
        for target, other in names.items():
            if size == other:
                continue
            shape = (2, 16 // size)
            data = (np.arange(32, dtype=np.uint8) * 7 + 3).reshape(2, 16)
            x = data.view(source).reshape(shape)
            expected = data.view(target)
            if (source, target) in (("float32", "uint8"), ("uint8", "float32"), ("int16", "int64")):
                got = Tensor(x).bitcast(getattr(dtypes, target)).numpy()
                assert got.shape == expected.shape and got.tobytes() == expected.tobytes()
            rows.append(["bitcast", source, text(shape), f"x={x.tobytes().hex()}",
                         f"dtype={target}", "->", text(expected.shape), expected.tobytes().hex()])


movement()
bitcasts()
with open(os.path.join(HERE, "movement.tsv"), "w") as out:
    for fields in rows:
        out.write("\t".join(fields) + "\n")
print(f"movement.tsv: {len(rows)} rows")
