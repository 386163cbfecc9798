"""Which implementation an operation is built by, and implementations of your own.

>>> from aster_ml import Tensor, registry
>>> [x["name"] for x in registry.describe("attention")["implementations"]]
['composed', 'tiled', 'streaming']
>>> a = Tensor.ones(128, 128)
>>> with registry.policies(matmul="force=strassen"):
...     b = a @ a
>>> b[0, 0].item()
128.0

Policies are "default", "fast", "force=NAME", "benchmark" and "benchmark(cache=N)";
docs/REGISTRY.md says what they mean.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple

from . import _native
from .dtype import DType, from_code
from .kernels import Kernel
from .tensor import Tensor

if TYPE_CHECKING:
    from typing import Mapping

__all__ = ["Call", "add", "describe", "forget", "policies", "remove", "set_policies"]


class Value(NamedTuple):
    """A dtype and a shape."""

    dtype: DType
    shape: tuple[int, ...]


class Call(NamedTuple):
    """What an implementation is asked for; attributes are what src/uop/composites.def lists."""

    operation: str
    operands: tuple[Value, ...]
    attributes: tuple[int, ...]
    device: str
    result: Value


def _call(given: tuple[Any, ...]) -> Call:
    operation, operands, attributes, device, result = given

    def value(x: tuple[int, tuple[int, ...]]) -> Value:
        return Value(from_code(x[0]), x[1])

    name = _native.device_to_name(device)
    return Call(operation, tuple(map(value, operands)), attributes, name, value(result))


def set_policies(given: Mapping[str, str] | str) -> None:
    """Sets policies of operations, as a dict or as its JSON; others keep theirs.

    >>> from aster_ml import registry
    >>> registry.set_policies({"softmax": "default"})
    >>> try:
    ...     registry.set_policies({"matmul": "force=fast"})
    ... except LookupError as e:
    ...     print("generated" in str(e))
    True
    """
    _native.registry_set_policies(given if isinstance(given, str) else json.dumps(given))


@contextlib.contextmanager
def policies(**given: str) -> Iterator[None]:
    """The same for what this thread builds in a block.

    >>> from aster_ml import registry
    >>> with registry.policies(matmul="force=strassen"):
    ...     registry.describe("matmul")["policy"]
    'force=strassen'
    >>> registry.describe("matmul")["policy"]
    'default'
    """
    _native.registry_push_policies(json.dumps(given))
    try:
        yield
    finally:
        _native.registry_pop_policies()


def describe(operation: str | None = None) -> dict[str, Any]:
    """What there is for an operation, or for all by name.

    "policy", "implementations" with their names, and "measured": what benchmarks found out.

    >>> from aster_ml import registry
    >>> sorted(registry.describe())[:3]
    ['attention', 'avg_pool2d', 'batch_norm']
    """
    all_of_them: dict[str, Any] = json.loads(_native.registry_describe(operation))
    return all_of_them if operation is None else all_of_them[operation]


def forget() -> None:
    """Has benchmarks measure anew.

    >>> from aster_ml import registry
    >>> registry.forget()
    """
    _native.registry_forget()


def add(
    operation: str,
    name: str,
    build: Callable[..., Tensor] | None = None,
    *,
    kernel: Kernel | None = None,
    device: str | None = None,
    refuses: Callable[[Call], str | None] | None = None,
    cost: Callable[[Call], float] | None = None,
    gradient: Callable[..., tuple[Tensor | None, ...]] | None = None,
) -> None:
    """Registers an implementation: a function that builds a graph of other operations, or a kernel.

    build(call, *tensors) gives the result's tensor. refuses(call) says why it does not take a call,
    or None; cost(call) how many nanoseconds it takes, about; gradient(call, tensors, (result,),
    (its gradient,)) gives a tuple of a tensor or None for each operand (without it, the gradient is
    that of what build made, or for a kernel that of the usual implementation). device: for
    operands there alone, where it becomes the default.

    >>> from aster_ml import Tensor, registry
    >>> def by_rows(call, a, b):
    ...     return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
    >>> registry.add("matmul", "by_rows", by_rows)
    >>> with registry.policies(matmul="force=by_rows"):
    ...     y = Tensor([[1.0, 2.0]]) @ Tensor([[3.0], [4.0]])
    >>> y.tolist()
    [[11.0]]
    >>> registry.remove("matmul", "by_rows")
    """

    for f in (build, refuses, cost, gradient):
        if f is not None and not callable(f):
            raise TypeError(f"registry.add: {f!r} is no function")

    def on_call(f: Callable[..., Any] | None) -> Callable[..., Any] | None:
        return None if f is None else lambda call, *rest: f(_call(call), *rest)

    def built(call: tuple[Any, ...], tensors: tuple[Tensor, ...]) -> Tensor:
        assert build is not None
        return build(_call(call), *tensors)

    _native.registry_add(
        operation,
        name,
        0 if device is None else _native.device_from_name(device),
        None if build is None else built,
        None if kernel is None else kernel._handle,
        on_call(refuses),
        on_call(cost),
        on_call(gradient),
    )


def remove(operation: str, name: str) -> None:
    """Takes an implementation of your own away.

    >>> from aster_ml import registry
    >>> try:
    ...     registry.remove("matmul", "strassen")
    ... except ValueError as e:
    ...     print("of the library" in str(e))
    True
    """
    _native.registry_remove(operation, name)
