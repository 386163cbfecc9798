#!/usr/bin/env python3
"""One recording with a bound variable at several of its values, the greatest last: the library,
that of another tree, tinygrad's symbolic JIT and torch's eager mode on slices, each in a process of
its own with one thread.

  PEERS_PYTHON=~/peers/bin/python bench/bound.py [--before TREE] [row ..]

A line of JSON a row and engine: the least of the times of a call, in microseconds, by value.
"""

import json
import os
import subprocess
import sys
import time

MOST, VALUES = 2048, (16, 128, 1024, 2048)
ROWS = {  # shapes, n being the variable
    "attention": [(8, 1, 64), (8, "n", 64), (8, "n", 64)],
    "sum": [(64, "n")],
    "softmax": [(64, "n")],
    "product": [(1, "n"), ("n", 512)],
}


def function(row: str, attend):
    return {
        "attention": attend,
        "sum": lambda x: x.sum(1),
        "softmax": lambda x: x.softmax(1),
        "product": lambda x, y: x @ y,
    }[row]


def least(call) -> float:
    call()
    times = []
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end or len(times) < 20:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(min(times) * 1e6, 1)


def cut(x, shape, n):
    return x[tuple(slice(n) if d == "n" else slice(None) for d in shape)]


def work(engine: str, row: str) -> dict:
    import numpy as np

    rng, shapes = np.random.default_rng(0), ROWS[row]
    arrays = [
        rng.standard_normal([MOST if d == "n" else d for d in s]).astype(np.float32)
        for s in shapes
    ]
    out = {}
    if engine == "torch":
        import torch

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        f = function(row, torch.nn.functional.scaled_dot_product_attention)
        given = [torch.from_numpy(x) for x in arrays]
        for n in VALUES:
            out[n] = least(lambda: f(*(cut(x, s, n) for x, s in zip(given, shapes))))  # noqa: B023
        return out
    if engine == "tinygrad":
        from tinygrad import Tensor, TinyJit, Variable
    else:
        from aster_ml import Tensor, TinyJit, Variable
    f = function(row, lambda q, k, v: q.scaled_dot_product_attention(k, v))
    jitted = TinyJit(lambda *x: f(*x).realize())
    given = [Tensor(x).realize() for x in arrays]
    for n in (MOST, MOST, MOST, *VALUES):
        bound = Variable("n", 1, MOST).bind(n)
        parts = [cut(x, s, bound) for x, s in zip(given, shapes)]
        out[n] = least(lambda: jitted(*parts))  # noqa: B023
    return {n: out[n] for n in VALUES}


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(*sys.argv[2:4])))
        return
    rows, before = sys.argv[1:], None
    if rows[:1] == ["--before"]:
        before, rows = rows[1], rows[2:]
    for row in rows or ROWS:
        for engine in ["ours"] + (["before"] if before else []) + ["tinygrad", "torch"]:
            python = os.environ.get("PEERS_PYTHON", sys.executable)
            environment = os.environ | {"ASTER_ML_THREADS": "1", "DEV": "CPU"}
            if engine == "before":
                environment["PYTHONPATH"] = os.path.join(before, "build/release/python")
            command = [python if engine == "torch" else sys.executable, __file__]
            command += ["--work", engine, row]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            said = done.stderr.strip().splitlines()[-1:] or ["failed"]
            line = {"row": row, "engine": engine}
            line["us"] = json.loads(done.stdout) if done.returncode == 0 else said[0]
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
