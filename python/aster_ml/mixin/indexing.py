"""Indexing, gathering, scattering, selecting."""

from __future__ import annotations

from typing import Any, Literal, Self

from .. import _native as _n
from ..dtype import PyConst, dtypes, from_code
from ..helpers import all_int, fully_flatten
from ..symbolic import BoundInt, Expression
from ..values import filling, is_numpy_ndarray
from .reduce import ReduceMixin
from .unary import remember_file


def normalize_indices(indices: Any, ndim: int) -> list[Any]:
    """An index for every axis, the ellipsis filled in; None stays. Raises IndexError."""
    out = list(indices)
    dots = [k for k, i in enumerate(out) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has at most one ellipsis")
    given = sum(_axes_of(i) for i in out) - len(dots)
    if given > ndim:
        raise IndexError(f"too many indices ({given}) for {ndim}D")
    at = dots[0] if dots else len(out)
    out[at : at + 1] = [slice(None)] * (ndim - given)
    return out


def _axes_of(index: Any) -> int:
    """How many axes an index stands for: a mask as many as it has."""
    if index is None:
        return 0
    masks = isinstance(index, _n.Lazy) and _n.lazy_dtype(index) == 1
    return _n.lazy_ndim(index) if masks else 1


class IndexingMixin(ReduceMixin):
    """Methods that pick and place elements."""

    __slots__ = ()

    def __getitem__(self, indices: Any) -> Self:
        """Elements by integers, slices with steps, None, ellipsis, lists, tensors and masks."""
        if indices.__class__ is int and self.ndim:
            return remember_file(_n.lazy_index(self, indices), self)
        if indices is Ellipsis or indices.__class__ is slice and indices == _ALL and self.ndim:
            return self
        items = self._items(indices)
        return remember_file(_n.lazy_index(self, items), self)

    def _items(self, indices: Any) -> tuple[Any, ...]:
        """x[...] as the library takes it: lists become tensors, what it has not is refused."""
        items = _as_tuple(indices)
        if len(items) > 1 or not self.ndim:
            normalize_indices(items, self.ndim)
        for index in items:
            if index is None or index is Ellipsis or index.__class__ in (int, BoundInt):
                continue
            if isinstance(index, slice):
                _check_slice(index)
            elif isinstance(index, Expression):
                index.__index__()
            elif isinstance(index, _n.Lazy):
                dtype = from_code(_n.lazy_dtype(index))
                if dtypes.is_float(dtype):
                    raise IndexError(f"index dtype {dtype} is not supported")
            elif isinstance(index, (list, tuple)) or is_numpy_ndarray(index) and index.ndim:
                return self._with_lists(items)  # arrays of NumPy have an __index__ as well
            elif not hasattr(index, "__index__"):
                if hasattr(index, "dtype"):
                    return self._with_lists(items)
                raise IndexError(f"{type(index).__name__} indexing is not supported")
        return items

    def _with_lists(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """Lists and arrays among indices made tensors, their numbers checked against the axis."""
        items = tuple(self._mask(i) if _is_list(i) else i for i in items)
        shape, parsed = self.shape, normalize_indices(items, self.ndim)
        axis, out = 0, []
        for index in parsed:
            if _is_list(index):
                index = self._index_tensor(index, shape[axis])
            axis += _axes_of(index)
            out.append(index)
        return self._items(tuple(out))

    def _mask(self, index: Any) -> Any:
        """A list or array of bool as a tensor, others as they are."""
        if is_numpy_ndarray(index):
            return type(self)(index) if index.dtype.kind == "b" else index  # type: ignore[call-arg]
        flat = fully_flatten(index)
        if flat and all(isinstance(i, bool) or type(i).__name__ in ("bool", "bool_") for i in flat):
            return type(self)(index, dtype=dtypes.bool)  # type: ignore[call-arg]
        return index

    def _index_tensor(self, index: Any, size: int) -> Any:
        """An index list or array as a tensor."""
        if is_numpy_ndarray(index) and index.dtype.kind in "iu" and index.size:
            ends = index.min(), index.max()
            self._index_tensor([int(end) for end in ends], size)
            return type(self)(index, dtype=dtypes.int64)  # type: ignore[call-arg]
        for i in fully_flatten(index):
            if not hasattr(i, "__index__"):
                raise IndexError(f"index {index!r} contains a non-int element")
            if not -size <= i < size:
                raise IndexError(f"index {i} is out of bounds for an axis of size {size}")
        return type(self)(index, dtype=dtypes.int32)  # type: ignore[call-arg]

    def gather(self, dim: int, index: Self) -> Self:
        """out[i][j] = self[index[i][j]][j] for dim 0, and so on for other axes.

        >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[0, 0], [1, 0]])).tolist()
        [[1, 1], [4, 3]]
        """
        return _n.lazy_gather(self, dim, index)

    def scatter(
        self,
        dim: int,
        index: Self,
        src: Self | PyConst,
        reduce: Literal["multiply", "add"] | None = None,
    ) -> Self:
        """self with out[index[i][j]][j] = src[i][j] for dim 0, and so on; the last write wins.

        >>> Tensor.zeros(1, 3).scatter(1, Tensor([[2, 0]]), Tensor([[1.0, 2.0]])).tolist()
        [[2.0, 0.0, 1.0]]
        """
        if reduce not in (None, "add", "multiply"):
            raise TypeError(f"reduce is None, 'multiply' or 'add', not {reduce!r}")
        if not isinstance(src, _n.Lazy):
            src = index.const_like(src, self.dtype)  # type: ignore[attr-defined]
        elif reduce is not None:
            raise TypeError("a tensor src with reduce: use scatter_reduce")
        mode = {None: 0, "add": _SCATTER["sum"], "multiply": _SCATTER["prod"]}[reduce]
        return _n.lazy_scatter(self, dim, index, src, mode, True)

    def scatter_reduce(
        self,
        dim: int,
        index: Self,
        src: Self,
        reduce: Literal["sum", "prod", "mean", "amax", "amin"],
        include_self: bool = True,
    ) -> Self:
        """As scatter, elements for one place combined.

        >>> x, i = Tensor([1, 2]), Tensor([0, 0, 1])
        >>> x.scatter_reduce(0, i, Tensor([10, 20, 30]), "sum").tolist()
        [31, 32]
        """
        if reduce not in _SCATTER:
            raise RuntimeError(f"reduce is one of {tuple(_SCATTER)}, not {reduce!r}")
        return _n.lazy_scatter(self, dim, index, src, _SCATTER[reduce], include_self)

    def one_hot(self, num_classes: int) -> Self:
        """1 at the place that each element names, else 0, along a new last axis.

        >>> Tensor([0, 2]).one_hot(3).tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        if not dtypes.is_int(self.dtype):
            raise RuntimeError(f"one_hot needs an integer dtype, got {self.dtype}")
        if num_classes < 0:
            raise ValueError(f"num_classes has to be non-negative, got {num_classes}")
        return _n.lazy_one_hot(self, num_classes)

    def masked_select(self, mask: Self, size: int | None = None, fill_value: PyConst = 0) -> Self:
        """The elements where mask holds, in order; with size, filled up and cut to it.

        >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
        [1, 3]
        """
        if not dtypes.is_bool(mask.dtype):
            raise RuntimeError(f"masked_select needs a bool mask, got {mask.dtype}")
        fill: Any = filling(fill_value, self.dtype)
        return _n.lazy_masked_select(self, mask, -1 if size is None else size, fill)

    def nonzero(self, size: int | None = None, fill_value: PyConst = 0) -> Self:
        """The places of the elements that are not 0, a row each.

        >>> Tensor([[1, 0], [0, 2]]).nonzero().tolist()
        [[0, 0], [1, 1]]
        """
        return _n.lazy_nonzero(self, -1 if size is None else size, fill_value)


_ALL = slice(None)
_SCATTER = {"sum": 1, "prod": 2, "mean": 3, "amax": 4, "amin": 5}


def _is_list(index: Any) -> bool:
    """True for lists and arrays, which become tensors."""
    if isinstance(index, _n.Lazy):
        return False
    return isinstance(index, (list, tuple)) or hasattr(index, "__array__")


def _as_tuple(indices: Any) -> tuple[Any, ...]:
    """x[i] as a tuple of indices; a list of ints is one index."""
    if isinstance(indices, tuple):
        return indices
    if isinstance(indices, list) and not all_int(indices):
        return tuple(indices)
    return (indices,)


def _check_slice(index: slice) -> None:
    for bound in (index.start, index.stop, index.step):
        if bound is None or bound.__class__ in (int, BoundInt):
            continue
        if isinstance(bound, Expression):
            bound.__index__()
        if not hasattr(bound, "__index__"):
            raise TypeError(f"slice {index} is not supported")
    if index.step is not None and index.step == 0:
        raise ValueError(f"slice {index} has a step of 0")
