"""Memory between Python and the library: what is shared, who holds it, when it goes."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

from aster_ml import _native as n

F32 = n.DTYPE_FLOAT32
TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


def held(context=None):
    return n.context_count_bytes(context)[0] if context else n.context_count_bytes()[0]


def fresh():
    return n.context_init({"threads": 1})


# ---- Dropped tensors ----


def test_a_dropped_tensor_frees_its_memory():
    context = fresh()
    keep = n.lazy_zeros(F32, (4,), context)
    n.lazy_realize([keep])
    x = n.from_buffer(np.ones(1 << 18, np.float32), 0, None, True, context)
    before = held(context)
    assert before > 1 << 20
    dead = weakref.ref(x)
    del x
    assert dead() is None
    n.engine_collect(context)  # gives cached blocks back too
    assert held(context) < before - (1 << 20)


def test_dropped_results_do_not_pile_up():
    context = fresh()
    keep = n.lazy_ones(F32, (1 << 16,), context)
    n.lazy_realize([keep])
    most = 0
    for i in range(200):
        y = n.lazy_add(keep, 1.5)
        n.lazy_realize([y])
        if i == 20:
            most = held(context)
    assert held(context) <= most + (1 << 19)


def test_unrealised_copies_do_not_pile_up():
    context = fresh()
    keep = n.lazy_ones(F32, (4,), context)
    n.lazy_realize([keep])
    data = np.ones(1 << 16, np.float32)
    for _ in range(100):
        n.from_buffer(data, 0, None, True, context)
    assert held(context) < 8 << 20


def test_contexts_live_as_long_as_their_tensors():
    context = fresh()
    dead = weakref.ref(context)
    x = n.lazy_ones(F32, (3,), context)
    del context
    assert dead() is not None
    assert memoryview(n.lazy_add(x, 1)).tolist() == [2, 2, 2]
    del x
    assert dead() is None


def test_everything_may_be_dropped_in_any_order():
    program = """
from aster_ml import _native as n
import numpy as np
c = n.context_init()
x = n.lazy_ones(0, (3,), c)
n.engine_capture_begin([x], c)
y = n.lazy_add(x, 1)
p = n.engine_capture_end([y], c)
w = n.workspace_init(p)
m = memoryview(y)
d = y.__dlpack__()
s = n.state_init(c)
n.state_set(s, "x", x, 1)
o = n.adam_init(s)
del c, p, x, s, y, w
print(m.tolist(), np.asarray(m))
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert out.stdout.startswith("[2.0, 2.0, 2.0]") and out.returncode == 0, out.stderr


# ---- Storages lent to Python ----


@pytest.mark.parametrize("name", TYPES)
def test_buffers_have_the_dtype_s_format(name):
    array = np.array([[0, 1, 1], [1, 0, 1]], name)
    x = n.from_buffer(array, 0, None, True)
    assert n.dtype_name(n.lazy_dtype(x)) == name
    view = memoryview(x)
    assert view.shape == (2, 3) and view.strides == (3 * array.itemsize, array.itemsize)
    back = np.asarray(x)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_writes_through_a_view_are_seen():
    x = n.lazy_zeros(F32, (2, 2))
    view = np.asarray(x)
    view[0, 1] = 5
    np.testing.assert_array_equal(np.asarray(n.lazy_add(x, 1)), [[1, 6], [1, 1]])


def test_a_view_keeps_the_memory_and_not_the_tensor_s_value():
    x = n.from_buffer(np.arange(3, dtype=np.float32), 0, None, True)
    view = np.asarray(x)
    n.replace(x, n.lazy_add(x, 10))
    np.testing.assert_array_equal(np.asarray(x), [10, 11, 12])
    dead = weakref.ref(x)
    del x
    gc.collect()
    np.testing.assert_array_equal(view, [0, 1, 2])
    del view
    gc.collect()
    assert dead() is None


def test_assignments_reach_a_view():
    x = n.lazy_zeros(F32, (3,))
    n.lazy_realize([x])
    view = np.asarray(x)
    n.lazy_assign(x, n.lazy_full((7.0, F32), 0, (3,)))
    n.lazy_realize([x])
    np.testing.assert_array_equal(view, [7, 7, 7])


def test_empty_and_0d_tensors():
    assert np.asarray(n.lazy_zeros(F32, (0, 3))).shape == (0, 3)
    assert memoryview(n.lazy_zeros(F32, (2, 0))).tolist() == [[], []]
    assert np.asarray(n.lazy_ones(F32, ())).shape == ()


def test_weak_constants_become_strong():
    assert np.asarray(n.lazy_number(1.5)).dtype == np.float32
    assert np.asarray(n.lazy_integer(3)).dtype == np.int32


def test_dtypes_without_a_format_say_what_to_do():
    x = n.lazy_ones(n.DTYPE_BFLOAT16, (2,))
    with pytest.raises(BufferError, match="no format for bfloat16: bitcast"):
        memoryview(x)
    bits = np.asarray(n.lazy_bitcast(x, n.DTYPE_UINT16))
    np.testing.assert_array_equal(bits, [0x3F80, 0x3F80])


def test_reading_in_a_capture_is_refused():
    context = fresh()
    x = n.lazy_ones(F32, (3,), context)
    n.engine_capture_begin([x], context)
    try:
        with pytest.raises(RuntimeError, match="capture"):
            memoryview(n.lazy_add(x, 1))
    finally:
        n.engine_capture_cancel(context)


def test_copies_out():
    x = n.from_buffer(np.arange(4, dtype=np.int32), 0, None, True)
    assert n.lazy_copy_out(x) == np.arange(4, dtype=np.int32).tobytes()
    room = np.zeros(4, np.int32)
    assert n.lazy_copy_out(x, room) is None
    np.testing.assert_array_equal(room, [0, 1, 2, 3])
    with pytest.raises(IndexError):
        n.lazy_copy_out(x, np.zeros(3, np.int32))
    with pytest.raises((BufferError, ValueError)):
        n.lazy_copy_out(x, bytes(16))


# ---- Memory of Python objects ----


def test_arrays_are_used_in_place_and_held():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = n.from_buffer(array)
    array[0, 0] = 50
    np.testing.assert_array_equal(np.asarray(n.lazy_add(x, 1)), array + 1)
    np.asarray(x)[1, 2] = -1
    assert array[1, 2] == -1
    alive = weakref.ref(array)
    del array
    gc.collect()
    assert alive() is not None
    del x
    gc.collect()
    assert alive() is None


def test_what_is_computed_from_an_array_holds_it():
    array = np.ones(3, np.float32)
    alive = weakref.ref(array)
    y = n.lazy_add(n.from_buffer(array), 1)
    del array
    gc.collect()
    assert alive() is not None
    assert memoryview(y).tolist() == [2, 2, 2]
    del y
    gc.collect()
    assert alive() is None


def test_a_copy_does_not_hold_the_array():
    array = np.ones(3, np.float32)
    alive = weakref.ref(array)
    x = n.from_buffer(array, 0, None, True)
    array[0] = 9
    del array
    assert alive() is None
    assert memoryview(x).tolist() == [1, 1, 1]


def copies(context):
    return n.engine_count(context)["copies"]


def test_other_layouts_are_read_in_place():
    context = fresh()
    n.context_set_copies(n.COPIES_REFUSE, context)
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for view in (
        array.T,
        array[::-1],
        array[:, ::-2, ::2],
        np.broadcast_to(array[0, 0], (2, 4)),
        array[1, 2, 3:],
        np.asfortranarray(array),
    ):
        x = n.from_buffer(view, 0, None, None, context)
        np.testing.assert_array_equal(np.asarray(n.lazy_add(x, 1)), view + 1)
        array += 100
        np.testing.assert_array_equal(np.asarray(n.lazy_sub(x, 1)), view - 1)
    assert copies(context) == 0


def test_what_can_be_a_tensor_s_own_needs_no_copy():
    array = np.zeros((4, 6), np.float32)
    x = n.from_buffer(array.T[::-1], 0, None, False)
    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    n.lazy_assign(x, n.from_buffer(values))
    n.lazy_realize([x])
    np.testing.assert_array_equal(array, values[::-1].T)
    with pytest.raises(ValueError, match="without a copy"):
        n.from_buffer(np.broadcast_to(array[0], (3, 6)), 0, None, False)


def test_windows_are_copied_as_the_policy_says():
    context = fresh()
    array = np.arange(10, dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(array, 3)
    np.testing.assert_array_equal(
        np.asarray(n.from_buffer(windows, 0, None, None, context)), windows
    )
    assert copies(context) == 1
    with pytest.raises(ValueError, match="without a copy"):
        n.from_buffer(windows, 0, None, False, context)
    n.context_set_copies(n.COPIES_REFUSE, context)
    with pytest.raises(Exception, match="96 bytes, which the context refuses"):
        n.from_buffer(windows, 0, None, None, context)


def test_unaligned_memory_is_read_in_place():
    context = fresh()
    n.context_set_copies(n.COPIES_REFUSE, context)
    raw = np.zeros(17, np.uint8)[1:]
    raw[:] = np.arange(4, dtype=np.float32).view(np.uint8)
    x = n.from_buffer(raw, F32, (4,), None, context)
    raw[3] = 0x40
    assert memoryview(x).tolist() == [2, 1, 2, 3]
    with pytest.raises(ValueError):
        n.from_buffer(raw, F32, (4,), False)
    records = np.zeros(3, [("flag", "u1"), ("value", "<f8")])
    records["value"] = [1, 2, 3]
    y = n.from_buffer(records["value"], 0, None, None, context)
    assert memoryview(y).tolist() == [1, 2, 3]
    assert memoryview(n.from_buffer(records["value"], 0, None, True)).tolist() == [1, 2, 3]


def test_other_shapes_and_dtypes_across_strides():
    array = np.arange(24, dtype=np.uint16).reshape(4, 6)
    part = array[1::2, ::3]
    for given in (None, True):
        x = n.from_buffer(part, 0, (4,), given)
        assert memoryview(x).tolist() == part.ravel().tolist()
        y = n.from_buffer(part, n.DTYPE_UINT32, None, given)
        np.testing.assert_array_equal(np.asarray(y), part.copy().view(np.uint32))
        z = n.from_buffer(part, n.DTYPE_UINT8, (2, 4), given)
        np.testing.assert_array_equal(np.asarray(z), part.copy().view(np.uint8))


def test_read_only_memory_is_never_written():
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = False
    x = n.from_buffer(array)
    view = memoryview(x)
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(ValueError):
        np.asarray(x)[0] = 1
    with pytest.raises(Exception, match="(?i)read.only"):
        n.lazy_assign(x, n.lazy_zeros(F32, (3,)))
        n.lazy_realize([x])
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_bytes_with_a_dtype_and_shape():
    data = np.arange(6, dtype=np.uint16).tobytes()
    x = n.from_buffer(data, n.DTYPE_UINT16, (2, 3))
    np.testing.assert_array_equal(np.asarray(x), np.arange(6).reshape(2, 3))
    assert n.lazy_shape(n.from_buffer(data, n.DTYPE_UINT16)) == (6,)
    assert n.lazy_dtype(n.from_buffer(data, n.DTYPE_BFLOAT16)) == n.DTYPE_BFLOAT16
    for shape in ((7,), (-6,), (2**62, 2**62)):
        with pytest.raises(ValueError, match="from_buffer"):
            n.from_buffer(data, n.DTYPE_UINT16, shape)


@pytest.mark.parametrize(
    "array, error",
    [
        (np.arange(3, dtype=">i4"), ValueError),
        (np.array([None, 1]), TypeError),
        (np.arange(3, dtype=complex), TypeError),
        (np.zeros(2, [("a", "i4"), ("b", "f4")]), TypeError),
        (np.array(["a"]), TypeError),
    ],
)
def test_arrays_without_a_dtype_are_refused(array, error):
    with pytest.raises(error, match="from_buffer"):
        n.from_buffer(array)


def test_what_has_no_buffer_is_refused():
    for wrong in (3, [1, 2], "text", None):
        with pytest.raises(TypeError, match="from_buffer: obj must be bytes or an array"):
            n.from_buffer(wrong)


def test_empty_arrays():
    x = n.from_buffer(np.zeros((0, 4), np.float32))
    assert n.lazy_shape(x) == (0, 4)
    with pytest.raises(ValueError, match="no elements"):
        n.from_buffer(np.zeros((0, 4), np.float32), 0, None, False)


def test_concrete_tensors():
    t = n.tensor_from_data(np.arange(4, dtype=np.float32), F32, (2, 2))
    dtype, device, shape, strides = n.tensor_info(t)
    assert (dtype, shape, strides) == (F32, (2, 2), (2, 1)) and n.device_to_name(device) == "CPU"
    y = n.tensor_add(t, t)
    room = np.zeros(4, np.float32)
    n.tensor_copy_out(y, room)
    np.testing.assert_array_equal(room, [0, 2, 4, 6])
    n.tensor_copy_in(y, np.ones(4, np.float32))
    np.testing.assert_array_equal(np.asarray(n.lazy_from_tensor(y)), np.ones((2, 2)))
    with pytest.raises(ValueError):
        n.tensor_copy_in(y, bytes(5))
    x = n.lazy_ones(F32, (2,))
    view = n.lazy_view(x)
    del x
    room = np.zeros(2, np.float32)
    n.tensor_copy_out(view, room)
    np.testing.assert_array_equal(room, [1, 1])


def test_dtype_copies():
    out = np.zeros(3, np.int8)
    n.dtype_copy(out, n.DTYPE_INT8, np.array([1.9, -2.9, 300.0]), n.DTYPE_FLOAT64)
    np.testing.assert_array_equal(out, np.array([1, -2, 300]).astype(np.int8))
    with pytest.raises(ValueError, match="3 elements into 2"):
        n.dtype_copy(np.zeros(2, np.int8), n.DTYPE_INT8, np.zeros(3), n.DTYPE_FLOAT64)
