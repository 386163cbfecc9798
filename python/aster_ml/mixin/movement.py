"""Shapes and movement: reshape, permute, pad, slice and what is made of them."""

from __future__ import annotations

from typing import Any, Self, Sequence

from .. import _native as _n
from ..dtype import PyConst, dtypes
from ..helpers import argfix, flat_to_grouped, make_tuple, prod
from ..symbolic import BoundInt, Expression
from ..values import filling
from .elementwise import ElementwiseMixin
from .unary import _marks, remember_file

def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    """Sizes or indices as the library takes them."""
    for v in values:
        if isinstance(v, Expression):
            v.__index__()
    return tuple(values)


class MovementMixin(ElementwiseMixin):
    """Methods that rearrange elements."""

    __slots__ = ()

    # ---- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes.

        >>> Tensor([[1, 2, 3], [4, 5, 6]]).shape
        (2, 3)
        """
        return _n.lazy_shape(self)

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The shape, with bound variables at their maximum.

        >>> Tensor.ones(2, 3).max_shape
        (2, 3)
        """
        return tuple(s.vmax if isinstance(s, BoundInt) else s for s in self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> Tensor([[1, 2], [3, 4]]).ndim
        2
        """
        return _n.lazy_ndim(self)

    def numel(self) -> int:
        """The number of elements.

        >>> Tensor([[1, 2], [3, 4]]).numel()
        4
        """
        return prod(self.shape)  # type: ignore[no-any-return]

    def max_numel(self) -> int:
        """The number of elements of max_shape.

        >>> Tensor.ones(2, 3).max_numel()
        6
        """
        return int(prod(self.max_shape))

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis.

        >>> Tensor([[4, 5, 6], [7, 8, 9]]).size(dim=1)
        3
        """
        return self.shape if dim is None else self.shape[dim]

    def nbytes(self) -> int:
        """Bytes of all elements.

        >>> Tensor([1, 2], dtype="int16").nbytes()
        4
        """
        return self.max_numel() * self.element_size()

    def _resolve_dim(self, dim: int, *, extra: bool = False) -> int:
        """An axis counted from the front. Raises IndexError."""
        total = max(1, self.ndim + int(extra))
        if not -total <= dim < total:
            raise IndexError(f"dim {dim} is out of range for {self.ndim} axes")
        return dim + self.ndim + int(extra) if dim < 0 else dim

    # ---- shapes

    def reshape(self, shape: Any, *args: Any) -> Self:
        """The same elements in another shape; -1 is inferred, None keeps a size.

        >>> Tensor.arange(6).reshape(2, -1).tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
        wanted = argfix(shape, *args)
        if any([s is None for s in wanted]):
            wanted = tuple(self.shape[i] if s is None else s for i, s in enumerate(wanted))
        out = _n.lazy_reshape(self, _ints(wanted))
        return remember_file(out, self) if _marks else out

    def view(self, shape: Any, *args: Any) -> Self:
        """As reshape.

        >>> Tensor.arange(4).view(2, 2).tolist()
        [[0, 1], [2, 3]]
        """
        return self.reshape(shape, *args)

    def expand(self, shape: Any, *args: Any) -> Self:
        """Axes of size 1, and new leading ones, repeated; -1 and None keep a size.

        >>> Tensor([1, 2, 3]).expand(2, -1).tolist()
        [[1, 2, 3], [1, 2, 3]]
        """
        wanted = argfix(shape, *args)
        out = _n.lazy_expand(self, _ints([-1 if s is None else s for s in wanted]))
        return remember_file(out, self) if _marks else out

    def _broadcast_to(self, new_shape: tuple[int, ...]) -> Self:
        if self.shape == new_shape:
            return self
        if self.ndim > len(new_shape):
            raise ValueError(f"cannot broadcast shape {self.shape} to fewer axes, {new_shape}")
        return self.expand(new_shape)

    def permute(self, order: Any, *args: Any) -> Self:
        """The axes in another order.

        >>> Tensor.empty(2, 3, 5).permute(2, 0, 1).shape
        (5, 2, 3)
        """
        out = _n.lazy_permute(self, argfix(order, *args))
        return remember_file(out, self) if _marks else out

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        """Two axes exchanged.

        >>> Tensor([[1, 2], [3, 4]]).transpose().tolist()
        [[1, 3], [2, 4]]
        """
        out = _n.lazy_transpose(self, dim0, dim1)
        return remember_file(out, self) if _marks else out

    @property
    def T(self) -> Self:
        """The first two axes exchanged.

        >>> Tensor([[1, 2], [3, 4]]).T.tolist()
        [[1, 3], [2, 4]]
        """
        out = _n.lazy_transpose(self, 1, 0)
        return remember_file(out, self) if _marks else out

    def flip(self, axis: Any, *args: Any) -> Self:
        """The elements along some axes in reverse.

        >>> Tensor([1, 2, 3]).flip(0).tolist()
        [3, 2, 1]
        """
        out = _n.lazy_flip(self, argfix(axis, *args))
        return remember_file(out, self) if _marks else out

    def squeeze(self, dim: int | None = None) -> Self:
        """Without axes of size 1: all of them, or the one given.

        >>> Tensor.zeros(2, 1, 2, 1).squeeze().shape
        (2, 2)
        """
        if dim is None:
            kept = tuple([s for s in self.shape if isinstance(s, BoundInt) or s != 1])
            out = _n.lazy_reshape(self, kept)
            return remember_file(out, self) if _marks else out
        if not self.ndim:
            return self.reshape(self._scalar_axis(dim))
        out = _n.lazy_squeeze(self, dim)
        return remember_file(out, self) if _marks else out

    def _scalar_axis(self, dim: int) -> tuple[int, ...]:
        """The shape of a 0-d tensor, the axis checked: 0 and -1 are allowed."""
        self._resolve_dim(dim)
        return ()

    def unsqueeze(self, dim: int) -> Self:
        """With a new axis of size 1 before dim; -1 appends one.

        >>> Tensor([1, 2]).unsqueeze(0).shape, Tensor([1, 2]).unsqueeze(-1).shape
        ((1, 2), (2, 1))
        """
        dim = self._resolve_dim(dim, extra=True)
        out = _n.lazy_unsqueeze(self, dim)
        return remember_file(out, self) if _marks else out

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Axes start_dim to end_dim as one.

        >>> Tensor.arange(8).reshape(2, 2, 2).flatten(1).shape
        (2, 4)
        """
        if not self.ndim:
            self._resolve_dim(start_dim), self._resolve_dim(end_dim)
            return self.reshape(1)
        out = _n.lazy_flatten(self, start_dim, end_dim)
        return remember_file(out, self) if _marks else out

    def unflatten(self, dim: int, sizes: tuple[int, ...]) -> Self:
        """One axis as several; one of the sizes may be -1.

        >>> Tensor.ones(3, 4, 1).unflatten(1, (-1, 2)).shape
        (3, 2, 2, 1)
        """
        dim = self._resolve_dim(dim)
        return self.reshape(self.shape[:dim] + tuple(sizes) + self.shape[dim + 1 :])

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """Axes split, reordered and joined as an einops formula says.

        >>> Tensor([[1, 2], [3, 4]]).rearrange("batch channel -> (channel batch)").tolist()
        [1, 3, 2, 4]
        """
        return _n.lazy_rearrange(self, formula, list(sizes), list(sizes.values()))

    # ---- parts

    def shrink(self, arg: Sequence[tuple[int, int] | None]) -> Self:
        """A range (begin, end) of every axis; None is all of it.

        >>> Tensor.arange(9).reshape(3, 3).shrink((None, (1, 3))).tolist()
        [[1, 2], [4, 5], [7, 8]]
        """
        if self.ndim != len(arg):
            raise ValueError(f"shrink needs {self.ndim} ranges, got {len(arg)}")
        ranges = [(0, s) if p is None else p for p, s in zip(arg, self.shape)]
        begin, end = [p[0] for p in ranges], [p[1] for p in ranges]
        bounds: list[Any] = begin + end
        if any(isinstance(x, BoundInt) for x in bounds):
            return self[tuple(slice(b, e) for b, e in ranges)]  # type: ignore[index, no-any-return]
        out = _n.lazy_shrink(self, _ints(begin), _ints(end))
        return remember_file(out, self) if _marks else out

    def shrink_to(self, shape: Any, *args: Any) -> Self:
        """The first elements of every axis; None is all of it.

        >>> Tensor.arange(9).reshape(3, 3).shrink_to(None, 2).tolist()
        [[0, 1], [3, 4], [6, 7]]
        """
        return self.shrink([None if s is None else (0, s) for s in argfix(shape, *args)])

    def pad(
        self,
        padding: Sequence[Any],
        mode: str = "constant",
        value: PyConst = 0.0,
    ) -> Self:
        """Elements around each axis: ((before, after) or None, ...) for all axes, or flat from the
        last axis on. Modes: constant, reflect, replicate, circular. Negative amounts cut off. A
        value that the dtype does not hold, as 0.5 among integers, promotes.

        >>> Tensor([[1, 2]]).pad((1, 0, 0, 1)).tolist()
        [[0, 1, 2], [0, 0, 0]]
        >>> Tensor([1, 2, 3]).pad(((1, 1),), mode="reflect").tolist()
        [2, 1, 2, 3, 2]
        """
        pairs: tuple[Any, ...]
        if not any(p is None or isinstance(p, tuple) for p in padding):
            if len(padding) % 2:
                raise ValueError("flat padding comes in pairs")
            pairs = ((0, 0),) * (self.ndim - len(padding) // 2) + flat_to_grouped(padding)
        else:
            pairs = tuple((0, 0) if p is None else p for p in padding)
        if len(pairs) != self.ndim:
            raise ValueError(f"padding {tuple(padding)} does not fit {self.ndim} axes")
        before, after = _ints([p[0] for p in pairs]), _ints([p[1] for p in pairs])
        if mode == "constant":
            x: Any = self
            value = filling(value, x.dtype)
            if value and isinstance(value, (int, float)):
                dtype = _n.dtype_promote(x.dtype.code, dtypes.from_py(value).code)
                x = _n.lazy_cast(x, dtype)
            return _n.lazy_pad(x, before, after, value)
        if mode not in _PAD_MODES:
            raise NotImplementedError(f"mode {mode!r} is not supported")
        return _n.lazy_pad_mode(self, before, after, _PAD_MODES[mode], value)

    def pad_to(self, shape: Any, *args: Any, value: PyConst = 0) -> Self:
        """Elements after each axis, up to a size; None keeps it.

        >>> Tensor([1, 2]).pad_to(4).tolist()
        [1, 2, 0, 0]
        """
        wanted = argfix(shape, *args)
        if len(wanted) != self.ndim:
            raise ValueError(f"pad_to needs {self.ndim} sizes, got {len(wanted)}")
        pairs = tuple((0, 0 if w is None else w - s) for s, w in zip(self.shape, wanted))
        if any(after < 0 for _, after in pairs):
            raise ValueError(f"pad_to {wanted} is less than {self.shape}")
        return self.pad(pairs, value=value) if pairs else self

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts of an axis: of a size each, or of the sizes listed.

        >>> [part.tolist() for part in Tensor.arange(5).split([1, 4])]
        [[0], [1, 2, 3, 4]]
        """
        dim = self._resolve_dim(dim)
        total = self.shape[dim]
        assert not isinstance(total, BoundInt), f"cannot split {self.shape} along a symbolic axis"
        if isinstance(sizes, int):
            step = max(1, sizes)
            sizes = [min(sizes, total - at) for at in range(0, max(1, total), step)]
        assert sum(sizes) == total, f"sizes {list(sizes)} do not sum to {total}"
        parts, at = [], 0
        for size in sizes:
            ranges: list[Any] = [None] * self.ndim
            ranges[dim] = (at, at + size)
            parts.append(self.shrink(ranges))
            at += size
        return tuple(parts)

    def chunk(self, chunks: int, dim: int = 0) -> list[Self]:
        """At most that many parts of an axis, equal but for the last.

        >>> [part.tolist() for part in Tensor.arange(5).chunk(2)]
        [[0, 1, 2], [3, 4]]
        """
        total = self.shape[self._resolve_dim(dim)]
        assert not isinstance(total, BoundInt), f"cannot split {self.shape} along a symbolic axis"
        assert chunks > 0, f"chunks has to be positive, got {chunks}"
        return list(self.split(-(-total // chunks) if total else [0] * chunks, dim=dim))

    def unfold(self, dim: int, size: int, step: int) -> Self:
        """Windows of an axis: dim becomes their number, their elements the last axis.

        >>> Tensor.arange(5).unfold(0, 2, 1).tolist()
        [[0, 1], [1, 2], [2, 3], [3, 4]]
        """
        return _n.lazy_unfold(self, dim, size, step)

    def diag(self) -> Self:
        """A square matrix with the elements on its diagonal.

        >>> Tensor([1, 2]).diag().tolist()
        [[1, 0], [0, 2]]
        """
        return _n.lazy_diag(self)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The diagonal of two axes as the last axis.

        >>> Tensor.arange(9).reshape(3, 3).diagonal(offset=1).tolist()
        [1, 5]
        """
        return _n.lazy_diagonal(self, offset, dim1, dim2)

    def tril(self, diagonal: int = 0) -> Self:
        """0 above a diagonal of the last two axes.

        >>> Tensor.ones(2, 2).tril().tolist()
        [[1.0, 0.0], [1.0, 1.0]]
        """
        return _n.lazy_tril(self, diagonal)

    def triu(self, diagonal: int = 0) -> Self:
        """0 below a diagonal of the last two axes.

        >>> Tensor.ones(2, 2).triu().tolist()
        [[1.0, 1.0], [0.0, 1.0]]
        """
        return _n.lazy_triu(self, diagonal)

    # ---- joined and repeated

    def cat(self, *args: Self, dim: int = 0) -> Self:
        """Tensors joined along an axis.

        >>> Tensor([[1, 2]]).cat(Tensor([[3, 4]]), dim=1).tolist()
        [[1, 2, 3, 4]]
        """
        return _n.lazy_cat(argfix(self, *args), dim)

    def stack(self, *args: Self, dim: int = 0) -> Self:
        """Tensors of one shape joined along a new axis.

        >>> Tensor([1, 2]).stack(Tensor([3, 4]), dim=1).tolist()
        [[1, 3], [2, 4]]
        """
        return _n.lazy_stack(argfix(self, *args), dim)

    def repeat(self, repeats: Any, *args: int) -> Self:
        """The tensor repeated along each axis, new leading ones included.

        >>> Tensor([1, 2]).repeat(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        counts = argfix(repeats, *args)
        if len(counts) <= self.ndim and all(isinstance(c, int) and c == 1 for c in counts):
            return self
        return _n.lazy_repeat(self, counts)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Each element repeated, along an axis or of the flattened tensor.

        >>> Tensor([1, 2]).repeat_interleave(2).tolist()
        [1, 1, 2, 2]
        """
        x = self.flatten() if dim is None else self
        return _n.lazy_repeat_interleave(x, repeats, dim or 0)

    def roll(
        self, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None
    ) -> Self:
        """The elements moved along axes, around the end.

        >>> Tensor.arange(4).roll(1, 0).tolist()
        [3, 0, 1, 2]
        """
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        axes, amounts = make_tuple(dims, 1), make_tuple(shifts, 1)
        if len(axes) != len(amounts):
            raise RuntimeError(f"roll needs as many shifts as dims, got {amounts} and {axes}")
        return _n.lazy_roll(self, amounts, axes)

    def meshgrid(self, *args: Self, indexing: str = "ij") -> tuple[Self, ...]:
        """Coordinates of a grid, one tensor for each coordinate vector.

        >>> [t.tolist() for t in Tensor([1, 2]).meshgrid(Tensor([3, 4]))]
        [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
        """
        if indexing not in ("ij", "xy"):
            raise RuntimeError(f"indexing is 'ij' or 'xy', not {indexing!r}")
        count = 1 + len(args)
        if count == 1:
            return (self,)
        places = list(range(count)) if indexing == "ij" else [1, 0, *range(2, count)]
        flat = [t.reshape(-1) for t in (self, *args)]
        shape = [0] * count
        for place, t in zip(places, flat):
            shape[place] = t.shape[0]
        return tuple(
            t.reshape([-1 if axis == place else 1 for axis in range(count)]).expand(shape)
            for place, t in zip(places, flat)
        )


_PAD_MODES = {"reflect": 1, "replicate": 2, "circular": 3}
