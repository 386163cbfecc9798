"""The package is typed: mypy finds nothing in it, and sees through it from outside."""

import os
import pathlib
import subprocess
import sys

import pytest

import aster_ml

pytest.importorskip("mypy")
FLAGS = "--strict --no-warn-return-any --no-warn-unused-ignores --python-version 3.11".split()
USE = """
from aster_ml import Tensor, TinyJit, dtypes, nn
x: Tensor = Tensor([[1.0]], dtype=dtypes.float32).relu().reshape(1, -1) + 1
shape: tuple[int, ...] = x.shape
y: Tensor = nn.Linear(1, 2)(x)
pair: tuple[Tensor, Tensor] = x.sort()
name: str = x.no_such_method()
"""


def mypy(folder, *arguments):
    root = pathlib.Path(aster_ml.__file__).parent.parent
    environment = {**os.environ, "MYPYPATH": str(root)}
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder), *FLAGS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


def test_the_package(tmp_path):
    made = mypy(tmp_path, "-p", "aster_ml", "--exclude", "conformance")
    ours = [
        line
        for line in made.stdout.splitlines()
        if ": error:" in line and "conformance" not in line
    ]
    assert not ours, "\n".join(ours[:20])


def test_a_user(tmp_path):
    (tmp_path / "use.py").write_text(USE)
    made = mypy(tmp_path, "--follow-imports", "silent", "use.py")
    errors = [line for line in made.stdout.splitlines() if "use.py" in line]
    assert len(errors) == 1 and "no_such_method" in errors[0], made.stdout
