"""Default dtypes other than float32 and int32, against live tinygrad."""

import os
import subprocess
import sys

import numpy as np
import pytest

import aster_ml
from aster_ml import Context, Device, Tensor, TinyJit, dtypes

os.environ.setdefault("EMULATED_DTYPES", "bfloat16")  # some compilers have no __bf16
tinygrad = pytest.importorskip("tinygrad")
FLOATS = ["float16", "bfloat16", "float32", "float64"]

# What has the same bits: creation, and what is drawn.
EXACT = {
    "number": lambda t: t.Tensor(1.7),
    "list": lambda t: t.Tensor([0.1, 2]),
    "zeros": lambda t: t.Tensor.zeros(3),
    "full": lambda t: t.Tensor.full((3,), 0.3),
    "full of integers": lambda t: t.Tensor.full((3,), 7),
    "eye": lambda t: t.Tensor.eye(3),
    "arange": lambda t: t.Tensor.arange(5),
    "arange of floats": lambda t: t.Tensor.arange(0.5, 4.0, 0.5),
    "no elements": lambda t: t.Tensor([]),
    "numbers": lambda t: t.Tensor(2.5) * t.Tensor(1.25),
    "bool and a number": lambda t: t.Tensor([True, False]) + 1,
    "sum of a number": lambda t: t.Tensor(3).sum(),
    "sum of a real number": lambda t: t.Tensor(0.1).sum(),
    "integers and a number": lambda t: t.Tensor([1, 2, 3]) * 0.3,
    "cast": lambda t: t.Tensor([1, 2, 3]) + t.Tensor(0.1),
    "rand": lambda t: t.Tensor.rand(9),
    "rand_like": lambda t: t.Tensor.zeros(5).rand_like(),
    "randn": lambda t: t.Tensor.randn(4).cast("float32").abs() > 0,
    "uniform": lambda t: t.Tensor.uniform(9, low=-2, high=3),
    "uniform in another dtype": lambda t: t.Tensor.uniform(9, low=-2, high=3, dtype="float32"),
    "randint": lambda t: t.Tensor.randint(9, low=-50, high=50),
    "randint of int64": lambda t: t.Tensor.randint(9, low=0, high=7, dtype="int64"),
    "randperm": lambda t: t.Tensor.randperm(9),
    "multinomial": lambda t: t.Tensor([1.0, 2, 3, 4]).multinomial(20, replacement=True),
    "scaled_uniform": lambda t: t.Tensor.scaled_uniform(3, 4),
    "glorot_uniform": lambda t: t.Tensor.glorot_uniform(3, 4),
    "kaiming_uniform": lambda t: t.Tensor.kaiming_uniform(3, 4),
    "linear": lambda t: t.nn.Linear(3, 4).weight,
    "linear's bias": lambda t: t.nn.Linear(3, 4).bias,
    "embedding": lambda t: t.nn.Embedding(3, 4).weight,
    "conv": lambda t: t.nn.Conv2d(2, 3, 3).weight,
    "layer_norm": lambda t: t.nn.LayerNorm(3).weight,
    "batch_norm": lambda t: t.nn.BatchNorm(3).running_mean,
    "argmax": lambda t: t.Tensor([1, 3, 2]).argmax(),
}
# What is computed with the roundings of the dtype.
CLOSE = {
    "exp": lambda t: t.Tensor([1, 2, 3]).exp(),
    "sqrt": lambda t: t.Tensor([1, 2, 3]).sqrt(),
    "sqrt of bool": lambda t: t.Tensor([True, False]).sqrt(),
    "log": lambda t: t.Tensor([1, 2, 3], dtype="uint8").log(),
    "sin": lambda t: t.Tensor([1, 2, 3], dtype="int64").sin(),
    "quotient": lambda t: t.Tensor([1, 2, 3]) / 7,
    "quotient of two": lambda t: t.Tensor([1, 2, 3]) / t.Tensor([3, 7, 9], dtype="int8"),
    "quotient of numbers": lambda t: t.Tensor(1) / t.Tensor(3),
    "power": lambda t: t.Tensor([1, 2, 3]) ** 0.5,
    "sigmoid": lambda t: t.Tensor([-1, 0, 2]).sigmoid(),
    "tanh": lambda t: t.Tensor([-1, 0, 2]).tanh(),
    "softmax": lambda t: t.Tensor([[1, 2, 3]]).softmax(),
    "log_softmax": lambda t: t.Tensor([[1, 2, 3]]).log_softmax(),
    "std": lambda t: t.Tensor([1.0, 2, 4]).std(),
    "randn": lambda t: t.Tensor.randn(9),
    "normal": lambda t: t.Tensor.normal(9, mean=2, std=0.5),
    "kaiming_normal": lambda t: t.Tensor.kaiming_normal(3, 4),
    "linear": lambda t: t.nn.Linear(3, 4)(t.Tensor.ones(2, 3)),
    "scatter_reduce": lambda t: t.Tensor([1, 2, 3]).scatter_reduce(
        0, t.Tensor([0, 0, 1]), t.Tensor([4, 5, 6]), "mean"
    ),
    "cross entropy": lambda t: t.Tensor([[1, 2, 3]]).float().cross_entropy(t.Tensor([1])),
    "interpolate": lambda t: t.Tensor([[[1.0, 2, 3]]]).interpolate((5,)),
}  # fmt: skip
SINGLE = {"randn", "normal", "kaiming_normal", "cross entropy", "interpolate"}  # partly float32
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-50}


def both(program, name, value, device="CPU"):
    """The results of the two libraries: dtype and numbers of each."""
    found = []
    for library in (aster_ml, tinygrad):
        before = Device.DEFAULT
        if library is aster_ml:
            Device.DEFAULT = device
        try:
            with library.Context(**{name: value}):
                library.Tensor.manual_seed(42)
                result = program(library)
                numbers = result.numpy()
                found.append((str(result.dtype), str(numbers.dtype), numbers))
        finally:
            Device.DEFAULT = before
    return found


@pytest.mark.parametrize("device", ["CPU", "REFERENCE"])
@pytest.mark.parametrize("default", FLOATS)
@pytest.mark.parametrize("what", EXACT)
def test_the_same_bits(what, default, device):
    ours, theirs = both(EXACT[what], "DEFAULT_FLOAT", default, device)
    assert ours[:2] == theirs[:2]
    # tinygrad's emulation of bfloat16 rounds only what it stores.
    close = EPSILON[default] if default == "bfloat16" else 0
    np.testing.assert_allclose(ours[2], theirs[2], rtol=close, atol=close)


@pytest.mark.parametrize("device", ["CPU", "REFERENCE"])
@pytest.mark.parametrize("default", FLOATS)
@pytest.mark.parametrize("what", CLOSE)
def test_within_the_rounding(what, default, device):
    ours, theirs = both(CLOSE[what], "DEFAULT_FLOAT", default, device)
    assert ours[:2] == theirs[:2]
    close = 4 * EPSILON["float32" if default == "float64" and what in SINGLE else default]
    np.testing.assert_allclose(ours[2], theirs[2], rtol=close, atol=close)


@pytest.mark.parametrize("default", ["int8", "int64", "uint32"])
@pytest.mark.parametrize("what", ["number", "list", "full of integers", "arange",
                                  "bool and a number", "sum of a number", "argmax", "randint"])
def test_default_integers(what, default):
    ours, theirs = both(EXACT[what], "DEFAULT_INT", default)
    assert ours[:2] == theirs[:2]
    np.testing.assert_array_equal(ours[2], theirs[2])
    ours, theirs = both(lambda t: t.Tensor(5), "DEFAULT_INT", default)
    assert ours[1] == theirs[1]


def test_means_of_integers_are_float32_through_no_narrow_dtype():
    with Context(DEFAULT_FLOAT="float16"):
        assert Tensor([1, 2, 2]).mean().item() == np.float32(5) / np.float32(3)


def test_a_default_can_be_assigned():
    try:
        dtypes.default_float = dtypes.half
        dtypes.default_int = "int64"
        assert dtypes.default_float is dtypes.float16
        assert (Tensor([1]) / 2).dtype is dtypes.float16 and Tensor([1]).dtype is dtypes.int64
    finally:
        dtypes.default_float, dtypes.default_int = dtypes.float32, dtypes.int32
    assert (Tensor([1]) / 2).dtype is dtypes.float32


@pytest.mark.parametrize("name, value", [("DEFAULT_FLOAT", "int32"), ("DEFAULT_INT", "float32"),
                                         ("DEFAULT_FLOAT", "weakfloat"), ("DEFAULT_INT", "bool")])
def test_defaults_of_another_kind_are_refused(name, value):
    with pytest.raises(AssertionError, match="dtype"), Context(**{name: value}):
        pass
    assert dtypes.default_float is dtypes.float32 and dtypes.default_int is dtypes.int32


def test_from_the_environment():
    program = "from aster_ml import Tensor; print((Tensor([1]) / 2).dtype, Tensor.zeros(1).dtype)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=True, env={**os.environ, "DEFAULT_FLOAT": "HALF"})
    assert done.stdout.split() == ["dtypes.half", "dtypes.half"]


def test_graphs_of_other_defaults_do_not_share_schedules():
    def number():  # the same words: only what stands for weakfloat differs
        return (Tensor([1, 2]) * 0.1 + 0.2).numpy()

    plain = number()
    with Context(DEFAULT_FLOAT="float64"):
        wide = number()
    with Context(DEFAULT_FLOAT="float16"):
        narrow = number()
    assert [plain.dtype, wide.dtype, narrow.dtype] == ["float32", "float64", "float16"]
    np.testing.assert_allclose(wide, [0.30000000000000004, 0.4], rtol=0, atol=1e-16)


def test_captures_and_gradients():
    with Context(DEFAULT_FLOAT="float64"):
        step = TinyJit(lambda x: (x / 3 * Tensor(0.1)).sum().realize())
        for n in range(4):
            out = step(Tensor([n, n + 1]).realize())
            assert out.dtype is dtypes.float64 and out.item() == pytest.approx((2 * n + 1) / 30)
        w = aster_ml.nn.Linear(2, 1).weight
        grad = (w * Tensor([1, 2]) / 3).sum().gradient(w)[0]
        np.testing.assert_allclose(grad.numpy(), [[1 / 3, 2 / 3]], rtol=1e-15)
