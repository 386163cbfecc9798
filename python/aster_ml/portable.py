"""Portable programs: a function of tensors as a file that any machine runs without its Python.

>>> from aster_ml import Tensor, export, load_program
>>> weight = Tensor([[1.0, 2.0], [3.0, 4.0]])
>>> data = export(lambda x: (x @ weight).relu(), Tensor([[1.0, -1.0]]))
>>> program = load_program(data)
>>> program(Tensor([[2.0, 0.0]])).tolist()
[[2.0, 4.0]]
>>> program.inputs[0].name, program.outputs[0].shape
('x', (1, 2))
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Sequence

from . import _native
from .device import name_of
from .dtype import from_code
from .engine.jit import ProgramArray
from .tensor import Tensor

_TEXT, _SIDE_FILE = 1, 2

__all__ = ["Program", "export", "load_program"]


def export(
    fn: Callable[..., Any],
    *examples: Tensor,
    path: str | os.PathLike[str] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    text: bool = False,
    side_file: bool = False,
) -> bytes | None:
    """What fn computes of tensors like the examples, as bytes, or in a file where there is a path.

    fn gives a tensor, or a list, tuple or dict of them; it may not realise or read any. Tensors
    that it uses besides its arguments are written as constants; what it assigns to is state, of
    which a loaded program has its own. Inputs are named as fn's parameters, outputs as the keys of
    a dict. text: as text that can be read and changed; side_file: constants in PATH.data.

    >>> from aster_ml import Tensor, export
    >>> export(lambda x: {"twice": x * 2}, Tensor([1.0]), text=True).decode().splitlines()[1]
    '%0 = Input float32[1] "x"'
    """
    if not all(isinstance(x, Tensor) for x in examples):
        raise TypeError("export takes tensors as examples")
    if side_file and path is None:
        raise ValueError("export: a side file needs a path")
    if examples:
        Tensor.realize(*examples)
    before = _native.engine_count()["realizes"]
    made = fn(*examples)
    if _native.engine_count()["realizes"] != before:
        raise ValueError("export: the function realises tensors, which would become constants")
    if isinstance(made, dict):
        output_names = list(made) if output_names is None else output_names
        made = list(made.values())
    outputs = [made] if isinstance(made, Tensor) else list(made)
    if not outputs or not all(isinstance(y, Tensor) for y in outputs):
        raise TypeError("export: the function gives tensors")
    if input_names is None:
        input_names = _parameter_names(fn, len(examples))
    flags = (_TEXT if text else 0) | (_SIDE_FILE if side_file else 0)
    if path is None:
        return _native.program_to_bytes(examples, input_names, outputs, output_names, flags)
    _native.program_save(os.fspath(path), examples, input_names, outputs, output_names, flags)
    return None


def _parameter_names(fn: Callable[..., Any], count: int) -> list[str] | None:
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values() if p.kind <= 1]
    except (TypeError, ValueError):
        return None
    return names[:count] if len(names) >= count else None


class Program:
    """A program that was loaded: called with tensors, it gives one, or a list of several."""

    def __init__(self, program: Any):
        self._program = program
        self.inputs: list[ProgramArray] = self._arrays(0)
        self.outputs: list[ProgramArray] = self._arrays(1)

    def _arrays(self, which: int) -> list[ProgramArray]:
        out = []
        for i in range(_native.program_count_arrays(self._program, which)):
            a = _native.program_get_array(self._program, which, i)
            dtype, device = from_code(a["dtype"]), name_of(a["device"])
            out.append(
                ProgramArray(a["name"], tuple(a["shape"]), dtype, device, bool(a["assigned"]))
            )
        return out

    @property
    def kernel_count(self) -> int:
        """Launches of one run."""
        return int(_native.program_count_kernels(self._program))

    def __call__(self, *tensors: Tensor) -> Any:
        if len(tensors) != len(self.inputs):
            raise TypeError(f"{len(tensors)} tensors for a program of {len(self.inputs)} inputs")
        given = [t.contiguous() for t in tensors]
        made = [Tensor.empty(*a.shape, dtype=a.dtype) for a in self.outputs]
        Tensor.realize(*given, *made)
        _native.program_run(
            self._program,
            [_native.lazy_view(t) for t in given],
            [_native.lazy_view(t) for t in made],
        )
        return made[0] if len(made) == 1 else made


def load_program(source: str | os.PathLike[str] | bytes) -> Program:
    """The program of a file, whose constants are mapped and not read, or of bytes.

    >>> from aster_ml import Tensor, export, load_program
    >>> load_program(export(lambda x: x.sum(), Tensor([1.0, 2.0])))(Tensor([3.0, 4.0])).item()
    7.0
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Program(_native.program_from_bytes(source))
    return Program(_native.program_load(os.fspath(source)))
