"""Where our results differ from tinygrad's on purpose. Anything else that differs fails; so does an
entry that no case needs any more.

An entry names cases by a pattern, what differs (values, dtype, raises: only we raise, accepts: only
tinygrad raises; reference, slopes: what NumPy or central differences say) and why; for values a
function picks the elements: (case, dtype, ours, theirs) -> mask.
"""

import dataclasses
import fnmatch
import typing

import numpy as np

from .values import FLOATS, FP8, NARROW


@dataclasses.dataclass
class Difference:
    pattern: str
    what: str
    reason: str
    where: typing.Optional[typing.Callable] = None
    strict: bool = True  # False: under strict_parity we do as tinygrad does
    used: int = 0


def flushed(case, dtype, ours, theirs):
    """Numbers below the least normal one of a dtype that tinygrad emulates."""
    if dtype not in NARROW:
        return False
    return (theirs == 0) & (np.abs(ours) < 2.0 ** (FLOATS[dtype][1] + 1))


def nan_operand(case, dtype, ours, theirs):
    return np.logical_or.reduce(np.broadcast_arrays(*[i.array != i.array for i in case.inputs]))


def our_nan(case, dtype, ours, theirs):
    """NaN wins with us; the reference checks that these are right."""
    return ours != ours


def saturated(case, dtype, ours, theirs):
    """An infinity that became fp8: it stays, or is NaN where the dtype has none."""
    return (np.abs(theirs) == FLOATS[dtype][2]) & ~np.isfinite(ours) if dtype in FP8 else False


def argument(case, dtype, ours, theirs):
    """Results within the change that rounding the argument makes: e^(x (1 + eps))."""
    if dtype not in FLOATS:
        return False
    x = np.abs(case.inputs[0].array.astype(np.float64))
    eps = 2.0 ** -(52 if dtype == "float64" else 23)
    return np.abs(ours - theirs) <= 4 * eps * np.maximum(1, x) * np.maximum(
        np.abs(theirs), 2.0**-126
    )


def huge(case, dtype, ours, theirs):
    return np.abs(case.inputs[0].array.astype(np.float64)) > 1e15


def cube_wraps(case, dtype, ours, theirs):
    x = case.inputs[0].array
    return np.abs(x.astype(np.float64)) ** 3 * 0.045 > np.iinfo(x.dtype).max


def overflowed(case, dtype, ours, theirs):
    if dtype not in FLOATS:
        return False
    return np.isinf(theirs) & (np.abs(ours) > FLOATS[dtype][2] / 4)


def their_nan(case, dtype, ours, theirs):
    return (theirs != theirs) & (ours == ours)


def far(case, dtype, ours, theirs):
    return np.abs(case.inputs[0].array.astype(np.float64)) > 16


def outside(case, dtype, ours, theirs):
    """Floats that the integer dtype cannot hold."""
    x = np.trunc(case.inputs[0].array.astype(np.float64))
    info = np.iinfo(dtype)
    return ~((x >= info.min) & (x <= info.max)) | (np.abs(x) >= 2.0**63)


def tied(case, dtype, ours, theirs):
    x = case.inputs[0].array.astype(np.float64)
    return bool(x.size and np.unique(x).size < x.size)


def lone_axis(case, dtype, ours, theirs):
    return 1 in case.inputs[0].array.shape


def near(limit):
    """Elements that differ by less than limit, relative to the larger of theirs and 1."""
    return lambda case, dtype, ours, theirs: (
        np.abs(ours - theirs) <= limit * np.maximum(1, np.abs(theirs))
    )


WHOLE = "what is whole stays in its dtype; tinygrad's composition makes it weak"
ERF = "tinygrad's erf is good to 1.5e-7 in every dtype, ours to 2.5 ULP"
BROKEN = "tinygrad's own compilation fails"

DIFFERENCES = [
    # ---- dtypes
    Difference("unary/floor/bool/*", "dtype", WHOLE),
    Difference("unary/ceil/bool/*", "dtype", WHOLE),
    Difference("unary/relu/bool/*", "dtype", WHOLE),
    Difference("unary/round/bool/*", "dtype", WHOLE),
    Difference("unary/round/*int*", "dtype", WHOLE),
    Difference("norm/one_hot/*", "dtype", "a tensor is int32; tinygrad's stays a weak integer"),
    # ---- what is defined with us
    Difference("binary/maximum/*", "values", "NaN wins, on either side", our_nan, False),
    Difference("binary/minimum/*", "values", "NaN wins, on either side", our_nan, False),
    Difference("reduce/max/*", "values", "NaN wins, in every order", our_nan),
    Difference("reduce/min/*", "values", "NaN wins, in every order", our_nan),
    Difference("binary/le/*", "values", "a comparison with NaN is false", nan_operand),
    Difference("binary/ge/*", "values", "a comparison with NaN is false", nan_operand),
    Difference(
        "cast/*f*/*int*/*",
        "values",
        "truncates and wraps, beyond 2^63 gives 0; there, it is what the C compiler makes of it",
        outside,
    ),
    Difference("reduce/argmax/shapes/3x0", "raises", "there is no index of nothing"),
    # ---- what tinygrad computes more coarsely
    Difference("unary/exp/*", "values", "tinygrad's e^x is 2^(x / ln 2), which rounds x", argument),
    Difference(
        "unary/cos/*", "values", "tinygrad's cos(x) is sin(pi/2 - x), which rounds x", far, False
    ),
    Difference("unary/tan/*", "values", "by way of its cos", far),
    Difference("unary/tan/*", "values", "by way of its cos, close to a pole", near(1e-4)),
    Difference("unary/sin/float64/*", "values", "tinygrad gives 0 beyond its reduction", huge),
    Difference("gradient/tan/*", "values", "by way of its cos, close to a pole", near(1e-4)),
    Difference("unary/erf/float64/*", "values", ERF, near(1e-6), False),
    Difference("unary/gelu_erf/float64/*", "values", ERF, near(1e-5), False),
    Difference("gradient/erf/float64", "values", ERF, near(1e-6), False),
    Difference("gradient/gelu_erf/float64", "values", ERF, near(1e-6), False),
    Difference("*/*fp8*", "values", "tinygrad's emulation flushes small numbers to 0", flushed),
    Difference(
        "*/*fp8*",
        "values",
        "tinygrad's emulation saturates infinities, its own conversion of constants does not",
        saturated,
    ),
    Difference(
        "*/*bfloat16*", "values", "tinygrad's emulation flushes small numbers to 0", flushed
    ),
    Difference(
        "unary/gelu_erf/*", "values", "tinygrad overflows where x/2 * 2 does not", overflowed
    ),
    Difference("binary/pow/*int*", "values", "tinygrad's powers of integers go through float32"),
    Difference(
        "binary/pow/*", "values", "tinygrad's 2^(y log2 x) is NaN at 0 and infinities", their_nan
    ),
    Difference("binary/pow/*", "values", "tinygrad's 2^(y log2 x) overflows early", overflowed),
    *[
        Difference(
            f"binary/{name}/{dtype}/*",
            "values",
            "each step rounds to the dtype; tinygrad's emulation rounds at the end",
        )
        for name in ("truncdiv", "floordiv")
        for dtype in FP8
    ],
    # ---- found by generated cases
    Difference("elementwise/tan/*", "values", "by way of its cos, close to a pole", near(1e-4)),
    *[
        Difference(
            f"elementwise/{name}/float64*", "values", "tinygrad's polynomial is good to float32"
        )
        for name in ("asin", "acos", "atan")
    ],
    Difference("elementwise/erf/float64*", "values", ERF, near(2e-6)),
    Difference("elementwise/gelu/float64*", "values", ERF, near(1e-6)),
    Difference("creation/linspace/float64", "values", "tinygrad's step is a float32", near(1e-6)),
    Difference("spatial/interpolate/float64*", "values", "tinygrad weighs in float32", near(1e-6)),
    Difference(
        "spatial/matmul.dtype/*",
        "values",
        "factors are converted; tinygrad converts products",
        near(1e-5),
    ),
    Difference(
        "indexing/__setitem__/*",
        "values",
        "tinygrad drops a write to the only element of an axis",
        lone_axis,
    ),
    Difference("linalg/svd/*", "accepts", "tinygrad's fails for a single column"),
    Difference(
        "elementwise/mod/bfloat16",
        "values",
        "each step rounds to the dtype; tinygrad's emulation rounds at the end",
    ),
    Difference("indexing/one_hot/*", "dtype", "a tensor is int32; tinygrad's stays a weak integer"),
    Difference(
        "indexing/assign/*",
        "values",
        "what was computed from a tensor before a part of it is written keeps its values",
    ),
    Difference("movement/pad/bool", "values", "tinygrad makes a truth of the fill, then a number"),
    Difference("nn/nn.LSTMCell/float16*", "values", "tinygrad's e^-x overflows", their_nan),
    *[
        Difference(
            f"random/{name}/float64",
            "values",
            "normal numbers are computed in float32, with other approximations",
            near(1e-5),
        )
        for name in ("Tensor.randn", "randn_like")
    ],
    Difference(
        "reduce/var*/gradient", "values", "the variance of one value has no slope: NaN", our_nan
    ),
    Difference("reduce/softmax.dtype/*", "values", "tinygrad's e^x in float64", near(1e-6)),
    Difference(
        "scan/cumm*/gradient",
        "values",
        "the gradient goes to the element that the index names; tinygrad shares it among equals",
    ),
    Difference(
        "sort/sort/*/gradient",
        "values",
        "the gradient goes to the element that the index names; tinygrad shares it among equals",
        tied,
    ),
    Difference("loss/nll_loss/*", "values", "the mean of no label at all is NaN", our_nan),
    Difference(
        "elementwise/isfinite/float64", "values", "tinygrad folds a NaN of no axes to finite"
    ),
    Difference("elementwise/allclose/*", "values", "tinygrad folds a NaN of no axes to close"),
    # ---- what tinygrad gets wrong
    Difference("reduce/var/*int*", "values", "tinygrad truncates the squares of integers"),
    Difference("reduce/var/bool/*", "values", "tinygrad truncates the squares of integers"),
    Difference(
        "reduce/logsumexp/uint*",
        "values",
        "tinygrad subtracts the maximum in the integer dtype, which wraps",
    ),
    Difference("reduce/logsumexp/bool/*", "values", "tinygrad subtracts the maximum as bool"),
    Difference(
        "unary/gelu/*int*",
        "values",
        "tinygrad cubes integers in their dtype, which wraps",
        cube_wraps,
    ),
    Difference("unary/softplus/*", "values", "tinygrad subtracts infinities", their_nan, False),
    Difference("unary/erf/uint*", "values", "tinygrad negates squares of unsigned integers"),
    Difference("unary/erf/bool/*", "values", "tinygrad negates squares of bool"),
    Difference("binary/pow/*int*", "accepts", BROKEN),
    Difference("spatial/interpolate/*/gradient", "accepts", BROKEN),
    Difference("reduce/*/fp8*", "accepts", BROKEN),
    Difference("reduce/*/bfloat16*", "accepts", BROKEN),
    Difference("reduce/logsumexp/*", "accepts", BROKEN),
]


def excused(case, what, bad=None, dtype=None, ours=None, theirs=None, strict=False, reasons=None):
    """True, or the part of the mask `bad`, that the table explains. reasons: a list for why."""
    mask = np.zeros(np.shape(bad), bool)
    for entry in DIFFERENCES:
        if entry.what != what or strict and not entry.strict:
            continue
        if not fnmatch.fnmatch(case.name, entry.pattern):
            continue
        with np.errstate(all="ignore"):
            found = entry.where(case, dtype, ours, theirs) if entry.where else True
        found = bad & found if bad is not None else True
        if np.any(found & ~mask):
            entry.used += 1
            if reasons is not None:
                reasons.append(entry.reason)
        mask = mask | found
    return mask if bad is not None else bool(mask)
