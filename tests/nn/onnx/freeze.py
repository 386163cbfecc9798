#!/usr/bin/env python3
"""Freezes models of ONNX with the command line and runs them: freeze.py --aster bin/aster

A residual net of convolutions with normalisation and a decoder block, as exporters write them
(shapes computed from shapes, an open batch). Executables give the bits of `aster run`, which are
close to what onnx's reference evaluator says. 77 where the packages are not here.
"""

import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    python = os.environ.get("ASTER_ML_PYTHON")
    if python and not os.environ.get("ASTER_ML_PYTHON_AGAIN"):
        os.environ["ASTER_ML_PYTHON_AGAIN"] = "1"
        os.execv(python, [python, *sys.argv])
    print("SKIPPED: needs a Python with numpy and onnx: set ASTER_ML_PYTHON to one")
    sys.exit(77)

RANDOM = np.random.default_rng(5)


class Graph:
    """Nodes and weights of a model that is being written."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def weight(self, *shape, value=None):
        array = RANDOM.standard_normal(shape).astype(np.float32) * 0.2 if value is None else value
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def model(self, shape, output):
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual():
    g = Graph()

    def convolution(x, inputs, outputs):
        x = g.add("Conv", x, g.weight(outputs, inputs, 3, 3), pads=[1, 1, 1, 1])
        scale, mean = (g.weight(value=RANDOM.random(outputs, np.float32)) for _ in range(2))
        return g.add("BatchNormalization", x, scale, g.weight(outputs), mean, scale)

    x = g.add("Relu", convolution("x", 3, 16))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = g.add("Relu", g.add("Add", convolution(g.add("Relu", convolution(x, 16, 16)), 16, 16), x))
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(["batch", 3, 20, 24], g.add("Gemm", x, g.weight(16, 10), g.weight(10)))


def decoder():
    """One block: causal attention of 2 heads of 16, and two layers."""
    g = Graph()
    shape = g.add("Shape", "x")
    tokens = g.add("Gather", shape, g.weight(value=np.int64(1)))
    batch = g.add("Gather", shape, g.weight(value=np.int64(0)))
    batch, tokens = (g.add("Unsqueeze", n, g.weight(value=np.array([0]))) for n in (batch, tokens))
    heads = g.add("Concat", batch, tokens, g.weight(value=np.array([2, 16])), axis=0)
    normal = g.add("LayerNormalization", "x", g.weight(32), g.weight(32), axis=-1)

    def part():
        x = g.add("Reshape", g.add("MatMul", normal, g.weight(32, 32)), heads)
        return g.add("Transpose", x, perm=[0, 2, 1, 3])

    q, k, v = part(), part(), part()
    scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.add("Mul", scores, g.weight(value=np.float32(0.25)))
    square = g.add("Concat", tokens, tokens, axis=0)
    one = numpy_helper.from_array(np.array([1], np.float32))
    ones = g.add("ConstantOfShape", square, value=one)
    mask = g.add("Cast", g.add("Trilu", ones, upper=0), to=TensorProto.BOOL)
    scores = g.add("Where", mask, scores, g.weight(value=np.float32(-1e9)))
    mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), v)
    mixed = g.add("Reshape", g.add("Transpose", mixed, perm=[0, 2, 1, 3]), shape)
    x = g.add("Add", "x", g.add("MatMul", mixed, g.weight(32, 32)))
    hidden = g.add("MatMul", x, g.weight(32, 64))
    hidden = g.add("Mul", hidden, g.add("Sigmoid", hidden))
    x = g.add("Add", x, g.add("MatMul", hidden, g.weight(64, 32)))
    return g.model(["batch", "tokens", 32], x)


def decides():
    """A model whose way depends on its input."""
    y = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    nodes = [helper.make_node(op, ["x"], ["z"]) for op in ("Neg", "Abs")]
    ways = [helper.make_graph([node], node.op_type, [], [y]) for node in nodes]
    g = Graph()
    first = g.add("ReduceSum", "x", keepdims=0)
    condition = g.add("Greater", first, g.weight(value=np.float32(0)))
    return g.model([3], g.add("If", condition, then_branch=ways[0], else_branch=ways[1]))


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check_model(aster, name, model, shape, sizes):
    onnx.save(model, f"{name}.onnx")
    x = RANDOM.standard_normal(shape).astype(np.float32)
    np.save("x.npy", x)
    os.makedirs("out", exist_ok=True)
    for command in (
        [aster, "freeze", f"{name}.onnx", "-o", name, "--size", sizes],
        [f"./{name}", "x.npy", "frozen.npy"],
        [aster, "run", f"{name}.onnx", "--inputs", ".", "--outputs", "out", "--format", "npy"],
    ):
        result = run(*command)
        assert result.returncode == 0, (command, result.stderr)
    frozen, engine = np.load("frozen.npy"), np.load("out/output_0.npy")
    assert frozen.shape == engine.shape and frozen.dtype == engine.dtype
    assert frozen.tobytes() == engine.tobytes(), np.abs(frozen - engine).max()
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(frozen, expected, rtol=2e-4, atol=2e-5)
    needed = run("readelf", "-d", name).stdout
    assert "NEEDED" in needed and "stdc++" not in needed and "aster" not in needed, needed


def check_refusals(aster):
    onnx.save(decides(), "decides.onnx")
    before = set(os.listdir("."))
    for arguments, said in (
        (["residual.onnx", "-o", "no"], "--size batch=VALUE is needed"),
        (["decides.onnx", "-o", "no"], "values of its inputs"),
        (["residual.onnx", "-o", "no", "--size", "batch"], "NAME=VALUE is needed"),
        (["residual.onnx", "-o", "no", "--size", "batch=1", "--target", "vax"], "target 'vax'"),
        (["residual.onnx", "-o", "no/where", "--size", "batch=1"], "no such file"),
        (["nothing.onnx", "-o", "no"], "nothing.onnx"),
        (["residual.onnx"], "--output is needed"),
    ):
        result = run(aster, "freeze", *arguments)
        assert result.returncode in (1, 2) and said in result.stderr, (arguments, result.stderr)
        assert result.stderr.count("\n") == 1, result.stderr
        assert set(os.listdir(".")) == before, arguments


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aster", required=True)
    aster = os.path.abspath(parser.parse_args().aster)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_model(aster, "residual", residual(), (2, 3, 20, 24), "batch=2")
        check_model(aster, "decoder", decoder(), (1, 9, 32), "batch=1,tokens=9")
        check_refusals(aster)
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
