"""TinyJit: a function recorded once, then replayed without running its Python.

>>> from aster_ml import Tensor, TinyJit
>>> @TinyJit
... def double(x):
...     return (x * 2).realize()
>>> [double(Tensor([float(i)]).realize()).item() for i in range(4)]
[0.0, 2.0, 4.0, 6.0]
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Generic, TypeVar, overload

from .. import _native
from ..errors import ArgumentError, JitError
from ..helpers import DEBUG, JIT
from ..nn.state import get_parameters
from ..symbolic import BoundInt, Variable, bindings
from ..tensor import Tensor, capturing

ReturnType = TypeVar("ReturnType")

__all__ = ["CapturedJit", "JitError", "TinyJit"]

# The sizes of an input with variables unbound, its dtype and device.
Info = tuple[tuple[Any, ...], Any, str]


class CapturedJit:
    """A recording: its program, what its inputs look like, and the objects it returns."""

    def __init__(self, program: Any, ret: Any, outputs: list[Tensor], inputs: _Inputs):
        self.program, self.ret, self.outputs = program, ret, outputs
        self.expected_names, self.expected_input_info = inputs.names, inputs.info
        # Replays write where the returned tensors have their storage.
        self._places = [_native.lazy_view(t) for t in outputs]

    def __call__(self, tensors: list[Tensor]) -> Any:
        inputs = [_native.lazy_view(t) for t in tensors]
        _native.program_run(self.program, inputs, self._places)
        return self.ret

    def free_intermediates(self) -> None:
        """Nothing: the memory between kernels is freed with the recording."""

    @property
    def kernel_count(self) -> int:
        """Launches of one replay."""
        return int(_native.program_count_kernels(self.program))


def _unbound(shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(s.expression if isinstance(s, BoundInt) else s for s in shape)


class _Inputs:
    """The tensors and variables in the arguments of a call."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]):
        named = [
            (name, t)
            for name, t in list(enumerate(args)) + sorted(kwargs.items())
            if isinstance(t, Tensor)
        ]
        self.names: list[int | str] = [name for name, _ in named]
        self.tensors: list[Tensor] = [t for _, t in named]
        values = args + tuple(kwargs.values())
        for x in values:  # one level deep: models hold their weights deeper
            inside = (
                x if isinstance(x, (tuple, list)) else x.values() if isinstance(x, dict) else ()
            )
            for t in inside:
                if isinstance(t, Tensor) and not any(t is known for known in self.tensors):
                    self.tensors.append(t)
        if len({id(t) for t in self.tensors}) != len(self.tensors):
            raise JitError("duplicate inputs to JIT")
        lazy = [t for t in self.tensors if not _native.lazy_is_realized(t)]
        if lazy:
            _native.lazy_realize(lazy)
        self.info: list[Info] = [(_unbound(t.shape), t.dtype, t.device) for t in self.tensors]
        sizes = [s for t in self.tensors for s in t.shape if isinstance(s, BoundInt)]
        found: dict[Variable, int] = bindings(
            sizes + [x for x in values if isinstance(x, BoundInt)]
        )
        self.variables = frozenset(found)
        self.key = tuple(sorted((v.expr, n) for v, n in found.items()))


def _check_return(ret: Any) -> None:
    """Raises JitError for what a replay could not bring up to date."""
    if ret is None or isinstance(ret, Tensor):
        return
    if isinstance(ret, (tuple, list, dict)):
        for item in ret.values() if isinstance(ret, dict) else ret:
            _check_return(item)
        return
    raise JitError(f"JIT return contains non-Tensor value of type {type(ret).__name__}")


class _TinyJit(_native.Jit, Generic[ReturnType]):
    """A function that is run at its first call, recorded at the second, replayed from then on.

    Tensors in the arguments (also one level deep in lists and dicts) are inputs; everything else is
    baked in. Of bound variables, every tuple of values has a recording of its own.
    """

    def __init__(self, fxn: Callable[..., ReturnType], prune: bool = False):
        self.fxn, self.prune = fxn, prune
        self.reset()

    def reset(self) -> None:
        """Forgets the recordings."""
        self._clear_captured()
        self.cnt = 0
        self.captured: CapturedJit | None = None
        self._recordings: dict[Any, CapturedJit] = {}
        self._expected: tuple[list[int | str], list[Info], frozenset[Variable]] | None = None

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return self if obj is None else functools.partial(self.__call__, obj)

    def __reduce__(self) -> Any:
        raise TypeError("a TinyJit cannot be pickled: its program is machine code of this process")

    def _slow_call(self, *args: Any, **kwargs: Any) -> Any:
        """A call that is not the last recording over again."""
        inputs = _Inputs(args, kwargs)
        if not JIT or self.cnt == 0:
            ret: Any = self.fxn(*args, **kwargs)
            if params := get_parameters(ret):
                Tensor.realize(*params)
            self.cnt += bool(JIT)
            return ret
        if self._expected is not None:
            self._check(inputs)
        recording = self._recordings.get(inputs.key)
        if recording is None:
            ret = self._record(inputs, args, kwargs)
        else:
            ret = recording(inputs.tensors)
        self.cnt += 1
        return ret

    def _check(self, inputs: _Inputs) -> None:
        """Raises JitError where a call is unlike the one recorded."""
        assert self._expected is not None
        names, info, variables = self._expected
        if names != inputs.names:
            raise JitError(f"args mismatch in JIT: captured {names}, called with {inputs.names}")
        if info != inputs.info:
            raise JitError(f"args mismatch in JIT: captured {info}, called with {inputs.info}")
        if variables != inputs.variables:
            raise JitError(
                f"args mismatch in JIT: captured variables {sorted(map(repr, variables))}, "
                f"called with {sorted(map(repr, inputs.variables))}"
            )

    def _record(self, inputs: _Inputs, args: Any, kwargs: Any) -> Any:
        if capturing:
            raise RuntimeError("having TinyJit inside another TinyJit is not supported")
        try:
            _native.engine_capture_begin(inputs.tensors)
        except ArgumentError as error:
            raise JitError(f"duplicate inputs to JIT: {error}") from error
        capturing.append(self)
        _native.set_capturing(True)
        try:
            ret = self.fxn(*args, **kwargs)
            outputs = list({id(t): t for t in get_parameters(ret)}.values())
            if outputs:
                Tensor.realize(*outputs)
            _check_return(ret)
        except BaseException:
            _native.engine_capture_cancel()
            raise
        finally:
            capturing.clear()
            _native.set_capturing(False)
        program = _native.engine_capture_end(outputs)
        if not _native.program_count_kernels(program):
            raise JitError("didn't JIT anything!")
        recording = CapturedJit(program, ret, outputs, inputs)
        if len(inputs.names) == len(inputs.tensors):  # those inside lists take the slow way
            expected = [
                (n, tuple(t.shape), t.dtype.code) for n, t in zip(inputs.names, inputs.tensors)
            ]
            self._set_captured(program, expected, outputs, ret)
        if DEBUG >= 1:
            print(f"JIT captured {recording.kernel_count} kernels, {len(inputs.tensors)} inputs")
        self._expected = (inputs.names, inputs.info, inputs.variables)
        self._recordings[inputs.key] = self.captured = recording
        return ret


@overload
def TinyJit(fxn: Callable[..., ReturnType], *, prune: bool = ...) -> _TinyJit[ReturnType]: ...
@overload
def TinyJit(
    fxn: None = ..., *, prune: bool = ...
) -> Callable[[Callable[..., ReturnType]], _TinyJit[ReturnType]]: ...
def TinyJit(fxn: Any = None, **kwargs: Any) -> Any:
    """@TinyJit or @TinyJit(prune=True); prune is accepted, replays run all kernels either way."""
    if fxn is None:
        return lambda f: _TinyJit(f, **kwargs)
    return _TinyJit(fxn, **kwargs)
