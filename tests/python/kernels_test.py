"""Kernels from C and from programs, as functions of tensors."""

import numpy as np
import pytest

import aster_ml
from aster_ml import Tensor, TinyJit, errors, kernel

SCALE = """
void scale(float *y, const float *x, const float *by, long long begin, long long end) {
  for (long long i = begin; i < end; i++) y[i] = x[i] * by[i];
}"""
SIGNATURE = "float32[...], float32[...] -> float32[...]"
BACK = """
void back(float *dx, float *dby, const float *x, const float *by, const float *y, const float *dy,
          long long begin, long long end) {
  for (long long i = begin; i < end; i++) dx[i] = dy[i] * by[i], dby[i] = dy[i] * x[i];
}"""


def test_broadcasts_and_fuses_with_views():
    scale = kernel(SCALE, SIGNATURE)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = scale(Tensor(x).T, Tensor([2.0, 3.0, 4.0])) + 1
    assert np.array_equal(got.numpy(), x.T * np.array([2, 3, 4], np.float32) + 1)
    assert scale(Tensor(x), 2.0).tolist() == (x * 2).tolist()


@pytest.mark.parametrize("dtype", ["flt256", "flt512"])
def test_wide_floats_are_refused(dtype):
    signature = f"{dtype}[...] -> {dtype}[...]"
    for make in (
        lambda: kernel(SCALE, signature),
        lambda: kernel("program\n", f"{dtype}[4] -> {dtype}[4]"),
    ):
        with pytest.raises(errors.DtypeError, match=f"names {dtype}: kernels compute with no wide"):
            make()
    scale = kernel(SCALE, SIGNATURE)
    with pytest.raises(errors.DtypeError, match=dtype):
        scale(Tensor([1, 2], dtype=dtype), Tensor([2.0])).realize()


def test_sticky_integers_are_their_patterns():
    copy = kernel(
        "void copy(signed char *y, const signed char *x, long long begin, long long end) {"
        " for (long long i = begin; i < end; i++) y[i] = x[i]; }",
        "tbb8[...] -> tbb8[...]",
    )
    x = Tensor([1, 200, -3], dtype="tbb8")  # 200 is ERR
    assert str(copy(x).tolist()) == str(x.tolist())


def test_large_ones_run_in_parts():
    scale = kernel(SCALE, SIGNATURE)
    x = np.random.default_rng(1).standard_normal((1000, 777)).astype(np.float32)
    assert np.array_equal(scale(Tensor(x), Tensor(x)).numpy(), x * x)


@pytest.mark.parametrize("by_kernel", [True, False])
def test_gradients(by_kernel):
    if by_kernel:
        ins = ", ".join(["float32[...]"] * 4)
        gradient = kernel(BACK, ins + " -> float32[...], float32[...]")
    else:

        def gradient(grad, call):
            return grad * call.src[2], (grad * call.src[1]).sum(axis=0)

    scale = kernel(SCALE, SIGNATURE, gradient=gradient)
    x, by = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([5.0, 6.0])
    (scale(x, by) * Tensor([[1.0, 0.5], [2.0, 1.0]])).sum().backward()
    assert x.grad.tolist() == [[5.0, 3.0], [10.0, 6.0]]
    assert by.grad.tolist() == [7.0, 5.0]


def test_equal_calls_are_one():
    scale = kernel(SCALE, SIGNATURE, gradient=lambda g, call: (g * call.src[2], g * call.src[1]))
    x, by = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    (scale(x, by) + scale(x, by)).sum().backward()
    assert x.grad.tolist() == [6.0, 8.0] and by.grad.tolist() == [2.0, 4.0]


def test_without_a_gradient():
    x = Tensor([1.0])
    with pytest.raises(errors.UnsupportedError, match='no gradient of kernel "scale"'):
        kernel(SCALE, SIGNATURE)(x, 2.0).sum().backward()
    (kernel(SCALE, SIGNATURE)(x.detach(), 2.0) * x).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_in_a_captured_step():
    scale = kernel(SCALE, SIGNATURE)

    @TinyJit
    def step(x):
        return (scale(x + 1, 3.0) - 1).realize()

    for i in range(5):
        assert step(Tensor([float(i), 0.0]).realize()).tolist() == [3 * i + 2, 2]


def test_one_that_sees_a_whole_array():
    rows = kernel(
        "void rows(double *y, const double *x, long long begin, long long end) {"
        "  for (long long r = begin; r < end; r++) {"
        "    y[r] = 0; for (int i = 0; i < 4; i++) y[r] += x[4 * r + i]; } }",
        "float64[3, 4] -> float64[3]",
        tasks=3,
    )
    x = np.arange(12.0).reshape(3, 4)
    assert rows(Tensor(x)).tolist() == x.sum(axis=1).tolist()
    with pytest.raises(errors.Error, match="not of shape"):
        rows(Tensor(x.T.copy()))


def test_mistakes():
    with pytest.raises(errors.Error, match="bad:1:.*error"):
        kernel("void bad(float *y, long long b, long long e) { y = nothing; }", "-> float32", "bad")
    with pytest.raises(errors.Error, match="a dtype is expected"):
        kernel(SCALE, "float99[...] -> float32[...]")
    with pytest.raises(errors.Error, match="is int32"):
        kernel(SCALE, SIGNATURE)(Tensor([1]), 2.0)
    with pytest.raises(errors.Error, match="takes 2 tensors"):
        kernel(SCALE, SIGNATURE)(Tensor([1.0]))
    assert isinstance(kernel(SCALE, SIGNATURE), aster_ml.Kernel)
