#!/usr/bin/env python3
"""Asks tinygrad 0.14.0 what the tensor tests expect, and writes the tables beside this script.

  make.py        writes dtypes.tsv, values.tsv, random.tsv, gradients.tsv

Numbers are written as the hexadecimal of their little-endian bytes, so that nothing is rounded on
the way.
"""

import os
import struct
import sys

os.environ.setdefault("EMULATED_DTYPES", "bfloat16")  # clang 14 has no __bf16 on x86

import numpy as np  # noqa: E402
from tinygrad import Tensor, dtypes  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {
    "bool": dtypes.bool,
    "int8": dtypes.int8,
    "uint8": dtypes.uint8,
    "int16": dtypes.int16,
    "uint16": dtypes.uint16,
    "int32": dtypes.int32,
    "uint32": dtypes.uint32,
    "int64": dtypes.int64,
    "uint64": dtypes.uint64,
    "fp8e4m3": dtypes.fp8e4m3,
    "fp8e4m3fnuz": dtypes.fp8e4m3fnuz,
    "fp8e5m2": dtypes.fp8e5m2,
    "fp8e5m2fnuz": dtypes.fp8e5m2fnuz,
    "float16": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "float32": dtypes.float32,
    "float64": dtypes.float64,
}
WEAK = {"weakint": lambda: Tensor(1), "weakfloat": lambda: Tensor(1.5)}

UNARY = {
    "neg": lambda x: -x,
    "abs": Tensor.abs,
    "sign": Tensor.sign,
    "square": Tensor.square,
    "trunc": Tensor.trunc,
    "floor": Tensor.floor,
    "ceil": Tensor.ceil,
    "round": Tensor.round,
    "relu": Tensor.relu,
    "logical_not": Tensor.logical_not,
    "bitwise_not": Tensor.bitwise_not,
    "isnan": Tensor.isnan,
    "isinf": Tensor.isinf,
    "isfinite": Tensor.isfinite,
    "reciprocal": Tensor.reciprocal,
    "sqrt": Tensor.sqrt,
    "rsqrt": Tensor.rsqrt,
    "exp": Tensor.exp,
    "exp2": Tensor.exp2,
    "log": Tensor.log,
    "log2": Tensor.log2,
    "log10": Tensor.log10,
    "sin": Tensor.sin,
    "cos": Tensor.cos,
    "tan": Tensor.tan,
    "tanh": Tensor.tanh,
    "erf": Tensor.erf,
    "sigmoid": Tensor.sigmoid,
    "silu": Tensor.silu,
    "gelu": Tensor.gelu,
    "gelu_erf": lambda x: x.gelu(approximate="none"),
    "softplus": Tensor.softplus,
}
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "truncdiv": lambda a, b: a.div(b, rounding_mode="trunc"),
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "fmod": Tensor.fmod,
    "pow": Tensor.pow,
    "maximum": Tensor.maximum,
    "minimum": Tensor.minimum,
    "eq": Tensor.eq,
    "ne": Tensor.ne,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "logical_and": lambda a, b: a.bool() & b.bool(),
    "logical_or": lambda a, b: a.bool() | b.bool(),
    "logical_xor": lambda a, b: a.bool() ^ b.bool(),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}
REDUCE = {
    "sum": Tensor.sum,
    "prod": Tensor.prod,
    "max": Tensor.max,
    "min": Tensor.min,
    "mean": Tensor.mean,
    "var": Tensor.var,
    "any": Tensor.any,
    "all": Tensor.all,
    "logsumexp": Tensor.logsumexp,
}
OTHER = {
    "argmax": lambda x: x.argmax(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
}


def name_of(dtype):
    for name, known in NAMES.items():
        if known == dtype:
            return name
    return {"weakint": "weakint", "weakfloat": "weakfloat"}[dtype.name]


def operand(name):
    return WEAK[name]() if name in WEAK else Tensor.empty(2, dtype=NAMES[name])


def write(file, rows):
    with open(os.path.join(HERE, file), "w") as out:
        for row in rows:
            out.write("\t".join(row) + "\n")
    print(f"{file}: {len(rows)} rows")


def dtype_rows():
    """Dtype of each operation on each operand; none where tinygrad refuses."""
    rows = []
    everything = list(NAMES) + list(WEAK)

    def row(op, f, *names):
        try:
            result = name_of(f(*[operand(n) for n in names]).dtype)
        except Exception:  # whatever it refuses with
            result = "none"
        rows.append([op, *names, result] if len(names) == 2 else [op, names[0], "-", result])

    for op, f in {**UNARY, **REDUCE, **OTHER}.items():
        for a in everything:
            if not (op in OTHER and a in WEAK):
                row(op, f, a)
    for op in (
        "add",
        "sub",
        "div",
        "floordiv",
        "mod",
        "pow",
        "maximum",
        "eq",
        "bitwise_and",
        "shl",
        "logical_and",
    ):
        for a in everything:
            for b in everything:
                row(op, BINARY[op], a, b)
    for a in NAMES:
        for b in NAMES:
            row("matmul", lambda x, y: x.reshape(1, 2) @ y.reshape(2, 1), a, b)
    return rows


def data(name, count, salt):
    """Values without zeros or ties; the same in the test."""
    k = [((i * 7 + salt * 5) % 19) - 9 for i in range(count)]
    k = [v if v != 0 else 10 for v in k]
    if name == "bool":
        return np.array([v > 0 for v in k])
    if name.startswith("uint"):
        return np.array([abs(v) for v in k], dtype=name)
    if name.startswith("int"):
        return np.array(k, dtype=name)
    return np.array([v * 0.3125 for v in k], dtype=name)


def hexed(array):
    return np.ascontiguousarray(array).tobytes().hex()


def numpy_of(t):
    return t.cast(dtypes.float32).numpy() if t.dtype in (dtypes.weakfloat,) else t.numpy()


def value_rows():
    """Values of elementwise operations and reductions: op, dtype, result dtype, bytes."""
    rows = []
    for name in ("bool", "uint8", "int32", "float32", "float64"):
        x, y = data(name, 12, 1), data(name, 12, 2)
        for op, f in UNARY.items():
            if op == "bitwise_not" and name.startswith("float"):
                continue
            try:
                r = f(Tensor(x)).numpy()
            except Exception:  # whatever it refuses with
                continue
            rows.append([op, name, str(r.dtype), hexed(r)])
        for op, f in BINARY.items():
            bits = op.startswith("bitwise") or op in ("shl", "shr")
            if bits and name.startswith("float") or op in ("shl", "shr") and name == "bool":
                continue
            b = np.abs(y) if op in ("shl", "shr") and name == "int32" else y
            if op == "pow" and not name.startswith("float"):
                continue  # through float exp2 and log2 there: not exact
            a = np.abs(x) if op == "pow" else x
            try:
                r = f(Tensor(a), Tensor(b)).numpy()
            except Exception:  # whatever it refuses with
                continue
            rows.append([op, name, str(r.dtype), hexed(r)])
        for op, f in REDUCE.items():
            r = f(Tensor(x.reshape(3, 4)), axis=1).numpy()
            rows.append([op, name, str(r.dtype), hexed(r)])
        r = Tensor(x.reshape(3, 4)).argmax(1).numpy()
        rows.append(["argmax", name, str(r.dtype), hexed(r)])
    return rows


def random_rows():
    """Draws after seed 42, in this order: kind, dtype, count, bytes."""
    rows = []
    Tensor.manual_seed(42)
    for kind, dtype, count in (
        ("rand", "float32", 5),
        ("rand", "float32", 3),
        ("rand", "float16", 7),
        ("rand", "float64", 3),
        ("rand", "bfloat16", 5),
        ("randn", "float32", 64),
        ("randn", "float16", 6),
        ("randint", "int32", 9),
        ("uniform", "float32", 4),
        ("rand", "float32", 1),
        ("rand", "float32", 0),
        ("rand", "float32", 1000),
    ):
        dt = NAMES[dtype]
        if kind == "rand":
            t = Tensor.rand(count, dtype=dt)
        elif kind == "randn":
            t = Tensor.randn(count, dtype=dt)
        elif kind == "randint":
            t = Tensor.randint(count, low=-3, high=20, dtype=dt)
        else:
            t = Tensor.uniform(count, low=-2.0, high=6.0, dtype=dt)
        r = t.bitcast(dtypes.uint16).numpy() if dtype == "bfloat16" else t.numpy()
        rows.append([kind, dtype, str(count), hexed(r)])
    return rows


def gradient_rows():
    """Gradients of sum(f(..) * w) by every operand: program, then the bytes of each."""
    rows = []

    def weights(shape):
        n = int(np.prod(shape)) if len(shape) else 1
        return Tensor(
            np.asarray(data("float32", n, 3).reshape(shape) * np.float32(0.5), dtype=np.float32)
        )

    def run(name, f, *shapes, positive=False, ties=False):
        inputs = []
        for i, shape in enumerate(shapes):
            v = data("float32", int(np.prod(shape)), i + 4).reshape(shape)
            if positive:
                v = np.abs(v)
            if ties:
                v = np.round(v)
            inputs.append(Tensor(v))
        y = f(*inputs)
        grads = (y * weights(y.shape)).sum().gradient(*inputs)
        rows.append([name] + [hexed(g.numpy()) for g in grads])

    positive = {"sqrt", "rsqrt", "log", "log2", "log10", "pow"}
    for op, f in UNARY.items():
        if op in ("logical_not", "bitwise_not", "isnan", "isinf", "isfinite"):
            continue
        run(op, f, (3, 4), positive=op in positive)
    for op in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "mod", "fmod"):
        run(op, BINARY[op], (3, 4), (4,), positive=op in positive)
    for op in ("sum", "prod", "max", "min", "mean", "var", "logsumexp"):
        run(op, lambda x, op=op: REDUCE[op](x, axis=1), (3, 4))
        run(op + "_all_ties", lambda x, op=op: REDUCE[op](x), (3, 4), ties=True)
    run("matmul", lambda a, b: a @ b, (2, 3, 4), (4, 5))
    run("matmul_batch", lambda a, b: a @ b, (2, 1, 3, 4), (3, 4, 2))
    run("dot", lambda a, b: a @ b, (4,), (4,))
    run("softmax", lambda x: x.softmax(-1), (3, 4))
    run("log_softmax", lambda x: x.log_softmax(0), (3, 4))
    run("layer_norm", lambda x: x.layernorm(eps=1e-3), (3, 4))
    run(
        "conv2d",
        lambda x, w, b: x.conv2d(w, b, stride=2, padding=(1, 2, 0, 1), dilation=1),
        (2, 2, 6, 5),
        (3, 2, 3, 2),
        (3,),
    )
    run(
        "conv2d_groups",
        lambda x, w, b: x.conv2d(w, b, groups=2, dilation=2, padding=1),
        (1, 4, 6, 5),
        (2, 2, 2, 2),
        (2,),
    )
    run("max_pool2d", lambda x: x.max_pool2d((2, 3), stride=1, padding=1), (1, 2, 4, 5))
    run(
        "avg_pool2d",
        lambda x: x.avg_pool2d((2, 2), stride=2, padding=1, count_include_pad=False),
        (1, 2, 4, 5),
    )
    labels = Tensor(np.array([2, 0, 3], dtype=np.int32))
    run("cross_entropy", lambda x: x.sparse_categorical_crossentropy(labels), (3, 4))
    run(
        "cross_entropy_options",
        lambda x: x.sparse_categorical_crossentropy(labels, ignore_index=0, label_smoothing=0.25),
        (3, 4),
    )
    run("where", lambda a, b: (a > 0.5).where(a, b), (3, 4), (3, 4))
    run("clamp", lambda x: x.clamp(-1.0, 1.5), (3, 4))
    run("slice", lambda x: x[2:0:-1, ::-2], (4, 5))
    run("pad", lambda x: x.pad(((1, 2), (-1, 1)), value=3.0), (3, 4))
    run("cat", lambda a, b: a.cat(b, a, dim=1), (3, 2), (3, 4))
    run("stack", lambda a, b: a.stack(b, dim=1), (3, 2), (3, 2))
    run("flip", lambda x: x.flip(1), (3, 4))
    run("leaky_relu", lambda x: x.leaky_relu(0.1), (3, 4))
    return rows


if __name__ == "__main__":
    assert struct.pack("=H", 1) == b"\x01\x00", "a little-endian machine is needed"
    only = sys.argv[1:]
    for file, make in (
        ("dtypes.tsv", dtype_rows),
        ("values.tsv", value_rows),
        ("random.tsv", random_rows),
        ("gradients.tsv", gradient_rows),
    ):
        if not only or file in only:
            write(file, make())
