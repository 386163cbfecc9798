#!/usr/bin/env python3
"""What compilers say of matrix.hpp: shapes that do not fit are errors, more than 4 KB is a warning,
the rest compiles without one; by every compiler, as C++17 and C++20, with and without fused
multiply-adds and wide vectors. And what they make of it: what 16 bytes hold comes in registers,
small products are straight lines of fused multiply-adds."""

import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "include")
WARNINGS = """-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wvla
-Wold-style-cast -Wextra-semi""".split()
TARGETS = [[]]
if os.uname().machine == "x86_64":
    TARGETS += [["-mavx2", "-mfma"], ["-mavx512f", "-mavx2", "-mfma"]]

GOOD = """
  matrix<float, 4, 4> a, b; matrix<double, 3, 5> c; matrix<double, 5, 8> d; matrix<int8_t, 7, 7> e;
  float shared[12]; vec9<float> f = pack(matrix<float, 3, 3>());
  tensor<float, 2, 3, 4> g(shared, {3, 4}, {4, 1}); tensor<float, 2> h(shared, {4, 3}, {1, 4});
  matrix<float, 3, 3> i; matrix<float, 16, 16> j;
  if (matmul(view_of(i), g, h) && inverse(a, b)) a = a * b + b;
  return static_cast<int>((c * d)(0, 0)) + determinant(e) + static_cast<int>(f[0] + (j * j)(0, 0));
"""
MISMATCHES = {
    "matrices that do not multiply": (
        "matrix<float, 2, 3> a; matrix<float, 2, 3> b; a * b; return 0;",
        "whose shapes do not multiply",
    ),
    "a vector of another size": ("matrix<float, 2, 3> a; vec<float, 2> x; a * x; return 0;", ""),
    "a sum of two shapes": ("matrix<float, 2, 3> a; matrix<float, 3, 2> b; a + b; return 0;", ""),
    "an inverse of a rectangle": ("matrix<float, 2, 3> a, b; return inverse(a, b);", ""),
    "tensors that do not multiply": (
        "tensor<float, 2, 3, 4> a; tensor<float, 2, 3, dynamic> b; tensor<float, 2> c;"
        "return matmul(c, a, b);",
        "whose shapes do not multiply",
    ),
    "tensors of two shapes": (
        "tensor<float, 1, 3> a; tensor<float, 1, 4> b;"
        "return combine(a, a, b, [](float x, float) { return x; });",
        "whose shapes differ",
    ),
    "tensors of two ranks": (
        "tensor<float, 1> a; tensor<float, 2> b;"
        "return combine(a, a, b, [](float x, float) { return x; });",
        "whose shapes differ",
    ),
    "an index too few": ("tensor<float, 2> a; return static_cast<int>(a(1));", "an index an axis"),
    "a matrix of nothing": ("matrix<float, 0, 3> a; return a.rows;", ""),
}


# What the ABI has room for, and what it has not: by value, and back.
REGISTERS = ["vec2<float>", "vec3<float>", "vec4<float>", "vec2<double>", "vec2<tbb64>",
             "vec<int8_t, 9>", "matrix<float, 2, 1>", "matrix<tbb8, 3, 3>"]
MEMORY = ["vec3<double>", "matrix<float, 2, 2>"]
# Arguments on the stack, or behind an address.
BY_ADDRESS = re.compile(r"(?<![-0-9])[0-9]+\(%rsp\)|\((%rdi|%rsi)")


def assembly(compiler, settings, text):
    text = '#include "aster_ml/matrix.hpp"\nusing namespace aster_ml;\n' + text
    command = [compiler, *settings, "-O2", "-S", "-o", "-", "-fcf-protection=none", "-I", INCLUDE,
               "-x", "c++", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def complaints(compiler, settings, body):
    text = '#include "aster_ml/matrix.hpp"\nusing namespace aster_ml;\nint f();\nint f() {' + body
    command = [compiler, *settings, *WARNINGS, "-O1", "-S", "-o", os.devnull, "-I", INCLUDE]
    command += ["-fno-exceptions", "-fno-rtti", "-x", "c++", "-"]
    done = subprocess.run(command, input=text + "}\n", capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


class ShapesTest(unittest.TestCase):
    def compilers(self):
        found = [c for c in ("g++", "clang++") if shutil.which(c)]
        self.assertTrue(found)
        return [(c, ["-std=" + standard]) for c in found for standard in ("c++17", "c++20")]

    def test_good_ones_compile_without_a_warning(self):
        for compiler, settings in self.compilers():
            for target in TARGETS:
                status, said = complaints(compiler, settings + target, GOOD)
                self.assertEqual((status, said), (0, ""), (compiler, settings, target))

    def test_shapes_that_do_not_fit_are_errors(self):
        for compiler, settings in self.compilers():
            for name, (body, wanted) in MISMATCHES.items():
                status, said = complaints(compiler, settings, body)
                self.assertNotEqual(status, 0, name)
                self.assertIn(wanted, said, name)

    def test_large_ones_are_warned_of(self):
        for compiler, settings in self.compilers():
            for size, wanted in ((32, False), (33, True)):
                body = f"matrix<float, {size}, 32> a; return static_cast<int>(a(0, 0));"
                status, said = complaints(compiler, settings, body)
                self.assertEqual(status, 0)
                self.assertEqual("beyond 4 KB" in said, wanted, (compiler, size, said))

    @unittest.skipUnless(os.uname().machine == "x86_64", "another ABI")
    def test_registers_and_straight_lines(self):
        for compiler, settings in self.compilers():
            for types, wanted in ((REGISTERS, False), (MEMORY, True)):
                for name in types:
                    made = assembly(compiler, settings, f"auto f({name} a) {{ return a; }}")
                    found = BY_ADDRESS.search(made) is not None
                    self.assertEqual(found, wanted, (compiler, name, made))
            for element in ("float", "double"):
                m = f"matrix<{element}, 4, 4>"
                made = assembly(compiler, [*settings, "-mavx2", "-mfma"],
                                f"{m} f(const {m}& a, const {m}& b) {{ return a * b; }}")
                self.assertEqual(len(re.findall(r"\tvfn?m(?:add|sub)", made)), 12, made)
                self.assertEqual(re.findall(r"\tj[a-z]+\t|\tcall", made), [], compiler)


if __name__ == "__main__":
    sys.exit(unittest.main())
