"""Dtypes under tinygrad's names: `dtypes.float32`, `dtypes.half`, promotion, limits.

>>> dtypes.float32.itemsize, dtypes.half
(4, dtypes.half)
>>> least_upper_dtype(dtypes.int8, dtypes.float16)
dtypes.half
"""

from __future__ import annotations

import builtins
import functools
import math
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, Union

from . import _native
from .absent import of_module
from .helpers import DEFAULT_FLOAT, DEFAULT_INT, ContextVar

PyConst = Union[builtins.float, builtins.int, builtins.bool]
ConstType = PyConst


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
        if dtypes.is_int(self):
            return 0 if dtypes.is_unsigned(self) else -(2 ** (self.bitsize - 1))
        return -math.inf if dtypes.is_float(self) else False

    @property
    def max(self) -> PyConst:
        """The greatest value; inf for floats."""
        if dtypes.is_int(self):
            return 2**self.bitsize - 1 + self.min
        return math.inf if dtypes.is_float(self) else True

    def const(self, val: PyConst) -> PyConst:
        """val as a value of this dtype."""
        if dtypes.is_float(self):
            return truncate(self, builtins.float(val))
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
    def from_py(x: Any) -> DType:
        """The dtype of a Python number (weak), or of nested lists of them (strong).

        >>> dtypes.from_py(1.5), dtypes.from_py([1, 2])
        (dtypes.weakfloat, dtypes.int)
        """
        if isinstance(x, builtins.bool):
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
    all = floats + ints + (bool,)


_FINFO = {
    14: (5, 10), 15: (8, 7), 16: (8, 23), 17: (11, 52),
    10: (4, 3), 12: (5, 2), 11: (4, 3), 13: (5, 2),
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
    if isinstance(v, DType) and not k.startswith(("void", "weak"))
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


def truncate(dtype: DType, x: float) -> float:
    """x rounded to a float dtype and back.

    >>> truncate(dtypes.float16, 0.1)
    0.0999755859375
    """
    if dtype.code in (17, 33):
        return float(x)
    stored = convert(struct.pack("d", x), dtypes.float64, dtype, 1)
    back = convert(stored, dtype, dtypes.float64, 1)
    return float(struct.unpack("d", back)[0])


def _to_np_dtype(dtype: DType) -> Any:
    """The NumPy scalar type, None where NumPy has none."""
    import numpy as np

    return np.dtype(dtype.fmt).type if dtype.fmt is not None else None


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
    if found is None:
        raise TypeError(f"arrays of dtype {npdtype} are not supported")
    return found


__getattr__ = of_module("dtype")
