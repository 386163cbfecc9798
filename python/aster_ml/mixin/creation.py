"""Tensors from nothing: constants, ranges, random numbers.

`device` puts the result on a device by name; random numbers of a device have their own counter.
"""

from __future__ import annotations

from typing import Any, Self

from .. import _native as _n
from ..device import on_device
from ..dtype import (
    ConstType,
    DTypeLike,
    InvalidType,
    PyConst,
    code_of,
    dtypes,
    from_code,
    is_stored_float,
    to_dtype,
)
from ..helpers import TRAINING, argfix
from ..symbolic import BoundInt
from ..values import filling
from .movement import _ints
from .op import OpMixin


def _shape_of(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sizes in f(2, 3), f((2, 3)); checked as random numbers need it."""
    sizes = argfix(*shape)
    for s in sizes:
        if not isinstance(s, int) or s < 0:
            raise ValueError(f"invalid shape {sizes}")
    return sizes


class CreationMixin(OpMixin):
    """Functions that make tensors."""

    __slots__ = ()

    # ---- constants

    @staticmethod
    def const(b: PyConst, dtype: DTypeLike | None = None) -> Any:
        """A 0-d constant; without dtype it is weak.

        >>> Tensor.const(2.5).item()
        2.5
        """
        return _n.lazy_scalar(b if dtype is None else (b, code_of(dtype)))

    def const_like(self, b: PyConst, dtype: DTypeLike | None = None) -> Self:
        """The constant in the shape of self, of its dtype.

        >>> Tensor([1.0, 2.0]).const_like(3).tolist()
        [3.0, 3.0]
        """
        fill: Any = filling(b, self.dtype if dtype is None else to_dtype(dtype))
        return _n.lazy_const_like(self, fill, code_of(dtype))

    def ufix(self, x: Any) -> Any:
        """x itself if it is a tensor, else a constant of its value.

        >>> Tensor([1.0]).ufix(2).item()
        2
        """
        return x if isinstance(x, _n.Lazy) else _n.lazy_scalar(x)

    @classmethod
    def empty(cls, *shape: Any, device: str | None = None, dtype: DTypeLike | None = None) -> Self:
        """Storage of unspecified content.

        >>> Tensor.empty(2, 3).shape
        (2, 3)
        """
        sizes = argfix(*shape)
        code = code_of(dtype)
        if isinstance(device, str) and device.upper().startswith("DISK:"):
            code = code or dtypes.default_float.code
            return cls._disk(device, sizes, code)  # type: ignore[attr-defined]
        return on_device(device, _n.lazy_empty, code, _ints(sizes))

    def empty_like(self, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Storage of unspecified content in the shape of self.

        >>> Tensor([[1, 2]]).empty_like().shape
        (1, 2)
        """
        device = device or self.device  # type: ignore[attr-defined]
        return on_device(device, _n.lazy_empty_like, self, code_of(dtype))

    @classmethod
    def invalids(
        cls, *shape: Any, device: str | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """Elements that nobody wrote, as of empty; bool by default, as Invalid is.

        >>> Tensor.invalids(2).shape
        (2,)
        """
        return cls.empty(*shape, device=device, dtype=dtype or dtypes.bool)

    @classmethod
    def full(
        cls,
        shape: Any,
        fill_value: ConstType,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        buffer: bool = True,
    ) -> Self:
        """fill_value everywhere; with buffer it can be assigned to.

        >>> Tensor.full((2, 2), 7).tolist()
        [[7, 7], [7, 7]]
        """
        sizes = argfix(shape)
        if isinstance(fill_value, InvalidType):
            return cls.invalids(*sizes, device=device, dtype=dtype)
        if isinstance(fill_value, BoundInt):
            fill_value = int(fill_value)
        fill: Any = filling(fill_value, None if dtype is None else to_dtype(dtype))
        out = _n.lazy_full(fill, code_of(dtype), _ints(sizes))
        if buffer:  # a constant would fold into what it meets, and have no gradient
            return on_device(device, _n.lazy_clone, out)
        return out if device is None else out.to(device)

    def full_like(
        self,
        fill_value: PyConst,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        buffer: bool = True,
    ) -> Self:
        """fill_value in the shape of self, of its dtype.

        >>> Tensor([[1.0, 2.0]]).full_like(3).tolist()
        [[3.0, 3.0]]
        """
        fill: Any = filling(fill_value, self.dtype if dtype is None else to_dtype(dtype))
        out = _n.lazy_full_like(self, fill, code_of(dtype))
        device = device or self.device  # type: ignore[attr-defined]
        return on_device(device, _n.lazy_clone, out) if buffer else out.to(device)

    @classmethod
    def zeros(cls, *shape: Any, **kwargs: Any) -> Self:
        """Zeros, of the default float unless dtype is given.

        >>> Tensor.zeros(2, dtype="int32").tolist()
        [0, 0]
        """
        return cls.full(argfix(*shape), 0.0, **kwargs)

    @classmethod
    def ones(cls, *shape: Any, **kwargs: Any) -> Self:
        """Ones, of the default float unless dtype is given.

        >>> Tensor.ones(2).tolist()
        [1.0, 1.0]
        """
        return cls.full(argfix(*shape), 1.0, **kwargs)

    def zeros_like(self, **kwargs: Any) -> Self:
        """Zeros in the shape of self.

        >>> Tensor([1, 2]).zeros_like().tolist()
        [0, 0]
        """
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs: Any) -> Self:
        """Ones in the shape of self.

        >>> Tensor([1, 2]).ones_like().tolist()
        [1, 1]
        """
        return self.full_like(1, **kwargs)

    # ---- ranges

    @classmethod
    def arange(
        cls,
        start: float,
        stop: float | None = None,
        step: float = 1,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """start, start + step, ... before stop; from 0 if only one bound is given.

        >>> Tensor.arange(5).tolist(), Tensor.arange(2.0, 4.0, 0.5).tolist()
        ([0, 1, 2, 3, 4], [2.0, 2.5, 3.0, 3.5])
        """
        if stop is None:
            start, stop = 0, start
        bounds: list[Any] = [*_ints([start, stop, step])]
        if all(isinstance(x, (int, BoundInt)) for x in bounds):
            return _n.lazy_arange(bounds[0], bounds[1], bounds[2], code_of(dtype))
        return _n.lazy_arange_float(start, stop, step, code_of(dtype))

    @classmethod
    def linspace(
        cls, start: float, stop: float, steps: int, dtype: DTypeLike | None = None
    ) -> Self:
        """steps numbers from start to stop, both included.

        >>> Tensor.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        return _n.lazy_linspace(start, stop, steps, code_of(dtype))

    @classmethod
    def eye(cls, n: int, m: int | None = None, dtype: DTypeLike | None = None) -> Self:
        """[n, m], 1 on the diagonal, else 0.

        >>> Tensor.eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        return _n.lazy_eye(n, n if m is None else m, code_of(dtype))

    # ---- random numbers: the same bits as tinygrad's for the same seed

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Sets the seed of random numbers and resets their counters.

        >>> Tensor.manual_seed(42)
        >>> [round(v, 4) for v in Tensor.rand(3).tolist()]
        [0.5334, 0.6702, 0.7631]
        """
        _n.lazy_manual_seed(seed & (2**64 - 1))

    @classmethod
    def rand(
        cls,
        *shape: Any,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        contiguous: bool = True,
    ) -> Self:
        """Uniform in [0, 1).

        >>> Tensor.rand(2, 3).shape
        (2, 3)
        """
        code = code_of(dtype)
        if code and not is_stored_float(code):
            raise ValueError(f"rand makes concrete float dtypes, not {from_code(code)}")
        if device is not None and not isinstance(device, str):
            raise ValueError(f"rand works on one device, got {device}")
        return on_device(device, _n.lazy_rand, code, _shape_of(shape))

    @classmethod
    def random_bits(cls, key: Self, counter: Self, num: int) -> Self:
        """num random words of 32 bits, from a key and a counter of two words each, by threefry.

        >>> words = Tensor([1, 2], dtype="uint32")
        >>> Tensor.random_bits(words, words, 4).dtype
        dtypes.uint
        """
        word, most = dtypes.uint32, 2**32 - 1

        def block(key: Self, low: Self, high: Self) -> Self:
            def joined(low: Self, high: Self) -> Self:
                return (high.cast(dtypes.uint64) << 32) | low.cast(dtypes.uint64)

            x = joined(low, high).threefry(joined(key[0], key[1]))
            return x.cast(word).cat((x >> 32).cast(word))

        low, high = counter[0:1], counter[1:2]
        parts = []
        for first in range(0, num, most):
            count = min(num - first, most)
            start = low + (first & most)
            half = (count + 1) // 2
            counts = cls.arange(half, dtype=word)
            begun = block(key, start, high + (first >> 32) + (start < low))
            parts.append(block(begun, counts, counts + half)[:count])
        return parts[0].cat(*parts[1:]) if parts else counter[0:0]

    def rand_like(self, **kwargs: Any) -> Self:
        """Uniform in [0, 1), in the shape and dtype of self.

        >>> Tensor.ones(2, 3).rand_like().shape
        (2, 3)
        """
        kwargs.setdefault("dtype", self.dtype)
        kwargs.setdefault("device", self.device)  # type: ignore[attr-defined]
        return type(self).rand(*self.shape, **kwargs)

    @classmethod
    def randn(cls, *shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Self:
        """Standard normal.

        >>> Tensor.randn(2, 3).shape
        (2, 3)
        """
        device = kwargs.pop("device", None)
        return on_device(device, _n.lazy_randn, code_of(dtype), _shape_of(shape))

    def randn_like(self, dtype: DTypeLike | None = None, **kwargs: Any) -> Self:
        """Standard normal, in the shape and dtype of self.

        >>> Tensor.ones(2, 3).randn_like().shape
        (2, 3)
        """
        if dtype is None and self.dtype in dtypes.weaks:
            raise ValueError(f"randn_like needs a dtype for {self.dtype}")
        code = code_of(dtype) or self.dtype.code
        device = kwargs.get("device", self.device)  # type: ignore[attr-defined]
        return on_device(device, _n.lazy_randn, code, self.shape)

    @classmethod
    def randint(
        cls,
        *shape: Any,
        low: int = 0,
        high: int = 10,
        dtype: DTypeLike = dtypes.int32,
        **kwargs: Any,
    ) -> Self:
        """Integers in [low, high).

        >>> Tensor.randint(2, 3, low=5, high=10).shape
        (2, 3)
        """
        if not isinstance(low, int) or not isinstance(high, int):
            raise TypeError(f"randint needs integers, got low={low!r} and high={high!r}")
        if not dtypes.is_int(to_dtype(dtype)):
            raise TypeError(f"randint makes integers, not {dtype}")
        device = kwargs.pop("device", None)
        return on_device(device, _n.lazy_randint, low, high, code_of(dtype), _shape_of(shape))

    @classmethod
    def normal(cls, *shape: Any, mean: float = 0.0, std: float = 1.0, **kwargs: Any) -> Self:
        """Normal with this mean and standard deviation.

        >>> Tensor.normal(2, 3, mean=10, std=2).shape
        (2, 3)
        """
        if std < 0:
            raise ValueError(f"normal needs std >= 0, got {std}")
        code = code_of(kwargs.pop("dtype", None))
        device = kwargs.pop("device", None)
        return on_device(device, _n.lazy_normal, mean, std, code, _shape_of(shape))

    @classmethod
    def uniform(
        cls,
        *shape: Any,
        low: float = 0.0,
        high: float = 1.0,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Uniform in [low, high).

        >>> Tensor.uniform(2, 3, low=2, high=10).shape
        (2, 3)
        """
        if low >= high:
            raise ValueError(f"uniform needs low < high, got {low} and {high}")
        sizes, device = _shape_of(shape), kwargs.pop("device", None)
        if dtype is None or dtypes.is_float(to_dtype(dtype)):
            return on_device(device, _n.lazy_uniform, low, high, code_of(dtype), sizes)
        return ((high - low) * cls.rand(*sizes, device=device)).cast(dtype) + low

    @classmethod
    def scaled_uniform(cls, *shape: Any, **kwargs: Any) -> Self:
        """Uniform in [-1, 1), divided by the root of the number of elements.

        >>> Tensor.scaled_uniform(2, 3).shape
        (2, 3)
        """
        code = code_of(kwargs.pop("dtype", None))
        return on_device(kwargs.pop("device", None), _n.lazy_scaled_uniform, code, _shape_of(shape))

    @classmethod
    def glorot_uniform(cls, *shape: Any, **kwargs: Any) -> Self:
        """Uniform in +-sqrt(6 / (shape[0] + the product of the rest)).

        >>> Tensor.glorot_uniform(2, 3).shape
        (2, 3)
        """
        code = code_of(kwargs.pop("dtype", None))
        return on_device(kwargs.pop("device", None), _n.lazy_glorot_uniform, code, _shape_of(shape))

    @classmethod
    def kaiming_uniform(cls, *shape: Any, a: float = 0.01, **kwargs: Any) -> Self:
        """Uniform in +-sqrt(6 / (1 + a^2) / the product of shape[1:]).

        >>> Tensor.kaiming_uniform(2, 3).shape
        (2, 3)
        """
        code = code_of(kwargs.pop("dtype", None))
        device = kwargs.pop("device", None)
        return on_device(device, _n.lazy_kaiming_uniform, a, code, _shape_of(shape))

    @classmethod
    def kaiming_normal(cls, *shape: Any, a: float = 0.01, **kwargs: Any) -> Self:
        """Normal with the standard deviation sqrt(2 / (1 + a^2) / the product of shape[1:]).

        >>> Tensor.kaiming_normal(2, 3).shape
        (2, 3)
        """
        code = code_of(kwargs.pop("dtype", None))
        device = kwargs.pop("device", None)
        return on_device(device, _n.lazy_kaiming_normal, a, code, _shape_of(shape))

    @classmethod
    def randperm(
        cls, n: int, device: str | None = None, dtype: DTypeLike = dtypes.int32, **kwargs: Any
    ) -> Self:
        """The integers below n in random order.

        >>> sorted(Tensor.randperm(4).tolist())
        [0, 1, 2, 3]
        """
        return on_device(device, _n.lazy_randperm, n, code_of(dtype))

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Indices drawn with chances in proportion to self.

        >>> Tensor([0.0, 1.0]).multinomial(3, replacement=True).tolist()
        [1, 1, 1]
        """
        return _n.lazy_multinomial(self, num_samples, replacement)

    def dropout(self, p: float = 0.5) -> Self:
        """Elements set to 0 with chance p, the others divided by 1 - p; only while TRAINING.

        >>> Tensor([1.0, 2.0]).dropout().tolist()
        [1.0, 2.0]
        """
        if not 0 <= p <= 1:
            raise ValueError(f"p={p} is out of range [0, 1]")
        return _n.lazy_dropout(self, p, True) if TRAINING and p else self
