"""Views of Python: what a memory is, and that nothing is copied that need not be."""

import gc
import weakref

import numpy as np
import pytest

from aster_ml import BufferView, MemoryType, Tensor, TinyJit, _native, dtypes


def test_a_view_says_what_the_memory_is():
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::-2, 1:]
    view = BufferView.from_numpy(array)
    assert view.data_ptr == array.__array_interface__["data"][0]
    assert view.shape == array.shape and view.strides == array.strides
    assert view.dtype == dtypes.int16 and view.device == "CPU" and view.size == 12
    assert view.memory_type is MemoryType.NORMAL and view.flags == {"view"}
    assert view.layout == "strided" and view.owner is array and view.writable
    assert view.is_host() and view.is_view()
    assert not (view.is_device() or view.is_pinned() or view.is_contiguous())
    np.testing.assert_array_equal(view.numpy(), array)
    np.testing.assert_array_equal(np.asarray(view), array)
    assert np.shares_memory(view.numpy(), array)
    assert repr(view) == "BufferView(short[2, 2, 3], strides=(24, -16, 2), CPU, normal)"


def test_read_only_memory():
    view = BufferView.from_buffer(b"abcdefgh", dtypes.int32)
    assert view.shape == (2,) and not view.writable and "read_only" in view.flags
    with pytest.raises(ValueError):
        view.numpy()[0] = 1
    with pytest.raises(Exception, match="read-only"):
        view.split_at(0, 1)


def test_the_memory_lives_as_long_as_a_view():
    class Array(np.ndarray):
        pass

    array = np.arange(6.0).view(Array)
    dead = weakref.ref(array)
    view = BufferView.from_numpy(array)[2:]
    x = view.tensor()
    del array, view
    gc.collect()
    assert dead() is not None and x.tolist() == [2, 3, 4, 5]
    del x
    gc.collect()
    assert dead() is None


def test_slices_are_those_of_numpy():
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    view = BufferView.from_numpy(array)
    for items in (
        slice(1, None), (slice(None), slice(None, None, -1)), (slice(2, 0, -1), slice(1, 9, 2)),
        (slice(0, 0),), (slice(5, 2), slice(None), slice(-3, None)), (slice(None),) * 3,
        (slice(0, 3, -1), slice(-1, None, -3)), (..., slice(None, None, -2)), (slice(1), ...),
        (slice(1), ..., slice(2), slice(3)), ...,
    ):  # fmt: skip
        part = view[items]
        np.testing.assert_array_equal(part.numpy(), array[items])
        assert part.same_memory(view) and part.owner is array
    with pytest.raises(TypeError, match="slices, not int"):
        view[0]
    assert len(view) == 3
    with pytest.raises(IndexError):
        view[:, :, :, :]
    with pytest.raises(ValueError):
        view[::0]


def test_halves_and_layouts():
    array = np.zeros((4, 6), np.float64)
    low, high = BufferView.from_numpy(array).split_at(-1, 2)
    low.numpy()[:], high.numpy()[:] = 1, 2
    np.testing.assert_array_equal(array, [[1, 1, 2, 2, 2, 2]] * 4)
    windows = np.lib.stride_tricks.sliding_window_view(np.zeros(6), 3, writeable=True)
    with pytest.raises(Exception, match="overlap"):
        BufferView.from_numpy(windows).split_at(0, 2)
    columns = high.to_layout("column_major")
    assert columns.is_layout("column_major") and not columns.same_memory(high)
    morton = high.to_layout("morton")
    assert morton.layout == "morton" and morton.strides == (0, 0)
    np.testing.assert_array_equal(morton.to_layout("row_major").numpy(), high.numpy())
    with pytest.raises(Exception, match="Morton"):
        morton.numpy()
    with pytest.raises(ValueError, match="layout 'z'"):
        high.to_layout("z")
    with pytest.raises(IndexError):
        high.flip(2)


def test_devices():
    array = np.arange(4, dtype=np.float32)
    view = BufferView.from_numpy(array)
    assert view.to_device("cpu") is view
    there = BufferView.from_numpy(array[::-1], "python")
    assert there.device == "PYTHON" and there.owner is None and there.is_contiguous()
    assert there.tensor().device == "PYTHON" and there.tensor().tolist() == [3, 2, 1, 0]
    with pytest.raises(Exception, match="no backend named CUDA"):
        view.to_device("cuda:0")
    with pytest.raises(TypeError, match="a device is named by a str"):
        view.to_device(3)


def test_tensors_share_the_memory():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    view = BufferView.from_tensor(x)
    view.numpy()[0, 0] = 9
    assert x.tolist() == [[9, 2], [3, 4]] and view.owner is x
    y = view.flip(1).tensor()
    y.assign(Tensor([[5.0, 6.0], [7.0, 8.0]])).realize()
    assert x.tolist() == [[6, 5], [8, 7]]


@pytest.mark.parametrize("wrong", [3, "text", None, [1, 2]])
def test_what_has_no_memory(wrong):
    with pytest.raises(TypeError, match="view_of_object: obj must be bytes or an array"):
        BufferView.from_buffer(wrong)


def test_dtypes_that_do_not_fit():
    with pytest.raises(ValueError, match="7 bytes as elements of 4"):
        BufferView.from_buffer(bytes(7), dtypes.int32)
    with pytest.raises(ValueError, match="big-endian"):
        BufferView.from_numpy(np.zeros(3, ">i4"))
    with pytest.raises(Exception, match="aligned"):
        BufferView.from_numpy(np.zeros(9, np.int8)[1:].view(np.int32))
    with pytest.raises(TypeError, match="weakint"):
        BufferView.from_buffer(bytes(8), dtypes.weakint)
    with pytest.raises(ValueError, match="copy"):
        np.array(BufferView.from_buffer(b"ab"), dtype=np.int64, copy=False)


def test_no_axes_and_no_elements():
    assert BufferView.from_numpy(np.array(3.0)).shape == ()
    assert BufferView.from_numpy(np.array(3.0)).tensor().item() == 3
    with pytest.raises(TypeError, match="no length"):
        len(BufferView.from_numpy(np.array(3.0)))
    empty = BufferView.from_numpy(np.zeros((2, 0, 3)))
    assert empty.size == 0 and empty.numpy().shape == (2, 0, 3) and empty.is_contiguous()
    assert empty.tensor().shape == (2, 0, 3)


def counted():
    return _native.engine_count()["copies"]


def test_strided_tensors_stay_views():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    before = counted()
    columns, back = (slice(None), slice(None, None, 2)), (slice(None, None, -1),)
    for slices in (columns, back, (slice(1, 3), slice(4, 1, -2))):
        for turned in (False, True):
            part = array[slices].T if turned else array[slices]
            x = BufferView.from_numpy(part).tensor()
            assert x.realize().is_realized
            for _ in range(2):
                np.testing.assert_array_equal(x.numpy(), part)
                np.testing.assert_array_equal(x.tolist(), part)
                np.testing.assert_array_equal((x * 2).numpy(), part * 2)
                assert str(x.tolist()[0]) and repr(x)
                array += 1
            shared = np.asarray(x)
            assert np.shares_memory(shared, array) and shared.strides == part.strides
            assert np.shares_memory(np.from_dlpack(x), array)
            assert np.shares_memory(BufferView.from_tensor(x).numpy(), array)
            assert memoryview(x).strides == part.strides
            np.testing.assert_array_equal(memoryview(x).tolist(), part.tolist())
    assert counted() == before


def test_views_of_tensors_see_what_is_assigned_after_they_were_read():
    x = Tensor(list(range(6))).reshape(2, 3).contiguous().realize()
    turned, every, back = x.T.realize(), x[:, ::2].realize(), x.flip(1)
    assert turned.is_realized and back.is_realized
    for plus in (0, 10, 20):
        want = np.arange(6).reshape(2, 3) + plus
        for _ in range(2):
            assert turned.tolist() == want.T.tolist()
            assert every.tolist() == want[:, ::2].tolist()
            assert back.tolist() == want[:, ::-1].tolist()
        x.assign(x + 10).realize()
    every.assign(Tensor([[1, 2], [3, 4]])).realize()
    assert x[:, ::2].tolist() == [[1, 2], [3, 4]] and turned.tolist()[2] == [2, 4]
    assert bytes(x.T) == np.ascontiguousarray(x.numpy().T).tobytes()


def test_captures_of_strided_views():
    x = Tensor(list(range(6))).reshape(2, 3).contiguous().realize()
    double = TinyJit(lambda a: (a * 2).realize())
    for i in range(4):
        turned = (x + i).realize().T
        assert double(turned).tolist() == [[2 * (r * 3 + c + i) for r in (0, 1)] for c in range(3)]
    give = TinyJit(lambda a: (a + 1).realize().T)
    for i in range(4):
        want = (np.arange(6).reshape(2, 3) + i + 1).T
        assert give((x + i).realize()).tolist() == want.tolist()
