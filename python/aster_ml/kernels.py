"""kernel: a function of tensors from C, or from the text of a kernel program.

>>> from aster_ml import Tensor, kernel
>>> square = kernel('''
... void square(float *y, const float *x, long long begin, long long end) {
...   for (long long i = begin; i < end; i++) y[i] = x[i] * x[i];
... }''', "float32[...] -> float32[...]")
>>> (square(Tensor([1.0, 2.0])) + 1).tolist()
[2.0, 5.0]
"""

from __future__ import annotations

import re
from typing import Any, Callable

from . import _native
from .custom import custom_call
from .tensor import Tensor

_PROGRAM = re.compile(r"\s*(#[^\n]*\n\s*)*(program|function)\s")
_FUNCTION = re.compile(r"\bvoid\s+(\w+)\s*\(")


class Kernel:
    """What kernel() makes; called with tensors it gives a tensor, or several as a tuple."""

    def __init__(self, handle: Any, gradient: Callable[..., Any] | None):
        self._handle, self._gradient = handle, gradient

    def __call__(self, *tensors: Any) -> Any:
        """The results on tensors of the signature's dtypes and shapes; lazily, as any operation.

        >>> from aster_ml import Tensor, kernel
        >>> k = kernel('''void both(float *s, float *d, const float *x, const float *y,
        ...                         long long begin, long long end) {
        ...   for (long long i = begin; i < end; i++) s[i] = x[i] + y[i], d[i] = x[i] - y[i];
        ... }''', "float32[...], float32[...] -> float32[...], float32[...]")
        >>> [x.tolist() for x in k(Tensor([3.0, 4.0]), 1.0)]
        [[4.0, 5.0], [2.0, 3.0]]
        """
        inputs = [x if isinstance(x, Tensor) else Tensor(x) for x in tensors]
        count = _native.kernel_count_results(self._handle)
        results = [_native.kernel_apply(self._handle, inputs, i) for i in range(count)]
        if self._gradient is not None:
            results = custom_call(self._gradient, results, inputs)
        return results[0] if count == 1 else tuple(results)


def kernel(
    source: str,
    signature: str,
    name: str | None = None,
    *,
    gradient: Kernel | Callable[..., Any] | None = None,
    tasks: int = 0,
) -> Kernel:
    """A kernel from C (its last function, or the one named), or from a kernel program's text.

    signature: dtypes and shapes, operands first; [...] is any shape, the same in all places. The
    function of C gets pointers to the results, to the operands, and the tasks to do: elements of
    [...], or those of `tasks`. gradient: a kernel whose operands are those of this one, its results
    and their gradients; or a function as of `function(grad_fxn=...)`.

    >>> from aster_ml import Tensor, kernel
    >>> def back(grad, call):
    ...     return (grad * 2 * call.src[1],)
    >>> square = kernel('''
    ... void square(float *y, const float *x, long long begin, long long end) {
    ...   for (long long i = begin; i < end; i++) y[i] = x[i] * x[i];
    ... }''', "float32[...] -> float32[...]", gradient=back)
    >>> x = Tensor([3.0])
    >>> _ = square(x).sum().backward()
    >>> x.grad.tolist()
    [6.0]
    """
    options: _native.KernelOptions = {"tasks": tasks}
    if _PROGRAM.match(source):
        handle = _native.kernel_from_program(source, signature, options)
    else:
        names = _FUNCTION.findall(source)
        name = name or (names[-1] if names else "kernel")
        handle = _native.kernel_from_source(source, name, signature, options)
    if isinstance(gradient, Kernel):
        _native.kernel_set_gradient(handle, gradient._handle)
        gradient = None
    return Kernel(handle, gradient)
