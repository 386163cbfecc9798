"""NumPy's array interface in both directions."""

import gc
import weakref

import numpy as np
import pytest

from aster_ml import Tensor, dtypes
from aster_ml import _native as n

TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


class Shows:
    """An object that has nothing but the interface of an array, or a changed one."""

    def __init__(self, array, **changes):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


# ---- Out ----


@pytest.mark.parametrize("name", TYPES)
def test_the_interface_is_that_of_numpy(name):
    array = np.array([[0, 1, 1], [1, 1, 0]], name)
    shown = Tensor(array).__array_interface__
    wanted = array.__array_interface__
    for key in ("shape", "typestr", "descr", "strides", "version"):
        assert shown[key] == wanted[key], key
    assert shown["data"][1] is False


def test_the_address_is_that_of_the_memory():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    alias = np.asarray(memoryview(x))
    assert x.__array_interface__["data"][0] == alias.__array_interface__["data"][0]
    read_only = np.arange(3.0)
    read_only.flags.writeable = False
    assert n.from_dlpack(read_only).__array_interface__["data"][1] is True


def test_numpy_reads_it_and_the_memory_lives_as_long_as_the_tensor():
    x = Tensor.arange(1 << 16).realize()
    seen = np.asarray(Shows(x))  # NumPy holds the object, the object the tensor
    x.replace(Tensor.zeros(1 << 16).contiguous().realize())
    fresh = np.asarray(Shows(x))
    Tensor.ones(1 << 16).contiguous().realize()  # what would take freed memory
    gc.collect()
    assert seen[-1] == (1 << 16) - 1 and fresh[-1] == 0


def test_empty_scalars_and_what_numpy_has_no_type_for():
    assert np.asarray(Shows(Tensor.zeros(2, 0))).shape == (2, 0)
    assert np.asarray(Shows(Tensor(3.0))).item() == 3
    assert not hasattr(Tensor.ones(2, dtype=dtypes.bfloat16), "__array_interface__")


# ---- In ----


@pytest.mark.parametrize("name", TYPES)
def test_memory_is_used_in_place(name):
    array = np.array([[0, 1, 1], [1, 1, 0]], name)
    x = n.from_array_interface(Shows(array), False)
    assert n.dtype_name(n.lazy_dtype(x)) == name
    array[0, 0] = 1
    np.testing.assert_array_equal(np.asarray(x), array)


def test_the_object_is_held_and_read_only_kept():
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    shows = Shows(array)
    alive = weakref.ref(shows)
    x = n.from_array_interface(shows)
    del shows
    gc.collect()
    assert alive() is not None and memoryview(x).readonly
    del x
    gc.collect()
    assert alive() is None


def test_strides_and_copies():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    for view in (array.T, array[::-1, ::2], array[:0], array[1, 1:2].reshape(())):
        np.testing.assert_array_equal(np.asarray(n.from_array_interface(Shows(view))), view)
    x = n.from_array_interface(Shows(array), True)
    array[0, 0] = 50
    assert np.asarray(x)[0, 0] == 0
    turned = n.from_array_interface(Shows(array.T), False)
    array[0, 0] = 60
    assert np.asarray(n.lazy_mul(turned, 1))[0, 0] == 60
    with pytest.raises(BufferError, match="without a copy"):
        n.from_array_interface(Shows(np.lib.stride_tricks.sliding_window_view(array[0], 2)), False)


def test_data_may_be_an_object_with_a_buffer():
    class Image:
        __array_interface__ = {
            "shape": (2, 3),
            "typestr": "|u1",
            "version": 3,
            "data": bytes(range(7)),
            "offset": 1,
        }

    assert Tensor(Image()).tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(ValueError, match="fewer bytes"):
        Image.__array_interface__["shape"] = (2, 4)
        n.from_array_interface(Image())


@pytest.mark.parametrize(
    "changes, error, text",
    [
        ({"typestr": ">f4"}, ValueError, "byte order"),
        ({"typestr": "<c8"}, TypeError, "no dtype"),
        ({"typestr": "|V4"}, TypeError, "no dtype"),
        ({"typestr": "f"}, ValueError, "typestr"),
        ({"typestr": None}, ValueError, "typestr"),
        ({"shape": None}, ValueError, "shape"),
        ({"shape": (-1,)}, BufferError, "axis 0"),
        ({"shape": ("a",)}, TypeError, ""),
        ({"strides": (2,)}, ValueError, "multiples"),
        ({"strides": (4, 4)}, ValueError, "strides"),
        ({"strides": (1 << 62,)}, BufferError, "address space"),
        ({"data": None}, ValueError, "data"),
        ({"data": 3}, TypeError, ""),
        ({"data": (0, False)}, BufferError, "data is null"),
        ({"mask": np.zeros(4, bool)}, ValueError, "mask"),
    ],
)
def test_bad_interfaces(changes, error, text):
    with pytest.raises(error, match=text):
        n.from_array_interface(Shows(np.arange(4, dtype=np.float32), **changes))


def test_what_has_no_interface():
    with pytest.raises(AttributeError):
        n.from_array_interface(3)
    odd = Shows(np.arange(3))
    odd.__array_interface__ = 3
    with pytest.raises(ValueError, match="dict"):
        n.from_array_interface(odd)
