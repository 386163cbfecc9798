"""Between Python and tensors: numbers, lists, arrays and files become tensors, and back."""

from __future__ import annotations

import array
import pathlib
import sys
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from . import _native, wide
from .device import Device, on_device
from .dtype import (
    ERR,
    DType,
    InvalidType,
    _from_np_dtype,
    _to_np_dtype,
    convert,
    dtypes,
    is_weak_code,
    patterns_of,
    strong_dtype,
)
from .helpers import fully_flatten, get_shape
from .mixin.unary import _marks
from .symbolic import BoundInt, Expression

if TYPE_CHECKING:
    from .tensor import Tensor


def is_numpy_ndarray(x: Any) -> bool:
    """True for NumPy arrays, without importing NumPy."""
    numpy_ = sys.modules.get("numpy")
    return numpy_ is not None and isinstance(x, numpy_.ndarray)


def _is_numpy_scalar(x: Any) -> bool:
    numpy_ = sys.modules.get("numpy")
    return numpy_ is not None and isinstance(x, numpy_.generic)


class Handle:
    """A view of a tensor under the names that programs read off tinygrad's `Tensor.uop`."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    @property
    def is_realized(self) -> bool:
        """Whether its elements are in memory: its own, or those that it is a view of."""
        return bool(_native.lazy_is_stored(self.tensor))

    @property
    def realized(self) -> Tensor | None:
        return self.tensor if self.is_realized else None

    @property
    def base(self) -> Handle:
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def device(self) -> str:
        return self.tensor.device

    def __repr__(self) -> str:
        return f"<{self.device} {self.shape} {self.dtype}>"


# ---- making


def is_weak(x: _native.Lazy) -> bool:
    return is_weak_code(_native.lazy_dtype(x))


def from_anything(data: Any, wanted: DType | None, device: str | None) -> Tensor:
    """A tensor of whatever Python has; device: not the default one."""
    if data is None:
        data = 0.0
    if isinstance(data, InvalidType):
        data = False
    if isinstance(data, (BoundInt, Expression)):
        data = data.__index__()
    if _is_element(data, wanted):
        return _from_lists([data], wanted, device).reshape(())
    if isinstance(data, (bool, int, float)):
        value: Any = _number(data) if wanted is None else (_number(data, wanted), wanted.code)
        made: Tensor = on_device(device, _native.lazy_scalar, value)
        return made
    if isinstance(data, _native.Lazy):
        copy: Tensor = _native.lazy_copy(data)
        if wanted is not None:
            copy = copy.cast(wanted)
        return copy.to(device) if device is not None else copy
    if is_numpy_ndarray(data) or _is_numpy_scalar(data):
        return _from_numpy(data, wanted, device)
    if wanted is not None and is_weak_code(wanted.code):
        raise RuntimeError(f"cannot create storage for weak dtype {wanted}")
    if isinstance(data, (bytes, bytearray)) or isinstance(data, memoryview) and data.format == "B":
        raw = bytes(data)
        dtype = wanted or dtypes.uint8
        if len(raw) % dtype.itemsize:
            raise ValueError(f"{len(raw)} bytes are no whole number of {dtype}")
        return _stored(device, raw, dtype, (len(raw) // dtype.itemsize,))
    if isinstance(data, range):
        data = list(data)
    if isinstance(data, (list, tuple)):
        return _from_lists(data, wanted, device)
    if isinstance(data, Handle):
        return from_anything(data.tensor, wanted, device)
    if (foreign := _from_foreign(data)) is not None:
        foreign = foreign if wanted is None else foreign.cast(wanted)
        return foreign.to(device if device is not None else Device.DEFAULT)
    raise RuntimeError(f"cannot create a Tensor from {data!r}, a {type(data).__name__}")


def _is_element(x: Any, wanted: DType | None) -> bool:
    """Whether a dtype that Python has no numbers of takes x: any number, decimal text, and ERR."""
    if wanted is None or not (dtypes.is_sticky(wanted) or dtypes.is_wide(wanted)):
        return False
    return wide.is_number(x) or (x is ERR and dtypes.is_sticky(wanted))


def _number(value: Any, dtype: DType | None = None) -> Any:
    """A number as a scalar of a dtype takes it: integers wrap."""
    if dtype is not None and dtypes.is_int(dtype) and dtype.code != 32:
        if isinstance(value, float):
            value = int(value)  # raises for NaN and infinities
        return _wrapped(int(value), dtype)
    if dtype is not None and dtypes.is_bool(dtype):
        return bool(value)
    return value if isinstance(value, (bool, float)) else int(value)


def _wrapped(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bitsize) - 1
    if not dtypes.is_unsigned(dtype) and value >> (dtype.bitsize - 1):
        value -= 1 << dtype.bitsize
    return value


def _stored(device: str | None, raw: Any, dtype: DType, shape: Any) -> Tensor:
    """The bytes of elements, copied to a device."""
    made: Tensor = on_device(device, _native.lazy_from, raw, dtype.code, shape)
    return made


def _from_lists(data: Any, wanted: DType | None, device: str | None) -> Tensor:
    """Nested lists of numbers, of which a scalar of NumPy is one as well."""
    shape = get_shape(data)
    flat = fully_flatten(data)
    flat = [x.item() if _is_numpy_scalar(x) else x for x in flat]
    for x in flat:
        if isinstance(x, _native.Lazy):
            raise RuntimeError("cannot create a Tensor from a list of tensors: Tensor.stack does")
        if not isinstance(x, (bool, int, float)) and not _is_element(x, wanted):
            raise RuntimeError(f"could not infer a dtype of {x!r}, a {type(x).__name__}")
    dtype = wanted or dtypes.from_py(flat)
    return _stored(device, _packed(flat, dtype), dtype, shape)


def _packed(flat: list[Any], dtype: DType) -> Any:
    """Numbers as the bytes of a dtype."""
    if dtypes.is_sticky(dtype):
        return _packed([_pattern(x, dtype) for x in flat], patterns_of(dtype))
    if dtypes.is_wide(dtype):
        return wide.pack(flat, dtype)
    if dtypes.is_float(dtype):
        if dtype.fmt in ("f", "d"):
            return array.array(dtype.fmt, flat)
        return convert(array.array("d", flat), dtypes.float64, dtype, len(flat))
    if dtypes.is_bool(dtype):
        return bytes(bool(x) for x in flat)
    assert dtype.fmt is not None
    try:
        return array.array(dtype.fmt, flat)
    except (TypeError, OverflowError):
        return array.array(dtype.fmt, [_number(x, dtype) for x in flat])


def filling(value: Any, dtype: DType | None) -> Any:
    """A number as a function takes it that fills tensors of a dtype: an element's bytes and the
    dtype's code where Python's numbers are none."""
    if not wide.is_element(value):
        return value
    if dtype is None or not _is_element(value, dtype):
        kind = type(value).__name__
        raise RuntimeError(f"cannot create elements of {dtype} from {value!r}, a {kind}")
    return bytes(_packed([value], dtype)), dtype.code


def _pattern(value: Any, dtype: DType) -> int:
    """What a sticky dtype stores of a number: the least pattern where it has none."""
    least, most = int(dtype.min), int(dtype.max)
    if isinstance(value, str) and value.strip() == repr(ERR):
        value = ERR
    value = wide.number_of(value)
    fits = value is not ERR and not wide.is_nan(value) and least <= value <= most
    return int(value) if fits else least - 1


def _from_numpy(data: Any, wanted: DType | None, device: str | None) -> Tensor:
    """A copy of a NumPy array or scalar."""
    import numpy as np

    source = _from_np_dtype(data.dtype)
    if wanted is not None and wanted is not source:
        if is_weak_code(wanted.code):
            raise RuntimeError(f"cannot create storage for weak dtype {wanted}")
        # NumPy leaves open what NaN is among integers.
        if wanted.fmt is not None and not (dtypes.is_float(source) and dtypes.is_int(wanted)):
            data, source = np.asarray(data).astype(_to_np_dtype(wanted)), wanted
    array_ = np.ascontiguousarray(data).reshape(data.shape)
    if wanted is not None and wanted is not source:
        raw = convert(array_.reshape(-1).view(np.uint8), source, wanted, array_.size)
        return _stored(device, raw, wanted, array_.shape)
    return _stored(device, array_.reshape(-1).view(np.uint8), source, array_.shape)


def _from_foreign(data: Any) -> Tensor | None:
    """A copy of what another library holds: its memory by DLPack, by the buffer protocol, by the
    array interface, or as the NumPy array that it can be."""
    kind = type(data)
    if hasattr(kind, "__dlpack__"):
        if getattr(data, "requires_grad", False):  # values are copied, their gradient stays there
            data = data.detach()
        copied: Tensor = _native.from_dlpack(data, True)
        return copied
    if isinstance(data, (array.array, memoryview)):
        copied = _native.from_buffer(data, 0, None, True)
        return copied
    if hasattr(data, "__array_interface__") and not hasattr(kind, "__array__"):
        copied = _native.from_array_interface(data, True)
        return copied
    if hasattr(kind, "__array__"):
        import numpy as np

        return _from_numpy(np.asarray(data), None, None)
    return None


def operand(x: Any, like: Tensor | None) -> Any:
    """What stands beside a tensor in an operation and is neither tensor nor number: as one of
    them, or None. Arrays go where the tensor is; scalars of NumPy are numbers."""
    if x.__class__ is BoundInt:
        from .dynamic import operand as bound

        return bound(x, like)
    if is_numpy_ndarray(x) and not x.ndim or _is_numpy_scalar(x):
        return x.item()
    of_wide = isinstance(x, (Decimal, Fraction)) or hasattr(x, "_mpf_")
    if of_wide and like is not None and dtypes.is_wide(like.dtype):
        return from_anything(x, like.dtype, like.device)
    if isinstance(x, (list, tuple)) or hasattr(type(x), "__dlpack__"):
        return from_anything(x, None, None if like is None else like.device)
    return None


def from_path(path: pathlib.Path, wanted: DType | None) -> Tensor:
    """The elements of a file, mapped."""
    dtype = wanted or dtypes.uint8
    size = path.stat().st_size // dtype.itemsize
    made = _native.lazy_from_file(path, dtype.code, (size,), 0, _native.FILE_READ)
    return on_disk(made, str(path.resolve()))


def on_disk(x: Any, path: str | None) -> Tensor:
    """x, marked as a part of a file: its device is DISK, and going elsewhere copies it."""
    if path is not None:
        x._file = path
        _marks["file"] = True
    return x


def unpickle(raw: bytes, dtype: DType, shape: Any, device: str, is_param: bool) -> Tensor:
    place = None if device.startswith("DISK") else device
    return _stored(place, raw, dtype, shape).is_param_(is_param)


# ---- reading


def readable(x: Tensor) -> Any:
    """What is read in the place of x, which stays the expression that backward() goes through."""
    if _native.lazy_is_realized(x) or not x.is_floating_point():
        return x
    return (_native.lazy_copy if _native.lazy_is_stored(x) else _native.lazy_contiguous)(x)


def flat_values(x: Tensor) -> list[Any]:
    """The elements as Python numbers, row-major."""
    dtype = strong_dtype(x.dtype)
    if dtype is not x.dtype:
        x = x.cast(dtype)
    return numbers_of(x._raw(), dtype, x.numel())


def numbers_of(raw: Any, dtype: DType, count: int) -> list[Any]:
    """The bytes of count elements as Python numbers, and ERR; as decimals of wide floats."""
    if dtypes.is_sticky(dtype):
        least = int(dtype.min)
        return [x if x >= least else ERR for x in numbers_of(raw, patterns_of(dtype), count)]
    if dtypes.is_wide(dtype):
        return list(wide.unpack(raw, dtype))
    if dtype.fmt is None or dtype.fmt == "e":
        raw = convert(raw, dtype, dtypes.float32, count)
        return memoryview(raw).cast("f").tolist()
    return memoryview(raw).cast("B").cast(dtype.fmt).tolist()  # type: ignore[call-overload]


def half_view(raw: bytearray, shape: tuple[int, ...]) -> memoryview:
    """float16 as a memoryview, by NumPy where the interpreter has no such format."""
    import numpy as np

    view: Any = np.frombuffer(raw, np.float16).reshape(shape)
    return memoryview(view)


def empty_lists(shape: tuple[int, ...]) -> list[Any]:
    return [empty_lists(shape[1:]) for _ in range(shape[0])] if shape else []


def realized_storages() -> list[tuple[str, int]]:
    """(device, bytes) of the realised tensors alive; those that share storage count once each."""
    return [
        (t.device, int(t.numel()) * t.dtype.itemsize)
        for t in _native.live()
        if _native.lazy_is_realized(t)
    ]
