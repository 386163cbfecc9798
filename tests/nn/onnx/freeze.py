#!/usr/bin/env python3
"""Freezes models of ONNX with the command line and runs them: freeze.py --aster bin/aster

A residual net of convolutions with normalisation and a decoder block, as exporters write them
(shapes computed from shapes, an open batch). Executables give the bits of `aster run`, which are
close to what onnx's reference evaluator says. ResNet-18 and a small GPT with its cache become
objects that a program in C is linked with. 77 where the packages are not here.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from packages import ReferenceEvaluator, TensorProto, helper, np, numpy_helper, onnx

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


def client(name):
    """A program in C: files of inputs, then files of outputs."""
    header = pathlib.Path(f"{name}.h").read_text(encoding="utf-8")
    words = re.search(r"_run\(void \*memory, (.*?)\);", header, re.S)[1].split(",")
    arrays = [re.fullmatch(r"\s*(const )?(\w+) \*(\w+)", word).groups() for word in words]
    upper = name.upper()
    lines = [f'#include "{name}.h"', "#include <stdio.h>"]
    lines.append(f"static _Alignas(64) char memory[{upper}_MEMORY_BYTES];")
    lines += [f"static {t} a_{n}[{upper}_COUNT_{n}];" for _, t, n in arrays]
    lines.append("int main(int argc, char **argv) {\n  FILE *file;")
    lines.append(f"  if (argc != {len(arrays) + 1} || {name}_init(memory) != 0) return 1;")
    moves = {True: [], False: []}
    for i, (constant, _, n) in enumerate(arrays):
        mode, call = ("rb", "fread") if constant else ("wb", "fwrite")
        moves[bool(constant)] += [
            f'  if ((file = fopen(argv[{i + 1}], "{mode}")) == NULL) return 2;',
            f"  if ({call}(a_{n}, sizeof a_{n}, 1, file) != 1 || fclose(file) != 0) return 3;",
        ]
    given = ", ".join(f"a_{n}" for _, _, n in arrays)
    run_it = f"  if ({name}_run(memory, {given}) != 0) return 4;"
    lines += [*moves[True], run_it, *moves[False], f"  {name}_free(memory);\n  return 0;\n}}\n"]
    pathlib.Path(f"{name}.c").write_text("\n".join(lines), encoding="utf-8")
    return [bool(constant) for constant, _, _ in arrays]


def check_linked(aster, name, model, inputs, sizes):
    """Bits of the engine from a program that cc links with the object and nothing else; valgrind
    finds nothing in code for any CPU, whose bits are its own."""
    onnx.save(model, f"{name}.onnx")
    os.makedirs(f"{name}_in")
    for i, array in enumerate(inputs.values()):
        np.save(f"{name}_in/input_{i}.npy", array)
    command = [aster, "run", f"{name}.onnx", "--inputs", f"{name}_in", "--outputs", f"{name}_out"]
    result = run(*command, "--format", "npy")
    assert result.returncode == 0, result.stderr
    wanted = [np.load(f"{name}_out/output_{i}.npy") for i in range(len(model.graph.output))]
    for target in ("native", "x86-64"):
        command = [aster, "freeze", f"{name}.onnx", "-o", f"{name}.o", "--target", target]
        result = run(*command, *sizes)
        if target != "native" and os.uname().machine != "x86_64":
            continue
        assert result.returncode == 0, result.stderr
        roles = client(name)
        assert roles == [True] * len(inputs) + [False] * len(wanted)
        link = ["cc", "-Wall", "-Werror", f"{name}.c", f"{name}.o", "-o", f"{name}_c"]
        result = run(*link)
        assert result.returncode == 0, result.stderr
        needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", f"{name}_c").stdout)
        assert needed and all(re.match(r"lib[cm]\.so", lib) for lib in needed), needed
        files = [f"{name}_{i}.raw" for i in range(len(roles))]
        for file, array in zip(files, inputs.values()):
            array.tofile(file)

        def results_of(*command):
            done = run(*command, f"./{name}_c", *files)
            assert done.returncode == 0, (command, done.returncode, done.stderr)
            made = zip(files[len(inputs) :], wanted)
            return [np.fromfile(file, y.dtype).reshape(y.shape) for file, y in made]

        got = results_of()
        if target == "native":
            assert [y.tobytes() for y in got] == [y.tobytes() for y in wanted]
        elif shutil.which("valgrind"):
            again = results_of("valgrind", "-q", "--error-exitcode=9", "--leak-check=full")
            assert [y.tobytes() for y in again] == [y.tobytes() for y in got]
        for y, want in zip(got, wanted):
            np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-4)
    expected = ReferenceEvaluator(model).run(None, inputs)
    for y, want in zip(wanted, expected):
        np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-4)


def check_larger(aster):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
    import onnx_models

    x = RANDOM.standard_normal((1, 3, 64, 64)).astype(np.float32)
    model = onnx_models.resnet18(size=64)
    check_linked(aster, "resnet18", model, {"x": x}, ["--size", "batch=1"])
    model = onnx_models.gpt2(1, 12, layers=2, width=64, heads=4, words=100)
    inputs = {}
    for value in model.graph.input:
        shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        floats = value.type.tensor_type.elem_type == TensorProto.FLOAT
        array = RANDOM.standard_normal(shape) if floats else RANDOM.integers(0, 100, shape)
        inputs[value.name] = array.astype(np.float32 if floats else np.int64)
    check_linked(aster, "gpt", model, inputs, [])


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
    os.environ["ASTER_ML_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_model(aster, "residual", residual(), (2, 3, 20, 24), "batch=2")
        check_model(aster, "decoder", decoder(), (1, 9, 32), "batch=1,tokens=9")
        check_refusals(aster)
        check_larger(aster)
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
