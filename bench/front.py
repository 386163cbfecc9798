"""What tinygrad and what has its interface do for a row, jitted."""

import numpy as np
import transformer


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
    "row_sum_4096": lambda p, x: x.sum(1),
    "column_sum_4096": lambda p, x: x.sum(0),
    "gelu_16M": lambda p, x: x.gelu(),
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
    """Of a library: tinygrad, or one like it."""

    def __init__(self, library):
        self.library = library

    def wait(self):
        """Until everything that was begun is done."""

    def training(self, p, x, t):
        library = self.library
        adam = library.nn.optim.Adam(list(p.values()), lr=0.003)

        @library.TinyJit
        def step(x, t):
            with library.Context(TRAINING=1):
                loss = digits_loss(p, x, t)
                adam.zero_grad()
                loss.backward()
                return loss.realize(*adam.schedule_step())

        return step

    def build(self, name, inputs, parameters):
        tensor = self.library.Tensor
        narrow = [v.astype(np.int32) if v.dtype == np.int64 else v for v in inputs.values()]
        arguments = [tensor(v).realize() for v in narrow]
        p = {k: tensor(v).realize() for k, v in parameters.items()}
        if name == "train_digits":
            call = self.training(p, *arguments)
        elif name == "train_char":
            call = transformer.training(self.library, self.library.nn, parameters, arguments)
            arguments = []
        elif name in FUNCTIONS:
            call = self.library.TinyJit(lambda *a: FUNCTIONS[name](p, *a).realize())
        else:
            raise NotImplementedError("no row")

        def run():
            result = call(*arguments)
            self.wait()
            return result

        return run

    def to_np(self, result):
        return result.numpy()
