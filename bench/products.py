#!/usr/bin/env python3
"""Products of matrices by generated code, by OpenBLAS, and by NumPy and torch where they are, in
interleaved turns of a process each.
Convolutions NxCxHxWxOxKxSxP (images, channels, rows, columns, filters, kernel, stride, padding)
stand against OpenBLAS's product of filters and patches that lie unfolded beforehand alone.

  ASTER_ML_LIB=build/release/lib/libaster_ml.so bench/products.py [--vector-bytes 32] [--threads 2]
      [--dtype float64] [--turned ab] [--table] [MxNxK | NxCxHxWxOxKxSxP ..]

A line a product: GFLOP/s of each, and our time over that of the best of the others. With --table
generated code and the registry's implementation "openblas" alone, and how much longer generated
code takes: rows of src/tensor/products.def.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import time

SHAPES = (
    "4x1024x1024 8x1024x1024 16x1024x1024 32x1024x1024 64x1024x1024 128x1024x1024 64x64x64 "
    "100x100x100 128x128x128 192x192x192 256x256x256 384x384x384 512x512x512 768x768x768 "
    "1000x1000x1000 1023x1023x1023 1024x1024x1024 2048x2048x2048 1024x64x1024 1024x1024x64 "
    "64x4096x256 4096x64x256 2048x256x512"
).split()


WORKERS = ("ours", "openblas", "numpy", "torch", "form")


def product_of(shape):
    """Rows, columns, terms; of a convolution those of its product."""
    numbers = [int(n) for n in shape.split("x")]
    if len(numbers) == 3:
        return numbers
    images, channels, rows, columns, filters, kernel, stride, padding = numbers
    out = [(size + 2 * padding - kernel) // stride + 1 for size in (rows, columns)]
    return filters, images * out[0] * out[1], channels * kernel * kernel


def operands(shape, given):
    """The shapes of both, as they are given."""
    m, n, k = product_of(shape)
    if shape.count("x") == 7 and given.work in ("ours", "form"):
        images, channels, rows, columns, filters, kernel, _, _ = map(int, shape.split("x"))
        return (images, channels, rows, columns), (filters, channels, kernel, kernel)
    return (k, m) if "a" in given.turned else (m, k), (n, k) if "b" in given.turned else (k, n)


def options(words=None):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--vector-bytes", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--turned", choices=("", "a", "b", "ab"), default="")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--work", choices=WORKERS, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def captured(given):
    """A function that makes the call of a product of two arrays."""
    from eng_aster import Step, tensor
    from binding import Context, realize

    context = Context(threads=given.threads, vector_bytes=given.vector_bytes, no_sizes=1)

    def turn(x, which):
        return x.permute(1, 0) if which in given.turned else x

    def make(shape, a, b):
        def convolve(x, w):
            return x.conv2d(w, stride=int(shape.split("x")[6]), padding=int(shape.split("x")[7]))

        def multiply(x, y):
            return turn(x, "a") @ turn(y, "b")

        with context:
            arguments = [tensor(a), tensor(b)]
            realize(*arguments)
            return Step(context, convolve if a.ndim == 4 else multiply, arguments)

    return make


def called(given):
    """The same by OpenBLAS itself."""
    import eng_openblas

    lib = eng_openblas.Engine(given.threads).lib
    single = given.dtype == "float32"
    gemm = lib.cblas_sgemm if single else lib.cblas_dgemm
    number = ctypes.c_float if single else ctypes.c_double

    def make(_, a, b):
        import numpy as np

        (m, k) = a.shape[::-1] if "a" in given.turned else a.shape
        n = b.shape[0 if "b" in given.turned else 1]
        out = np.empty((m, n), given.dtype)
        x, y, z = (ctypes.c_void_p(i.ctypes.data) for i in (a, b, out))
        form = (101, *(112 if which in given.turned else 111 for which in "ab"))
        row, step = a.shape[1], b.shape[1]
        return lambda kept=(a, b, out): gemm(
            *form, m, n, k, number(1), x, row, y, step, number(0), z, n
        )

    return make


def numpys(given):
    import numpy as np

    def make(_, a, b):
        x, y = (m.T if which in given.turned else m for m, which in ((a, "a"), (b, "b")))
        out = np.empty((x.shape[0], y.shape[1]), given.dtype)
        return lambda: np.matmul(x, y, out=out)

    return make


def torchs(given):
    import torch

    torch.set_num_threads(given.threads)

    def make(_, a, b):
        x, y = (torch.from_numpy(m) for m in (a, b))
        x, y = (m.T if which in given.turned else m for m, which in ((x, "a"), (y, "b")))
        out = torch.empty((x.shape[0], y.shape[1]), dtype=x.dtype)
        return lambda: torch.mm(x, y, out=out)

    return make


def work(given) -> None:
    """Answers each shape on a line with the least seconds of a call."""
    import numpy as np

    clock = time.process_time if given.threads == 1 else time.perf_counter
    make = dict(zip(WORKERS, (captured, called, numpys, torchs, captured)))[given.work](given)
    print("ready", flush=True)
    step, last, rng = None, "", np.random.default_rng(0)
    for line in sys.stdin:
        m, n, k = product_of(line)
        if line != last:
            shapes = operands(line.strip(), given)
            arrays = [rng.standard_normal(s).astype(given.dtype) for s in shapes]
            step = make(line, *arrays)
            step()
            last = line
        times, end = [], time.perf_counter() + 0.1
        while time.perf_counter() < end or len(times) < 3:
            count = max(1, int(2e6 / (m * n * k)))
            start = clock()
            for _ in range(count):
                step()
            times.append((clock() - start) / count)
        print(min(times), flush=True)


def main() -> None:
    given = options()
    if given.work:
        return work(given)
    workers = {}
    environment = dict(os.environ)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = str(given.threads)
    if given.vector_bytes == 32:
        environment.setdefault("OPENBLAS_CORETYPE", "HASWELL")
    for who in ("ours", "form") if given.table else WORKERS[:4]:
        if who in WORKERS[2:4] and importlib.util.find_spec(who) is None:
            continue
        if who == "form":
            environment["ASTER_ML_REGISTRY"] = '{"matmul": "force=openblas"}'
        command = [sys.executable, __file__, "--work", who, *sys.argv[1:]]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workers[who] = subprocess.Popen(command, env=environment, text=True, **pipes)
        workers[who].stdout.readline()
    for shape in given.shapes:
        those = workers if shape.count("x") == 2 else dict(list(workers.items())[:2])
        least = dict.fromkeys(those, 1e9)
        for _ in range(3):
            for who, worker in those.items():
                print(shape, file=worker.stdin, flush=True)
                least[who] = min(least[who], float(worker.stdout.readline()))
        m, n, k = product_of(shape)
        row = {who: round(2e-9 * m * n * k / t, 1) for who, t in least.items()}
        best = min(t for who, t in least.items() if who != "ours")
        row["ratio"] = round(least["ours"] / best, 3 if given.table else 2)
        print(json.dumps({"shape": shape, **row}), flush=True)


if __name__ == "__main__":
    main()
