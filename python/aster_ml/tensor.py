"""Tensor: the lazy tensor of the library under tinygrad's names."""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import typing
from typing import TYPE_CHECKING, Any, Self, Sequence

from . import _native, custom, display, graph
from .absent import of_module
from .device import canonicalize_device, code_of as device_code, disk_path, name_of
from .dtype import (
    DType,
    DTypeLike,
    _to_np_dtype,
    convert,
    dtypes,
    from_code,
    is_stored_float,
    is_weak_code,
    patterns_of,
    strong_dtype,
    to_dtype,
)
from .environment import warn
from .errors import BY_STATUS, JitError
from .helpers import prod
from .mixin.not_offered import NotOfferedMixin
from .mixin.unary import _marks
from .values import (
    Handle,
    empty_lists,
    flat_values,
    from_anything,
    from_path,
    half_view,
    is_weak,
    on_disk,
    operand,
    readable,
    unpickle,
)

if TYPE_CHECKING:
    import numpy

    from .trace import Profile

capturing: list[Any] = []  # the TinyJit that records, if any


class Tensor(NotOfferedMixin):
    """A lazy tensor: an expression until it is realised, storage from then on.

    data is a number (0-d and weak: it takes the dtype of what it meets), nested lists, bytes, an
    array of NumPy, torch, JAX or of the standard library (copied), a path (the bytes of the file,
    mapped), or None (0.0).

    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x).sum(axis=0).tolist()
    [22.0, 32.0]
    >>> Tensor(2).dtype, Tensor([2]).dtype, Tensor([2], dtype="half").dtype
    (dtypes.weakint, dtypes.int, dtypes.half)
    """

    # Programs leave notes on tensors.
    __slots__ = ("_grad", "_is_param", "_requires_grad", "_file", "__dict__")
    __array_priority__ = 1000

    def __new__(
        cls, data: Any = None, device: Any = None, dtype: DTypeLike | None = None
    ) -> Tensor:
        wanted = None if dtype is None else to_dtype(dtype)
        if device is not None:
            device = canonicalize_device(device)
        if isinstance(data, pathlib.Path):
            made = from_path(data, wanted)
            return made if device is None else made.to(device)
        if device is None or not device.startswith("DISK"):
            return from_anything(data, wanted, device)
        return from_anything(data, wanted, None).to(device)

    # ---- what it is

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward() left, None before.

        >>> x = Tensor([1.0, 2.0])
        >>> _ = (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        try:
            return self._grad  # type: ignore[has-type]
        except AttributeError:
            return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._grad = value

    @property
    def is_param(self) -> bool:
        """True if optimisers may change it.

        >>> Tensor([1.0]).is_param
        True
        """
        try:
            return self._is_param  # type: ignore[has-type]
        except AttributeError:
            return True

    @is_param.setter
    def is_param(self, value: bool) -> None:
        self._is_param = value

    def is_param_(self, is_param: bool = True) -> Self:
        """Sets is_param.

        >>> Tensor([1.0]).is_param_(False).is_param
        False
        """
        self._is_param = is_param
        return self

    @property
    def requires_grad(self) -> bool | None:
        """False: backward leaves no gradient here. None, as at first, or True: it does.

        Gradients flow through it all the same to what it is computed of; detach() stops them.

        >>> x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
        >>> x.requires_grad = False
        >>> _ = (x * w).sum().backward()
        >>> x.grad is None, w.grad.tolist()
        (True, [1.0, 2.0])
        """
        try:
            return self._requires_grad  # type: ignore[has-type]
        except AttributeError:
            return None

    @requires_grad.setter
    def requires_grad(self, value: bool | None) -> None:
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"requires_grad is True, False or None, not {value!r}")
        if value and not self.is_floating_point():
            raise RuntimeError(f"only float Tensors have gradient, this is of {self.dtype}")
        self._requires_grad = value

    def requires_grad_(self, requires_grad: bool | None = True) -> Self:
        """Sets requires_grad.

        >>> Tensor([1.0]).requires_grad_(False).requires_grad
        False
        """
        self.requires_grad = requires_grad
        return self

    @property
    def device(self) -> str:
        """The name of the device that holds it or will compute it.

        >>> Tensor([1.0]).device
        'CPU'
        """
        if _marks and (path := getattr(self, "_file", None)) is not None:
            return f"DISK:{path}"
        return name_of(_native.lazy_device(self))

    @property
    def is_realized(self) -> bool:
        """True where it has storage.

        >>> Tensor([1.0]).is_realized, (Tensor([1.0]) + 1).is_realized
        (True, False)
        """
        return bool(_native.lazy_is_realized(self))

    @property
    def uop(self) -> Handle:
        """What programs read off tinygrad's graph: realised or not, base, shape, dtype, device."""
        return Handle(self)

    def __repr__(self) -> str:
        stored = self.is_realized or is_weak(self)
        return display.of_tensor(
            self, stored and not capturing and not self.device.startswith("DISK")
        )

    def __str__(self) -> str:
        return display.of_tensor(self, not capturing)

    def __format__(self, spec: str) -> str:
        return display.formatted(self, spec) if spec else str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython and notebooks display."""
        printer.text(str(self))

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "the truth of a Tensor is not defined: call item(), all() or any(), or compare by `is`"
        )

    def __int__(self) -> int:
        """The one element, rounded toward zero.

        >>> int(Tensor([2.5]))
        2
        """
        return int(self.item())

    def __float__(self) -> float:
        """The one element.

        >>> float(Tensor(3))
        3.0
        """
        return float(self.item())

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def __contains__(self, x: Any) -> bool:
        return bool((self == x).any().item())

    def __reduce__(self) -> tuple[Any, ...]:
        if is_weak(self) and not self.shape:  # a number
            return Tensor, (self.item(),)
        dtype = strong_dtype(self.dtype)
        raw = bytes(self.cast(dtype)._raw())
        shape = tuple(int(s) for s in self.shape)
        return unpickle, (raw, dtype, shape, self.device, self.is_param)

    def __copy__(self) -> Tensor:
        return _native.lazy_copy(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.clone()

    def __delitem__(self, indices: Any) -> None:
        raise TypeError("Tensor does not support deleting items")

    # ---- computing and reading

    def realize(self, *lst: Tensor, do_update_stats: bool = True) -> Self:
        """Computes this tensor and the others, together.

        >>> (Tensor([1, 2]) + 1).realize().is_realized
        True
        """
        if not lst and _native.lazy_realize_ready(self):
            return self
        tensors: list[Tensor] = [self, *lst]
        _native.lazy_realize([x for x in tensors if not is_weak(x)])
        return self

    def profile(self, *lst: Tensor, path: str | os.PathLike[str] | None = None) -> Profile:
        """Realises this tensor and the others, and tells what ran; path: a page of it as well.

        >>> p = (Tensor.rand(8, 8) @ Tensor.rand(8, 8)).profile()
        >>> sum(x.us for x in p.launches) > 0
        True
        """
        from .trace import profile

        with profile(self, *lst) as made:
            self.realize(*lst)
        if path is not None:
            made.write(path)
        return made

    def graph(
        self,
        *lst: Tensor,
        level: str = "tensor",
        html: str | os.PathLike[str] | None = None,
    ) -> str:
        """The graph of this tensor and the others, as Graphviz text; html: a page of it as well.

        level is "tensor" (as built), "prepared" (as fusion gets it), "schedule" (kernels and
        memory), "kernel" (the arithmetic in every kernel), "source" (the C text of kernels),
        "plan" (how each is made to run) or "program" (its instructions).

        >>> (Tensor([1, 2]) + 1).graph(level="schedule").count("Kernel 0")
        1
        """
        if html is not None:
            graph.write_page(html, [self, *lst], level)
        return graph.dot([self, *lst], level)

    def _raw(self) -> Any:
        """The stored bytes."""
        if capturing:
            raise JitError("cannot access tensor data during JIT capture: it would be baked in")
        return _native.lazy_copy_out(readable(self))

    def data(self) -> memoryview:
        """The elements as a memoryview of this shape, a copy.

        >>> Tensor([[1, 2]]).data().tolist()
        [[1, 2]]
        """
        dtype = strong_dtype(self.dtype)
        if self.dtype is not dtype:
            return self.cast(dtype).data()
        if dtypes.is_sticky(dtype):
            return self.bitcast(patterns_of(dtype)).data()
        assert dtype.fmt is not None, f"no format of memoryviews is like {dtype}: cast first"
        shape = _native.lazy_shape(self)
        raw = bytearray(self._raw())
        if not raw:
            fmt: Any = "B" if dtype.fmt == "e" else dtype.fmt
            return memoryview(raw).cast(fmt)
        if dtype.fmt == "e" and sys.version_info < (3, 12):
            return half_view(raw, shape)
        return memoryview(raw).cast(dtype.fmt, shape)  # type: ignore[call-overload]

    def item(self) -> Any:
        """The one element as a Python number.

        >>> Tensor([[7]]).item()
        7
        """
        assert self.numel() == 1, f"item needs one element, got shape {self.shape}"
        return flat_values(self)[0]

    def tolist(self) -> Any:
        """The elements as nested lists, a number for 0-d.

        >>> Tensor([[1, 2], [3, 4]]).tolist(), Tensor(5).tolist()
        ([[1, 2], [3, 4]], 5)
        """
        shape = _native.lazy_shape(self)
        values = flat_values(self)
        if not shape:
            return values[0]
        for size in shape[:0:-1]:
            if size == 0:
                return empty_lists(shape)
            values = [values[k : k + size] for k in range(0, len(values), size)]
        return values

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The elements as a NumPy array, a copy; bfloat16 and fp8 are read as float32, sticky
        integers as what they are stored as, whose least is ERR, wide floats as decimals.
        numpy.asarray(memoryview(x)) has the words of wide floats in place, a structured array.

        >>> Tensor([1, 2]).numpy()
        array([1, 2], dtype=int32)
        """
        import numpy as np

        x: Tensor = self
        dtype = strong_dtype(x.dtype)
        if dtype is not x.dtype:
            x = x.cast(dtype)
        if dtypes.is_sticky(dtype):
            return x.bitcast(patterns_of(dtype)).numpy()
        if dtypes.is_wide(dtype):
            return np.array(flat_values(x), dtype=object).reshape(_native.lazy_shape(x))
        shape = _native.lazy_shape(x)
        if dtype.fmt is None:
            raw = convert(x._raw(), dtype, dtypes.float32, prod(shape))
            return np.frombuffer(raw, np.float32).reshape(shape)
        out = np.empty(shape, _to_np_dtype(dtype))
        if capturing:
            raise JitError("cannot access tensor data during JIT capture: it would be baked in")
        if out.size:
            _native.lazy_copy_out(readable(x), out)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For numpy.asarray: the storage itself where NumPy has the dtype, unless copied."""
        import numpy as np

        kind = None if self.dtype.fmt is None else _to_np_dtype(self.dtype)
        if copy or kind is None or (dtype is not None and np.dtype(dtype) != kind):
            if copy is False:
                raise ValueError(f"a NumPy array of {self.dtype} as {dtype} needs a copy")
            out = self.numpy()
            return out if dtype is None else out.astype(dtype, copy=False)
        if not prod(self.shape):
            return self.numpy()
        if capturing:
            raise JitError("cannot access tensor data during JIT capture: it would be baked in")
        memory: Any = self
        return np.asarray(memoryview(memory))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Functions of NumPy take tensors as the arrays that __array__ gives."""

        def plain(x: Any) -> Any:
            if isinstance(x, Tensor):
                return x.__array__()
            return type(x)(map(plain, x)) if type(x) in (list, tuple) else x

        return function(*plain(args), **{name: plain(x) for name, x in kwargs.items()})

    # ---- writing

    def assign(self, x: Any) -> Self:
        """x written into this tensor's storage, seen by all that share it; x is broadcast.

        >>> x = Tensor([1.0, 2.0]).realize()
        >>> x.assign([3.0, 4.0]).tolist()
        [3.0, 4.0]
        """
        if is_weak(self):
            _native.replace(self, self.cast(strong_dtype(self.dtype)).clone())
        if x is self:
            return self
        if not isinstance(x, _native.Lazy):
            place = self.device
            x = Tensor(x, None if place.startswith("DISK") else place, self.dtype)
        code, mine = _native.lazy_dtype(x), _native.lazy_dtype(self)
        if is_weak_code(code):
            x = x.cast(from_code(_native.dtype_promote(mine, code)))
            code = _native.lazy_dtype(x)
        if code != mine:
            raise RuntimeError(f"assign dtype mismatch: {self.dtype} from {x.dtype}")
        if (shape := _native.lazy_shape(self)) != _native.lazy_shape(x):
            x = x._broadcast_to(shape)
        _native.lazy_assign(self, x)
        if _marks and getattr(self, "_file", None) is not None:
            self.realize()
        return self

    def replace(self, x: Tensor) -> Self:
        """This object becomes a tensor of x's value; the shapes are equal.

        >>> x = Tensor([1, 2])
        >>> x.replace(Tensor([3, 4])).tolist()
        [3, 4]
        """
        assert self.shape == x.shape, f"replace shape mismatch: {self.shape} by {x.shape}"
        _native.replace(self, x)
        return self

    def __setitem__(self, indices: Any, v: Any) -> None:
        if is_weak(self):
            raise RuntimeError("cannot setitem into a weak tensor: it has no storage")
        if isinstance(v, _native.Lazy):
            code, mine = _native.lazy_dtype(v), _native.lazy_dtype(self)
            if is_weak_code(code):
                v = _native.lazy_cast(v, _native.dtype_promote(mine, code))
            if _native.lazy_dtype(v) != mine:
                other = from_code(_native.lazy_dtype(v))
                raise RuntimeError(f"setitem dtype mismatch: {self.dtype} from {other}")
        else:
            v = Tensor(v, dtype=self.dtype)
        stored = _native.lazy_is_stored(self)
        _native.lazy_index_assign(self, self._items(indices), v)
        # Writes to storage are done at once; what has none stays an expression, through which
        # gradients flow.
        if stored:
            _native.lazy_realize([self])

    def clone(self, device: str | None = None) -> Tensor:
        """A copy in storage of its own.

        >>> Tensor([1, 2]).clone().tolist()
        [1, 2]
        """
        x: Tensor = self.cast(strong_dtype(self.dtype))
        out: Tensor = _native.lazy_clone(x)
        if device is not None:
            out = out.to(device)
        if (grad := self.grad) is not None:
            out.grad = grad.clone(device)
        if not self.is_param:
            out._is_param = False
        if self.requires_grad is not None:
            out._requires_grad = self.requires_grad
        return out

    def to(self, device: Any) -> Tensor:
        """This tensor on a device, copied there when it is realised.

        >>> Tensor([1, 2]).to("CPU:1").device
        'CPU:1'
        """
        place, now = canonicalize_device(device), self.device
        if place == now:
            return self
        if place.startswith("DISK"):
            return Tensor.empty(*self.shape, dtype=self.dtype, device=place).assign(self)
        if is_weak(self):  # a number goes with any device
            return self
        out: Tensor = _native.lazy_to(self, device_code(place))
        if now.startswith("DISK"):  # whose memory is mapped
            out = _native.lazy_clone(out)
        if (grad := self.grad) is not None:
            out.grad = grad.to(device)
        if self.requires_grad is not None:
            out._requires_grad = self.requires_grad
        return out.is_param_(self.is_param)

    def to_(self, device: Any) -> Self:
        """Moves this tensor to a device.

        >>> Tensor([1, 2]).to_("CPU").device
        'CPU'
        """
        moved = self.to(device)
        if self.grad is not None and moved.grad is not None:
            self.grad.replace(moved.grad)
        return self.replace(moved)

    # ---- gradients

    def gradient(
        self, *targets: Tensor, gradient: Tensor | None = None, materialize_grads: bool = False
    ) -> list[Tensor]:
        """d self / d target for each target; self is 0-d, or weighted by gradient.

        >>> x = Tensor([1.0, 2.0])
        >>> [g.tolist() for g in (x * x).sum().gradient(x)]
        [[2.0, 4.0]]
        """
        assert (
            gradient is not None or self.shape == ()
        ), f"backward of shape {self.shape} needs a gradient: only scalars have one of themselves"
        if not self.is_floating_point() or not all(t.is_floating_point() for t in targets):
            raise RuntimeError("only float Tensors have gradient")
        if any(is_weak(t) for t in targets):
            raise RuntimeError("cannot take gradient wrt a weak Tensor")
        if is_weak(self):
            return [t.zeros_like() for t in targets]
        seed = None if gradient is None else _seed(self, gradient)
        found = custom.gradients(self, list(targets), seed)
        return [t.zeros_like() if g is None else g for t, g in zip(targets, found)]

    def backward(self, gradient: Tensor | None = None) -> Self:
        """Adds the gradient of self to .grad of every float tensor that it depends on, but where
        requires_grad is False.

        >>> x = Tensor([1.0, 2.0, 3.0])
        >>> _ = x.sum().backward()
        >>> x.grad.tolist()
        [1.0, 1.0, 1.0]
        """
        assert (
            gradient is not None or self.shape == ()
        ), f"backward of shape {self.shape} needs a gradient: only scalars have one of themselves"
        if not self.is_floating_point():
            raise RuntimeError("only float Tensors have gradient")
        seed = None if gradient is None else _seed(self, gradient)
        lazy_dtype = _native.lazy_dtype
        targets = [
            t
            for t in _native.live()
            if is_stored_float(lazy_dtype(t)) and t.requires_grad is not False
        ]
        for t, g in zip(targets, custom.gradients(self, targets, seed, True)):
            if g is None:
                continue
            if t.grad is None:
                t.grad = g
            else:
                t.grad.assign(t.grad + g)
        return self

    # ---- from elsewhere

    @staticmethod
    def from_blob(ptr: int, shape: tuple[int, ...], **kwargs: Any) -> Tensor:
        """The memory at an address, in place: it has to outlive every use.

        >>> import array
        >>> memory = array.array("i", [1, 2])
        >>> Tensor.from_blob(memory.buffer_info()[0], (2,), dtype="int32").tolist()
        [1, 2]
        """
        import ctypes

        dtype = to_dtype(kwargs.pop("dtype", None) or dtypes.default_float)
        place = canonicalize_device(kwargs.pop("device", None))
        if not isinstance(ptr, int) or ptr <= 0:
            raise ValueError(f"from_blob needs the address of memory, got {ptr!r}")
        memory = (ctypes.c_uint8 * (prod(shape) * dtype.itemsize)).from_address(ptr)
        out: Tensor = _native.from_buffer(memory, dtype.code, tuple(shape), False)
        return out if place == "CPU" else out.to(place)

    @staticmethod
    def from_dlpack(x: Any) -> Tensor:
        """The memory of another library's tensor, in place.

        >>> import numpy
        >>> Tensor.from_dlpack(numpy.arange(3)).tolist()
        [0, 1, 2]
        """
        return _native.from_dlpack(x)

    @staticmethod
    def from_url(url: str, gunzip: bool = False, **kwargs: Any) -> Tensor:
        """Not offered: nothing is downloaded. A local path works."""
        from .helpers import fetch

        return Tensor(fetch(url, gunzip=gunzip), **kwargs)

    @staticmethod
    def _disk(device: str, shape: Sequence[int], code: int) -> Tensor:
        """Storage in a new file, writable."""
        path = str(disk_path(device))
        return on_disk(
            _native.lazy_from_file(path, code, tuple(shape), 0, _native.FILE_CREATE), path
        )


def _seed(loss: Tensor, gradient: Any) -> Any:
    """The gradient of the loss itself, in its dtype and shape."""
    if not isinstance(gradient, _native.Lazy):
        gradient = Tensor(gradient, dtype=loss.dtype)
    return gradient.cast(loss.dtype)._broadcast_to(loss.shape)  # type: ignore[attr-defined]


_native.set_errors({code: kind for code, kind in BY_STATUS.items()})
_native.set_lazy_type(Tensor)
_native.set_operand(operand)
_native.set_warn(warn)

# Programs import from here what tinygrad's module of this name imports itself.
_ALSO = {
    **dict.fromkeys("ConstType PyConst least_upper_dtype _from_np_dtype".split(), "dtype"),
    **dict.fromkeys("all_int fetch getenv".split(), "helpers"),
    **dict.fromkeys("UOp Variable sint".split(), "uop.ops"),
    "is_numpy_ndarray": "values",
}
_absent = of_module("tensor")


def __getattr__(name: str) -> Any:
    if name == "cast":
        return typing.cast
    module = _ALSO.get(name)
    if module is None:
        return _absent(name)
    return getattr(importlib.import_module(f"..{module}", __name__), name)
