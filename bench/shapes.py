#!/usr/bin/env python3
"""Shapes that nobody chose: each beside the round shape next to it, drawn anew at each run.

  ASTER_ML_LIB=build/release/lib/libaster_ml.so PYTHONPATH=build/release/python bench/shapes.py
      [--seed N] [--count 20] [--threads 1] [--only products,convolutions,..] [--vector-bytes 32]

A line a shape: the seconds of an operation (of an element, where nothing is multiplied) over those
of the round shape, GFLOP/s of both. More than 1.3 is marked; at the end the mean and the worst.
"""

import argparse
import math
import random
import statistics
import time

import aster_ml
from aster_ml import Tensor, TinyJit, _native

LIMIT = 1.3


def near(size, step=16):
    """The round size next to it."""
    return max(step, round(size / step) * step)


def draw(low, high):
    return int(math.exp(random.uniform(math.log(low), math.log(high))))


def data(*shape):
    return Tensor.rand(*shape).realize()


class Product:
    def __init__(self):
        self.sizes = draw(4, 1500), draw(16, 1500), draw(16, 1500)
        self.turned = random.choice(("", "", "a", "b"))

    def round(self):
        rows, terms, columns = self.sizes
        self.sizes = near(rows, 4 if rows < 16 else 16), near(terms), near(columns)

    def make(self):
        m, k, n = self.sizes
        a = data(k, m).T if "a" in self.turned else data(m, k)
        b = data(n, k).T if "b" in self.turned else data(k, n)
        return (lambda: a @ b), 2 * m * k * n

    def __str__(self):
        return "x".join(map(str, self.sizes)) + (f" {self.turned} turned" if self.turned else "")


class Convolution:
    def __init__(self):
        self.images, self.channels, self.filters = draw(1, 8), draw(3, 256), draw(8, 256)
        self.side = draw(7, 112 if self.channels < 64 else 56)
        self.kernel, self.stride = random.choice((1, 3, 3, 3, 5, 7)), random.choice((1, 1, 2))
        self.gradient = random.choice(("", "", "weights", "image"))
        self.side = max(self.side, self.kernel)

    def round(self):
        self.channels, self.filters = near(self.channels), near(self.filters)
        self.side = near(self.side, 8)

    def make(self):
        n, c, o, s, k = self.images, self.channels, self.filters, self.side, self.kernel
        x, w = data(n, c, s, s), data(o, c, k, k)
        result = x.conv2d(w, stride=self.stride, padding=k // 2)
        flops = 2 * math.prod(result.shape) * c * k * k
        if not self.gradient:
            return (lambda: x.conv2d(w, stride=self.stride, padding=k // 2)), flops
        slope = data(*result.shape)

        def gradient():
            y = x.conv2d(w, stride=self.stride, padding=k // 2)
            return y.gradient(w if self.gradient == "weights" else x, gradient=slope)[0]

        return gradient, flops

    def __str__(self):
        return (f"{self.images}x{self.channels}x{self.side}^2 -> {self.filters}, {self.kernel}^2 "
                f"step {self.stride}" + (f", to {self.gradient}" if self.gradient else ""))


class Attention:
    def __init__(self):
        self.heads, self.length = draw(1, 24), draw(16, 700)
        self.width, self.causal = random.choice((32, 48, 64, 80, 128)), random.random() < 0.5

    def round(self):
        self.length, self.width = near(self.length, 64), near(self.width, 32)

    def make(self):
        q, k, v = (data(1, self.heads, self.length, self.width) for _ in range(3))
        flops = 4 * self.heads * self.length**2 * self.width
        return (lambda: q.scaled_dot_product_attention(k, v, is_causal=self.causal)), flops

    def __str__(self):
        return f"{self.heads} heads of {self.length} x {self.width}" + ", causal" * self.causal


class Rows:
    """What reads rows and writes them or a number of each."""

    KINDS = {
        "softmax": lambda x: x.softmax(-1), "layernorm": lambda x: x.layernorm(),
        "sum": lambda x: x.sum(-1), "columns": lambda x: x.sum(0), "max": lambda x: x.max(-1),
        "argmax": lambda x: x.argmax(-1), "cumsum": lambda x: x.cumsum(-1),
        "transpose": lambda x: x.T.contiguous(), "gelu": lambda x: x.gelu(),
        "flip": lambda x: x.flip(1).contiguous(), "logsumexp": lambda x: x.logsumexp(-1),
        "head": lambda x: x[:, : x.shape[1] // 2].contiguous(),
        "pad": lambda x: x.pad(((1, 1), (1, 1))).contiguous(), "roll": lambda x: x.roll(3, 1),
    }

    def __init__(self):
        self.kind = random.choice(list(self.KINDS))
        self.rows, self.columns = draw(8, 3000), draw(8, 3000)

    def round(self):
        self.rows, self.columns = near(self.rows), near(self.columns)

    def make(self):
        x = data(self.rows, self.columns)
        return (lambda: self.KINDS[self.kind](x)), self.rows * self.columns

    def __str__(self):
        return f"{self.kind} of {self.rows}x{self.columns}"


class Pool:
    def __init__(self):
        self.planes, self.side = draw(4, 512), draw(8, 112)
        self.kernel, self.stride = random.choice(((2, 2), (3, 2), (3, 1), (5, 1))), None
        self.kernel, self.stride = self.kernel
        self.kind = random.choice(("max", "mean", "depthwise"))

    def round(self):
        self.planes, self.side = near(self.planes, 4), near(self.side, 16)

    def make(self):
        x, around = data(1, self.planes, self.side, self.side), self.kernel // 2
        w = data(self.planes, 1, self.kernel, self.kernel)
        if self.kind == "depthwise":
            call = lambda: x.conv2d(w, groups=self.planes, stride=self.stride, padding=around)
        elif self.kind == "max":
            call = lambda: x.max_pool2d(self.kernel, self.stride, padding=around)
        else:
            call = lambda: x.avg_pool2d(self.kernel, self.stride, padding=around)
        return call, math.prod(call().shape) * self.kernel**2

    def __str__(self):
        return f"{self.kind} {self.kernel}^2 step {self.stride} of {self.planes}x{self.side}^2"


KINDS = {"products": Product, "convolutions": Convolution, "attention": Attention, "rows": Rows,
         "pools": Pool}


def seconds(call):
    """The least of many calls of a recorded function."""
    step = TinyJit(lambda: call().realize())
    for _ in range(3):
        step()
    times, until = [], time.perf_counter() + 0.15
    while len(times) < 5 or (time.perf_counter() < until and len(times) < 3000):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vector-bytes", type=int, default=0)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(KINDS))
    given = parser.parse_args()
    options = {"threads": given.threads, "vector_bytes": given.vector_bytes}
    _native.set_current(_native.context_init({k: v for k, v in options.items() if v}))
    print("seed", given.seed)
    for name in given.only:
        random.seed(f"{given.seed} {name}")
        ratios = []
        for _ in range(given.count):
            drawn = KINDS[name]()
            text = str(drawn)
            call, operations = drawn.make()
            own = seconds(call)
            drawn.round()
            call, beside = drawn.make()
            even = seconds(call)
            # What takes no microsecond says nothing.
            ratio = (own + 5e-7) / operations / ((even + 5e-7) / beside)
            ratios.append(ratio)
            mark = " <--" if ratio > LIMIT else ""
            rates = f"{operations / own / 1e9:7.1f} {beside / even / 1e9:7.1f}"
            print(f"{ratio:5.2f}  {rates}  {name}: {text}  ({drawn}){mark}", flush=True)
        print(f"{name}: mean {statistics.geometric_mean(ratios):.2f}, worst {max(ratios):.2f}, "
              f"{sum(r > LIMIT for r in ratios)} of {len(ratios)} above {LIMIT}", flush=True)


if __name__ == "__main__":
    main()
