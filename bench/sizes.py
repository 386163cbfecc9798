#!/usr/bin/env python3
"""Batch sizes that are new at every call: the library with sizes as arguments, with kernels of its
own for every size (ASTER_ML_NO_SIZES=1), and torch's eager mode, each in a process of its own with
an empty cache and one thread.

  PEERS_PYTHON=~/peers/bin/python bench/sizes.py [row ..]

A line of JSON a row: seconds for all sizes, compiled kernels, the median of the calls that compiled
nothing, in milliseconds, and the same of a second round, when every size has been seen.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = range(10, 129)
ROWS = ("add", "softmax", "product", "perceptron", "convolutions", "block")
ENGINES = {"ours": {}, "own kernels": {"ASTER_ML_NO_SIZES": "1"}, "torch": {}}


def shape_of(row: str, n: int) -> tuple[int, ...]:
    shapes = {"add": (n,), "softmax": (8, n), "convolutions": (n, 1, 28, 28), "block": (2, n, 64)}
    return shapes.get(row, (n, 64))


def network(row: str, w: dict, relu, softmax, pool, conv):
    """What a row computes; the two packages have the same methods but for these."""

    def block(x):
        q, k, v = (
            (x @ w[name]).reshape(x.shape[0], x.shape[1], 4, 16).permute(0, 2, 1, 3)
            for name in ("q", "k", "v")
        )
        scores = softmax(q @ k.permute(0, 1, 3, 2) * 0.25)
        y = (scores @ v).permute(0, 2, 1, 3).reshape(*x.shape)
        return x + relu(y @ w["up"]) @ w["down"]

    def convolutions(x):
        x = pool(relu(conv(x, w["c0"])))
        return pool(relu(conv(x, w["c1"]))).reshape(x.shape[0], -1) @ w["head"]

    return {
        "add": lambda x: x + 1,
        "softmax": softmax,
        "product": lambda x: x @ w["q"],
        "perceptron": lambda x: relu(relu(x @ w["up"]) @ w["down"]) @ w["q"],
        "convolutions": convolutions,
        "block": block,
    }[row]


def work(engine: str, row: str) -> dict:
    import numpy as np

    rng = np.random.default_rng(0)
    shapes = {"q": (64, 64), "k": (64, 64), "v": (64, 64), "up": (64, 256), "down": (256, 64)}
    shapes |= {"c0": (16, 1, 3, 3), "c1": (32, 16, 3, 3), "head": (1568, 10)}
    weights = {k: (rng.standard_normal(s) * 0.1).astype(np.float32) for k, s in shapes.items()}
    inputs = [rng.standard_normal(shape_of(row, n)).astype(np.float32) for n in SIZES]
    compiled = int
    if engine == "torch":
        import torch
        import torch.nn.functional as functional

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        make = torch.from_numpy
        functions = (torch.relu, lambda x: x.softmax(-1), lambda x: functional.max_pool2d(x, 2))
        f = network(
            row,
            {k: make(a) for k, a in weights.items()},
            *functions,
            lambda x, c: functional.conv2d(x, c, padding=1),
        )
    else:
        from aster_ml import Tensor, _native

        make = Tensor
        functions = (Tensor.relu, lambda x: x.softmax(-1), Tensor.max_pool2d)
        g = network(
            row,
            {k: make(a).realize() for k, a in weights.items()},
            *functions,
            lambda x, c: x.conv2d(c, padding=1),
        )
        f = lambda x: g(x).realize()  # noqa: E731
        compiled = lambda: _native.engine_count()["kernels_compiled"]  # noqa: E731
    rounds, known = [], []
    for _ in range(2):
        times = []
        for x in inputs:
            before, start = compiled(), time.perf_counter()
            f(make(x))
            times.append(time.perf_counter() - start)
            if compiled() == before:
                known.append(times[-1])
        rounds.append((sum(times), statistics.median(known) if known else None, compiled()))
        known = []
    return {
        "seconds": round(rounds[0][0], 3),
        "compiled": rounds[0][2],
        "known_ms": round(rounds[0][1] * 1e3, 3) if rounds[0][1] is not None else None,
        "again_ms": round(rounds[1][1] * 1e3, 3) if rounds[1][1] is not None else None,
    }


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(*sys.argv[2:4])))
        return
    for row in sys.argv[1:] or ROWS:
        line = {"row": row, "sizes": len(SIZES)}
        for engine, settings in ENGINES.items():
            python = os.environ.get("PEERS_PYTHON", sys.executable)
            with tempfile.TemporaryDirectory() as folder:
                environment = os.environ | settings
                environment |= {"ASTER_ML_CACHE_DIR": folder, "ASTER_ML_THREADS": "1"}
                command = [python if engine == "torch" else sys.executable, __file__]
                command += ["--work", engine, row]
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
            said = done.stderr.strip().splitlines()[-1:] or ["failed"]
            line[engine] = json.loads(done.stdout) if done.returncode == 0 else said[0]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
