"""Models of known shapes as ONNX files, random weights: what bench/onnx_runtime.py measures.

    python3 bench/onnx_models.py DIR [NAME...]
"""

import pathlib
import sys

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


class Graph:
    """Nodes one after another; weights are drawn when they are named."""

    def __init__(self, seed=0):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(seed)

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def array(self, value, dtype=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values):
        return self.array(values, np.int64)

    def normal(self, *shape, scale=None):
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
        return self.array(self.rng.standard_normal(shape) * (scale or fan**-0.5))

    def model(self, inputs, outputs):
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info(*value) for value in inputs],
            [helper.make_tensor_value_info(*value) for value in outputs],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        checker.check_model(made)
        return made

    # ---- Layers ----

    def conv(self, x, outs, ins, size, stride=1, group=1, relu="Relu"):
        w = self.normal(outs, ins // group, size, size)
        options = dict(strides=[stride] * 2, pads=[size // 2] * 4, group=group)
        x = self("Conv", x, w, self.normal(outs), kernel_shape=[size] * 2, **options)
        if relu == "Clip":
            return self("Clip", x, self.array(0.0), self.array(6.0))
        return self(relu, x) if relu else x

    def head(self, x, ins, classes=1000):
        x = self("Flatten", self("GlobalAveragePool", x))
        return self("Gemm", x, self.normal(classes, ins), self.normal(classes), transB=1)

    def linear(self, x, ins, outs):
        return self("Add", self("MatMul", x, self.normal(ins, outs)), self.normal(outs))

    def norm(self, x, width):
        return self("LayerNormalization", x, self.normal(width), self.normal(width), axis=-1)

    def sizes(self, x, *parts):
        """A shape as exporters write it: numbers, and axes of x in brackets."""
        shape = self("Shape", x)
        found = []
        for part in parts:
            if isinstance(part, list):
                one = self("Gather", shape, self.array(part[0], np.int64), axis=0)
                found.append(self("Unsqueeze", one, self.ints(0)))
            else:
                found.append(self.ints(part))
        return self("Concat", *found, axis=0)


def mlp(batch="batch"):
    g = Graph()
    x, widths = "x", [784, 512, 512, 10]
    for ins, outs in zip(widths, widths[1:]):
        x = g("Gemm", x, g.normal(outs, ins), g.normal(outs), transB=1)
        x = x if outs == 10 else g("Relu", x)
    return g.model([("x", F32, [batch, 784])], [(x, F32, [batch, 10])])


def resnet18(batch="batch", size=224, widths=(64, 128, 256, 512)):
    g = Graph()
    x = g.conv("x", widths[0], 3, 7, 2)
    x = g("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    ins = widths[0]
    for stage, outs in enumerate(widths):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            y = g.conv(g.conv(x, outs, ins, 3, stride), outs, outs, 3, relu=None)
            short = x if ins == outs else g.conv(x, outs, ins, 1, stride, relu=None)
            x, ins = g("Relu", g("Add", y, short)), outs
    y = g.head(x, ins)
    return g.model([("x", F32, [batch, 3, size, size])], [(y, F32, [batch, 1000])])


def mobilenetv2(batch="batch", size=224):
    g = Graph()
    x, ins = g.conv("x", 32, 3, 3, 2, relu="Clip"), 32
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
    for times, outs, count, first in (*rows, (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(count):
            stride, wide = (first if k == 0 else 1), ins * times
            y = x if times == 1 else g.conv(x, wide, ins, 1, relu="Clip")
            y = g.conv(y, wide, wide, 3, stride, group=wide, relu="Clip")
            y = g.conv(y, outs, wide, 1, relu=None)
            x = g("Add", x, y) if stride == 1 and ins == outs else y
            ins = outs
    y = g.head(g.conv(x, 1280, ins, 1, relu="Clip"), 1280)
    return g.model([("x", F32, [batch, 3, size, size])], [(y, F32, [batch, 1000])])


def attend(g, x, q, k, v, width, heads, mask=None):
    one = width // heads
    q = g("Mul", q, g.array(one**-0.5))
    scores = g("MatMul", q, k)
    if mask is not None:
        scores = g("Add", scores, mask)
    y = g("MatMul", g("Softmax", scores, axis=-1), v)
    y = g("Transpose", y, perm=[0, 2, 1, 3])
    return g.linear(g("Reshape", y, g.sizes(x, [0], [1], width)), width, width)


def split_heads(g, x, source, width, heads, perm):
    y = g("Reshape", x, g.sizes(source, [0], [1], heads, width // heads))
    return g("Transpose", y, perm=perm)


def bert(batch="batch", length="length", layers=12, width=768, heads=12, words=30522):
    """An encoder; attention by a mask of the words that are there."""
    g = Graph()
    x = g("Gather", g.normal(words, width, scale=0.02), "ids")
    size = g("Gather", g("Shape", "ids"), g.array(1, np.int64), axis=0)
    places = g("Range", g.array(0, np.int64), size, g.array(1, np.int64))
    x = g("Add", x, g("Gather", g.normal(512, width, scale=0.02), places))
    x = g.norm(x, width)
    mask = g("Cast", g("Unsqueeze", "mask", g.ints(1, 2)), to=F32)
    mask = g("Mul", g("Sub", g.array(1.0), mask), g.array(-1e4))
    for _ in range(layers):
        q, k, v = (
            split_heads(g, g.linear(x, width, width), x, width, heads, perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        x = g.norm(g("Add", x, attend(g, x, q, k, v, width, heads, mask)), width)
        y = g.linear(x, width, 4 * width)
        half = g("Erf", g("Div", y, g.array(2**0.5)))
        y = g("Mul", g("Mul", y, g("Add", half, g.array(1.0))), g.array(0.5))
        x = g.norm(g("Add", x, g.linear(y, 4 * width, width)), width)
    inputs = [("ids", I64, [batch, length]), ("mask", I64, [batch, length])]
    return g.model(inputs, [(x, F32, [batch, length, width])])


def gpt2(length=128, past=0, layers=12, width=768, heads=12, words=50257):
    """A decoder: keys and values of the words before come in and go out, scores of the last."""
    g = Graph()
    wte = g.normal(words, width, scale=0.02)
    places = g.array(np.arange(past, past + length), np.int64)
    x = g("Add", g("Gather", wte, "ids"), g("Gather", g.normal(1024, width, scale=0.02), places))
    mask = None
    if length > 1:
        mask = g.array(np.triu(np.full((length, past + length), -1e4), past + 1))
    inputs, outputs = [("ids", I64, [1, length])], []
    for layer in range(layers):
        y = g.linear(g.norm(x, width), width, 3 * width)
        parts = g("Split", y, axis=2, num_outputs=3, outputs=3)
        q, k, v = (split_heads(g, p, x, width, heads, [0, 2, 1, 3]) for p in parts)
        if past:
            for name in (f"k{layer}", f"v{layer}"):
                inputs.append((name, F32, [1, heads, past, width // heads]))
            k, v = g("Concat", f"k{layer}", k, axis=2), g("Concat", f"v{layer}", v, axis=2)
        outputs += [(n, F32, [1, heads, past + length, width // heads]) for n in (k, v)]
        turned = g("Transpose", k, perm=[0, 1, 3, 2])
        x = g("Add", x, attend(g, x, q, turned, v, width, heads, mask))
        y = g("Gelu", g.linear(g.norm(x, width), width, 4 * width), approximate="tanh")
        x = g("Add", x, g.linear(y, 4 * width, width))
    last = g("Gather", g.norm(x, width), g.array(-1, np.int64), axis=1)
    scores = g("Gemm", last, wte, transB=1)
    return g.model(inputs, [(scores, F32, [1, words]), *outputs])


def lstm(length=64, batch=8, width=256):
    """Two layers over a sequence."""
    g = Graph()
    x = "x"
    for _ in range(2):
        w, r = g.normal(1, 4 * width, width), g.normal(1, 4 * width, width, scale=width**-0.5)
        b = g.normal(1, 8 * width, scale=0.1)
        x = g("LSTM", x, w, r, b, hidden_size=width, outputs=3)[0]
        x = g("Squeeze", x, g.ints(1))
    return g.model([("x", F32, [length, batch, width])], [(x, F32, [length, batch, width])])


def quantised(batch="batch", size=56, width=64, layers=6):
    """Convolutions between pairs of QuantizeLinear and DequantizeLinear, weights in int8."""
    g = Graph()

    def pair(x):
        scale, zero = g.array(0.05), g.array(128, np.uint8)
        return g("DequantizeLinear", g("QuantizeLinear", x, scale, zero), scale, zero)

    x, ins = pair("x"), width
    for _ in range(layers):
        w = g.array(g.rng.integers(-127, 128, (width, ins, 3, 3)), np.int8)
        w = g("DequantizeLinear", w, g.array(np.full(width, 0.002)), axis=0)
        x = g("Conv", x, w, g.normal(width), kernel_shape=[3, 3], pads=[1] * 4)
        x = pair(g("Relu", x))
    w = g.array(g.rng.integers(-127, 128, (1000, width)), np.int8)
    w = g("DequantizeLinear", w, g.array(np.full(1000, 0.002)), axis=0)
    x = pair(g("Flatten", g("GlobalAveragePool", x)))
    y = g("Gemm", x, w, g.normal(1000), transB=1)
    return g.model([("x", F32, [batch, width, size, size])], [(y, F32, [batch, 1000])])


def chain(count=10_000):
    """Elementwise nodes one after another."""
    g = Graph()
    x, two = "x", g.array(1.5)
    for i in range(count):
        x = g("Add", x, two) if i % 2 else g("Tanh", x)
    return g.model([("x", F32, [16])], [(x, F32, [16])])


MODELS = {
    "mlp": mlp,
    "resnet18": resnet18,
    "mobilenetv2": mobilenetv2,
    "bert": bert,
    "gpt2_prefill": gpt2,
    "gpt2_token": lambda: gpt2(1, 128),
    "lstm": lstm,
    "int8": quantised,
    "nodes_10000": chain,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        save(MODELS[name](), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
