"""Cases from the rows: by hypothesis, with the failing ones shrunk; or by a plain generator."""

from __future__ import annotations

import json
import random
import zlib

import numpy as np

from .operators import ROWS
from .values import through_spec


def key(case):
    return json.dumps(case, sort_keys=True)


def code(*parts):
    return zlib.crc32("/".join(map(str, parts)).encode())


def available():
    """Why hypothesis cannot be used; empty if it can."""
    try:
        import hypothesis  # noqa: F401
    except ImportError:
        return (
            "hypothesis is not installed: pip install 'aster_ml[conformance]'. "
            "Cases come from a plain generator and are not shrunk."
        )
    return ""


def plainly(row, dtype, count, seed):
    """Cases from Python's generator."""
    source = random.Random(code(row.name, dtype, seed))
    found = {}
    for _ in range(4 * count):
        case = row.arguments(source.randint, dtype)
        found.setdefault(key(case), case)
        if len(found) == count:
            break
    return list(found.values())


def explore(row, dtype, count, seed, judge=None):
    """Cases from hypothesis: those it generates (judge None), or the shrunk one for which
    judge(case) is true. Equal seeds give equal cases."""
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings, strategies
    from hypothesis import seed as with_seed

    found: dict[str, dict] = {}
    failing: list[dict] = []

    @with_seed(code(row.name, dtype, seed))
    @settings(
        max_examples=count + 1,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if judge else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(strategies.data())
    def one(data):
        case = row.arguments(lambda low, high: data.draw(strategies.integers(low, high)), dtype)
        found[key(case)] = case
        if judge and judge(case):
            failing.append(case)
            raise AssertionError(row.name)

    try:
        one()
    except AssertionError:
        return [failing[-1]] if failing else []
    return [] if judge else list(found.values())[-count:]  # hypothesis begins with the least one


def generate(row, dtype, count, seed):
    if available():
        return plainly(row, dtype, count, seed)
    return explore(row, dtype, count, seed)


def shrink(case, fails, budget=60):
    """A simpler case that fails as well: fewer, then rounder values. The shapes and arguments were
    shrunk before. fails(case) -> bool."""
    tries = 0

    def attempt(change):
        nonlocal case, tries
        candidate = json.loads(json.dumps(case))
        if tries >= budget or change(candidate) is False or key(candidate) == key(case):
            return False
        tries += 1
        if fails(candidate):
            case = candidate
            return True
        return False

    for k, spec in enumerate(case["inputs"]):
        if "view" in spec:
            attempt(lambda c: c["inputs"][k].pop("view"))
        array = through_spec(case["inputs"][k])[0]
        if array.size > 64 or spec["kind"] in ("permutation",):
            continue
        values = [v.item() for v in np.ravel(array)]
        names = {n: spec[n] for n in ("dtype", "shape", "view") if n in case["inputs"][k]}
        if not attempt(lambda c: c["inputs"].__setitem__(k, {**names, "values": values})):
            continue
        for at, value in enumerate(values):
            zero = type(value)(0)
            for simple in (
                zero,
                type(value)(1),
                type(value)(round(value)) if abs(value) < 1e6 else zero,
            ):
                if case["inputs"][k]["values"][at] == simple:
                    break
                if attempt(lambda c: c["inputs"][k]["values"].__setitem__(at, simple)):
                    break
    return case


def rows(patterns):
    """The rows whose name, or group and name, match a pattern."""
    import fnmatch

    return [
        row
        for row in ROWS.values()
        if any(
            fnmatch.fnmatch(row.name, p) or fnmatch.fnmatch(f"{row.group}/{row.name}", p)
            for p in patterns
        )
    ]
