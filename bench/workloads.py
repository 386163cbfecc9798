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


def products(n, dtype=F32):
    return lambda: ({"x": normal(n, n).astype(dtype), "y": normal(n, n, seed=1).astype(dtype)}, {})


def depthwise():
    weight = normal(128, 1, 3, 3, seed=1, scale=0.3)
    return {"x": normal(1, 128, 112, 112)}, {"w": weight, "b": normal(128, seed=2)}


def rows_by_index():
    places = np.random.default_rng(3).integers(0, 32000, 8192).astype(np.int64)
    return {"x": normal(32000, 768), "i": places}, {}


def resnet18():
    """Its normalisations are folded into weights and biases."""
    parameters = {}

    def layer(name, filters, channels, size):
        seed, scale = 100 + len(parameters), 0.7 * (2 / (channels * size * size)) ** 0.5
        parameters[name + "_w"] = normal(filters, channels, size, size, seed=seed, scale=scale)
        parameters[name + "_b"] = normal(filters, seed=seed + 1, scale=0.05)

    layer("stem", 64, 3, 7)
    channels = 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name = f"s{stage}b{block}"
            layer(name + "c1", filters, channels, 3)
            layer(name + "c2", filters, filters, 3)
            if stage > 0 and block == 0:
                layer(name + "d", filters, channels, 1)
            channels = filters
    parameters["fc_w"] = normal(512, 1000, seed=900, scale=512**-0.5)
    parameters["fc_b"] = normal(1000, seed=901, scale=0.1)
    return {"x": normal(1, 3, 224, 224)}, parameters


GPT2_LAYERS, GPT2_WIDTH, GPT2_WORDS = 12, 768, 50257


def gpt2():
    d, words = GPT2_WIDTH, GPT2_WORDS
    p = {"wte": normal(words, d, seed=1, scale=0.02), "wpe": normal(1024, d, seed=2, scale=0.01),
         "lnf_g": 1 + normal(d, seed=3, scale=0.1), "lnf_b": normal(d, seed=4, scale=0.1)}
    for k in range(GPT2_LAYERS):
        for j, (name, rows, columns) in enumerate([("qkv", d, 3 * d), ("o", d, d), ("up", d, 4 * d),
                                                   ("down", 4 * d, d)]):
            p[f"{k}{name}_w"] = normal(rows, columns, seed=1000 + 20 * k + j, scale=0.02)
            p[f"{k}{name}_b"] = normal(columns, seed=1008 + 20 * k + j, scale=0.02)
        for j, name in enumerate(("ln1", "ln2")):
            p[f"{k}{name}_g"] = 1 + normal(d, seed=1012 + 20 * k + j, scale=0.1)
            p[f"{k}{name}_b"] = normal(d, seed=1014 + 20 * k + j, scale=0.02)
    return p


def prefill():
    words = np.random.default_rng(0).integers(0, GPT2_WORDS, (1, 128)).astype(np.int64)
    return {"ids": words}, gpt2()


def decode():
    """One token at position 127: its keys and values go into caches of 128 positions."""
    caches = {n: normal(12, 12, 128, 64, seed=s, scale=0.5) for s, n in ((7, "kc"), (8, "vc"))}
    return {"ids": np.array([[42]], np.int64), **caches}, gpt2()


def conv_net():
    parameters = {
        "c0_w": normal(32, 1, 3, 3, seed=1, scale=0.4), "c0_b": np.zeros(32, F32),
        "c1_w": normal(64, 32, 3, 3, seed=2, scale=0.08), "c1_b": np.zeros(64, F32),
        "fc_w": normal(3136, 10, seed=3, scale=0.02), "fc_b": np.zeros(10, F32),
    }
    targets = np.random.default_rng(6).integers(0, 10, 64).astype(np.int64)
    return {"x": normal(64, 1, 28, 28, seed=5), "t": targets}, parameters


WEIGHTS = 784 * 512 + 512 * 512 + 512 * 10
GPT2_WEIGHTS = GPT2_LAYERS * 12 * GPT2_WIDTH**2 + GPT2_WORDS * GPT2_WIDTH
LIST = [
    Work("add_16M", two(4096, 4096), flops=MANY, bytes=12 * MANY),
    Work("sum_16M", one(4096, 4096), flops=MANY, bytes=4 * MANY, tolerance=1e-2),
    Work("gelu_fma_16M", gelu, flops=12 * MANY, bytes=8 * MANY),
    Work("softmax_4096", one(4096, 4096), bytes=8 * MANY),
    Work("layernorm_4096x1024", layernorm, bytes=2 * MANY),
    Work("gemm_64", two(64, 64), flops=2 * 64**3),
    Work("gemm_256", two(256, 256), flops=2 * 256**3),
    Work("gemm_1024", two(1024, 1024), flops=2 * 1024**3),
    Work("gemm_4096", products(4096), flops=2 * 4096**3),
    Work("dgemm_1024", products(1024, np.float64), flops=2 * 1024**3),
    Work("gemv_4096", lambda: ({"x": normal(4096, 4096), "y": normal(4096, seed=1)}, {}),
         flops=2 * MANY, bytes=4 * MANY),
    Work("bmm_64x128", two(64, 128, 128), flops=64 * 2 * 128**3),
    Work("conv3x3_n1c64", convolution(1, 64, 56), flops=2 * 56 * 56 * 64 * 64 * 9),
    Work("conv3x3_n8c128", convolution(8, 128, 28), flops=2 * 8 * 28 * 28 * 128 * 128 * 9),
    Work("dwconv3x3", depthwise, flops=2 * 128 * 112 * 112 * 9, bytes=8 * 128 * 112 * 112),
    Work("maxpool3s2", one(8, 64, 112, 112), bytes=5 * 8 * 64 * 112 * 112),
    Work("argmax_4096", one(4096, 4096), bytes=4 * MANY, tolerance=0),
    Work("cumsum_4096", one(4096, 4096), bytes=8 * MANY),
    Work("transpose_4096", one(4096, 4096), bytes=8 * MANY, tolerance=0),
    Work("strided_sum", one(4096, 4096), bytes=4 * MANY, tolerance=1e-2),
    Work("permute_0213", one(16, 512, 12, 64), bytes=8 * 16 * 512 * 768, tolerance=0),
    Work("gather_rows", rows_by_index, bytes=8 * 8192 * 768, tolerance=0),
    Work("attention", attention, flops=12 * 4 * 512 * 512 * 64),
    Work("attn_causal", attention, flops=12 * 2 * 512 * 512 * 64),
    Work("mlp_b1", perceptron(1), flops=2 * WEIGHTS, bytes=4 * WEIGHTS),
    Work("mlp_b128", perceptron(128), flops=2 * WEIGHTS * 128),
    Work("resnet18_b1", resnet18, flops=3.628e9, bytes=46.8e6, tolerance=1e-3),
    Work("gpt2_prefill128", prefill, tolerance=1e-3, bytes=4 * GPT2_WEIGHTS,
         flops=2 * 128 * 12 * 12 * 768**2 + 2 * GPT2_WORDS * 768 + 12 * 2 * 128 * 128 * 768),
    Work("gpt2_decode", decode, flops=2 * GPT2_WEIGHTS, bytes=4 * GPT2_WEIGHTS, tolerance=1e-3),
    Work("train_conv", conv_net, tolerance=5e-3, results=4,
         flops=64 * (2 * 784 * 32 * 9 * 2 + 3 * 2 * 196 * 64 * 288 + 6 * 31360)),
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
