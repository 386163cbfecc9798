"""Exceptions: one class a status of the library.

Each derives from `Error` and from every built-in exception that a program written for tinygrad may
expect in such a case, `AssertionError` where tinygrad asserts. The message is the library's.
"""

from __future__ import annotations


class Error(Exception):
    """A failure inside the library."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ArgumentError(Error, ValueError, TypeError, RuntimeError):
    """An argument that makes no sense."""


class ShapeError(Error, ValueError, IndexError, RuntimeError, AssertionError):
    """Shapes that do not fit an operation."""


class DtypeError(Error, TypeError, ValueError, IndexError, RuntimeError):
    """An operation that a dtype does not have."""


class RangeError(Error, IndexError, ValueError, RuntimeError, AssertionError, OverflowError):
    """An index, axis, size or value out of bounds."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation that failed."""


class NotFoundError(Error, KeyError, FileNotFoundError):
    """A name, file or entry that does not exist."""


class UnsupportedError(Error, NotImplementedError):
    """Something well-formed that this build, device or dtype cannot do."""


class JitError(Exception):
    """A call that a TinyJit cannot capture or replay."""


class NotOffered(UnsupportedError):
    """A name of tinygrad that this package deliberately lacks."""


class NotOfferedImport(NotOffered, ImportError):
    """That name in an import."""


class NotOfferedName(NotOffered, AttributeError):
    """That name as an attribute, which `hasattr` has to be able to ask for."""


class StateError(Error, RuntimeError, JitError):
    """A call at the wrong time: inside a capture, or beside another thread's."""


class DeviceError(Error, RuntimeError):
    """A device that could not allocate, copy or launch."""


class CompileError(Error, RuntimeError):
    """A kernel that did not become machine code."""


class FileError(Error, OSError):
    """A file operation that the operating system refused."""


class FormatError(Error, ValueError, AssertionError):
    """A file, formula or message that breaks its format."""


class NumericError(Error, ArithmeticError, ValueError):
    """A singular matrix, no convergence, an overflow defined as an error."""


class CancelledError(Error, RuntimeError):
    """A callback that asked to stop."""


class InternalError(Error, RuntimeError):
    """A bug of the library."""


# By status code, as include/aster_ml/base.h numbers them.
BY_STATUS: dict[int, type[Error]] = {
    1: Error,
    2: ArgumentError,
    3: ShapeError,
    4: DtypeError,
    5: RangeError,
    6: OutOfMemoryError,
    7: NotFoundError,
    8: UnsupportedError,
    9: StateError,
    10: DeviceError,
    11: CompileError,
    12: FileError,
    13: FormatError,
    14: NumericError,
    15: CancelledError,
    16: InternalError,
}


def not_offered(name: str, reason: str) -> NotOffered:
    """The error of what tinygrad has and this package deliberately lacks."""
    return NotOffered(f"{name} is not offered: {reason}")
