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
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from . import _native
from .device import canonicalize_device, code_of, name_of
from .dtype import from_code
from .dynamic import is_symbolic
from .engine.jit import ProgramArray, save_captured
from .nn.state import get_parameters
from .symbolic import Variable, note_seen
from .tensor import Tensor, capturing
from .view import BufferView

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
    recorded: bool = False,
    dynamic: Mapping[str | int, Mapping[int, Variable]] | None = None,
    state: Mapping[str, Tensor] | None = None,
    state_inputs: bool = False,
) -> bytes | None:
    """What fn computes of tensors like the examples, as bytes, or in a file where there is a path.

    fn gives a tensor, or a list, tuple or dict of them; it may not read any. Tensors that it uses
    besides its arguments are written as constants; what it assigns to is state, of which a loaded
    program has its own. Random numbers are drawn once, and every run has the same; recorded, each
    run draws its own. Inputs are named as fn's parameters, outputs as the keys of a dict. text:
    as text that can be read and changed; side_file: constants in PATH.data.

    recorded: fn may realise tensors too, as a training step does, and is written realize call by
    realize call, so that results are the same bits as of fn. It is not run: what it assigns to
    stays as it is. dynamic: sizes that are variables, by the name or number of a parameter and the
    axis; examples of symbolic sizes are so by themselves. state: names of what fn assigns to;
    state_inputs: such tensors are inputs behind the others, which runs assign to.

    >>> from aster_ml import Tensor, Variable, export, load_program
    >>> export(lambda x: {"twice": x * 2}, Tensor([1.0]), text=True).decode().splitlines()[1]
    '%0 = Input float32[1] "x"'
    >>> rows = Variable("rows", 1, 64)
    >>> data = export(lambda x: x.sum(0), Tensor.ones(2, 3), dynamic={"x": {0: rows}})
    >>> [load_program(data)(Tensor.ones(n, 3)).tolist() for n in (1, 5)]
    [[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]]
    """
    if not all(isinstance(x, Tensor) for x in examples):
        raise TypeError("export takes tensors as examples")
    if side_file and path is None:
        raise ValueError("export: a side file needs a path")
    if input_names is None:
        input_names = _parameter_names(fn, len(examples))
    given = _with_variables(list(examples), dynamic or {}, input_names)
    if recorded or state or state_inputs or any(is_symbolic(x) for x in given):
        program = _record(fn, given, input_names, output_names, state or {})
        return save_captured(program, path, text, side_file, state_inputs)
    if examples:
        Tensor.realize(*examples)
    before = _native.engine_count()["realizes"]
    stored = [x.is_realized for x in examples]
    outputs, output_names = _outputs_of(fn(*examples), output_names)
    if stored != [x.is_realized for x in examples]:
        raise ValueError(
            "export: the function assigns to its arguments, which would be lost: recorded=True "
            "writes that"
        )
    if _native.engine_count()["realizes"] != before:
        raise ValueError(
            "export: the function realises tensors, which would become constants: recorded=True "
            "writes what it computes"
        )
    flags = (_TEXT if text else 0) | (_SIDE_FILE if side_file else 0)
    if path is None:
        return _native.program_to_bytes(examples, input_names, outputs, output_names, flags)
    _native.program_save(os.fspath(path), examples, input_names, outputs, output_names, flags)
    return None


def _outputs_of(made: Any, names: Sequence[str] | None) -> tuple[list[Tensor], Any]:
    if isinstance(made, dict):
        names = list(made) if names is None else names
        made = list(made.values())
    outputs = [made] if isinstance(made, Tensor) else list(made) if _is_list(made) else []
    if not outputs or not all(isinstance(y, Tensor) for y in outputs):
        raise TypeError("export: the function gives tensors")
    return outputs, names


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple))


def _with_variables(
    examples: list[Tensor],
    dynamic: Mapping[str | int, Mapping[int, Variable]],
    names: Sequence[str] | None,
) -> list[Tensor]:
    """The examples, as parts of tensors of the greatest sizes where sizes are variables."""
    for key, axes in dynamic.items():
        at = names.index(key) if isinstance(key, str) and names and key in names else key
        if not isinstance(at, int) or not -len(examples) <= at < len(examples):
            raise ValueError(f"export: no example is {key!r}")
        x = examples[at]
        sizes: list[Any] = list(x.shape)
        whole = list(x.shape)
        for axis, variable in axes.items():
            if not isinstance(variable, Variable):
                raise TypeError(f"export: {variable!r} is no Variable")
            if not -x.ndim <= axis < x.ndim:
                raise ValueError(f"export: {key!r} has no axis {axis}")
            sizes[axis] = variable.bind(sizes[axis])
            whole[axis] = variable.max_val
        memory = Tensor.zeros(*whole, dtype=x.dtype).contiguous().realize()
        examples[at] = memory.shrink(tuple((0, size) for size in sizes))
    return examples


def _record(
    fn: Callable[..., Any],
    examples: list[Tensor],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    state: Mapping[str, Tensor],
) -> Any:
    """The program of fn, of which nothing is run."""
    if capturing:
        raise RuntimeError("export inside a TinyJit")
    known = [t for t in [*_tensors_of(fn), *state.values()] if not is_symbolic(t)]
    if known:
        Tensor.realize(*known)
    lazy = [t for t in examples if not is_symbolic(t)]
    if lazy:
        Tensor.realize(*lazy)
    _native.engine_capture_begin(examples)
    seen: dict[Any, int] = {}
    note_seen(seen)
    capturing.append(fn)
    try:
        _native.engine_capture_dry()
        outputs, output_names = _outputs_of(fn(*examples), output_names)
        Tensor.realize(*outputs)
    except BaseException:
        _native.engine_capture_cancel()
        raise
    finally:
        capturing.clear()
        note_seen(None)
    program = _native.engine_capture_end(outputs)
    variables = [
        _native.program_get_variable(program, i)
        for i in range(_native.program_count_variables(program))
    ]
    fixed = [v["name"] for v in variables if v["fixed"]] or [str(e) for e in seen]
    if fixed:
        raise ValueError(
            f"export: the function looks at the value of {', '.join(fixed)}, or calls what "
            "computes for one size: the program would be for this value alone"
        )
    for which, names in ((0, input_names), (1, output_names)):
        for i, name in enumerate(names or ()):
            _native.program_set_name(program, which, i, name)
    _name_state(program, state)
    return program


def _tensors_of(fn: Callable[..., Any]) -> list[Tensor]:
    """Tensors that fn has: those of an object, of a method's, of what it closes over."""
    held = [getattr(fn, "__self__", None), None if inspect.isroutine(fn) else fn]
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    return [t for x in held if x is not None for t in get_parameters(x)]


def _name_state(program: Any, state: Mapping[str, Tensor]) -> None:
    at = {BufferView.from_tensor(t).data_ptr: name for name, t in state.items()}
    found = set()
    for i in range(_native.program_count_arrays(program, 2)):
        name = at.get(_native.program_get_array(program, 2, i)["data"])
        if name is not None:
            _native.program_set_name(program, 2, i, name)
            found.add(name)
    if len(found) != len(state):
        missing = ", ".join(sorted(set(state) - found))
        raise ValueError(f"export: the function reads and assigns nothing of the state {missing}")


def _parameter_names(fn: Callable[..., Any], count: int) -> list[str] | None:
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values() if p.kind <= 1]
    except (TypeError, ValueError):
        return None
    return names[:count] if len(names) >= count else None


class ProgramVariable(NamedTuple):
    """An integer that sizes of a program are made of, and its least and greatest value."""

    name: str
    min: int
    max: int


class Program:
    """A program that was loaded: called with tensors, it gives one, or a list of several."""

    def __init__(self, program: Any):
        self._program = program
        self.inputs: list[ProgramArray] = self._arrays(0)
        self.outputs: list[ProgramArray] = self._arrays(1)
        # Memory that the program has for itself: state and constants.
        self.captured: list[ProgramArray] = self._arrays(2)
        self._sized = _native.program_count_variables(program) != 0

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

    @property
    def variables(self) -> list[ProgramVariable]:
        """What sizes are made of; inputs say their values.

        >>> from aster_ml import Tensor, Variable, export, load_program
        >>> n = Variable("n", 1, 8)
        >>> data = export(lambda x: x + 1, Tensor.ones(2), dynamic={0: {0: n}})
        >>> load_program(data).variables
        [ProgramVariable(name='n', min=1, max=8)]
        """
        found = [
            _native.program_get_variable(self._program, i)
            for i in range(_native.program_count_variables(self._program))
        ]
        return [ProgramVariable(v["name"], v["min"], v["max"]) for v in found]

    def __call__(self, *tensors: Tensor) -> Any:
        if len(tensors) != len(self.inputs):
            raise TypeError(f"{len(tensors)} tensors for a program of {len(self.inputs)} inputs")
        if self._sized:
            Tensor.realize(*tensors)
            arrays = _native.program_run_sized(
                self._program, [_native.lazy_view_strided(t) for t in tensors]
            )
            results: list[Tensor] = [_native.lazy_from_tensor(t) for t in arrays]
            return results[0] if len(results) == 1 else results
        given = [t.to(a.device).contiguous() for t, a in zip(tensors, self.inputs)]
        made = [Tensor.empty(*a.shape, dtype=a.dtype, device=a.device) for a in self.outputs]
        Tensor.realize(*given, *made)
        _native.program_run(
            self._program,
            [_native.lazy_view(t) for t in given],
            [_native.lazy_view(t) for t in made],
        )
        return made[0] if len(made) == 1 else made


def load_program(source: str | os.PathLike[str] | bytes, device: str | None = None) -> Program:
    """The program of a file, whose constants are mapped and not read, or of bytes.

    On a device its inputs and outputs are there; whole, by one that executes programs.

    >>> from aster_ml import Tensor, export, load_program
    >>> load_program(export(lambda x: x.sum(), Tensor([1.0, 2.0])))(Tensor([3.0, 4.0])).item()
    7.0
    """
    code = 0 if device is None else code_of(canonicalize_device(device))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Program(_native.program_from_bytes_on(source, code))
    return Program(_native.program_load_on(os.fspath(source), code))
