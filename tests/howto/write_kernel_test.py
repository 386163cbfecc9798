#!/usr/bin/env python3
"""Builds and runs the programs of docs/HOWTO_WRITE_KERNEL.md.

write_kernel_test.py WORK_FOLDER CC LIBRARY
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(work, cc, library):
    with open(os.path.join(ROOT, "docs", "HOWTO_WRITE_KERNEL.md"), encoding="utf-8") as file:
        page = file.read()
    os.makedirs(work, exist_ok=True)
    programs = re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S)
    scripts = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert len(programs) == 1 and len(scripts) == 4, (len(programs), len(scripts))
    source, binary = os.path.join(work, "kernel.c"), os.path.join(work, "kernel")
    with open(source, "w", encoding="utf-8") as file:
        file.write(programs[0])
    folder = os.path.dirname(library)
    subprocess.run(
        [cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I" + os.path.join(ROOT, "include")]
        + [source, library, "-Wl,-rpath," + folder, "-o", binary],
        check=True,
    )
    subprocess.run([binary], check=True)
    if "ASTER_ML_PYTHON" not in os.environ:
        print("ASTER_ML_PYTHON is not set: the programs in Python are not run")
        return
    for number, script in enumerate(scripts):
        name = os.path.join(work, f"kernel_{number}.py")
        with open(name, "w", encoding="utf-8") as file:
            file.write(script)
        subprocess.run([os.environ["ASTER_ML_PYTHON"], name], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
