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
import inspect
import os
from typing import Any, Callable, Generic, NamedTuple, TypeVar, overload

from ..absent import of_module
from .. import _native
from ..device import Device, name_of
from ..dtype import DType, from_code
from ..dynamic import dims_where, is_symbolic, whole
from ..errors import ArgumentError, JitError
from ..helpers import DEBUG, JIT
from ..nn.state import get_parameters
from ..symbolic import BoundInt, Expression, Variable, bindings, note_seen
from ..tensor import Tensor, capturing

ReturnType = TypeVar("ReturnType")

__all__ = ["CapturedJit", "JitError", "TinyJit"]


class ProgramArray(NamedTuple):
    """One array that a recording reads or writes; `assigned`: replays leave another value in it."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    device: str
    assigned: bool


# The sizes of an input with variables unbound, its dtype and device.
Info = tuple[tuple[Any, ...], Any, str]


class CapturedJit:
    """A recording: its program, what its inputs look like, and the objects it returns."""

    def __init__(
        self,
        program: Any,
        ret: Any,
        outputs: list[Tensor],
        inputs: _Inputs,
        seen: dict[Expression, int],
    ):
        self.program, self.ret, self.outputs, self.seen = program, ret, outputs, seen
        found = [
            _native.program_get_variable(program, i)
            for i in range(_native.program_count_variables(program))
        ]
        self.variables = [(v["name"], v["value"]) for v in found]
        # What the library looked at, or took to be inside something.
        self.limited = any(v["limited"] for v in found)
        self.values = inputs.values
        self.expected_names, self.expected_input_info = inputs.names, inputs.info
        # Replays write where the returned tensors have their storage.
        self._symbolic = [(t, t.shape) for t in outputs if is_symbolic(t)]
        self._rebind(inputs.values)
        self._places = [_native.lazy_view_whole(t) for t in outputs]

    def holds(self, values: dict[str, int]) -> bool:
        """Whether variables of these values would be seen as they were seen."""
        if not all(e.infer(values) == value for e, value in self.seen.items()):
            return False
        return not self.limited or bool(_native.program_is_for(self.program, self.given(values)))

    def given(self, values: dict[str, int]) -> tuple[int, ...]:
        """The values of the program's variables; those that no argument has keep theirs."""
        return tuple([values.get(name, value) for name, value in self.variables])

    def rebind(self, values: dict[str, int]) -> None:
        """The results where the variables have other values."""
        if self._symbolic and values != self.values:
            self._rebind(values)

    def _rebind(self, values: dict[str, int]) -> None:
        self.values = values
        for t, sizes in self._symbolic:
            _native.lazy_set_dims(t, dims_where(sizes, values))

    def __call__(self, inputs: _Inputs) -> Any:
        given = [_native.lazy_view_whole(t) for t in inputs.tensors]
        values = self.given(inputs.values)
        _native.program_run(self.program, given, self._places, None, values)
        self.rebind(inputs.values)
        return self.ret

    def free_intermediates(self) -> None:
        """Nothing: the memory between kernels is freed with the recording."""

    @property
    def kernel_count(self) -> int:
        """Launches of one replay."""
        return int(_native.program_count_kernels(self.program))

    def save(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        text: bool = False,
        side_file: bool = False,
        state_inputs: bool = False,
    ) -> bytes | None:
        """The recording as a portable program, in a file or as bytes; see aster_ml.export.

        >>> from aster_ml import Tensor, TinyJit, load_program
        >>> total = Tensor([0.0]).realize()
        >>> count = TinyJit(lambda x: total.assign(total + x).realize())
        >>> [count(Tensor([1.0]).realize()).item() for i in range(3)]
        [1.0, 2.0, 3.0]
        >>> load_program(count.captured.save())(Tensor([1.0])).item()
        4.0
        """
        return save_captured(self.program, path, text, side_file, state_inputs)

    def arrays(self) -> dict[str, list[ProgramArray]]:
        """What a replay reads and writes: its inputs, named as the function's parameters are, its
        outputs, and what it was captured with: parameters, state, data.

        >>> from aster_ml import Tensor, TinyJit
        >>> weight = Tensor([1.0, 2.0]).realize()
        >>> scaled = TinyJit(lambda x: (x * weight).realize())
        >>> for i in range(2): _ = scaled(Tensor([3.0, 4.0]).realize())
        >>> scaled.captured.arrays()["inputs"][0].name
        'x'
        >>> [(a.shape, a.assigned) for a in scaled.captured.arrays()["captured"]]
        [((2,), False)]
        """
        return {
            name: [
                _program_array(_native.program_get_array(self.program, which, i))
                for i in range(_native.program_count_arrays(self.program, which))
            ]
            for which, name in enumerate(("inputs", "outputs", "captured"))
        }


def save_captured(
    program: Any,
    path: str | os.PathLike[str] | None,
    text: bool,
    side_file: bool,
    state_inputs: bool,
) -> bytes | None:
    """Writes a recording to a file, or gives it as bytes."""
    if side_file and path is None:
        raise ValueError("a side file needs a path")
    flags = (1 if text else 0) | (2 if side_file else 0) | (4 if state_inputs else 0)
    if path is None:
        return _native.program_captured_to_bytes(program, flags)
    _native.program_save_captured(os.fspath(path), program, flags)
    return None


def _program_array(found: dict[str, Any]) -> ProgramArray:
    return ProgramArray(
        found["name"],
        found["shape"],
        from_code(found["dtype"]),
        name_of(found["device"]),
        bool(found["assigned"]),
    )


def _name_inputs(program: Any, fxn: Callable[..., Any], names: list[int | str]) -> None:
    """Inputs that are arguments by themselves are called as the parameters of the function."""
    try:
        known = [
            p.name
            for p in inspect.signature(fxn).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # a function that tells nothing of itself
        known = []
    for i, name in enumerate(names):
        text = name if isinstance(name, str) else known[name] if name < len(known) else ""
        if text.isidentifier():
            _native.program_set_name(program, 0, i, text)


def _unbound(shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(s.expression if isinstance(s, BoundInt) else s for s in shape)


def _memory_shape(t: Tensor) -> tuple[Any, ...]:
    """The sizes in memory of a tensor whose sizes are variables."""
    return tuple(_native.lazy_shape(whole(t))) if is_symbolic(t) else ()


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
        lazy = [t for t in self.tensors if not _native.lazy_is_realized(whole(t))]
        if lazy:
            _native.lazy_realize(lazy)
        self.info: list[Info] = [
            (_unbound(t.shape) + _memory_shape(t), t.dtype, t.device) for t in self.tensors
        ]
        sizes = [s for t in self.tensors for s in t.shape if isinstance(s, BoundInt)]
        found: dict[Variable, int] = bindings(
            sizes + [x for x in values if isinstance(x, BoundInt)]
        )
        self.variables = found
        self.values = {v.name: n for v, n in found.items()}
        if len(self.values) != len(found):
            raise JitError(
                f"variables of one name and different ranges: {sorted(map(repr, found))}"
            )

    def on_null(self) -> bool:
        """Whether nothing is computed: there is nothing to record then."""
        devices = {t.device for t in self.tensors} or {Device.DEFAULT}
        return any(d.partition(":")[0] == "NULL" for d in devices)

def _sizes_of(x: Any) -> tuple[Any, ...] | None:
    """The sizes of a tensor that has variables among them, or a variable; None for what else is."""
    if x.__class__ is BoundInt:
        return (x,)
    return _native.lazy_shape(x) if is_symbolic(x) else None


# What no variable is in. A number may be any other, as in a recording without variables.
_PLAIN = frozenset({Tensor, bool, int, float, str, type(None)})


class _Given:
    """What an argument of a recording looked like: its sizes, None for an ordinary tensor."""

    __slots__ = ("dims",)

    def __init__(self, x: Any):
        sizes = _sizes_of(x)
        self.dims = None if sizes is None else _unbound(sizes)


def _check_return(ret: Any) -> None:
    """Raises JitError for what a replay could not bring up to date."""
    if ret is None or isinstance(ret, Tensor):
        return
    if isinstance(ret, (tuple, list, dict)):
        for item in ret.values() if isinstance(ret, dict) else ret:
            _check_return(item)
        return
    raise JitError(f"JIT return contains non-Tensor value of type {type(ret).__name__}")


def _steer() -> None:
    """Whether calls may replay without asking: not inside a recording, nor with JIT off."""
    _native.set_capturing(bool(capturing) or not JIT)


JIT.changed = _steer


def _replaced(ret: Any, fresh: dict[int, Tensor]) -> Any:
    """A return value with other tensors in place of some, by their ids."""
    if isinstance(ret, Tensor):
        return fresh.get(id(ret), ret)
    if isinstance(ret, dict):
        return {name: _replaced(item, fresh) for name, item in ret.items()}
    if isinstance(ret, (tuple, list)):
        items = [_replaced(item, fresh) for item in ret]
        return type(ret)(*items) if hasattr(ret, "_fields") else type(ret)(items)
    return ret


class _TinyJit(_native.Jit, Generic[ReturnType]):
    """A function that is run at its first call, recorded at the second, replayed from then on.

    Tensors in the arguments (also one level deep in lists and dicts) and bound variables are
    inputs; everything else is baked in. Where the function looked at the value of a variable, its
    recording serves the values that look the same; others get one of their own.

    constant: what is baked in and not assigned to does not change later (weights of a model that is
    only asked): kernels then read copies in their own order.
    """

    def __init__(self, fxn: Callable[..., ReturnType], prune: bool = False, constant: bool = False):
        self.fxn, self.prune, self.constant = fxn, prune, constant
        self.reset()

    def __repr__(self) -> str:
        name = getattr(self.fxn, "__qualname__", None) or repr(self.fxn)
        made = self.captured
        state = "not recorded" if made is None else f"{made.kernel_count} kernels"
        return f"<TinyJit of {name}: {state}>"

    def reset(self) -> None:
        """Forgets the recordings."""
        self._clear_captured()
        self.cnt = 0
        self.captured: CapturedJit | None = None
        self._recordings: list[CapturedJit] = []
        self._plan: list[_Given] | None = None
        self._expected: tuple[list[int | str], list[Info], frozenset[Variable]] | None = None

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return self if obj is None else functools.partial(self.__call__, obj)

    def __reduce__(self) -> Any:
        raise TypeError("a TinyJit cannot be pickled: its program is machine code of this process")

    def _slow_call(self, *args: Any, **kwargs: Any) -> Any:
        """A call that is not the last recording over again with the same kinds of arguments."""
        if self._plan is not None and not kwargs:
            ret: Any = self._call_planned(args)
            if ret is not NotImplemented:
                return ret
        inputs = _Inputs(args, kwargs)
        if not JIT or self.cnt == 0 or inputs.on_null():
            ret = self.fxn(*args, **kwargs)
            if params := get_parameters(ret):
                Tensor.realize(*params)
            self.cnt += bool(JIT)
            return ret
        if self._expected is not None:
            self._check(inputs)
        recording = next((r for r in self._recordings if r.holds(inputs.values)), None)
        if recording is None:
            ret = self._record(inputs, args, kwargs)
        else:
            ret = recording(inputs)
            self.captured = recording
            self._follow(recording, inputs, args, kwargs)
        self.cnt += 1
        return ret

    def _call_planned(self, args: tuple[Any, ...]) -> Any:
        """A replay with tensors and variables as positional arguments, as recorded; what else there
        is gives NotImplemented."""
        plan, captured = self._plan, self.captured
        assert plan is not None and captured is not None
        if len(args) != len(plan) or not JIT:
            return NotImplemented
        tensors: list[Any] = []
        values: dict[Variable, int] = {}
        for x, given in zip(args, plan):
            if given.dims is None and x.__class__ in _PLAIN:
                if x.__class__ is Tensor:
                    tensors.append(x)
                continue
            if given.dims is None:
                return NotImplemented
            if x.__class__ is BoundInt:
                sizes = (x,)
            elif isinstance(x, Tensor):
                sizes = _native.lazy_shape(x)
                tensors.append(x)
            else:
                return NotImplemented
            if len(sizes) != len(given.dims):
                return NotImplemented
            for size, d in zip(sizes, given.dims):
                if size.__class__ is not BoundInt:
                    if size != d:
                        return NotImplemented
                elif size.expression is d or size.expression == d:
                    for v, n in size.bound.items():
                        if values.setdefault(v, n) != n:
                            return NotImplemented
                else:
                    return NotImplemented
        names = {v.name: n for v, n in values.items()}
        if (captured.seen or captured.limited) and not captured.holds(names):
            return NotImplemented
        ret = self._replay(tuple(tensors), captured.given(names))
        if ret is not NotImplemented:
            captured.rebind(names)
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
        if variables != frozenset(inputs.variables):
            raise JitError(
                f"args mismatch in JIT: captured variables {sorted(map(repr, variables))}, "
                f"called with {sorted(map(repr, inputs.variables))}"
            )

    def _follow(self, recording: CapturedJit, inputs: _Inputs, args: Any, kwargs: Any) -> None:
        """Calls like this one replay the recording at once, but for those with tensors in lists."""
        self._plan = None
        if len(inputs.names) != len(inputs.tensors) or inputs.variables and kwargs:
            self._clear_captured()
            return
        tensors = inputs.tensors
        names: list[int | str] = list(range(len(tensors))) if inputs.variables else inputs.names
        expected = [
            (n, _native.lazy_shape(whole(t)), t.dtype.code, is_symbolic(t))
            for n, t in zip(names, tensors)
        ]
        outputs = [whole(t) for t in recording.outputs]
        count = len(recording.variables) if inputs.variables else None
        self._set_captured(recording.program, expected, outputs, recording.ret, count)
        if inputs.variables:
            self._plan = [_Given(x) for x in args]

    def _record(self, inputs: _Inputs, args: Any, kwargs: Any) -> Any:
        if capturing:
            raise RuntimeError("having TinyJit inside another TinyJit is not supported")
        try:
            _native.engine_capture_begin(inputs.tensors)
        except ArgumentError as error:
            raise JitError(f"duplicate inputs to JIT: {error}") from error
        if self.constant:
            _native.engine_capture_constant()
        capturing.append(self)
        _steer()
        seen: dict[Expression, int] = {}
        note_seen(seen)
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
            _steer()
            note_seen(None)
        if self.prune:
            _native.engine_capture_prune()
        program = _native.engine_capture_end(outputs)
        if not (_native.program_count_kernels(program) or self.prune):
            raise JitError("didn't JIT anything!")
        _name_inputs(program, self.fxn, inputs.names)
        # Replays write where returned tensors have their storage: not where an input has its own.
        given = [whole(t) for t in inputs.tensors]
        fresh = {
            id(t): t.clone().realize()
            for t in outputs
            if any(_native.shares(whole(t), x) for x in given)
        }
        if fresh:
            ret, outputs = _replaced(ret, fresh), [fresh.get(id(t), t) for t in outputs]
        recording = CapturedJit(program, ret, outputs, inputs, seen)
        self._follow(recording, inputs, args, kwargs)
        if DEBUG >= 1:
            print(f"JIT captured {recording.kernel_count} kernels, {len(inputs.tensors)} inputs")
        self._expected = (inputs.names, inputs.info, frozenset(inputs.variables))
        self._recordings.append(recording)
        self.captured = recording
        return ret


@overload
def TinyJit(
    fxn: Callable[..., ReturnType], *, prune: bool = ..., constant: bool = ...
) -> _TinyJit[ReturnType]: ...
@overload
def TinyJit(
    fxn: None = ..., *, prune: bool = ..., constant: bool = ...
) -> Callable[[Callable[..., ReturnType]], _TinyJit[ReturnType]]: ...
def TinyJit(fxn: Any = None, **kwargs: Any) -> Any:
    """@TinyJit. With prune=True what is realised inside and no input reaches runs once; with
    constant=True what is read beside the inputs stays as it is, and kernels read copies of it."""
    if fxn is None:
        return lambda f: _TinyJit(f, **kwargs)
    return _TinyJit(fxn, **kwargs)


__getattr__ = of_module("engine.jit")
