"""The work that every engine does: deterministic inputs, what it costs, how close results must be.

`make()` gives (inputs, parameters): inputs are arguments of each call, parameters are weights,
which an engine may keep and pack. `bytes` is the compulsory traffic: each input read and each
output written once.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np

F32 = np.float32
MANY = 4096 * 4096


@dataclass
class Work:
    name: str
    make: Callable
    flops: float = 0
    bytes: float = 0
    tolerance: float = 2e-4
    per: int = 1  # operations in a call; times are given for one
    results: int = 1  # of successive calls that are compared


def normal(*shape, seed=0, scale=1.0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=F32) * F32(scale)


def two(*shape):
    return lambda: ({"x": normal(*shape), "y": normal(*shape, seed=1)}, {})


def one(*shape):
    return lambda: ({"x": normal(*shape)}, {})


def gelu():
    rows = {name: normal(4096, seed=seed) for seed, name in enumerate("abc", 1)}
    return {"x": normal(4096, 4096), **rows}, {}


def layernorm():
    return {"x": normal(4096, 1024), "g": normal(1024, seed=1), "b": normal(1024, seed=2)}, {}


def perceptron(batch):
    def make():
        parameters = {}
        for i, (rows, columns) in enumerate([(784, 512), (512, 512), (512, 10)]):
            parameters[f"w{i}"] = normal(rows, columns, seed=10 + i, scale=rows**-0.5)
            parameters[f"b{i}"] = normal(columns, seed=20 + i, scale=0.1)
        return {"x": normal(batch, 784)}, parameters

    return make


def characters():
    """A transformer of characters: 2 blocks, 64 wide, 4 heads, 16 texts of 64."""
    size, length, words = 64, 64, 96
    shapes = {"tok": (words, size), "pos": (length, size)}
    for k in range(2):
        for name, rows, columns in (("qkv", 192, 64), ("proj", 64, 64), ("up", 256, 64),
                                    ("down", 64, 256)):
            shapes[f"{k}{name}_w"], shapes[f"{k}{name}_b"] = (rows, columns), (rows,)
        for name in ("ln1", "ln2"):
            shapes[f"{k}{name}_w"] = shapes[f"{k}{name}_b"] = (size,)
    shapes.update(ln_w=(size,), ln_b=(size,), head_w=(words, size), head_b=(words,))
    parameters = {
        name: normal(*shape, seed=seed, scale=shape[-1] ** -0.5 if len(shape) > 1 else 0.1)
        + F32("ln" in name and name.endswith("_w"))
        for seed, (name, shape) in enumerate(shapes.items())
    }
    text = np.random.default_rng(0).integers(0, words, (16, length + 1))
    return {"x": text[:, :-1].copy(), "y": text[:, 1:].copy()}, parameters


def convolution(batch, channels, side):
    def make():
        weight = normal(channels, channels, 3, 3, seed=1, scale=0.05)
        image = normal(batch, channels, side, side)
        return {"x": image}, {"w": weight, "b": normal(channels, seed=2)}

    return make


def digits():
    parameters = {
        "c0_w": normal(16, 1, 3, 3, seed=1, scale=0.3), "c0_b": np.zeros(16, F32),
        "c1_w": normal(32, 16, 3, 3, seed=2, scale=0.1), "c1_b": np.zeros(32, F32),
        "fc_w": normal(10, 128, seed=3, scale=0.1), "fc_b": np.zeros(10, F32),
    }
    targets = (np.arange(128) * 7 % 10).astype(np.int64)
    return {"x": np.abs(normal(128, 1, 8, 8, seed=5)), "t": targets}, parameters


def attention():
    return {name: normal(1, 12, 512, 64, seed=seed) for seed, name in enumerate("qkv")}, {}


WEIGHTS = 784 * 512 + 512 * 512 + 512 * 10
LIST = [
    Work("add_16M", two(4096, 4096), flops=MANY, bytes=12 * MANY),
    Work("sum_16M", one(4096, 4096), flops=MANY, bytes=4 * MANY, tolerance=1e-2),
    Work("gelu_fma_16M", gelu, flops=12 * MANY, bytes=8 * MANY),
    Work("softmax_4096", one(4096, 4096), bytes=8 * MANY),
    Work("layernorm_4096x1024", layernorm, bytes=2 * MANY),
    Work("gemm_64", two(64, 64), flops=2 * 64**3),
    Work("gemm_256", two(256, 256), flops=2 * 256**3),
    Work("gemm_1024", two(1024, 1024), flops=2 * 1024**3),
    Work("bmm_64x128", two(64, 128, 128), flops=64 * 2 * 128**3),
    Work("conv3x3_n1c64", convolution(1, 64, 56), flops=2 * 56 * 56 * 64 * 64 * 9),
    Work("conv3x3_n8c128", convolution(8, 128, 28), flops=2 * 8 * 28 * 28 * 128 * 128 * 9),
    Work("maxpool3s2", one(8, 64, 112, 112), bytes=5 * 8 * 64 * 112 * 112),
    Work("argmax_4096", one(4096, 4096), bytes=4 * MANY, tolerance=0),
    Work("transpose_4096", one(4096, 4096), bytes=8 * MANY, tolerance=0),
    Work("strided_sum", one(4096, 4096), bytes=4 * MANY, tolerance=1e-2),
    Work("permute_0213", one(16, 512, 12, 64), bytes=8 * 16 * 512 * 768, tolerance=0),
    Work("attention", attention, flops=12 * 4 * 512 * 512 * 64),
    Work("mlp_b1", perceptron(1), flops=2 * WEIGHTS, bytes=4 * WEIGHTS),
    Work("mlp_b128", perceptron(128), flops=2 * WEIGHTS * 128),
    Work("train_char", characters, tolerance=2e-3, results=4),
    Work("train_digits", digits, tolerance=2e-3, results=4),
    Work("chain100", two(8), per=100),
    Work("call", two(8)),
]
# Rows of opencl.py alone.
MORE = [
    Work("row_sum_4096", one(4096, 4096), flops=MANY, bytes=4 * MANY, tolerance=1e-2),
    Work("column_sum_4096", one(4096, 4096), flops=MANY, bytes=4 * MANY, tolerance=1e-2),
    Work("gelu_16M", one(4096, 4096), flops=8 * MANY, bytes=8 * MANY),
]
WORKS = {work.name: work for work in LIST + MORE}
