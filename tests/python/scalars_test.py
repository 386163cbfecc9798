"""Numbers as a dtype holds them, against live tinygrad."""

import math
import pickle
import struct

import numpy as np
import pytest

import aster_ml.dtype as ours
from aster_ml import Tensor, dtypes, nn
from aster_ml.errors import UnsupportedError

theirs = pytest.importorskip("tinygrad.dtype")

POWERS = [2.0**e for e in range(-30, 40)]
FLOATS = [
    *(s * x * f for s in (1, -1) for x in POWERS for f in (1, 1.0625, 1.125, 1.1875, 1.3, 1.9375)),
    *(0.0, -0.0, math.inf, -math.inf, 65519.99, 65520.0, 1e39, 3.4e38, 3.3961e38, 1e-45, 5e-324),
    *(0.1, 3.7, 448.0, 464.0, 464.1, 480.0, 57344.0, 61439.0, 61440.0, 240.0, 247.0, 248.0),
]
BITS = (0, 7, 8, 15, 16, 31, 32, 63, 64)
INTEGERS = [s * 2**e + d for s in (1, -1) for e in BITS for d in range(3)]


def same(a, b):
    return struct.pack("d", a) == struct.pack("d", b) or math.isnan(a) and math.isnan(b)


def pairs(names):
    return [(getattr(ours.dtypes, n), getattr(theirs.dtypes, n)) for n in names.split()]


FP8 = pairs("fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz")


@pytest.mark.parametrize("mine, their", FP8, ids=lambda d: d.name)
def test_floats_of_8_bits(mine, their):
    for x in [*FLOATS, math.nan, -math.nan]:
        assert ours.float_to_fp8(x, mine) == theirs.float_to_fp8(x, their), x
    for byte in range(256):
        a, b = ours.fp8_to_float(byte, mine), theirs.fp8_to_float(byte, their)
        assert same(a, b), byte
    for function in (ours.float_to_fp8, ours.fp8_to_float):
        with pytest.raises(AssertionError, match="no float of 8 bits"):
            function(1, dtypes.half)


def test_floats_of_16_bits():
    for x in [*FLOATS, math.nan, 7]:
        assert same(ours.float_to_fp16(x), theirs.float_to_fp16(x)), x
        assert same(ours.float_to_bf16(x), theirs.float_to_bf16(x)), x


def test_truncate():
    assert {str(d) for d in ours.truncate} == {str(d) for d in theirs.truncate}
    for mine, their in pairs("float16 bfloat16 float32 float64") + FP8:
        for x in [*FLOATS, math.nan]:
            assert same(ours.truncate[mine](x), theirs.truncate[their](x)), (mine, x)
    ints = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
    for mine, their in pairs(ints):
        for x in INTEGERS:
            assert ours.truncate[mine](x) == theirs.truncate[their](x), (mine, x)
    with pytest.raises(TypeError):
        ours.truncate[dtypes.int32](3.5)
    assert ours.truncate.get(dtypes.weakint) is None


def test_stored_scalars():
    for mine, their in zip(ours.dtypes.all, theirs.dtypes.all):
        assert ours.storage_fmt_for_dtype(mine) == theirs.storage_fmt_for_dtype(their)
        for x in (0, 1, 100):
            stored = ours.to_storage_scalar(x, mine)
            assert stored == theirs.to_storage_scalar(x, their)
            back = theirs.from_storage_scalar(stored, their)
            assert ours.from_storage_scalar(stored, mine) == back
    for x, a, b in ((1.0, "float", "int"), (-1, "int8", "uint8"), (1.5, "bfloat16", "uint16"),
                    (1.5, "half", "int16"), (1.5, "fp8e4m3", "uint8"), (77, "uint8", "fp8e5m2")):
        (m, t), (n, u) = pairs(f"{a} {b}")
        assert ours.bitcast(x, m, n) == theirs.bitcast(x, t, u)
    with pytest.raises(AssertionError, match="differ in size"):
        ours.bitcast(1, dtypes.int32, dtypes.int64)
    with pytest.raises(AssertionError, match="not stored"):
        ours.bitcast(1, dtypes.weakint, dtypes.weakfloat)


def test_invalid():
    invalid = ours.Invalid
    assert repr(invalid) == f"{invalid}" == "Invalid" and ours.InvalidType() is invalid
    assert pickle.loads(pickle.dumps(invalid)) is invalid and invalid != 1
    assert dtypes.from_py(invalid) is dtypes.bool and dtypes.float.const(invalid) is invalid
    assert Tensor(invalid).dtype is dtypes.bool
    assert Tensor.full((2,), invalid, dtype="float").dtype is dtypes.float
    assert Tensor.invalids(2, 3).dtype is dtypes.bool and Tensor.invalids(2, 3).shape == (2, 3)
    yes = Tensor([True, True])
    assert yes.where(Tensor([1, 2]), invalid).tolist() == [1, 2]
    assert (~yes).where(invalid, Tensor([1, 2])).tolist() == [1, 2]


def test_numpy_dtypes():
    kinds = [ns.dtypes.all + ns.dtypes.weaks for ns in (ours, theirs)]
    for mine, their in zip(*kinds):
        if mine is not dtypes.uint64:  # np.ulonglong and np.uint64: the same dtype
            assert ours._to_np_dtype(mine) == theirs._to_np_dtype(their)
        if mine in ours.dtypes.all:
            assert Tensor([1]).cast(mine).numpy().dtype == ours._to_np_dtype(mine)
            assert np.asarray(Tensor([1]).cast(mine).realize()).tolist() == [1]


def test_torch_dtypes():
    torch = pytest.importorskip("torch")
    for d in dtypes.all:
        assert ours._from_torch_dtype(ours._to_torch_dtype(d)) is d
    assert ours._to_torch_dtype(dtypes.weakint) is torch.int32
    with pytest.raises(KeyError):
        ours._from_torch_dtype(torch.complex64)


@pytest.mark.parametrize("name", ["int32", "float16", "bool"])
def test_const(name):
    ((mine, their),) = pairs(name)
    for x in (0, 1, 2.7, True):
        assert mine.const(x) == their.const(x)


@pytest.mark.parametrize("name", [str(d).split(".")[1] for d in dtypes.all])
def test_tensors_of_every_dtype_are_saved_and_read(name, tmp_path):
    x = Tensor([[0, 1, 2], [3, 100, 7]]).cast(name)
    copy = pickle.loads(pickle.dumps(x))
    assert copy.dtype is x.dtype and copy.tolist() == x.tolist()
    path = tmp_path / "raw"
    x.to(f"disk:{path}").realize()
    back = Tensor.empty(2, 3, dtype=name, device=f"disk:{path}")
    assert back.to("CPU").tolist() == back.tolist() == x.tolist()
    if name.endswith("fnuz"):  # the format has no name for them
        with pytest.raises(UnsupportedError, match="safetensors has no"):
            nn.state.safe_save({"x": x}, tmp_path / "x.safetensors")
        return
    nn.state.safe_save({"x": x}, tmp_path / "x.safetensors")
    read = nn.state.safe_load(tmp_path / "x.safetensors")["x"]
    assert read.dtype is x.dtype and read.tolist() == x.tolist() and read.shape == (2, 3)


def test_integers_beyond_64_bits_are_floats_beside_floats():
    tinygrad = pytest.importorskip("tinygrad")
    big = 2**70

    def results(made):
        x, half = made([1.0, -2.0]), made([1.0], dtype="half")
        yield from (x * big, x + -big, big - x, big / x, x < big, x.maximum(big), x.clip(0, big))
        yield from (x * 2**63, x * 2**64, x * 2**1023, half * big, x.pad((1, 1), value=big))
        yield from (made([True]).where(big, 0.0), x.full_like(big), made([0.0]).assign(big))
        yield from (made([1, 3], dtype="uint64") * 2**63, made([7], dtype="uint64") - (2**64 - 1))

    for ours, theirs in zip(results(Tensor), results(tinygrad.Tensor), strict=True):
        assert str(ours.dtype) == str(theirs.dtype)
        assert ours.tolist() == theirs.tolist()
    for x in (Tensor([1]), Tensor([1], dtype="int64"), Tensor([True]), Tensor([1], dtype="uint64")):
        for number in (big, -big, 10**400):
            with pytest.raises(IndexError, match="add: b is out of range: -?1"):
                x + number
    with pytest.raises(OverflowError, match="mul: b is out of range: 1000"):
        Tensor([1.0]) * 10**400
    with pytest.raises(OverflowError, match="out of range"):
        Tensor(big)
