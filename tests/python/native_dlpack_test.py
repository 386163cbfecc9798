"""DLPack in both directions: NumPy, torch where it is installed, and capsules made by hand."""

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

from aster_ml import _native as n

F32 = n.DTYPE_FLOAT32
TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


# ---- The structures, for capsules of our own making ----


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    pass


class Versioned(ctypes.Structure):
    pass


Legacy.deleter_type = ctypes.CFUNCTYPE(None, ctypes.POINTER(Legacy))
Versioned.deleter_type = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Legacy._fields_ = [
    ("tensor", DLTensor),
    ("manager", ctypes.c_void_p),
    ("deleter", Legacy.deleter_type),
]
Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager", ctypes.c_void_p),
    ("deleter", Versioned.deleter_type),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
]
# Capsules do not copy their names.
NAMES = {Legacy: b"dltensor", Versioned: b"dltensor_versioned"}
USED = {Legacy: b"used_dltensor", Versioned: b"used_dltensor_versioned"}

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]


class Producer:
    """A capsule of float32 elements, and how often it was deleted."""

    def __init__(self, kind=Versioned, shape=(4,), strides=None, offset=0, **changes):
        self.deleted = []
        self.memory = (ctypes.c_float * 64)(*range(64))
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        self.managed = kind()
        self.kind = kind
        t = self.managed.tensor
        t.data = ctypes.addressof(self.memory)
        t.device_type, t.device_id, t.ndim = 1, 0, len(shape)
        t.code, t.bits, t.lanes = 2, 32, 1
        t.shape, t.byte_offset = self.shape, offset
        if strides:
            t.strides = self.strides
        if kind is Versioned:
            self.managed.major, self.managed.minor = 1, 0
        self.deleter = kind.deleter_type(lambda _: self.deleted.append(threading.get_ident()))
        self.managed.deleter = self.deleter
        for name, value in changes.items():
            setattr(self.managed if hasattr(self.managed, name) else t, name, value)

    def capsule(self):
        return api.PyCapsule_New(ctypes.addressof(self.managed), NAMES[self.kind], None)


KINDS = pytest.mark.parametrize("kind", [Legacy, Versioned])


# ---- In ----


@KINDS
def test_a_capsule_is_used_in_place_and_deleted_once(kind):
    producer = Producer(kind, (2, 3))
    capsule = producer.capsule()
    x = n.from_dlpack(capsule)
    assert api.PyCapsule_GetName(capsule).startswith(b"used_dltensor")
    producer.memory[1] = 100
    np.testing.assert_array_equal(np.asarray(x), [[0, 100, 2], [3, 4, 5]])
    np.asarray(x)[0, 0] = -1
    assert producer.memory[0] == -1
    assert not producer.deleted
    with pytest.raises(TypeError, match="capsule"):
        n.from_dlpack(capsule)
    del x, capsule
    gc.collect()
    assert len(producer.deleted) == 1


@KINDS
def test_the_deleter_runs_once_from_another_thread(kind):
    producer = Producer(kind)
    box = [n.from_dlpack(producer.capsule())]
    box.append(n.lazy_add(box[0], 1))
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert len(producer.deleted) == 1


@KINDS
def test_a_view_outlives_the_tensor(kind):
    producer = Producer(kind)
    view = np.asarray(n.from_dlpack(producer.capsule()))
    gc.collect()
    assert not producer.deleted
    np.testing.assert_array_equal(view, [0, 1, 2, 3])
    del view
    gc.collect()
    assert len(producer.deleted) == 1


@pytest.mark.parametrize(
    "shape, strides, offset, wanted",
    [
        ((2, 2), (1, 2), 0, [[0, 2], [1, 3]]),
        ((3,), (-1,), 8, [2, 1, 0]),
        ((2, 3), (0, 1), 4, [[1, 2, 3], [1, 2, 3]]),
        ((2, 1), (1, 77), 0, [[0], [1]]),
        ((0, 3), (3, 1), 0, np.zeros((0, 3))),
        ((), (), 12, 3),
    ],
)
def test_any_strides(shape, strides, offset, wanted):
    producer = Producer(Versioned, shape, strides, offset)
    x = n.from_dlpack(producer.capsule())
    np.testing.assert_array_equal(np.asarray(x), wanted)
    del x
    gc.collect()
    assert len(producer.deleted) == 1


@KINDS
def test_copies_on_request_only(kind):
    producer = Producer(kind)
    x = n.from_dlpack(producer.capsule(), True)
    gc.collect()
    assert len(producer.deleted) == 1
    assert memoryview(x).tolist() == [0, 1, 2, 3]
    windows = Producer(kind, (2, 2), (1, 1))
    with pytest.raises(BufferError, match="without a copy"):
        n.from_dlpack(windows.capsule(), False)
    gc.collect()
    assert len(windows.deleted) == 1


@KINDS
def test_strides_are_used_in_place(kind):
    turned = Producer(kind, (2, 3), (1, 2))
    x = n.from_dlpack(turned.capsule(), False)
    turned.memory[2] = 50
    np.testing.assert_array_equal(np.asarray(n.lazy_add(x, 0)), [[0, 50, 4], [1, 3, 5]])
    n.lazy_assign(x, n.lazy_add(x, 100))
    n.lazy_realize([x])
    assert list(turned.memory[:6]) == [100, 101, 150, 103, 104, 105]
    del x
    gc.collect()
    assert len(turned.deleted) == 1


def test_slices_of_numpy_are_not_copied():
    context = n.context_init({"threads": 1})
    n.context_set_copies(n.COPIES_REFUSE, context)
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (array.T, array[::-1], array[:, 1:4], array[1::2, ::-2], array[:, 2]):
        x = n.from_dlpack(view, None, context)
        np.testing.assert_array_equal(np.asarray(n.lazy_mul(x, 2)), view * 2)
    windows = np.lib.stride_tricks.sliding_window_view(array[0], 3)
    with pytest.raises(Exception, match="refuses"):
        n.from_dlpack(windows, None, context)
    assert n.engine_count(context)["copies"] == 0
    n.context_set_copies(n.COPIES_ALLOW, context)
    x = n.from_dlpack(windows, None, context)
    np.testing.assert_array_equal(np.asarray(n.lazy_mul(x, 2)), windows * 2)
    assert n.engine_count(context)["copied_bytes"] == 4 * 3 * 4


@pytest.mark.parametrize(
    "changes",
    [
        {"major": 2},
        {"device_type": 2},
        {"code": 5},
        {"bits": 24},
        {"lanes": 4},
        {"byte_offset": 2},
    ],
)
def test_what_cannot_be_used_is_refused_and_deleted_once(changes):
    producer = Producer(Versioned, (2,), **changes)
    capsule = producer.capsule()
    with pytest.raises(BufferError):
        n.from_dlpack(capsule)
    # A version that cannot be read is not taken at all.
    assert len(producer.deleted) == (0 if "major" in changes else 1)


def test_read_only_is_kept():
    producer = Producer(Versioned, flags=1)
    x = n.from_dlpack(producer.capsule())
    assert memoryview(x).readonly
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    assert np.from_dlpack(x).flags.writeable is False


def test_objects_that_know_no_versions():
    class Old:
        def __init__(self):
            self.producer = Producer(Legacy)

        def __dlpack__(self, stream=None):
            return self.producer.capsule()

    old = Old()
    assert memoryview(n.from_dlpack(old)).tolist() == [0, 1, 2, 3]


def test_errors_of_the_producer_are_passed_on():
    class Broken:
        def __dlpack__(self, **_):
            raise KeyError("broken")

    with pytest.raises(KeyError):
        n.from_dlpack(Broken())
    for wrong in (3, object()):
        with pytest.raises((TypeError, AttributeError)):
            n.from_dlpack(wrong)


# ---- Out ----


def pointer(capsule, kind):
    return kind.from_address(api.PyCapsule_GetPointer(capsule, NAMES[kind]))


def test_legacy_and_versioned_capsules():
    x = n.from_buffer(np.arange(6, dtype=np.float32).reshape(2, 3), 0, None, True)
    assert x.__dlpack_device__() == (1, 0)
    capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0))]
    capsules.append(x.__dlpack__(max_version=(9, 0), copy=True))
    legacy = pointer(capsules[0], Legacy).tensor
    assert (legacy.ndim, legacy.code, legacy.bits, legacy.lanes) == (2, 2, 32, 1)
    versioned = pointer(capsules[1], Versioned)
    assert versioned.major == 1 and versioned.flags == 0
    assert versioned.tensor.data == legacy.data
    copied = pointer(capsules[2], Versioned)
    assert copied.flags == 2 and copied.tensor.data != legacy.data


def test_requests_that_cannot_be_met():
    x = n.lazy_ones(F32, (2,))
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": (1, 1)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**wrong)
    for wrong in ({"max_version": 1}, {"dl_device": "cpu"}, {"what": 1}):
        with pytest.raises(TypeError):
            x.__dlpack__(**wrong)
    assert x.__dlpack__(dl_device=(1, 0), stream=None)


@KINDS
def test_taken_capsules_keep_the_memory_until_deleted_from_any_thread(kind):
    context = n.context_init({"threads": 1})
    keep = n.lazy_ones(F32, (2,), context)
    n.lazy_realize([keep])
    data = np.arange(1 << 18, dtype=np.float32)
    x = n.from_buffer(data, 0, None, True, context)
    capsule = x.__dlpack__(max_version=(1, 0) if kind is Versioned else None)
    managed = pointer(capsule, kind)
    api.PyCapsule_SetName(capsule, USED[kind])
    del x, capsule
    n.engine_collect(context)
    before = n.context_count_bytes(context)[0]
    elements = ctypes.cast(managed.tensor.data, ctypes.POINTER(ctypes.c_float))
    assert elements[1 << 17] == 1 << 17
    thread = threading.Thread(target=lambda: managed.deleter(ctypes.pointer(managed)))
    thread.start()
    thread.join()
    n.engine_collect(context)
    assert n.context_count_bytes(context)[0] <= before - data.nbytes


def test_capsules_that_nobody_takes_free_their_tensor():
    context = n.context_init({"threads": 1})
    dead = weakref.ref(context)
    capsule = n.lazy_ones(F32, (3,), context).__dlpack__()
    del context, capsule
    gc.collect()
    assert dead() is None


@pytest.mark.parametrize("name", TYPES)
def test_numpy_both_ways(name):
    array = np.array([[0, 1, 1], [1, 1, 0]], name)
    x = n.from_dlpack(array)
    assert n.dtype_name(n.lazy_dtype(x)) == name
    back = np.from_dlpack(x)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    array[0, 0] = 1
    assert back[0, 0] == 1


def test_numpy_arrays_are_held():
    array = np.arange(3, dtype=np.float32)
    alive = weakref.ref(array)
    x = n.from_dlpack(array)
    del array
    gc.collect()
    assert alive() is not None and memoryview(x).tolist() == [0, 1, 2]
    del x
    gc.collect()
    assert alive() is None


def test_numpy_views_and_read_only_arrays():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    for view in (array.T, array[::-1, ::2]):
        np.testing.assert_array_equal(np.asarray(n.from_dlpack(view)), view)
    array.flags.writeable = False
    assert memoryview(n.from_dlpack(array)).readonly


def test_torch_both_ways():
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = n.from_dlpack(t)
    t[0, 0] = 7
    np.testing.assert_array_equal(np.asarray(x), t.numpy())
    back = torch.from_dlpack(n.lazy_add(x, 1))
    assert torch.equal(back, t + 1)
    shared = torch.from_dlpack(x)
    shared[1, 2] = -5
    assert t[1, 2] == -5
    np.testing.assert_array_equal(np.asarray(n.from_dlpack(t.T)), t.T.numpy())
    b = torch.tensor([1.5, -2], dtype=torch.bfloat16)
    y = n.from_dlpack(b)
    assert n.lazy_dtype(y) == n.DTYPE_BFLOAT16
    assert torch.equal(torch.from_dlpack(n.lazy_mul(y, 2)), b * 2)


def test_jax_both_ways():
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(6, dtype="float32").reshape(2, 3)
    x = n.from_dlpack(array)
    np.testing.assert_array_equal(np.asarray(x), np.asarray(array))
    back = jax.dlpack.from_dlpack(n.lazy_mul(x, 2))
    np.testing.assert_array_equal(np.asarray(back), np.asarray(array) * 2)
