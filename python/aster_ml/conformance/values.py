"""Inputs of the cases: values by dtype, deterministic, with the corners of each dtype among them;
and the views through which a case may see them."""

import zlib

import numpy as np

# name: (bits of the mantissa, exponent of the least normal number, greatest, has infinities). fp8
# inputs leave out what tinygrad's emulation loses on the way in: infinities and the least numbers.
FLOATS = {
    "fp8e4m3": (3, -6, 448.0, False),
    "fp8e4m3fnuz": (3, -7, 240.0, False),
    "fp8e5m2": (2, -14, 57344.0, False),
    "fp8e5m2fnuz": (2, -15, 57344.0, False),
    "float16": (10, -14, 65504.0, True),
    "bfloat16": (7, -126, float(np.float32(3.3895314e38)), True),
    "float32": (23, -126, float(np.finfo(np.float32).max), True),
    "float64": (52, -1022, float(np.finfo(np.float64).max), True),
}
FP8 = [name for name in FLOATS if name.startswith("fp8")]
NARROW = [*FP8, "bfloat16"]  # NumPy has no such dtype: they travel as float32
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
ALL = ["bool", *INTS, *FLOATS]
VIEWS = ["plain", "permuted", "flipped", "strided", "shrunk", "expanded"]


def host_dtype(dtype):
    """The NumPy dtype that carries values of a dtype."""
    return np.dtype("float32" if dtype in NARROW else dtype)


def ulp(x, dtype):
    """The distance of neighbouring values of dtype at |x|, as float64 (longdouble for float64)."""
    mantissa, least, most, _ = FLOATS[dtype]
    x = np.abs(np.asarray(x, np.longdouble))
    x = np.where(np.isfinite(x), np.minimum(x, most), 1)
    exponent = np.frexp(np.where(x == 0, 1, x))[1] - 1
    exponent = np.where(x == 0, least, np.maximum(exponent, least))
    return np.ldexp(np.longdouble(1), exponent - mantissa)


def quantize(x, dtype):
    """x rounded to values of dtype; normal numbers only for those that tinygrad emulates."""
    mantissa, least, most, infinite = FLOATS[dtype]
    x = np.asarray(x, np.float64)
    finite = np.isfinite(x)
    y = np.clip(np.where(finite, x, 0), -most, most)
    unit = ulp(y, dtype).astype(np.float64)
    y = np.clip(np.rint(y / unit) * unit, -most, most)
    if dtype in NARROW:
        y = np.where(np.abs(y) < 2.0 ** (least + 1), 0, y)
    special = x if infinite else np.where(np.isnan(x), x, np.copysign(most, x))
    return np.where(finite, y, special)


def corners(dtype):
    """The values of a dtype where mistakes are likely."""
    if dtype == "bool":
        return [True, False]
    if dtype in INTS:
        info = np.iinfo(dtype)
        return [0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1, 7, 100]
    most, least = FLOATS[dtype][2], 2.0 ** FLOATS[dtype][1]
    tiny = least / 4
    if dtype in NARROW:
        least, tiny = 2 * least, 4 * least
    zero = [] if dtype.endswith("fnuz") else [-0.0]
    infinite = [np.inf, -np.inf] if FLOATS[dtype][3] else []
    return [0.0, *zero, 1.0, -1.0, 0.5, -1.5, 2.5, *infinite, np.nan, most, -most, least, tiny, 8.0]


def generator(name):
    return np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)


def permutations(rng, shape, high, axis):
    """Along the axis, distinct numbers below high."""
    rest = [n for k, n in enumerate(shape) if k != axis]
    rows = [rng.permutation(high)[: shape[axis]] for _ in range(int(np.prod(rest, dtype=np.int64)))]
    return np.moveaxis(np.array(rows).reshape(*rest, shape[axis]), -1, axis)


def draw(rng, dtype, shape, kind="all", low=0, high=0, axis=0):
    """An array of host_dtype. Kinds: all (corners first), plain (of moderate size, no corners),
    small (sums and products of them stay exact or moderate), positive, unit (in -1 to 1),
    probability (in 0 to 1), above_one, distinct (no ties), range (whole, low to high - 1),
    permutation (distinct places below high along an axis), attend (mostly true)."""
    count = int(np.prod(shape, dtype=np.int64))
    if kind == "range":
        return rng.randint(low, high, count).astype(host_dtype(dtype)).reshape(shape)
    if kind == "permutation":
        return permutations(rng, shape, high, axis).astype(host_dtype(dtype))
    if dtype == "bool":
        x = rng.randint(0, 2, count).astype(bool)
        if kind == "attend":
            x = x | (rng.randint(0, 2, count) > 0)
            x[:: max(1, shape[-1])] = True  # a row attends to something
    elif dtype in INTS:
        low, high = (0 if dtype in UNSIGNED else -9), 10
        if kind == "all":
            info = np.iinfo(dtype)
            low, high = max(-1000, info.min), min(1000, info.max)
        if kind == "positive":
            low = 1
        x = rng.randint(low, high, count).astype(dtype)
        if kind == "distinct":
            x = rng.permutation(np.arange(count) % 120).astype(dtype)
    else:
        x = rng.standard_normal(count) * {"all": 4.0, "plain": 2.0}.get(kind, 1.0)
        if kind == "positive":
            x = np.abs(x) + 0.25
        if kind == "unit":
            x = np.tanh(x) * 0.9
        if kind == "above_one":
            x = np.abs(x) + 1.25
        if kind == "probability":
            x = np.tanh(x) * 0.4 + 0.5
        if kind == "distinct":
            x = rng.permutation(np.arange(count)) * 0.5 - count / 5
        x = quantize(x, dtype).astype(host_dtype(dtype))
    if kind == "all" and count:
        special = corners(dtype)
        if count < len(special):
            special = [special[k] for k in rng.permutation(len(special))[:count]]
        x[rng.permutation(count)[: len(special)]] = special
    return x.reshape(shape)


def through(view, array):
    """(base, function of a tensor): the function makes a tensor of `array` from one of `base`, by
    movement only. An expanded view repeats the first row, so it gives back its array as well."""
    if view == "expanded" and array.ndim and array.shape[0] > 1:
        array = np.broadcast_to(array[:1], array.shape).copy()
        shape = array.shape
        return array, array[:1], lambda t: t.expand(shape)
    if view == "permuted" and array.ndim > 1:
        order = list(range(array.ndim))[::-1]
        return array, array.transpose(order), lambda t: t.permute(order)
    if view == "flipped" and array.ndim:
        axes = tuple(range(array.ndim))
        return array, np.flip(array), lambda t: t.flip(axes)
    if view == "strided" and array.ndim and array.size:
        base = np.repeat(array, 2, axis=-1)
        base[..., 1::2] = base[..., :1]
        return array, base, lambda t: t[(..., slice(None, None, 2))]
    if view == "shrunk" and array.ndim and array.size:
        base = np.pad(array, [(1, 2)] * array.ndim, mode="edge")
        bounds = tuple((1, 1 + n) for n in array.shape)
        return array, base, lambda t: t.shrink(bounds)
    return array, array, lambda t: t


def through_spec(spec):
    """What an input of a case stands for: (array, base, function of a tensor), see through()."""
    shape = tuple(spec["shape"])
    if "values" in spec:
        array = np.array(spec["values"], np.float64 if is_float(spec["dtype"]) else None)
        array = array.astype(host_dtype(spec["dtype"])).reshape(shape)
    else:
        more = {k: spec[k] for k in ("low", "high", "axis") if k in spec}
        rng = np.random.RandomState(spec["seed"] & 0x7FFFFFFF)
        array = draw(rng, spec["dtype"], shape, spec["kind"], **more)
    return through(spec.get("view", "plain"), array)


def is_float(dtype):
    return dtype in FLOATS
