#!/usr/bin/env python3
"""Writes reference.txt: small programs of tensor operations with the answers of NumPy, ml_dtypes,
SciPy and tinygrad.

A case is a list of lines; nodes are numbered from 0 in order:
  case NAME
  in DTYPE SHAPE HEX                    a leaf and its bytes
  do OP DTYPE SOURCES WORDS             an operation ('-' where it has none)
  out NODE DTYPE SHAPE ULP HEX          the value, and how far from it floats may be
Lists are separated by commas; '-' is the empty one. Run with tinygrad 0.14.0 installed.
"""

import math
import os
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
from scipy import special

os.environ.setdefault("DEV", "PYTHON")
from tinygrad import Tensor, dtypes  # noqa: E402

RNG = np.random.default_rng(20240611)
NP = {
    "bool": np.dtype(np.bool_),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "int16": np.dtype(np.int16),
    "uint16": np.dtype(np.uint16),
    "int32": np.dtype(np.int32),
    "uint32": np.dtype(np.uint32),
    "int64": np.dtype(np.int64),
    "uint64": np.dtype(np.uint64),
    "fp8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "fp8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
NAME = {v: k for k, v in NP.items()}
INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
WIDE = ["float16", "bfloat16", "float32", "float64"]
FP8 = [n for n in NP if n.startswith("fp8")]
LINES = []


def words(values):
    return ",".join(str(int(v)) for v in values) or "-"


def hexed(array):
    return np.ascontiguousarray(array).tobytes().hex() or "-"


class Case:
    """Builds a program line by line, with its values beside it."""

    def __init__(self, name):
        self.lines, self.count = [f"case {name}"], 0

    def put(self, line):
        self.lines.append(line)
        self.count += 1
        return self.count - 1

    def leaf(self, array):
        return self.put(f"in {NAME[array.dtype]} {words(array.shape)} {hexed(array)}")

    def do(self, op, sources=(), args=(), dtype="-"):
        return self.put(f"do {op} {dtype} {words(sources)} {words(args)}")

    def out(self, node, array, ulp=0):
        self.lines.append(
            f"out {node} {NAME[array.dtype]} {words(array.shape)} {ulp} {hexed(array)}"
        )

    def end(self):
        LINES.extend(self.lines)


def one(name, op, arrays, result, args=(), dtype="-", ulp=0):
    case = Case(name)
    leaves = [case.leaf(a) for a in arrays]
    case.out(case.do(op, leaves, args, dtype), result, ulp)
    case.end()


# Elementwise ------------------------------------------------------------


def wrap(value, name):
    bits = NP[name].itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if name.startswith("int") and value >> (bits - 1) else value


def bounds(name):
    info = np.iinfo(NP[name])
    return int(info.min), int(info.max)


def int_values(name, count):
    low, high = bounds(name)
    edges = [low, high, 0, 1, 2, low + 1, high - 1, wrap(-1, name), wrap(-7, name), 3, 7, 10]
    return edges + [
        int(v) for v in RNG.integers(max(low, -100), min(high, 100), count - len(edges))
    ]


def cdiv(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shift(a, b, bits, left):
    gone = b < 0 or b >= bits
    if left:
        return 0 if gone else a << b
    return (-1 if a < 0 else 0) if gone else a >> b


def int_ops(name):
    bits = NP[name].itemsize * 8
    return {
        "Neg": lambda a: -a,
        "Not": lambda a: ~a,
        "Abs": abs,
        "Trunc": lambda a: a,
        "Floor": lambda a: a,
        "Ceil": lambda a: a,
        "Round": lambda a: a,
        "Add": lambda a, b: a + b,
        "Sub": lambda a, b: a - b,
        "Mul": lambda a, b: a * b,
        "Max": max,
        "Min": min,
        "CDiv": cdiv,
        "CMod": lambda a, b: a - b * cdiv(a, b),
        "FloorDiv": lambda a, b: a // b if b else 0,
        "FloorMod": lambda a, b: a % b if b else a,
        "And": lambda a, b: a & b,
        "Or": lambda a, b: a | b,
        "Xor": lambda a, b: a ^ b,
        "Shl": lambda a, b: shift(a, b, bits, True),
        "Shr": lambda a, b: shift(a, b, bits, False),
        "MulAcc": lambda a, b, c: a * b + c,
    }


COMPARE = {
    "CmpLt": lambda a, b: a < b,
    "CmpLe": lambda a, b: a <= b,
    "CmpEq": lambda a, b: a == b,
    "CmpNe": lambda a, b: a != b,
}


def make(values, name):
    return (
        np.array(values, dtype=object).astype(NP[name])
        if name in INTS
        else np.array(values).astype(NP[name])
    )


def integers():
    for name in INTS:
        a = int_values(name, 32)
        b = [a[(i * 7 + 3) % 32] for i in range(32)]
        c = [a[(i * 5 + 1) % 32] for i in range(32)]
        for op, f in int_ops(name).items():
            arity = f.__code__.co_argcount if hasattr(f, "__code__") else {"Abs": 1}.get(op, 2)
            right = (
                [RNG.integers(0, 70) if bounds(name)[1] > 70 else i % 9 for i in range(32)]
                if op[:2] == "Sh"
                else b
            )
            right = [int(v) for v in right]
            operands = [a, right, c][:arity]
            result = [wrap(int(f(*row)), name) for row in zip(*operands)]
            one(f"{op}.{name}", op, [make(v, name) for v in operands], make(result, name))
        for op, f in COMPARE.items():
            one(
                f"{op}.{name}",
                op,
                [make(a, name), make(b, name)],
                np.array([f(x, y) for x, y in zip(a, b)]),
            )


def booleans():
    a = np.array([0, 0, 0, 0, 1, 1, 1, 1], bool)
    b = np.array([0, 0, 1, 1, 0, 0, 1, 1], bool)
    c = np.array([0, 1] * 4, bool)
    for op, f in {
        "Add": np.logical_or,
        "Mul": np.logical_and,
        "Max": np.logical_or,
        "Min": np.logical_and,
        "And": np.logical_and,
        "Or": np.logical_or,
        "Xor": np.logical_xor,
        "CmpLt": np.less,
        "CmpLe": np.less_equal,
        "CmpEq": np.equal,
        "CmpNe": np.not_equal,
    }.items():
        one(f"{op}.bool", op, [a, b], f(a, b))
    one("Not.bool", "Not", [a], ~a)
    one("Where.bool", "Where", [a, b, c], np.where(a, b, c))


def real_values(name, count, special_values=True):
    info = ml_dtypes.finfo(NP[name])
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.5,
        1.5,
        2.5,
        3.0,
        float(info.tiny),
        float(info.smallest_subnormal),
    ]
    if special_values:
        edges += [float(info.max), -float(info.max), np.nan]
        if name not in FP8:
            edges += [np.inf, -np.inf]
    values = np.concatenate([edges, RNG.normal(0, 3, count - len(edges))])
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(NP[name]) if name != "float64" else values


REAL_UNARY = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Recip": lambda x: 1 / x,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Exp2": np.exp2,
    "Log": np.log,
    "Log2": np.log2,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tanh": np.tanh,
    "Erf": special.erf,
    "Trunc": np.trunc,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
}
EXACT = {"Neg", "Abs", "Recip", "Sqrt", "Trunc", "Floor", "Ceil", "Round"}
REAL_BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
}


def reals():
    for name in WIDE:
        a = real_values(name, 48)
        b = a[(np.arange(48) * 11 + 5) % 48]
        c = a[(np.arange(48) * 13 + 7) % 48]
        for op, f in REAL_UNARY.items():
            ulp = 0 if op in EXACT else 2 if name == "float64" else 1
            one(f"{op}.{name}", op, [a], f(a.astype(np.float64)).astype(NP[name]), ulp=ulp)
        for op, f in REAL_BINARY.items():
            with_zeros = op not in ("Max", "Min")  # which zero wins is open
            x, y = (
                (a, b)
                if with_zeros
                else (
                    np.where(a == 0, a + a.dtype.type(4), a),
                    np.where(b == 0, b - b.dtype.type(4), b),
                )
            )
            one(
                f"{op}.{name}", op, [x, y], f(x, y).astype(NP[name])
            )  # NumPy's own arithmetic on the dtype
        base = np.abs(a)
        one(
            f"Pow.{name}",
            "Pow",
            [base, b],
            np.power(base.astype(np.float64), b.astype(np.float64)).astype(NP[name]),
            ulp=2 if name == "float64" else 1,
        )
        finite = [
            np.where(np.isfinite(v.astype(np.float64)), v, v.dtype.type(1)) for v in (a, b, c)
        ]
        finite = [np.where(np.abs(v.astype(np.float64)) > 100, v.dtype.type(-3), v) for v in finite]
        fused = [
            Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(*finite)
        ]
        # A fraction rounds to the dtype by way of float64: ulp 1 covers what ties twice.
        one(
            f"MulAcc.{name}",
            "MulAcc",
            finite,
            np.array([float(v) for v in fused]).astype(NP[name]),
            ulp=1,
        )
        for op, f in COMPARE.items():
            one(f"{op}.{name}", op, [a, b], f(a, b))
        condition = np.arange(48) % 3 == 0
        one(f"Where.{name}", "Where", [condition, a, b], np.where(condition, a, b))
    for name in FP8:
        a = np.clip(real_values(name, 24, False).astype(np.float32), -3, 3).astype(NP[name])
        b = a[(np.arange(24) * 7 + 5) % 24]
        for op, f in {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract}.items():
            one(
                f"{op}.{name}",
                op,
                [a, b],
                f(a.astype(np.float32), b.astype(np.float32)).astype(NP[name]),
            )
        one(f"Neg.{name}", "Neg", [a], (-a.astype(np.float32)).astype(NP[name]))
        one(
            f"Sqrt.{name}",
            "Sqrt",
            [np.abs(a.astype(np.float32)).astype(NP[name])],
            np.sqrt(np.abs(a.astype(np.float32))).astype(NP[name]),
        )


def threefry():
    counter = RNG.integers(0, 2**64, 16, dtype=np.uint64)
    key = RNG.integers(0, 2**64, 16, dtype=np.uint64)
    counter[0], key[0] = 0, 0
    got = Tensor(counter.tolist(), dtype=dtypes.uint64).threefry(
        Tensor(key.tolist(), dtype=dtypes.uint64)
    )
    one("Threefry", "Threefry", [counter, key], np.array(got.tolist(), dtype=np.uint64))


def pair_dot():
    """Both halves of a word as signed numbers; sums and products wrap."""
    a, b = (make(int_values("int32", 40)[::step], "int32") for step in (1, -1))
    low = [wrap(int(v), "int16") for v in a], [wrap(int(v), "int16") for v in b]
    high = [int(v) >> 16 for v in a], [int(v) >> 16 for v in b]
    sums = [w * x + y * z for w, x, y, z in zip(*low, *high, strict=True)]
    one("PairDot", "PairDot", [a, b], make([wrap(v, "int32") for v in sums], "int32"))


def quad_dot():
    """Four bytes of a word as unsigned numbers, by those of another as signed ones; sums wrap."""
    values = int_values("int32", 40)
    a, b, c = (make(v, "int32") for v in (values, values[::-1], values[7:] + values[:7]))
    sums = [
        int(z) + sum((int(x) >> s & 255) * wrap(int(y) >> s, "int8") for s in (0, 8, 16, 24))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    one("QuadDot", "QuadDot", [a, b, c], make([wrap(v, "int32") for v in sums], "int32"))


# Casts ------------------------------------------------------------


def cast(array, to):
    source = NAME[array.dtype]
    if to == "bool":
        return array.astype(np.float64) != 0 if source not in INTS else array != 0
    if to in INTS:
        if source in INTS or source == "bool":
            return make([wrap(int(v), to) for v in array], to)
        out = []
        for v in array.astype(np.float64):
            lost = math.isnan(v) or math.isinf(v) or not -(2.0**63) <= v < 2.0**63
            out.append(0 if lost else wrap(int(v), to))
        return make(out, to)
    if to in ("float32", "float64") or (source in WIDE and to in ("float16", "bfloat16")):
        return array.astype(NP[to])
    return array.astype(np.float64).astype(NP[to])


def casts():
    for source in NP:
        if source == "bool":
            array = np.array([0, 1], bool)
        elif source in INTS:
            array = make(int_values(source, 24), source)
        else:
            array = real_values(source, 24, source not in FP8)
        for to in NP:
            if to == source:
                continue
            data = array
            if to in FP8:  # NumPy's and tinygrad's overflow differ; the dtype module tests that
                data = data[np.abs(data.astype(np.float64)) < 50]
                if to.endswith("fnuz"):
                    data = data[
                        ~np.signbit(data.astype(np.float64)) | (data.astype(np.float64) != 0)
                    ]
            with np.errstate(all="ignore"):
                one(f"Cast.{source}.{to}", "Cast", [data], cast(data, to), dtype=to)
    for a, b in [
        ("float32", "int32"),
        ("float32", "uint32"),
        ("float64", "uint64"),
        ("float16", "int16"),
        ("bfloat16", "uint16"),
        ("fp8e4m3", "uint8"),
        ("int8", "uint8"),
        ("float16", "bfloat16"),
    ]:
        for source, to in ((a, b), (b, a)):
            array = RNG.integers(0, 256, 16 * NP[source].itemsize, dtype=np.uint8).view(NP[source])
            if source not in INTS:
                array = array[np.isfinite(array.astype(np.float64))]
            other = array.view(NP[to])
            if to not in INTS:  # bits of NaNs are not kept
                array, other = (v[np.isfinite(other.astype(np.float64))] for v in (array, other))
            one(f"Bitcast.{source}.{to}", "Bitcast", [array], other, dtype=to)


# Movement ------------------------------------------------------------


def slice_of(x, start, step, size):
    return x[
        tuple(slice(s, s + k * n, k) if n else slice(0, 0) for s, k, n in zip(start, step, size))
    ]


def pad_of(x, before, after, interior, fill):
    spread = [n + max(n - 1, 0) * g for n, g in zip(x.shape, interior)]
    out = np.full([n + b + a for n, b, a in zip(spread, before, after)], fill, x.dtype)
    if x.size:
        out[tuple(slice(b, b + n, g + 1) for b, n, g in zip(before, spread, interior))] = x
    return out


def window_of(x, axis, kernel, stride, dilation):
    outputs = (x.shape[axis] - (kernel - 1) * dilation - 1) // stride + 1
    index = np.arange(outputs)[:, None] * stride + np.arange(kernel)[None, :] * dilation
    return np.take(x, index, axis=axis)


def unwindow_of(x, axis, size, stride, dilation):
    shape = list(x.shape)
    shape[axis] = size
    out = np.zeros(shape, x.dtype)
    for o in range(x.shape[axis]):
        for k in range(x.shape[axis + 1]):
            to = [slice(None)] * x.ndim
            to[axis], to[axis + 1] = o * stride + k * dilation, k
            at = [slice(None)] * x.ndim
            at[axis], at[axis + 1] = o, k
            out[tuple(to)] = x[tuple(at)]
    return out


def bits_of(dtype, fill):
    return int(np.array(fill, np.float64).view(np.int64)) if "float" in dtype.name else int(fill)


def factors(n, parts):
    shape = [1] * parts
    for p in range(2, n + 1):
        while n % p == 0:
            shape[int(RNG.integers(parts))] *= p
            n //= p
    return shape


def movement_step(case, node, x, limit):
    """One random movement of x; its node and value."""
    rank = x.ndim
    kind = RNG.choice(
        ["Reshape", "Expand", "Permute", "Flip", "Slice", "Pad", "Window", "Unwindow", "Cat"]
    )
    if kind == "Reshape":
        shape = factors(x.size, int(RNG.integers(1, 5)))
        return case.do(kind, [node], shape), x.reshape(shape)
    if kind == "Expand":
        shape = [int(RNG.integers(1, 4)) if n == 1 and x.size < limit else n for n in x.shape]
        return case.do(kind, [node], shape), np.broadcast_to(x, shape)
    if kind == "Permute":
        axes = RNG.permutation(rank)
        return case.do(kind, [node], axes), x.transpose(axes)
    if kind == "Flip":
        mask = RNG.integers(0, 2, rank)
        return case.do(kind, [node], mask), np.flip(x, [i for i in range(rank) if mask[i]])
    if kind == "Slice":
        start = [int(RNG.integers(0, max(n // 3, 1))) for n in x.shape]
        step = [int(RNG.integers(1, 3)) for _ in x.shape]
        size = [
            max((n - s - 1) // k + 1 - int(RNG.integers(0, 2)), 1)
            for n, s, k in zip(x.shape, start, step)
        ]
        return case.do(kind, [node], start + step + size), slice_of(x, start, step, size)
    if kind == "Pad":
        before, after, interior = ([int(v) for v in RNG.integers(0, 3, rank)] for _ in range(3))
        if x.size > limit:
            before, after, interior = [1] * rank, [0] * rank, [0] * rank
        fill = int(RNG.integers(-4, 4))
        return (
            case.do(kind, [node], before + after + interior + [bits_of(x.dtype, fill)]),
            pad_of(x, before, after, interior, fill),
        )
    if kind in ("Window", "Unwindow") and x.size < limit:
        axis = int(RNG.integers(rank))
        if kind == "Window":
            dilation, stride = int(RNG.integers(1, 3)), int(RNG.integers(1, 4))
            kernel = min(int(RNG.integers(1, 4)), (x.shape[axis] - 1) // dilation + 1)
            args = [axis, kernel, stride, dilation]
            return case.do(kind, [node], args), window_of(x, *args)
        if axis + 1 < rank:
            stride, dilation = int(RNG.integers(1, 4)), int(RNG.integers(1, 4))
            size = (
                (x.shape[axis] - 1) * stride
                + (x.shape[axis + 1] - 1) * dilation
                + 1
                + int(RNG.integers(0, 3))
            )
            if size * x.size // x.shape[axis] < 2 * limit:
                args = [axis, size, stride, dilation]
                return case.do(kind, [node], args), unwindow_of(x, *args)
    axis = int(RNG.integers(rank))
    if x.size < limit:
        other = case.do("Neg", [node])
        parts = [(node, x), (other, -x)] + ([(node, x)] if RNG.integers(2) else [])
        return (
            case.do("Cat", [n for n, _ in parts], [axis]),
            np.concatenate([v for _, v in parts], axis),
        )
    return node, x


def movement():
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    y = -np.arange(12, dtype=np.int32).reshape(2, 3, 2)
    one("Reshape", "Reshape", [x], x.reshape(6, 4), [6, 4])
    one("Expand", "Expand", [x[:, :1]], np.broadcast_to(x[:, :1], (2, 5, 4)), [2, 5, 4])
    one("Permute", "Permute", [x], x.transpose(2, 0, 1), [2, 0, 1])
    one("Flip", "Flip", [x], x[::-1, :, ::-1], [1, 0, 1])
    one(
        "Slice",
        "Slice",
        [x],
        slice_of(x, [1, 0, 1], [1, 2, 2], [1, 2, 2]),
        [1, 0, 1, 1, 2, 2, 1, 2, 2],
    )
    args = ([1, 0, 2], [0, 3, 1], [0, 1, 2])
    one("Pad", "Pad", [x], pad_of(x, *args, -9), sum(args, []) + [-9])
    one(
        "Pad.float",
        "Pad",
        [x.astype(np.float32)],
        pad_of(x.astype(np.float32), *args, -np.inf),
        sum(args, []) + [bits_of(np.dtype(np.float32), -np.inf)],
    )
    one("Window", "Window", [x], window_of(x, 2, 2, 1, 2), [2, 2, 1, 2])
    one("Window.middle", "Window", [x], window_of(x, 1, 2, 1, 1), [1, 2, 1, 1])
    one("Unwindow", "Unwindow", [x], unwindow_of(x, 1, 14, 3, 2), [1, 14, 3, 2])
    one("Cat", "Cat", [x, y, x], np.concatenate([x, y, x], 2), [2])
    for i in range(60):
        case = Case(f"movement.{i}")
        dtype = NP[["int32", "float32", "int64"][i % 3]]
        value = np.arange(1, 25).reshape(factors(24, int(RNG.integers(1, 4)))).astype(dtype)
        node = case.leaf(value)
        for _ in range(int(RNG.integers(2, 7))):
            node, value = movement_step(case, node, value, 60)
        if value.size < 400:
            case.out(node, np.ascontiguousarray(value))
            case.end()
    for i in range(40):  # larger, folded to one number with different weights
        case = Case(f"movement.large.{i}")
        size = int(RNG.choice([720, 1024, 5040, 3 * 517]))
        value = np.arange(size, dtype=np.int64)
        node = case.do("Iota", (), [size], "int64")
        for _ in range(int(RNG.integers(2, 8))):
            node, value = movement_step(case, node, value, 6000)
        if value.size == 0 or value.size > 200000:
            continue
        weights = case.do("Reshape", [case.do("Iota", (), [value.size], "int64")], value.shape)
        weights = case.do("Mul", [weights, weights])
        product = case.do("Mul", [node, weights])
        place = (np.arange(value.size, dtype=np.int64) ** 2).reshape(value.shape)
        axes = tuple(range(value.ndim))
        with np.errstate(all="ignore"):
            case.out(
                case.do("Reduce:Add", [product], axes),
                (value * place).sum(axis=axes, keepdims=True),
            )
        case.end()


# Reductions ------------------------------------------------------------

REDUCE = {
    "Add": np.add,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
}


def reductions():
    sets = [(0,), (2,), (1, 2), (0, 2), (0, 1, 2)]
    for name in INTS:
        x = make(int_values(name, 30), name).reshape(3, 2, 5)
        for op, f in REDUCE.items():
            for axes in sets:
                one(
                    f"Reduce.{op}.{name}.{words(axes)}",
                    f"Reduce:{op}",
                    [x],
                    f.reduce(x, axis=axes, dtype=x.dtype, keepdims=True),
                    axes,
                )
    flags = RNG.integers(0, 2, (3, 2, 5)).astype(bool)
    for op, f in {
        "Add": np.any,
        "Mul": np.all,
        "Max": np.any,
        "Min": np.all,
        "And": np.all,
        "Or": np.any,
    }.items():
        for axes in sets:
            one(
                f"Reduce.{op}.bool.{words(axes)}",
                f"Reduce:{op}",
                [flags],
                f(flags, axis=axes, keepdims=True),
                axes,
            )
    for name in WIDE + FP8:
        x = RNG.normal(0, 2, (3, 2, 5)).astype(NP[name])
        small = RNG.uniform(0.8, 1.2, (3, 2, 5)).astype(NP[name])
        for op in ("Add", "Mul", "Max", "Min"):
            for axes in sets:
                data = small if op == "Mul" else x
                rows = np.moveaxis(data.astype(np.float64), axes, range(-len(axes), 0))
                rows = rows.reshape([n for i, n in enumerate(data.shape) if i not in axes] + [-1])
                f = {
                    "Add": math.fsum,
                    "Mul": lambda row: float(np.prod(row.astype(np.longdouble))),
                    "Max": max,
                    "Min": min,
                }[op]
                result = np.apply_along_axis(f, -1, rows)
                shape = [1 if i in axes else n for i, n in enumerate(data.shape)]
                ulp = 4 if name == "float64" else 0
                one(
                    f"Reduce.{op}.{name}.{words(axes)}",
                    f"Reduce:{op}",
                    [data],
                    result.reshape(shape).astype(NP[name]),
                    axes,
                    ulp=ulp,
                )
    x = np.array([[1, np.nan, 3], [-np.inf, 2, np.inf], [np.nan, np.nan, 1]], np.float32)
    for op in ("Add", "Max", "Min", "Mul"):
        with np.errstate(all="ignore"):
            one(
                f"Reduce.{op}.special",
                f"Reduce:{op}",
                [x],
                REDUCE[op].reduce(x, axis=1, keepdims=True),
                (1,),
            )


def structure():
    for name in ["int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64", "bool"]:
        case = Case(f"Iota.{name}")
        case.out(case.do("Iota", (), [300], name), cast(np.arange(300, dtype=np.int64), name))
        case.end()
    x = np.arange(6, dtype=np.float32)
    for op in ("Contiguous", "Detach"):
        one(op, op, [x], x)


def main():
    np.seterr(all="ignore")
    for section in (
        integers, booleans, reals, threefry, casts, movement, reductions, structure, pair_dot,
        quad_dot,
    ):  # fmt: skip
        section()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference.txt")
    with open(sys.argv[1] if len(sys.argv) > 1 else path, "w") as out:
        out.write("\n".join(LINES) + "\n")


if __name__ == "__main__":
    main()
