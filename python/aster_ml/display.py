"""What is shown of tensors and layers: repr, print, format, and what notebooks display.

>>> print(Tensor([[1.0, 2.5], [30.0, 4.0]]) / 2)
Tensor([[ 0.5000,  1.2500],
        [15.0000,  2.0000]], shape=(2, 2), dtype=dtypes.float, device='CPU')
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, Sequence

from . import _native
from .dtype import strong_dtype
from .helpers import prod
from .values import empty_lists, numbers_of, readable

if TYPE_CHECKING:
    from .tensor import Tensor

_MOST_SHOWN = 1000  # elements beyond which only the edges are shown
_EDGE = 3  # elements at either end of a long axis
_WIDTH = 88  # columns


def of_tensor(x: Tensor, values: bool) -> str:
    """Values, shape, dtype and device; "<lazy>" in place of values that are not wanted."""
    text = "<lazy>"
    if values:
        numbers, shape, cut = _shown(x)
        text = _nested(_aligned(numbers, bool(shape)), shape, cut, len("Tensor("))
    about = f"shape={x.shape}, dtype={x.dtype!r}, device={x.device!r}"
    return f"Tensor({text}, {about}{', grad' if x.grad is not None else ''})"


def formatted(x: Tensor, spec: str) -> str:
    """Every element by a format of its own: nested lists, or a number."""
    numbers, shape, cut = _shown(x)
    return _nested([format(v, spec) for v in numbers], shape, cut, 0)


def _shown(x: Tensor) -> tuple[list[Any], list[int], list[bool]]:
    """The numbers to show, row-major, their shape, and the axes whose middle is left out."""
    dtype = strong_dtype(x.dtype)
    if dtype is not x.dtype:
        x = x.cast(dtype)
    shape = list(_native.lazy_shape(x))
    if not prod(shape):
        return [], shape, [False] * len(shape)
    raw = None
    if dtype.fmt not in (None, "e") and all(type(size) is int for size in x.shape):
        raw = memoryview(readable(x))  # in place: large tensors and files are not copied
    raw = raw.cast("B") if raw is not None and raw.c_contiguous else memoryview(x._raw())
    cut = [prod(shape) > _MOST_SHOWN and size > 2 * _EDGE for size in shape]
    places = [0]
    for size, long in zip(shape, cut):
        kept: Sequence[int] = range(size)
        if long:
            kept = [*range(_EDGE), *range(size - _EDGE, size)]
        places = [place * size + k for place in places for k in kept]
    item = dtype.itemsize
    bytes_ = b"".join(raw[place * item : (place + 1) * item] for place in places)
    shape = [2 * _EDGE if long else size for size, long in zip(shape, cut)]
    return numbers_of(bytes_, dtype, len(places)), shape, cut


def _aligned(values: list[Any], several: bool) -> list[str]:
    """Numbers as texts of one width: four decimals, or an exponent, where there are fractions."""
    texts = [str(v) for v in values]
    if values and isinstance(values[0], float):
        sizes = [abs(v) for v in values if math.isfinite(v) and v]
        large, small = max(sizes, default=0.0) >= 1e8, min(sizes, default=1.0) < 1e-4
        spec = ".4e" if large or small else ".4f" if several else ".6g"
        if not large and all(size.is_integer() for size in sizes):
            spec = ".0f"
        texts = [format(v, spec) + "." * (spec == ".0f" and math.isfinite(v)) for v in values]
    width = max(map(len, texts), default=0)
    return [text.rjust(width) for text in texts]


def _nested(texts: list[str], shape: list[int], cut: list[bool], indent: int) -> str:
    """Texts as rows below each other."""
    if not shape:
        return texts[0]
    if 0 in shape:
        return str(empty_lists(tuple(shape)))
    step, between = len(texts) // shape[0], ",\n" + " " * (indent + 1)
    starts = range(0, len(texts), step)
    parts = [_nested(texts[k : k + step], shape[1:], cut[1:], indent + 1) for k in starts]
    if cut[0]:
        parts.insert(_EDGE, "...")
    if len(shape) == 1:  # as many a line as there is room for
        room = max(1, (_WIDTH - indent) // (len(parts[0]) + 2))
        parts = [", ".join(parts[k : k + room]) for k in range(0, len(parts), room)]
    return f"[{between.join(parts)}]"


class Shown:
    """A layer or optimiser whose repr is the call that makes one like it."""

    def _call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments: those by position, and the others."""
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            given, options = self._call()
        except (AttributeError, IndexError, TypeError):  # a program put other things in place
            return object.__repr__(self)
        known = inspect.signature(type(self).__init__).parameters
        texts = [repr(x) for x in given]
        for name, value in options.items():
            if name not in known or value != known[name].default:
                texts.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(texts)})"
