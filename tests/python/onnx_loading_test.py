"""Models that are loaded again: what was made of their weights is mapped from the disk cache."""

import glob
import os
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper, TYPES = onnx.helper, onnx.TensorProto

# Loads a model, runs it, and tells: bits of the results, how many files of the cache are mapped,
# megabytes of new memory beside, and counters.
CODE = """
import sys, numpy as np
from aster_ml import Tensor, _native
from aster_ml.nn.onnx import OnnxRunner
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024
given = dict(np.load(sys.argv[2]))
before = anonymous()
run = OnnxRunner(sys.argv[1])
out = [y.numpy() for y in run({n: Tensor(a) for n, a in given.items()}).values()]
grown = anonymous() - before
maps = sum("/v1/mapped/" in line for line in open("/proc/self/maps"))
counted = _native.engine_count()
print(*(y.tobytes().hex() or "-" for y in out), maps, grown, counted["schedules_read"],
      counted["schedule_misses"], counted["kernels_compiled"])
"""


def _model(path, inputs, weights, nodes, outputs, padding=0):
    def kind(array):
        return helper.np_dtype_to_tensor_dtype(array.dtype)

    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, kind(a), a.shape) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
        producer_name="p" * (padding + 1),
    )
    data = model.SerializeToString()
    with open(path, "wb") as file:
        file.write(data)
    return {n: data.index(np.ascontiguousarray(a).tobytes()) % 4 for n, a in weights.items()}


class _Loads:
    """Processes that load a model with a cache of their own."""

    def __init__(self, folder, inputs):
        self.cache, self.inputs = str(folder / "cache"), str(folder / "inputs.npz")
        np.savez(self.inputs, **inputs)

    def __call__(self, path, **environment):
        where = {
            **os.environ,
            "ASTER_ML_CACHE_DIR": self.cache,
            "ASTER_ML_TIERS": "off",  # all kernels are there when the first process ends
            **environment,
        }
        command = [sys.executable, "-c", CODE, str(path), self.inputs]
        done = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
        *values, maps, grown, read, missed, compiled = done.stdout.split()
        self.values = [np.frombuffer(bytes.fromhex(v), np.float32) for v in values]
        self.maps, self.grown = int(maps), float(grown)
        self.read, self.missed, self.compiled = int(read), int(missed), int(compiled)
        return values

    def files(self):
        return sorted(glob.glob(self.cache + "/v1/mapped/*/*"))


def _net(rng):
    """Rows of a table, times a matrix: both are large."""
    weights = {
        "table": rng.standard_normal((3000, 600)).astype(np.float32),
        "matrix": rng.standard_normal((600, 900)).astype(np.float32),
        "bias": rng.standard_normal(900).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "matrix"], ["products"]),
        helper.make_node("Add", ["products", "bias"], ["sums"]),
        helper.make_node("Relu", ["sums"], ["y"]),
    ]
    return weights, nodes


def _expected(weights, ids):
    rows = weights["table"].astype(np.float64)[ids]
    return np.maximum(rows @ weights["matrix"].astype(np.float64) + weights["bias"], 0).reshape(-1)


def test_weights_are_mapped_wherever_they_lie(tmp_path):
    rng = np.random.default_rng(3)
    weights, nodes = _net(rng)
    ids = rng.integers(0, 3000, (40,))
    load = _Loads(tmp_path, {"ids": ids})
    seen = {name: set() for name in weights}
    values = None
    for padding in range(4):  # by a byte further each
        path = tmp_path / "model.onnx"
        lies = _model(path, {"ids": ids}, weights, nodes, ["y"], padding)
        for name, at in lies.items():
            seen[name].add(at)
        first = load(path)
        second = load(path)
        assert load.compiled == 0 and load.read == load.missed
        # The matrix in the order of its kernel, and the table where it does not lie aligned.
        aligned = lies["table"] == 0
        assert load.maps == (1 if aligned else 2)
        assert load.grown < 6, "the weights are of 9 MB"
        assert first == second and values in (None, first)
        values = first
    assert all(at == {0, 1, 2, 3} for at in seen.values())
    np.testing.assert_allclose(load.values[0], _expected(weights, ids), rtol=1e-4, atol=1e-3)
    assert len(load.files()) == 2  # named by what is in them


def test_other_weights_at_the_same_place(tmp_path):
    rng = np.random.default_rng(4)
    weights, nodes = _net(rng)
    ids = rng.integers(0, 3000, (40,))
    load = _Loads(tmp_path, {"ids": ids})
    path = tmp_path / "model.onnx"
    _model(path, {"ids": ids}, weights, nodes, ["y"], 1)
    load(path), load(path)
    when = os.stat(path)
    for name in ("table", "matrix"):
        at = tuple(size - 1 for size in weights[name].shape) if name == "matrix" else (ids[-1], 599)
        weights[name][at] += 64
        _model(path, {"ids": ids}, weights, nodes, ["y"], 1)
        os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))
        load(path)
        want = _expected(weights, ids)
        np.testing.assert_allclose(load.values[0], want, rtol=1e-4, atol=1e-3)


def _flip(path):
    with open(path, "r+b") as file:
        file.seek(4321)
        byte = file.read(1)[0]
        file.seek(4321)
        file.write(bytes([byte ^ 64]))


@pytest.mark.parametrize("damage", [_flip, lambda path: os.truncate(path, 1 << 20), os.remove])
def test_damaged_files_are_made_again(tmp_path, damage):
    rng = np.random.default_rng(5)
    weights, nodes = _net(rng)
    ids = rng.integers(0, 3000, (40,))
    load = _Loads(tmp_path, {"ids": ids})
    path = tmp_path / "model.onnx"
    lies = [_model(path, {"ids": ids}, weights, nodes, ["y"], p)["table"] for p in range(4)]
    _model(path, {"ids": ids}, weights, nodes, ["y"], lies.index(2))
    first = load(path)
    files = load.files()
    assert len(files) == 2
    before = [open(name, "rb").read() for name in files]
    for name in files:
        damage(name)
    assert load(path) == first
    assert [open(name, "rb").read() for name in files] == before
    assert load(path) == first and load.maps == 2


def test_nothing_is_kept_where_that_is_turned_off(tmp_path):
    rng = np.random.default_rng(6)
    weights, nodes = _net(rng)
    ids = rng.integers(0, 3000, (40,))
    load = _Loads(tmp_path, {"ids": ids})
    path = tmp_path / "model.onnx"
    for padding in range(2):
        _model(path, {"ids": ids}, weights, nodes, ["y"], padding)
        for environment in ({"ASTER_ML_NO_KEPT_SCHEDULES": "1"}, {"ASTER_ML_CACHE_LIMIT_MB": "0"}):
            for _ in range(2):
                load(path, **environment)
                assert load.maps == 0 and load.files() == []
        np.testing.assert_allclose(load.values[0], _expected(weights, ids), rtol=1e-4, atol=1e-3)


def test_weights_that_are_results_or_are_looked_at(tmp_path):
    """A weight is an output, another decides about a shape, a third is turned and sliced."""
    rng = np.random.default_rng(7)
    weights = {
        "out": rng.standard_normal((300, 301)).astype(np.float32),
        "cut": rng.standard_normal((500, 211)).astype(np.float32),
    }
    x = rng.standard_normal((4, 211)).astype(np.float32)
    nodes = [
        helper.make_node("Transpose", ["cut"], ["turned"]),
        helper.make_node("MatMul", ["x", "turned"], ["y"]),
        helper.make_node("ReduceSum", ["out"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["z"]),
        helper.make_node("Identity", ["out"], ["same"]),
    ]
    load = _Loads(tmp_path, {"x": x})
    path = tmp_path / "model.onnx"
    for padding in range(4):
        _model(path, {"x": x}, weights, nodes, ["y", "z", "same"], padding)
        assert load(path) == load(path)
        assert load.compiled == 0
        y, z, same = load.values
        np.testing.assert_allclose(y, (x @ weights["cut"].T).reshape(-1), rtol=1e-4, atol=1e-3)
        want = x + weights["out"].astype(np.float64).sum()
        np.testing.assert_allclose(z, want.reshape(-1), rtol=1e-4, atol=1e-2)
        np.testing.assert_array_equal(same, weights["out"].reshape(-1))


def test_schedules_of_recurrent_and_quantised_nets_are_read(tmp_path):
    rng = np.random.default_rng(8)
    bytes_ = rng.integers(-127, 128, (64, 96)).astype(np.int8)
    weights = {
        "w": rng.standard_normal((1, 256, 64)).astype(np.float32) / 8,
        "r": rng.standard_normal((1, 256, 64)).astype(np.float32) / 8,
        "q": bytes_,
        "s": np.float32(0.02),
        "t": np.float32(0.05),
        "zero": np.int8(0),
    }
    x = rng.standard_normal((5, 8, 64)).astype(np.float32)
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["h"], hidden_size=64),
        helper.make_node("QuantizeLinear", ["h", "t", "zero"], ["hq"]),
        helper.make_node("DequantizeLinear", ["hq", "t", "zero"], ["hd"]),
        helper.make_node("DequantizeLinear", ["q", "s", "zero"], ["qd"]),
        helper.make_node("MatMul", ["hd", "qd"], ["y"]),
    ]
    load = _Loads(tmp_path, {"x": x})
    path = tmp_path / "model.onnx"
    _model(path, {"x": x}, weights, nodes, ["y"])
    first = load(path)
    assert load.read == 0 and load.missed >= 2  # of what weights make, and of a run
    assert load(path) == first
    assert load.read == load.missed and load.compiled == 0


# Prints the sum of a large input and by how many megabytes memory grew over loading and running.
SUM = """
import sys, numpy as np
from aster_ml import Tensor
from aster_ml.nn.onnx import OnnxRunner
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024
x = Tensor(np.ones((4096, 2048), np.float32)).realize()
Tensor([1.0]).sum().item()
before = anonymous()
out = OnnxRunner(sys.argv[1])({"x": x})["y"].numpy().sum()
print(out, anonymous() - before)
"""


def test_inputs_are_not_copied_for_the_capture(tmp_path):
    path = str(tmp_path / "model.onnx")
    x = np.ones((4096, 2048), np.float32)
    node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    _model(path, {"x": x}, {}, [node], ["y"])
    env = dict(os.environ, ASTER_ML_CACHE_DIR=str(tmp_path / "cache"))
    command = [sys.executable, "-c", SUM, path]
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    total, grown = done.stdout.split()
    assert float(total) == x.size
    assert float(grown) < 16, "the input has 32 MB"
