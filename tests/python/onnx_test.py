"""aster_ml.nn.onnx: models are run, and functions exported; results are those of NumPy, of the
reference evaluator of the package onnx, and of ONNX Runtime where it is installed."""

import pathlib
import sys

import numpy as np
import pytest

import aster_ml
from aster_ml import Context, Tensor, Variable, _native, load_program, nn
from aster_ml import export as export_program
from aster_ml.nn.onnx import OnnxRunner, export

# y = x + x, x of any length n.
MODEL = bytes.fromhex(
    "08083a370a0e0a01780a0178120179220341646412016d5a100a0178120b0a09080112050a0312016e6210"
    "0a0179120b0a09080112050a0312016e42040a001014"
)


def test_a_model_runs_for_any_length(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)
    for run in (OnnxRunner(path), OnnxRunner(str(path)), OnnxRunner(Tensor(MODEL))):
        assert run.graph_outputs == ("y",)
        assert run.graph_inputs["x"].shape == ("n",)
        for n in (1, 5):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(run({"x": x})["y"].numpy(), x + x)
            np.testing.assert_array_equal(run({"x": Tensor(x)})["y"].numpy(), x + x)


def test_a_lazy_run_has_gradients():
    x = Tensor([1.0, 2.0, 3.0])
    y = OnnxRunner(Tensor(MODEL)).lazy({"x": x})["y"]
    assert (y * y).sum().gradient(x)[0].tolist() == [8.0, 16.0, 24.0]


def test_what_does_not_fit_is_told():
    run = OnnxRunner(Tensor(MODEL))
    with pytest.raises(RuntimeError, match="input data for x"):
        run({})
    with pytest.raises(RuntimeError, match="2 axes"):
        run({"x": np.zeros((2, 2), np.float32)})
    with pytest.warns(UserWarning, match="x has mismatch on dtype.*float, received.*long"):
        assert run({"x": np.array([3])})["y"].tolist() == [6]
    with pytest.raises(Exception, match="no graph"):
        OnnxRunner(Tensor(b"\x08\x08"))
    with pytest.raises(FileNotFoundError):
        OnnxRunner("no.onnx")
    with pytest.raises(Exception, match="no ONNX model: a field of wire type 4"):
        OnnxRunner(Tensor(b"text"))


def test_first_results_are_of_inputs_as_they_were():
    """Whether a run computes at once, or leaves results lazy, as where the graph decides."""
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    for decides in (False, True):
        nodes = [h.make_node("Add", ["x", "x"], ["y"])]
        if decides:
            nodes.append(h.make_node("NonZero", ["x"], ["z"]))
        names = ["y", "z"] if decides else ["y"]
        graph = h.make_graph(
            nodes,
            "g",
            [h.make_tensor_value_info("x", 1, [3])],
            [h.make_empty_tensor_value_info(name) for name in names],
        )
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=9)
        run = OnnxRunner(Tensor(model.SerializeToString()))
        x = Tensor([1.0, 0.0, 3.0]).realize()
        got = run({"x": x})
        x.assign(Tensor([7.0, 7.0, 7.0])).realize()
        assert got["y"].tolist() == [2, 0, 6]
        if decides:
            assert got["z"].tolist() == [[0, 2]]


def test_weights_of_fast_convolutions_are_transformed_once():
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(5)
    weights = rng.standard_normal((24, 16, 3, 3)).astype(np.float32)
    x = rng.standard_normal((1, 16, 20, 20)).astype(np.float32)
    of = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "convolution",
        [of("x", onnx.TensorProto.FLOAT, x.shape)],
        [of("y", onnx.TensorProto.FLOAT, (1, 24, 20, 20))],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model = Tensor(onnx.helper.make_model(graph).SerializeToString())
    results, kernels = [], []
    for wino in (0, 1):
        with Context(WINO=wino):
            run = OnnxRunner(model)
            results.append(run({"x": x})["y"].numpy())
            with aster_ml.profile() as profile:
                np.testing.assert_array_equal(run({"x": x})["y"].numpy(), results[-1])
            kernels.append(str(profile.table()))
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-3)
    assert "matmul_24x20x20" in kernels[0] and "matmul_36x25x24" in kernels[1]
    assert "3x3x16x24" not in kernels[1] and "36x16x24" not in kernels[1]


def _reference(model, inputs):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, inputs)


def _models():
    """The generator of bench, which writes models as exporters do."""
    pytest.importorskip("onnx")
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
    import onnx_models

    return onnx_models


def _runs_at(model, inputs_at, sizes, tolerance=2e-5):
    """Runs a model at all sizes; programs are made for the first and the second alone."""
    run = OnnxRunner(Tensor(model.SerializeToString()))
    scheduled = None
    for i, size in enumerate(sizes):
        inputs = inputs_at(size)
        got = run(inputs)
        for name, want in zip(run.graph_outputs, _reference(model, inputs)):
            y = got[name].numpy()
            assert y.shape == want.shape
            np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)
        counts = _native.engine_count()
        now = counts["kernels_scheduled"], counts["kernels_compiled"]
        if i > 1:
            assert now == scheduled
        scheduled = now
    refusal = _native.onnx_refusal(run._model)
    assert refusal is None, refusal
    assert _native.onnx_program_count(run._model, 0) == 2
    assert _native.onnx_program_count(run._model, 1) == 1


def test_perceptrons_have_one_program_for_many_batches():
    x = np.random.default_rng(1).standard_normal((8, 784)).astype(np.float32)
    _runs_at(_models().mlp(), lambda n: {"x": x[:n]}, (1, 8, 3, 5, 7, 2))


def test_residual_nets_have_one_program_for_many_batches():
    x = np.random.default_rng(2).standard_normal((4, 3, 32, 32)).astype(np.float32)
    model = _models().resnet18(size=32, widths=(8, 16))
    _runs_at(model, lambda n: {"x": x[:n]}, (1, 4, 2, 3))


def test_encoders_have_one_program_for_many_batches_and_lengths():
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 50, (4, 16))
    mask = rng.integers(0, 2, (4, 16))
    mask[:, 0] = 1
    model = _models().bert(layers=2, width=32, heads=4, words=50)
    sizes = ((1, 5), (4, 16), (3, 7), (2, 4), (2, 16), (4, 9))
    _runs_at(model, lambda n: {"ids": ids[: n[0], : n[1]], "mask": mask[: n[0], : n[1]]}, sizes)


@pytest.mark.parametrize("op", ["ConvTranspose", "LSTM", "GRU", "RNN", "TopK", "Dynamic"])
def test_operators_have_one_program_for_many_batches(op):
    rng = np.random.default_rng(11)
    m = _models()
    g = m.Graph()
    if op == "ConvTranspose":
        shape, axis = ("batch", 3, 5, 6), 0
        y = g(op, "x", g.normal(3, 4, 3, 2), g.normal(4), strides=[2, 1], pads=[1, 0, 0, 1])
    elif op == "TopK":
        shape, axis = ("batch", 4, 9), 0
        values, places = g(op, "x", g.ints(3), outputs=2, axis=-1)
        y = g("Add", values, g("Cast", places, to=1))
    elif op == "Dynamic":
        shape, axis = ("batch", 7), 0
        # Beyond the batch are zeros, of which this makes the greatest.
        q, scale, zero = g("DynamicQuantizeLinear", g("Sub", g.array(10.0), "x"), outputs=3)
        y = g("DequantizeLinear", q, scale, zero)
    else:
        shape, axis = (5, "batch", 6), 1
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        first, last = g(
            op, "x", g.normal(2, gates * 8, 6), g.normal(2, gates * 8, 8), g.normal(2, gates * 16),
            hidden_size=8, direction="bidirectional", outputs=3 if op == "LSTM" else 2,
        )[:2]
        y = g("Add", first, g("Unsqueeze", last, g.ints(0)))
    ndim = {"Dynamic": 2, "TopK": 3}.get(op, 4)
    model = g.model([("x", 1, list(shape))], [(y, 1, [None] * ndim)])
    sizes = [6 if name == "batch" else name for name in shape]
    x = (rng.standard_normal(sizes) * 3).astype(np.float32)
    x = x / 10 + 5 if op == "Dynamic" else x

    def at(n):
        return {"x": np.ascontiguousarray(np.take(x, range(n), axis))}

    _runs_at(model, at, (2, 6, 5, 3, 4))


def _decoder(width=16, heads=2, words=30):
    """One layer with a cache, as exporters write it: places and the mask are arithmetic on how many
    words came before."""
    m = _models()
    g, one = m.Graph(), width // heads
    axis = lambda x, i: g("Gather", g("Shape", x), g.array(i, np.int64), axis=0)
    count, past = axis("ids", 1), axis("keys", 2)
    zero, step = g.array(0, np.int64), g.array(1, np.int64)
    at = g("Range", past, g("Add", past, count), step)
    again = g("Add", g("Range", zero, count, step), past)
    x = g("Gather", g.normal(words, width, scale=1.0), "ids")
    x = g("Add", x, g("Gather", g.normal(40, width, scale=1.0), at))
    q, k, v = (m.split_heads(g, g.linear(x, width, width), "ids", width, heads, [0, 2, 1, 3])
               for _ in range(3))
    k, v = g("Concat", "keys", k, axis=2), g("Concat", "values", v, axis=2)
    seen = g("Range", zero, axis(k, 2), step)
    mask = g("LessOrEqual", g("Unsqueeze", seen, g.ints(0)), g("Unsqueeze", again, g.ints(1)))
    scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g("Where", mask, scores, g.array(-1e9))
    y = g("MatMul", g("Softmax", scores, axis=-1), v)
    y = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.sizes("ids", [0], [1], width))
    # By how much there is now, and with what came before it.
    y = g("Div", y, g("Cast", g("Add", count, past), to=m.F32))
    y = g("Add", y, g("CumSum", x, step))
    cache = ["batch", heads, "past", one]
    ins = [("ids", m.I64, ["batch", "count"]), ("keys", m.F32, cache), ("values", m.F32, cache)]
    grown = ["batch", heads, "now", one]
    result = ["batch", "count", width]
    return g.model(ins, [(y, m.F32, result), (k, m.F32, grown), (v, m.F32, grown)])


def test_decoders_with_a_cache_have_one_program_for_many_lengths():
    rng = np.random.default_rng(8)
    ids = rng.integers(0, 30, (3, 8))
    keys, values = rng.standard_normal((2, 3, 2, 24, 8)).astype(np.float32)

    def at(size):
        n, count, past = size
        return {
            "ids": ids[:n, :count],
            "keys": keys[:n, :, :past],
            "values": values[:n, :, :past],
        }

    sizes = ((2, 5, 3), (3, 8, 24), (3, 7, 20), (2, 6, 17), (3, 5, 22), (2, 8, 12))
    _runs_at(_decoder(), at, sizes)
    # A word at a time: one of it is a number, how much came before it a variable.
    _runs_at(_decoder(), at, ((1, 1, 9), (1, 1, 20), (1, 1, 10), (1, 1, 11), (1, 1, 19)))
    program = _exported_program(
        _decoder(),
        at((2, 5, 3)).values(),
        {
            "dynamic": {
                "ids": {1: Variable("count", 1, 8)},
                "keys": {2: Variable("past", 0, 24)},
                "values": {2: Variable("past", 0, 24)},
            }
        },
    )
    for size in ((2, 5, 3), (2, 1, 0), (2, 8, 24)):
        given = at(size)
        got = program(*(Tensor(np.ascontiguousarray(x)) for x in given.values()))
        for y, want in zip(got, _reference(_decoder(), given)):
            np.testing.assert_allclose(y.numpy(), want, rtol=2e-5, atol=2e-5)


def test_what_sizes_decide_is_decided_for_each():
    """A condition on a size that is no more than a tensor is not taken for that of other sizes."""
    onnx = pytest.importorskip("onnx")
    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT
    given = lambda name: helper.make_tensor_value_info(name, f32, None)
    branch = lambda op, y: helper.make_graph(
        [helper.make_node(op, ["x", "x"], [y])], op, [], [given(y)]
    )
    number = lambda name, x: onnx.numpy_helper.from_array(np.int64(x), name)
    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Less", ["n", "five"], ["few"]),
        helper.make_node(
            "If", ["few"], ["y"], then_branch=branch("Add", "a"), else_branch=branch("Mul", "b")
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "few",
        [helper.make_tensor_value_info("x", f32, ["n"])],
        [given("y")],
        [number("five", 5)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    run = OnnxRunner(Tensor(model.SerializeToString()))
    for n in (3, 8, 4, 9, 5, 2):
        x = np.arange(n, dtype=np.float32)
        want = x + x if n < 5 else x * x
        np.testing.assert_array_equal(run({"x": x})["y"].numpy(), want)


def _exported_program(model, examples, dynamic):
    """A portable program of a model, with the names of its inputs."""
    run = OnnxRunner(Tensor(model.SerializeToString()))

    def fn(*given):
        return run.lazy(dict(zip(run.graph_inputs, given)))

    given = [Tensor(x) for x in examples]
    return load_program(export_program(fn, *given, input_names=list(run.graph_inputs), **dynamic))


def test_models_become_programs_of_many_sizes():
    rng = np.random.default_rng(6)
    batch, length = Variable("batch", 1, 4), Variable("length", 2, 16)
    ids, mask = rng.integers(0, 50, (4, 16)), rng.integers(0, 2, (4, 16))
    mask[:, 0] = 1
    model = _models().bert(layers=1, width=32, heads=4, words=50)
    sizes = {0: batch, 1: length}
    dynamic = {"dynamic": {"ids": sizes, "mask": sizes}}
    program = _exported_program(model, (ids[:2, :5], mask[:2, :5]), dynamic)
    assert sorted(x.name for x in program.variables) == ["batch", "length"]
    assert [x.name for x in program.inputs] == ["ids", "mask"]
    for b, n in ((2, 5), (4, 16), (1, 2), (3, 7)):
        given = [np.ascontiguousarray(x[:b, :n]) for x in (ids, mask)]
        got = program(*(Tensor(x) for x in given))
        results = list(got) if isinstance(got, (list, tuple)) else [got]
        for y, want in zip(results, _reference(model, dict(zip(("ids", "mask"), given)))):
            assert y.shape == want.shape
            np.testing.assert_allclose(y.numpy(), want, rtol=2e-5, atol=2e-5)
    # Of sizes that are numbers, and of what has no rule for sizes that are not.
    x = rng.standard_normal((3, 784)).astype(np.float32)
    fixed = _exported_program(_models().mlp(), (x,), {})
    np.testing.assert_allclose(
        fixed(Tensor(x)).numpy(), _reference(_models().mlp(), {"x": x})[0], rtol=2e-5, atol=2e-5
    )
    onnx = pytest.importorskip("onnx")
    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("CumSum", ["x", "axis"], ["y"], reverse=1)],
        "sums",
        [helper.make_tensor_value_info("x", f32, ["n"])],
        [helper.make_tensor_value_info("y", f32, ["n"])],
        [onnx.numpy_helper.from_array(np.int64(0), "axis")],
    )
    sums = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with pytest.raises(NotImplementedError, match="CumSum.*sizes that are variables"):
        _exported_program(sums, (x[0, :5],), {"dynamic": {"x": {0: Variable("n", 1, 8)}}})


def test_quantised_nets_run_for_many_batches():
    x = np.random.default_rng(4).standard_normal((4, 8, 6, 6)).astype(np.float32)
    model = _models().quantised(size=6, width=8, layers=1)
    # A value between two steps may be rounded to either.
    _runs_at(model, lambda n: {"x": x[:n]}, (1, 4, 2, 3), tolerance=0.06)


def test_the_greatest_in_boxes():
    """MaxRoiPool, which the backend suite lacks: ends included, cells of a box overlap, what lies
    outside is not seen."""
    onnx = pytest.importorskip("onnx")
    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT
    x = np.random.default_rng(12).standard_normal((2, 3, 9, 12)).astype(np.float32)
    boxes = [[0, 0, 0, 23, 17], [1, 4, 3, 11, 8], [1, 7, 7, 7, 7], [0, 20, 10, 40, 30]]
    boxes.append([1, 9, 5, 3, 2])
    boxes, scale, (height, width) = np.float32(boxes), 0.5, (3, 4)
    node = helper.make_node(
        "MaxRoiPool", ["x", "boxes"], ["y"], pooled_shape=[height, width], spatial_scale=scale
    )
    graph = helper.make_graph(
        [node],
        "boxes",
        [helper.make_tensor_value_info(n, f32, v.shape) for n, v in (("x", x), ("boxes", boxes))],
        [helper.make_tensor_value_info("y", f32, [len(boxes), 3, height, width])],
    )
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    want = np.zeros((len(boxes), 3, height, width), np.float32)
    for i, (image, *sides) in enumerate(boxes):
        x0, y0, x1, y1 = (int(np.floor(side * scale + 0.5)) for side in sides)
        rows, columns = max(y1 - y0 + 1, 1) / height, max(x1 - x0 + 1, 1) / width
        for r, c in np.ndindex(height, width):
            top, left = y0 + int(np.floor(r * rows)), x0 + int(np.floor(c * columns))
            bottom, right = y0 + int(np.ceil((r + 1) * rows)), x0 + int(np.ceil((c + 1) * columns))
            part = x[int(image), :, max(top, 0) : bottom, max(left, 0) : right]
            want[i, :, r, c] = part.max((1, 2)) if part.size else 0
    inputs = {"x": x, "boxes": boxes}
    run = OnnxRunner(Tensor(model.SerializeToString()))
    np.testing.assert_array_equal(run(inputs)["y"].numpy(), want)
    theirs = _runtime(model, inputs)
    if theirs is not None:
        np.testing.assert_array_equal(theirs[0], want)
    with pytest.raises(Exception, match="image 2"):
        run({"x": x, "boxes": boxes * 2})


def _runtime(model, inputs):
    """What ONNX Runtime makes of a model; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data, providers = model.SerializeToString(), ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(data, options, providers=providers)
    return session.run(None, inputs)


def _exported(fn, *arrays, tolerance=2e-5):
    onnx = pytest.importorskip("onnx")
    model = onnx.load_from_string(export(fn, *(Tensor(a) for a in arrays)))
    onnx.checker.check_model(model, full_check=True)
    made = fn(*(Tensor(a) for a in arrays))
    wanted = [made] if isinstance(made, Tensor) else list(made)
    inputs = dict(zip((value.name for value in model.graph.input), arrays))
    ours = OnnxRunner(Tensor(model.SerializeToString()))(inputs)
    theirs = [one for one in (_reference(model, inputs), _runtime(model, inputs)) if one]
    for i, (want, again) in enumerate(zip(wanted, ours.values(), strict=True)):
        want = want.numpy()
        np.testing.assert_allclose(again.numpy(), want, rtol=tolerance, atol=tolerance)
        for got in (results[i] for results in theirs):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def _numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_exported_arithmetic():
    _exported(
        lambda x: (
            Tensor.arange(4) + x, x.exp2(), (x.abs() + 1).log2(), x.trunc(), x.erf(), x.gelu(),
            x.sigmoid(), x > 0, x != x, (x > 0).where(x, 1), x.cast("int32"), x.maximum(0.5),
        ),
        _numbers(2, 4),
    )  # fmt: skip
    _exported(
        lambda i: (i // 3, i % 3, i & 3, i | 1, i ^ 5, -i, i.min(), i.prod(), i > 1),
        np.array([[1, -7, 12]], np.int32),
    )
    _exported(
        lambda i: (i << 3, i >> 2, i >> 0, i << 31, i.cast("uint8") << 1, i.cast("uint64") >> 3),
        np.array([[1, -7, 12, 2**31 - 1, -(2**31)]], np.int32),
    )


def test_exported_shapes_and_reductions():
    _exported(
        lambda x, i: (
            x[i], x.pad((1, 2)), x.pad((0, 1), value=2.0), x[:, ::2], x.flip(1), x.cat(x),
            x.unsqueeze(0).expand(3, 2, 4), x.transpose(0, 1), x.reshape(4, 2),
        ),
        _numbers(2, 4), np.array([1, 0, -1], np.int32),
    )  # fmt: skip
    _exported(
        lambda x: (
            x.sum(), x.mean(0), x.max(1), x.argmax(1), x.cumsum(0), x.std(), (x > 0).any(1),
            x.softmax(-1), x.log_softmax(), x.logsumexp(1), x.layernorm(), x.argsort(0),
            *x.topk(2), *x.sort(descending=True), *x.round().sort(),
        ),
        _numbers(2, 4),
    )  # fmt: skip


def test_exported_layers():
    weight, filters = Tensor(_numbers(4, 3)).realize(), Tensor(_numbers(2, 1, 3, 3)).realize()
    _exported(lambda x: (x @ weight).relu().softmax(-1), _numbers(2, 4))
    _exported(
        lambda x: (x.conv2d(filters, padding=1).max_pool2d(), x.avg_pool2d(3, 1, padding=1)),
        _numbers(1, 1, 8, 8),
    )
    _exported(
        lambda x: Tensor.scaled_dot_product_attention(x, x, x, is_causal=True),
        _numbers(1, 2, 4, 8),
    )


class _Net:
    def __init__(self):
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.words = nn.Embedding(10, 8)
        self.group = nn.GroupNorm(2, 8)
        self.query, self.out = nn.Linear(8, 24), nn.Linear(8, 5)

    def __call__(self, x, words):
        x = self.norm(self.conv(x)).relu()
        x = self.group(x + self.depthwise(x).silu()).max_pool2d()
        x = x.flatten(2).transpose(1, 2) + self.words(words)
        q, k, v = self.query(x).reshape(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4).chunk(3)
        y = q.squeeze(0).scaled_dot_product_attention(k.squeeze(0), v.squeeze(0), is_causal=True)
        x = (x + y.transpose(1, 2).reshape(*x.shape)).layernorm()
        return self.out(x).log_softmax(), x.mean(1)


def test_exported_nets():
    Tensor.manual_seed(3)
    words = np.random.default_rng(9).integers(0, 10, (2, 16))
    net = _Net()
    Tensor.realize(*nn.state.get_parameters(net))
    _exported(net, _numbers(2, 3, 16, 16), words.astype(np.int32), tolerance=1e-4)
    _exported(lambda x: x.conv_transpose2d(Tensor.full((1, 1, 2, 2), 2.0)), _numbers(1, 1, 3, 3))


def test_exports_run_in_onnx_runtime():
    """It gives what the reference evaluator does; without it the tests above ask that one alone."""
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (scripts/requirements.txt)")
    onnx = pytest.importorskip("onnx")
    x = _numbers(3, 5)
    model = onnx.load_from_string(export(lambda x: x.softmax(-1).topk(2), Tensor(x)))
    for got, want in zip(_runtime(model, {"x": x}), _reference(model, {"x": x}), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_onnx_cannot_say_is_not_exported(tmp_path):
    path = tmp_path / "no.onnx"
    with pytest.raises(ValueError, match="Bitcast"):
        export(lambda x: (x + 1).bitcast("int32"), Tensor([1.0]), path=path)
    state = Tensor([1.0]).realize()
    with pytest.raises(ValueError, match="assigns"):
        export(lambda x: state.assign(x + 1), Tensor([1.0]), path=path)
    assert not path.exists()
    export(lambda x: x + 1, Tensor([1.0]), path=path)
    assert OnnxRunner(path)({"x": Tensor([2.0])})["output0"].tolist() == [3.0]
