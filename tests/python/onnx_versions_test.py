"""Operators of ONNX as earlier opsets have them, which the backend suite of the package onnx lacks;
and Gradient. Expected values are NumPy's."""

import numpy as np
import pytest

from aster_ml import Tensor
from aster_ml.nn.onnx import OnnxRunner

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

TRAINING = "ai.onnx.preview.training"


def _type(name, array):
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, list(array.shape))


def _run(nodes, inputs, outputs, opset, weights=(), more=()):
    infos = [_type(name, array) for name, array in inputs.items()]
    results = [helper.make_tensor_value_info(name, 0, None) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", infos, results, tensors)
    for result in graph.output:
        result.ClearField("type")
    opsets = [helper.make_opsetid(*one) for one in (("", opset), *more)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    got = OnnxRunner(Tensor(model.SerializeToString()))(dict(inputs))
    return [got[name].numpy() for name in outputs]


def _one(op, opset, inputs, want, domain="", **attributes):
    """One node: its results are those of want, an array or a list of them."""
    wanted = want if isinstance(want, list) else [want]
    names = [f"i{i}" for i in range(len(inputs))]
    outputs = [f"o{i}" for i in range(len(wanted))]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    more = ((domain, 1),) if domain else ()
    got = _run([node], dict(zip(names, inputs)), outputs, opset, more=more)
    for y, expected in zip(got, wanted):
        assert y.shape == expected.shape and y.dtype == expected.dtype, (op, opset)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6, err_msg=f"{op} {opset}")


def _x(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Less": np.less,
    "Greater": np.greater,
    "Pow": np.power,
}


@pytest.mark.parametrize("op", BINARY)
def test_broadcasting_was_asked_for(op):
    a, b = np.abs(_x(2, 3, 4)) + 0.5, np.abs(_x(3)) + 0.5
    old = 1 if op in ("Less", "Greater", "Pow") else 6
    want = BINARY[op](a, b[:, None])
    _one(op, old, [a, b], want, axis=1, broadcast=1)
    last = np.abs(_x(3, 4)) + 0.5
    _one(op, old, [a, last], BINARY[op](a, last), broadcast=1)
    _one(op, old, [a, a + 1], BINARY[op](a, a + 1))
    _one(op, 7, [a, last], BINARY[op](a, last))


def test_logic_and_equality_broadcast_too():
    a, b = _x(2, 3, 4) > 0, _x(3, seed=5) > 0
    for op, f in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        _one(op, 1, [a, b], f(a, b[:, None]), axis=1, broadcast=1)
    whole = [a.astype(np.int32), b.astype(np.int32)]
    _one("Equal", 1, whole, a == b[:, None], axis=1, broadcast=1)


def test_attributes_that_became_operands():
    x = _x(2, 3, 4)
    _one("Reshape", 1, [x], x.reshape(2, 12), shape=[0, -1])
    _one("Squeeze", 1, [x[:, :, :1]], x[:, :, 0], axes=[2])
    _one("Unsqueeze", 1, [x], x[:, None], axes=[1])
    _one("Slice", 1, [x], x[:, 1:3, :-1], starts=[1, 0], ends=[9, -1], axes=[1, 2])
    _one("Pad", 1, [x], np.pad(x, [(0, 0), (1, 0), (0, 2)]), paddings=[0, 1, 0, 0, 0, 2])
    wide = np.pad(x, [(0, 0), (1, 0), (0, 2)], constant_values=1.5)
    _one("Pad", 2, [x], wide, pads=[0, 1, 0, 0, 0, 2], value=1.5)
    mirrored = np.pad(x, [(0, 0), (1, 0), (0, 2)], mode="reflect")
    _one("Pad", 2, [x], mirrored, pads=[0, 1, 0, 0, 0, 2], mode="reflect")
    _one("Clip", 1, [x], np.clip(x, -0.5, 0.25), min=-0.5, max=0.25)
    _one("Clip", 6, [x], np.maximum(x, -0.5), min=-0.5)
    for op, f in (("ReduceSum", np.sum), ("ReduceMean", np.mean), ("ReduceMax", np.max)):
        _one(op, 1, [x], f(x, (0, 2), keepdims=True), axes=[0, 2])
        _one(op, 11, [x], f(x, 1), axes=[-2], keepdims=0)
    order = np.argsort(-x, 2)[:, :, :2]
    _one("TopK", 1, [x], [np.take_along_axis(x, order, 2), order], k=2, axis=2)
    for parts in ([1, 2], [2, 1]):
        _one("Split", 2, [x], np.split(x, parts[:1], 1), axis=1, split=parts)
    _one("Split", 1, [x, np.array([1, 2])], np.split(x, [1], 1), axis=1)
    _one("Tile", 1, [x, np.int64(3), np.int64(1)], np.tile(x, (1, 3, 1)))
    _one("Tile", 1, [x, np.int64(2), np.int64(2)], np.tile(x, (1, 1, 2)))
    _one("Tile", 6, [x, np.array([2, 1, 3])], np.tile(x, (2, 1, 3)))


def test_defaults_and_types_that_changed():
    x = _x(2, 3, 4)
    _one("Cast", 1, [x * 3], (x * 3).astype(np.int32), to="INT32")
    _one("Cast", 1, [x], x != 0, to="BOOL")
    _one("Concat", 1, [x, x + 1], np.concatenate([x, x + 1], 1))
    for op, f in (("Softmax", lambda e: e), ("LogSoftmax", np.log)):
        flat = np.exp(x.reshape(2, 12))
        want = f(flat / flat.sum(1, keepdims=True)).reshape(x.shape)
        _one(op, 1, [x], want)
        _one(op, 11, [x], want, axis=1)
        e = np.exp(x)
        _one(op, 13, [x], f(e / e.sum(-1, keepdims=True)))
    hard = (np.arange(12) == x.reshape(2, 12).argmax(1)[:, None]).astype(np.float32)
    _one("Hardmax", 1, [x], hard.reshape(x.shape))
    _one("Selu", 1, [x], 1.0507 * np.where(x > 0, x, 1.6732 * (np.exp(x) - 1)).astype(np.float32))
    _one("Elu", 1, [x], np.where(x > 0, x, np.exp(x) - 1), consumed_inputs=[0])
    slope = np.float32([1, 2, 3])
    _one("PRelu", 1, [x, slope], np.where(x > 0, x, x * slope[:, None]))
    a, b, c = _x(2, 3), _x(4, 3), _x(4)
    _one("Gemm", 6, [a, b, c], 0.5 * a @ b.T + 2 * c, transB=1, alpha=0.5, beta=2.0, broadcast=1)
    _one("ArgMax", 1, [x], x.argmax(1)[:, None], axis=1)
    blocks = _x(1, 8, 2, 3)
    deep = blocks.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    _one("DepthToSpace", 1, [blocks], deep, blocksize=2)


def test_normalisation_and_dropout():
    x, (s, b, m) = _x(4, 3, 5), (_x(3, seed=i) for i in range(3))
    v = np.abs(_x(3, seed=9)) + 0.1

    def normal(mean, variance, scale=s, bias=b):
        shape = (-1, 1) if scale.ndim == 1 else scale.shape
        mean, variance, scale, bias = (a.reshape(shape) for a in (mean, variance, scale, bias))
        return ((x - mean) / np.sqrt(variance + 1e-5) * scale + bias).astype(np.float32)

    _one("BatchNormalization", 6, [x, s, b, m, v], normal(m, v), is_test=1)
    _one("BatchNormalization", 7, [x, s, b, m, v], normal(m, v))
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    moved = [0.75 * old + 0.25 * now for old, now in ((m, mean), (v, variance))]
    want = [normal(mean, variance), *moved]
    _one("BatchNormalization", 6, [x, s, b, m, v], want, momentum=0.75)
    each = [_x(3, 5, seed=i) for i in range(4)]
    each[3] = np.abs(each[3]) + 0.1
    want = normal(each[2], each[3], each[0], each[1])
    _one("BatchNormalization", 7, [x, *each], want, spatial=0)
    _one("BatchNormalization", 1, [x, *each], want, spatial=0, is_test=1, consumed_inputs=[0] * 5)
    own = [normal(x.mean(0), x.var(0), each[0], each[1])]
    _one("BatchNormalization", 6, [x, *each], own, spatial=0)
    _one("Dropout", 1, [x], x, is_test=1)
    _one("Dropout", 7, [x], [x, np.ones_like(x)])
    _one("Dropout", 10, [x], [x, np.ones(x.shape, bool)])


def test_pools_and_images():
    x = _x(1, 2, 4, 6)
    cut = x.reshape(1, 2, 2, 2, 3, 2)
    _one("MaxPool", 1, [x], cut.max((3, 5)), kernel_shape=[2, 2], strides=[2, 2])
    padded = np.pad(x, [(0, 0), (0, 0), (0, 0), (1, 1)]).reshape(1, 2, 4, 4, 2)
    counts = np.float32([1, 2, 2, 1])
    _one("AveragePool", 1, [x], padded.sum(4) / counts, kernel_shape=[1, 2], strides=[1, 2],
         pads=[0, 1, 0, 1])  # fmt: skip
    third = (np.abs(x) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
    _one("GlobalLpPool", 1, [x], third, p=3.0)
    _one("GlobalLpPool", 2, [x], third, p=3)
    cubes = (np.abs(cut) ** 3).sum((3, 5)) ** (1 / 3)
    for opset, p in ((1, 3.0), (2, 3)):
        _one("LpPool", opset, [x], cubes, kernel_shape=[2, 2], strides=[2, 2], p=p)
    _one("LpPool", 1, [x], (cut**2).sum((3, 5)) ** 0.5, kernel_shape=[2, 2], strides=[2, 2])
    twice = x.repeat(2, 2).repeat(3, 3)
    _one("Upsample", 1, [x], twice, height_scale=2.0, width_scale=3.0)
    _one("Upsample", 7, [x], twice, scales=[1.0, 1.0, 2.0, 3.0])
    scales = np.float32([1, 1, 2, 3])
    _one("Upsample", 9, [x, scales], twice)
    _one("Resize", 10, [x, scales], twice)
    row = np.float32([[[[1, 3]]]])
    smooth = np.float32([[[[1, 2, 3, 3]]]])
    _one("Upsample", 1, [row], smooth, height_scale=1.0, width_scale=2.0, mode="bilinear")
    _one("Upsample", 7, [row], smooth, scales=[1.0, 1.0, 1.0, 2.0], mode="linear")
    data, at = _x(3, 3), np.array([[1, 0, 2]])
    placed = data.copy()
    placed[[1, 0, 2], [0, 1, 2]] = 7
    _one("Scatter", 9, [data, at, np.full((1, 3), 7, np.float32)], placed)


@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_networks_are_those_of_later_opsets(op, gates):
    x, w, r = _x(5, 2, 3), _x(1, gates * 4, 3), _x(1, gates * 4, 4)
    names, results = ["x", "w", "r"], ["y", "h"]
    given = dict(zip(names, (x, w, r)))
    node = helper.make_node(op, names, results, hidden_size=4)
    want = _run([node], given, results, 14)
    for opset, attributes in ((7, {}), (3, {"output_sequence": 1}), (1, {"output_sequence": 1})):
        node = helper.make_node(op, names, results, hidden_size=4, **attributes)
        for y, expected in zip(_run([node], given, results, opset), want):
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    "op, gates, attributes",
    [("RNN", 1, {}), ("GRU", 3, {}), ("GRU", 3, {"linear_before_reset": 1}), ("LSTM", 4, {})],
)
def test_a_state_that_is_not_given_is_zero(op, gates, attributes, biased):
    zeros = np.zeros((2, 2, 4), np.float32)
    for steps in (1, 3):
        weights = {"w": _x(2, gates * 4, 3), "r": _x(2, gates * 4, 4)}
        if biased:
            weights["b"] = _x(2, gates * 8)
        given = {"x": _x(steps, 2, 3)}
        more = {"direction": "bidirectional", "hidden_size": 4, **attributes}
        names = ["x", "w", "r", "b" if biased else ""]
        results = ["y", "h"]
        node = helper.make_node(op, names, results, **more)
        got = _run([node], given, results, 14, weights)
        states = ["", "s", "s"] if op == "LSTM" else ["", "s"]
        node = helper.make_node(op, names + states, results, **more)
        want = _run([node], {**given, "s": zeros}, results, 14, weights)
        for y, expected in zip(got, want):
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_scans_had_batches():
    one = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Mul", ["t", "t"], ["y"])],
        "body",
        [one("s", 1, [2]), one("x", 1, [2])],
        [one("t", 1, [2]), one("y", 1, [2])],
    )
    start, x = _x(3, 2), _x(3, 5, 2)
    sums = np.cumsum(np.concatenate([start[:, None], x], 1), 1)[:, 1:]
    node = helper.make_node("Scan", ["", "s0", "xs"], ["t", "y"], body=body, num_scan_inputs=1)
    got = _run([node], {"s0": start, "xs": x}, ["t", "y"], 8)
    for y, want in zip(got, (sums[:, -1], sums * sums)):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_categories_are_numbers():
    words, domain = np.array(["cat", "dog", "owl"], object), "ai.onnx.ml"
    cats = {"cats_strings": ["dog", "cat"], "cats_int64s": [7, 3]}
    node = helper.make_node("CategoryMapper", ["w"], ["y"], domain=domain, default_int64=-2, **cats)
    (y,) = _run([node], {}, ["y"], 17, {"w": words}, ((domain, 1),))
    np.testing.assert_array_equal(y, [3, 7, -2])
    cats["default_string"] = "none"
    back = helper.make_node("CategoryMapper", ["n"], ["w"], domain=domain, **cats)
    again = helper.make_node("CategoryMapper", ["w"], ["y"], domain=domain, **cats)
    (y,) = _run([back, again], {"n": np.array([[7], [3], [5]])}, ["y"], 17, (), ((domain, 1),))
    np.testing.assert_array_equal(y, [[7], [3], [-1]])


# ---- Planes and support vectors ----


def _as_reference(op, x, outputs, **attributes):
    """Results are those of onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    node = helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    results = [helper.make_tensor_value_info(name, 0, None) for name in outputs]
    graph = helper.make_graph([node], "g", [_type("x", x)], results)
    for result in graph.output:
        result.ClearField("type")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    got = OnnxRunner(Tensor(model.SerializeToString()))({"x": x})
    for name, want in zip(outputs, wanted):
        y = got[name] if want.dtype.kind in "US" else got[name].numpy()
        if want.dtype.kind in "US":
            assert list(y) == list(want)
        elif want.dtype.kind == "i":
            np.testing.assert_array_equal(y, want)
        else:
            np.testing.assert_allclose(y, want, rtol=2e-4, atol=2e-5, err_msg=str(attributes))
            assert y.shape == want.shape and y.dtype == np.float32


AFTER = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


@pytest.mark.parametrize("after", AFTER)
def test_planes_tell_classes(after):
    x, w = _x(7, 4), _x(3, 4)
    for planes in (1, 2, 3):
        labels = {"classlabels_ints": [5, -2, 9][: max(planes, 2)]}
        given = {"coefficients": w[:planes].ravel().tolist(), "post_transform": after}
        intercepts = [0.5, -0.25, 0.125][:planes]
        _as_reference(
            "LinearClassifier", x, ["y", "z"], intercepts=intercepts, **given, **labels
        )
    names = {"classlabels_strings": ["cat", "dog", "owl"]}
    _as_reference("LinearClassifier", x, ["y", "z"], intercepts=intercepts, **given, **names)


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors(kernel):
    x, vectors = _x(6, 3), _x(8, 3)
    common = {"kernel_type": kernel, "kernel_params": [0.5, 0.75, 3.0]}
    common["support_vectors"] = vectors.ravel().tolist()
    weights = np.linspace(-1, 1.5, 8)
    for one_class in (0, 1):
        _as_reference(
            "SVMRegressor",
            x,
            ["y"],
            coefficients=weights.tolist(),
            n_supports=8,
            rho=[0.25],
            one_class=one_class,
            **common,
        )
    # Of two classes, and of three with names; with probabilities, and without.
    two = {"classlabels_ints": [4, 7], "vectors_per_class": [3, 5], "rho": [0.125]}
    three = {"classlabels_ints": [4, 7, 1], "vectors_per_class": [3, 2, 3], "rho": [0.1, -0.2, 0.3]}
    for given in (two, three):
        count = len(given["classlabels_ints"])
        given["coefficients"] = np.resize(weights, 8 * (count - 1)).tolist()
        pairs = count * (count - 1) // 2
        sure = {"prob_a": [-1.5, -1.0, -2.0][:pairs], "prob_b": [0.25, -0.5, 0.125][:pairs]}
        for after in AFTER:
            for more in ({}, sure):
                # The evaluator takes a sum for each of its terms; probabilities are cut at what
                # is none to this transform.
                if more and (count == 3 or after == "SOFTMAX_ZERO"):
                    continue
                _as_reference(
                    "SVMClassifier", x, ["y", "z"], post_transform=after, **given, **common, **more
                )


def test_probabilities_of_three_classes():
    """Those that fit the probabilities of pairs best (Wu, Lin and Weng), solved as linear
    equations; the operator ends where it is within half a percent."""
    x, vectors = _x(6, 3), _x(8, 3)
    per, rho, a, b = [3, 2, 3], [0.1, -0.2, 0.3], [-1.5, -1.0, -2.0], [0.25, -0.5, 0.125]
    weights = np.linspace(-1, 1.5, 16).reshape(2, 8)
    kernels = np.exp(-0.5 * ((x[:, None] - vectors) ** 2).sum(-1))
    begin, wanted = np.cumsum([0, *per]), []
    for row in kernels:
        r, pair = np.zeros((3, 3)), 0
        for i in range(3):
            for j in range(i + 1, 3):
                of_i, of_j = slice(begin[i], begin[i + 1]), slice(begin[j], begin[j + 1])
                score = weights[j - 1, of_i] @ row[of_i] + weights[i, of_j] @ row[of_j]
                r[i, j] = 1 - 1 / (1 + np.exp(-((score + rho[pair]) * a[pair] + b[pair])))
                r[j, i], pair = 1 - r[i, j], pair + 1
        q = -r * r.T + np.diag((r**2).sum(0))
        system = np.block([[q, -np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
        wanted.append(np.linalg.solve(system, [0, 0, 0, 1])[:3])
    node = helper.make_node(
        "SVMClassifier",
        ["x"],
        ["y", "z"],
        domain="ai.onnx.ml",
        classlabels_strings=["a", "b", "c"],
        vectors_per_class=per,
        rho=rho,
        prob_a=a,
        prob_b=b,
        kernel_type="RBF",
        kernel_params=[0.5, 0.0, 0.0],
        support_vectors=vectors.ravel().tolist(),
        coefficients=weights.ravel().tolist(),
    )
    (z,) = _run([node], {"x": x}, ["z"], 17, (), (("ai.onnx.ml", 1),))
    np.testing.assert_allclose(z, wanted, atol=5e-3)
    np.testing.assert_allclose(z.sum(1), 1, atol=1e-6)


def test_planes_of_support_vector_machines():
    x, w = _x(6, 3), _x(3, 3)
    _as_reference("SVMRegressor", x, ["y"], coefficients=w[0].tolist(), rho=[0.5], n_supports=0)
    given = {"coefficients": w.ravel().tolist(), "rho": [0.5]}
    _as_reference("SVMClassifier", x, ["y", "z"], classlabels_ints=[3, 1, 2], **given)


def test_machines_that_do_not_fit_are_told():
    x = _x(2, 3)
    good = {
        "classlabels_ints": [0, 1],
        "vectors_per_class": [1, 1],
        "rho": [0.0],
        "coefficients": [1.0, -1.0],
        "support_vectors": [0.0] * 6,
    }
    bad = (
        {"support_vectors": [0.0] * 5},
        {"vectors_per_class": [1, 2]},
        {"vectors_per_class": [-1, 3]},
        {"coefficients": [1.0]},
        {"classlabels_ints": [0, 1, 2]},
        {"kernel_type": "WAVE"},
        {"prob_a": [1.0]},
    )
    for change in bad:
        node = helper.make_node(
            "SVMClassifier", ["x"], ["y", "z"], domain="ai.onnx.ml", **{**good, **change}
        )
        with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
            _run([node], {"x": x}, ["y", "z"], 17, (), (("ai.onnx.ml", 1),))
    linear = {"classlabels_ints": [0, 1, 2], "coefficients": [1.0] * 7}
    node = helper.make_node("LinearClassifier", ["x"], ["y", "z"], domain="ai.onnx.ml", **linear)
    with pytest.raises(Exception, match="7 coefficients"):
        _run([node], {"x": x}, ["y", "z"], 17, (), (("ai.onnx.ml", 1),))
    node = helper.make_node(
        "SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_supports=-1, rho=[0.0]
    )
    with pytest.raises(Exception, match="-1 support vectors"):
        _run([node], {"x": x}, ["y"], 17, (), (("ai.onnx.ml", 1),))


# ---- Gradient ----


def _gradient(inputs, outputs, xs, y, zs=None):
    more = {} if zs is None else {"zs": zs}
    return helper.make_node("Gradient", inputs, outputs, domain=TRAINING, xs=xs, y=y, **more)


def _slopes(nodes, inputs, outputs, weights=()):
    return _run(nodes, inputs, outputs, 17, weights, ((TRAINING, 1),))


def test_gradients_at_the_tensors_and_elsewhere():
    x, w, z = _x(3, 4), _x(4, 2), _x(3, 2)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("Mul", ["t", "z"], ["m"]),
        helper.make_node("ReduceSum", ["m"], ["loss"], keepdims=0),
    ]
    inputs = {"x": x, "w": w, "z": z}

    def slope(w):
        h = x @ w
        return x.T @ (z * (1 - np.tanh(h) ** 2)), np.tanh(h)

    at = _gradient(["w", "x", "z"], ["dw"], ["w"], "loss", ["x", "z"])
    both = _gradient(["w", "z", "x"], ["", "dz"], ["w", "z"], "loss", ["x"])
    got = _slopes([*nodes, at, both], inputs, ["dw", "dz"])
    for y, want in zip(got, slope(w)):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    # At another w, which the names do not have; and at h, which is computed.
    elsewhere = _gradient(["other", "x", "z"], ["dw"], ["w"], "loss", ["x", "z"])
    middle = _gradient(["h", "z"], ["dh", "dz"], ["h", "z"], "loss")
    given = {**inputs, "other": w * 2}
    got = _slopes([*nodes, elsewhere, middle], given, ["dw", "dh", "dz"])
    wanted = slope(w * 2)[0], z * (1 - np.tanh(x @ w) ** 2), np.tanh(x @ w)
    for y, want in zip(got, wanted):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    # Weights are no numbers in it; and a tensor that two names have is two variables.
    half = np.float32([0.5])
    shared = [
        helper.make_node("Mul", ["half", "b"], ["p"]),
        helper.make_node("Exp", ["p"], ["y"]),
        _gradient(["half", "half"], ["da", "db"], ["half", "b"], "y"),
    ]
    got = _slopes(shared, {"b": np.float32([3])}, ["da", "db"], {"half": half})
    for y in got:
        np.testing.assert_allclose(y, 0.5 * np.exp([0.25]), rtol=1e-6)


def test_gradients_of_gradients():
    x = np.float32([0.5, -1.5])
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["s"]),
        helper.make_node("Mul", ["s", "x"], ["y"]),
        _gradient(["x"], ["d1"], ["x"], "y"),
        _gradient(["x"], ["d2"], ["x"], "d1"),
        _gradient(["x"], ["d3"], ["x"], "d2"),
    ]
    got = _slopes(nodes, {"x": x}, ["d1", "d2", "d3"])
    for y, want in zip(got, (3 * x * x, 6 * x, np.full(2, 6))):
        np.testing.assert_allclose(y, want, rtol=1e-6)
    for i in range(4, 12):
        nodes.append(_gradient(["x"], [f"d{i}"], ["x"], f"d{i - 1}"))
    with pytest.raises(Exception, match="gradients of gradients"):
        _slopes(nodes, {"x": x}, ["d11"])


def test_gradients_that_are_none():
    x = np.float32([1, 2])
    double = helper.make_node("Add", ["x", "x"], ["y"])
    for node, said in (
        (_gradient(["x"], ["d"], ["x"], "nothing"), "nothing before it computes 'nothing'"),
        (_gradient(["x"], ["d"], ["x"], "d"), "nothing before it computes 'd'"),
        (_gradient(["x", "x"], ["d"], ["x"], "y"), "2 operands for 1 names"),
    ):
        with pytest.raises(Exception, match=said):
            _slopes([double, node], {"x": x}, ["d"])
    whole = _gradient(["n"], ["d"], ["n"], "y")
    with pytest.raises(Exception, match="int64"):
        _slopes([helper.make_node("Add", ["n", "n"], ["y"]), whole], {"n": np.array([1])}, ["d"])
