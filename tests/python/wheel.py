#!/usr/bin/env python3
"""Builds a wheel around a built library, installs it into a fresh environment, and uses it there.

python wheel.py SOURCE LIBRARY
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import zipfile

PROGRAM = """
import array, sys
from aster_ml import _native
x = _native.from_buffer(array.array("f", [1, 2, 3]))
assert memoryview(_native.lazy_mul(x, 2)).tolist() == [2, 4, 6]
assert "site-packages" in _native.__file__, _native.__file__
maps = open("/proc/self/maps").read()
paths = {line.split()[-1] for line in maps.splitlines() if "libaster_ml" in line}
assert paths and all("site-packages" in path for path in paths), paths
print(_native.version(), "works")
"""


def run(*command, **options):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, **options)


def check_contents(wheel):
    """The wheel holds what it should and nothing of C; its tags are those of the stable ABI."""
    assert "-cp311-abi3-" in os.path.basename(wheel), wheel
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    wanted = ["__init__.py", "_native.abi3.so", "_native.pyi", "libaster_ml.so.0", "py.typed"]
    for name in wanted:
        assert f"aster_ml/{name}" in names, f"{name} is not in {names}"
    strange = [n for n in names if not n.startswith(("aster_ml/", "aster_ml-"))]
    strange += [n for n in names if n.endswith((".h", ".hpp", ".a", ".cpp", ".cmake"))]
    assert not strange, strange


def read_me(source):
    """The Python example of README.md."""
    with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
        return re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)


def main(source, library):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CMAKE_ARGS")}
    with tempfile.TemporaryDirectory() as work:
        run(
            *[sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check"],
            *["--no-deps", "--no-build-isolation", "--wheel-dir", work],
            *["--config-settings", f"build-dir={work}/build"],
            *["--config-settings", f"cmake.define.ASTER_ML_LIBRARY={os.path.realpath(library)}"],
            source,
            env=environment,
        )
        (wheel,) = glob.glob(os.path.join(work, "*.whl"))
        check_contents(wheel)
        fresh = os.path.join(work, "fresh")
        run(sys.executable, "-m", "venv", fresh)
        python = os.path.join(fresh, "bin", "python")
        run(
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-index",
            wheel,
        )
        for program in (PROGRAM, read_me(source)):
            run(python, "-I", "-c", program, cwd=work, env=environment)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
