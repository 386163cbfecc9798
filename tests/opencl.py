#!/usr/bin/env python3
"""What runs on the CPU, with DEV=OPENCL: all of it, on demand.

  tests/opencl.py [--build build/release] [--page docs/OPENCL.md] [PART ...]
  tests/opencl.py --few programs      its fixed part, for ctest; 77 where no device is installed

Parts: conformance (all recorded cases), programs (tests/programs), fuzz (100 random graphs of
each kind, 100 captured programs), digits, char_transformer (the examples). Without any: all.
--page writes the table between the marks of the page. python: $ASTER_ML_PYTHON, else this one.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SKIPPED = 77
MARKS = ("<!-- results of tests/opencl.py -->", "<!-- end of results -->")

# Tests of tests/programs that say nothing of a device, by reason.
NOT_THERE = {
    "memory of the host is given to a program or read in place": """
        AliasingPrograms.FedTheirOwnResults AliasingPrograms.AssignedInputsAndState
        AliasingPrograms.DescriptorsAreChecked AliasingPrograms.StorageThatOnlyAProgramNames
        Capture.ReplaysOnOtherInputs Capture.TheSameGivenAgain Capture.WorkspacesRunAtOnce
        Flat.CapturedSteps
        Capture.WhatAStepAssignsToAnInputGoesIntoTheGivenMemory Capture.ConstantsMayBeCopied
        Runtimes/KeptPrograms.MemoryThatWasLent/* Runtimes/ProgramArrays.NamesShapesAndDtypes*""",
    "what was submitted is not stopped in its middle": """
        Stop.InTheMiddleOfAnAssignment Stop.ProgramsStop
        Stop/Threads.ACallbackStopsAndAllIsAsBefore/*""",
    "the interpreter, a compiler of C or its cache is what is tested": """
        Stop.TheInterpreterStops Stop.CompilersThatFailAreStoodInFor Stop.NoCompiler
        Stop.AKernelThatTheCompilerRefusesIsInterpreted Stop.ProgramsReplayInterpretedKernels
        Stop.InterpretedKernelsGiveTheBitsOfMachineCode
        Stop.ACompilerThatHangsIsStopped Stop.ProblemsOfTheCacheAreSaid
        Trace.TheInterpreterIsOneLaunch""",
}
# Those that take minutes on a driver's compiler; --few leaves them out.
LONG = "Depth.* Soak.* Products.* Products/* Convolutions.* Programs/KernelCounts.*".split()
# Two thirds of what the others took, a dozen tests of hundreds of kernels each; their neighbours
# of the same suites stay.
LONG += """Runs/Sticky.ConvertsToAndFromEveryDType/* Runs/Sticky.SumsAreExactAndCheckedOnce/*
    Runs/Sticky.ProductsOfAxes/* Runs/Sticky.ProductsOfConstantsAndViews/*
    Runs/Sticky.FloatsAreComparedWithTheBoundsBeforeTheyAreTruncated/*
    Runs/Sticky.OperationsOnOneOperand/* Runs/Sticky.PrefixesAfterTheFirstErrorAreErrors/*
    Runs/StickyLu.NumbersAreMinors/* Runs/Wide.MovementMovesWholeElements/*
    StickyFusion.* StickyThreads.*
    Windows.RowsOfLessThanAVector Windows.PoolsAndTheirGradients
    Windows.ResultsBetweenEachOther""".split()


class Row:
    def __init__(self, good, cases, agree, rest=""):
        self.good, self.cases, self.agree, self.rest = good, cases, agree, rest


def run(command, more=None, **options):
    environment = {**os.environ, "DEV": "OPENCL", **(more or {})}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                          **options)


class Suite:
    def __init__(self, build, few):
        self.build, self.few = os.path.abspath(build), few
        self.python = os.environ.get("ASTER_ML_PYTHON") or sys.executable
        self.package = {"PYTHONPATH": os.path.join(self.build, "python")}

    def has_device(self):
        found = run([os.path.join(self.build, "bin", "aster"), "info"])
        return "OPENCL" in found.stdout

    def tests(self, name, pattern, more):
        """A program of GoogleTest."""
        said = run([os.path.join(self.build, "bin", name), "--gtest_filter=" + pattern],
                   {"ASTER_ML_TEST_DATA": HERE, **more}).stdout
        passed = re.search(r"\[  PASSED  \] (\d+) test", said)
        ran = re.search(r"\[==========\] (\d+) tests? from .* ran", said)
        failed = sorted(set(re.findall(r"\[  FAILED  \] (\S+\.\S+?),? ", said + " ")))
        if ran is None:
            failed.append("it ended early: " + said[-300:])
        if failed:
            print(said[-3000:])
        return Row(not failed, int(ran[1]) if ran else 0, int(passed[1]) if passed else 0,
                   ", ".join(failed))

    def programs(self):
        left_out = [n for reason in NOT_THERE.values() for n in reason.split()]
        names = left_out + LONG if self.few else left_out
        row = self.tests("test_programs", "-" + ":".join(names), {"ASTER_TEST_DEVICE": "OPENCL"})
        row.rest = row.rest or f"{len(left_out)} left out, see below"
        return row

    def fuzz(self):
        number = {} if self.few else {"ASTER_ML_FUZZ_ENGINE_CASES": "100",
                                      "ASTER_ML_FUZZ_PROGRAM_CASES": "100"}
        row = self.tests("test_fuzz", "FuzzOpencl.*", number)
        if row.good:
            row.cases = row.agree = 36 if self.few else 300
        return row

    def conformance(self):
        """Two halves side by side, each on the cases that tinygrad's answers were recorded of."""
        answers = os.path.join(HERE, "conformance", "answers", "generated.npz")
        with tempfile.TemporaryDirectory() as folder:
            pages = [os.path.join(folder, f"{k}.json") for k in (1, 2)]
            halves = [
                subprocess.Popen(
                    [self.python, "-W", "ignore", "-m", "aster_ml.conformance", "aster:opencl",
                     "recorded:" + answers, "--no-shrink", "--kept", "none", "--timeout", "900",
                     "--share", f"{k}/2", "--page", page, *(["--each", "1"] if self.few else [])],
                    env={**os.environ, **self.package}, stdout=subprocess.DEVNULL)
                for k, page in zip((1, 2), pages)
            ]
            codes = [half.wait() for half in halves]
            found = []
            for page in pages:
                with open(page, encoding="utf-8") as file:
                    found.append(json.load(file))
        return conformance_row(codes, found)

    def example(self, name, *arguments, lines=""):
        """The same lines (those that begin so) as on the CPU, but for times and last digits."""
        said = {}
        for device in ("CPU", "OPENCL"):
            with tempfile.TemporaryDirectory() as folder:
                one = run([self.python, os.path.join(ROOT, "examples", name + ".py"), *arguments],
                          {**self.package, "DEV": device}, cwd=folder)
                said[device] = one
        ours = said["OPENCL"]
        same = numbers(ours.stdout, lines) == numbers(said["CPU"].stdout, lines)
        good = ours.returncode == 0 and same
        return Row(good, 1, int(good), "" if good else (ours.stdout + ours.stderr)[-400:])

    def digits(self):
        return self.example("digits", os.path.join(ROOT, "examples", "data", "digits.bin"))

    def char_transformer(self):
        text = os.path.join(ROOT, "examples", "data", "gpl-3.txt")
        # One letter that is drawn otherwise, by a last digit, changes all that follow.
        return self.example("char_transformer", text, "100", lines="step ")


def numbers(text, lines):
    """What lines say that begin so: words as they are, numbers rounded, times left out."""
    text = "\n".join(line for line in text.splitlines() if line.startswith(lines))
    text = re.sub(r"[\d.]+ ?m?s\b", "", text)
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda m: f"{float(m[0]):.1g}", text)


def conformance_row(codes, found):
    total = {}
    for page in found:
        for kind, count in page["totals"].items():
            total[kind] = total.get(kind, 0) + count
    rest = [f"{total[k]} {k}" for k in sorted(total) if k != "agree" and total[k]]
    rest += sorted({f"{n}: {t}" for page in found for n, t in page["unsupported"].items()})
    return Row(not any(codes), sum(total.values()), total.get("agree", 0), ", ".join(rest))


def table(rows):
    lines = ["| part | cases | agree | besides | seconds |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {row.cases} | {row.agree} | {row.rest} | {seconds:.0f} |"
              for name, row, seconds in rows]
    lines += ["", "Tests of `tests/programs` that are left out:", ""]
    lines += [f"* {reason}: " + ", ".join(f"`{n}`" for n in names.split())
              for reason, names in NOT_THERE.items()]
    return "\n".join(lines)


def write(path, text):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    begin, end = (page.index(mark) for mark in MARKS)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page[: begin + len(MARKS[0])] + "\n" + text + "\n" + page[end:])


PARTS = ("conformance", "programs", "fuzz", "digits", "char_transformer")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--page")
    options = parser.parse_args()
    if any(p not in PARTS for p in options.parts):
        parser.error("parts are " + ", ".join(PARTS))
    suite = Suite(options.build, options.few)
    if not suite.has_device():
        print("SKIPPED: no OpenCL device is installed")
        return SKIPPED
    rows = []
    for part in options.parts or PARTS:
        start = time.time()
        row = getattr(suite, part)()
        rows.append((part, row, time.time() - start))
        print(f"{part}: {row.agree} of {row.cases} agree, {rows[-1][2]:.0f} s {row.rest}",
              flush=True)
    if options.page:
        write(options.page, table(rows))
    return 0 if all(row.good for _, row, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
