"""function: marks a function of tensors, with a gradient of its own if one is given.

>>> from aster_ml import Tensor
>>> @function
... def f(x, y):
...     return x * y + 1
>>> f(Tensor([2.0]), Tensor([3.0])).tolist()
[7.0]

With grad_fxn(grad, call) the gradient does not go through the body: grad is that of the result,
call.src[1:] are the tensors among the arguments, and the answer has a gradient or None for each.

>>> def clipped(grad, call):
...     return (grad.clip(-1, 1),)
>>> @function(grad_fxn=clipped)
... def same(x):
...     return x * 1
>>> x = Tensor([1.0])
>>> _ = (same(x) * 5).sum().backward()
>>> x.grad.tolist()
[1.0]
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Generic, TypeVar, overload

from .absent import of_module
from .custom import custom_call
from .nn.state import get_state_dict
from .tensor import Tensor

ReturnType = TypeVar("ReturnType")


class _function(Generic[ReturnType]):
    """A function of tensors. precompile and allow_implicit are accepted and change nothing."""

    def __init__(self, fxn: Callable[..., ReturnType], *, grad_fxn: Callable[..., Any] | None):
        self.fxn, self.grad_fxn = fxn, grad_fxn

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return functools.partial(self.__call__, obj) if obj is not None else self

    def __call__(self, *args: Any, **kwargs: Any) -> ReturnType:
        ret: Any = self.fxn(*args, **kwargs)
        several = isinstance(ret, tuple)
        if not isinstance(ret, Tensor) and not (
            several and all(isinstance(x, Tensor) for x in ret)
        ):
            raise RuntimeError(f"function return type {type(ret)} not supported")
        if self.grad_fxn is None:
            return ret
        inputs = list(get_state_dict((args, kwargs)).values())
        outputs = custom_call(self.grad_fxn, list(ret) if several else [ret], inputs)
        return tuple(outputs) if several else outputs[0]  # type: ignore[return-value]


@overload
def function(
    fxn: Callable[..., ReturnType],
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = False,
    grad_fxn: Callable[..., Any] | None = None,
) -> _function[ReturnType]: ...
@overload
def function(
    fxn: None = None,
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = False,
    grad_fxn: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., ReturnType]], _function[ReturnType]]: ...
def function(
    fxn: Any = None,
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = False,
    grad_fxn: Callable[..., Any] | None = None,
) -> Any:
    """@function or @function(grad_fxn=...)."""
    if fxn is None:
        return lambda f: _function(f, grad_fxn=grad_fxn)
    return _function(fxn, grad_fxn=grad_fxn)


__getattr__ = of_module("function")
