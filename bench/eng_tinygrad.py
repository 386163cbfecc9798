"""tinygrad, jitted, on the CPU through clang."""

import importlib.metadata
import os

os.environ.setdefault("DEV", "CPU")

import numpy as np  # noqa: E402
import tinygrad  # noqa: E402
import transformer  # noqa: E402
from tinygrad import Device, Tensor, TinyJit, nn  # noqa: E402
from tinygrad.helpers import Context  # noqa: E402


def perceptron(p, x):
    for i in range(3):
        x = x @ p[f"w{i}"] + p[f"b{i}"]
        x = x.relu() if i < 2 else x
    return x


def digits_loss(p, x, t):
    x = x.conv2d(p["c0_w"], p["c0_b"], padding=1).relu().max_pool2d()
    x = x.conv2d(p["c1_w"], p["c1_b"], padding=1).relu().max_pool2d()
    return (x.flatten(1) @ p["fc_w"].T + p["fc_b"]).sparse_categorical_crossentropy(t)


def chain(p, x, y):
    for _ in range(100):
        x = (x + y).contiguous()
    return x


PRODUCTS = "gemm_64 gemm_256 gemm_1024 bmm_64x128".split()
FUNCTIONS = {
    "add_16M": lambda p, x, y: x + y,
    "sum_16M": lambda p, x: x.sum(),
    "gelu_fma_16M": lambda p, x, a, b, c: (x * a + b).gelu() * c,
    "softmax_4096": lambda p, x: x.softmax(1),
    "layernorm_4096x1024": lambda p, x, g, b: x.layernorm() * g + b,
    **{name: (lambda p, x, y: x @ y) for name in PRODUCTS},
    "conv3x3_n1c64": lambda p, x: x.conv2d(p["w"], p["b"], padding=1),
    "conv3x3_n8c128": lambda p, x: x.conv2d(p["w"], p["b"], padding=1),
    "maxpool3s2": lambda p, x: x.max_pool2d(3, 2, padding=1),
    "argmax_4096": lambda p, x: x.argmax(1),
    "transpose_4096": lambda p, x: x.T.contiguous(),
    "strided_sum": lambda p, x: x[:, ::2].sum(),
    "permute_0213": lambda p, x: x.permute(0, 2, 1, 3).contiguous(),
    "attention": lambda p, q, k, v: q.scaled_dot_product_attention(k, v),
    "mlp_b1": perceptron,
    "mlp_b128": perceptron,
    "chain100": chain,
    "call": lambda p, x, y: x + y,
}


class Engine:
    def __init__(self, threads):
        self.device = Device[Device.DEFAULT]

    def version(self):
        return "tinygrad " + importlib.metadata.version("tinygrad")

    def build(self, name, inputs, parameters):
        narrow = [v.astype(np.int32) if v.dtype == np.int64 else v for v in inputs.values()]
        arguments = [Tensor(v).realize() for v in narrow]
        p = {k: Tensor(v).realize() for k, v in parameters.items()}
        if name == "train_digits":
            adam = nn.optim.Adam(list(p.values()), lr=0.003)

            @TinyJit
            def call(x, t):
                with Context(TRAINING=1):
                    loss = digits_loss(p, x, t)
                    adam.zero_grad()
                    loss.backward()
                    return loss.realize(*adam.schedule_step())

        elif name == "train_char":
            call = transformer.training(tinygrad, nn, parameters, arguments)
            arguments = []
        elif name in FUNCTIONS:
            call = TinyJit(lambda *a: FUNCTIONS[name](p, *a).realize())
        else:
            raise NotImplementedError("no row")

        def run():
            result = call(*arguments)
            self.device.synchronize()
            return result

        return run

    def to_np(self, result):
        return result.numpy()
