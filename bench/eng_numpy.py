"""NumPy, as one would write it."""

import numpy as np


def gelu(x):
    inner = np.float32(0.7978845608) * (x + np.float32(0.044715) * (x * x * x))
    return np.float32(0.5) * x * (1 + np.tanh(inner))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def layernorm(x, g, b):
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + np.float32(1e-5)) * g + b


def perceptron(p, x):
    for i in range(3):
        x = x @ p[f"w{i}"] + p[f"b{i}"]
        x = np.maximum(x, 0) if i < 2 else x
    return x


PRODUCTS = "gemm_64 gemm_256 gemm_1024 gemm_4096 dgemm_1024 gemv_4096 bmm_64x128".split()
FUNCTIONS = {
    "add_16M": lambda p, x, y: x + y,
    "sum_16M": lambda p, x: x.sum(),
    "gelu_fma_16M": lambda p, x, a, b, c: gelu(x * a + b) * c,
    "softmax_4096": lambda p, x: softmax(x),
    "layernorm_4096x1024": lambda p, x, g, b: layernorm(x, g, b),
    **{name: (lambda p, x, y: x @ y) for name in PRODUCTS},
    "argmax_4096": lambda p, x: x.argmax(1),
    "transpose_4096": lambda p, x: np.ascontiguousarray(x.T),
    "strided_sum": lambda p, x: x[:, ::2].sum(),
    "permute_0213": lambda p, x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)),
    "attention": lambda p, q, k, v: softmax(q @ k.swapaxes(-1, -2) * np.float32(0.125)) @ v,
    "cumsum_4096": lambda p, x: x.cumsum(1),
    "gather_rows": lambda p, x, i: x[i],
    "mlp_b1": perceptron,
    "mlp_b128": perceptron,
}


class Engine:
    def __init__(self, threads):
        pass

    def version(self):
        return "numpy " + np.__version__

    def build(self, name, inputs, parameters):
        if name not in FUNCTIONS:
            raise NotImplementedError("no row")
        function, arguments = FUNCTIONS[name], list(inputs.values())
        return lambda: function(parameters, *arguments)

    def to_np(self, result):
        return np.asarray(result)
