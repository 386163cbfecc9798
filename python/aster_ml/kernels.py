"""kernel: a function of tensors from C, OpenCL C, or the text of a kernel program.

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
from typing import Any, Callable, Sequence

from . import _native
from .custom import custom_call
from .tensor import Tensor

_PROGRAM = re.compile(r"\s*(#[^\n]*\n\s*)*(program|function)\s")
_FUNCTION = re.compile(r"\bvoid\s+(\w+)\s*\(")
_OPENCL = re.compile(r"\b(__)?(global|kernel)\b")


def _options(
    source: str,
    device: str | None,
    tasks: int,
    global_size: int | Sequence[int],
    local_size: int | Sequence[int],
    local_bytes: int,
) -> _native.KernelOptions:
    """As the library has them; OpenCL C is for OPENCL where nothing else is said."""
    program = _PROGRAM.match(source)
    if device is None and not program and _OPENCL.search(source):
        device = "OPENCL"
    sizes = [[x] if isinstance(x, int) else list(x) for x in (global_size, local_size)]
    if any(len(x) > 3 for x in sizes):
        raise ValueError(f"work-items have at most 3 dimensions, not {max(map(len, sizes))}")
    padded = [x + [0] * (3 - len(x)) for x in sizes]
    return {
        "device": 0 if device is None else _native.device_from_name(device),
        "tasks": tasks,
        "global_size": padded[0],
        "local_size": padded[1],
        "local_bytes": local_bytes,
    }


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

    def add_source(
        self,
        source: str,
        *,
        device: str | None = None,
        tasks: int = 0,
        global_size: int | Sequence[int] = 0,
        local_size: int | Sequence[int] = 0,
        local_bytes: int = 0,
    ) -> Kernel:
        """The same function for another device, of the same name; gives the kernel itself.

        >>> from aster_ml import Device, Tensor, kernel
        >>> k = kernel('''void twice(float *y, const float *x, long long begin, long long end) {
        ...   for (long long i = begin; i < end; i++) y[i] = 2 * x[i];
        ... }''', "float32[...] -> float32[...]")
        >>> if "CL" in Device.get_available_devices():
        ...     _ = k.add_source('''
        ...     __kernel void twice(__global float *y, __global const float *x, long count) {
        ...       y[get_global_id(0)] = 2 * x[get_global_id(0)];
        ...     }''')
        >>> k(Tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
        """
        options = _options(source, device, tasks, global_size, local_size, local_bytes)
        _native.kernel_add_source(self._handle, source, options)
        return self


def kernel(
    source: str,
    signature: str,
    name: str | None = None,
    *,
    gradient: Kernel | Callable[..., Any] | None = None,
    tasks: int = 0,
    device: str | None = None,
    global_size: int | Sequence[int] = 0,
    local_size: int | Sequence[int] = 0,
    local_bytes: int = 0,
) -> Kernel:
    """A kernel from C or OpenCL C (its last function, or the one named), or from a program's text.

    signature: dtypes and shapes, operands first; [...] is any shape, the same in all places. The
    function of C gets pointers to the results, to the operands, and the tasks to do: elements of
    [...], or those of `tasks`. gradient: a kernel whose operands are those of this one, its results
    and their gradients; or a function as of `function(grad_fxn=...)`.

    Source in OpenCL C is for OPENCL (or `device`): its function gets the results, the operands and
    the number of elements of [...] or of tasks, and is called by that many work-items, or
    `global_size` of them; `local_size`: those of a group; with `local_bytes` it gets memory of its
    group besides. `Kernel.add_source` adds a source for another device.

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
    options = _options(source, device, tasks, global_size, local_size, local_bytes)
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
