"""Dtypes under tinygrad's names: `dtypes.float32`, `dtypes.half`, promotion, limits.

>>> dtypes.float32.itemsize, dtypes.half
(4, dtypes.half)
>>> least_upper_dtype(dtypes.int8, dtypes.float16)
dtypes.half
"""

from __future__ import annotations

import builtins
import functools
import importlib
import math
import operator
import struct
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final, Union

from . import _native
from .absent import of_module
from .helpers import DEFAULT_FLOAT, DEFAULT_INT, ContextVar


class InvalidType:
    """The type of Invalid: an element that nobody wrote. There is one object of it."""

    __slots__ = ()
    _only: ClassVar[InvalidType | None] = None

    def __new__(cls) -> InvalidType:
        if cls._only is None:
            cls._only = object.__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "Invalid"

    def __reduce__(self) -> tuple[Any, ...]:
        return InvalidType, ()


Invalid = InvalidType()


class ErrType:
    """The type of ERR, an element of a sticky integer that is no number. There is one object.

    >>> (Tensor([100, 27, 28], dtype=dtypes.tbb8) + 100).tolist()
    [ERR, 127, ERR]
    """

    __slots__ = ()
    _only: ClassVar[ErrType | None] = None

    def __new__(cls) -> ErrType:
        if cls._only is None:
            cls._only = object.__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "ERR"

    def __float__(self) -> builtins.float:
        return math.nan

    def __format__(self, spec: str) -> str:
        return "ERR"

    def __reduce__(self) -> tuple[Any, ...]:
        return ErrType, ()


ERR = ErrType()
PyConst = Union[builtins.float, builtins.int, builtins.bool]
ConstType = Union[PyConst, InvalidType]


class DType:
    """A dtype: name, itemsize, priority in promotion, struct format or None. One object each."""

    __slots__ = ("priority", "bitsize", "name", "fmt", "code", "attribute")

    def __init__(
        self,
        attribute: str,
        priority: builtins.int,
        bitsize: builtins.int,
        name: str,
        fmt: str | None,
        code: builtins.int,
    ):
        self.attribute, self.priority, self.bitsize = attribute, priority, bitsize
        self.name, self.fmt, self.code = name, fmt, code

    @property
    def itemsize(self) -> builtins.int:
        """Bytes of one element."""
        return (self.bitsize + 7) // 8

    def __repr__(self) -> str:
        return f"dtypes.{self.attribute}"

    def __reduce__(self) -> tuple[Any, ...]:
        return to_dtype, (self.attribute,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: Any) -> DType:
        return self

    def __lt__(self, o: DType) -> builtins.bool:
        return (self.priority, self.bitsize, self.name) < (o.priority, o.bitsize, o.name)

    @property
    def min(self) -> PyConst:
        """The least value; -inf for floats."""
        if dtypes.is_sticky(self):
            return 1 - 2 ** (self.bitsize - 1)
        if dtypes.is_int(self):
            return 0 if dtypes.is_unsigned(self) else -(2 ** (self.bitsize - 1))
        return -math.inf if dtypes.is_float(self) else False

    @property
    def max(self) -> PyConst:
        """The greatest value; inf for floats."""
        if dtypes.is_sticky(self):
            return 2 ** (self.bitsize - 1) - 1
        if dtypes.is_int(self):
            return 2**self.bitsize - 1 + self.min
        return math.inf if dtypes.is_float(self) else True

    def const(self, val: ConstType) -> ConstType:
        """val as a value of this dtype."""
        if isinstance(val, InvalidType):
            return val
        if dtypes.is_float(self):
            return truncate.get(self, builtins.float)(val)  # type: ignore[no-any-return]
        return builtins.bool(val) if dtypes.is_bool(self) else builtins.int(val)

    @staticmethod
    def new(priority: builtins.int, bitsize: builtins.int, name: str, fmt: str | None) -> DType:
        for known in _BY_CODE.values():
            if (known.priority, known.bitsize, known.name, known.fmt) == (
                priority, bitsize, name, fmt,
            ):  # fmt: skip
                return known
        raise TypeError(f"no such dtype: {name}")


class DTypes:
    """The dtypes as attributes, and questions about them."""

    @staticmethod
    def is_float(x: DType) -> builtins.bool:
        return is_stored_float(x.code) or x.code == 33

    @staticmethod
    def is_int(x: DType) -> builtins.bool:
        return 2 <= x.code <= 9 or x.code == 32

    @staticmethod
    def is_unsigned(x: DType) -> builtins.bool:
        return x.code in (3, 5, 7, 9)

    @staticmethod
    def is_bool(x: DType) -> builtins.bool:
        return x.code == 1

    @staticmethod
    def is_sticky(x: DType) -> builtins.bool:
        """Whether it is a sticky integer, tbb8 to tbb64: what does not fit is ERR, which stays.

        >>> dtypes.is_sticky(dtypes.tbb8), dtypes.is_sticky(dtypes.int8)
        (True, False)
        """
        return 48 <= x.code < 56 and not dtypes.is_wide(x)

    @staticmethod
    def is_wide(x: DType) -> builtins.bool:
        """Whether it is flt256 or flt512: 237 and 489 bits, every operation rounded once.

        >>> Tensor(["0.1", 1], dtype=dtypes.flt256).sum().item()
        Decimal('1.1')
        """
        return x in dtypes.wides

    @staticmethod
    def from_py(x: Any) -> DType:
        """The dtype of a Python number (weak), or of nested lists of them (strong).

        >>> dtypes.from_py(1.5), dtypes.from_py([1, 2])
        (dtypes.weakfloat, dtypes.int)
        """
        if isinstance(x, (builtins.bool, InvalidType)):
            return dtypes.bool
        if isinstance(x, builtins.float):
            return dtypes.weakfloat
        if isinstance(x, builtins.int):
            return dtypes.weakint
        if isinstance(x, (list, tuple)):
            if not x:
                return dtypes.default_float
            return strong_dtype(max((dtypes.from_py(part) for part in x), key=_order))
        raise RuntimeError(f"could not infer a dtype of {x!r}, a {type(x).__name__}")

    @staticmethod
    def finfo(dtype: DType) -> tuple[builtins.int, builtins.int]:
        """Bits of the exponent and of the mantissa."""
        if dtype.code not in _FINFO:
            raise ValueError(f"{dtype} is not a floating point dtype")
        return _FINFO[dtype.code]

    @property
    def default_float(self) -> DType:
        """What real results have by default; Context(DEFAULT_FLOAT="float64") changes it too."""
        return to_dtype(DEFAULT_FLOAT.value)

    @default_float.setter
    def default_float(self, dtype: DTypeLike) -> None:
        DEFAULT_FLOAT.value = to_dtype(dtype).attribute

    @property
    def default_int(self) -> DType:
        """What integers have by default."""
        return to_dtype(DEFAULT_INT.value)

    @default_int.setter
    def default_int(self, dtype: DTypeLike) -> None:
        DEFAULT_INT.value = to_dtype(dtype).attribute

    void: Final[DType] = DType("void", -1, 0, "void", None, 0)
    weakint: Final[DType] = DType("weakint", 0, 800, "weakint", None, 32)
    bool: Final[DType] = DType("bool", 0, 1, "bool", "?", 1)
    int8: Final[DType] = DType("char", 1, 8, "signed char", "b", 2)
    uint8: Final[DType] = DType("uchar", 2, 8, "unsigned char", "B", 3)
    int16: Final[DType] = DType("short", 3, 16, "short", "h", 4)
    uint16: Final[DType] = DType("ushort", 4, 16, "unsigned short", "H", 5)
    int32: Final[DType] = DType("int", 5, 32, "int", "i", 6)
    uint32: Final[DType] = DType("uint", 6, 32, "unsigned int", "I", 7)
    int64: Final[DType] = DType("long", 7, 64, "long", "q", 8)
    uint64: Final[DType] = DType("ulong", 8, 64, "unsigned long", "Q", 9)
    weakfloat: Final[DType] = DType("weakfloat", 9, 800, "weakfloat", None, 33)
    fp8e4m3: Final[DType] = DType("fp8e4m3", 10, 8, "float8_e4m3", None, 10)
    fp8e5m2: Final[DType] = DType("fp8e5m2", 11, 8, "float8_e5m2", None, 12)
    fp8e4m3fnuz: Final[DType] = DType("fp8e4m3fnuz", 10, 8, "float8_e4m3fnuz", None, 11)
    fp8e5m2fnuz: Final[DType] = DType("fp8e5m2fnuz", 11, 8, "float8_e5m2fnuz", None, 13)
    float16: Final[DType] = DType("half", 12, 16, "half", "e", 14)
    bfloat16: Final[DType] = DType("bfloat16", 13, 16, "__bf16", None, 15)
    float32: Final[DType] = DType("float", 14, 32, "float", "f", 16)
    float64: Final[DType] = DType("double", 15, 64, "double", "d", 17)

    tbb8: Final[DType] = DType("tbb8", 16, 8, "tbb8", None, 48)
    tbb16: Final[DType] = DType("tbb16", 16, 16, "tbb16", None, 49)
    tbb32: Final[DType] = DType("tbb32", 16, 32, "tbb32", None, 50)
    tbb64: Final[DType] = DType("tbb64", 16, 64, "tbb64", None, 51)

    flt256: Final[DType] = DType("flt256", 17, 256, "flt256", None, 56)
    flt512: Final[DType] = DType("flt512", 17, 512, "flt512", None, 57)

    half, float, double = float16, float32, float64
    uchar, ushort, uint, ulong = uint8, uint16, uint32, uint64
    char, short, int, long = int8, int16, int32, int64

    fp8_ocp = (fp8e4m3, fp8e5m2)
    fp8_fnuz = (fp8e4m3fnuz, fp8e5m2fnuz)
    fp8s = fp8_ocp + fp8_fnuz
    floats = fp8s + (float16, bfloat16, float32, float64)
    int8s = (uint8, int8)
    int16s = (uint16, int16)
    int32s = (uint32, int32)
    int64s = (uint64, int64)
    uints = (uint8, uint16, uint32, uint64)
    sints = (int8, int16, int32, int64)
    ints = uints + sints
    weaks = (weakint, weakfloat)
    stickies = (tbb8, tbb16, tbb32, tbb64)
    wides = (flt256, flt512)
    all = floats + ints + (bool,)


_FINFO = {
    14: (5, 10), 15: (8, 7), 16: (8, 23), 17: (11, 52),
    10: (4, 3), 12: (5, 2), 11: (4, 3), 13: (5, 2), 56: (19, 236), 57: (23, 488),
}  # fmt: skip
dtypes = DTypes()
DTypeLike = Union[str, DType, type]

# The dtype of a code of the library.
_BY_CODE: dict[int, DType] = {
    d.code: d for d in vars(DTypes).values() if isinstance(d, DType) and d.code
}
DTYPES_DICT: dict[str, DType] = {
    k: v
    for k, v in vars(DTypes).items()
    if isinstance(v, DType) and not k.startswith(("void", "weak", "tbb", "flt"))
}
INVERSE_DTYPES_DICT: dict[str, str] = {d.name: d.attribute for d in _BY_CODE.values()}


def _order(dtype: DType) -> tuple[int, int]:
    return dtype.priority, dtype.bitsize if dtype.code != 32 else 2


def is_stored_float(code: int) -> bool:
    """Whether it is the code of a float that memory holds: not of the weak one."""
    return code in _FINFO


def from_code(code: int) -> DType:
    """The dtype of a code of the C interface."""
    return _BY_CODE[code]


def to_dtype(dtype: DTypeLike) -> DType:
    """A dtype of its name, of float, int, bool, or of NumPy's.

    >>> to_dtype("float16") is dtypes.half
    True
    >>> to_dtype(float)
    dtypes.float
    """
    if isinstance(dtype, DType):
        return dtype
    named = isinstance(dtype, str)
    found = getattr(dtypes, dtype.lower(), None) if named else _of_type(dtype)  # type: ignore
    if not isinstance(found, DType):
        raise AttributeError(f"no such dtype: {dtype!r}")
    return found


def _of_type(x: Any) -> DType | None:
    """The dtype that a type of Python's numbers or a dtype of NumPy stands for."""
    for kind, value in ((bool, [True]), (int, [0]), (float, [0.0])):
        if x is kind:
            return dtypes.from_py(value)
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(x, (numpy.dtype, type)):
        return None
    scalar = isinstance(x, type) and not issubclass(x, numpy.generic)
    return None if scalar else _from_np_dtype(x)


def is_weak_code(code: int) -> bool:
    """Whether it is the code of a weak dtype."""
    return code in (32, 33)


def patterns_of(dtype: DType) -> DType:
    """The integers that a sticky dtype is stored as; ERR is their least. Others are themselves."""
    if not dtypes.is_sticky(dtype):
        return dtype
    return (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)[dtype.itemsize.bit_length() - 1]


def code_of(dtype: DTypeLike | None) -> int:
    """The code of a dtype; 0, the function's default, for None."""
    return 0 if dtype is None else to_dtype(dtype).code


def strong_dtype(dtype: DType) -> DType:
    """What is stored: weak dtypes become the defaults."""
    if dtype.code == 32:
        return dtypes.default_int
    return dtypes.default_float if dtype.code == 33 else dtype


def weak_dtype(dtype: DType) -> DType:
    """The weak dtype of a kind; bool is its own."""
    if dtypes.is_float(dtype):
        return dtypes.weakfloat
    return dtypes.weakint if dtypes.is_int(dtype) else dtype


@functools.cache
def least_upper_dtype(*ds: DType) -> DType:
    """The least dtype that all may become: what an operation on them computes in."""
    code = ds[0].code
    for d in ds[1:]:
        code = _native.dtype_promote(code, d.code)
    return _BY_CODE[code]


def least_upper_float(dt: DType) -> DType:
    """What a function with real results gives."""
    if dt is dtypes.weakint:
        return dtypes.weakfloat
    return dt if dtypes.is_float(dt) else least_upper_dtype(dt, dtypes.default_float)


def follow_defaults() -> None:
    """Tells the current context the default dtypes, now and whenever they change."""

    def follow(setting: ContextVar[str], kind: str, fits: Callable[[DType], bool]) -> None:
        def tell() -> None:
            dtype = to_dtype(setting.value)
            assert fits(dtype) and dtype not in dtypes.weaks, f"{dtype} is not {kind} dtype"
            _native.engine_set_default_dtype(dtype.code)

        setting.changed = tell
        tell()

    follow(DEFAULT_FLOAT, "a float", dtypes.is_float)
    follow(DEFAULT_INT, "an int", dtypes.is_int)


follow_defaults()


def can_lossless_cast(dt0: DType, dt1: DType) -> bool:
    """True if every value of dt0 is a value of dt1."""
    return bool(_native.dtype_is_lossless_cast(dt0.code, dt1.code))


def sum_acc_dtype(dt: DType) -> DType:
    """What a sum accumulates in."""
    return _BY_CODE[_native.dtype_sum_accumulator(dt.code)]


def convert(data: Any, source: DType, dtype: DType, count: int) -> bytearray:
    """count elements of a buffer converted to dtype, by the library's rules."""
    out = bytearray(count * dtype.itemsize)
    if count:
        _native.dtype_copy(out, dtype.code, data, source.code)
    return out


# ---- numbers as a dtype holds them


def _packed(x: Any, dtype: DType) -> bytearray:
    """A number as one stored element of a float dtype."""
    return convert(struct.pack("d", x), dtypes.float64, dtype, 1)


def _unpacked(stored: Any, dtype: DType) -> builtins.float:
    return builtins.float(struct.unpack("d", convert(stored, dtype, dtypes.float64, 1))[0])


def float_to_fp16(x: Any) -> builtins.float:
    """The float16 nearest to x; infinite beyond them.

    >>> float_to_fp16(0.1)
    0.0999755859375
    """
    return _unpacked(_packed(x, dtypes.float16), dtypes.float16)


def float_to_bf16(x: Any) -> builtins.float:
    """The bfloat16 nearest to x as a float32.

    >>> float_to_bf16(0.1)
    0.10009765625
    """
    single = _packed(x, dtypes.float32)
    stored = convert(single, dtypes.float32, dtypes.bfloat16, 1)
    return _unpacked(stored, dtypes.bfloat16)


def float_to_fp8(x: builtins.float, dtype: DType) -> builtins.int:
    """The byte that holds x in an 8-bit float dtype; beyond the greatest it is the greatest.

    >>> float_to_fp8(1.0, dtypes.fp8e4m3)
    56
    """
    assert dtype in dtypes.fp8s, f"{dtype} is no float of 8 bits"
    return _packed(x, dtype)[0]


def fp8_to_float(x: builtins.int, dtype: DType) -> builtins.float:
    """The number that a byte stands for in an 8-bit float dtype.

    >>> fp8_to_float(56, dtypes.fp8e4m3)
    1.0
    """
    assert dtype in dtypes.fp8s, f"{dtype} is no float of 8 bits"
    return _unpacked(bytes([x]), dtype)


def _wrap(dtype: DType) -> Callable[[Any], builtins.int]:
    modulus, least = 1 << dtype.bitsize, builtins.int(dtype.min)
    return lambda x: (operator.index(x) - least) % modulus + least


def _rounding(dtype: DType) -> Callable[[Any], builtins.float]:
    return lambda x: _unpacked(_packed(x, dtype), dtype)


# What a number becomes where a dtype holds it: truncate[dtypes.int8](200) is -56.
truncate: dict[DType, Callable[[Any], Any]] = {
    dtypes.bool: builtins.bool,
    dtypes.float16: float_to_fp16,
    dtypes.bfloat16: float_to_bf16,
    **{d: _rounding(d) for d in (dtypes.float32, dtypes.float64, *dtypes.fp8s)},
    **{d: _wrap(d) for d in dtypes.ints},
}


def storage_fmt_for_dtype(dtype: DType) -> str | None:
    """The struct format of a stored element; narrow floats are stored as integers."""
    if dtype is dtypes.bfloat16:
        return "H"
    return "B" if dtype in dtypes.fp8s else dtype.fmt


def to_storage_scalar(x: Any, dtype: DType) -> Any:
    """x as struct packs it by that format.

    >>> to_storage_scalar(1.0, dtypes.bfloat16)
    16256
    """
    if dtype is dtypes.float16:
        return float_to_fp16(x)
    if dtype is dtypes.bfloat16:
        return struct.unpack("I", struct.pack("f", float_to_bf16(x)))[0] >> 16
    return float_to_fp8(x, dtype) if dtype in dtypes.fp8s else x


def from_storage_scalar(x: Any, dtype: DType) -> Any:
    """What struct unpacked by that format as a number."""
    if dtype is dtypes.bfloat16:
        return struct.unpack("f", struct.pack("I", (x & 0xFFFF) << 16))[0]
    return fp8_to_float(builtins.int(x), dtype) if dtype in dtypes.fp8s else x


def bitcast(x: Any, in_dtype: DType, out_dtype: DType) -> Any:
    """The number of out_dtype that has the bits of x.

    >>> bitcast(1.0, dtypes.float32, dtypes.int32)
    1065353216
    """
    source, target = storage_fmt_for_dtype(in_dtype), storage_fmt_for_dtype(out_dtype)
    assert in_dtype.itemsize == out_dtype.itemsize, f"{in_dtype} and {out_dtype} differ in size"
    assert source is not None and target is not None, f"{in_dtype}, {out_dtype}: not stored"
    stored = struct.pack(source, to_storage_scalar(x, in_dtype))
    return from_storage_scalar(struct.unpack(target, stored)[0], out_dtype)


# ---- the dtypes of NumPy and torch


def _to_np_dtype(dtype: DType) -> Any:
    """The NumPy scalar type that numpy() gives: float32 for narrow floats; None of weak dtypes."""
    import numpy as np

    if dtype.fmt is None:
        return np.float32 if is_stored_float(dtype.code) else None
    return np.dtype(dtype.fmt).type


def _from_np_dtype(npdtype: Any) -> DType:
    """The dtype of a NumPy one. Raises TypeError for objects, strings, complex, big-endian."""
    import numpy as np

    npdtype = np.dtype(npdtype)
    if not npdtype.isnative:
        raise TypeError(
            f"big-endian arrays ({npdtype.str}) are not supported: "
            "convert with array.astype(array.dtype.newbyteorder('='))"
        )
    found = DTYPES_DICT.get(npdtype.name) if npdtype.kind in "biuf" else None
    if found is None and npdtype.name in ("bfloat16",):  # ml_dtypes
        found = dtypes.bfloat16
    if found is None and npdtype.names == ("words",):  # as memoryviews of wide floats have them
        words = npdtype["words"]
        wide = next((d for d in dtypes.wides if words.shape == (d.bitsize // 64,)), None)
        found = wide if words.base == np.uint64 and npdtype.itemsize == words.itemsize else None
    if found is None:
        raise TypeError(f"arrays of dtype {npdtype} are not supported")
    return found


_TORCH = {
    "fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2", "fp8e4m3fnuz": "float8_e4m3fnuz",
    "fp8e5m2fnuz": "float8_e5m2fnuz", "half": "float16", "bfloat16": "bfloat16",
    "float": "float32", "double": "float64", "uchar": "uint8", "ushort": "uint16",
    "uint": "uint32", "ulong": "uint64", "char": "int8", "short": "int16", "int": "int32",
    "long": "int64", "bool": "bool",
}  # fmt: skip


def _to_torch_dtype(dtype: DType) -> Any:
    """torch's dtype of the same elements, None where this torch has none."""
    torch = importlib.import_module("torch")
    return getattr(torch, _TORCH.get(strong_dtype(dtype).attribute, ""), None)


def _from_torch_dtype(torchdtype: Any) -> DType:
    """The dtype of torch's. Raises KeyError for what is not here, as complex."""
    return {_to_torch_dtype(d): d for d in DTYPES_DICT.values()}[torchdtype]


__getattr__ = of_module("dtype")
