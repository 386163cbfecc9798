"""Implementations from Python: attention's forms against NumPy in double, functions and kernels of
one's own with their gradients, policies and mistakes."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from aster_ml import Error, Tensor, _native, kernel, registry

ROOT = pathlib.Path(__file__).resolve().parents[2]


def attention(q, k, v, mask, causal, dy):
    """The result and the gradients of q, k and v, in double."""
    run = q.shape[-3] // k.shape[-3]
    q, k, v = q.astype(np.float64), k.astype(np.float64), v.astype(np.float64)
    kr, vr = np.repeat(k, run, -3), np.repeat(v, run, -3)
    scores = q @ np.swapaxes(kr, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = dy @ np.swapaxes(vr, -1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    dk, dv = np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dy

    def joined(x):
        return x.reshape(*k.shape[:-3], k.shape[-3], run, *x.shape[-2:]).sum(-3)

    return p @ vr, ds @ kr, joined(dk), joined(dv)


CASES = [
    (130, 200, 4, None, False),
    (256, 256, 2, None, True),
    (200, 130, 4, None, True),
    (130, 300, 2, "bool", False),
    (300, 130, 4, "float", False),
    (128, 1, 4, None, False),
]


@pytest.mark.parametrize("form", ["composed", "tiled", "streaming"])
@pytest.mark.parametrize("case", CASES)
def test_forms_of_attention(form, case):
    rows, columns, heads, kind, causal = case
    rng = np.random.default_rng(rows + heads)
    q = rng.standard_normal((2, 4, rows, 16)).astype(np.float32)
    k = rng.standard_normal((2, heads, columns, 16)).astype(np.float32)
    v = rng.standard_normal((2, heads, columns, 24)).astype(np.float32)
    dy = rng.standard_normal((2, 4, rows, 24)).astype(np.float32)
    mask = None
    if kind == "bool":
        mask = rng.random((rows, columns)) < 0.7
        mask[:, 0] = True
    elif kind == "float":
        mask = rng.standard_normal((2, 1, 1, columns)).astype(np.float32)
    tensors = [Tensor(x) for x in (q, k, v)]
    refuses = form == "streaming" and columns < 128
    with registry.policies(attention=f"force={form}"):

        def run():
            given = None if mask is None else Tensor(mask)
            return tensors[0].scaled_dot_product_attention(
                *tensors[1:], attn_mask=given, is_causal=causal, enable_gqa=heads != 4
            )

        if refuses:
            with pytest.raises(NotImplementedError, match="streaming: fewer than 128 keys"):
                run()
            return
        y = run()
    expected = attention(q, k, v, mask, causal, dy)
    (y * Tensor(dy)).sum().backward()
    np.testing.assert_allclose(run().numpy(), expected[0], atol=3e-6)
    for x, slope in zip(tensors, expected[1:]):
        np.testing.assert_allclose(x.grad.numpy(), slope, atol=3e-5)


def test_a_row_that_sees_nothing_is_nan_in_every_form():
    q = np.ones((1, 128, 8), np.float32)
    mask = np.ones((128, 256), bool)
    mask[3] = False
    mask[5, :200] = False
    for form in ("composed", "tiled", "streaming"):
        with registry.policies(attention=f"force={form}"):
            k = Tensor.ones(1, 256, 8)
            y = Tensor(q).scaled_dot_product_attention(k, k, attn_mask=Tensor(mask)).numpy()
        assert np.isnan(y[0, 3]).all() and not np.isnan(np.delete(y[0], 3, 0)).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("form", ["strassen", "openblas"])
def test_forms_of_products(form, dtype):
    rng = np.random.default_rng(3)
    a = rng.integers(-9, 9, (3, 128, 256)).astype(dtype)
    b = rng.integers(-9, 9, (3, 256, 130)).astype(dtype)
    with registry.policies(matmul=f"force={form}"):
        if form == "openblas" and dtype == "int32":
            with pytest.raises(NotImplementedError, match="float32 or float64 is needed"):
                Tensor(a) @ Tensor(b)
            return
        try:
            y = Tensor(a) @ Tensor(b)
        except NotImplementedError as e:
            assert form == "openblas" and "no OpenBLAS is found" in str(e)
            return
        np.testing.assert_array_equal(y.numpy(), a @ b)  # of whole numbers: exact
        if dtype == "int32":
            return
        x, z = Tensor(a), Tensor(b)
        (x @ z).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy()[0, 0], b.sum(-1)[0])
    np.testing.assert_array_equal(z.grad.numpy()[0, :, 0], a.sum(1)[0])


# Images, channels, filters, height, width and padding, at odd places of tiles.
CONVOLUTIONS = [
    (1, 16, 16, 14, 14, 1),
    (3, 5, 7, 9, 13, (2, 0, 1, 1)),
    (2, 32, 16, 3, 5, 0),
    (1, 1, 1, 1, 1, 1),
    (9, 24, 17, 33, 30, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["winograd_2x2", "winograd_4x4"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_forms_of_convolutions(form, case, dtype):
    n, c, o, height, width, pad = case
    rng = np.random.default_rng(c)
    x = rng.standard_normal((n, c, height, width)).astype(dtype)
    w = rng.standard_normal((o, c, 3, 3)).astype(dtype)
    left, right, top, bottom = (pad,) * 4 if isinstance(pad, int) else pad
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    dy = rng.standard_normal(expected.shape)
    results = []
    for policy in ("default", f"force={form}"):
        with registry.policies(conv2d=policy):
            a, b = Tensor(x), Tensor(w)
            y = a.conv2d(b, padding=pad)
            (y * Tensor(dy.astype(dtype))).sum().backward()
            results.append([y.numpy(), a.grad.numpy(), b.grad.numpy()])
    # F(4 x 4) multiplies roundings by its matrices' norms: Lavin and Gray, 2016.
    bound = 1e3 * np.finfo(dtype).eps * np.sqrt(np.mean(expected**2))
    assert np.abs(results[1][0] - expected).max() <= bound
    for own, usual in zip(results[1], results[0]):
        assert np.abs(own - usual).max() <= 1e3 * np.finfo(dtype).eps * (1 + np.abs(usual).max())


def test_fast_products_are_those_of_the_table():
    rows = [
        line[len("PRODUCT(") : line.index(")")].split(", ")
        for line in (ROOT / "src/tensor/products.def").read_text().splitlines()
        if line.startswith("PRODUCT(")
    ]
    assert rows and all(float(row[5]) >= 1.03 for row in rows)
    vector_bytes = _native.codegen_target(_native.device_from_name("CPU"))[1]
    try:
        with registry.policies(matmul="force=openblas"):
            _ = Tensor.ones(2, 2) @ Tensor.ones(2, 2)
        there_is_openblas = True
    except NotImplementedError:
        there_is_openblas = False
    for dtype, width, m, k, n, _ in rows:
        sizes = [int(m), int(k), int(n)]
        for less in (None, 0, 1, 2):
            given = [size - (less == i) for i, size in enumerate(sizes)]
            a = Tensor.empty(given[0], given[1], dtype=dtype.lower())
            b = Tensor.empty(given[1], given[2], dtype=dtype.lower())
            with registry.policies(matmul="fast"):
                product = a @ b
            expected = less is None and int(width) == vector_bytes and there_is_openblas
            found = "Foreign" in product.graph(level="tensor")
            assert found == expected, (dtype, given)
            assert "Foreign" not in (a @ b).graph(level="tensor")


def test_fast_convolutions():
    w = Tensor.rand(16, 16, 3, 3).realize()
    x = np.ones((1, 16, 20, 20), np.float32)
    x[0, 3, 5, 5] = np.inf

    def rows_of_nan(policy, **options):
        with registry.policies(conv2d=policy):
            return np.isnan(Tensor(x).conv2d(w, **options).numpy()).any((0, 1)).any(1).tolist()

    # Tiles 0 and 1 read row 5: all their results, but none of a sum of positive numbers.
    assert rows_of_nan("default") == [False] * 18
    assert rows_of_nan("fast") == [True] * 8 + [False] * 10
    assert rows_of_nan("force=winograd_4x4") == [True] * 8 + [False] * 10
    assert rows_of_nan("force=winograd_2x2") == [False] * 2 + [True] * 4 + [False] * 12
    # Where it is not faster, or cannot be, the usual one is.
    assert rows_of_nan("fast", stride=2) == [False] * 9
    few = Tensor.rand(8, 16, 3, 3)
    with registry.policies(conv2d="fast"):
        assert not np.isnan(Tensor(x).conv2d(few).numpy()).any()
    for options, why in (
        ({"stride": 2}, "stride, dilation and groups of 1"),
        ({"dilation": 2}, "stride, dilation and groups of 1"),
    ):
        with registry.policies(conv2d="force=winograd_2x2"):
            with pytest.raises(NotImplementedError, match=why):
                Tensor(x).conv2d(w, **options)
    with registry.policies(conv2d="force=winograd_4x4"):
        with pytest.raises(NotImplementedError, match="a kernel of 3 x 3"):
            Tensor(x).conv2d(Tensor.rand(16, 16, 1, 1))
        with pytest.raises(NotImplementedError, match="float32 or float64"):
            Tensor.ones(1, 1, 5, 5, dtype="int32").conv2d(Tensor.ones(1, 1, 3, 3, dtype="int32"))


@pytest.fixture
def mine():
    """Registers under "mine", and takes it away."""
    operations = []

    def add(operation, *arguments, **named):
        registry.add(operation, "mine", *arguments, **named)
        operations.append(operation)

    yield add
    for operation in operations:
        registry.remove(operation, "mine")


def test_functions_of_ones_own(mine):
    seen = []

    def build(call, x):
        seen.append(call)
        assert call.attributes == (1,) and call.result.shape == (2, 3)
        return (x - 100).exp() / (x - 100).exp().sum(1, keepdim=True)

    def refuses(call):
        return None if len(call.result.shape) == 2 else "only two axes"

    mine("softmax", build, refuses=refuses)
    x = np.array([[100.0, 101, 102], [100, 99, 101]], np.float32)
    with registry.policies(softmax="force=mine"):
        y = Tensor(x).softmax()
        with pytest.raises(NotImplementedError, match="mine: only two axes"):
            Tensor(x[None]).softmax()
        z = Tensor(x)
        z.softmax()[0, 2].sum().backward()
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(y.numpy(), p, rtol=1e-5)
    np.testing.assert_allclose(z.grad.numpy()[0], p[0, 2] * (np.eye(3)[2] - p[0]), atol=1e-6)
    assert seen[0].operation == "softmax" and seen[0].operands[0].shape == (2, 3)
    assert seen[0].device == "CPU"


def test_gradients_of_ones_own(mine):
    def gradient(call, operands, result, slope):
        return (slope[0] * 7,)

    mine("sigmoid", lambda call, x: x.exp() / (x.exp() + 1), gradient=gradient)
    x = Tensor([0.0, 1.0])
    with registry.policies(sigmoid="force=mine"):
        y = x.sigmoid()
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_kernels_of_ones_own(mine):
    square = kernel(
        "void f(float *y, const float *x, long long begin, long long end) {"
        " for (long long i = begin; i < end; i++) y[i] = x[i] * x[i]; }",
        "float32[...] -> float32[...]",
    )
    mine("sigmoid", kernel=square)
    x = Tensor([0.0, 3.0])
    with registry.policies(sigmoid="force=mine"):
        y = x.sigmoid()
        with pytest.raises(NotImplementedError, match="signature"):
            Tensor([1.0], dtype="float64").sigmoid()
    y.sum().backward()  # that of the sigmoid: the kernel has none
    np.testing.assert_allclose(x.grad.numpy()[0], 0.25)
    with registry.policies(sigmoid="force=mine"):
        assert Tensor([0.0, 3.0]).sigmoid().tolist() == [0.0, 9.0]


def test_what_goes_wrong_in_ones_own(mine):
    def broken(call, x):
        raise KeyError("what I forgot")

    mine("softmax", broken)
    with registry.policies(softmax="force=mine"):
        with pytest.raises(KeyError, match="forgot"):
            Tensor([1.0, 2.0]).softmax()
    mine("log_softmax", lambda call, x: 3)
    with registry.policies(log_softmax="force=mine"):
        with pytest.raises(TypeError, match="gave no tensor"):
            Tensor([1.0, 2.0]).log_softmax()
    mine("matmul", lambda call, a, b: a)
    with registry.policies(matmul="force=mine"):
        with pytest.raises(ValueError, match=r"\"mine\": it gave float32\[2, 3\]"):
            Tensor.ones(2, 3) @ Tensor.ones(3, 2)
    mine("logsumexp", lambda call, x: Tensor.zeros(1, 1))
    with registry.policies(logsumexp="force=mine"):
        assert Tensor([[1.0, 2.0]]).logsumexp(1).shape == (1,)
    for bad in ("mine", "matmul", 3):
        with pytest.raises(TypeError):
            registry.add("matmul", "other", bad)


def test_policies():
    with pytest.raises(ValueError, match="byte 11"):
        registry.set_policies({"matmul": "forced"})
    with pytest.raises(LookupError, match="composed, tiled, streaming"):
        registry.set_policies('{"attention": "force=flash"}')
    with pytest.raises(Error):
        registry.set_policies("{")
    with registry.policies(matmul="benchmark(cache=4)", softmax="default"):
        assert registry.describe("matmul")["policy"] == "benchmark(cache=4)"
    assert registry.describe("matmul")["policy"] == "default"


def test_benchmarks_are_remembered_on_disk(tmp_path):
    program = (
        "from aster_ml import Tensor, registry\n"
        "with registry.policies(matmul='benchmark'):\n"
        "  y = (Tensor.rand(128, 128).realize() @ Tensor.rand(128, 128).realize()).realize()\n"
        "import json; print(json.dumps(registry.describe('matmul')['measured']))\n"
    )

    def run(**more):
        env = dict(os.environ, ASTER_ML_CACHE_DIR=str(tmp_path), **more)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
        )
        return json.loads(done.stdout)

    first, second = run(), run()
    assert first == second and len(first) == 1  # to the nanosecond: it was not measured again
    ns = first[0]["ns"]
    assert first[0]["fastest"] == min(ns, key=ns.get) and set(ns) >= {"generated", "strassen"}
    assert "1 threads" in run(ASTER_ML_THREADS="1")[0]["call"]


def test_environment():
    program = "from aster_ml import Tensor; (Tensor.ones(3, 3) @ Tensor.ones(3, 3)).realize()"
    for said, message in (
        ('{"matmul": "force=strassen"}', "sizes that are even"),
        ('{"matmul": }', "no string at byte 11"),
        ('{"matmull": "default"}', "matmull"),
    ):
        env = dict(os.environ, ASTER_ML_REGISTRY=said)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=env
        )
        assert done.returncode != 0 and message in done.stderr


def test_a_capture_does_not_see_what_is_measured():
    from aster_ml import TinyJit

    @TinyJit
    def step(x):
        with registry.policies(attention="benchmark"):
            return x.scaled_dot_product_attention(x, x).realize()

    x = Tensor.rand(1, 192, 8).realize()
    results = [step(x).numpy() for _ in range(4)]
    for y in results[1:]:
        np.testing.assert_allclose(y, results[0], atol=1e-6)
    expected = attention(*[x.numpy()] * 3, None, False, np.zeros((1, 192, 8)))[0]
    np.testing.assert_allclose(results[-1], expected, atol=3e-6)
