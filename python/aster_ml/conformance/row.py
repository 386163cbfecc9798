"""What a row of the table of operators is, and what its generator draws from.

A row says how an operator is called on tinygrad and aster_ml (one program for both), on torch and
on NumPy, which dtypes it takes and how its cases are generated. A case is plain data (JSON), so it
can be sent to another process, recorded, and kept.
"""

from __future__ import annotations

import dataclasses
import typing

REAL = ("float32", "float16", "bfloat16", "float64")
FLOAT8 = ("fp8e4m3", "fp8e4m3fnuz", "fp8e5m2", "fp8e5m2fnuz")
INTEGER = ("int32", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBER = (*REAL, "int32", "int64", "uint8", "int8")
COMMON = (*NUMBER, "bool")
EVERY = ("bool", *INTEGER, *FLOAT8, *REAL)
VIEWS = ("plain", "permuted", "flipped", "strided", "shrunk", "expanded")


class Draw:
    """The choices that make a case, all of them integers, the simplest first."""

    def __init__(self, integer: typing.Callable[[int, int], int], dtype: str) -> None:
        self.integer = integer  # (lowest, highest) -> one of them
        self.dtype = dtype
        self.inputs: list[dict[str, typing.Any]] = []

    def pick(self, *options: typing.Any) -> typing.Any:
        return options[self.integer(0, len(options) - 1)]

    def maybe(self) -> bool:
        return bool(self.integer(0, 1))

    def size(self, low: int = 1, high: int = 6) -> int:
        return self.integer(low, high)

    def shape(self, low: int = 0, high: int = 3, side: int = 6, least: int = 1) -> tuple[int, ...]:
        """A shape of low to high axes; now and then an axis of 0, if least allows it."""
        shape = [self.size(1, side) for _ in range(self.integer(low, high))]
        if least == 0 and shape and self.integer(0, 9) == 9:
            shape[self.integer(0, len(shape) - 1)] = 0
        return tuple(shape)

    def axis(self, ndim: int) -> int:
        return self.pick(*range(ndim), *range(-ndim, 0)) if ndim else self.pick(0, -1)

    def axes(self, ndim: int) -> typing.Any:
        """None, an axis, or several."""
        if ndim == 0 or self.integer(0, 3) == 0:
            return None
        chosen = [k for k in range(ndim) if self.maybe()]
        return chosen if chosen else self.axis(ndim)

    def tensor(
        self,
        shape: typing.Sequence[int],
        kind: str = "plain",
        dtype: str | None = None,
        view: bool = True,
        **more: typing.Any,
    ) -> tuple[int, ...]:
        """Adds an input; gives its shape back. Kinds: see values.draw."""
        spec = {"dtype": dtype or self.dtype, "shape": list(shape), "kind": kind, **more}
        if view and len(shape) and self.integer(0, 2) == 2:
            spec["view"] = self.pick(*VIEWS[1:])
        spec["seed"] = self.integer(0, 9999)
        self.inputs.append(spec)
        return tuple(shape)

    def index(self, shape: typing.Sequence[int], bound: int, **more: typing.Any) -> tuple[int, ...]:
        """Adds an input of int32 in 0 to bound - 1."""
        return self.tensor(shape, "range", "int32", low=0, high=bound, view=False, **more)


Make = typing.Callable[[Draw], "dict[str, typing.Any] | None"]


@dataclasses.dataclass(frozen=True)
class Row:
    """One operator.

    call(f, *tensors, **arguments) serves tinygrad and aster_ml, f.Tensor and f.nn being theirs; by
    default it is the method of the row's name on the first tensor. torch(T, *tensors, **arguments)
    gets the torch module, numpy(*arrays, **arguments) arrays as float64 or integers.
    """

    name: str
    group: str
    make: Make
    call: typing.Callable[..., typing.Any] | None = None
    torch: typing.Callable[..., typing.Any] | None = None
    numpy: typing.Callable[..., typing.Any] | None = None
    dtypes: tuple[str, ...] = REAL
    ulps: float = 0  # of each element; 0: equal bits
    slack: float = 0  # and in ULPs of 1 (elementwise) or of the largest magnitude (norm)
    norm: bool = False  # errors are relative to the largest magnitude of results and inputs
    gradient: bool = True  # floats have one
    witness: str = (
        ""  # engine whose dtypes and ties are its own, e.g. "values": compare only values
    )
    alone: bool = False  # draws random numbers, or changes state: not in a batch

    def arguments(
        self, integer: typing.Callable[[int, int], int], dtype: str
    ) -> dict[str, typing.Any]:
        """A case of this row in this dtype."""
        draw = Draw(integer, dtype)
        arguments = self.make(draw) or {}
        case = {"op": self.name, "dtype": dtype, "inputs": draw.inputs, "args": plain(arguments)}
        if self.gradient and dtype in (*REAL, *FLOAT8) and draw.integer(0, 2) == 2:
            case["gradient"] = True
            for spec in draw.inputs:  # slopes of infinities and the like are nobody's
                spec["kind"] = "plain" if spec["kind"] == "all" else spec["kind"]
        return case


def plain(value: typing.Any) -> typing.Any:
    """The value as JSON gives it back."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def tuples(value: typing.Any) -> typing.Any:
    """The value as it was before JSON: sequences are tuples."""
    if isinstance(value, dict):
        return {k: tuples(v) for k, v in value.items()}
    return tuple(tuples(v) for v in value) if isinstance(value, list) else value


ROWS: dict[str, Row] = {}


def row(name: str, group: str, make: Make, **fields: typing.Any) -> None:
    """Adds a row. torch and numpy may be names: of a function of torch ("nn.functional.elu"), or of
    NumPy, called with the tensors and the arguments."""
    if name in ROWS:
        raise ValueError(f"two rows named {name}")
    if isinstance(fields.get("torch"), str):
        fields["torch"] = torch_function(fields["torch"])
    if isinstance(fields.get("numpy"), str):
        fields["numpy"] = numpy_function(fields["numpy"])
    ROWS[name] = Row(name, group, make, **fields)


def torch_function(path: str) -> typing.Callable[..., typing.Any]:
    def call(T: typing.Any, *tensors: typing.Any, **arguments: typing.Any) -> typing.Any:
        function = T
        for part in path.split("."):
            function = getattr(function, part)
        return function(*tensors, **arguments)

    return call


def numpy_function(name: str) -> typing.Callable[..., typing.Any]:
    def call(*arrays: typing.Any, **arguments: typing.Any) -> typing.Any:
        import numpy

        return getattr(numpy, name)(*arrays, **arguments)

    return call
