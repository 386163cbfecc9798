#!/usr/bin/env python3
"""Whether a long loop slows down: an uncaptured step after many against those of its beginning.

    PYTHONPATH=build/release/python python3 bench/loops.py [--steps 20000]

The data collect gradients that nobody reads or clears (`backward()` gives every float tensor its
.grad), as loops of tinygrad's style do. Prints one JSON line a figure: the median of a step in
microseconds over the first and the last hundred steps behind the warm-up, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Callable

from aster_ml import Tensor, nn
from aster_ml.helpers import Context

SAMPLE = 100


def perceptron() -> Callable[[], None]:
    first, second = nn.Linear(8, 16), nn.Linear(16, 1)
    optimizer = nn.optim.SGD([*nn.state.get_parameters(first), *nn.state.get_parameters(second)])
    x, y = Tensor.rand(32, 8).realize(), Tensor.rand(32, 1).realize()

    def step() -> None:
        optimizer.zero_grad()
        (second(first(x).relu()) - y).square().mean().backward()
        optimizer.step()

    return step


def moments() -> Callable[[], None]:
    x, mean = Tensor.rand(64).realize(), Tensor.zeros(64).contiguous().realize()
    ahead = [Tensor.rand(64) + i for i in range(1000)]  # pending, never computed

    def step() -> None:
        mean.assign(mean * 0.9 + x * 0.1).realize()
        ahead[0] = ahead[0] + mean

    return step


def measure(name: str, step: Callable[[], None], steps: int) -> None:
    times = []
    for _ in range(SAMPLE):
        step()
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e6)
    begin, end = statistics.median(times[:SAMPLE]), statistics.median(times[-SAMPLE:])
    row = {"name": f"loop_{name}", "steps": steps, "first_us": round(begin, 1)}
    print(json.dumps({**row, "last_us": round(end, 1), "ratio": round(end / begin, 3)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20000)
    options = parser.parse_args()
    Tensor.manual_seed(1)
    with Context(TRAINING=1):
        measure("perceptron", perceptron(), options.steps)
    measure("moments", moments(), options.steps)


if __name__ == "__main__":
    main()
