"""Views: memory of any kind with its strides in bytes, owner and flags, and nothing copied.

>>> import numpy as np
>>> view = BufferView.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1])
>>> view.strides, view.is_contiguous(), view.tensor().tolist()
((12, -4), False, [[2.0, 1.0, 0.0], [5.0, 4.0, 3.0]])
"""

from __future__ import annotations

import enum
from typing import Any

from . import _native
from .device import canonicalize_device, code_of, name_of
from .dtype import DType, from_code, to_dtype
from .tensor import Tensor


class MemoryType(enum.Enum):
    """What memory is: pageable memory of the host, page-locked, addressed by host and device alike,
    or addressed by its device alone.

    >>> MemoryType.PINNED.value
    'pinned'
    """

    NORMAL = "normal"
    PINNED = "pinned"
    UNIFIED = "unified"
    DEVICE = "device"


_KINDS = {
    _native.MEMORY_NORMAL: MemoryType.NORMAL,
    _native.MEMORY_PINNED: MemoryType.PINNED,
    _native.MEMORY_UNIFIED: MemoryType.UNIFIED,
    _native.MEMORY_DEVICE: MemoryType.DEVICE,
}
_FLAGS = {
    "read_only": _native.VIEW_READ_ONLY,
    "pinned": _native.VIEW_PINNED,
    "view": _native.VIEW_SHARED,
    "device": _native.VIEW_DEVICE,
    "sparse": _native.VIEW_SPARSE,
}
_LAYOUTS = {
    "strided": _native.LAYOUT_STRIDED,
    "row_major": _native.LAYOUT_ROW_MAJOR,
    "column_major": _native.LAYOUT_COLUMN_MAJOR,
    "morton": _native.LAYOUT_MORTON,
}


def _layout(name: str) -> int:
    if name not in _LAYOUTS:
        raise ValueError(f"layout {name!r} is none of {', '.join(_LAYOUTS)}")
    return _LAYOUTS[name]


class BufferView:
    """Memory: its address, shape, strides in bytes, dtype, device, kind and owner.

    Slices, reversals and halves are views of the same memory; no element moves. numpy.asarray(view)
    and view.tensor() are the same memory too.

    >>> view = BufferView.from_buffer(bytearray(8), dtypes.int16)
    >>> view.shape, view.device, view.memory_type.value, view.writable
    ((4,), 'CPU', 'normal', True)
    """

    __slots__ = (
        "__weakref__", "_view", "data_ptr", "device", "dtype", "flags", "layout", "memory_type",
        "owner", "shape", "strides",
    )  # fmt: skip

    data_ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: str
    memory_type: MemoryType
    flags: frozenset[str]
    layout: str
    owner: Any

    def __init__(self, view: Any, owner: Any = None) -> None:
        fields = _native.view_fields(view)
        self._view = view
        self.data_ptr, self.shape, self.strides = fields[:3]
        self.dtype, self.device, self.memory_type = (
            from_code(fields[3]), name_of(fields[4]), _KINDS[fields[5]]
        )  # fmt: skip
        self.flags = frozenset(name for name, bit in _FLAGS.items() if fields[6] & bit)
        self.layout = next(name for name, code in _LAYOUTS.items() if code == fields[7])
        self.owner = owner

    @staticmethod
    def from_numpy(array: Any, device: str | None = None) -> BufferView:
        """A view of a NumPy array in place, with its strides, or a copy on a device.

        >>> import numpy as np
        >>> BufferView.from_numpy(np.zeros((2, 3), np.float64).T).strides
        (8, 24)
        """
        view = BufferView(_native.view_of_object(array), array)
        return view if device is None else view.to_device(device)

    @staticmethod
    def from_buffer(obj: Any, dtype: Any = None, device: str | None = None) -> BufferView:
        """A view of what has the buffer protocol, in place: bytes, a bytearray, an array.

        >>> BufferView.from_buffer(b"abcd").writable
        False
        """
        code = 0 if dtype is None else to_dtype(dtype).code
        view = BufferView(_native.view_of_object(obj, code), obj)
        return view if device is None else view.to_device(device)

    @staticmethod
    def from_tensor(tensor: Tensor) -> BufferView:
        """A view of the storage of a tensor, which is realised.

        >>> BufferView.from_tensor(Tensor([1.0, 2.0])).shape
        (2,)
        """
        return BufferView(_native.view_from_tensor(_native.lazy_view_strided(tensor)), tensor)

    def tensor(self) -> Tensor:
        """A tensor in the same memory: what is assigned to one of them, the other one reads.

        >>> memory = bytearray(3)
        >>> x = BufferView.from_buffer(memory).tensor()
        >>> _ = x.assign(Tensor([7, 8, 9], dtype="uint8")).realize()
        >>> list(memory)
        [7, 8, 9]
        """
        tensor: Tensor = _native.lazy_from_tensor(_native.view_to_tensor(self._view))
        return tensor

    def numpy(self) -> Any:
        """A NumPy array in the same memory.

        >>> BufferView.from_buffer(bytearray(b"ab")).numpy().tolist()
        [97, 98]
        """
        import numpy

        return numpy.asarray(memoryview(self._view))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        array = numpy.asarray(memoryview(self._view))
        wanted = array.dtype if dtype is None else numpy.dtype(dtype)
        if copy is False and wanted != array.dtype:
            raise ValueError(f"a view of {array.dtype} as {wanted} is a copy")
        return array.astype(wanted, copy=bool(copy))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a view of no axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        flags = "".join(f", {flag}" for flag in sorted(self.flags - {"view"}))
        return (
            f"BufferView({self.dtype.name}{list(self.shape)}, strides={self.strides}, "
            f"{self.device}, {self.memory_type.value}{flags})"
        )

    @property
    def writable(self) -> bool:
        """Whether it may be written through."""
        return bool(_native.view_is_writable(self._view))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return int(_native.view_count(self._view))

    def is_contiguous(self) -> bool:
        """Whether it is row-major without gaps."""
        return bool(_native.view_is_contiguous(self._view))

    def is_layout(self, layout: str) -> bool:
        """Whether it is "row_major", "column_major" or "morton" without gaps, or "strided".

        >>> BufferView.from_buffer(b"abcd").is_layout("column_major")
        True
        """
        return bool(_native.view_is_layout(self._view, _layout(layout)))

    def is_host(self) -> bool:
        """Whether the host addresses its memory, of whatever kind."""
        return bool(_native.view_is_host(self._view))

    def is_device(self) -> bool:
        """Whether only its device addresses its memory."""
        return bool(_native.view_is_device(self._view))

    def is_pinned(self) -> bool:
        """Whether its memory is page-locked."""
        return bool(_native.view_is_pinned(self._view))

    def is_view(self) -> bool:
        """Whether others describe its memory too, or own it."""
        return bool(_native.view_is_shared(self._view))

    def same_memory(self, other: BufferView) -> bool:
        """Whether one owner keeps the memory of both.

        >>> view = BufferView.from_buffer(b"abcd")
        >>> view.same_memory(view.flip(0)), view.same_memory(BufferView.from_buffer(b"abcd"))
        (True, False)
        """
        ours, theirs = _native.view_fields(self._view)[8], _native.view_fields(other._view)[8]
        return bool(ours == theirs)

    def _with(self, view: Any) -> BufferView:
        made = BufferView(view)
        if self.same_memory(made):
            made.owner = self.owner
        return made

    def ensure_contiguous(self) -> BufferView:
        """The view itself where it is row-major, else a copy on its device.

        >>> view = BufferView.from_buffer(b"abcd")
        >>> view.ensure_contiguous() is view, view.flip(0).ensure_contiguous().tensor().tolist()
        (True, [100, 99, 98, 97])
        """
        if self.is_contiguous():
            return self
        return self._with(_native.view_ensure_contiguous(self._view))

    def to_device(self, device: str) -> BufferView:
        """The view itself where it is on that device, else a row-major copy there.

        >>> BufferView.from_buffer(b"abcd").to_device("cpu:1").device
        'CPU:1'
        """
        code = code_of(canonicalize_device(device))
        if name_of(code) == self.device:
            return self
        return self._with(_native.view_to_device(self._view, code))

    def to_layout(self, layout: str) -> BufferView:
        """A copy in another layout: "row_major", "column_major" or "morton".

        >>> import numpy as np
        >>> BufferView.from_numpy(np.zeros((2, 3), np.int8)).to_layout("column_major").strides
        (1, 2)
        """
        return self._with(_native.view_to_layout(self._view, _layout(layout)))

    def flip(self, axis: int) -> BufferView:
        """The axis read from its end."""
        return self._with(_native.view_flip(self._view, self._axis(axis)))

    def split_at(self, axis: int, index: int) -> tuple[BufferView, BufferView]:
        """The parts before index and from it on, without a byte in common.

        >>> low, high = BufferView.from_buffer(bytearray(5)).split_at(0, 2)
        >>> low.shape, high.shape
        ((2,), (3,))
        """
        low, high = _native.view_split_at(self._view, self._axis(axis), index)
        return self._with(low), self._with(high)

    def __getitem__(self, items: Any) -> BufferView:
        items = items if isinstance(items, tuple) else (items,)
        if any(item is Ellipsis for item in items):
            at = next(i for i, item in enumerate(items) if item is Ellipsis)
            rest = max(0, len(self.shape) - len(items) + 1)
            items = items[:at] + (slice(None),) * rest + items[at + 1 :]
        if len(items) > len(self.shape):
            raise IndexError(f"{len(items)} slices of {len(self.shape)} axes")
        view = self
        for axis, item in enumerate(items):
            if not isinstance(item, slice):
                raise TypeError(f"views take slices, not {type(item).__name__}: see tensor()")
            if item == slice(None):
                continue
            start, stop, step = item.indices(self.shape[axis])
            stop = max(stop, start) if step > 0 else min(stop, start)
            if start == stop:
                start = stop = 0
                step = 1
            view = self._with(_native.view_slice(view._view, axis, start, stop, step))
        return view

    def _axis(self, axis: int) -> int:
        if not -len(self.shape) <= axis < len(self.shape):
            raise IndexError(f"axis {axis} of a view of {len(self.shape)} axes")
        return axis % len(self.shape)
