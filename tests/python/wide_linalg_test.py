"""Decompositions of flt256 and flt512 from Python, against fractions."""

from fractions import Fraction

import numpy as np
import pytest
from wide_test import BITS, exact

import aster_ml
from aster_ml import Tensor, dtypes, linalg
from aster_ml.errors import NumericError

wides = pytest.mark.parametrize("dtype", dtypes.wides)


def matrix(x):
    """Rows of fractions."""
    values, columns = exact(x), x.shape[-1]
    return [values[i : i + columns] for i in range(0, len(values), columns)]


def times(*factors):
    out = factors[0]
    for other in factors[1:]:
        columns = list(zip(*other, strict=True))
        out = [[sum(map(Fraction.__mul__, row, c)) for c in columns] for row in out]
    return out


def turned(a):
    return [list(row) for row in zip(*a, strict=True)]


def unit(n):
    return [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]


def diagonal(values):
    n = len(values)
    return [[v if i == j else Fraction(0) for j in range(n)] for i, v in enumerate(values)]


def size(a):
    return max(sum(map(abs, row)) for row in a)


def far(a, b, dtype):
    """How far apart, in units of n eps |b|."""
    rest = [[x - y for x, y in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]
    return float(size(rest) * 2 ** (BITS[dtype] - 1) / len(a) / size(b))


def draw(seed, *shape):
    """Elements all of whose bits count."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    words = [Fraction(int.from_bytes(rng.bytes(70), "little"), 2**559) - 1 for _ in range(count)]
    return words, shape


def tensor(dtype, seed, *shape):
    words, shape = draw(seed, *shape)
    return Tensor(words, dtype=dtype).reshape(shape).realize()


@wides
def test_each_decomposition_is_right(dtype):
    a = tensor(dtype, 1, 6, 6)
    x, one = matrix(a), unit(6)
    p, l, u = linalg.lu(a)
    assert p.dtype == l.dtype == u.dtype == dtype
    assert far(times(matrix(p), matrix(l), matrix(u)), x, dtype) < 30
    lu, rows = linalg.lu_factor(a)
    assert rows.dtype == dtypes.int32 and sorted(rows.tolist()) == list(range(6))
    q, r = linalg.qr(a)
    assert far(times(matrix(q), matrix(r)), x, dtype) < 30
    assert far(times(turned(matrix(q)), matrix(q)), one, dtype) < 30
    u, s, vt = linalg.svd(a)
    assert far(times(matrix(u), diagonal(exact(s)), matrix(vt)), x, dtype) < 30
    assert far(times(turned(matrix(u)), matrix(u)), one, dtype) < 30
    symmetric = (a @ a.T).realize()
    w, v = linalg.eigh(symmetric)
    back = times(matrix(v), diagonal(exact(w)), turned(matrix(v)))
    assert far(back, matrix(symmetric), dtype) < 30
    c = linalg.cholesky(symmetric)
    assert far(times(matrix(c), turned(matrix(c))), matrix(symmetric), dtype) < 30
    inverse = linalg.inv(a)
    assert far(times(matrix(inverse), x), one, dtype) < 1e4
    re, im, _ = linalg.eig(a)
    assert abs(float(sum(exact(re)) - sum(x[i][i] for i in range(6)))) < 2.0 ** (10 - BITS[dtype])
    assert re.dtype == im.dtype == dtype


@wides
def test_solutions_lie_where_they_should(dtype):
    a, b = tensor(dtype, 2, 5, 5), tensor(dtype, 3, 5, 2)
    assert far(times(matrix(a), matrix(linalg.solve(a, b))), matrix(b), dtype) < 1e3
    assert far(times(turned(matrix(a)), matrix(linalg.solve(a.T, b))), matrix(b), dtype) < 1e3
    column = linalg.solve(a, b[:, 0].contiguous())
    assert column.shape == (5,) and exact(column) == exact(linalg.solve(a, b)[:, 0].contiguous())
    half = linalg.solve_triangular(a, b, lower=False)
    rows = enumerate(matrix(a))
    upper = [[v if j >= i else Fraction(0) for j, v in enumerate(row)] for i, row in rows]
    assert far(times(upper, matrix(half)), matrix(b), dtype) < 1e3
    # By hand: [[2, 1], [1, 3]] x = (3, 5).
    x = linalg.solve(Tensor([[2, 1], [1, 3]], dtype=dtype), Tensor([3, 5], dtype=dtype))
    assert far([exact(x)], [[Fraction(4, 5), Fraction(7, 5)]], dtype) < 4
    assert exact(linalg.det(Tensor([[2, 1], [1, 3]], dtype=dtype))) == [5]
    sign, log = linalg.slogdet(Tensor([[0, 1], [1, 0]], dtype=dtype))
    assert exact(sign) == [-1] and exact(log) == [0]


@wides
def test_batches_are_matrix_by_matrix(dtype):
    a, b = tensor(dtype, 4, 3, 4, 4), tensor(dtype, 5, 4, 2)
    all_x = linalg.solve(a, b)
    assert all_x.shape == (3, 4, 2)
    for i in range(3):
        one = a[i].contiguous()
        assert exact(all_x[i].contiguous()) == exact(linalg.solve(one, b))
        for together, alone in zip(linalg.svd(a), linalg.svd(one), strict=True):
            assert exact(together[i].contiguous()) == exact(alone)
        assert exact(linalg.det(a)[i].contiguous()) == exact(linalg.det(one))
    nothing = linalg.inv(Tensor.zeros(0, 3, 3, dtype=dtype))
    assert nothing.shape == (0, 3, 3) and nothing.dtype == dtype


@wides
def test_what_is_made_of_them(dtype):
    tall = tensor(dtype, 6, 6, 3)
    b = tensor(dtype, 7, 6)
    x, _, rank, s = linalg.lstsq(tall, b)
    assert rank.tolist() == 3 and s.dtype == dtype
    rest = times(turned(matrix(tall)), [[v - w] for v, (w,) in zip(
        exact(b), times(matrix(tall), [[v] for v in exact(x)]), strict=True)])
    assert size(rest) < Fraction(2) ** (12 - BITS[dtype])
    inverse = matrix(linalg.pinv(tall))
    assert far(times(inverse, matrix(tall)), unit(3), dtype) < 1e3
    # Of rank 2, which only numbers of the dtype's precision tell from 3.
    flat = Tensor([[1, 2, 3], [4, 5, 6], [5, 7, 9]], dtype=dtype)
    assert linalg.matrix_rank(flat).item() == 2
    tiny = Tensor([[1, 0], [0, 1e-60]], dtype=dtype)
    assert linalg.matrix_rank(tiny).item() == 2
    assert linalg.matrix_rank(tiny.cast(dtypes.float64)).item() == 1
    values = exact(linalg.svdvals(tall))
    assert exact(linalg.matrix_norm(tall, 2)) == values[:1]
    assert far([exact(linalg.cond(tall))], [[values[0] / values[-1]]], dtype) < 4
    squares = sum(v * v for v in exact(tall))
    assert far([[exact(linalg.matrix_norm(tall))[0] ** 2]], [[squares]], dtype) < 4
    assert exact(linalg.matrix_norm(tall, np.inf)) == pytest.approx(
        [max(sum(map(abs, row)) for row in matrix(tall))]
    )
    e = linalg.expm(Tensor([[0, 1], [0, 0]], dtype=dtype))
    assert matrix(e) == [[1, 1], [0, 1]]


@wides
def test_gradients_are_difference_quotients(dtype):
    step = Fraction(1, 2**60)
    words, _ = draw(8, 4, 4)
    weights, _ = draw(9, 4, 4)
    functions = {
        "solve": lambda a: linalg.solve(a, Tensor(weights, dtype=dtype).reshape(4, 4)),
        "inv": linalg.inv,
        "det": linalg.det,
        "slogdet": lambda a: linalg.slogdet(a)[1],
        "cholesky": lambda a: linalg.cholesky(a @ a.T),
        "lu": lambda a: linalg.lu(a)[2],
        "qr": lambda a: linalg.qr(a)[0],
        "svd": lambda a: linalg.svd(a)[0] * linalg.svd(a)[2],
        "svdvals": linalg.svdvals,
        "eigh": lambda a: linalg.eigh(a)[1],
        "eigvalsh": linalg.eigvalsh,
        "expm": linalg.expm,
        "norm": lambda a: linalg.matrix_norm(a, "nuc"),
    }
    for name, f in functions.items():
        def loss(values, f=f):
            a = Tensor(values, dtype=dtype).reshape(4, 4)
            y = f(a)
            w = Tensor(weights[: y.numel()], dtype=dtype).reshape(y.shape)
            return a, (y * w * y.shape[0] if y.ndim else y).sum()

        a, y = loss(words)
        (gradient,) = y.gradient(a)
        found = exact(gradient)
        for at in (0, 4, 9, 15):
            moved = [[w + sign * step * (i == at) for i, w in enumerate(words)] for sign in (1, -1)]
            up, down = (exact(loss(v)[1])[0] for v in moved)
            slope = (up - down) / (2 * step)
            assert abs(float(found[at] - slope)) < 1e-25 * (1 + abs(float(slope))), (name, at)


@wides
def test_what_has_no_result_says_why(dtype):
    singular = Tensor([[1, 2], [2, 4]], dtype=dtype)
    with pytest.raises(NumericError, match="singular: pivot 1 is 0"):
        linalg.inv(singular).realize()
    with pytest.raises(NumericError, match="number 1: .*leading minor of order 2"):
        linalg.cholesky(Tensor([[[1, 0], [0, 1]], [[1, 2], [2, 1]]], dtype=dtype)).realize()
    with pytest.raises(NumericError, match="element 3 is not finite"):
        linalg.svdvals(Tensor([["1", "0"], ["0", "nan"]], dtype=dtype)).realize()
    assert exact(linalg.det(singular)) == [0]
    with pytest.raises(ValueError, match="a square matrix is needed"):
        linalg.inv(Tensor.zeros(2, 3, dtype=dtype))
    with pytest.raises(ValueError, match="flt"):
        linalg.solve(Tensor.zeros(3, 3, dtype=dtype), Tensor.zeros(2, 1, dtype=dtype))
    with pytest.raises(TypeError, match="float64.* no dtype in common"):
        linalg.solve(singular, Tensor(np.ones((2, 1))))


def test_recordings():
    a, b = tensor(dtypes.flt512, 10, 4, 4), tensor(dtypes.flt512, 11, 4, 2)
    x = linalg.solve(a, b)
    call = aster_ml.TinyJit(lambda a, b: linalg.solve(a, b).realize())
    for _ in range(4):
        assert exact(call(a, b)) == exact(x)
