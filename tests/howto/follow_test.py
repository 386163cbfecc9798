#!/usr/bin/env python3
"""Follows docs/HOWTO_ADD_*.md: applies their snippets to one copy of the tree, runs the generators
they name, builds the library and the Python extension, and uses what was added from C, C++ and
Python.

follow_test.py WORK_FOLDER CMAKE CC CXX
"""

import math
import os
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SNIPPETS = {"OP": 9, "DTYPE": 25, "RULE": 4, "DEVICE": 2}  # how many a page has
SNIPPET = re.compile(
    r"^ *`([^`\n]+)`, (before|behind) `([^`\n]+)`:\n\n( *)```\w+\n(.*?)^ *```$", re.M | re.S
)
PROGRAM = re.compile(r"^```c\n(#include.*?)^```$", re.M | re.S)
C_PROGRAM = r"""
#include <aster_ml/aster_ml.h>
#include <math.h>
int main(void) {
  aster_ml_context context = {0};
  aster_ml_lazy x = {0}, bent = {0}, centred = {0};
  const int64_t shape[] = {2};
  float y[2], z[2];
  aster_ml_context_init(&context, NULL);
  aster_ml_lazy_from(&x, &context, (const float[]){1, 3}, ASTER_ML_DTYPE_FLOAT32, 1, shape);
  aster_ml_lazy_bent(&bent, &x);
  aster_ml_lazy_center(&centred, &x, 0);
  if (aster_ml_lazy_copy_out(y, sizeof y, &bent) != ASTER_ML_OK) return 1;
  if (aster_ml_lazy_copy_out(z, sizeof z, &centred) != ASTER_ML_OK) return 2;
  for (int i = 0; i < 2; ++i) {
    const double v = 1 + 2 * i;
    if (fabs(y[i] - (v + (sqrt(v * v + 1) - 1) / 2)) > 1e-6 || z[i] != v - 2) return 3;
  }
  aster_ml_lazy wrong = {0};
  if (aster_ml_lazy_center(&wrong, &x, 1) != ASTER_ML_RANGE) return 4;
  aster_ml_tensor concrete, eager = {0};
  if (aster_ml_lazy_view(&concrete, &x) != ASTER_ML_OK) return 5;
  if (aster_ml_tensor_bent(&eager, &context, &concrete) != ASTER_ML_OK) return 6;
  aster_ml_tensor_free(&eager);
  aster_ml_lazy_free(&centred);
  aster_ml_lazy_free(&bent);
  aster_ml_lazy_free(&x);
  aster_ml_context_free(&context);
  int32_t vulkan = 0;
  if (aster_ml_device_from_name(&vulkan, "vulkan:1") != ASTER_ML_OK) return 7;
  if (vulkan != ASTER_ML_DEVICE_VULKAN + 1 || aster_ml_device_is_available(vulkan)) return 8;
  return 0;
}
"""
CXX_PROGRAM = r"""
#include <aster_ml/aster_ml.hpp>
int main() {
  using aster_ml::Tensor;
  const Tensor x({1., 3.});
  if (x.center().abs().sum().item() != 2 || !x.bent().ok()) return 1;
  if (x.cast(aster_ml::dtypes::fp8e3m4).dtype() != aster_ml::dtypes::fp8e3m4) return 2;
  // What the rules leave of integers, and of floats.
  const auto has = [](const Tensor& y, const char* name) {
    return y.graph(ASTER_ML_GRAPH_PREPARED, ASTER_ML_GRAPH_JSON).find(name) != std::string::npos;
  };
  const Tensor a(std::vector<int32_t>{1, 2}), b(std::vector<int32_t>{3, 0});
  if (has(a.maximum(a.minimum(b)) + b, "Max") || !has(x.maximum(x.minimum(x + 1)), "Max")) return 3;
  const Tensor small(std::vector<uint8_t>{1, 2});
  return has(small.minimum(0) + small, "Min") || !has(small.minimum(1) + small, "Min") ? 4 : 0;
}
"""
PYTHON_PROGRAM = f"""
from aster_ml import Tensor
x = Tensor([1.0, 3.0])
assert x.center().tolist() == [-1.0, 1.0]
y, g = x.bent(), x.bent().sum().gradient(x)[0]
assert abs(y.tolist()[1] - {3 + (math.sqrt(10) - 1) / 2}) < 1e-6
assert abs(g.tolist()[1] - {1 + 1.5 / math.sqrt(10)}) < 1e-6

# Every code of fp8e3m4, and what lies between two of them.
from aster_ml import dtypes
def value(code):
    exponent, fraction = code >> 4, code & 15
    return (fraction / 16 if exponent == 0 else 1 + fraction / 16) * 2.0 ** (max(exponent, 1) - 3)
assert dtypes.is_float(dtypes.fp8e3m4) and dtypes.finfo(dtypes.fp8e3m4) == (3, 4)
codes = list(range(0x70))
bytes_ = Tensor(codes, dtype="uint8")
assert bytes_.bitcast("fp8e3m4").cast("float32").tolist() == [value(c) for c in codes]
given, expected = [], []
for c in codes[:-1]:
    low, high = value(c), value(c + 1)
    for part, nearest in ((0, c), (0.25, c), (0.5, c + c % 2), (0.75, c + 1)):
        given += [low + part * (high - low), -low - part * (high - low)]
        expected += [value(nearest), -value(nearest)]
for context in ({{}}, {{"device": "PYTHON"}}):
    x = Tensor(given, dtype="float32", **context).realize()
    assert x.cast("fp8e3m4").cast("float32").tolist() == expected, context
inf = float("inf")
special = Tensor([inf, -inf, 100.0, float("nan")]).cast("fp8e3m4").cast("float32").tolist()
assert special[:3] == [inf, -inf, 15.5] and special[3] != special[3]
assert (Tensor([1.0]).cast("fp8e3m4") + Tensor([1.0]).cast("float16")).dtype == dtypes.float16
assert 0 <= Tensor.rand(4, dtype="fp8e3m4").cast("float32").max().item() < 1

# tbb16x: exact results, checked once, and ERR that stays; compiled, and by the interpreter.
from aster_ml import ERR, Error, sparse
assert dtypes.is_sticky(dtypes.tbb16x)
rows = [[40 * i + j - 700 for j in range(40)] for i in range(40)]
product = [[sum(a * rows[k][j] for k, a in enumerate(row)) for j in range(40)] for row in rows]
for context in ({{}}, {{"device": "PYTHON"}}):
    x = Tensor([3, ERR, -7, 32767], dtype="tbb16x", **context).realize()
    assert (x + 1).tolist() == [4, ERR, -6, ERR], context
    assert (x * x).tolist() == [9, ERR, 49, ERR], context
    assert x.sum().dtype is dtypes.tbb64 and x.max().item() is ERR
    assert x[2:].sum().item() == 32760 and x.sort()[0].tolist() == [ERR, -7, 3, 32767]
    y = Tensor(rows, dtype="tbb16x", **context).realize()
    assert (y @ y).tolist() == product and y.cast("float32").cast("tbb16x").tolist() == rows
try:
    x + Tensor([1], dtype="tbb16")
    raise SystemExit("tbb16x met tbb16")
except (Error, TypeError):
    pass
places = [Tensor(x, dtype="int32").realize() for x in ([0, 0, 1], [1, 1, 0])]
twice = sparse.coo(*places, Tensor([300, 32700, -5], dtype="tbb16x").realize(), (2, 2))
assert twice.dense().tolist() == [[0, ERR], [-5, 0]]

# flt128: decimals, operations, sums and products rounded once as integers here are; functions as
# flt256 has them.
from decimal import Decimal
from aster_ml import linalg
assert dtypes.is_wide(dtypes.flt128) and dtypes.flt128.itemsize == 16
def same(x, integers):
    assert x.dtype is dtypes.flt128
    assert x.tolist() == Tensor(integers, dtype="flt128").tolist(), integers
rows = [[(3 ** (37 + (i + k) % 5) + i * k) * (-1) ** k for k in range(16)] for i in range(16)]
product = [[sum(a * rows[k][j] for k, a in enumerate(row)) for j in range(16)] for row in rows]
for context in ({{}}, {{"device": "PYTHON"}}):
    x = Tensor(["0.1", -3, "1e-4000", 2**113 + 1], dtype="flt128", **context).realize()
    assert x.tolist() == [Decimal("0.1"), -3, Decimal("1e-4000"), 2**113]
    assert (x[:2] + 1).cast("float64").tolist() == [1.1, -2] and (x / 0)[1].item() == -inf
    y = Tensor(rows, dtype="flt128", **context).realize()
    same(y * y, [[a * a for a in row] for row in rows])
    same(y.sum(1), [sum(row) for row in rows])
    same(y @ y, product)
    assert x.exp().tolist() == x.cast("flt256").exp().cast("flt128").tolist()
    assert (x[:2] + Tensor([1, 1], dtype="flt256")).dtype is dtypes.flt256
square = Tensor([[4, 2], [2, 2]], dtype="flt128").realize()
same(linalg.cholesky(square), [[2, 0], [1, 1]])
halves = sparse.coo(*places, Tensor(["0.5", "0.25", 3], dtype="flt128").realize(), (2, 2))
assert halves.dense().tolist() == [[0, Decimal("0.75")], [3, 0]]
words = memoryview(square)
assert words.format == "T{{(2)Q:words:}}" and Tensor(words).dtype is dtypes.flt128
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        text = done.stdout[-4000:] + done.stderr[-4000:]
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{text}")
    return done.stdout


def copy_tree(tree):
    """Tracked files and new ones; equal ones keep their times, so that little is built."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines()
    for path in listed:
        source, target = os.path.join(ROOT, path), os.path.join(tree, path)
        if os.path.isfile(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)
    return listed


def insert(tree, path, where, mark, snippet):
    """Puts a snippet before the line that has the mark, or behind what begins there."""
    file_name = os.path.join(tree, path)
    with open(file_name, encoding="utf-8") as file:
        lines = file.read().split("\n")
    found = [i for i, line in enumerate(lines) if mark in line]
    if not found:
        sys.exit(f"{path} has no line with '{mark}'")
    at = found[0]
    if where == "behind":
        while path.endswith(".h") and not lines[at].endswith(";"):
            at += 1
        at += 1
    lines[at:at] = snippet.rstrip("\n").split("\n") + ([""] if snippet.endswith("\n\n") else [])
    with open(file_name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def page(tree, name):
    with open(os.path.join(tree, "docs", f"HOWTO_ADD_{name}.md"), encoding="utf-8") as file:
        return file.read()


def follow(tree):
    for name, count in SNIPPETS.items():
        snippets = SNIPPET.findall(page(tree, name))
        if len(snippets) != count:
            sys.exit(f"HOWTO_ADD_{name}.md: {len(snippets)} snippets were found")
        for path, where, mark, indent, text in snippets:
            body = "\n".join(line[len(indent) :] for line in text.split("\n"))
            insert(tree, path, where, mark, body)
    for name in ("manifest", "reference", "reference_python", "cpp_wrapper"):
        tool = [sys.executable, os.path.join("tools", name + ".py")]
        run(*tool, *(["--record"] if name == "manifest" else []), cwd=tree)
        run(*tool, "--check", cwd=tree)


def build(tree, out):
    environment = dict(os.environ, CCACHE_BASEDIR="/", CCACHE_NOHASHDIR="1")
    run(
        CMAKE, "-S", tree, "-B", out, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DASTER_TESTS=OFF", "-DASTER_BENCH=OFF",
        f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", env=environment,
    )
    run(CMAKE, "--build", out, "--target", "aster_ml_python", env=environment)


def call(tree, out, work):
    library = os.path.join(out, "lib")
    flags = ["-I", os.path.join(tree, "include"), "-L", library, "-laster_ml"]
    flags.append(f"-Wl,-rpath,{library}")
    environment = dict(os.environ, ASTER_ML_CACHE_DIR=os.path.join(work, "cache"))
    for compiler, standard, name, text in (
        (CC, "-std=c11", "call.c", C_PROGRAM),
        (CC, "-std=c11", "device.c", PROGRAM.search(page(tree, "DEVICE")).group(1)),
        (CXX, "-std=c++17", "call.cpp", CXX_PROGRAM),
    ):
        source, program = os.path.join(work, name), os.path.join(work, name.replace(".", "_"))
        with open(source, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        run(compiler, standard, source, "-o", program, *flags, "-lm")
        run(program, env=environment)
    environment["PYTHONPATH"] = os.path.join(out, "python")
    run(sys.executable, "-c", PYTHON_PROGRAM, env=environment)


def main():
    tree, out = os.path.join(WORK, "tree"), os.path.join(WORK, "build")
    shutil.rmtree(tree, ignore_errors=True)
    copy_tree(tree)
    follow(tree)
    build(tree, out)
    call(tree, out, WORK)
    return 0


if __name__ == "__main__":
    WORK, CMAKE, CC, CXX = (os.path.abspath(sys.argv[1]), *sys.argv[2:5])
    sys.exit(main())
