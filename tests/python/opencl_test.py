"""DEV=OPENCL end to end: what the device computes, what the host does for it, and replays."""

import os
import subprocess
import sys

import numpy as np
import pytest

from aster_ml import Context, Device, Tensor, TinyJit, Variable, dtypes, errors, kernel, nn

pytestmark = pytest.mark.skipif(
    "ASTER_TEST_NO_SKIPS" not in os.environ
    and "CL" not in Device.get_available_devices(),
    reason="no OpenCL device is installed",
)


@pytest.fixture(autouse=True)
def opencl():
    with Context(DEV="OPENCL"):
        yield


RNG = np.random.default_rng(3)


def test_elementwise_folds_and_products():
    a, b = (RNG.standard_normal((37, 29)).astype(np.float32) for _ in range(2))
    x, y = Tensor(a), Tensor(b)
    assert x.device == Device.DEFAULT != "CPU"
    np.testing.assert_allclose((x * y + 1).exp().numpy(), np.exp(a * b + 1), rtol=1e-5)
    np.testing.assert_allclose(x.sum(0).numpy(), a.sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((x @ y.T).numpy(), a @ b.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(x[::-1, 3:9].T.numpy(), a[::-1, 3:9].T)
    np.testing.assert_array_equal(x.argmax(1).numpy(), a.argmax(1))


@pytest.mark.parametrize("dtype", [dtypes.half, dtypes.bfloat16, dtypes.int8, dtypes.uint64])
def test_dtypes_are_those_of_the_cpu(dtype):
    a = RNG.integers(0, 9, (5, 21))
    want = (Tensor(a, dtype=dtype, device="CPU") * 3 + 1).sum(1).tolist()
    assert (Tensor(a, dtype=dtype) * 3 + 1).sum(1).tolist() == want


def test_what_the_host_does_for_it():
    a = RNG.standard_normal((4, 50)).astype(np.float32)
    np.testing.assert_array_equal(Tensor(a).sort(1)[0].numpy(), np.sort(a, 1))
    np.testing.assert_allclose((Tensor(a) * 2).cumsum(1).numpy(), (a * 2).cumsum(1), rtol=1e-4)
    picked = Tensor.zeros(4, 50).scatter(1, Tensor([[1], [2], [3], [49]]), Tensor(a[:, :1].copy()))
    want = np.zeros((4, 50), np.float32)
    want[range(4), [1, 2, 3, 49]] = a[:, 0]
    np.testing.assert_array_equal(picked.numpy(), want)


def test_doubles():
    a = RNG.standard_normal(77)
    np.testing.assert_allclose((Tensor(a) / 3).sum().numpy(), (a / 3).sum(), rtol=1e-12)


SCALE = """
void scale(__global float *y, __global const float *x, __global const float *by, long count) {
  const long i = get_global_id(0);
  if (i < count) y[i] = x[i] * by[i];
}"""
SCALE_IN_C = """
void scale(float *y, const float *x, const float *by, long long begin, long long end) {
  for (long long i = begin; i < end; i++) y[i] = x[i] * by[i];
}"""
SIGNATURE = "float32[...], float32[...] -> float32[...]"


@pytest.mark.parametrize("local", [0, 32])
def test_kernels_in_opencl_c(local):
    scale = kernel(SCALE, SIGNATURE, local_size=local, gradient=lambda grad, call: (
        grad * call.src[2], grad * call.src[1]))
    a, b = (RNG.standard_normal((37, 29)).astype(np.float32) for _ in range(2))
    x, y = Tensor(a), Tensor(b)
    np.testing.assert_array_equal((scale(x.T, y.T) + 1).numpy(), a.T * b.T + 1)
    np.testing.assert_array_equal(scale(x[3:, 1:9], 2.0).numpy(), a[3:, 1:9] * 2)
    scale(x, y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), b)

    @TinyJit
    def step(x):
        return (scale(x + 1, 3.0) - 1).realize()

    for i in range(5):
        assert step(Tensor([float(i), 0.0]).realize()).tolist() == [3 * i + 2, 2]


def test_kernels_run_where_they_have_a_source():
    scale = kernel(SCALE, SIGNATURE)
    here = Tensor([1.0, 2.0], device="CPU")
    with pytest.raises(errors.UnsupportedError, match='"scale" has no source for the CPU'):
        scale(here, here).tolist()
    scale.add_source(SCALE_IN_C)
    assert scale(here, here).tolist() == scale(Tensor([1.0, 2.0]), Tensor([1.0, 2.0])).tolist()
    with pytest.raises(errors.UnsupportedError, match='"scale" has no source for OPENCL'):
        kernel(SCALE_IN_C, SIGNATURE)(Tensor([1.0]), 1.0).tolist()


def test_groups_of_a_kernel():
    rows = kernel(
        """void rows(__global float *y, __global const float *x, long count, __local void *all) {
             __local float *part = all;
             const int i = get_local_id(0), n = get_local_size(0);
             part[i] = x[get_global_id(1) * n + i];
             for (int k = n / 2; k != 0; k /= 2) {
               barrier(CLK_LOCAL_MEM_FENCE);
               if (i < k) part[i] += part[i + k];
             }
             if (i == 0) y[get_global_id(1)] = part[0];
           }""",
        "float32[6, 64] -> float32[6]",
        global_size=(64, 6),
        local_size=64,
        local_bytes=256,
    )
    a = RNG.integers(0, 9, (6, 64)).astype(np.float32)
    assert rows(Tensor(a)).tolist() == a.sum(1).tolist()
    with pytest.raises(errors.UnsupportedError, match="bytes of local memory, OPENCL has"):
        kernel(SCALE, SIGNATURE, local_bytes=1 << 40)
    with pytest.raises(errors.UnsupportedError, match="groups of .* work-items, OPENCL has"):
        kernel(SCALE, SIGNATURE, local_size=1 << 30)
    with pytest.raises(ValueError, match="at most 3 dimensions"):
        kernel(SCALE, SIGNATURE, local_size=(1, 1, 1, 1))
    with pytest.raises(errors.Error, match="undeclared identifier 'nothing'"):
        kernel("void f(__global float *y, long count) { y[0] = nothing; }", "-> float32")


def in_a_process_of_its_own(code, **environment):
    """What it prints, on a device that is taken for another one."""
    done = subprocess.run(
        [sys.executable, "-c", "import numpy as np\nfrom aster_ml import Tensor\n" + code],
        env={**os.environ, "DEV": "OPENCL", **environment},
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_doubles_without_fp64_are_the_hosts():
    code = """x = Tensor(np.arange(77.0))
print((x / 4).sum().item(), x.device, (Tensor([1.5]) * 2).item())"""
    said, warned = in_a_process_of_its_own(code, ASTER_ML_OPENCL_AS="no_fp64")
    assert said == f"731.5 {Device.DEFAULT} 3.0"
    assert "the host computes for" in warned and "float64" in warned
    said, warned = in_a_process_of_its_own(code)
    assert said == f"731.5 {Device.DEFAULT} 3.0" and not warned


def test_a_device_taken_for_a_gpu_computes_the_same():
    code = """a = np.random.default_rng(1).integers(-9, 9, (33, 70)).astype(np.float32)
x = Tensor(a)
assert ((x * 2 + 1).numpy() == a * 2 + 1).all() and (x.sum(0).numpy() == a.sum(0)).all()
assert (x.max(1).numpy() == a.max(1)).all() and (x.T.contiguous().numpy() == a.T).all()
print((x @ x.T).sum().item() == float((a @ a.T).sum()))"""
    assert in_a_process_of_its_own(code, ASTER_ML_OPENCL_AS="gpu") == ("True", "")


def test_writes_through_views():
    x = Tensor.zeros(4, 4).contiguous().realize()
    x[1:3] = 5
    x[:, 0] += 1
    want = np.zeros((4, 4), np.float32)
    want[1:3] = 5
    want[:, 0] += 1
    np.testing.assert_array_equal(x.numpy(), want)


def test_between_devices():
    a = RNG.standard_normal(1000).astype(np.float32)
    x = Tensor(a, device="CPU")
    there = x.to("OPENCL")
    np.testing.assert_array_equal((there * 2).to("CPU").numpy(), a * 2)


def test_replays():
    @TinyJit
    def step(x):
        return (x * 2 + 1).sum(0).realize()

    for i in range(5):
        assert step(Tensor(np.full((4, 3), i, np.float32)).realize()).tolist() == [8.0 * i + 4] * 3


def test_a_captured_training_step_is_that_of_the_cpu():
    def losses():
        Tensor.manual_seed(5)
        weights = Tensor.randn(8, 3)
        optimizer = nn.optim.Adam([weights], lr=0.1)
        x, y = Tensor.randn(16, 8).realize(), Tensor.randn(16, 3).realize()

        @TinyJit
        def step():
            optimizer.zero_grad()
            loss = ((x @ weights - y) ** 2).mean().backward()
            return loss.realize(*optimizer.schedule_step())

        with Context(TRAINING=1):
            return [step().item() for _ in range(6)]

    there = losses()
    with Context(DEV="CPU"):
        here = losses()
    np.testing.assert_allclose(there, here, rtol=1e-4)
    assert there[-1] < there[0]


def test_captured_functions_of_bound_variables():
    numbers = np.random.default_rng(0).standard_normal((4, 20)).astype(np.float32)
    x, n = Tensor(numbers).realize(), Variable("n", 1, 20)
    sums = TinyJit(lambda x, n: x[:, :n].sum(1).realize())
    parts = TinyJit(lambda part: (part * 2).max(1).realize())
    for size in (3, 5, 7, 20, 1):
        bound = n.bind(size)
        np.testing.assert_allclose(sums(x, bound).numpy(), numbers[:, :size].sum(1), rtol=1e-5)
        greatest = parts(x[:, :bound]).numpy()
        np.testing.assert_array_equal(greatest, 2 * numbers[:, :size].max(1))
    with Context(DEV="CPU"):  # the same numbers, elsewhere
        there = Tensor(numbers)[:, : n.bind(3)].sum(1)
        np.testing.assert_allclose(there.numpy(), numbers[:, :3].sum(1), rtol=1e-5)


def test_rows_by_the_groups_of_a_gpu():
    code = """a = np.random.default_rng(1).standard_normal((7, 1300)).astype(np.float32)
x, e = Tensor(a), np.exp(a - a.max(1, keepdims=True))
np.testing.assert_allclose(x.sum(1).numpy(), a.sum(1), rtol=1e-4, atol=1e-3)
np.testing.assert_array_equal(x.max(1).numpy(), a.max(1))
np.testing.assert_allclose(x.softmax(1).numpy(), e / e.sum(1, keepdims=True), rtol=1e-4)
np.testing.assert_allclose((x + 1).layernorm().numpy(),
                           (a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True), atol=1e-3)
print(x.device)"""
    said, warned = in_a_process_of_its_own(code, ASTER_ML_OPENCL_AS="gpu")
    assert said == Device.DEFAULT and not warned
