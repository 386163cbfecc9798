"""The elementwise operations and reductions: how both front ends call them, the same on NumPy
arrays, and how far results may lie from both.

A reference sees integers in their dtype and floats as float64 (longdouble for float64); `real` are
the operations that compute integers in float32. Tolerances count ULPs of the result's dtype: `ulps`
against the reference, `parity` against tinygrad (its approximations are looser than ours), `slack`
ULPs of 1 on top, for results that cancel.
"""

import dataclasses
import math
import typing

import numpy as np


@dataclasses.dataclass
class Operation:
    call: typing.Callable  # (front end, *tensors)
    reference: typing.Callable = None
    ulps: float = 0
    parity: float = 0
    slack: float = 0
    real: bool = False
    kind: str = "all"  # of input, see values.draw
    gradient: str = ""  # kind of input for gradients; empty: none


def wide(x, real=False):
    """The array that a reference sees."""
    if x.dtype.kind in "iub":
        return x.astype(np.float32).astype(np.float64) if real else x
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def is_float(x):
    return x.dtype.kind == "f"


def is_bool(x):
    return x.dtype.kind == "b"


def each(function):
    """A function of Python floats on an array; domain errors give NaN."""

    def guarded(v):
        try:
            return function(float(v))
        except (ValueError, OverflowError):
            return math.nan

    return lambda x: np.array([guarded(v) for v in x.ravel()], np.float64).reshape(x.shape)


def method(name, *arguments, **named):
    return lambda f, x: getattr(x, name)(*arguments, **named)


def whole(function):
    """A rounding: integers stay."""
    return lambda x: function(x) if is_float(x) else x


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


erf = each(math.erf)


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.longdouble(np.pi)) * (x + 0.044715 * x**3)))


def signum(x):
    return (
        np.where(np.isnan(x), 1, np.sign(x))
        if is_float(x)
        else np.sign(x.astype(object)).astype(x.dtype) if not is_bool(x) else x
    )


def real(name, reference, ulps, parity, slack=0, gradient="plain"):
    return Operation(method(name), reference, ulps, parity, slack, True, gradient=gradient)


UNARY = {
    "neg": Operation(lambda f, x: -x, lambda x: ~x if is_bool(x) else -x, gradient="plain"),
    "abs": Operation(method("abs"), lambda x: x if is_bool(x) else np.abs(x), gradient="plain"),
    "sign": Operation(method("sign"), signum),
    "square": Operation(method("square"), lambda x: x * x, 0.5, 1, gradient="plain"),
    "trunc": Operation(method("trunc"), whole(np.trunc)),
    "floor": Operation(method("floor"), whole(np.floor)),
    "ceil": Operation(method("ceil"), whole(np.ceil)),
    "round": Operation(method("round"), whole(np.rint)),
    "relu": Operation(
        method("relu"),
        lambda x: np.where(x > 0, x, x * 0 if not is_float(x) else 0),
        gradient="plain",
    ),
    "leaky_relu": Operation(
        method("leaky_relu", 0.25),
        lambda x: np.where(x < 0, x * 0.25, x) if is_float(x) else None,
        0.5,
        1,
        gradient="plain",
    ),
    "logical_not": Operation(method("logical_not"), lambda x: x == 0),
    "bitwise_not": Operation(method("bitwise_not"), lambda x: ~x),
    "isnan": Operation(method("isnan"), lambda x: x != x),
    "isinf": Operation(method("isinf"), lambda x: np.isinf(x) if is_float(x) else x != x),
    "isfinite": Operation(method("isfinite"), lambda x: np.isfinite(x) if is_float(x) else x == x),
    "reciprocal": real("reciprocal", lambda x: 1 / x, 1, 1, gradient="positive"),
    "sqrt": real("sqrt", np.sqrt, 1, 1, gradient="positive"),
    "rsqrt": real("rsqrt", lambda x: 1 / np.sqrt(x), 2, 3, gradient="positive"),
    "exp": real("exp", np.exp, 2.5, 4),
    "exp2": real("exp2", np.exp2, 2.5, 4),
    "log": real("log", np.log, 2.5, 5, gradient="positive"),
    "log2": real("log2", np.log2, 2.5, 5, gradient="positive"),
    "log10": real("log10", np.log10, 3.5, 6, gradient="positive"),
    "sin": real("sin", np.sin, 2.5, 4, 8),
    "cos": real("cos", np.cos, 2.5, 4, 8),
    "tan": real("tan", np.tan, 6, 16, 8),
    "tanh": real("tanh", np.tanh, 2.5, 8, 4),
    "erf": real("erf", erf, 2.5, 8, 4),
    "sigmoid": real("sigmoid", sigmoid, 4, 8, 1),
    "silu": real("silu", lambda x: x * sigmoid(x), 5, 8, 1),
    "gelu": real("gelu", gelu, 8, 16, 4),
    "gelu_erf": real("gelu", lambda x: x / 2 * (1 + erf(x / math.sqrt(2))), 8, 16, 4),
    "softplus": real("softplus", lambda x: np.logaddexp(x, 0), 8, 16, 4),
}
UNARY["gelu_erf"].call = method("gelu", approximate="none")


def divide(rounding):
    """Integer division: by zero 0, and MIN / -1 wraps."""

    def reference(a, b):
        if is_float(a):
            return None
        if is_bool(a):
            return a & b
        x, y = a.astype(object), np.where(b == 0, 1, b).astype(object)
        q = x // y
        if rounding == "trunc":
            q = np.where((q < 0) & (q * y != x), q + 1, q)
        return np.where(b == 0, 0, wrap(q, a.dtype)).astype(a.dtype)

    return reference


def wrap(values, dtype):
    """Python integers modulo the width of dtype."""
    bits = np.dtype(dtype).itemsize * 8
    return (
        np.array([int(v) & (1 << bits) - 1 for v in np.ravel(values)], np.uint64)
        .astype(f"uint{bits}")
        .view(dtype)
        .reshape(np.shape(values))
    )


def remainder(rounding):
    def reference(a, b):
        if is_float(a):
            return None
        if is_bool(a):
            return a & ~b
        return np.where(b == 0, a, a - b * divide(rounding)(a, b)).astype(a.dtype)

    return reference


def shifted(a, b, left):
    """Past the width: 0, or the sign."""
    bits = a.dtype.itemsize * 8
    if left:
        return wrap(
            [int(x) << int(y) if y < bits else 0 for x, y in zip(a.ravel(), b.ravel())], a.dtype
        ).reshape(a.shape)
    return wrap(
        [int(x) >> min(int(y), 127) for x, y in zip(a.ravel(), b.ravel())], a.dtype
    ).reshape(a.shape)


def power(a, b):
    """Integers in float64, truncated; what lies beyond 2^63 gives 0."""
    if is_float(a):
        return np.power(a, b)
    if is_bool(a):
        return a | ~b
    x = np.trunc(np.power(a.astype(np.float64), b.astype(np.float64)))
    fits = np.abs(x) < 2.0**63
    return np.where(fits, wrap(np.where(fits, x, 0), a.dtype), 0).astype(a.dtype)


def logical(function):
    return lambda f, a, b: function(f, a.cast(f.dtypes.bool), b.cast(f.dtypes.bool))


def truth(function):
    return lambda a, b: function(a != 0, b != 0)


def ints_only(function):
    return lambda a, b: None if is_float(a) else function(a, b)


BINARY = {
    "add": Operation(lambda f, a, b: a + b, lambda a, b: a + b, 0.5, 1, gradient="plain"),
    "sub": Operation(
        lambda f, a, b: a - b,
        lambda a, b: a | ~b if is_bool(a) else a - b,
        0.5,
        1,
        gradient="plain",
    ),
    "mul": Operation(lambda f, a, b: a * b, lambda a, b: a * b, 0.5, 1, gradient="plain"),
    "div": Operation(
        lambda f, a, b: a / b, lambda a, b: a / b, 1, 2, real=True, gradient="positive"
    ),
    "truncdiv": Operation(
        lambda f, a, b: a.div(b, rounding_mode="trunc"), divide("trunc"), kind="plain"
    ),
    "floordiv": Operation(lambda f, a, b: a // b, divide("floor"), kind="plain"),
    "mod": Operation(lambda f, a, b: a % b, remainder("floor"), 1, 2, 4, kind="plain"),
    "fmod": Operation(lambda f, a, b: a.fmod(b), remainder("trunc"), 1, 2, 4, kind="plain"),
    "pow": Operation(lambda f, a, b: a.pow(b), power, 2.5, 300, gradient="positive"),
    "maximum": Operation(lambda f, a, b: a.maximum(b), np.maximum, gradient="plain"),
    "minimum": Operation(lambda f, a, b: a.minimum(b), np.minimum, gradient="plain"),
    "eq": Operation(lambda f, a, b: a == b, lambda a, b: a == b),
    "ne": Operation(lambda f, a, b: a != b, lambda a, b: a != b),
    "lt": Operation(lambda f, a, b: a < b, lambda a, b: a < b),
    "le": Operation(lambda f, a, b: a <= b, lambda a, b: a <= b),
    "gt": Operation(lambda f, a, b: a > b, lambda a, b: a > b),
    "ge": Operation(lambda f, a, b: a >= b, lambda a, b: a >= b),
    "logical_and": Operation(
        lambda f, a, b: a.logical_and(b) if hasattr(a, "logical_and") else a.bool() & b.bool(),
        truth(np.logical_and),
    ),
    "logical_or": Operation(
        lambda f, a, b: a.logical_or(b) if hasattr(a, "logical_or") else a.bool() | b.bool(),
        truth(np.logical_or),
    ),
    "logical_xor": Operation(
        lambda f, a, b: a.logical_xor(b) if hasattr(a, "logical_xor") else a.bool() ^ b.bool(),
        truth(np.logical_xor),
    ),
    "bitwise_and": Operation(lambda f, a, b: a & b, lambda a, b: a & b),
    "bitwise_or": Operation(lambda f, a, b: a | b, lambda a, b: a | b),
    "bitwise_xor": Operation(lambda f, a, b: a ^ b, lambda a, b: a ^ b),
    "shl": Operation(lambda f, a, b: a.lshift(b), ints_only(lambda a, b: shifted(a, b, True))),
    "shr": Operation(lambda f, a, b: a.rshift(b), ints_only(lambda a, b: shifted(a, b, False))),
}


def summed(x, **where):
    """Integers in at least 32 bits, bool as int32."""
    if is_float(x):
        return np.sum(x, **where)
    kind = "uint" if x.dtype.kind == "u" else "int"
    return np.sum(x, dtype=f"{kind}{max(32, 8 * x.dtype.itemsize)}", **where)


def logsumexp(x, axis, keepdims):
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    out = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdims else np.squeeze(out, axis=axis)


# Tolerances of sums are relative to the sum of magnitudes.
REDUCE = {
    "sum": Operation(None, summed, 4, 6, kind="plain", gradient="plain"),
    "prod": Operation(
        None,
        lambda x, **k: np.prod(x, dtype=None if is_float(x) else x.dtype, **k),
        24,
        32,
        kind="unit",
        gradient="positive",
    ),
    "max": Operation(None, np.max, gradient="plain", kind="plain"),
    "min": Operation(None, np.min, gradient="plain", kind="plain"),
    "mean": Operation(None, np.mean, 4, 6, real=True, kind="plain", gradient="plain"),
    "var": Operation(
        None,
        lambda x, **k: np.var(x, ddof=1, **k),
        16,
        24,
        real=True,
        kind="plain",
        gradient="plain",
    ),
    "any": Operation(None, lambda x, **k: np.any(x != 0, **k)),
    "all": Operation(None, lambda x, **k: np.all(x != 0, **k)),
    "logsumexp": Operation(None, logsumexp, 8, 16, 4, real=True, kind="plain", gradient="plain"),
}
