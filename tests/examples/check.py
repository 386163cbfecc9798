#!/usr/bin/env python3
"""Runs an example and checks what it prints, and that wrong arguments give its usage and status 2.

check.py EXAMPLES PROGRAM            a program in C
check.py EXAMPLES FILE.py [ENGINE]   one in Python (ASTER_ML_PYTHON, or this one), importing ENGINE
                                     instead of aster_ml; 77 where that is not installed

Those of models (models.py) get files that are made for them, and what they print is held against
others; 77 where numpy or onnx is not installed.
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile

# name: arguments, those with a slash being files of EXAMPLES; what the output holds.
EXAMPLES = {
    "linear_regression": ([], r"100, loss 0\.01\d*\nweights 2\.0\d -[23]\.\d\d 0\.\d\d,? bias"),
    "digits": (["data/digits.bin", "6"], r"9[89]\.\d\d %.*read back, gives the same"),
    "char_transformer": (["data/gpl-3.txt", "40"], r"GNU GENERAL .*differ by \d\.\de-0[5-9]"),
    "load_safetensors": ([], r"output\.bias.*0 xor 1 = 1\n1 xor 0 = 1\n1 xor 1 = 0\n"),
    "custom_gradient": ([], r"weights 3 -2 0 1\n"),
    "zero_copy": ([], r""),
    "freeze": ([], r"input x: float32\[2, 8\]\noutput y: .*the same bits"),
}


def run(command, folder):
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    sys.stdout.write(result.stdout + result.stderr)
    return result


def missing(python, program, engine):
    """What the Python that runs an example lacks."""
    needed = "numpy" if engine == "aster_ml" else f"numpy, {engine}"
    if not program.endswith(".py") or not run([python, "-c", f"import {needed}"], None).returncode:
        return None
    return needed


def cases_of(name, folder, examples):
    """Arguments, and what says what is wrong with the output."""
    if name in EXAMPLES:
        arguments, expected = EXAMPLES[name]
        arguments = [os.path.join(examples, a) if "/" in a else a for a in arguments]
        found = re.compile(expected, re.DOTALL).search
        return [(arguments, lambda output: None if found(output) else "not the expected output")]
    import models

    return models.CASES[name](folder, os.path.join(examples, "data"))


def main(examples, program, engine="aster_ml"):
    name = os.path.splitext(os.path.basename(program))[0]
    python = os.environ.get("ASTER_ML_PYTHON") or sys.executable
    needed = missing(python, program, engine)
    if name not in EXAMPLES and not all(map(importlib.util.find_spec, ("numpy", "onnx"))):
        if python != sys.executable:
            os.execv(python, [python, *sys.argv])
        needed = "numpy, onnx"
    if needed:
        print(f"SKIPPED: needs a Python with {needed}: set ASTER_ML_PYTHON to one")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        command = [program]
        if program.endswith(".py"):
            with open(program, encoding="utf-8") as file:
                text = file.read()
            program = os.path.join(folder, f"{name}.py")
            with open(program, "w", encoding="utf-8") as file:
                file.write(re.sub(r"(?m)^from aster_ml\b", f"from {engine}", text))
            command = [python, program]
        for arguments, check in cases_of(name, folder, examples):
            result = run(command + arguments, folder)
            wrong = f"status {result.returncode}" if result.returncode else check(result.stdout)
            if wrong:
                return f"{name} {arguments}: {wrong}"
        result = run([*command, "a", "b", "c", "d", "e", "f"], folder)
        if result.returncode != 2 or not result.stderr.startswith(f"usage: {name}"):
            return f"{name}: status {result.returncode} for wrong arguments, or no usage"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
