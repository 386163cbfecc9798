"""A run: replay what was kept, generate, compute on both engines, judge, shrink, report."""

from __future__ import annotations

import dataclasses
import time

from . import generate, kept
from .operators import ROWS
from .process import Process, each
from .record import Recorded
from .report import Report
from .verdict import Verdict, compare

BATCH = 24
SHRINKS = 40  # examples that hypothesis may try while it shrinks one finding
FAILURES = ("differ", "crashed")


@dataclasses.dataclass
class Plan:
    engines: list[str]
    rows: list
    dtypes: list[str] | None = None  # None: each row's own
    count: int = 4
    each: int = 0  # most cases of an operator; 0: all
    share: tuple[int, int] = (1, 1)  # (k, n): every nth case from the kth on
    seed: int = 0
    shrink: bool = True
    kept: str = ""
    pythons: dict = dataclasses.field(default_factory=dict)
    timeout: float = 60.0
    seconds: float = 0.0  # no new cases after this long; 0: no limit
    progress: bool = False


def open_engine(name, plan):
    if name.startswith("recorded:"):
        return Recorded(name)
    return Process(name, plan.pythons.get(name.partition(":")[0]), plan.timeout)


def planned(plan, engines):
    """The cases of a plan."""
    counts = {}
    part, parts = plan.share
    for case in every(plan, engines):
        before = counts[case["op"]] = counts.get(case["op"], 0) + 1
        if plan.each and before > plan.each:
            continue
        counts[None] = counts.get(None, 0) + 1
        if counts[None] % parts == part - 1:
            yield case


def every(plan, engines):
    """The recorded cases where an engine has no others, else generated ones."""
    names = {row.name for row in plan.rows}
    for engine in engines:
        if isinstance(engine, Recorded):
            cases = [c for c in engine.cases if c["op"] in names]
            yield from (c for c in cases if not plan.dtypes or c["dtype"] in plan.dtypes)
            return
    for row in plan.rows:
        for dtype in row.dtypes:
            if not plan.dtypes or dtype in plan.dtypes:
                count = plan.count if all(known(row, e.name) for e in engines) else 1
                yield from generate.generate(row, dtype, count, plan.seed)


def known(row, engine):
    """Whether the table says how to call the row on the engine."""
    return getattr(row, engine) is not None if engine in ("torch", "numpy") else True


def batches(cases):
    """Lists of cases to compute together; what draws or assigns stays alone."""
    part = []
    for case in cases:
        if ROWS[case["op"]].alone:
            yield [case]
            continue
        part.append(case)
        if len(part) == BATCH:
            yield part
            part = []
    if part:
        yield part


class Judge:
    def __init__(self, plan, engines):
        self.plan, self.engines = plan, engines
        self.strict = any("+strict" in name for name in plan.engines)
        self.known = {}

    def verdicts(self, cases):
        able = [all(known(ROWS[c["op"]], e) for e in self.plan.engines) for c in cases]
        some = [c for c, a in zip(cases, able) if a]
        found = iter(self.computed(some) if some else [])
        nothing = Verdict("unsupported", text="the table has no function of one of the engines")
        found = [next(found) if a else nothing for a in able]
        self.known.update({generate.key(c): v for c, v in zip(cases, found)})
        return found

    def computed(self, cases):
        outcomes = each(self.engines, cases)
        return [
            compare(case, self.plan.engines, pair, self.strict)
            for case, *pair in zip(cases, *outcomes)
        ]

    def verdict(self, case):
        """That of one case, remembered."""
        code = generate.key(case)
        if code not in self.known:
            self.verdicts([case])
        return self.known[code]

    def fails(self, case):
        try:
            return self.verdict(case).kind in FAILURES
        except Exception:  # a shrunk case may be none: values out of range, say
            return False


def run(plan, say=print):
    """The report of a plan."""
    engines = [open_engine(name, plan) for name in plan.engines]
    start = time.time()
    try:
        for engine in engines:
            engine.start()
        report = Report(
            [{"name": e.name, "version": e.version} for e in engines],
            {"count": plan.count, "seed": plan.seed, "dtypes": plan.dtypes},
        )
        judge = Judge(plan, engines)
        replay(plan, judge, report)
        findings = compute(plan, judge, report, start, say)
        if plan.shrink:
            findings = [smaller(plan, judge, case) for case in findings]
        for case in findings:
            verdict = judge.verdict(case)
            report.fail(
                case,
                verdict,
                kept.save(plan.kept, case, plan.engines, verdict) if plan.kept else "",
            )
        report.seconds = time.time() - start
        return report
    finally:
        for engine in engines:
            engine.stop()


def replay(plan, judge, report):
    if not plan.kept:
        return
    names = {row.name for row in plan.rows}
    found = [(name, case) for name, case in kept.load(plan.kept) if case["op"] in names]
    for name, case in found:
        verdict = judge.verdict(case)
        report.kept.append({"file": name, "kind": verdict.kind, "text": verdict.text})


def compute(plan, judge, report, start, say):
    """Judges all cases; gives one failing case an operator, dtype and kind."""
    findings = {}
    for number, part in enumerate(batches(planned(plan, judge.engines))):
        if plan.seconds and time.time() - start > plan.seconds:
            say(f"stopped after {plan.seconds:.0f} s")
            break
        for case, verdict in zip(part, judge.verdicts(part)):
            report.add(ROWS[case["op"]].group, case, verdict)
            if verdict.kind in FAILURES:
                code = (case["op"], case["dtype"], bool(case.get("gradient")), verdict.kind)
                findings.setdefault(code, case)
        if plan.progress and number % 10 == 0:
            say(
                f"{report.cases()} cases, {part[-1]['op']}, {time.time() - start:.0f} s, "
                f"{len(findings)} findings"
            )
    return list(findings.values())


def smaller(plan, judge, case):
    """The case shrunk, where hypothesis is there to do it."""
    tries = 0

    def fails(candidate):
        nonlocal tries
        if bool(candidate.get("gradient")) != bool(case.get("gradient")):
            return False
        fresh = generate.key(candidate) not in judge.known
        tries += fresh
        return (not fresh or tries <= SHRINKS) and judge.fails(candidate)

    if not generate.available():
        found = generate.explore(ROWS[case["op"]], case["dtype"], plan.count, plan.seed, fails)
        case = found[0] if found else case
    tries = 0
    return generate.shrink(case, fails, SHRINKS)
