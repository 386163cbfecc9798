"""Judges results: against tinygrad's answer, and against the reference on NumPy arrays."""

import numpy as np
from aster_conformance.differences import excused
from aster_conformance.values import FLOATS, host_dtype, ulp

STRONG = {"weakfloat": "float32", "weakint": "int32"}  # how weak dtypes are read
GRADIENT_ULPS = {"float16": 8, "bfloat16": 8}  # of the largest element
GRADIENT_ULPS_ELSE = 64


# Statuses that the package may find before the library does, as these exceptions.
ALIASES = {
    "SHAPE": ("ValueError", "IndexError", "RuntimeError", "AssertionError"),
    "DTYPE": ("TypeError", "ValueError", "RuntimeError"),
    "RANGE": ("IndexError", "ValueError", "RuntimeError", "AssertionError"),
}


def show(value):
    return value if isinstance(value, str) else ", ".join(f"{d}{list(a.shape)}" for d, a in value)


def first(bad, ours, wanted, allowed=None):
    """Where the first wrong element is, and how wrong."""
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    text = f"at {list(at)} ours {ours[at]!r}, wanted {wanted[at]!r}"
    if allowed is not None:
        text += f", allowed {float(np.broadcast_to(allowed, bad.shape)[at]):.3g}"
    return f"{text} ({int(bad.sum())} of {bad.size} wrong)"


def wrong(ours, wanted, allowed):
    """Elements further apart than allowed; equal infinities and NaN in both are fine."""
    same = (ours == wanted) | ((ours != ours) & (wanted != wanted))
    with np.errstate(all="ignore"):
        return ~same & ~(np.abs(ours - wanted) <= allowed)


def largest(array):
    finite = np.abs(array[np.isfinite(array)]) if array.size else array
    return finite.max() if finite.size else 1.0


def allowance(case, dtype, wanted, ulps, slack):
    """How far an element may lie from what is wanted, absolutely."""
    if dtype not in FLOATS:
        return 0
    size = np.abs(wanted)
    if case.gradient:
        size, ulps = largest(wanted), GRADIENT_ULPS.get(dtype, GRADIENT_ULPS_ELSE)
    elif case.scale:
        size = np.maximum(size, case.scale(*[i.array for i in case.inputs]))
    return ulps * ulp(size, dtype) + slack * ulp(np.ones(()), dtype)


def against_answer(case, ours, answer, strict=False):
    """Messages about results that differ from tinygrad's without being excused."""
    if isinstance(ours, str) or isinstance(answer, str):
        if isinstance(ours, str) and isinstance(answer, str):
            return []
        kind = "raises" if isinstance(ours, str) else "accepts"
        if excused(case, kind, strict=strict):
            return []
        return [f"ours {show(ours)}, tinygrad {show(answer)}"]
    messages = []
    for (dtype, array), (their_dtype, theirs) in zip(ours, answer):
        if dtype != their_dtype:
            if not excused(case, "dtype", strict=strict):
                messages.append(f"dtype {dtype}, tinygrad's {their_dtype}")
            continue
        if array.shape != theirs.shape:
            messages.append(f"shape {list(array.shape)}, tinygrad's {list(theirs.shape)}")
            continue
        dtype = STRONG.get(dtype, dtype)
        if dtype in FLOATS:
            array, theirs = array.astype(np.longdouble), theirs.astype(np.longdouble)
            with np.errstate(all="ignore"):
                allowed = allowance(case, dtype, theirs, case.parity, case.slack)
            bad = wrong(array, theirs, allowed)
        else:
            allowed, bad = 0, array != theirs
        if bad.any():
            bad = bad & ~excused(case, "values", bad, dtype, array, theirs, strict)
        if bad.any():
            messages.append("tinygrad: " + first(bad, array, theirs, allowed))
    return messages


def against_reference(case, ours):
    """Messages about results that differ from the reference."""
    if case.reference is None or isinstance(ours, str):
        return []
    with np.errstate(all="ignore"):
        arrays = [i.array for i in case.inputs]
        if case.gradient:
            return [m for k, r in enumerate(ours) for m in against_slopes(case, arrays, k, *r)]
        wanted = case.reference(*arrays)
        if wanted is None:
            return []
        ((dtype, array),) = ours
        dtype = STRONG.get(dtype, dtype)
        wanted = np.asarray(wanted)
        if dtype not in FLOATS:
            bad = array != wanted
            return ["reference: " + first(bad, array, wanted)] if np.any(bad) else []
        wide = array.astype(np.longdouble)
        wanted = np.broadcast_to(wanted, array.shape).astype(np.longdouble)
        most = FLOATS[dtype][2]
        over = np.abs(wanted) > most
        allowed = allowance(case, dtype, wanted, case.ulps * 1.001, case.slack)
        bad = wrong(wide, wanted, allowed)
        bad &= ~(
            over
            & (np.isinf(wide) | np.isnan(wide) | (np.abs(wide) >= most))
            & (np.isnan(wide) | (np.sign(wide) == np.sign(wanted)))
        )
        if bad.any():
            bad &= ~excused(case, "reference", bad, dtype, wide, wanted)
    return ["reference: " + first(bad, wide, wanted, allowed)] if bad.any() else []


def against_slopes(case, arrays, which, dtype, gradient):
    """Central differences of the reference, where the operand is exact enough for them."""
    if dtype not in ("float32", "float64") or arrays[which].size > 64:
        return []
    x = arrays[which].astype(np.longdouble)
    rest = [a.astype(np.float64) for a in arrays]
    base = case.reference(*rest)
    if base is None:
        return []
    seed = case.seed(np.shape(base)).astype(np.longdouble)
    slopes = np.empty(x.shape, np.longdouble)
    step = 1e-5
    for at in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            rest[which] = moved.astype(np.float64)
            ends.append(np.sum(np.asarray(case.reference(*rest), np.longdouble) * seed))
        slopes[at] = (ends[0] - ends[1]) / (2 * step)
    bad = wrong(gradient.astype(np.longdouble), slopes, 1e-4 * max(1, largest(slopes)))
    if bad.any():
        bad &= ~excused(case, "slopes", bad, dtype, gradient, slopes)
    return [f"slopes of operand {which}: " + first(bad, gradient, slopes)] if bad.any() else []


def judge(case, ours, answer, strict=False):
    """Everything that is wrong with our results of a case. answer None: nobody was asked; strict:
    tinygrad is right, not the reference."""
    for name, array in ours if not isinstance(ours, str) else ():
        if array.dtype != host_dtype(STRONG.get(name, name)):
            return [f"binding gives {array.dtype} for {name}"]
    if case.status and ours != case.status and ours not in ALIASES.get(case.status, ()):
        return [f"ours {show(ours)}, promised {case.status}"]
    messages = against_answer(case, ours, answer, strict) if answer is not None else []
    if answer is None and isinstance(ours, str) and not excused(case, "raises"):
        messages.append(f"ours {ours}")
    return messages if strict else messages + against_reference(case, ours)
