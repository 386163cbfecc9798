"""State dicts: tensors by name, and the files that hold them.

>>> from aster_ml import Tensor, nn
>>> sorted(get_state_dict(nn.Linear(2, 3)))
['bias', 'weight']
"""

from __future__ import annotations

import io
import json
import pathlib
import warnings
from collections import OrderedDict
from typing import Any, BinaryIO, Iterable, NamedTuple, Union

from .. import _native
from ..absent import of_module
from ..dtype import DType, dtypes
from ..errors import not_offered
from ..helpers import DEBUG, GlobalCounters, Timing, tqdm
from ..llm.gguf import gguf_load as gguf_load
from ..tensor import Tensor
from ..values import on_disk

Source = Union[Tensor, str, pathlib.Path]

safe_dtypes: dict[str, DType] = {
    "BOOL": dtypes.bool, "I8": dtypes.int8, "U8": dtypes.uint8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64,
    "U64": dtypes.uint64, "F8_E4M3": dtypes.fp8e4m3, "F8_E5M2": dtypes.fp8e5m2,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
inverse_safe_dtypes: dict[DType, str] = {v: k for k, v in safe_dtypes.items()}


class TensorIO(io.RawIOBase, BinaryIO):  # type: ignore[misc]
    """A uint8 vector as a file to read.

    >>> TensorIO(Tensor(b"hello")).read(4)
    b'hell'
    """

    def __init__(self, t: Tensor):
        if t.ndim != 1 or t.dtype != dtypes.uint8:
            raise ValueError(f"TensorIO needs a vector of uint8, got {t.dtype} of shape {t.shape}")
        self._position, self._tensor = 0, t

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        out = super().read(size)
        assert out is not None
        return out

    def readinto(self, buffer: Any) -> int:
        end = min(len(self._tensor), self._position + len(buffer))
        data = self._tensor[self._position : end].data()
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        begin = (0, self._position, len(self._tensor))[whence]
        self._position = min(len(self._tensor), max(0, begin + offset))
        return self._position

    def __enter__(self) -> TensorIO:
        return self

    def write(self, s: Any) -> int:
        raise io.UnsupportedOperation("a TensorIO is read only")

    def writelines(self, lines: Iterable[Any]) -> None:
        raise io.UnsupportedOperation("a TensorIO is read only")


# ---- what the library reads


def _tensors(state: Any, source: Source) -> dict[str, Tensor]:
    """The tensors of a state of the library, in order, marked as parts of a file."""
    path = None if isinstance(source, Tensor) else str(source)
    out = {}
    for index in range(_native.state_count(state)):
        name = _native.state_name(state, index) or ""
        out[name] = on_disk(_native.state_get(state, name), path)
    return out


def _state_of(kind: str, fn: Source, limit: int | None = None) -> Any:
    """The state in a file, or in a uint8 tensor of its bytes."""
    _native.context_set_archive_limit(limit or 0)
    try:
        if isinstance(fn, Tensor):
            return getattr(_native, f"state_from_{kind}")(fn)
        reader = "state_read" if kind == "safetensors" else f"state_read_{kind}"
        return getattr(_native, reader)(pathlib.Path(fn))
    finally:
        _native.context_set_archive_limit(0)


def _as_tensor(fn: Source) -> Tensor:
    return fn if isinstance(fn, Tensor) else Tensor(pathlib.Path(fn))


def safe_load_metadata(fn: Source) -> tuple[Tensor, int, dict[str, Any]]:
    """The bytes of a safetensors file, where its data begins, and its header."""
    t = _as_tensor(fn)
    data_start = int.from_bytes(t[0:8].data(), "little") + 8
    return t, data_start, json.loads(t[8:data_start].data().tobytes())


def safe_load(fn: Source) -> dict[str, Tensor]:
    """The tensors of a safetensors file, mapped: only what is used is read."""
    return _tensors(_state_of("safetensors", fn), fn)


def safe_save(
    tensors: dict[str, Tensor], fn: str | pathlib.Path, metadata: dict[str, Any] | None = None
) -> None:
    """Writes tensors as a safetensors file; one of that name is replaced when all is written."""
    if any(v.dtype in dtypes.weaks for v in tensors.values()):
        raise ValueError("safe_save requires concrete dtypes")
    state = _native.state_init()
    for name, tensor in tensors.items():
        _native.state_set(state, name, tensor, 0)
    for key, text in (metadata or {}).items():
        _native.state_set_metadata(state, key, text if isinstance(text, str) else json.dumps(text))
    _native.state_write(state, pathlib.Path(fn))


def zip_extract(fn: Source, limit: int | None = None) -> dict[str, Tensor]:
    """The files of a zip archive as uint8 vectors.

    What is compressed may come to limit bytes (by default 64 MiB, or 100 times the archive's size).
    """
    return _tensors(_state_of("zip", fn, limit), fn)


def tar_extract(fn: Source, limit: int | None = None) -> dict[str, Tensor]:
    """The regular files of a tar archive, plain or in gzip; limit as zip_extract has it."""
    return _tensors(_state_of("tar", fn, limit), fn)


class Skipped(NamedTuple):
    """What torch_load left out: an object of a name that is no part of a state."""

    name: str


def torch_load(fn: Source, skip_unknown: bool = False, limit: int | None = None) -> Any:
    """What torch.save wrote: zip archives and the formats before them.

    Nothing of the file is executed: only tensors and plain containers are unpickled, anything else
    is refused by name. skip_unknown: it is left out instead, and a warning names it. Such an object
    is then the dict of its attributes, or Skipped where it has none: a whole model that was saved
    becomes the tensors in it. limit: as zip_extract has it.
    """
    state = _state_of("torch_skipping" if skip_unknown else "torch", fn, limit)
    tensors = _tensors(state, fn)
    names = json.loads(_native.state_get_metadata(state, "skipped") or "") if skip_unknown else []
    if names:
        warnings.warn(f"torch_load skipped {', '.join(names)}", stacklevel=2)
    return _rebuild(json.loads(_native.state_get_metadata(state, "structure") or "null"), tensors)


def _rebuild(x: Any, tensors: dict[str, Tensor]) -> Any:
    """The object that the library describes in JSON."""
    if isinstance(x, list):
        return [_rebuild(part, tensors) for part in x]
    if not isinstance(x, dict):
        return x
    ((kind, value),) = x.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        pairs = ((_rebuild(k, tensors), _rebuild(v, tensors)) for k, v in value)
        return dict(pairs)
    if kind in ("tuple", "set"):
        return (tuple if kind == "tuple" else set)(_rebuild(part, tensors) for part in value)
    if kind == "unknown":
        return Skipped(value)
    if kind == "bytes":
        return bytes.fromhex(value)
    return int(value, 16) if kind == "int" else float(value)


# ---- state dicts of objects


def get_state_dict(obj: Any, prefix: str = "", tensor_type: Any = Tensor) -> dict[str, Tensor]:
    """The tensors in an object's attributes, lists and dicts, by the way to them."""
    if isinstance(obj, tensor_type):
        return {prefix.strip("."): obj}
    if hasattr(obj, "_asdict"):
        obj = obj._asdict()
    elif isinstance(obj, OrderedDict):
        obj = dict(obj)
    elif hasattr(obj, "__dict__"):
        obj = obj.__dict__
    parts: Iterable[Any] = ()
    if isinstance(obj, (list, tuple)):
        parts = enumerate(obj)
    elif isinstance(obj, dict):
        parts = obj.items()
    out: dict[str, Tensor] = {}
    for key, value in parts:
        out.update(get_state_dict(value, f"{prefix}{key}.", tensor_type))
    return out


def get_parameters(obj: Any) -> list[Tensor]:
    """The tensors in an object.

    >>> from aster_ml import nn
    >>> len(get_parameters([nn.Linear(2, 3), nn.Linear(3, 2)]))
    4
    """
    return list(get_state_dict(obj).values())


def load_state_dict(
    model: Any,
    state_dict: dict[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    consume: bool = False,
    realize: bool = True,
) -> list[Tensor]:
    """Puts tensors into a model by name; returns what was loaded.

    strict: every tensor of the model has to be there. consume: state_dict is emptied on the way.
    """
    loaded: list[Tensor] = []
    before = GlobalCounters.mem_used if verbose else 0

    def speed(ns: int) -> str:
        size = GlobalCounters.mem_used - before
        return f", {size / 1e9:.2f} GB loaded at {size / ns:.2f} GB/s"

    with Timing("loaded weights in ", speed, enabled=verbose):
        own = get_state_dict(model)
        if DEBUG >= 1 and len(state_dict) > len(own):
            print("unused weights in state_dict:", sorted(state_dict.keys() - own.keys()))
        for k, v in tqdm(own.items(), disable=None if verbose else True):
            if k not in state_dict and not strict:
                if DEBUG >= 1:
                    print(f"not in state_dict: {k}")
                continue
            found = state_dict[k]
            if v.shape != found.shape:
                if {(), (1,)} != {found.shape, v.shape}:
                    raise ValueError(
                        f"Shape mismatch in layer `{k}`: Expected shape {v.shape}, "
                        f"but found {found.shape} in state dict."
                    )
                found = found.reshape(v.shape)
            v.replace(found.to(v.device))
            if realize:
                v.realize()
            if consume:
                del state_dict[k]
            loaded.append(v)
    return loaded


def fs_store(t: Tensor) -> Tensor:
    """Not offered: there is no tinyfs server."""
    raise not_offered("fs_store", "there is no tinyfs server")


def fs_load(t: Tensor, size: int) -> Tensor:
    """Not offered: there is no tinyfs server."""
    raise not_offered("fs_load", "there is no tinyfs server")


__getattr__ = of_module("nn.state")
