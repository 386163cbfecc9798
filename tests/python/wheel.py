#!/usr/bin/env python3
"""From the sources to a stranger's environment: an sdist, a wheel of what is in it around a built
library, tagged for manylinux, installed without a network into a fresh environment, used there.

python wheel.py SOURCE LIBRARY
"""

import glob
import os
import re
import subprocess
import sys
import tarfile
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
import aster_ml
assert aster_ml.__version__ == _native.version() and "[2.]" in str(aster_ml.Tensor([1.0]) * 2)
print(_native.version(), "works")
"""


def run(*command, **options):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, **options)


SDIST = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"


def sdist_of(source, work):
    """The folder that an sdist of the sources unpacks to; it holds every source."""
    run(sys.executable, "-c", SDIST, work, cwd=source)
    (archive,) = glob.glob(os.path.join(work, "*.tar.gz"))
    with tarfile.open(archive) as file:
        file.extractall(work)
    made = archive.removesuffix(".tar.gz")
    for folder in ("cmake", "include", "python", "src", "tools"):
        for at, _, names in os.walk(os.path.join(source, folder)):
            inside = os.path.join(made, os.path.relpath(at, source))
            missing = set(names) - set(os.listdir(inside)) if "__pycache__" not in at else None
            assert not missing, f"the sdist lacks {missing} of {at}"
    return made


def check_contents(wheel):
    """The wheel holds what it should and nothing of C; its tags are those of the stable ABI."""
    assert re.search(r"-cp311-abi3-manylinux_2_\d+_\w+\.whl$", wheel), wheel
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
        unpacked = sdist_of(source, work)
        run(
            *[sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check"],
            *["--no-deps", "--no-build-isolation", "--wheel-dir", work],
            *["--config-settings", f"build-dir={work}/build"],
            *["--config-settings", f"cmake.define.ASTER_ML_LIBRARY={os.path.realpath(library)}"],
            unpacked,
            env=environment,
        )
        run(
            sys.executable,
            os.path.join(unpacked, "tools", "manylinux.py"),
            *glob.glob(os.path.join(work, "*.whl")),
        )
        (wheel,) = glob.glob(os.path.join(work, "*manylinux*.whl"))
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
