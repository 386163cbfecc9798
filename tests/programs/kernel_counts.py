"""Kernels that tinygrad 0.14.0 schedules for the programs of kernel_counts_test.cpp.

Writes kernel_counts.tsv.

Run with the oracle's Python: python tests/programs/kernel_counts.py
"""
import math
import os

from tinygrad import Tensor, dtypes
from tinygrad.helpers import GlobalCounters


def t(*shape, seed=1):
    Tensor.manual_seed(seed)
    return Tensor.rand(*shape).clone().realize()


def labels(n, classes):
    return Tensor([i % classes for i in range(n)], dtype=dtypes.int32).clone().realize()


PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make




def square():
    return t(64, 64)


@program
def add():
    a, b = square(), t(64, 64, seed=2)
    return lambda: [a + b]


@program
def elementwise_chain():
    a, b = square(), t(64, 64, seed=2)
    return lambda: [((a + b) * a - b) / (a + 2)]


@program
def gelu_affine():
    x, a, b, c = square(), t(64), t(64, seed=2), t(64, seed=3)
    return lambda: [(x * a + b).gelu() * c]


@program
def sum_all():
    x = square()
    return lambda: [x.sum()]


@program
def sum_rows():
    x = square()
    return lambda: [x.sum(1)]


@program
def sum_columns():
    x = square()
    return lambda: [x.sum(0)]


@program
def sum_large():
    x = t(512, 512)
    return lambda: [x.sum()]


@program
def mean_and_variance():
    x = square()
    return lambda: [x.mean(1), x.var(1)]


@program
def softmax():
    x = square()
    return lambda: [x.softmax(1)]


@program
def log_softmax():
    x = square()
    return lambda: [x.log_softmax(1)]


@program
def logsumexp():
    x = square()
    return lambda: [x.logsumexp(1)]


@program
def layer_norm():
    x, w, b = square(), t(64), t(64, seed=2)
    return lambda: [x.layernorm() * w + b]


@program
def batch_norm_training():
    x, w, b = t(16, 8, 4, 4), t(8), t(8, seed=2)

    def run():
        mean = x.mean((0, 2, 3))
        var = (x - mean.reshape(1, -1, 1, 1)).square().mean((0, 2, 3))
        return [x.batchnorm(w, b, mean, (var + 1e-5).rsqrt())]
    return run


@program
def cross_entropy():
    x, y = t(64, 10), labels(64, 10)
    return lambda: [x.sparse_categorical_crossentropy(y)]


@program
def matmul():
    a, b = square(), t(64, 64, seed=2)
    return lambda: [a @ b]


@program
def matmul_bias_relu():
    a, b, c = square(), t(64, 64, seed=2), t(64)
    return lambda: [(a @ b + c).relu()]


@program
def matmul_transposed():
    a, b = square(), t(64, 64, seed=2)
    return lambda: [a @ b.T]


@program
def batched_matmul():
    a, b = t(4, 16, 16), t(4, 16, 16, seed=2)
    return lambda: [a @ b]


@program
def perceptron():
    x, w0, w1, w2 = t(16, 64), t(64, 32), t(32, 32, seed=2), t(32, 10, seed=3)
    return lambda: [((x @ w0).relu() @ w1).relu() @ w2]


@program
def convolution():
    x, w = t(4, 3, 12, 12), t(8, 3, 3, 3)
    return lambda: [x.conv2d(w, padding=1)]


@program
def convolution_bias_relu():
    x, w, b = t(4, 3, 12, 12), t(8, 3, 3, 3), t(8)
    return lambda: [x.conv2d(w, b, padding=1).relu()]


@program
def convolution_pool():
    x, w, b = t(4, 3, 12, 12), t(8, 3, 3, 3), t(8)
    return lambda: [x.conv2d(w, b, padding=1).relu().max_pool2d((2, 2))]


@program
def max_pool():
    x = t(4, 3, 12, 12)
    return lambda: [x.max_pool2d((2, 2))]


@program
def average_pool():
    x = t(4, 3, 12, 12)
    return lambda: [x.avg_pool2d((2, 2))]


@program
def add_transposed():
    a, b = square(), t(64, 64, seed=2)
    return lambda: [a + b.T]


@program
def pad_and_slice():
    x = square()
    return lambda: [x.pad(((1, 1), (0, 0)))[2:, :] + x]


@program
def concatenate():
    a, b = square(), t(64, 64, seed=2)
    return lambda: [a.cat(b, dim=1) * 2]


@program
def argmax_rows():
    x = square()
    return lambda: [x.argmax(1)]


@program
def attention():
    q, k, v = t(4, 16, 8), t(4, 16, 8, seed=2), t(4, 16, 8, seed=3)
    return lambda: [(q @ k.transpose(1, 2) / math.sqrt(8)).softmax(-1) @ v]


@program
def assign_add():
    x = square()
    return lambda: [x.assign(x + 1)]


@program
def adam_step():
    p, g, m, v = t(64, 32), t(64, 32, seed=2), t(64, 32, seed=3), t(64, 32, seed=4)

    def run():
        m.assign(m * 0.9 + g * 0.1)
        v.assign(v * 0.999 + g * g * 0.001)
        p.assign(p - 0.001 * m / (v.sqrt() + 1e-8))
        return [p, m, v]
    return run


@program
def regression_gradient():
    x, w, y = t(32, 16), t(16, 4), t(32, 4, seed=2)

    def run():
        loss = (x @ w - y).square().mean()
        return [loss, *loss.gradient(w)]
    return run


@program
def perceptron_gradients():
    x, w0, w1, y = t(32, 16), t(16, 24), t(24, 10, seed=2), labels(32, 10)

    def run():
        loss = ((x @ w0).relu() @ w1).sparse_categorical_crossentropy(y)
        return [loss, *loss.gradient(w0, w1)]
    return run


@program
def convolution_training_step():
    x, w, b, f, y = t(16, 1, 8, 8), t(8, 1, 3, 3), t(8), t(128, 10), labels(16, 10)

    def run():
        h = x.conv2d(w, b, padding=1).relu().max_pool2d((2, 2)).flatten(1)
        loss = (h @ f).sparse_categorical_crossentropy(y)
        grads = loss.gradient(w, b, f)
        for parameter, grad in zip((w, b, f), grads):
            parameter.assign(parameter - grad * 0.1)
        return [loss, w, b, f]
    return run


def main():
    rows = []
    for name, make in PROGRAMS.items():
        run = make()
        tensors = run()
        GlobalCounters.reset()
        Tensor.realize(*tensors)
        rows.append(f"{name}\t{GlobalCounters.kernel_count}\n")
        print(rows[-1], end="")
    with open(os.path.join(os.path.dirname(__file__), "kernel_counts.tsv"), "w") as out:
        out.writelines(rows)


if __name__ == "__main__":
    main()
