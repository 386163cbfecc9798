#!/usr/bin/env python3
"""Every header of the C++ wrapper, alone and with every method looked into, compiles without a
warning: gcc and clang, C++17 and C++20, with and without exceptions and run-time types."""

import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "include")
WARNINGS = """-Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual
-Wvla -Wold-style-cast -Wextra-semi -Wnon-virtual-dtor""".split()
SETTINGS = [
    ["-std=c++17", "-fno-exceptions", "-fno-rtti"],
    ["-std=c++20", "-fno-exceptions", "-fno-rtti"],
    ["-std=c++17"],
]


def compile_one(compiler, settings, source, text=None):
    command = [compiler, *settings, *WARNINGS, "-fsyntax-only", "-I", INCLUDE, "-x", "c++", source]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        print(" ".join(command), done.stderr, sep="\n", file=sys.stderr)
    return done.returncode == 0


def main():
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    good = bool(compilers)
    whole = os.path.join(HERE, "whole.cpp")
    for compiler in compilers:
        for settings in SETTINGS:
            good = compile_one(compiler, settings, whole) and good
    for path in sorted(glob.glob(os.path.join(INCLUDE, "aster_ml", "cpp", "*.hpp"))):
        text = f'#include "aster_ml/cpp/{os.path.basename(path)}"\n'
        good = compile_one(compilers[0], SETTINGS[0], "-", text) and good
    # What must not compile: a comparison is no condition.
    wrong = '#include "aster_ml/aster_ml.hpp"\nint f(aster_ml::Tensor a) { return a == a ? 1 : 0; }'
    quiet = subprocess.run(
        [compilers[0], "-std=c++17", "-fsyntax-only", "-I", INCLUDE, "-x", "c++", "-"],
        input=wrong, capture_output=True, text=True, check=False,
    )
    if quiet.returncode == 0:
        print("a tensor is taken for a condition", file=sys.stderr)
    return 0 if good and quiet.returncode != 0 else 1


if __name__ == "__main__":
    sys.exit(main())
