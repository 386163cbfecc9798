"""Devices by name: "CPU", "CPU:1", ..., and "PYTHON", the reference interpreter.

>>> Device.DEFAULT, Device.canonicalize("cpu:0")
('CPU', 'CPU')
"""

from __future__ import annotations

import functools
import os
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Iterator

from . import _native
from .absent import of_module
from .errors import not_offered
from .helpers import DEV

if TYPE_CHECKING:
    from .dtype import DType

# tinygrad's names of devices that the library calls otherwise.
_OURS = {"PYTHON": "REFERENCE", "CL": "OPENCL", "GPU": "OPENCL"}
_THEIRS = {"REFERENCE": "PYTHON", "OPENCL": "CL"}
_names: dict[int, str] = {}
_codes: dict[str, int] = {}


def name_of(code: int) -> str:
    """The name of a device code."""
    found = _names.get(code)
    if found is None:
        kind, _, index = str(_native.device_to_name(code)).partition(":")
        found = _names[code] = _THEIRS.get(kind, kind) + (f":{index}" if index else "")
    return found


def code_of(name: str) -> int:
    """The code of a device name."""
    found = _codes.get(name)
    if found is None:
        kind, _, index = name.upper().partition(":")
        text = _OURS.get(kind, kind) + (f":{index}" if index else "")
        found = _codes[name] = int(_native.device_from_name(text))
    return found


def canonicalize_device(device: Any = None) -> Any:
    """ "cpu:0" -> "CPU"; the default device for None; a tuple of one is that one."""
    if device is None:
        return Device.DEFAULT
    if isinstance(device, (tuple, list)):
        if len(device) == 1:
            return canonicalize_device(device[0])
        raise not_offered("a tensor over several devices", "sharding is not implemented")
    if not isinstance(device, str):
        raise TypeError(f"a device is named by a str, got {device!r}")
    return Device.canonicalize(device)


class Renderer:
    """What programs ask of a device before they choose a dtype or a shape.

    >>> dtypes.bfloat16 in Device["CPU"].renderer.supported_dtypes()
    True
    """

    has_local = False
    has_shared = False
    has_threads = True
    supports_float4 = True
    tensor_cores: list[Any] = []

    def __init__(self, device: str):
        self.device = device

    def supported_dtypes(self) -> set[DType]:
        """Every dtype that memory holds: all are computed on every device."""
        from .dtype import dtypes

        return set(dtypes.all)


class Compiled:
    """A device: its name, and whether it can be used."""

    def __init__(self, device: str):
        self.device, self.code = device, code_of(device)
        self.arch, self.graph = os.uname().machine, None

    def __repr__(self) -> str:
        return f"<Device {self.device}>"

    @functools.cached_property
    def renderer(self) -> Renderer:
        """What is known of the kernels that it runs."""
        return Renderer(self.device)

    def synchronize(self) -> None:
        """Nothing runs behind a call's back."""

    @property
    def is_available(self) -> bool:
        """True if memory can be allocated on it."""
        return bool(_native.device_is_available(self.code))


class _Device:
    """The devices by name: Device["CPU"], Device.DEFAULT."""

    def __init__(self) -> None:
        self._opened: dict[str, Compiled] = {}

    def canonicalize(self, device: str | None) -> str:
        """Upper case, without the index 0."""
        if device is None:
            return self.DEFAULT
        kind, colon, rest = device.partition(":")
        kind = kind.upper()
        if kind == "DISK":
            return f"DISK:{rest}" if colon else kind
        return kind if rest in ("", "0") else f"{kind}:{rest}"

    @property
    def DEFAULT(self) -> str:
        """Where new tensors live: $DEV, DEV.value and Context(DEV=...) set it."""
        return name_of(_native.engine_device())

    @DEFAULT.setter
    def DEFAULT(self, device: str) -> None:
        DEV.value = self.canonicalize(device)

    def __getitem__(self, ix: str) -> Compiled:
        ix = self.canonicalize(ix)
        if ix not in self._opened:
            self._opened[ix] = Compiled(ix)
        return self._opened[ix]

    @property
    def default(self) -> Compiled:
        """The device named by DEFAULT."""
        return self[self.DEFAULT]

    def get_available_devices(self) -> Iterator[str]:
        """The names of what can be used here."""
        for name in ("CPU", "CL", "CUDA", "PYTHON"):
            if _native.device_is_available(code_of(name)):
                yield name


Device = _Device()


def _follow() -> None:
    """The default device is the first that DEV names, INTERFACE+DEVICE:RENDERER:ARCH; an index may
    stand in place of the renderer, which means nothing here."""
    kind, _, rest = DEV.value.split(";")[0].rpartition("+")[2].partition(":")
    _native.engine_set_device(code_of(f"{kind or 'CPU'}:{rest if rest.isdigit() else 0}"))


DEV.changed = _follow
if DEV:
    _follow()


def on_device(device: Any, make: Callable[..., Any], *args: Any) -> Any:
    """make(*args), a function of _native, with what it makes on a device; None: the default one."""
    if device is None or (place := canonicalize_device(device)) == Device.DEFAULT:
        return make(*args)
    return _native.on_device(code_of(place), make, args)


def is_dtype_supported(dtype: Any, device: str | None = None) -> bool:
    """True: every dtype is computed on every device."""
    return True


def disk_path(device: Any) -> pathlib.Path | None:
    """The file of "DISK:path", None for other devices."""
    if isinstance(device, str) and device.upper().startswith("DISK:"):
        return pathlib.Path(device[5:])
    return None


__getattr__ = of_module("device")
