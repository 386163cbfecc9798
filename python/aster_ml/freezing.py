"""Functions of tensors as code that needs nothing of this library.

>>> import ctypes, pathlib, tempfile
>>> from aster_ml import Tensor, freeze
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name) / "libtwice.so"
>>> freeze(lambda x: x * 2, Tensor([1.0, 2.0]), path=path)  # and twice.h beside it
>>> library = ctypes.CDLL(str(path))
>>> memory, pair = ctypes.create_string_buffer(1 << 16), ctypes.c_float * 2
>>> x, y = pair(3, 4), pair()
>>> place = ctypes.c_void_p(ctypes.addressof(memory) + 63 & ~63)
>>> library.twice_init(place), library.twice_run(place, x, y), list(y)
(0, 0, [6.0, 8.0])
>>> folder.cleanup()
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any, Callable, Sequence, Union

from . import _native
from .portable import export
from .tensor import Tensor

_SIDE_FILE, _KERNEL = 1, 2

__all__ = ["freeze"]


def freeze(
    source: Union[Callable[..., Any], str, os.PathLike[str], bytes],
    *examples: Tensor,
    path: Union[str, os.PathLike[str]],
    targets: Sequence[str] | None = None,
    threads: int = 1,
    side_file: bool = False,
    kernel: bool = False,
    name: str | None = None,
    compiler: str | None = None,
    **options: Any,
) -> None:
    """Writes source as C, an object, a library or an executable, as path ends in .c, .o, .a, .so or
    something else, and its header. docs/FREEZE.md has the interface of what comes out.

    source is a function, called with the examples (options are those of export: names, state), or a
    portable program as bytes or a file. targets: the CPUs, "native" or of "x86-64", "x86-64-v3",
    "x86-64-v4" the first that the machine has when it runs, or "aarch64". threads: that a run uses
    at most. side_file: constants in NAME.constants, which is mapped. kernel: with a function
    NAME_kernel, which gives it as a kernel of the Blaze interface. name: before all names in C.

    >>> freeze(b"no", path="no.c")
    Traceback (most recent call last):
    aster_ml.errors.FormatError: freeze: no program: 2 bytes that do not begin as one
    """
    flags = (_SIDE_FILE if side_file else 0) | (_KERNEL if kernel else 0)
    if targets is not None:
        targets = list(targets)
    with tempfile.TemporaryDirectory() as folder:
        if callable(source):
            program = str(pathlib.Path(folder, "program.aster"))
            export(source, *examples, path=program, **options)
        elif examples or options:
            raise TypeError("freeze: examples and options of export go with a function")
        elif isinstance(source, bytes):
            program = str(pathlib.Path(folder, "program.aster"))
            pathlib.Path(program).write_bytes(source)
        else:
            program = os.fspath(source)
        _native.freeze(os.fspath(path), program, name, targets, compiler, threads, flags)
