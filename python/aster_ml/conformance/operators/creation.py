"""Tensors of constants, and of Python values."""

from __future__ import annotations

import numpy as np

from ..row import COMMON, EVERY, Draw, row

GROUP = "creation"


def creation(name, make, call, numpy=None, dtypes=COMMON, **more):
    row(name, GROUP, make, call=call, numpy=numpy, dtypes=dtypes, gradient=False, **more)


def filled(draw: Draw):
    return {
        "shape": draw.shape(0, 3, least=0),
        "dtype": draw.dtype,
        "value": draw.pick(0, 1, 3, True),
    }


creation(
    "full",
    filled,
    lambda f, shape, value, dtype: f.Tensor.full(shape, value, dtype=dtype),
    lambda shape, value, dtype: np.full(shape, value if dtype != "bool" else bool(value)),
    EVERY,
)
for name in ("zeros", "ones"):
    creation(
        name,
        lambda draw: {"shape": draw.shape(0, 3, least=0), "dtype": draw.dtype},
        lambda f, shape, dtype, n=name: getattr(f.Tensor, n)(*shape, dtype=dtype),
        lambda shape, dtype, n=name: getattr(np, n)(shape),
        EVERY,
    )
    creation(
        f"{name}_like",
        lambda draw: draw.tensor(draw.shape(0, 3, least=0)) and {} or {},
        lambda f, x, n=name: getattr(x, n + "_like")(),
        lambda x, n=name: getattr(np, n + "_like")(x),
        EVERY,
    )


def like(draw: Draw):
    draw.tensor(draw.shape(0, 3))
    return {"fill_value": draw.pick(1, 0, 5)}


creation(
    "full_like",
    like,
    lambda f, x, fill_value: x.full_like(fill_value),
    lambda x, fill_value: np.full_like(x, fill_value),
    EVERY,
)


def empty(draw: Draw):
    return {"shape": draw.shape(0, 3), "dtype": draw.dtype}


creation(
    "empty",
    empty,
    lambda f, shape, dtype: f.Tensor.empty(*shape, dtype=dtype).zeros_like(),
    lambda shape, dtype: np.zeros(shape),
)


def stepped(draw: Draw):
    start = draw.integer(-5, 5)
    stop = start + draw.integer(-8, 12)
    step = draw.pick(1, 2, 3) if stop >= start else draw.pick(-1, -2, -3)
    return {"start": start, "stop": stop, "step": step, "dtype": draw.dtype}


creation(
    "arange",
    stepped,
    lambda f, start, stop, step, dtype: f.Tensor.arange(start, stop, step, dtype=dtype),
    lambda start, stop, step, dtype: np.arange(start, stop, step),
    ("int32", "float32", "int64", "float64", "float16", "int8", "bfloat16"),
)


def fractional(draw: Draw):
    step = draw.pick(0.5, 0.25, 0.3, 0.1)
    return {"start": draw.integer(-3, 3) / 2, "count": draw.integer(1, 12), "step": step}


creation(
    "arange.float",
    fractional,
    ulps=4,
    slack=4,
    dtypes=("float32",),
    call=lambda f, start, count, step: f.Tensor.arange(start, start + (count - 0.5) * step, step),
    numpy=lambda start, count, step: start + step * np.arange(count),
)


def spaced(draw: Draw):
    return {
        "start": draw.integer(-5, 5),
        "stop": draw.integer(-5, 9),
        "steps": draw.size(1, 9),
        "dtype": draw.dtype,
    }


creation(
    "linspace",
    spaced,
    lambda f, start, stop, steps, dtype: f.Tensor.linspace(start, stop, steps, dtype=dtype),
    lambda start, stop, steps, dtype: np.linspace(start, stop, steps),
    ("float32", "float64", "float16"),
    ulps=4,
    slack=8,
)


def identity(draw: Draw):
    return {"n": draw.size(), "m": draw.size() if draw.maybe() else None, "dtype": draw.dtype}


creation(
    "eye",
    identity,
    lambda f, n, m, dtype: f.Tensor.eye(n, m, dtype=dtype),
    lambda n, m, dtype: np.eye(n, m),
)


def literal(draw: Draw):
    shape = draw.shape(0, 3, 3)
    count = int(np.prod(shape, dtype=np.int64))
    kinds = draw.pick((1, 2, 3), (1.5, 2, -3), (True, False), (1, True, 2.5))
    values = [kinds[draw.integer(0, len(kinds) - 1)] for _ in range(count)]
    return {"values": np.array(values, object).reshape(shape).tolist()}


def lists(value):
    return [lists(v) for v in value] if isinstance(value, (list, tuple)) else value


creation(
    "Tensor",
    literal,
    lambda f, values: f.Tensor(lists(values)),
    lambda values: np.array(lists(values)),
    ("float32",),
)


def literal_dtype(draw: Draw):
    return {**literal(draw), "dtype": draw.dtype}


creation(
    "Tensor.dtype",
    literal_dtype,
    lambda f, values, dtype: f.Tensor(lists(values), dtype=dtype),
    None,
    ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"),
)
