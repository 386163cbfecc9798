"""Quantised nets: sums of products of integers are exact, as NumPy's and ONNX Runtime's."""

import functools
import glob
import re

import numpy as np
import pytest

import aster_ml
from aster_ml import Tensor, _native
from aster_ml.nn.onnx import OnnxRunner

onnx = pytest.importorskip("onnx")
helper, TYPES = onnx.helper, onnx.TensorProto
RNG = np.random.default_rng(12)
INT8, UINT8 = np.int8, np.uint8
TYPES_OF_BOTH = [(UINT8, INT8), (INT8, INT8), (UINT8, UINT8), (INT8, UINT8)]


@functools.cache
def _context(vector_bytes):
    return _native.context_init({"vector_bytes": vector_bytes})


# Words of four bytes where the CPU multiplies those, and of two numbers of 16 bits.
@pytest.fixture(autouse=True, params=[0, 32, 16])
def vector_bytes(request):
    outer = _native.current()
    _native.set_current(_context(request.param))
    yield request.param
    _native.set_current(outer)


def _model(nodes, inputs, weights, outputs=("y",)):
    def kind(array):
        return helper.np_dtype_to_tensor_dtype(array.dtype)

    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, kind(a), a.shape) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _ours(model, inputs):
    run = OnnxRunner(Tensor(model.SerializeToString()))
    out = run({n: Tensor(a) for n, a in inputs.items()})
    return [y.numpy() for y in out.values()]


def _runtime(model, inputs):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def _bytes(dtype, *shape):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    out = RNG.integers(low, high + 1, shape).astype(dtype)
    out.reshape(-1)[: out.size // 4] = RNG.choice([low, high], out.size // 4)  # ends
    return out


def _zero(dtype, *shape):
    return _bytes(dtype, *shape) if shape else _bytes(dtype, 1)[0]


def _pair_model(op, a, b, scales, zeros, axis, **attributes):
    """(a - za) sa op (b - zb) sb, b and what belongs to scales weights."""
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "sa", "za"], ["x"]),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["w"], axis=axis),
        helper.make_node(op, ["x", "w"], ["y"], **attributes),
    ]
    weights = {"b": b, "sa": scales[0], "sb": scales[1], "za": zeros[0], "zb": zeros[1]}
    return _model(nodes, {"a": a}, weights)


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("terms", [8, 33, 256])
@pytest.mark.parametrize("types", TYPES_OF_BOTH)
def test_matrices_are_multiplied_exactly(types, terms, channels):
    a, b = _bytes(types[0], 3, 21, terms), _bytes(types[1], terms, 19)
    shape = (19,) if channels else ()
    scales = np.float32(0.0371), RNG.uniform(1e-3, 1, shape).astype(np.float32)
    zeros = _zero(types[0]), _zero(types[1], *shape)
    [y] = _ours(_pair_model("MatMul", a, b, scales, zeros, 1), {"a": a})
    sums = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
    np.testing.assert_array_equal(y, sums.astype(np.float32) * (scales[0] * scales[1]))


@pytest.mark.parametrize("zero", ["none", "middle", "any"])
@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("types", TYPES_OF_BOTH)
def test_images_are_convolved_exactly(types, channels, zero):
    a, b = _bytes(types[0], 2, channels, 13, 15), _bytes(types[1], 24, channels, 3, 3)
    scales = np.float32(0.02), RNG.uniform(1e-3, 1, 24).astype(np.float32)
    ours = {"none": 0, "middle": 128 if types[1] == UINT8 else 0, "any": _zero(types[1])}
    zeros = _zero(types[0]), np.full(24, ours[zero], types[1])
    rest = {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
    [y] = _ours(_pair_model("Conv", a, b, scales, zeros, 0, **rest), {"a": a})
    x = np.pad(a.astype(np.int64) - zeros[0], ((0, 0), (0, 0), (1, 2), (0, 1)))
    sums = np.zeros((2, 24, 7, 12), np.int64)
    for i in range(3):
        for j in range(3):
            cut = x[:, :, i : i + 13 : 2, 2 * j : 2 * j + 12]
            sums += np.einsum("nchw,oc->nohw", cut, b[:, :, i, j] - zeros[1][0].astype(int))
    by = (scales[0] * scales[1]).reshape(1, -1, 1, 1)
    np.testing.assert_array_equal(y, sums.astype(np.float32) * by)


def _depthwise(x, w, strides, dilations, pads):
    """Sums of integers, of groups of as many channels as filters have."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    size = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilations, strides)
    ]
    each, groups = w.shape[1], x.shape[1] // w.shape[1]
    out = np.zeros((x.shape[0], w.shape[0], *size), np.int64)
    for o in range(w.shape[0]):
        first = o // (w.shape[0] // groups) * each
        for c, i, j in np.ndindex(w.shape[1:]):
            y, z = i * dilations[0], j * dilations[1]
            rows = slice(y, y + (size[0] - 1) * strides[0] + 1, strides[0])
            columns = slice(z, z + (size[1] - 1) * strides[1] + 1, strides[1])
            out[:, o] += x[:, first + c, rows, columns] * w[o, c, i, j]
    return out


@pytest.mark.parametrize("types", TYPES_OF_BOTH)
@pytest.mark.parametrize(
    "kernel, strides, dilations, pads, each, times",
    [
        ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1, 1),
        ((3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1, 2),
        ((5, 5), (1, 1), (1, 1), (2, 1, 2, 3), 1, 1),
        ((5, 5), (2, 2), (1, 1), (2, 2, 2, 2), 1, 1),
        ((3, 4), (1, 1), (1, 2), (1, 2, 1, 3), 1, 1),  # an even number of taps
        ((4, 2), (1, 2), (2, 3), (0, 1, 1, 0), 1, 1),
        ((3, 3), (1, 1), (2, 3), (2, 3, 2, 3), 1, 1),
        ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 3, 1),  # of three channels each
        ((8, 1), (1, 1), (1, 1), (3, 0, 3, 0), 1, 1),  # a tap a row: no pairs
        ((1, 9), (1, 1), (1, 1), (0, 4, 0, 4), 1, 1),
    ],
)
def test_depthwise_convolutions_are_exact(types, kernel, strides, dilations, pads, each, times):
    groups = 6
    a = _bytes(types[0], 2, groups * each, 13, 17)
    b = _bytes(types[1], groups * times, each, *kernel)
    scales = np.float32(0.02), RNG.uniform(1e-3, 1, len(b)).astype(np.float32)
    zeros = _zero(types[0]), np.zeros(len(b), types[1])
    rest = {"pads": pads, "strides": strides, "dilations": dilations, "group": groups}
    [y] = _ours(_pair_model("Conv", a, b, scales, zeros, 0, **rest), {"a": a})
    x = a.astype(np.int64) - zeros[0]
    sums = _depthwise(x, b.astype(np.int64), strides, dilations, pads)
    want = sums.astype(np.float32) * (scales[0] * scales[1]).reshape(1, -1, 1, 1)
    near = 0 if kernel[1] > 1 and strides == (1, 1) else 1e-4
    np.testing.assert_allclose(y, want, rtol=near, atol=near * np.abs(want).max())


def test_depthwise_kernels_have_no_product_of_floats_in_their_loops(tmp_path):
    a, b = _bytes(UINT8, 1, 24, 20, 22), _bytes(INT8, 24, 1, 3, 3)
    scales, zeros = (np.float32(0.02), np.float32(0.5)), (np.uint8(117), np.int8(0))
    model = _pair_model("Conv", a, b, scales, zeros, 0, pads=[1] * 4, group=24)
    aster_ml.trace.configure(dump=str(tmp_path))
    try:
        _ours(model, {"a": a})
    finally:
        aster_ml.trace.configure()
    texts = [open(path, encoding="utf-8").read() for path in glob.glob(f"{tmp_path}/*/*.program")]
    assert any("PairDot" in text for text in texts)
    assert not any("MulAcc" in text for text in texts)


def test_integer_operators_have_the_bits_of_onnx_runtime():
    a, b = _bytes(UINT8, 21, 40), _bytes(UINT8, 40, 24)
    node = helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])
    model = _model([node], {"a": a}, {"b": b, "za": _zero(UINT8), "zb": _zero(UINT8)})
    np.testing.assert_array_equal(_ours(model, {"a": a})[0], _runtime(model, {"a": a})[0])
    x, w = _bytes(UINT8, 2, 8, 12, 12), _bytes(UINT8, 16, 8, 3, 3)
    node = helper.make_node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], pads=[1] * 4)
    model = _model([node], {"x": x}, {"w": w, "zx": _zero(UINT8), "zw": _zero(UINT8)})
    np.testing.assert_array_equal(_ours(model, {"x": x})[0], _runtime(model, {"x": x})[0])
    scale = {n: np.float32(v) for n, v in (("sx", 0.02), ("sw", 0.01), ("sy", 0.9))}
    zero = {"zx": np.uint8(117), "zw": np.int8(0), "zy": np.uint8(131)}
    order = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    node = helper.make_node("QLinearConv", order, ["y"], pads=[1] * 4)
    # Of 7 bits: its kernels for AVX2 add two products up in 16 bits, and saturate.
    w = RNG.integers(-64, 64, (16, 8, 3, 3)).astype(INT8)
    model = _model([node], {"x": x}, {"w": w, **scale, **zero})
    np.testing.assert_array_equal(_ours(model, {"x": x})[0], _runtime(model, {"x": x})[0])
    w = RNG.integers(-64, 64, (40, 24)).astype(INT8)
    node = helper.make_node("QLinearMatMul", order, ["y"])
    model = _model([node], {"x": a}, {"w": w, **scale, **zero})
    np.testing.assert_array_equal(_ours(model, {"x": a})[0], _runtime(model, {"x": a})[0])


def _net(size=5):
    """Two convolutions and a product between pairs of QuantizeLinear and DequantizeLinear."""
    weights, nodes = {"s": np.float32(0.05), "z": np.uint8(128)}, []

    def pair(x):
        q, y = f"{x}_q", f"{x}_d"
        nodes.append(helper.make_node("QuantizeLinear", [x, "s", "z"], [q]))
        nodes.append(helper.make_node("DequantizeLinear", [q, "s", "z"], [y]))
        return y

    def weight(name, *shape):
        weights[name] = RNG.integers(-64, 64, shape).astype(INT8)
        weights[f"{name}_s"] = RNG.uniform(0.001, 0.003, shape[0]).astype(np.float32)
        names = [name, f"{name}_s"]
        nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_d"], axis=0))
        weights[f"{name}_b"] = RNG.standard_normal(shape[0]).astype(np.float32)
        return [f"{name}_d", f"{name}_b"]

    x = pair("x")
    for name, ins in (("u", 8), ("v", 16)):
        taken = [x, *weight(name, 16, ins, 3, 3)]
        nodes.append(helper.make_node("Conv", taken, [f"{name}_c"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"{name}_c"], [f"{name}_r"]))
        x = pair(f"{name}_r")
    nodes.append(helper.make_node("Flatten", [x], ["f"]))
    last = weight("g", 24, 16 * size * size)
    nodes.append(helper.make_node("Gemm", [pair("f"), *last], ["y"], transB=1))
    x = RNG.standard_normal((9, 8, size, size)).astype(np.float32)
    return _model(nodes, {"x": x}, weights), {"x": x}


def test_nets_of_pairs_are_within_a_quantum_of_onnx_runtime_and_the_interpreter():
    model, inputs = _net()
    [y], [want] = _ours(model, inputs), _runtime(model, inputs)
    # A value between two steps is rounded to either: by 0.05 times a weight of at most 0.19.
    np.testing.assert_allclose(y, want, atol=0.1)
    assert np.mean(np.abs(y - want) < 1e-4) > 0.5
    from onnx.reference import ReferenceEvaluator

    [slow] = ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(y, slow, atol=0.1)


def test_kernels_have_no_product_of_floats_in_their_loops(tmp_path):
    model, inputs = _net(6)  # scheduled nowhere else
    aster_ml.trace.configure(dump=str(tmp_path))
    try:
        _ours(model, inputs)
    finally:
        aster_ml.trace.configure()
    products = 0
    for path in glob.glob(f"{tmp_path}/*/*.program"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        dots = re.split("PairDot|QuadDot", text)[:-1]
        products += bool(dots)
        # The innermost loop: what is between the last Loop before the words and its End.
        for part in dots:
            loop = part[part.rindex("Loop") :] if "Loop" in part else part
            assert "MulAcc" not in loop, path
            assert "Mul f32" not in loop, path
    assert products >= 3


def test_compiled_kernels_have_the_bits_of_the_reference_runtime():
    model, inputs = _net(7)
    run = OnnxRunner(Tensor(model.SerializeToString()))
    aster_ml.trace.configure(debug="compare")
    try:
        lazy = run.lazy({n: Tensor(a) for n, a in inputs.items()})
        [y] = lazy.values() if isinstance(lazy, dict) else [lazy]
        y = y.numpy()
    finally:
        aster_ml.trace.configure()
    np.testing.assert_allclose(y, _runtime(model, inputs)[0], atol=0.1)


def test_strict_parity_computes_with_floats():
    model, inputs = _net(8)
    with aster_ml.Context(STRICT_PARITY=1):
        [strict] = _ours(model, inputs)
    [want] = _runtime(model, inputs)
    np.testing.assert_allclose(strict, want, atol=0.1)


def test_sums_that_do_not_fit_and_scales_along_them_stay_floats():
    for a, b, scales, axis, near in (
        (_bytes(UINT8, 9, 33100), _bytes(UINT8, 33100, 9), 0.5, 1, 1e-5),
        (_bytes(UINT8, 9, 16), _bytes(UINT8, 16, 9), np.linspace(0.1, 1, 16), 0, 2e-6),
    ):
        scales = np.asarray(scales, np.float32)
        zeros = (np.uint8(0), np.zeros(scales.shape, UINT8))
        model = _pair_model("MatMul", a, b, (np.float32(1), scales), zeros, axis)
        [y] = _ours(model, {"a": a})
        by = scales.reshape(-1, 1) if scales.ndim else scales
        want = a.astype(np.float64) @ (b.astype(np.float64) * by)
        np.testing.assert_allclose(y, want, rtol=near)


@pytest.mark.parametrize("scale", [np.nan, 0.0, -0.5, 1e-30])
def test_scales_of_all_kinds(scale):
    a, b = _bytes(UINT8, 9, 16), _bytes(INT8, 16, 9)
    scales, zeros = (np.float32(scale), np.float32(0.25)), (np.uint8(3), np.int8(0))
    [y] = _ours(_pair_model("MatMul", a, b, scales, zeros, 1), {"a": a})
    sums = (a.astype(np.int64) - 3) @ b.astype(np.int64)
    np.testing.assert_array_equal(y, sums.astype(np.float32) * (scales[0] * scales[1]))


def test_zero_points_of_another_type_are_refused():
    a, b = _bytes(UINT8, 9, 16), _bytes(INT8, 16, 9)
    zeros = (np.int8(3), np.int8(0))
    model = _pair_model("MatMul", a, b, (np.float32(1), np.float32(1)), zeros, 1)
    try:
        [y] = _ours(model, {"a": a})
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return
    np.testing.assert_allclose(y, (a.astype(np.float64) - 3) @ b, rtol=1e-5)
