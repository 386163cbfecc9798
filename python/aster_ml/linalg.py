"""linalg: decompositions, solutions and norms of the matrices in the last two axes, under NumPy's
names (SciPy's for lu, lu_factor, solve_triangular and expm).

They are lazy, take batches, and have gradients. What only computing shows is a NumericError then:
a singular matrix, one that is not positive definite, values that do not converge.

>>> from aster_ml import Tensor, linalg
>>> a = Tensor([[4.0, 1.0], [1.0, 3.0]])
>>> [round(v, 4) for v in linalg.solve(a, Tensor([1.0, 2.0])).tolist()]
[0.0909, 0.6364]
>>> round(linalg.det(a).item(), 4)
11.0
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _native as _n
from .dtype import dtypes
from .tensor import Tensor

__all__ = [
    "EigResult", "EighResult", "LuResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky",
    "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv", "lstsq", "lu", "lu_factor",
    "matmul_by", "matrix_norm", "matrix_rank", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals",
]  # fmt: skip


class LuResult(NamedTuple):
    """a = P L U.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.lu(Tensor([[0.0, 2.0], [1.0, 3.0]])).U.tolist()
    [[1.0, 3.0], [0.0, 2.0]]
    """

    P: Tensor
    L: Tensor
    U: Tensor


class QRResult(NamedTuple):
    """a = Q R.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.qr(Tensor([[3.0], [4.0]])).R.tolist()
    [[-5.0]]
    """

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """a = U diag(S) Vh.

    >>> from aster_ml import Tensor, linalg
    >>> [round(s, 4) for s in linalg.svd(Tensor([[0.0, 2.0], [3.0, 0.0]])).S.tolist()]
    [3.0, 2.0]
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


class EighResult(NamedTuple):
    """a = V diag(w) V^T, the eigenvalues rising.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.eigh(Tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Eigenvalues real + i imag, and vectors: columns of a pair are its real and imaginary part.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.eig(Tensor([[0.0, 1.0], [-1.0, 0.0]])).imag.tolist()
    [1.0, -1.0]
    """

    real: Tensor
    imag: Tensor
    eigenvectors: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its magnitude.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.slogdet(Tensor([[0.0, 1.0], [1.0, 0.0]])).sign.item()
    -1.0
    """

    sign: Tensor
    logabsdet: Tensor


def _upper(UPLO: str) -> bool:
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"UPLO {UPLO!r}: 'L' or 'U'")
    return UPLO in "Uu"


def lu(a: Any) -> LuResult:
    """P, L and U of Gaussian elimination with partial pivoting; of singular matrices too.

    Of sticky integers they are exact, as linalg.h says: a = P L D^-1 U, all of them minors of a, in
    the dtype of sums; a pivot that is ERR or 0 is an Error.

    >>> from aster_ml import Tensor, linalg
    >>> P, L, U = linalg.lu(Tensor([[1.0, 2.0], [2.0, 0.0]]))
    >>> L.tolist()
    [[1.0, 0.0], [0.5, 1.0]]
    """
    return LuResult(*_n.lazy_lu(a))


def lu_factor(a: Any) -> tuple[Tensor, Tensor]:
    """L and U in one matrix, and for each of its rows which of a it is.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.lu_factor(Tensor([[1.0, 2.0], [2.0, 0.0]]))[1].tolist()
    [1, 0]
    """
    return _n.lazy_lu_factor(a)


def cholesky(a: Any, *, upper: bool = False) -> Tensor:
    """Lower triangular L with a = L L^T; upper U with a = U^T U. Only that triangle is read.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.cholesky(Tensor([[4.0, 0.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return _n.lazy_cholesky(a, upper)


def qr(a: Any, mode: str = "reduced") -> Any:
    """Q and R by Householder reflections: min(m, n) columns and rows, all of them ("complete"), or
    R alone ("r"). The signs are those of Tensor.qr: every step reflects.

    >>> from aster_ml import Tensor, linalg
    >>> Q, R = linalg.qr(Tensor.ones(3, 2))
    >>> Q.shape, R.shape
    ((3, 2), (2, 2))
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"mode {mode!r}: 'reduced', 'complete' or 'r'")
    result = QRResult(*(_n.lazy_qr(a) if mode == "complete" else _n.lazy_qr_reduced(a)))
    return result.R if mode == "r" else result


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """U, S and Vh, the singular values descending; S alone without compute_uv.

    >>> from aster_ml import Tensor, linalg
    >>> U, S, Vh = linalg.svd(Tensor.ones(3, 2), full_matrices=False)
    >>> U.shape, S.shape, Vh.shape
    ((3, 2), (2,), (2, 2))
    """
    if not compute_uv:
        return svdvals(a)
    return SVDResult(*_n.lazy_svd(a, full_matrices))


def svdvals(a: Any) -> Tensor:
    """The singular values, descending.

    >>> from aster_ml import Tensor, linalg
    >>> [round(s, 4) for s in linalg.svdvals(Tensor([[3.0, 4.0]])).tolist()]
    [5.0]
    """
    return _n.lazy_svdvals(a)


def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """Eigenvalues, rising, and vectors of the symmetric matrix that a triangle tells.

    >>> from aster_ml import Tensor, linalg
    >>> [round(w, 4) for w in linalg.eigh(Tensor([[0.0, 9.0], [1.0, 0.0]]))[0].tolist()]
    [-1.0, 1.0]
    """
    return EighResult(*_n.lazy_eigh(a, _upper(UPLO)))


def eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    """The eigenvalues of eigh alone.

    >>> from aster_ml import Tensor, linalg
    >>> [round(w, 4) for w in linalg.eigvalsh(Tensor([[0.0, 2.0], [1.0, 0.0]]), "U").tolist()]
    [-2.0, 2.0]
    """
    return _n.lazy_eigvalsh(a, _upper(UPLO))


def eig(a: Any) -> EigResult:
    """Eigenvalues and vectors of any square matrix, in real numbers: column j of the vectors where
    imag[j] is 0; of a pair j, j + 1 columns j and j + 1 are the parts of the vector of j, whose
    conjugate belongs to j + 1.

    >>> from aster_ml import Tensor, linalg
    >>> sorted(linalg.eig(Tensor([[2.0, 1.0], [0.0, 3.0]])).real.tolist())
    [2.0, 3.0]
    """
    return EigResult(*_n.lazy_eig(a))


def eigvals(a: Any) -> tuple[Tensor, Tensor]:
    """The real and imaginary parts of eig's eigenvalues alone.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.eigvals(Tensor([[0.0, -1.0], [1.0, 0.0]]))[1].tolist()
    [1.0, -1.0]
    """
    return _n.lazy_eigvals(a)


def solve(a: Any, b: Any) -> Tensor:
    """x of a x = b; b of one axis is one right side.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.solve(Tensor([[2.0, 0.0], [0.0, 4.0]]), Tensor([[2.0], [2.0]])).tolist()
    [[1.0], [0.5]]
    """
    return _n.lazy_solve(a, b)


def solve_triangular(
    a: Any, b: Any, trans: int = 0, lower: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """The same of a triangle of a; of its transpose with trans 1.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.solve_triangular(Tensor([[2.0, 2.0], [9.0, 4.0]]), Tensor([4.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    if trans not in (0, 1):
        raise ValueError(f"trans {trans!r}: 0 or 1")
    return _n.lazy_solve_triangular(a, b, not lower, bool(trans), unit_diagonal)


def inv(a: Any) -> Tensor:
    """The inverse.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.inv(Tensor([[2.0, 0.0], [0.0, 4.0]])).diagonal().tolist()
    [0.5, 0.25]
    """
    return _n.lazy_inv(a)


def det(a: Any) -> Tensor:
    """The determinant.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.det(Tensor([[2.0, 0.0], [0.0, 4.0]])).item()
    8.0
    """
    return _n.lazy_det(a)


def slogdet(a: Any) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its magnitude, which do not overflow.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.slogdet(Tensor.eye(500) * 1e-3).sign.item()
    1.0
    """
    return SlogdetResult(*_n.lazy_slogdet(a))


def lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The shortest x of least |a x - b|, the sums of squares |a x - b|^2 of its columns, the rank
    of a and its singular values; those up to rcond times the largest count as 0 (None: max(m, n)
    times the dtype's epsilon). The sums are there whatever the rank.

    >>> from aster_ml import Tensor, linalg
    >>> x, sums, rank, s = linalg.lstsq(Tensor([[1.0], [1.0]]), Tensor([[1.0], [3.0]]))
    >>> round(x.item(), 4), round(sums.item(), 4), rank.item()
    (2.0, 2.0, 1)
    """
    x, rank, s = _n.lazy_lstsq(a, b, -1.0 if rcond is None else rcond)
    vector = x.ndim == s.ndim  # b is one vector: x has no axis of columns
    product = x.unsqueeze(-1).__rmatmul__(a).squeeze(-1) if vector else x.__rmatmul__(a)
    rest = product - b
    return x, (rest * rest).sum(-1 if vector else -2), rank, s


def pinv(a: Any, rcond: float | None = None) -> Tensor:
    """The pseudo-inverse, by singular values that count as in lstsq.

    >>> from aster_ml import Tensor, linalg
    >>> [round(v, 4) for v in linalg.pinv(Tensor([[3.0, 4.0]])).flatten().tolist()]
    [0.12, 0.16]
    """
    return _n.lazy_pinv(a, -1.0 if rcond is None else rcond)


def matrix_rank(a: Any, rtol: float | None = None) -> Tensor:
    """How many singular values are above rtol times the largest.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.matrix_rank(Tensor.ones(3, 3)).item()
    1
    """
    return _n.lazy_matrix_rank(a, -1.0 if rtol is None else rtol)


_ALGORITHMS = ("auto", "residues", "naive", "strassen")
_ROUNDINGS = ("nearest", "zero", "up", "down")


def matmul_by(
    a: Tensor, b: Tensor, algorithm: str = "auto", rounding: str = "nearest"
) -> tuple[Tensor, str]:
    """The product of two matrices of flt256 or flt512, and the algorithm that ran; computed at
    once, without a gradient.

    Whichever runs, each element is the exact sum of products rounded once, so that the bits are the
    same: "residues" of small primes, "naive" each element by itself (also where exponents lie too
    far apart for the others), "strassen" residues by halves, "auto" the fastest.

    >>> from aster_ml import Tensor, dtypes, linalg
    >>> a = Tensor([["0.5", 2], [3, 4]], dtype=dtypes.flt256)
    >>> product, ran = linalg.matmul_by(a, a, rounding="up")
    >>> product.tolist()[0], ran
    ([Decimal('6.25'), Decimal('9')], 'naive')
    """
    for value, known in ((algorithm, _ALGORITHMS), (rounding, _ROUNDINGS)):
        if value not in known:
            raise ValueError(f"{value!r} is none of {', '.join(known)}")
    if not dtypes.is_wide(a.dtype) or b.dtype is not a.dtype:
        raise TypeError(f"matmul_by of {a.dtype} and {b.dtype}: both flt256 or both flt512")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul_by of {a.shape} and {b.shape}: matrices that multiply")
    rows, inner, columns = int(a.shape[0]), int(a.shape[1]), int(b.shape[1])
    out = bytearray(rows * columns * a.dtype.itemsize)
    codes = _ALGORITHMS.index(algorithm), a.dtype.code, _ROUNDINGS.index(rounding)
    ran = _n.flt_matmul_by(out, *codes, a._raw(), b._raw(), rows, inner, columns)
    return Tensor(bytes(out), dtype=a.dtype).reshape(rows, columns), _ALGORITHMS[ran]


def _order(ord: Any) -> str:
    return ord if isinstance(ord, str) else str(ord)


def matrix_norm(a: Any, ord: Any = "fro", keepdims: bool = False) -> Tensor:
    """The norm of an order: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.matrix_norm(Tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    >>> linalg.matrix_norm(Tensor([[3.0, -1.0], [0.0, 4.0]]), float("inf")).item()
    4.0
    """
    norm = _n.lazy_matrix_norm(a, _order(ord))
    return norm.reshape(*norm.shape, 1, 1) if keepdims else norm


def cond(a: Any, p: Any = None) -> Tensor:
    """The condition in such a norm; None: 2, the largest singular value by the least.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.cond(Tensor([[8.0, 0.0], [0.0, 2.0]])).item()
    4.0
    """
    return _n.lazy_cond(a, "2" if p is None else _order(p))


def expm(a: Any) -> Tensor:
    """The exponential of a matrix.

    >>> from aster_ml import Tensor, linalg
    >>> linalg.expm(Tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _n.lazy_expm(a)
