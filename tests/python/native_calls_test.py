"""The extension's calls: what arguments become, what comes out, and how failures are raised."""

import array
import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

from aster_ml import _native as n

F32, I32, I64, U64 = n.DTYPE_FLOAT32, n.DTYPE_INT32, n.DTYPE_INT64, n.DTYPE_UINT64
ROOT = pathlib.Path(__file__).resolve().parents[2]


def tensor(values, dtype=np.float32):
    return n.from_buffer(np.array(values, dtype), 0, None, True)


def values(x):
    return np.asarray(memoryview(x))


# ---- Arguments ----


def test_numbers_stand_for_tensors_and_are_weak():
    x = tensor([1, 2, 3], np.int8)
    assert n.lazy_dtype(n.lazy_add(x, 1)) == n.DTYPE_INT8
    assert n.lazy_dtype(n.lazy_add(2.5, tensor([1], np.float16))) == n.DTYPE_FLOAT16
    assert n.lazy_dtype(n.lazy_add(x, True)) == n.DTYPE_INT8
    assert n.lazy_dtype(n.lazy_add(x, n.lazy_scalar((1, I64)))) == I64
    np.testing.assert_array_equal(values(n.lazy_sub(10, x)), [9, 8, 7])


def test_numpy_integers_are_numbers():
    x = tensor([1, 2])
    np.testing.assert_array_equal(values(n.lazy_mul(x, np.int64(3))), [3, 6])
    assert n.lazy_shape(n.lazy_reshape(x, (np.int32(2), 1))) == (2, 1)


def test_a_number_alone_is_of_the_current_context():
    assert values(n.lazy_neg(2.0)) == -2


@pytest.mark.parametrize(
    "shape", [(2, 3), [2, 3], range(2, 4), np.array([2, 3]), array.array("l", [2, 3])]
)
def test_any_sequence_of_integers_is_a_shape(shape):
    assert n.lazy_shape(n.lazy_zeros(F32, shape)) == (2, 3)


def test_one_integer_is_a_sequence_of_one():
    assert n.lazy_shape(n.lazy_zeros(F32, 4)) == (4,)


def test_no_axes_mean_all():
    x = tensor([[1, 2], [3, 4]])
    assert values(n.lazy_sum(x, None, 0)) == 10
    np.testing.assert_array_equal(values(n.lazy_sum(x, 0, 0)), [4, 6])
    np.testing.assert_array_equal(values(n.lazy_sum(x, (), 0)), [[1, 2], [3, 4]])


def test_arrays_of_one_count_have_one_length():
    x = tensor([[1, 2], [3, 4]])
    padded = n.lazy_pad(x, (1, 0), (0, 1), 7.0)
    np.testing.assert_array_equal(
        values(padded), np.pad([[1, 2], [3, 4]], ((1, 0), (0, 1)), constant_values=7)
    )
    with pytest.raises(ValueError, match="pad: after has 1 items"):
        n.lazy_pad(x, (1, 0), (0,), None)


def test_lists_of_tensors():
    a, b = tensor([1, 2]), tensor([3])
    np.testing.assert_array_equal(values(n.lazy_cat([a, b, a], 0)), [1, 2, 3, 1, 2])
    with pytest.raises(TypeError, match="cat: tensors must be a list of tensors, not int"):
        n.lazy_cat([a, 1], 0)
    with pytest.raises(TypeError, match="cat: tensors must be a list of tensors"):
        n.lazy_cat(a, 0)


def test_options_are_dicts():
    x, w = tensor(np.ones((1, 1, 4, 4))), tensor(np.ones((1, 1, 3, 3)))
    assert n.lazy_shape(n.lazy_conv2d(x, w)) == (1, 1, 2, 2)
    padded = n.lazy_conv2d(x, w, None, {"padding": (1, 1, 1, 1), "stride": [2, 2]})
    assert n.lazy_shape(padded) == (1, 1, 2, 2)
    for wrong, error in [
        ({"paddding": 1}, TypeError),
        ({"padding": (1, 1)}, ValueError),
        ({"groups": "one"}, TypeError),
        ({"groups": 2**40}, OverflowError),
        ([1], TypeError),
    ]:
        with pytest.raises(error, match="conv2d"):
            n.lazy_conv2d(x, w, None, wrong)


def test_scalars_come_back_with_their_dtype():
    assert n.scalar_from_int64(n.DTYPE_UINT8, -1) == (255, n.DTYPE_UINT8)
    assert n.scalar_from_double(F32, 0.1) == (float(np.float32(0.1)), F32)
    assert n.scalar_max(U64) == (2**64 - 1, U64)
    assert n.scalar_min(n.DTYPE_BOOL)[0] is False
    assert n.scalar_to_uint64((2**64 - 1, U64)) == 2**64 - 1
    assert n.scalar_from_data(n.DTYPE_INT16, np.int16(-3)) == (-3, n.DTYPE_INT16)


def test_structs_come_back_as_dicts():
    counters = n.engine_count()
    assert counters["realizes"] >= 0 and isinstance(counters["run_ms"], float)
    info = n.runtime_get()
    assert info["threads"] >= 1 and isinstance(info["compiler"], str)


def test_names_and_texts():
    assert n.dtype_name(F32) == "float32" and n.dtype_name(1000) is None
    assert n.dtype_from_name("int8") == n.dtype_from_name(b"char") == n.DTYPE_INT8
    assert n.device_to_name(n.device_from_name("cpu:1")) == "CPU:1"
    with pytest.raises(ValueError, match="null character"):
        n.dtype_from_name("int8\0")
    assert n.dtype_is_float(F32) is True


def test_paths(tmp_path):
    state = n.state_init()
    x = tensor([1, 2, 3])
    n.state_set(state, "x", x, 0)
    for path in (tmp_path / "a", str(tmp_path / "b"), os.fsencode(tmp_path / "c")):
        n.state_write(state, path)
        read = n.state_read(path)
        assert n.state_count(read) == 1 and n.state_name(read, 0) == "x"
        np.testing.assert_array_equal(values(n.state_get(read, "x")), [1, 2, 3])


def test_index_expressions():
    array_ = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = tensor(array_)
    for key in [
        1,
        -1,
        (0, 2),
        slice(None),
        (slice(None, None, -1), 1),
        (..., slice(1, None, 2)),
        (None, 0, ..., None),
        (slice(5, -(10**30)), slice(0, 10**30)),
        (),
    ]:
        np.testing.assert_array_equal(values(n.lazy_index(x, key)), array_[key], err_msg=str(key))
    rows = tensor([1, 0, 1], np.int32)
    np.testing.assert_array_equal(values(n.lazy_index(x, rows)), array_[[1, 0, 1]])
    np.testing.assert_array_equal(values(n.lazy_index(x, n.lazy_gt(x, 20))), array_[array_ > 20])
    for wrong, error in [
        ("a", TypeError),
        (1.5, TypeError),
        (slice(0, 1, 0), ValueError),
        (5, IndexError),
    ]:
        with pytest.raises(error):
            n.lazy_index(x, wrong)


def test_several_results_are_tuples():
    parts = n.lazy_split(tensor([1, 2, 3, 4]), (1, 3), 0)
    assert [n.lazy_shape(p) for p in parts] == [(1,), (3,)]
    assert [n.lazy_shape(p) for p in n.lazy_chunk(3, tensor(range(5)), 0)] == [(2,), (2,), (1,)]
    assert len(n.lazy_split_every(tensor(range(5)), 2, 0)) == 3
    x = tensor([1, 2])
    (g,) = n.gradient(n.lazy_sum(n.lazy_mul(x, x), None, 0), [x])
    np.testing.assert_array_equal(values(g), [2, 4])


# ---- Failures ----


def test_counts_of_arguments():
    x = tensor([1])
    for call in (lambda: n.lazy_exp(), lambda: n.lazy_exp(x, x, x), lambda: n.lazy_add(x)):
        with pytest.raises(TypeError, match=" takes "):
            call()


def test_wrong_types_name_function_and_argument():
    x = tensor([1])
    with pytest.raises(TypeError, match="add: b must be a tensor or a number, not str"):
        n.lazy_add(x, "1")
    with pytest.raises(TypeError, match="^add: a must be a tensor or a number, not dict"):
        n.lazy_add({}, x)
    with pytest.raises(TypeError, match="reshape: shape must be integers, not float"):
        n.lazy_reshape(x, (1.0,))
    with pytest.raises(TypeError, match="reshape: shape must be integers, not str"):
        n.lazy_reshape(x, "11")
    with pytest.raises(TypeError, match="cast: dtype must be an integer, not float"):
        n.lazy_cast(x, 1.5)
    with pytest.raises(TypeError, match="leaky_relu: slope must be a number, not str"):
        n.lazy_leaky_relu(x, "a")
    with pytest.raises(TypeError, match="state_count: state must be a State, not "):
        n.state_count(x)
    with pytest.raises(TypeError, match="context must be a Context"):
        n.lazy_zeros(F32, (1,), x)


def test_numbers_out_of_range():
    x = tensor([1])
    for call in (
        lambda: n.lazy_add(n.lazy_cast(x, I64), 2**63),
        lambda: n.lazy_reshape(x, (2**63,)),
        lambda: n.lazy_cast(x, 2**31),
        lambda: n.lazy_manual_seed(-1),
        lambda: n.lazy_manual_seed(2**64),
        lambda: n.scalar_from_int64(I64, 2**63),
    ):
        with pytest.raises(OverflowError):
            call()


def test_statuses_are_exceptions_with_the_library_s_message():
    a, b = tensor([1, 2]), tensor([1, 2, 3])
    with pytest.raises(ValueError, match=r"^add: .*float32\[2\].*float32\[3\]|\[2\].*\[3\]"):
        n.lazy_add(a, b)
    with pytest.raises(IndexError):
        n.lazy_sum(a, 3, 0)
    with pytest.raises(TypeError):
        n.lazy_shl(a, a)


def test_classes_of_statuses_are_set():
    program = """
from aster_ml import _native as n
class Mine(Exception): pass
n.set_errors({n.SHAPE: Mine})
try: n.lazy_reshape(n.lazy_zeros(0, (2,)), (3,))
except Mine as error: print("mine", error)
try: n.set_errors([])
except TypeError: print("refused")
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert out.startswith("mine reshape: ") and out.endswith("refused\n")


def test_an_empty_tensor_is_refused():
    empty = n.Lazy.__new__(n.Lazy)
    with pytest.raises(ValueError, match="exp: x is an empty tensor"):
        n.lazy_neg(empty) if False else n.lazy_exp(empty)
    with pytest.raises(TypeError):
        n.lazy_cat([empty], 0)


def test_handles_cannot_be_made_by_hand():
    for kind in (n.Program, n.State, n.Uop, n.ConcreteTensor):
        with pytest.raises(TypeError):
            kind()


def test_contexts_do_not_mix():
    other = n.context_init({"threads": 1})
    a, b = tensor([1, 2]), n.lazy_zeros(F32, (2,), other)
    with pytest.raises(ValueError, match="context"):
        n.lazy_add(a, b)
    np.testing.assert_array_equal(values(n.lazy_add(b, 1)), [1, 1])


def test_the_current_context_is_set():
    before = n.current()
    other = n.context_init({"seed": 7})
    n.set_current(other)
    try:
        x = n.lazy_ones(0, (2,))
    finally:
        n.set_current(before)
    with pytest.raises(ValueError):
        n.lazy_add(x, tensor([1, 2]))
    with pytest.raises(TypeError):
        n.set_current(3)


# ---- The rest ----


def test_replace_changes_what_an_object_is():
    x = tensor([1, 2])
    n.replace(x, n.lazy_add(x, 1))
    np.testing.assert_array_equal(values(x), [2, 3])
    empty = n.Lazy.__new__(n.Lazy)
    n.replace(empty, x)
    np.testing.assert_array_equal(values(empty), [2, 3])
    with pytest.raises(TypeError):
        n.replace(3, x)


def test_results_are_of_the_set_type():
    program = """
from aster_ml import _native as n
class Mine(n.Lazy):
    __slots__ = ("more",)
    def __init__(self): raise AssertionError("called")
n.set_lazy_type(Mine)
x = n.lazy_ones(0, (2,))
x.more = [x]
assert type(n.lazy_add(x, x)) is Mine
import gc, weakref
alive = weakref.ref(x); del x; gc.collect()
assert alive() is None
try: n.set_lazy_type(int)
except TypeError: print("refused")
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert out.stdout == "refused\n", out.stderr


def test_graph_nodes():
    x = tensor([1, 2])
    root = n.uop_init({"op": "Iota", "dtype": I32, "shape": (4,)})
    assert n.uop_op(root) == "Iota" and n.uop_ndim(root) == 1 and n.uop_dim_at(root, 0) == 4
    same = n.uop_init({"op": "Iota", "dtype": I32, "shape": (4,)})
    assert same == root and hash(same) == hash(root)
    negated = n.uop_init({"op": "Neg", "sources": [root]}) if "Neg" in n.uop_print(root) else None
    assert negated is None or root in n.uop_walk(negated)
    assert n.uop_source_at(root, 5) is None
    with pytest.raises(Exception, match="(?i)no such|unknown|Nonsense"):
        n.uop_init({"op": "Nonsense"})
    del x


def test_every_exported_function_is_offered_or_left_out_on_purpose():
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "manifest.py", "--compiler", "none"],
        capture_output=True,
        text=True,
        check=True,
    )
    manifest = json.loads(made.stdout)
    sys.path.insert(0, str(ROOT / "tools"))
    import python_binding

    with open("/proc/self/maps", encoding="utf-8") as file:
        (library,) = {line.split()[-1] for line in file if "libaster_ml" in line}
    exported = python_binding.exported_by(library)
    missing = []
    for function in manifest["functions"]:
        name = python_binding.short(function["name"])
        frees = name.endswith("_free")  # handles end with their last reference
        offered = hasattr(n, name) or name in python_binding.LEFT_OUT
        if function["name"] in exported and not frees and not offered:
            missing.append(name)
    assert not missing


def test_calls_from_many_threads_on_contexts_of_their_own():
    failures = []

    def work(seed):
        try:
            context = n.context_init({"threads": 1})
            for i in range(50):
                x = n.lazy_full((float(i), F32), 0, (8,), context)
                assert values(n.lazy_add(x, seed))[0] == i + seed
        except BaseException as error:  # noqa: B902 - reported below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
