#!/usr/bin/env python3
"""What tinygrad takes to build, rewrite and schedule the graphs of bench_schedule.cpp; compiling
and running left out. Prints one JSON object: seconds (CPU, the least of the rounds) by graph.

usage: schedule_tinygrad.py [--rounds 5] [--graphs digits,transformer_12]
"""
import argparse
import json
import os
import time

os.environ.setdefault("SCACHE", "0")  # schedules anew each time, as the other side does
os.environ.setdefault("DEV", "CPU")

import numpy as np  # noqa: E402
from tinygrad import Tensor, nn  # noqa: E402
from tinygrad.helpers import Context  # noqa: E402


def data(*shape, seed=1, scale=1.0):
    numbers = np.random.default_rng(seed).uniform(-scale, scale, shape)
    return Tensor(numbers.astype(np.float32)).realize()


class Digits:
    def __init__(self):
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.linear = nn.Linear(128, 10)
        self.adam = nn.optim.Adam(nn.state.get_parameters(self), lr=0.003)
        state = nn.state.get_parameters(self) + nn.state.get_parameters(self.adam)
        Tensor.realize(*state)
        self.x = data(128, 64)
        self.targets = Tensor((np.arange(128) * 7 % 10).astype(np.int32)).realize()

    def __call__(self):
        with Context(TRAINING=1):
            x = self.conv1(self.x.reshape(-1, 1, 8, 8)).relu().max_pool2d()
            x = self.conv2(x).relu().max_pool2d()
            loss = self.linear(x.flatten(1)).sparse_categorical_crossentropy(self.targets)
            self.adam.zero_grad()
            loss.backward()
            return loss.schedule_linear(*self.adam.schedule_step())


class Transformer:
    def __init__(self, layers, width=64, heads=4):
        self.width, self.heads = width, heads
        self.x = data(1, 16, width, seed=9)
        shapes = {"query": (width, width), "key": (width, width), "value": (width, width),
                  "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width),
                  "up_bias": (4 * width,), "gain1": (width,), "bias1": (width,), "gain2": (width,),
                  "bias2": (width,), "down_bias": (width,)}
        self.blocks = [{name: data(*shape, seed=i, scale=0.05) for name, shape in shapes.items()}
                       for i in range(layers)]

    def attention(self, b, x):
        batch, length, _ = x.shape
        each = self.width // self.heads
        q, k, v = ((x @ b[name]).reshape(batch, length, self.heads, each).permute(0, 2, 1, 3)
                   for name in ("query", "key", "value"))
        scores = (q @ k.permute(0, 1, 3, 2) * each**-0.5).softmax(-1)
        return (scores @ v).permute(0, 2, 1, 3).reshape(batch, length, self.width) @ b["out"]

    def __call__(self):
        x = self.x
        for b in self.blocks:
            x = x + self.attention(b, x.layernorm() * b["gain1"] + b["bias1"])
            h = x.layernorm() * b["gain2"] + b["bias2"]
            x = x + ((h @ b["up"] + b["up_bias"]).gelu() @ b["down"] + b["down_bias"])
        return x.schedule_linear()


GRAPHS = {"digits": Digits, "transformer_12": lambda: Transformer(12)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    arguments = parser.parse_args()
    seconds, kernels = {}, {}
    for name in arguments.graphs.split(","):
        graph = GRAPHS[name]()
        graph()
        times = []
        for _ in range(arguments.rounds):
            begin = time.process_time()
            schedule = graph()
            times.append(time.process_time() - begin)
        seconds[name], kernels[name] = min(times), len(schedule.src)
    import importlib.metadata
    print(json.dumps({"seconds": seconds, "kernels": kernels,
                      "version": importlib.metadata.version("tinygrad")}))


if __name__ == "__main__":
    main()
