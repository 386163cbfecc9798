"""Tensor against live NumPy: data in and out, indexing, writing, gradients, errors."""

import copy
import math
import pathlib
import pickle

import numpy as np
import pytest

from aster_ml import Context, Device, GlobalCounters, Tensor, Variable, dtypes, function, nn
from aster_ml.errors import Error

NUMPY_DTYPES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
)


def equal(tensor, array):
    got = tensor.numpy()
    assert got.dtype == array.dtype and got.shape == array.shape
    np.testing.assert_array_equal(got, array)


# ---- data in and out


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_numpy_round_trip(name):
    array = np.arange(-3, 3).reshape(2, 3).astype(name)
    x = Tensor(array)
    assert x.dtype is getattr(dtypes, name)
    equal(x, array)
    array[:] = 1  # the tensor is a copy
    assert x.tolist() == np.arange(-3, 3).reshape(2, 3).astype(name).tolist()


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32", "int64"])
@pytest.mark.filterwarnings("error")
def test_nan_among_integers(name):
    array = np.array([np.nan, 1.9, -1.9, 100.0], np.float32)
    wrapped = [0, 1, -1 % 2 ** dtypes.uint32.bitsize if name == "uint32" else -1, 100]
    wrapped[2] = 255 if name == "uint8" else wrapped[2]
    assert Tensor(array, dtype=name).tolist() == Tensor(array).cast(name).tolist() == wrapped


@pytest.mark.parametrize("order", [np.asfortranarray, lambda a: a[:, ::-1], lambda a: a[::2].T])
def test_strided_arrays(order):
    array = order(np.arange(24.0).reshape(4, 6))
    equal(Tensor(array), np.ascontiguousarray(array))


def test_lists():
    assert Tensor([[1, 2], [3, 4]]).dtype is dtypes.int32
    assert Tensor([1, 2.5]).dtype is dtypes.float32
    assert Tensor([True, False]).dtype is dtypes.bool
    assert Tensor([]).shape == (0,) and Tensor([[], []]).shape == (2, 0)
    assert Tensor([300, -1], dtype="uint8").tolist() == [44, 255]
    assert Tensor([np.float32(1.5), 2]).tolist() == [1.5, 2.0]
    half = Tensor([0.1, 70000.0], dtype="half")
    assert half.tolist() == np.array([0.1, 70000.0], np.float16).astype(np.float32).tolist()


@pytest.mark.parametrize(
    "data, error",
    [
        ([[1, 2], [3]], ValueError),
        ([1, "a"], RuntimeError),
        ("text", RuntimeError),
        (object(), RuntimeError),
        (np.array([object()]), TypeError),
        (np.array(["a"]), TypeError),
        (np.array([1.0], ">f4"), TypeError),
        (np.array([1j]), TypeError),
    ],
)
def test_data_refused(data, error):
    with pytest.raises(error):
        Tensor(data)


def test_numbers_are_weak():
    assert Tensor(2).dtype is dtypes.weakint and Tensor(2.0).dtype is dtypes.weakfloat
    assert (Tensor([1], dtype="int8") + 1).dtype is dtypes.int8
    assert (Tensor([1], dtype="int8") + 1.5).dtype is dtypes.weakfloat
    assert (2 - Tensor([1.0], dtype="half")).dtype is dtypes.float16
    assert Tensor(None).item() == 0.0 and Tensor(3, dtype="int8").item() == 3
    with pytest.raises(ValueError):
        Tensor(float("nan"), dtype="int32")


def test_bytes_and_files(tmp_path):
    assert Tensor(b"abc").tolist() == [97, 98, 99]
    path = tmp_path / "data"
    path.write_bytes(np.arange(6, dtype=np.int32).tobytes())
    disk = Tensor(path, dtype="int32")
    assert disk.device == f"DISK:{path}" and disk[2:4].device == disk.device
    assert disk[2:4].tolist() == [2, 3] and disk.to("CPU").device == "CPU"
    with pytest.raises(FileNotFoundError):
        Tensor(pathlib.Path(tmp_path / "missing"))


def test_reading():
    x = Tensor([[1.5, 2.5]])
    assert x.data().tolist() == [[1.5, 2.5]] and x.data().shape == (1, 2)
    assert Tensor([[7]]).item() == 7 and len(x) == 1
    with pytest.raises(AssertionError):
        x.item()
    with pytest.raises(TypeError):
        bool(x)
    with pytest.raises(TypeError):
        len(Tensor(1))
    assert np.asarray(x).tolist() == [[1.5, 2.5]]
    assert Tensor.zeros(2, 0, 3).tolist() == [[], []]
    assert Tensor([1.0, 2.0], dtype="bfloat16").numpy().dtype == np.float32


def test_asarray_is_the_storage():
    x = Tensor([1.0, 2.0]).realize()
    np.asarray(x)[0] = 5
    assert x.tolist() == [5.0, 2.0]
    x.numpy()[0] = 7
    assert x.tolist() == [5.0, 2.0]


def test_repr_shows_values_shape_dtype_device():
    assert (
        repr(Tensor([[1, 2]])) == "Tensor([[1, 2]], shape=(1, 2), dtype=dtypes.int, device='CPU')"
    )
    assert "lazy" in repr(Tensor([1]) + 1) and "..." in repr(Tensor.zeros(2000).realize())


def test_copies():
    x = Tensor([1.0, 2.0]).is_param_(False)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone()):
        assert y.tolist() == [1.0, 2.0] and not y.is_param
        y.assign([0.0, 0.0]).realize()
        assert x.tolist() == [1.0, 2.0]


def test_pickles_keep_dtype_and_shape():
    for x in (
        Tensor(3.5),
        Tensor(True),
        Tensor(2),
        Tensor(2).expand(3),
        Tensor([1.5]).reshape(()),
        Tensor([1.5, -2.0], dtype="bfloat16"),
        Tensor([]),
        Tensor([[1], [2]]) + 1,
    ):
        y = pickle.loads(pickle.dumps(x))
        assert y.tolist() == x.tolist() and y.shape == x.shape
        weak = x.dtype in (dtypes.weakint, dtypes.weakfloat) and x.shape
        assert weak or y.dtype is x.dtype  # a number repeated is stored in a dtype of its own
    part = Tensor([[1, 2, 3]])[:, : Variable("n", 1, 3).bind(2)]
    assert pickle.loads(pickle.dumps(part)).tolist() == [[1, 2]]


def test_notes_on_tensors():
    x = Tensor([1.0])
    x.name = "weight"
    assert x.name == "weight" and not hasattr(x + 1, "name")


# ---- indexing and writing

INDICES = [
    0, -1, slice(1, 3), slice(None, None, -2), (slice(None), 1), (..., -1), (None, 2), (1, None, 2),
    ([0, 2],), ([0, -1], [1, 2]), (slice(None), [3, 0, 0]), ([[0], [1]], [2, 3]), (0, [1, 2]),
    (slice(0, 0),), (Ellipsis,), (slice(3, 1, -1), slice(None, None, 3)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_getitem_and_setitem(index):
    array = np.arange(20, dtype=np.float32).reshape(4, 5)
    equal(Tensor(array)[index], np.ascontiguousarray(array[index]))
    x, expected = Tensor(array).realize(), array.copy()
    expected[index] = -1
    x[index] = -1
    equal(x, expected)


def test_tensors_and_masks_as_indices():
    array = np.arange(12).reshape(3, 4).astype(np.int32)
    x, rows = Tensor(array), Tensor([2, 0])
    equal(x[rows], array[[2, 0]])
    equal(x[:, rows], array[:, [2, 0]])
    equal(x[x > 5], array[array > 5])
    assert x[Tensor([7])].tolist() == [[0, 0, 0, 0]]  # outside: zero where it is not known
    with pytest.raises(IndexError):
        x[[7]]


@pytest.mark.parametrize(
    "index, error",
    [
        (3, IndexError),
        ((0, 0, 0), IndexError),
        ((..., ...), IndexError),
        (1.5, IndexError),
        ("a", IndexError),
        ([1.5], IndexError),
        (slice(0, 2, 0), ValueError),
        (slice(0.5, 2), TypeError),
    ],
    ids=str,
)
def test_indices_refused(index, error):
    with pytest.raises(error):
        Tensor.zeros(3, 4)[index]


@pytest.mark.parametrize("size", [1, 7, 300, 1000, 4096, 4099])
@pytest.mark.parametrize("name", ["int8", "int32", "float16", "float32", "float64"])
def test_first_places_of_extrema(size, name):
    """Ties, places in every part of a row, NaN, rows of nothing but infinities."""
    rng = np.random.default_rng(size)
    array = rng.integers(0, 100, (24, size)).astype(name)
    array[:8] //= 50
    for row, at in zip(range(8, 16), np.linspace(0, size - 1, 8).astype(int)):
        array[row, at:] = 100
        array[row, size - 1 - at :] = 120
    if "float" in name:
        array[16, rng.integers(0, size, 3)] = np.nan
        array[17], array[18], array[19] = -np.inf, np.inf, np.nan
        array[20] = rng.choice([0.0, -0.0], size)
    x = Tensor(array)
    for keepdim in (False, True):
        equal(x.argmax(1, keepdim), array.argmax(1, keepdims=keepdim).astype(np.int32))
        equal(x.argmin(1, keepdim), array.argmin(1, keepdims=keepdim).astype(np.int32))
    # The extremum is asked for as well.
    most, at = x.max(1), x.argmax(1)
    most.realize(at)
    equal(most, array.max(1))
    equal(at, array.argmax(1).astype(np.int32))


@pytest.mark.parametrize(
    "shape, axes",
    [((64, 25000), 0), ((1031, 1600), 0), ((3, 700, 1024), 1), ((20, 30, 2600), (0, 1)),
     ((2, 20, 30, 1500), (1, 2)), ((4096, 1100), 0)],
)  # fmt: skip
def test_columns_of_large_matrices(shape, axes):
    """Sums, extrema and moments of what comes from memory, NaN and infinities among them."""
    rng = np.random.default_rng(len(shape))
    array = rng.standard_normal(shape).astype(np.float32)
    x = Tensor(array)
    double = array.astype(np.float64)
    for got, want in (
        (x.sum(axes), double.sum(axes)),
        (x.mean(axes), double.mean(axes)),
        (x.var(axes), double.var(axes, ddof=1)),
        ((x * 2 + 1).abs().sum(axes), np.abs(double * 2 + 1).sum(axes)),
        (x.softmax(0).sum(axes), (np.exp(double) / np.exp(double).sum(0)).sum(axes)),
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-4)
    equal(x.max(axes), array.max(axes))
    equal(x.min(axes), array.min(axes))
    whole = (array * 1000).astype(np.int32)
    np.testing.assert_array_equal(Tensor(whole).sum(axes).numpy(), whole.sum(axes))
    array[..., -1, 5], array[..., 0, 6] = np.nan, np.inf
    equal(Tensor(array).max(axes), array.max(axes))
    np.testing.assert_allclose(
        Tensor(array).sum(axes).numpy(), array.sum(axes, dtype=np.float64), rtol=1e-4, atol=2e-4
    )
    lying = np.ascontiguousarray(np.moveaxis(array, -1, 0))
    np.testing.assert_allclose(
        Tensor(lying).permute(*range(1, len(shape)), 0).sum(axes).numpy(),
        array.sum(axes, dtype=np.float64), rtol=1e-4, atol=2e-4,
    )  # fmt: skip
    head = array[..., : shape[-1] - 3]
    np.testing.assert_allclose(
        Tensor(array)[..., : shape[-1] - 3].sum(axes).numpy(),
        head.sum(axes, dtype=np.float64), rtol=1e-4, atol=2e-4,
    )  # fmt: skip


def test_in_place_operators_on_parts():
    x, array = Tensor(np.arange(6, dtype=np.float32)).realize(), np.arange(6, dtype=np.float32)
    x[1:3] *= 10
    array[1:3] *= 10
    x[0] += 5
    array[0] += 5
    a = x[0:2]
    a += 1
    x[2:4] = a
    array[0:2] += 1
    array[2:4] = array[0:2]
    equal(x, array)
    loop = Tensor.empty(12)
    for i in range(12):
        loop[i] = i
    assert loop.tolist() == list(range(12))


def test_assign_is_seen_by_all_and_checks():
    x = Tensor([1.0, 2.0]).realize()
    y = x + 1
    x.assign(Tensor([5.0, 6.0])).realize()
    assert y.tolist() == [6.0, 7.0]
    with pytest.raises(RuntimeError):
        x.assign(Tensor([1, 2]))
    with pytest.raises(ValueError):
        x.assign(Tensor.zeros(3))
    x[1:] = x[:-1].clone()
    assert x.tolist() == [5.0, 5.0]


def test_zeros_do_not_share():
    a, b = Tensor.zeros(2), Tensor.zeros(2)
    a += 1
    assert b.tolist() == [0.0, 0.0] and a.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("value", [1, 2.5])
@pytest.mark.parametrize("fill", [0, 3.0])
def test_padding_of_numbers(value, fill):
    x = Tensor(value).reshape(1).pad((1, 2), value=fill)
    assert x.dtype is (dtypes.weakfloat if fill or value == 2.5 else dtypes.weakint)
    assert x.tolist() == [fill, value, fill, fill]
    assert x.reshape(2, 2)[:, 1:].pad(((1, 0), (0, 0))).tolist() == [[0], [value], [fill]]
    y = x * Tensor([1, 2, 3, 4], dtype="int16")
    assert y.tolist() == [fill, 2 * value, 3 * fill, 4 * fill]


@pytest.mark.parametrize("data, fill, dtype", [
    ([1, 2], 0.0, dtypes.int32), ([1, 2], 7, dtypes.int32), ([1, 2], 0.5, dtypes.weakfloat),
    ([True, True], True, dtypes.bool), ([True, True], 2, dtypes.weakint),
    ([1.0, 2.0], math.inf, dtypes.float32), ([1.0, 2.0], 3, dtypes.float32),
])  # fmt: skip
def test_padding_promotes(data, fill, dtype):
    x = Tensor(data).pad((0, 1), value=fill)
    assert x.dtype is dtype and x.tolist() == [*data, fill]


# ---- gradients


def test_backward_fills_and_adds():
    x, y, other = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), Tensor([1.0])
    product = x * y
    product.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0] and product.grad.tolist() == [1.0, 1.0]
    assert other.grad is None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5.0, 6.0]
    ones = Tensor.ones(2)
    (x * ones).sum().backward()
    assert ones.grad.tolist() == [1.0, 2.0]


def test_what_requires_no_gradient_gets_none():
    x, w, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), Tensor([5.0, 6.0])
    assert x.requires_grad is None
    x.requires_grad = False
    hidden = (x * w).requires_grad_(False)
    (hidden * b).sum().backward()
    assert x.grad is None and hidden.grad is None
    assert w.grad.tolist() == [5.0, 12.0] and b.grad.tolist() == [3.0, 8.0]
    # Asked for by name it is there, as in tinygrad; and again from when it is True.
    assert (x * w).sum().gradient(x)[0].tolist() == [3.0, 4.0]
    assert x.requires_grad_() is x and x.requires_grad is True
    (x * w).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0] and w.grad.tolist() == [6.0, 14.0]
    # Copies are as what they are of.
    for copied in (b.requires_grad_(False).clone(), b.to("CPU:1")):
        assert copied.requires_grad is False
    with pytest.raises(TypeError, match="True, False or None, not 1"):
        x.requires_grad = 1
    with pytest.raises(RuntimeError, match="only float Tensors"):
        Tensor([1]).requires_grad_()
    assert Tensor([1]).requires_grad_(False).requires_grad is False


def test_optimizers_leave_alone_what_requires_no_gradient():
    frozen, w = Tensor([1.0, 2.0]).requires_grad_(False), Tensor([3.0, 4.0])
    with Context(TRAINING=1):
        optimizer = nn.optim.SGD([frozen, w], lr=1.0)
        (frozen * w).sum().backward()
        optimizer.step()
    assert frozen.tolist() == [1.0, 2.0] and w.tolist() == [2.0, 2.0]


def test_gradient_errors():
    x = Tensor([1.0, 2.0])
    with pytest.raises(AssertionError):
        x.backward()
    with pytest.raises(RuntimeError):
        x.sum().gradient(Tensor([1]))
    assert (x * x).gradient(x, gradient=Tensor([1.0, 10.0]))[0].tolist() == [2.0, 40.0]


def test_function_with_a_gradient_of_its_own():
    seen = []

    def back(grad, call):
        seen.append(call.src[1].shape)
        return grad * 100, None

    @function(grad_fxn=back)
    def f(x, y):
        return x * y

    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    f(f(x * 2, y), y).sum().backward()
    assert x.grad.tolist() == [20000.0, 20000.0] and y.grad is None
    assert seen == [(2,), (2,)]
    with pytest.raises(RuntimeError):
        function(lambda x: 1)(x)


def test_gradients_of_their_own_without_axes():
    @function(grad_fxn=lambda grad, call: (grad * 3,))
    def triple(x):
        return x * 2

    assert triple(Tensor(2.0)).item() == 4.0  # a number has no gradient, and disturbs none
    x = Tensor([2.0]).sum().realize()
    y = triple(x)
    y.backward()
    assert y.item() == 4.0 and x.grad.item() == 3.0 and x.grad.shape == ()

    @function(grad_fxn=lambda grad, largest, call: (grad * Tensor(call.src[1]),))
    def with_integers(x):
        return (x * x).sum(), x.argmax()

    x = Tensor([2.0, 3.0]).realize()
    value, largest = with_integers(x)
    value.backward()
    assert x.grad.tolist() == [2.0, 3.0] and largest.item() == 1

    @function(grad_fxn=lambda grad, call: ((Tensor(grad) * 10).uop,))
    def by_uops(x):
        return x * x

    x = Tensor([2.0]).realize()
    by_uops(x).sum().backward()
    assert x.grad.tolist() == [10.0]


def _set_part(x):
    y = Tensor.zeros(4).contiguous()
    y[1:3] = x
    return y


def _add_in_place(x):
    y = x * 2
    y += x * x
    return y


def _add_to_contiguous(x):
    y = (x * 2).contiguous()
    y += x * x
    return y


def _assign(x):
    y = Tensor.zeros(2)
    y.assign(x * 3)
    return y * y


@pytest.mark.parametrize("body", [_set_part, _add_in_place, _add_to_contiguous, _assign])
@pytest.mark.parametrize("mark", [function, lambda f: f], ids=["function", "plain"])
def test_gradients_through_writes(body, mark):
    x = Tensor([1.0, 2.0]).realize()
    weights = Tensor([1.0, 2.0, 3.0, 4.0])
    y = mark(body)(x)
    (y * weights[: y.shape[0]]).sum().backward()
    wanted = {_set_part: [2.0, 3.0], _assign: [18.0, 72.0]}.get(body, [4.0, 12.0])
    assert x.grad.tolist() == wanted


@pytest.mark.parametrize(
    "read", [Tensor.numpy, Tensor.tolist, Tensor.data, lambda h: h[0].item(), lambda h: repr(h)]
)
def test_reading_keeps_gradients(read):
    w, x = Tensor([1.0, 2.0]).realize(), Tensor([[3.0, 4.0], [5.0, 6.0]]).realize()
    hidden = x @ w
    loss = hidden.sum()
    read(hidden)
    assert loss.item() == 28.0
    loss.backward()
    assert w.grad.tolist() == [8.0, 10.0] and loss.tolist() == 28.0


def test_reading_views_runs_nothing():
    x = Tensor.arange(12.0).reshape(3, 4).clone().realize()
    x.numpy()
    GlobalCounters.reset()
    assert x[1].tolist() == [4, 5, 6, 7] and x.reshape(12)[5:7].numpy().tolist() == [5, 6]
    assert GlobalCounters.kernel_count == 0


# ---- devices, settings, errors


def test_devices():
    x = Tensor([1.0, 2.0], device="CPU:1")
    assert x.device == "CPU:1" and (x + 1).to("CPU").tolist() == [2.0, 3.0]
    assert (Tensor([1, 2]).to("python") * 2).tolist() == [2, 4]
    assert Device.DEFAULT == "CPU" and "CPU" in Device.get_available_devices()
    with pytest.raises(Error):
        Tensor([1], device="NOWHERE")


def test_context_and_counters():
    with Context(TRAINING=1):
        assert 0.0 in Tensor.ones(1000).dropout(0.5).tolist()
    assert 0.0 not in Tensor.ones(1000).dropout(0.5).tolist()
    with pytest.raises(KeyError):
        with Context(NO_SUCH_SETTING=1):
            pass
    with Context(DEFAULT_FLOAT="float64"):
        assert Tensor([1.5]).dtype is dtypes.float64 and Tensor.zeros(1).dtype is dtypes.float64
    GlobalCounters.reset()
    (Tensor([1.0, 2.0]) + 1).realize()
    assert GlobalCounters.kernel_count == 1


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x: x.reshape(4), ValueError),
        (lambda x: x.reshape(-1, -1), RuntimeError),
        (lambda x: x.expand(3, 3), ValueError),
        (lambda x: x.permute(0, 0), RuntimeError),
        (lambda x: x @ Tensor.ones(5, 2), RuntimeError),
        (lambda x: x + Tensor.ones(4), (ValueError, IndexError)),
        (lambda x: x.sum(axis=5), IndexError),
        (lambda x: x.cast("nothing"), AttributeError),
        (lambda x: x.pad((1, 2, 3)), ValueError),
        (lambda x: x.pad((1, 1, 1, 1), mode="nothing"), NotImplementedError),
        (lambda x: x.topk(9), ValueError),
        (lambda x: x.one_hot(3), RuntimeError),
        (lambda x: x.dropout(1.5), ValueError),
        (lambda x: x.shard(("CPU:0", "CPU:1")), NotImplementedError),
        (lambda x: Tensor.rand(2, dtype="int32"), ValueError),
        (lambda x: Tensor.randint(2, low=3, high=3), ValueError),
        (lambda x: Tensor.from_url("http://localhost/x"), NotImplementedError),
        (lambda x: x.int() ** -1, RuntimeError),
        (lambda x: x.conv2d(Tensor.ones(1, 1, 2, 2)), (AssertionError, ValueError)),
    ],
)
def test_exception_types(call, error):
    with pytest.raises(error):
        call(Tensor.ones(2, 3))


# ---- variables


def test_variables():
    i = Variable("i", 1, 10)
    n = i.bind(3)
    x = Tensor(np.arange(12.0).reshape(4, 3))
    assert n == 3 and n.unbind() == (i, 3) and (n * 2 + 1).vmax == 21
    assert x[:n].shape == (3, 3) and x[:n].shape[0].unbind() == (i, 3)
    assert x[:, : n - 1].shape == (4, 2) and x[n].tolist() == [9.0, 10.0, 11.0]
    assert Tensor.ones(n, 2).reshape(2, n).shape[1].vmax == 10
    with pytest.raises(AssertionError):
        i.bind(11)
    with pytest.raises(TypeError):
        x[:i]
    with pytest.raises(RuntimeError):
        n + i.bind(4)
    a, b = Variable("a", -5, 5), Variable("b", 1, 4)
    for expression in ((a + b) * 2, a // b, a % b, a - 3 * b, (a < b), a.maximum(b)):
        values = [expression.infer({"a": p, "b": q}) for p in range(-5, 6) for q in range(1, 5)]
        assert expression.vmin <= min(values) and max(values) <= expression.vmax


def test_whole_slices_are_the_tensor_itself():
    x = Tensor([1, 2]) + 1
    assert x[...] is x and x[:] is x and Tensor(3)[...].item() == 3
    x[...][0] = 9
    assert x.tolist() == [9, 3]
    with pytest.raises(IndexError):
        Tensor(3)[:]


def test_views_of_files_are_parts_of_them(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(64)))
    t = Tensor(path)
    square = t.reshape(8, 8)
    views = {
        "permute": (square.permute(1, 0), lambda a: a.reshape(8, 8).T),
        "transpose": (square.transpose(0, 1), lambda a: a.reshape(8, 8).T),
        "T": (square.T, lambda a: a.reshape(8, 8).T),
        "stride": (t[::3], lambda a: a[::3]),
        "flip": (t.flip(0), lambda a: a[::-1]),
        "row": (square[2], lambda a: a.reshape(8, 8)[2]),
        "part": (square[1:3, 2:4], lambda a: a.reshape(8, 8)[1:3, 2:4]),
        "element": (t[5], lambda a: a[5]),
        "expand": (t.expand(2, 64), lambda a: np.stack([a, a])),
        "flatten": (square.flatten(), lambda a: a),
        "unsqueeze": (t.unsqueeze(0).squeeze(0), lambda a: a),
        "bitcast": (t[4:12].bitcast("int32"), lambda a: a[4:12].copy().view(np.int32)),
    }
    a = np.arange(64, dtype=np.uint8)
    with open(path, "r+b") as f:  # they read the file, not a copy of it
        f.write(bytes([200, 201]))
    a[:2] = [200, 201]
    for name, (view, wanted) in views.items():
        assert view.device == t.device, name
        for read in (view, view.to("CPU")):
            np.testing.assert_array_equal(read.numpy(), wanted(a), err_msg=name)
        assert view.to("CPU").device == "CPU", name


STILL = """reshape(2,2) reshape(-1,2) view((2,2)) expand(2,2) expand(-1,2) permute(0,1)
    transpose(1,1) pad(((0,0),(0,0))) pad((0,0,0,0)) pad_to((2,2)) shrink(((0,2),(0,2)))
    shrink((None,None)) shrink_to((2,2)) flip(()) squeeze() squeeze(0) flatten(0,0)
    unflatten(0,(2,)) repeat(1,1) cast('float') bitcast('float') to('CPU') to(None) realize()
    __getitem__(()) __getitem__(...) __getitem__(slice(None))""".split()
MOVED = """reshape(4) reshape(1,2,2) T expand(1,2,2) flip(0) pad((1,0)) shrink(((0,1),None))
    repeat(2,1) unsqueeze(0) cast('half') detach() contiguous() clone() __getitem__(0)
    roll(0,0)""".split()


def test_movements_of_nothing_are_the_tensor_itself():
    tinygrad = pytest.importorskip("tinygrad")
    for made in (Tensor, tinygrad.Tensor):
        data = [[1.0, 2.0], [3.0, 4.0]]
        for x in (made(data), made(data).realize(), made(data).exp()):
            itself = [call for call in STILL + MOVED if eval(f"x.{call}") is x]
            assert itself == STILL, made
