"""What two outcomes of a case say about each other."""

from __future__ import annotations

import dataclasses

import numpy as np

from .differences import excused
from .operators import ROWS
from .values import FLOATS, is_float, through_spec, ulp

STRONG = {"weakfloat": "float32", "weakint": "int32"}
GRADIENT_FACTOR = 8  # gradients are sums and products of what the row's bound is for
SLOPES = 3e-4  # of the largest slope: what central differences are good for


@dataclasses.dataclass
class Verdict:
    kind: str  # agree, differ, deliberate, unsupported, crashed
    ulps: float = 0.0  # the largest distance, of those in float dtypes
    text: str = ""
    reason: str = ""  # of a deliberate difference


class Named:
    """A case as the table of differences sees it."""

    def __init__(self, case):
        suffix = "/gradient" if case.get("gradient") else ""
        self.name = f"{ROWS[case['op']].group}/{case['op']}/{case['dtype']}{suffix}"
        self.arguments = case["args"]
        self.gradient = case.get("gradient", False)
        self._case = case

    @property
    def inputs(self):
        return [Array(through_spec(s)[0]) for s in self._case["inputs"]]


@dataclasses.dataclass
class Array:
    array: np.ndarray


def compare(case, names, outcomes, strict=False):
    """The verdict on two outcomes. names: the engines'."""
    for name, outcome in zip(names, outcomes):
        if outcome.kind in ("crashed", "timeout"):
            return Verdict("crashed", text=f"{name}: {outcome.text}")
    for name, outcome in zip(names, outcomes):
        if outcome.kind == "unsupported":
            return Verdict("unsupported", text=f"{name}: {outcome.text}")
    named = Named(case)
    failed = [o.kind == "error" for o in outcomes]
    if all(failed):
        return Verdict("agree", text="both raise")
    if any(failed):
        which = failed.index(True)
        text = f"only {names[which]} raises {outcomes[which].text}"
        what = "raises" if names[which].startswith("aster") else "accepts"
        return excuse(named, what, text, strict)
    return results(case, named, names, *(o.results for o in outcomes), strict)


def excuse(named, what, text, strict):
    reasons = []
    if excused(named, what, strict=strict, reasons=reasons):
        return Verdict("deliberate", text=text, reason=reasons[0])
    return Verdict("differ", text=text)


def results(case, named, names, ours, theirs, strict):
    if len(ours) != len(theirs):
        return Verdict("differ", text=f"{len(ours)} results and {len(theirs)}")
    family = all(n.startswith(("aster", "tinygrad", "recorded")) for n in names)
    worst, reasons = 0.0, []
    for number, (one, two) in enumerate(zip(ours, theirs)):
        (dtype, a), (other, b) = one, two
        if a.shape != b.shape:
            return Verdict(
                "differ", text=f"result {number}: shape {list(a.shape)}, {list(b.shape)}"
            )
        if family and dtype != other:
            verdict = excuse(named, "dtype", f"result {number}: {dtype}, {other}", strict)
            if verdict.kind == "differ":
                return verdict
            reasons.append(verdict.reason)
            if is_float(STRONG.get(dtype, dtype)) != is_float(STRONG.get(other, other)):
                continue
        dtype = narrower(STRONG.get(dtype, dtype), STRONG.get(other, other))
        if dtype in ("", "slopes") and a.dtype.kind == "f":  # NumPy alone knows no dtype
            dtype = case["dtype"] if is_float(case["dtype"]) else "float64"
        distance, bad, text = distances(case, dtype, a, b, "slopes" in (one[0], two[0]))
        if np.any(bad):
            left = bad & ~excused(named, "values", bad, dtype, wide(a), wide(b), strict, reasons)
            if np.any(left):
                at = tuple(int(k) for k in np.argwhere(left)[0])
                text = (
                    f"result {number} at {list(at)}: {a[at]!r}, {b[at]!r} "
                    f"({int(left.sum())} of {left.size} differ{text})"
                )
                return Verdict("differ", float(np.max(distance[left], initial=0.0)), text)
            distance = np.where(bad, 0, distance)
        worst = max(worst, float(np.max(distance, initial=0.0)))
    if reasons:
        return Verdict("deliberate", worst, reason=reasons[0])
    return Verdict("agree", worst)


def narrower(a, b):
    """The float dtype with fewer bits: both are held to it. "" and "slopes" come from NumPy."""
    known = [d for d in (a, b) if is_float(d)]
    return min(known, key=lambda d: FLOATS[d][0]) if known else a or b


def wide(array):
    return array.astype(np.longdouble) if array.dtype.kind == "f" else array


def distances(case, dtype, a, b, slopes):
    """(distance of each element in ULP, mask of those too far, words about the bound)."""
    row = ROWS[case["op"]]
    if not is_float(dtype):
        bad = np.asarray(a != b)
        return np.where(bad, np.inf, 0.0), bad, ""
    a, b = np.asarray(wide(a), np.longdouble), np.asarray(wide(b), np.longdouble)
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        most = FLOATS[dtype][2]
        same |= (np.abs(a) >= most) & (np.abs(b) >= most) & (np.sign(a) == np.sign(b))
        gap = np.where(same, 0, np.abs(a - b))
        size = np.maximum(np.abs(a), np.abs(b))
        finite = size[np.isfinite(size)]
        largest = finite.max() if finite.size else 1.0
        gradient = case.get("gradient", False)
        if row.norm or gradient:
            size = np.full(size.shape, max(largest, input_size(case) if row.norm else 0))
        unit = ulp(size, dtype)
        factor = GRADIENT_FACTOR if gradient else 1
        bound = factor * (row.ulps * 1.001 * unit + row.slack * ulp(np.ones(()), dtype))
        if gradient:
            bound = np.maximum(bound, 4 * unit)
        if slopes:
            bound = np.maximum(bound, SLOPES * max(1.0, largest))
            gap = np.where(gap <= bound, 0, gap)  # says nothing about ULPs
        distance = np.where(same, 0, gap / unit)
        bad = ~same & ~(gap <= bound)
    distance = np.where(np.isfinite(distance), distance, np.inf).astype(np.float64)
    return distance, bad, f"; {np.max(distance, initial=0):.3g} ULP"


def input_size(case):
    """The largest magnitude among the float inputs: what a sum that cancels is good to."""
    most = 0.0
    for spec in case["inputs"]:
        array = through_spec(spec)[0]
        if array.dtype.kind == "f":
            finite = np.abs(array[np.isfinite(array)])
            most = max(most, float(finite.max()) if finite.size else 0.0)
    return most
