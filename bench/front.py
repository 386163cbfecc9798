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


def conv_net_loss(p, x, t):
    x = x.conv2d(p["c0_w"], p["c0_b"], padding=1).relu().max_pool2d()
    x = x.conv2d(p["c1_w"], p["c1_b"], padding=1).relu().max_pool2d()
    return (x.flatten(1) @ p["fc_w"] + p["fc_b"]).sparse_categorical_crossentropy(t)


def resnet18(p, x):
    def layer(x, name, stride, padding):
        return x.conv2d(p[name + "_w"], p[name + "_b"], stride=stride, padding=padding)

    x = layer(x, "stem", 2, 3).relu().max_pool2d(3, 2, padding=1)
    for stage in range(4):
        for block in range(2):
            stride, name = (2 if stage > 0 and block == 0 else 1), f"s{stage}b{block}"
            y = layer(layer(x, name + "c1", stride, 1).relu(), name + "c2", 1, 1)
            x = (y + (layer(x, name + "d", stride, 0) if stride == 2 else x)).relu()
    return x.mean((2, 3)) @ p["fc_w"] + p["fc_b"]


def gpt2(p, x, attend):
    """The logits behind the last of x, embedded words; attend(layer, q, k, v)."""
    length = x.shape[1]

    def norm(x, name):
        return x.layernorm() * p[name + "_g"] + p[name + "_b"]

    def linear(x, name):
        return x @ p[name + "_w"] + p[name + "_b"]

    for k in range(12):
        heads = linear(norm(x, f"{k}ln1"), f"{k}qkv").reshape(1, length, 3, 12, 64)
        y = attend(k, *(heads[:, :, i].transpose(1, 2) for i in range(3)))
        x = x + linear(y.transpose(1, 2).reshape(1, length, 768), f"{k}o")
        x = x + linear(linear(norm(x, f"{k}ln2"), f"{k}up").gelu(), f"{k}down")
    return norm(x[:, -1], "lnf") @ p["wte"].T


def prefill(p, words):
    x = p["wte"][words] + p["wpe"][: words.shape[1]]
    return gpt2(p, x, lambda k, q, key, value: q.scaled_dot_product_attention(
        key, value, is_causal=True))


def decode(p, words, keys, values):
    def attend(k, q, key, value):
        keys[k, :, 127:128].assign(key[0])
        values[k, :, 127:128].assign(value[0])
        return q.scaled_dot_product_attention(keys[k : k + 1], values[k : k + 1])

    return gpt2(p, p["wte"][words] + p["wpe"][127:128], attend)


def chain(p, x, y):
    for _ in range(100):
        x = (x + y).contiguous()
    return x


PRODUCTS = "gemm_64 gemm_256 gemm_1024 gemm_4096 dgemm_1024 gemv_4096 bmm_64x128".split()
# Training steps: the loss, and the rate of Adam.
TRAINED = {"train_digits": (digits_loss, 0.003), "train_conv": (conv_net_loss, 0.001)}
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
    "attn_causal": lambda p, q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
    "dwconv3x3": lambda p, x: x.conv2d(p["w"], p["b"], padding=1, groups=128),
    "cumsum_4096": lambda p, x: x.cumsum(1),
    "gather_rows": lambda p, x, i: x[i],
    "resnet18_b1": resnet18,
    "gpt2_prefill128": prefill,
    "gpt2_decode": decode,
    "mlp_b1": perceptron,
    "mlp_b128": perceptron,
    "chain100": chain,
    "call": lambda p, x, y: x + y,
}


class Engine:
    """Of a library: tinygrad, or one like it. recorded: what its TinyJit takes for parameters that
    stay."""

    def __init__(self, library, **recorded):
        self.library, self.recorded = library, recorded

    def wait(self):
        """Until everything that was begun is done."""

    def training(self, loss_of, rate, p):
        library = self.library
        adam = library.nn.optim.Adam(list(p.values()), lr=rate)

        @library.TinyJit
        def step(x, t):
            with library.Context(TRAINING=1):
                loss = loss_of(p, x, t)
                adam.zero_grad()
                loss.backward()
                return loss.realize(*adam.schedule_step())

        return step

    def build(self, name, inputs, parameters):
        tensor = self.library.Tensor
        narrow = [v.astype(np.int32) if v.dtype == np.int64 else v for v in inputs.values()]
        arguments = [tensor(v).realize() for v in narrow]
        p = {k: tensor(v).realize() for k, v in parameters.items()}
        if name in TRAINED:
            call = self.training(*TRAINED[name], p)
        elif name == "train_char":
            call = transformer.training(self.library, self.library.nn, parameters, arguments)
            arguments = []
        elif name in FUNCTIONS:
            function = FUNCTIONS[name]
            call = self.library.TinyJit(lambda *a: function(p, *a).realize(), **self.recorded)
        else:
            raise NotImplementedError("no row")

        def run():
            result = call(*arguments)
            self.wait()
            return result

        return run

    def to_np(self, result):
        return result.numpy()
