"""sparse: sparse matrices in COO, CSR and CSC, that share their arrays with SciPy's.

A matrix is computed with at once and never changes. Terms of a sum are added in a fixed order, so
that results do not depend on threads and CPUs; what is not stored is exactly 0.

>>> from aster_ml import Tensor, sparse
>>> a = sparse.coo([0, 1, 1], [2, 0, 2], [1.0, 2.0, 3.0], shape=(2, 3)).compress()
>>> a
SparseMatrix((2, 3), csr, float64, 3 stored)
>>> (a @ Tensor([1.0, 10.0, 100.0])).tolist()
[100.0, 302.0]
>>> (a @ a.T).numpy().tolist()
[[1.0, 3.0], [3.0, 13.0]]
"""

from __future__ import annotations

import importlib
from typing import Any

from . import _native as _n
from .dtype import DType, from_code, to_dtype
from .tensor import Tensor

__all__ = ["SparseMatrix", "coo", "csc", "csr", "from_dense", "from_scipy"]

_FORMATS = {"coo": _n.SPARSE_COO, "csr": _n.SPARSE_CSR, "csc": _n.SPARSE_CSC}


def _format(name: str) -> int:
    if name not in _FORMATS:
        raise ValueError(f"format {name!r} is none of {', '.join(_FORMATS)}")
    return _FORMATS[name]


def _lend(values: Any) -> Any:
    """The concrete tensor of an array, in place where it is one already."""
    if isinstance(values, Tensor):
        return _n.lazy_view_strided(values)
    import numpy

    return _n.view_to_tensor(_n.view_of_object(numpy.ascontiguousarray(values)))


def _lend_indices(values: Any) -> Any:
    if isinstance(values, Tensor):
        return _n.lazy_view_strided(values)
    import numpy

    array = numpy.asarray(values)
    if array.dtype not in (numpy.int32, numpy.int64):
        if array.size != 0 and array.dtype.kind not in "iu":
            raise TypeError(f"indices of {array.dtype}; integers are wanted")
        array = array.astype(numpy.int64)
    return _lend(array)


def _tensor(concrete: Any) -> Tensor:
    made: Tensor = _n.lazy_from_tensor(concrete)
    return made


class SparseMatrix:
    """A sparse matrix; made by `coo`, `csr`, `csc`, `from_dense` or `from_scipy`.

    >>> from aster_ml import sparse
    >>> a = sparse.from_dense([[0.0, 2.0], [3.0, 0.0]])
    >>> a.shape, a.format, a.nnz, a.is_canonical
    ((2, 2), 'csr', 2, True)
    """

    __slots__ = ("_handle", "shape", "format", "dtype", "nnz", "is_canonical")
    __array_ufunc__ = None  # NumPy leaves operators to this class
    shape: tuple[int, int]
    format: str
    dtype: DType
    nnz: int
    is_canonical: bool

    def __init__(self, handle: Any) -> None:
        info = _n.sparse_get(handle)
        self._handle = handle
        self.shape = (info["rows"], info["columns"])
        self.format = next(name for name, code in _FORMATS.items() if code == info["format"])
        self.dtype = from_code(info["dtype"])
        self.nnz = info["count"]
        self.is_canonical = bool(info["is_canonical"])

    def __repr__(self) -> str:
        dtype = _n.dtype_name(self.dtype.code)
        return f"SparseMatrix({self.shape}, {self.format}, {dtype}, {self.nnz} stored)"

    # ---- Arrays ----

    def arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        """The three arrays in place: offsets (of COO the rows), the other indices, values.

        >>> from aster_ml import sparse
        >>> [x.tolist() for x in sparse.from_dense([[0, 2], [3, 0]]).arrays()]
        [[0, 1, 2], [1, 0], [2, 3]]
        """
        first, second, values = (_tensor(x) for x in _n.sparse_view(self._handle))
        return first, second, values

    @property
    def values(self) -> Tensor:
        """The stored elements, in place.

        >>> from aster_ml import sparse
        >>> sparse.from_dense([[0, 2], [3, 0]]).values.tolist()
        [2, 3]
        """
        return self.arrays()[2]

    def with_values(self, values: Any) -> SparseMatrix:
        """Other values at the same places, so that any function can be applied to them.

        >>> from aster_ml import sparse
        >>> a = sparse.from_dense([[0.0, 4.0], [9.0, 0.0]])
        >>> a.with_values(a.values.sqrt()).numpy().tolist()
        [[0.0, 2.0], [3.0, 0.0]]
        """
        return SparseMatrix(_n.sparse_with_values(self._handle, _lend(values)))

    def to_scipy(self) -> Any:
        """SciPy's array of the same format, on the same memory.

        >>> from aster_ml import sparse
        >>> sparse.from_dense([[0, 2], [3, 0]]).to_scipy().sum().item()
        5
        """
        import numpy

        theirs: Any = importlib.import_module("scipy.sparse")

        parts = [
            numpy.asarray(memoryview(_n.view_from_tensor(x))) for x in _n.sparse_view(self._handle)
        ]
        first, second, values = parts
        kind = getattr(theirs, f"{self.format}_array")
        if self.format == "coo":
            made = kind((values, (first, second)), shape=self.shape, copy=False)
        else:
            made = kind((values, second, first), shape=self.shape, copy=False)
        if self.is_canonical:
            made.has_canonical_format = True
        return made

    def dense(self) -> Tensor:
        """The matrix with its zeros.

        >>> from aster_ml import sparse
        >>> sparse.csr([0, 1, 1], [1], [5], shape=(2, 2)).dense().tolist()
        [[0, 5], [0, 0]]
        """
        return _tensor(_n.sparse_to_dense(self._handle))

    def numpy(self) -> Any:
        """The same as a NumPy array.

        >>> from aster_ml import sparse
        >>> sparse.csr([0, 1, 1], [1], [5], shape=(2, 2)).numpy().sum().item()
        5
        """
        return self.dense().numpy()

    # ---- Forms ----

    def compress(self, format: str = "csr") -> SparseMatrix:
        """In a format and canonical: places sorted, what stands at one place twice summed.

        >>> from aster_ml import sparse
        >>> sparse.coo([1, 0, 1], [0, 1, 0], [1, 2, 3], shape=(2, 2)).compress("csc")
        SparseMatrix((2, 2), csc, int64, 2 stored)
        """
        return SparseMatrix(_n.sparse_compress(self._handle, _format(format)))

    @property
    def T(self) -> SparseMatrix:
        """The transposed matrix, on the same arrays.

        >>> from aster_ml import sparse
        >>> sparse.from_dense([[1, 2, 3]]).T.shape
        (3, 1)
        """
        return SparseMatrix(_n.sparse_transpose(self._handle))

    def cast(self, dtype: Any) -> SparseMatrix:
        """With its values converted.

        >>> from aster_ml import sparse
        >>> sparse.from_dense([[1.5]]).cast("int8").values.tolist()
        [1]
        """
        return SparseMatrix(_n.sparse_cast(self._handle, to_dtype(dtype).code))

    def __getitem__(self, index: Any) -> SparseMatrix:
        """Rows, as CSR: a number or a slice of step 1."""
        if isinstance(index, int):
            at = index + self.shape[0] if index < 0 else index
            return SparseMatrix(_n.sparse_slice(self._handle, at, at + 1))
        if not isinstance(index, slice):
            raise TypeError("rows by a number or a slice")
        begin, end, step = index.indices(self.shape[0])
        if step != 1:
            raise ValueError("rows of step 1 alone")
        return SparseMatrix(_n.sparse_slice(self._handle, begin, max(begin, end)))

    # ---- Arithmetic ----

    def __matmul__(self, other: Any) -> Any:
        """A sparse matrix by another, or by a dense matrix or vector, which gives a Tensor."""
        if isinstance(other, SparseMatrix):
            return SparseMatrix(_n.sparse_matmul(self._handle, other._handle))
        return _tensor(_n.sparse_matmul_dense(self._handle, _lend(other)))

    def __rmatmul__(self, other: Any) -> Any:
        """A dense matrix or vector by this one: by the transposed ones."""
        if isinstance(other, Tensor):
            other = other.numpy()
        import numpy

        turned = numpy.asarray(other).T
        return (self.T @ turned).transpose() if turned.ndim == 2 else self.T @ turned

    def __add__(self, other: SparseMatrix) -> SparseMatrix:
        return SparseMatrix(_n.sparse_add(self._handle, other._handle))

    def __sub__(self, other: SparseMatrix) -> SparseMatrix:
        return SparseMatrix(_n.sparse_sub(self._handle, other._handle))

    def __mul__(self, other: Any) -> SparseMatrix:
        """By another one, element by element, or by a number."""
        if isinstance(other, SparseMatrix):
            return SparseMatrix(_n.sparse_mul(self._handle, other._handle))
        return self.with_values((self.values * other).realize())

    __rmul__ = __mul__

    def __neg__(self) -> SparseMatrix:
        return self.with_values((-self.values).realize())

    def _over(self, function: Any, axis: int | None) -> Tensor:
        return _tensor(function(self._handle, None if axis is None else [axis]))

    def sum(self, axis: int | None = None) -> Tensor:
        """Of all, or over an axis.

        >>> from aster_ml import sparse
        >>> a = sparse.from_dense([[1.0, 2.0], [0.0, 4.0]])
        >>> a.sum().item(), a.sum(0).tolist(), a.sum(1).tolist()
        (7.0, [1.0, 6.0], [3.0, 4.0])
        """
        return self._over(_n.sparse_sum, axis)

    def max(self, axis: int | None = None) -> Tensor:
        """The greatest element, of the zeros too.

        >>> from aster_ml import sparse
        >>> sparse.from_dense([[1.0, 2.0], [0.0, -4.0]]).max(0).tolist()
        [1.0, 2.0]
        """
        return self._over(_n.sparse_max, axis)

    def min(self, axis: int | None = None) -> Tensor:
        """The least element, of the zeros too.

        >>> from aster_ml import sparse
        >>> sparse.from_dense([[1.0, 2.0], [0.0, -4.0]]).min(1).tolist()
        [1.0, -4.0]
        """
        return self._over(_n.sparse_min, axis)


def _make(format: str, first: Any, second: Any, values: Any, shape: Any) -> SparseMatrix:
    rows, columns = shape
    arrays = (_lend_indices(first), _lend_indices(second), _lend(values))
    return SparseMatrix(_n.sparse_init(_FORMATS[format], rows, columns, *arrays))


def coo(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> SparseMatrix:
    """Elements by their coordinates, in any order; what stands at one place twice is summed.

    >>> from aster_ml import sparse
    >>> sparse.coo([1, 1], [0, 0], [2, 3], shape=(2, 1)).numpy().tolist()
    [[0], [5]]
    """
    return _make("coo", rows, columns, values, shape)


def csr(offsets: Any, columns: Any, values: Any, shape: tuple[int, int]) -> SparseMatrix:
    """Rows one behind the other: row i is [offsets[i], offsets[i + 1]) of columns and values.

    >>> from aster_ml import sparse
    >>> sparse.csr([0, 2, 3], [0, 1, 0], [1, 2, 3], shape=(2, 2)).numpy().tolist()
    [[1, 2], [3, 0]]
    """
    return _make("csr", offsets, columns, values, shape)


def csc(offsets: Any, rows: Any, values: Any, shape: tuple[int, int]) -> SparseMatrix:
    """Columns one behind the other: column j is [offsets[j], offsets[j + 1]) of rows and values.

    >>> from aster_ml import sparse
    >>> sparse.csc([0, 2, 3], [0, 1, 0], [1, 2, 3], shape=(2, 2)).numpy().tolist()
    [[1, 3], [2, 0]]
    """
    return _make("csc", offsets, rows, values, shape)


def from_dense(dense: Any, format: str = "csr") -> SparseMatrix:
    """The elements of a dense matrix that are not 0.

    >>> from aster_ml import Tensor, sparse
    >>> sparse.from_dense(Tensor([[0, 7]]), "coo")
    SparseMatrix((1, 2), coo, int32, 1 stored)
    """
    return SparseMatrix(_n.sparse_from_dense(_lend(dense), _format(format)))


def from_scipy(matrix: Any) -> SparseMatrix:
    """SciPy's matrix or array in COO, CSR or CSC, on the same memory; other formats as CSR. Its
    indices must not be written as long as this lives; its values may be.

    >>> import scipy.sparse
    >>> from aster_ml import sparse
    >>> sparse.from_scipy(scipy.sparse.eye_array(2, format="csr")).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if matrix.format not in _FORMATS:
        matrix = matrix.tocsr()
    if matrix.format == "coo":
        return coo(matrix.row, matrix.col, matrix.data, matrix.shape)
    return _make(matrix.format, matrix.indptr, matrix.indices, matrix.data, matrix.shape)
