"""Functions of each element: arithmetic, mathematics, activations, comparisons, casts."""

from __future__ import annotations

import math

import numpy as np

from ..row import COMMON, EVERY, INTEGER, NUMBER, REAL, Draw, row

MIXED = (*REAL, "int32", "uint8", "bool")
WHOLE = ("int32", "uint8", "bool", "int64")


def each(function):
    """A function of Python floats on an array; domain errors give NaN."""

    def guarded(value):
        try:
            return function(float(value))
        except (ValueError, OverflowError):
            return math.nan

    return lambda x: np.array([guarded(v) for v in np.ravel(x)], np.float64).reshape(np.shape(x))


erf = each(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def softplus(x, beta=1.0):
    return np.logaddexp(x * beta, 0) / beta


def one(kind):
    def make(draw: Draw):
        draw.tensor(
            draw.shape(0, 3, least=0), kind if draw.dtype in REAL or kind == "all" else "plain"
        )

    return make


def moderate(kind):
    """As one(), integers kept small: what is computed of them must not overflow."""

    def make(draw: Draw):
        draw.tensor(draw.shape(0, 3, least=0), kind if draw.dtype in REAL else "plain")

    return make


def named(name):
    return lambda f, x, **arguments: getattr(x, name)(**arguments)


F = "nn.functional."
# name, kind of input, dtypes, ULPs, slack, torch, NumPy, has a gradient
UNARY = [
    ("neg", "all", COMMON[:-1], 0, 0, "neg", "negative", True),
    ("abs", "all", COMMON[:-1], 0, 0, "abs", "abs", True),
    ("sign", "plain", COMMON[:-1], 0, 0, "sign", "sign", True),
    ("square", "small", NUMBER, 1, 0, "square", "square", True),
    ("floor", "plain", REAL, 0, 0, "floor", "floor", False),
    ("ceil", "plain", REAL, 0, 0, "ceil", "ceil", False),
    ("trunc", "plain", REAL, 0, 0, "trunc", "trunc", False),
    ("round", "plain", REAL, 0, 0, "round", "rint", False),
    ("reciprocal", "positive", MIXED, 2, 0, "reciprocal", lambda x: 1 / x, True),
    ("sqrt", "positive", MIXED, 2, 0, "sqrt", "sqrt", True),
    ("rsqrt", "positive", MIXED, 3, 0, "rsqrt", lambda x: 1 / np.sqrt(x), True),
    ("exp", "plain", MIXED, 8, 0, "exp", "exp", True),
    ("exp2", "plain", MIXED, 4, 0, "exp2", "exp2", True),
    ("log", "positive", MIXED, 5, 2, "log", "log", True),
    ("log2", "positive", MIXED, 5, 2, "log2", "log2", True),
    ("log10", "positive", MIXED, 6, 2, "log10", "log10", True),
    ("sin", "plain", MIXED, 4, 8, "sin", "sin", True),
    ("cos", "plain", MIXED, 4, 8, "cos", "cos", True),
    ("tan", "unit", MIXED, 16, 8, "tan", "tan", True),
    ("sinh", "plain", (*REAL, "int32"), 16, 8, "sinh", "sinh", True),
    ("cosh", "plain", (*REAL, "int32"), 16, 8, "cosh", "cosh", True),
    ("tanh", "plain", MIXED, 8, 4, "tanh", "tanh", True),
    ("asin", "unit", REAL, 16, 8, "asin", "arcsin", True),
    ("acos", "unit", REAL, 16, 8, "acos", "arccos", True),
    ("atan", "plain", REAL, 16, 8, "atan", "arctan", True),
    ("asinh", "plain", REAL, 32, 16, "asinh", "arcsinh", True),
    ("acosh", "above_one", REAL, 32, 16, "acosh", "arccosh", True),
    ("atanh", "unit", REAL, 16, 8, "atanh", "arctanh", True),
    ("erf", "plain", REAL, 8, 4, "erf", erf, True),
    ("sigmoid", "plain", MIXED, 8, 2, "sigmoid", sigmoid, True),
    ("logsigmoid", "plain", REAL, 8, 8, F + "logsigmoid", lambda x: -softplus(-x), True),
    ("relu", "plain", NUMBER, 0, 0, "relu", lambda x: np.maximum(x, 0), True),
    ("relu6", "plain", REAL, 0, 0, F + "relu6", lambda x: np.clip(x, 0, 6), True),
    ("silu", "plain", MIXED, 8, 2, F + "silu", lambda x: x * sigmoid(x), True),
    ("swish", "plain", REAL, 8, 2, F + "silu", lambda x: x * sigmoid(x), True),
    ("quick_gelu", "plain", REAL, 8, 4, None, lambda x: x * sigmoid(1.702 * x), True),
    ("mish", "plain", REAL, 16, 8, F + "mish", lambda x: x * np.tanh(softplus(x)), True),
    ("softsign", "plain", REAL, 4, 2, F + "softsign", lambda x: x / (1 + abs(x)), True),
    (
        "hardswish",
        "plain",
        REAL,
        4,
        4,
        F + "hardswish",
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        True,
    ),
    ("isnan", "all", COMMON, 0, 0, "isnan", "isnan", False),
    ("isfinite", "all", COMMON, 0, 0, "isfinite", "isfinite", False),
    ("logical_not", "all", COMMON, 0, 0, "logical_not", "logical_not", False),
    ("bitwise_not", "all", (*INTEGER, "bool"), 0, 0, "bitwise_not", "invert", False),
    ("contiguous", "all", EVERY, 0, 0, lambda T, x: x, lambda x: x, True),
    ("clone", "all", EVERY, 0, 0, "clone", lambda x: x, True),
    ("detach", "all", COMMON, 0, 0, lambda T, x: x.detach(), lambda x: x, False),
    ("contiguous_backward", "all", COMMON, 0, 0, lambda T, x: x, lambda x: x, True),
]

for name, kind, dtypes, ulps, slack, torch, numpy, gradient in UNARY:
    row(
        name,
        "elementwise",
        one(kind) if kind == "all" else moderate(kind),
        torch=torch,
        numpy=numpy,
        dtypes=dtypes,
        ulps=ulps,
        slack=slack,
        gradient=gradient,
    )

for name, kind in (
    ("float", "all"),
    ("half", "plain"),
    ("double", "all"),
    ("int", "plain"),
    ("long", "plain"),
    ("short", "plain"),
    ("bool", "all"),
    ("bfloat16", "plain"),
):
    row(name, "elementwise", one(kind), torch=lambda T, x, n=name: getattr(x, n)(), dtypes=COMMON)


# name, default and other values of its parameters, ULPs, torch, NumPy
PARAMETRIC = [
    (
        "elu",
        {"alpha": (1.0, 0.5)},
        8,
        F + "elu",
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
    ),
    (
        "celu",
        {"alpha": (1.0, 0.5)},
        8,
        F + "celu",
        lambda x, alpha=1.0: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)),
    ),
    ("selu", {}, 8, None, lambda x: 1.0507 * np.where(x > 0, x, 1.67326 * np.expm1(x))),
    (
        "leaky_relu",
        {"neg_slope": (0.01, 0.25)},
        1,
        lambda T, x, neg_slope=0.01: T.nn.functional.leaky_relu(x, neg_slope),
        lambda x, neg_slope=0.01: np.where(x < 0, neg_slope * x, x),
    ),
    ("hardsigmoid", {}, 4, F + "hardsigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (
        "hardtanh",
        {"min_val": (-1, -2.5), "max_val": (1, 0.5)},
        0,
        F + "hardtanh",
        lambda x, min_val=-1, max_val=1: np.clip(x, min_val, max_val),
    ),
    ("softplus", {"beta": (1.0, 2.0, 0.5)}, 16, F + "softplus", softplus),
    (
        "gelu",
        {"approximate": ("tanh", "none")},
        16,
        lambda T, x, approximate="tanh": T.nn.functional.gelu(x, approximate=approximate),
        lambda x, approximate="tanh": x
        / 2
        * (
            1
            + (
                np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
                if approximate == "tanh"
                else erf(x / math.sqrt(2))
            )
        ),
    ),
]


def with_parameters(values):
    def make(draw: Draw):
        draw.tensor(draw.shape(0, 3, least=0))
        return {name: draw.pick(*options) for name, options in values.items() if draw.maybe()}

    return make


for name, values, ulps, torch, numpy in PARAMETRIC:
    row(name, "elementwise", with_parameters(values), torch=torch, numpy=numpy, ulps=ulps, slack=8)


def flags(draw: Draw):
    draw.tensor(draw.shape(), "all")
    return {"detect_positive": draw.maybe(), "detect_negative": draw.maybe()}


row(
    "isinf",
    "elementwise",
    flags,
    dtypes=COMMON,
    gradient=False,
    numpy=lambda x, detect_positive, detect_negative: np.isinf(np.asarray(x, np.float64))
    & (((x > 0) & detect_positive) | ((x < 0) & detect_negative)),
)


def limits(draw: Draw):
    draw.tensor(draw.shape(), "plain")
    low, high = draw.pick((-1, 1), (None, 2), (0, None), (1, 3))
    return {"min_": low, "max_": high}


for name in ("clamp", "clip"):
    row(
        name,
        "elementwise",
        limits,
        torch=lambda T, x, min_, max_: T.clamp(x, min_, max_),
        numpy=lambda x, min_, max_: np.clip(x, min_, max_),
        dtypes=NUMBER,
    )


def two(kind="plain", other=None, dtype=None):
    """Two operands that broadcast."""

    def make(draw: Draw):
        shape = draw.shape(0, 3, least=0)
        draw.tensor(shape, kind)
        second = list(shape)
        if draw.maybe():
            second = [1 if draw.maybe() else n for n in second][draw.integer(0, len(second)) :]
        draw.tensor(second, other or kind, dtype)

    return make


def dividing(reference):
    """Integer divisions are held against tinygrad and torch; NumPy's are floored."""
    return lambda a, b, **k: reference(a, b, **k)


# name, generator, dtypes, ULPs, slack, torch, NumPy, gradient
BINARY = [
    ("add", two(), COMMON, 1, 0, "add", "add", True),
    ("sub", two(), NUMBER, 1, 0, "sub", "subtract", True),
    ("mul", two("small"), COMMON, 1, 0, "mul", "multiply", True),
    ("div", two("positive"), MIXED, 2, 0, "div", "divide", True),
    ("mod", two("plain", "positive"), NUMBER, 2, 4, "remainder", "mod", False),
    ("fmod", two("plain", "positive"), NUMBER, 2, 4, "fmod", "fmod", False),
    ("pow", two("positive", "unit"), REAL, 300, 0, "pow", "power", True),
    ("maximum", two(), COMMON, 0, 0, "maximum", "maximum", True),
    ("minimum", two(), COMMON, 0, 0, "minimum", "minimum", True),
    ("copysign", two(), REAL, 0, 0, "copysign", "copysign", True),
    ("logaddexp", two(), REAL, 16, 8, "logaddexp", "logaddexp", True),
    ("eq", two("small"), COMMON, 0, 0, "eq", "equal", False),
    ("ne", two("small"), COMMON, 0, 0, "ne", "not_equal", False),
    ("bitwise_and", two("all"), (*INTEGER, "bool"), 0, 0, "bitwise_and", "bitwise_and", False),
    ("bitwise_or", two("all"), (*INTEGER, "bool"), 0, 0, "bitwise_or", "bitwise_or", False),
    ("bitwise_xor", two("all"), (*INTEGER, "bool"), 0, 0, "bitwise_xor", "bitwise_xor", False),
]

for name, make, dtypes, ulps, slack, torch, numpy, gradient in BINARY:
    row(
        name,
        "elementwise",
        make,
        torch=torch,
        numpy=numpy,
        dtypes=dtypes,
        ulps=ulps,
        slack=slack,
        gradient=gradient,
    )

OPERATORS = {
    "__lt__": lambda a, b: a < b,
    "__le__": lambda a, b: a <= b,
    "__gt__": lambda a, b: a > b,
    "__ge__": lambda a, b: a >= b,
}
for name, function in OPERATORS.items():
    row(
        name,
        "elementwise",
        two("small"),
        call=lambda f, a, b, o=function: o(a, b),
        torch=lambda T, a, b, o=function: o(a, b),
        numpy=function,
        dtypes=COMMON,
        gradient=False,
    )
row(
    "__floordiv__",
    "elementwise",
    two("plain", "positive"),
    call=lambda f, a, b: a // b,
    torch=lambda T, a, b: a // b,
    numpy=lambda a, b: a // b,
    dtypes=NUMBER,
    ulps=2,
    gradient=False,
)


def shifts(draw: Draw):
    shape = draw.shape()
    draw.tensor(shape, "plain")
    draw.tensor(shape, "range", low=0, high=7, view=False)


row("lshift", "elementwise", shifts, torch="bitwise_left_shift", dtypes=INTEGER, gradient=False)
row("rshift", "elementwise", shifts, torch="bitwise_right_shift", dtypes=INTEGER, gradient=False)


def rounding(draw: Draw):
    two("plain", "positive")(draw)
    return {"rounding_mode": draw.pick("trunc", "floor")}


row(
    "div.rounding_mode",
    "elementwise",
    rounding,
    call=lambda f, a, b, rounding_mode: a.div(b, rounding_mode=rounding_mode),
    torch=lambda T, a, b, rounding_mode: T.div(a, b, rounding_mode=rounding_mode),
    dtypes=NUMBER,
    ulps=2,
    gradient=False,
)


def scalar(draw: Draw):
    draw.tensor(draw.shape(), "plain")
    return {
        "operation": draw.pick("add", "sub", "mul", "div", "pow", "maximum", "lt", "eq", "mod"),
        "number": draw.pick(2, 3, -2, 2.5, True),
        "reverse": draw.maybe(),
    }


def with_number(a, b, operation):
    return {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "div": lambda: a / b,
        "pow": lambda: b**2 if isinstance(a, (int, float)) else a**2,
        "maximum": lambda: b.maximum(a) if isinstance(a, (int, float)) else a.maximum(b),
        "lt": lambda: a < b,
        "eq": lambda: a == b,
        "mod": lambda: b % 3 if isinstance(a, (int, float)) else a % 3,
    }[operation]()


row(
    "number",
    "elementwise",
    scalar,
    call=lambda f, x, operation, number, reverse: with_number(
        *((number, x) if reverse else (x, number)), operation
    ),
    dtypes=NUMBER,
    ulps=4,
)


def chosen(draw: Draw):
    shape = draw.shape()
    draw.tensor(shape, "all", "bool")
    draw.tensor(shape, "plain")
    draw.tensor(shape[draw.integer(0, len(shape)) :], "plain")


row("where", "elementwise", chosen, torch="where", numpy="where", dtypes=COMMON)


def masked(draw: Draw):
    shape = draw.shape()
    draw.tensor(shape, "plain")
    draw.tensor(shape, "all", "bool")
    return {"value": draw.pick(0, 1, 7)}


row(
    "masked_fill",
    "elementwise",
    masked,
    torch=lambda T, x, m, value: x.masked_fill(m, value),
    numpy=lambda x, m, value: np.where(m, value, x),
    dtypes=NUMBER,
)


def interpolated(draw: Draw):
    shape = draw.shape()
    draw.tensor(shape)
    draw.tensor(shape)
    draw.tensor(shape[draw.integer(0, len(shape)) :], "probability")


row(
    "lerp",
    "elementwise",
    interpolated,
    torch="lerp",
    numpy=lambda a, b, w: a + (b - a) * w,
    ulps=4,
    slack=8,
)


def close(draw: Draw):
    shape = draw.shape()
    draw.tensor(shape, "all")
    draw.tensor(shape, "all")
    arguments = {"rtol": draw.pick(1e-5, 0.5), "atol": draw.pick(1e-8, 0.1)}
    return {**arguments, "equal_nan": draw.maybe()}


for name in ("isclose", "allclose"):
    row(name, "elementwise", close, torch=name, numpy=name, gradient=False, dtypes=REAL)


def converted(draw: Draw):
    draw.tensor(draw.shape(0, 3, least=0), "plain")
    return {"dtype": draw.pick(*COMMON)}


row(
    "cast",
    "elementwise",
    converted,
    torch=lambda T, x, dtype: x.to(getattr(T, dtype)),
    dtypes=EVERY,
)

SIZES = {
    1: ("int8", "uint8"),
    2: ("int16", "uint16", "float16"),
    4: ("int32", "uint32", "float32"),
    8: ("int64", "uint64", "float64"),
}


def reinterpreted(draw: Draw):
    shape = [*draw.shape(0, 2), 8]
    draw.tensor(shape, "plain", view=False)
    size = int("".join(c for c in draw.dtype if c.isdigit())) // 8
    target = draw.pick(*(d for s, names in SIZES.items() for d in names))
    if draw.dtype.startswith("float") and size > 1:  # bit patterns of NaN are not kept everywhere
        target = draw.pick(*(d for s, names in SIZES.items() for d in names if "float" not in d))
    return {"dtype": target}


row(
    "bitcast",
    "elementwise",
    reinterpreted,
    torch=lambda T, x, dtype: x.contiguous().view(getattr(T, dtype)),
    dtypes=("float32", "float16", "float64", "int32", "int8", "uint8", "int64", "uint16"),
    gradient=False,
)


def ternary_random(draw: Draw):
    shape = draw.shape(1, 2)
    draw.tensor(shape, "all", "uint64")
    draw.tensor(shape, "all", "uint64")


row("threefry", "elementwise", ternary_random, dtypes=("uint64",), gradient=False)
