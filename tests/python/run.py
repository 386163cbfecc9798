#!/usr/bin/env python3
"""Runs something with the oracles' Python, ASTER_ML_PYTHON, or this one; 77 where it lacks pytest.

python run.py pytest FILE...     the tests of these files
python run.py PROGRAM ARGUMENTS  a program
"""

import importlib.util
import os
import subprocess
import sys


def main(arguments):
    python = os.environ.get("ASTER_ML_PYTHON")
    if python and not os.environ.get("ASTER_ML_PYTHON_AGAIN"):
        os.environ["ASTER_ML_PYTHON_AGAIN"] = "1"
        os.execv(python, [python, __file__, *arguments])
    missing = [m for m in ("pytest", "numpy") if importlib.util.find_spec(m) is None]
    if missing:
        print(f"SKIPPED: needs a Python with {', '.join(missing)}: set ASTER_ML_PYTHON to one")
        return 77
    if arguments[0] == "pytest":
        options = ["-q", "-p", "no:cacheprovider", "-o", "python_files=*_test.py"]
        arguments = ["-m", "pytest", *options, *arguments[1:]]
    # Where a driver of OpenCL is installed, tinygrad would compute on that.
    os.environ.setdefault("DEV", "CPU")
    result = subprocess.run([sys.executable, *arguments], check=False)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
