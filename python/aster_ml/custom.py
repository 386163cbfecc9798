"""Gradients of Python functions: graphs are cut at their results, and a backward pass joins them.

The result of such a function is a detached tensor, noted here with its inputs. A backward pass
takes the gradients of the noted results as well as of its targets, asks the function for those of
its inputs, and goes on from these; the latest call comes first, as it depends on no later one.

A note lasts until backward() has gone through it; of calls that no backward pass follows the last
4096 are kept.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Callable

from . import _native
from .dtype import is_stored_float
from .values import Handle

if TYPE_CHECKING:
    from .tensor import Tensor

_calls: collections.deque[_Call] = collections.deque(maxlen=4096)  # oldest first


class _Call:
    """A call: its function, inputs and results, under the names of tinygrad's node."""

    __slots__ = ("gradient", "inputs", "outputs")

    def __init__(self, gradient: Callable[..., Any], inputs: list[Tensor], outputs: list[Tensor]):
        self.gradient, self.inputs, self.outputs = gradient, inputs, outputs

    @property
    def src(self) -> tuple[Any, ...]:
        return (None, *self.inputs)


def _takes_gradient(x: Tensor) -> bool:
    return is_stored_float(_native.lazy_dtype(x))


def custom_call(
    gradient: Callable[..., Any], results: list[Tensor], inputs: list[Tensor]
) -> list[Tensor]:
    """The results, cut off; gradient(d result, call) gives the gradients of the inputs.

    Numbers (weak tensors) and integers have no gradient.
    """
    outputs: list[Tensor] = [x.detach() for x in results]
    if any(map(_takes_gradient, outputs)):
        _calls.append(_Call(gradient, inputs, outputs))
    return outputs


def gradients(
    loss: Tensor, targets: list[Tensor], seed: Tensor | None, forget: bool = False
) -> list[Tensor | None]:
    """The gradient of the loss by each target, None where there is none.

    forget: the notes of the calls on the way are dropped.
    """
    if not _calls:
        options: _native.GradientOptions = {"empty_without_path": True}
        if seed is not None:
            options["seed"] = seed
        return list(_native.gradient(loss, targets, options))
    return _joined(loss, targets, seed, list(_calls), forget)


def _same(a: _Call, b: _Call) -> bool:
    return all(map(_native.lazy_is_same, a.outputs, b.outputs))


def _distinct(calls: list[_Call]) -> list[_Call]:
    """The calls without those that were made before on the same inputs: they are one node."""
    groups: dict[Any, list[_Call]] = {}
    out: list[_Call] = []
    for call in calls:
        kind = (id(call.gradient), tuple(_native.lazy_shape(x) for x in call.outputs))
        alike = groups.setdefault(kind, [])
        if not any(_same(call, other) for other in alike):
            alike.append(call)
            out.append(call)
    return out


def _joined(
    loss: Tensor, targets: list[Tensor], seed: Tensor | None, calls: list[_Call], forget: bool
) -> list[Tensor | None]:
    calls = _distinct(calls)
    cuts = [x for call in calls for x in call.outputs if _takes_gradient(x)]
    total: list[Tensor | None] = [None] * (len(targets) + len(cuts))

    def flow(y: Tensor, dy: Tensor | None) -> None:
        options: _native.GradientOptions = {"empty_without_path": True}
        if dy is not None:
            options["seed"] = dy
        for k, g in enumerate(_native.gradient(y, targets + cuts, options)):
            if g is not None:
                before = total[k]
                total[k] = g if before is None else before + g

    flow(loss, seed)
    place = {id(x): at for at, x in enumerate(cuts, len(targets))}
    for call in reversed(calls):
        grads = [total[place[id(x)]] if id(x) in place else None for x in call.outputs]
        if all(g is None for g in grads):
            continue
        if forget:
            _calls.remove(call)
        full = [x.zeros_like() if g is None else g for g, x in zip(grads, call.outputs)]
        answers = call.gradient(*full, call)
        answers = answers if isinstance(answers, (tuple, list)) else (answers,)
        for x, g in zip(call.inputs, answers):
            g = g.tensor if isinstance(g, Handle) else g
            if g is not None and _takes_gradient(x):
                flow(x, g.cast(x.dtype))
    return total[: len(targets)]
