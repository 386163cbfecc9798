#!/usr/bin/env python3
"""An sdist holds every file of the sources that the build tree was made of, tests and benches too.

python sdist.py SOURCE BUILD NINJA
"""

import os
import subprocess
import sys
import tempfile

from wheel import sdist_of


def named(source, build, ninja):
    """What CMake and Ninja read, as paths below the sources."""
    command = [ninja, "-C", build, "-t", "inputs", "all", "build.ninja"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        path = os.path.relpath(os.path.join(build, line.strip().strip("'\"")), source)
        made = path.startswith(os.path.relpath(build, source) + os.sep)
        if not path.startswith(".." + os.sep) and not made and os.path.isfile(f"{source}/{path}"):
            yield path


def main(source, build, ninja):
    source, build = os.path.realpath(source), os.path.realpath(build)
    if not os.path.exists(os.path.join(build, "build.ninja")):
        print("SKIPPED: needs a build tree of Ninja")
        return 77
    wanted = set(named(source, build, ninja))
    known = {"CMakeLists.txt", "src/base/flags.cpp", "tools/manifest.py"}
    assert known <= wanted and len(wanted) > 300, sorted(wanted)
    with tempfile.TemporaryDirectory() as work:
        made = sdist_of(source, work)
        missing = [path for path in sorted(wanted) if not os.path.isfile(os.path.join(made, path))]
    assert not missing, f"the sdist lacks {missing}"
    print(f"{len(wanted)} files are all in the sdist")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
