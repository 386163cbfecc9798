"""Operands and data from elsewhere: NumPy on either side of an operator, torch, JAX, arrays."""

import array
import operator

import numpy as np
import pytest

from aster_ml import Tensor, TinyJit, Variable, dtypes

A = np.array([[1.5, 2.0], [4.0, 8.0]], np.float32)
B = np.array([[2.0, 3.0], [0.5, 1.0]], np.float32)
OPERATORS = """add sub mul truediv floordiv mod pow matmul lt gt le ge eq ne""".split()


@pytest.mark.parametrize("name", OPERATORS)
def test_arrays_on_either_side(name):
    f = getattr(operator, name)
    for x, y in ((Tensor(A), B), (A, Tensor(B))):
        made = f(x, y)
        assert isinstance(made, Tensor)
        np.testing.assert_allclose(made.numpy(), f(A, B), rtol=1e-6)


@pytest.mark.parametrize("name", "and_ or_ xor lshift rshift".split())
def test_whole_arrays_on_either_side(name):
    f, a, b = getattr(operator, name), np.array([6, 5], np.int32), np.array([3, 1], np.int32)
    assert f(Tensor(a), b).tolist() == f(a, Tensor(b)).tolist() == f(a, b).tolist()


def test_arrays_keep_their_dtype_and_scalars_of_numpy_are_numbers():
    half, whole = Tensor([1.0], dtype="half"), Tensor([3])
    assert (half * np.ones(1)).dtype == dtypes.double
    assert (whole * np.array([2])).dtype == dtypes.long
    numbers = [np.float32(2), np.float64(2), np.array(2.0, np.float32), np.array(2.0)]
    for two in [*numbers, np.int64(2), np.uint8(2), np.array(2)]:
        assert (half * two).dtype == (two * half).dtype == dtypes.half
        assert (half * two).tolist() == (two * half).tolist() == [2.0]
    for two in (np.int8(2), np.int64(2), np.array(2, np.uint8)):
        assert (whole * two).dtype == dtypes.int
    assert (Tensor([True]) & np.bool_(False)).tolist() == [False]
    assert (2 ** Tensor([3]) ** np.int32(2)).tolist() == [512]


def test_what_lends_its_memory_is_an_operand():
    for x, y in ((Tensor(A), Lent(B)), (Lent(A), Tensor(B))):
        assert (x * y).numpy().tolist() == (A * B).tolist()


def test_methods_take_arrays():
    x = Tensor(A)
    assert x.maximum(B).numpy().tolist() == np.maximum(A, B).tolist()
    assert (x > 2).where(B, 0.0).numpy().tolist() == np.where(A > 2, B, 0).tolist()
    assert x.dot(B).numpy().tolist() == (A @ B).tolist()
    x.assign(B)
    assert x.numpy().tolist() == B.tolist()


def test_lists_and_tuples_are_data():
    x = Tensor([1.0, 2.0])
    for made in (x * (3, 4), x * [3, 4], (3, 4) * x, [3, 4] * x):
        assert made.tolist() == [3.0, 8.0] and made.dtype == dtypes.float
    with pytest.raises(ValueError, match="inhomogeneous"):
        x + [[1], [2, 3]]
    with pytest.raises(RuntimeError, match="Tensor.stack"):
        Tensor([x, x])


@pytest.mark.parametrize("other", ["a", {}, object(), 1j, np.array(["a"]), np.array([1j])])
def test_what_is_no_operand(other):
    with pytest.raises(TypeError):
        Tensor([1.0]) + other


def test_none_equals_nothing():
    x = Tensor([1.0])
    assert (x == None) is False and (x != None) is True  # noqa: E711


def test_arrays_go_where_the_tensor_is():
    x = Tensor(A, device="CPU:1") + B
    assert x.device == "CPU:1" and x.numpy().tolist() == (A + B).tolist()


def test_arrays_beside_symbolic_tensors():
    n = Variable("n", 1, 4).bind(2)
    x = Tensor(np.arange(8, dtype=np.float32).reshape(4, 2)).realize()[:n]
    assert (x + A[0]).tolist() == (np.arange(4).reshape(2, 2) + A[0]).tolist()


def test_arrays_inside_a_recording_are_constants():
    step = TinyJit(lambda x: (x * B + A).realize())
    for k in range(4):
        assert step(Tensor(A * k).realize()).numpy().tolist() == (A * k * B + A).tolist()


def test_in_place():
    x = Tensor(A).realize()
    x += B
    assert x.numpy().tolist() == (A + B).tolist()


def test_functions_of_numpy_give_arrays():
    x = Tensor(A)
    for made, expected in (
        (np.sum(x), np.sum(A)),
        (np.mean(x, axis=0), np.mean(A, axis=0)),
        (np.reshape(x, (4,)), np.reshape(A, (4,))),
        (np.stack([x, B]), np.stack([A, B])),
        (np.where(A > 2, x, 0), np.where(A > 2, A, 0)),
        (np.add(B, x), B + A),
        (np.exp(x), np.exp(A)),
    ):
        assert not isinstance(made, Tensor) and made.dtype == expected.dtype
        np.testing.assert_array_equal(made, expected)
    np.testing.assert_allclose(x, A)


class Lent:
    """What another library's tensor is to this one: DLPack and nothing else."""

    def __init__(self, data):
        self.data = data

    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


class Image:
    """As images of other libraries: an array on demand."""

    def __array__(self, dtype=None, copy=None):
        return A


@pytest.mark.parametrize("kind", [Lent, lambda data: data])
def test_data_of_others_is_copied_as_arrays_are(kind):
    for data in (A, A.T, A[:, 1], A.astype(np.int64), A > 2, A[:0]):
        data = data.copy(order="K")
        made = Tensor(kind(data))
        assert made.numpy().tolist() == data.tolist() and made.shape == data.shape
        assert made.numpy().dtype == data.dtype
        data[...] = 0
        assert made.numpy().any() or not data.size
    assert Tensor(kind(A), dtype="half").dtype == dtypes.half
    assert Tensor(kind(A), device="CPU:1").device == "CPU:1"


def test_other_data():
    assert Tensor(Image()).numpy().tolist() == A.tolist()
    floats = array.array("d", [1, 2.5])
    for data in (floats, memoryview(floats)):
        made = Tensor(data)
        assert made.tolist() == [1.0, 2.5] and made.dtype == dtypes.double
    assert Tensor(Tensor(A).data()).numpy().tolist() == A.tolist()
    assert Tensor(memoryview(b"ab")).tolist() == Tensor(b"ab").tolist() == [97, 98]


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.tensor(A, requires_grad=True)
    made = Tensor(x)
    with torch.no_grad():
        x.zero_()
    assert made.numpy().tolist() == A.tolist()
    for dtype in (torch.bfloat16, torch.int64, torch.bool, torch.float16):
        ours = Tensor(torch.tensor([[1, 0], [2, 3]]).to(dtype).T)
        assert ours.tolist() == torch.tensor([[1, 0], [2, 3]]).to(dtype).T.tolist()
    assert Tensor(torch.tensor(3.0)).shape == ()
    for product in (Tensor(A) * torch.tensor(B), torch.tensor(A) * Tensor(B)):
        assert isinstance(product, Tensor) and product.numpy().tolist() == (A * B).tolist()


def test_jax():
    jax = pytest.importorskip("jax.numpy")
    for dtype in (jax.float32, jax.bfloat16, jax.int32, jax.bool_):
        made = Tensor(jax.array([[1, 0], [2, 3]], dtype).T)
        assert made.tolist() == jax.array([[1, 0], [2, 3]], dtype).T.tolist()


def test_dtypes_of_python_and_numpy():
    for given, dtype in (
        (float, dtypes.float), (int, dtypes.int), (bool, dtypes.bool), (np.float64, dtypes.double),
        (np.dtype("int8"), dtypes.int8), (np.uint16, dtypes.uint16),
    ):  # fmt: skip
        assert Tensor([1], dtype=given).dtype == Tensor([1.0]).cast(given).dtype == dtype
    for wrong in (str, list, np.complex64, "floaty", 3):
        with pytest.raises((AttributeError, TypeError)):
            Tensor([1.0], dtype=wrong)


def test_sequences_as_python_knows_them():
    x = Tensor([[1, 2], [3, 4]])
    assert 3 in x and 5 not in x and len(x) == 2
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert (+x).tolist() == x.tolist()
    assert round(Tensor([1.26]), 1).item() == pytest.approx(1.3)
    assert round(Tensor([1.6])).item() == 2.0
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        for _ in Tensor(1.0):
            pass


@pytest.mark.parametrize("make", [
    lambda: Tensor([1.0], device="CUDA"), lambda: Tensor(1.0, device="CUDA"),
    lambda: Tensor([1.0]).to("CUDA"), lambda: Tensor.ones(2, device="CUDA"),
])  # fmt: skip
def test_a_device_without_a_backend(make):
    with pytest.raises(NotImplementedError, match="no backend named CUDA is registered"):
        make()


AT = np.array([[2, -1], [0, 1]])
MASK = np.array([[True, False, True], [False, True, False]])


@pytest.mark.parametrize("index", [
    np.array([1, 0]), np.array([1, 0], np.uint8), AT[:, 1], MASK[:, 0], MASK, (slice(None), AT),
    (np.array([1, 0]), slice(1, None)), (MASK[:, 1], 2), (..., AT[0]), (None, np.array([1])),
    (AT[1], AT[0]), np.int64(1), np.array(1), (np.array([], np.int64),), np.array([[1], [0]]),
])  # fmt: skip
def test_arrays_as_indices(index):
    data = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x = Tensor(data)
    np.testing.assert_array_equal(x[index].numpy(), data[index])
    x[index] = 7.0
    data[index] = 7.0
    np.testing.assert_array_equal(x.numpy(), data)


@pytest.mark.parametrize("index", [
    np.array([2]), np.array([-3]), np.array([1.0]), np.array(["a"]), np.array([1, None]),
    np.array([[True], [False]]),
])  # fmt: skip
def test_arrays_that_are_no_indices(index):
    with pytest.raises((IndexError, TypeError)):
        Tensor(np.ones((2, 3), np.float32))[index].numpy()
