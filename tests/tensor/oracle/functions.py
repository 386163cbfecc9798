#!/usr/bin/env python3
"""Asks tinygrad 0.14.0, NumPy and mpmath what functions_test.cpp expects; writes functions_*.tsv.

  functions.py     writes functions_dtypes.tsv, functions_values.tsv, functions_gradients.tsv,
                   functions_strict.tsv (corners, for strict_parity) and functions_exact.tsv
                   (accurate values of elementwise functions; needs mpmath)

The data and the notation are those of make.py.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
from make import NAMES, data, hexed, name_of, operand, write  # noqa: E402
from tinygrad import Tensor, dtypes  # noqa: E402

# name: function of one tensor. What has numbers is called with those that functions_test.cpp gives.
UNARY = {
    **{
        n: getattr(Tensor, n)
        for n in (
            "asin acos atan sinh cosh asinh acosh atanh relu6 hardswish quick_gelu swish mish "
            "logsigmoid softsign"
        ).split()
    },
    "hardsigmoid": lambda x: x.hardsigmoid(0.25, 0.5),
    "hardtanh": lambda x: x.hardtanh(-1, 2),
    "hardtanh_half": lambda x: x.hardtanh(-1.5, 1.5),
    "elu": lambda x: x.elu(0.75),
    "celu": lambda x: x.celu(0.75),
    "selu": lambda x: x.selu(),
    "softplus_beta": lambda x: x.softplus(2.0),
    "isinf_up": lambda x: x.isinf(True, False),
    "isinf_down": lambda x: x.isinf(False, True),
    "zeros_like": Tensor.zeros_like,
    "ones_like": Tensor.ones_like,
    "full_like": lambda x: x.full_like(3),
    "std": lambda x: x.std(1),
    "std_all": lambda x: x.std(),
    "var_mean_0": lambda x: x.var_mean(0, keepdim=True)[0],
    "var_mean_1": lambda x: x.var_mean(0, keepdim=True)[1],
    "std_mean_0": lambda x: x.std_mean(correction=0)[0],
    "std_mean_1": lambda x: x.std_mean(correction=0)[1],
    "normalize": lambda x: x.normalize(),
    "normalize_p0": lambda x: x.normalize(0.0, 0),
    "normalize_p1": lambda x: x.normalize(1.0, -1),
    "normalize_p3": lambda x: x.normalize(3.0, 0, 1e-3),
    "softmin": lambda x: x.softmin(),
    "softmax_half": lambda x: x.softmax(0, dtype="float16"),
    "softmax_double": lambda x: x.softmax(-1, dtype="float64"),
    "log_softmax_half": lambda x: x.log_softmax(0, dtype="float16"),
    "log_softmax_double": lambda x: x.log_softmax(1, dtype="float64"),
    "sum_float64": lambda x: x.sum(1, dtype="float64"),
    "sum_int8": lambda x: x.sum(0, keepdim=True, dtype="int8"),
    "prod_float32": lambda x: x.prod(1, dtype="float32"),
    "prod_int16": lambda x: x.prod(dtype="int16"),
    "cumsum": lambda x: x.cumsum(1),
    "cumsum_0": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(-1),
    "cummax": lambda x: x.cummax(1)[0],
    "cummax_indices": lambda x: x.cummax(1)[1],
    "cummax_0": lambda x: x.cummax(0)[0],
    "cummax_0_indices": lambda x: x.cummax(0)[1],
    "cummin": lambda x: x.cummin(-1)[0],
    "cummin_indices": lambda x: x.cummin(-1)[1],
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "layernorm": lambda x: x.layernorm(),
    "layernorm_0": lambda x: x.layernorm(0, 1e-3),
    "layernorm_01": lambda x: x.layernorm((0, 1)),
    "contiguous_backward": Tensor.contiguous_backward,
    "usum": lambda x: x.usum(x, x),
    "uprod": lambda x: x.uprod(x, x),
}
BINARY = {
    "copysign": Tensor.copysign,
    "logaddexp": Tensor.logaddexp,
    "isclose": lambda a, b: a.isclose(b, 0.5, 0.25),
    "allclose": lambda a, b: a.allclose(b, 10.0, 50.0),
    "masked_fill": lambda a, b: a.masked_fill(a > b, b),
    "clip": lambda a, b: a.clip(None, b),
    "binary_crossentropy": lambda a, b: a.sigmoid().binary_crossentropy((b > 0).int()),
    "binary_crossentropy_sum": lambda a, b: a.sigmoid().binary_crossentropy(b.sigmoid(), "sum"),
    "binary_crossentropy_logits": lambda a, b: a.binary_crossentropy_logits(b.sigmoid()),
    "binary_crossentropy_logits_weight": lambda a, b: a.binary_crossentropy_logits(
        b.sigmoid(), "none", pos_weight=b * b
    ),
    "categorical_probabilities": lambda a, b: a.cross_entropy(b.softmax(1), "none", 0.25),
    "batchnorm": lambda a, b: a.batchnorm(b[0], b[1], a.mean(0), b[2] * b[2]),
    "batchnorm_0": lambda a, b: a.batchnorm(None, None, b[:, 0], b[:, 1], axis=0),
    "batchnorm_wide": lambda a, b: a.batchnorm(b[0], None, b[1], b * b),
}
LABELS = np.array([2, 0, 3], dtype=np.int32)
WEIGHT = np.array([0.5, 2.0, 1.25, 0.75], dtype=np.float32)
IMAGE_LABELS = np.array([[1, 0], [1, 1], [0, 2]], dtype=np.int32)  # 2 is no class
LOSSES = {
    "sparse": lambda x: x.sparse_categorical_crossentropy(Tensor(LABELS)),
    "sparse_options": lambda x: x.sparse_categorical_crossentropy(Tensor(LABELS), 3, 0.25, "none"),
    "categorical": lambda x: x.cross_entropy(Tensor(LABELS)),
    "categorical_smooth": lambda x: x.cross_entropy(Tensor(LABELS), "sum", 0.25),
    "categorical_1d": lambda x: x[0].cross_entropy(Tensor(np.array(2, np.int32))),
    "categorical_image": lambda x: x.reshape(3, 2, 2).cross_entropy(Tensor(IMAGE_LABELS), "none"),
    "nll": lambda x: x.log_softmax().nll_loss(Tensor(LABELS)),
    "nll_weight": lambda x: x.log_softmax().nll_loss(
        Tensor(LABELS), Tensor(WEIGHT), ignore_index=0
    ),
    "nll_none": lambda x: x.log_softmax().nll_loss(
        Tensor(LABELS), Tensor(WEIGHT), reduction="none"
    ),
    "nll_image": lambda x: x.reshape(3, 2, 2).nll_loss(
        Tensor(IMAGE_LABELS), ignore_index=1, reduction="sum"
    ),
}
UNIT = {"asin", "acos", "atanh"}  # of [-1, 1]
NO_GRADIENT = {"isinf_up", "isinf_down", "zeros_like", "ones_like", "full_like", "sum_int8"}
NO_GRADIENT |= {"cummax_indices", "cummax_0_indices", "cummin_indices", "prod_int16"}
NO_GRADIENT |= {"softmax_half", "log_softmax_half"}


def inputs(name, dtype, count, salt):
    """data(), brought into the domain of a function: division by 16 is exact."""
    x = data(dtype, count, salt)
    if name in UNIT and dtype.startswith("float"):
        return x / 16
    if name == "acosh":
        return np.abs(x) + 1 if dtype != "bool" else x
    return x


def dtype_rows():
    rows = []
    for name, f in UNARY.items():
        for a in NAMES:
            x = operand(a).reshape(1, 2)
            try:
                rows.append([name, a, "-", name_of(f(x).dtype)])
            except Exception:  # whatever it refuses with
                rows.append([name, a, "-", "none"])
    for name in ("copysign", "logaddexp", "isclose", "masked_fill"):
        for a in NAMES:
            for b in NAMES:
                rows.append([name, a, b, name_of(BINARY[name](operand(a), operand(b)).dtype)])
    for a in [n for n in NAMES if n.startswith(("float", "int"))]:
        x = operand(a)
        y = Tensor.empty(2)
        for name, f in (
            ("binary_crossentropy", Tensor.binary_crossentropy),
            ("binary_crossentropy_logits", Tensor.binary_crossentropy_logits),
        ):
            rows.append([name, a, "float32", name_of(f(x, y).dtype)])
    return rows


def result(f, *operands):
    """The result, or none where tinygrad refuses."""
    try:
        r = f(*[Tensor(o) for o in operands])
        if r.dtype in (dtypes.weakfloat, dtypes.weakint):
            r = r.cast(dtypes.float32 if r.dtype == dtypes.weakfloat else dtypes.int32)
        return np.atleast_1d(r.numpy())
    except Exception:  # whatever it refuses with
        return None


def value_rows():
    rows = []

    def row(name, dtype, r):
        if r is not None:
            rows.append([name, dtype, str(r.dtype), hexed(r)])

    for dtype in ("bool", "uint8", "int32", "float32", "float64"):
        for name, f in UNARY.items():
            row(name, dtype, result(f, inputs(name, dtype, 12, 1).reshape(3, 4)))
        y = data(dtype, 12, 2).reshape(3, 4)
        for name, f in BINARY.items():
            row(name, dtype, result(f, data(dtype, 12, 1).reshape(3, 4), y))
        for name, f in LOSSES.items():
            if dtype.startswith("float"):
                row(name, dtype, result(f, data(dtype, 12, 1).reshape(3, 4)))
    counters = np.arange(12, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    row("threefry", "uint64", result(Tensor.threefry, counters, counters[::-1].copy() ^ 7))
    # Long axes, with the two stages of tinygrad's sums.
    long = data("float32", 2 * 700, 1).reshape(2, 700)
    for name, f in (("cumsum", UNARY["cumsum"]), ("cummax", UNARY["cummax"]),
                    ("cummin_indices", UNARY["cummin_indices"]),
                    ("logcumsumexp", UNARY["logcumsumexp"])):
        row(name + "_long", "float32", result(f, long))
    return rows


def gradient_rows():
    rows = []

    def run(name, f, *arrays):
        tensors = [Tensor(a) for a in arrays]
        y = f(*tensors)
        n = int(np.prod(y.shape)) if len(y.shape) else 1
        w = Tensor(np.asarray(data("float32", n, 3).reshape(y.shape) * np.float32(0.5)))
        grads = (y.cast(dtypes.float32) * w).sum().gradient(*tensors)
        rows.append([name] + [hexed(g.numpy()) for g in grads])

    for name, f in UNARY.items():
        if name not in NO_GRADIENT:
            run(name, f, inputs(name, "float32", 12, 4).reshape(3, 4))
    for name, f in BINARY.items():
        if name not in ("isclose", "allclose"):
            x, y = (data("float32", 12, i).reshape(3, 4) for i in (4, 5))
            run(name, f, x, y)
    for name, f in LOSSES.items():
        run(name, f, data("float32", 12, 4).reshape(3, 4))
    return rows


CORNERS = [1.0, np.nan, -2.0, np.inf, -np.inf, 0.0, -0.0, 3.5, 0.5, -0.75, np.nan, 20.0]
STRICT = {
    **{n: UNARY[n] for n in "asin acos atan sinh cosh asinh acosh atanh relu6 hardswish".split()},
    **{n: UNARY[n] for n in "quick_gelu swish mish logsigmoid hardsigmoid elu celu".split()},
    **{n: UNARY[n] for n in "selu softplus_beta cummax cummin".split()},
    **{
        n: getattr(Tensor, n) for n in "softplus floor ceil round relu sigmoid silu tanh".split()
    },
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "le": lambda a, b: a <= b,
    "ge": lambda a, b: a >= b,
    "pow": Tensor.pow,
    "logaddexp": Tensor.logaddexp,
    "maximum": Tensor.maximum,
    "binary_crossentropy": lambda a, b: a.binary_crossentropy(b, "none"),
}


def strict_rows():
    """What strict_parity has to give: name, dtype, dtype of the result, bytes."""
    rows = []
    for dtype in ("float32", "float64", "bool", "int32"):
        x = np.array(CORNERS).reshape(3, 4)
        y = np.roll(np.array(CORNERS), 3).reshape(3, 4)
        if not dtype.startswith("float"):
            x, y = (np.where(np.isfinite(v), v, 7).astype(dtype) for v in (x, y))
        x, y = x.astype(dtype), y.astype(dtype)
        for name, f in STRICT.items():
            two = name in (*BINARY, "le", "ge", "pow", "maximum")
            if not dtype.startswith("float") and name not in ("floor", "ceil", "round", "relu"):
                continue
            operands = [Tensor(x), Tensor(y)] if two else [Tensor(x)]
            r = f(*operands)
            seen = name_of(r.dtype)
            strong = {"weakfloat": dtypes.float32, "weakint": dtypes.int32}.get(seen, r.dtype)
            rows.append([name, dtype, seen, hexed(r.cast(strong).numpy())])
    return rows


def exact_rows():
    """Correctly rounded values: name, dtype, inputs, results."""
    from mpmath import mp, mpf

    mp.prec = 200

    def softplus(x):
        return mp.log1p(mp.exp(x))

    def curve(alpha, gamma=1, scale=1):
        return lambda x: gamma * (x if x > 0 else alpha * mp.expm1(x / scale))

    functions = {
        "asin": (mp.asin, -1, 1),
        "acos": (mp.acos, -1, 1),
        "atan": (mp.atan, -20, 20),
        "sinh": (mp.sinh, -80, 80),
        "cosh": (mp.cosh, -80, 80),
        "asinh": (mp.asinh, -1e5, 1e5),
        "acosh": (mp.acosh, 1, 1e5),
        "atanh": (mp.atanh, -1, 1),
        "softplus": (softplus, -60, 60),
        "logsigmoid": (lambda x: -softplus(-x), -60, 60),
        "mish": (lambda x: x * mp.tanh(softplus(x)), -40, 40),
        "elu": (curve(mpf("0.75")), -30, 30),
        "celu": (curve(mpf("0.75"), 1, mpf("0.75")), -30, 30),
        "softsign": (lambda x: x / (1 + abs(x)), -100, 100),
    }
    rows = []
    rng = np.random.RandomState(7)
    for dtype in ("float32", "float64"):
        for name, (f, low, high) in functions.items():
            x = np.concatenate(
                [
                    rng.uniform(low, high, 300),
                    np.clip(np.exp(rng.uniform(-30, 0, 60)), low, high),
                    np.clip(1 + np.exp(rng.uniform(-14, 0, 60)), low, high),
                    np.clip(rng.uniform(-1, 1, 200), low, high),
                ]
            ).astype(dtype)
            if name in ("asin", "acos", "atanh"):
                x = x[np.abs(x) < 1]
            wanted = [f(mpf(float(v))) for v in x]
            if dtype == "float32":
                y = np.array([float(v) for v in wanted]).astype(np.float32)
            else:
                y = np.array([float(v) for v in wanted])
            rows.append([name, dtype, hexed(x), hexed(y)])
    return rows


if __name__ == "__main__":
    only = sys.argv[1:]
    for file, make in (
        ("functions_dtypes.tsv", dtype_rows),
        ("functions_values.tsv", value_rows),
        ("functions_gradients.tsv", gradient_rows),
        ("functions_strict.tsv", strict_rows),
        ("functions_exact.tsv", exact_rows),
    ):
        if not only or file in only:
            write(file, make())
