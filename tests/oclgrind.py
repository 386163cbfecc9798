#!/usr/bin/env python3
"""Kernels under oclgrind, which runs OpenCL C one instruction at a time and tells of every access
outside of its memory and of races: random graphs and captured programs (FuzzOpencl.*), and kernels
from source and from programs, one of which writes where it should not.

  tests/oclgrind.py TEST_FUZZ TEST_KERNELS     77 where oclgrind is not installed (Debian: oclgrind)
"""

import os
import shutil
import subprocess
import sys
import tempfile

CASES = "60"
WRONG = "__kernel void k(__global float *p) { p[get_global_id(0) + 1] = 1; }\n"
RUN = "wrong.cl\nk\n4 1 1\n1 1 1\n<size=16 fill=0>\n"


def tells(folder):
    """Whether it tells of a kernel that writes behind its memory."""
    for name, text in (("wrong.cl", WRONG), ("wrong.sim", RUN)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    said = subprocess.run(["oclgrind-kernel", "wrong.sim"], cwd=folder, capture_output=True,
                          text=True, check=False)
    return "Invalid write of size 4" in said.stdout + said.stderr


def check_kernels(program, environment, log):
    """What is wrong with kernels that are given in OpenCL C and as programs; None: nothing."""
    for words, wrong in ([], False), (["outside"], True):
        ran = subprocess.run([program, *words], env=environment, capture_output=True, text=True,
                             check=False)
        if ran.returncode != 0:
            return f"{program} {words}: {ran.stderr[:2000]}"
        said = ""
        if os.path.exists(log):
            with open(log, encoding="utf-8") as file:
                said = file.read()
        if wrong != ("Invalid write of size 4 at global memory" in said):
            return f"of {words} oclgrind says:\n{said[:2000]}"
    return None


def main(program, kernels):
    found = shutil.which("oclgrind")
    if found is None:
        print("SKIPPED: oclgrind is not installed")
        return 77
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(found)))
    with tempfile.TemporaryDirectory() as folder:
        if not tells(folder):
            return "oclgrind does not tell of a kernel that writes behind its memory"
        log = os.path.join(folder, "log")
        environment = {
            **os.environ,
            "ASTER_ML_OPENCL_LIBRARY": os.path.join(prefix, "lib", "oclgrind", "liboclgrind-rt.so"),
            "ASTER_ML_CACHE_DIR": os.path.join(folder, "cache"),
            "OCLGRIND_LOG": log, "OCLGRIND_DATA_RACES": "1", "OCLGRIND_CHECK_API": "1",
            # Its optimiser makes what it cannot run.
            "OCLGRIND_UNIFORM_WRITES": "1", "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
            "ASTER_ML_FUZZ_ENGINE_CASES": CASES, "ASTER_ML_FUZZ_PROGRAM_CASES": CASES,
        }
        for kind in ("cpu", "gpu"):
            ran = subprocess.run([program, "--gtest_filter=FuzzOpencl.*"],
                                 env={**environment, "ASTER_ML_OPENCL_AS": kind},
                                 capture_output=True, text=True, check=False)
            print(ran.stdout[-1500:])
            if ran.returncode != 0 or "[  PASSED  ] 4 tests" not in ran.stdout:
                return f"the cases do not pass, planned for a {kind}"
            with open(log, encoding="utf-8") as file:
                said = file.read()
            if said:
                return f"planned for a {kind}, oclgrind says:\n{said[:3000]}"
        return check_kernels(kernels, environment, log) or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
