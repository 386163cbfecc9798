"""Runs the conformance cases on libaster_ml and judges the results.

  python -m conformance                       against the answers kept in answers/
  python -m conformance --live                against tinygrad, asked now, and torch if there is one
                                              (for this Python, or $ASTER_ML_TORCH_PYTHON)
  python -m conformance --mode NAME ...       only these of compiled, interpreted, narrow, strict
  python -m conformance --only PATTERN ...    only cases whose names match
  python -m conformance --list                the names of the cases

Run it from tests/. Each runtime runs in a process of
its own: a crash is a failure of the case that crashed, and the others go on.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tool  # noqa: E402, F401

BATCH = 48
MODES = {
    "compiled": {},
    "interpreted": {"compiler": "none"},
    "narrow": {"vector_bytes": 32},  # AVX2 on machines that have more
    "strict": {"strict_parity": 1},  # only what differs by tinygrad's fault is excused
}


def has_avx512():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return "avx512f" in file.read()
    except OSError:
        return False


def child(mode, live, batch):
    """Computes and judges the cases named on standard input; one JSON line a batch and a case."""
    import answers
    from cases import all_cases
    from compare import judge
    from aster_conformance.differences import DIFFERENCES
    from front import Aster, Tinygrad, compute, compute_all

    wanted = set(json.loads(sys.stdin.read()))
    cases = [c for c in all_cases() if c.name in wanted]
    front = Aster(**MODES[mode])
    oracle = Tinygrad() if live else None
    kept = {} if live else {g: answers.load(g) for g in {c.group for c in cases}}

    def say(**what):
        print(json.dumps(what), flush=True)

    def answer(case):
        if not case.ask:
            return None
        if live:
            return compute(oracle, case)
        code, results = kept[case.group].get(case.name, (None, None))
        if code != answers.fingerprint(case):
            raise LookupError("no answer for these inputs: run oracle.py")
        return results

    for start in range(0, len(cases), batch):
        part = cases[start : start + batch]
        say(batch=[c.name for c in part])
        alone = [c for c in part if c.group == "random"]
        together = [c for c in part if c.group != "random"]
        for some, size in ((together, batch), (alone, 1)):
            for case, ours in compute_all(front, some, size):
                try:
                    messages = judge(case, ours, answer(case), mode == "strict")
                except Exception as error:
                    messages = [f"cannot be judged: {error!r}"]
                say(case=case.name, messages=messages)
    say(used=[d.used for d in DIFFERENCES], counters=front.counters())


def run_child(mode, live, names, batch, report):
    """Runs a child on the names; those it did not get to are returned, its current batch first."""
    command = [sys.executable, "-W", "ignore", HERE, "--child", mode, "--batch", str(batch)]
    command += ["--live"] if live else []
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps(names))
    process.stdin.close()
    left, current = dict.fromkeys(names), []
    for line in process.stdout:
        said = json.loads(line)
        if "batch" in said:
            current = said["batch"]
        elif "case" in said:
            left.pop(said["case"], None)
            report["cases"] += 1
            if said["messages"]:
                report["failures"][said["case"]] = said["messages"]
        else:
            report["used"] = [a + b for a, b in zip(report["used"], said["used"])] or said["used"]
            report["counters"] = said["counters"]
    status = process.wait()
    if status == 0:
        return [], []
    current = [n for n in current if n in left]
    if not current:
        raise SystemExit(f"{mode}: the run ended with status {status} outside any case")
    return current, [n for n in left if n not in set(current)]


def run(mode, live, names):
    """All cases in one mode: a child at a time, after a crash one child a case of its batch."""
    report = {"cases": 0, "failures": {}, "used": [], "counters": {}}
    start = time.time()
    while names:
        suspects, names = run_child(mode, live, names, BATCH, report)
        for name in suspects:
            crashed, _ = run_child(mode, live, [name], 1, report)
            if crashed:
                report["cases"] += 1
                report["failures"][name] = ["crashed"]
    report["seconds"] = time.time() - start
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--mode", nargs="*", choices=[*MODES], default=None)
    parser.add_argument("--only", nargs="*", default=["*"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", choices=[*MODES], help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=BATCH, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        import numpy  # noqa: F401
    except ImportError:
        python = os.environ.get("ASTER_ML_PYTHON")  # that of the oracles, scripts/test.sh sets it
        if python and not os.environ.get("ASTER_ML_CONFORMANCE_AGAIN"):
            os.environ["ASTER_ML_CONFORMANCE_AGAIN"] = "1"
            os.execv(python, [python, "-W", "ignore", HERE, *sys.argv[1:]])
        print("SKIPPED: needs a Python with NumPy: set ASTER_ML_PYTHON to one")
        return 77
    if arguments.child:
        child(arguments.child, arguments.live, arguments.batch)
        return 0
    from cases import all_cases
    from aster_conformance.differences import DIFFERENCES

    names = [
        c.name
        for c in all_cases()
        if any(fnmatch.fnmatch(c.name, pattern) for pattern in arguments.only)
    ]
    if arguments.list:
        print("\n".join(names))
        return 0
    failed, used = 0, [0] * len(DIFFERENCES)
    for mode in arguments.mode or MODES:
        if mode == "narrow" and not has_avx512() and not arguments.mode:
            continue
        # The narrow run repeats a part, the strict run what front ends compose.
        some = names
        if mode == "narrow":
            some = [n for k, n in enumerate(names) if k % 4 == 0 or n.startswith("large")]
        elif mode == "strict":
            some = [n for n in names if n.startswith(("unary", "binary", "gradient"))]
            some = [n for n in some if not n.endswith("/undefined")]
        report = run(mode, arguments.live, some)
        for name, messages in report["failures"].items():
            for message in messages:
                print(f"{mode}: {name}: {message}")
        failed += len(report["failures"])
        used = [a + b for a, b in zip(used, report["used"] or used)]
        print(
            f"{mode}: {report['cases']} cases, {len(report['failures'])} failed, "
            f"{report['seconds']:.1f} s, {report['counters'].get('kernels_compiled', 0)} kernels "
            "compiled",
            flush=True,
        )
    if arguments.only == ["*"] and not arguments.mode:
        for entry, count in zip(DIFFERENCES, used):
            # Those that name none of these cases serve the generated ones.
            if not count and fnmatch.filter(names, entry.pattern):
                failed += 1
                print(
                    f"no case needs the difference any more: {entry.pattern} {entry.what}: "
                    f"{entry.reason}"
                )
    if arguments.live:
        python = os.environ.get("ASTER_ML_TORCH_PYTHON", sys.executable)
        witness = [python, "-W", "ignore", os.path.join(HERE, "torch_witness.py")]
        failed += subprocess.run(witness, check=False).returncode not in (0, 77)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
