#!/usr/bin/env python3
"""Gives a wheel the manylinux tag that its libraries earn (PEP 600).

manylinux.py WHEEL...   beside each linux wheel, the same one tagged; prints its path

Refuses a wheel that links what a manylinux system need not have, and one whose extensions use
symbols of CPython outside the limited API that their tag promises.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

# What every manylinux system has, of what this project may come to link (PEP 600, PEP 513).
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libz|libgcc_s|ld-linux-[\w-]+)\.so\.\d+")
LIMITED = "0x030b0000"  # of cp311-abi3


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def glibc_of(libraries):
    """The least (major, minor) of glibc that has every symbol; ValueError for foreign libraries."""
    inside = {os.path.basename(path) for path in libraries}
    least = (2, 17)  # the oldest of PEP 600 that pip of CPython 3.11 meets
    for path in libraries:
        name = os.path.basename(path)
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path)):
            if needed not in inside and not SYSTEM.fullmatch(needed):
                raise ValueError(f"{name} links {needed}, which no manylinux system need have")
        symbols = run("objdump", "-T", path)
        for version in re.findall(r"\bGLIBC_(\d+)\.(\d+)", symbols):
            least = max(least, tuple(map(int, version)))
        if foreign := re.findall(r"\b(?:GLIBCXX|CXXABI)_[\d.]+", symbols):
            raise ValueError(f"{name} needs {foreign[0]} of libstdc++")
    return least


def outside_limited_api(extension, compiler="cc"):
    """The symbols of CPython that an extension uses beside those of the limited API of 3.11."""
    symbols = [line.split()[-1] for line in run("nm", "-D", "-u", extension).splitlines()]
    symbols = sorted(s for s in symbols if re.match(r"_?Py", s))

    def declared(names):
        uses = "".join(f"  use((const void *)&{name});\n" for name in names)
        text = f"#define PY_SSIZE_T_CLEAN\n#define Py_LIMITED_API {LIMITED}\n"
        text += "#include <Python.h>\n"
        text += f"void use(const void *);\nvoid all(void);\nvoid all(void) {{\n{uses}}}\n"
        command = [compiler, "-xc", "-fsyntax-only", "-w"]
        command += [f"-I{sysconfig.get_path('include')}", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return done.returncode == 0

    if not symbols or not declared([]):
        raise ValueError(f"{extension}: no symbols of CPython, or no headers of it")
    return [] if declared(symbols) else [s for s in symbols if not declared([s])]


def tagged(wheel):
    """Writes the tagged wheel beside the other; its path."""
    folder, name = os.path.split(os.path.abspath(wheel))
    found = re.fullmatch(r"(.*-abi3-)linux_(\w+)\.whl", name)
    if not found:
        raise ValueError(f"{name} is not an abi3 wheel for linux")
    with zipfile.ZipFile(wheel) as file, tempfile.TemporaryDirectory() as work:
        libraries = [n for n in file.namelist() if re.search(r"\.so(\.\d+)*$", n)]
        paths = [file.extract(n, work) for n in libraries]
        least = glibc_of(paths)
        for path in paths:
            if path.endswith(".abi3.so") and (outside := outside_limited_api(path)):
                raise ValueError(f"{name}: outside the limited API: {', '.join(outside)}")
        platform = f"manylinux_{least[0]}_{least[1]}_{found[2]}"
        out = os.path.join(folder, f"{found[1]}{platform}.whl")
        retag(file, out, f"linux_{found[2]}", platform)
    return out


def retag(file, out, before, after):
    """The wheel with another platform in its metadata, and the record of that."""
    (meta,) = [n for n in file.namelist() if n.endswith(".dist-info/WHEEL")]
    text = file.read(meta).decode().replace(f"-{before}\n", f"-{after}\n").encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    record = meta.replace("WHEEL", "RECORD")
    rows = file.read(record).decode().splitlines()
    row = f"{meta},sha256={digest},{len(text)}"
    rows = [row if r.startswith(meta + ",") else r for r in rows]
    changed = {meta: text, record: "".join(r + "\n" for r in rows).encode()}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for item in file.infolist():
            made.writestr(item, changed.get(item.filename, file.read(item)))


def main(wheels):
    try:
        for wheel in wheels:
            print(tagged(wheel))
    except ValueError as error:
        sys.exit(f"manylinux: {error}")


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
