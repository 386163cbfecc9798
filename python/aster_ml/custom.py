"""Gradients of Python functions: graphs are cut at their results, and a backward pass joins them.

The result of such a function is a detached tensor, noted here with its inputs. A backward pass
takes the gradients of the noted results as well as of its targets, asks the function for those of
its inputs, and goes on from these; the latest call comes first, as it depends on no later one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable

from . import _native

if TYPE_CHECKING:
    from .tensor import Tensor

_calls: list[weakref.ref[_Call]] = []  # oldest first


class _Call:
    """A call: its function, inputs and results, under the names of tinygrad's node."""

    __slots__ = ("gradient", "inputs", "outputs", "__weakref__")

    def __init__(self, gradient: Callable[..., Any], inputs: list[Tensor], outputs: list[Tensor]):
        self.gradient, self.inputs, self.outputs = gradient, inputs, outputs

    @property
    def src(self) -> tuple[Any, ...]:
        return (None, *self.inputs)


def custom_call(
    gradient: Callable[..., Any], results: list[Tensor], inputs: list[Tensor]
) -> list[Tensor]:
    """The results, cut off; gradient(d result, call) gives the gradients of the inputs."""
    outputs: list[Tensor] = [x.detach() for x in results]
    # Handles of its own: the call must not keep the objects that keep it.
    call = _Call(gradient, inputs, [_native.lazy_copy(x) for x in outputs])
    for x in outputs:
        x._custom = call
    _calls.append(weakref.ref(call))
    return outputs


def gradients(loss: Tensor, targets: list[Tensor], seed: Tensor | None) -> list[Tensor | None]:
    """The gradient of the loss by each target, None where there is none."""
    calls = [c for c in (ref() for ref in _calls) if c is not None]
    _calls[:] = [ref for ref in _calls if ref() is not None]
    if not calls:
        options: dict[str, Any] = {"empty_without_path": True}
        if seed is not None:
            options["seed"] = seed
        return list(_native.gradient(loss, targets, options))
    return _joined(loss, targets, seed, calls)


def _joined(
    loss: Tensor, targets: list[Tensor], seed: Tensor | None, calls: list[_Call]
) -> list[Tensor | None]:
    cuts = [x for call in calls for x in call.outputs]
    total: list[Tensor | None] = [None] * (len(targets) + len(cuts))

    def flow(y: Tensor, dy: Tensor | None) -> None:
        options: dict[str, Any] = {"empty_without_path": True}
        if dy is not None:
            options["seed"] = dy
        for k, g in enumerate(_native.gradient(y, targets + cuts, options)):
            if g is not None:
                before = total[k]
                total[k] = g if before is None else before + g

    flow(loss, seed)
    at = len(total)
    for call in reversed(calls):
        at -= len(call.outputs)
        grads = total[at : at + len(call.outputs)]
        if all(g is None for g in grads):
            continue
        full = [x.zeros_like() if g is None else g for g, x in zip(grads, call.outputs)]
        answers = call.gradient(*full, call)
        answers = answers if isinstance(answers, (tuple, list)) else (answers,)
        for x, g in zip(call.inputs, answers):
            if g is not None and x.is_floating_point():
                flow(x, g.cast(x.dtype))
    return total[: len(targets)]
