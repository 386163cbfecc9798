"""aster_ml.linalg against NumPy: values where they are determined, else what defines them."""

import numpy as np
import pytest

from aster_ml import Tensor, errors, linalg

SHAPES = [(3, 3), (5, 2), (2, 5), (2, 4, 4), (1, 1)]
SQUARE = [(3, 3), (2, 4, 4), (2, 1, 5, 5), (1, 1)]


def values(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def turned(x):
    return np.swapaxes(x, -1, -2)


def read(*tensors):
    return [t.numpy() for t in tensors]


def close(ours, theirs, tolerance=1e-10):
    ours = ours.numpy() if isinstance(ours, Tensor) else ours
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_namespaces():
    assert all(hasattr(linalg, name) for name in linalg.__all__)


@pytest.mark.parametrize("shape", SHAPES)
def test_of_any_shape(shape):
    x = values(shape)
    a = Tensor(x)
    p, l, u = read(*linalg.lu(a))
    close(p @ l @ u, x)
    packed, rows = read(*linalg.lu_factor(a))
    order = np.broadcast_to(rows[..., None], x.shape)
    close(l @ u, np.take_along_axis(x, order, -2))
    k = min(shape[-2:])
    close(np.triu(packed)[..., :k, :], u)
    close(np.tril(packed, -1)[..., :k] + np.eye(*l.shape[-2:]), l)
    for mode in ("reduced", "complete"):
        q, r = read(*linalg.qr(a, mode))
        theirs = np.linalg.qr(x, mode)
        assert q.shape == theirs.Q.shape and r.shape == theirs.R.shape
        close(q @ r, x)
        close(turned(q) @ q - np.eye(q.shape[-1]), 0)
        close(abs(r), abs(theirs.R))
    close(abs(linalg.qr(a, "r").numpy()), abs(np.linalg.qr(x, "r")))
    for full in (True, False):
        theirs = np.linalg.svd(x, full)
        u, s, vt = read(*linalg.svd(a, full))
        assert [t.shape for t in (u, s, vt)] == [t.shape for t in theirs]
        close(s, theirs.S)
        close(u[..., :k] * s[..., None, :] @ vt[..., :k, :], x)
    close(linalg.svd(a, compute_uv=False), np.linalg.svd(x, compute_uv=False))
    close(linalg.svdvals(a), np.linalg.svdvals(x))
    close(linalg.pinv(a), np.linalg.pinv(x))
    assert (linalg.matrix_rank(a).numpy() == np.linalg.matrix_rank(x)).all()
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(linalg.matrix_norm(a, ord), np.linalg.matrix_norm(x, ord=ord))
    close(linalg.matrix_norm(a, keepdims=True), np.linalg.matrix_norm(x, keepdims=True))
    close(linalg.cond(a), np.linalg.cond(x), 1e-8)


@pytest.mark.parametrize("shape", SQUARE)
def test_of_square_ones(shape):
    x = values(shape) + 3 * np.eye(shape[-1])
    a = Tensor(x)
    close(linalg.det(a), np.linalg.det(x))
    sign, logarithm = linalg.slogdet(a)
    close(sign, np.linalg.slogdet(x).sign)
    close(logarithm, np.linalg.slogdet(x).logabsdet)
    close(linalg.inv(a), np.linalg.inv(x))
    for p in (1, -1, 2, -2, "fro", np.inf):
        close(linalg.cond(a, p), np.linalg.cond(x, p), 1e-8)
    b = values((*shape[:-1], 2), 1)
    close(linalg.solve(a, Tensor(b)), np.linalg.solve(x, b))
    one = values(shape[-1], 2)  # one right side for all
    close(linalg.solve(a, one), (np.linalg.inv(x) @ one[:, None])[..., 0])
    real, imag, v = linalg.eig(a)
    theirs = np.sort_complex(np.linalg.eigvals(x))
    np.testing.assert_allclose(np.sort_complex(real.numpy() + 1j * imag.numpy()), theirs, atol=1e-9)
    np.testing.assert_allclose(np.sort_complex(sum(
        t.numpy() * f for t, f in zip(linalg.eigvals(a), (1, 1j)))), theirs, atol=1e-9)
    symmetric = x @ turned(x)
    for UPLO in "LU":
        half = np.tril(symmetric) if UPLO == "L" else np.triu(symmetric)
        w, v = read(*linalg.eigh(Tensor(half), UPLO))
        close(w, np.linalg.eigvalsh(symmetric), 1e-9)
        close(linalg.eigvalsh(Tensor(half), UPLO), np.linalg.eigvalsh(symmetric), 1e-9)
        close(v * w[..., None, :] @ turned(v), symmetric, 1e-9)
    close(linalg.cholesky(Tensor(symmetric)), np.linalg.cholesky(symmetric))
    close(linalg.cholesky(Tensor(symmetric), upper=True), turned(np.linalg.cholesky(symmetric)))
    for lower in (True, False):
        triangle = np.tril(x) if lower else np.triu(x)
        for trans in (0, 1):
            y = linalg.solve_triangular(a, Tensor(b), trans, lower)
            close(y, np.linalg.solve(turned(triangle) if trans else triangle, b))
    w, v = np.linalg.eigh(symmetric)
    most = np.exp(w).max()
    power = v * np.exp(w)[..., None, :] @ turned(v)
    close(linalg.expm(Tensor(symmetric)).numpy() / most, power / most)


def test_least_squares():
    x, b = values((6, 3)), values((6, 2), 1)
    ours, theirs = linalg.lstsq(Tensor(x), Tensor(b)), np.linalg.lstsq(x, b)
    for mine, other in zip(ours, theirs):
        close(mine, other)
    close(linalg.lstsq(x, b[:, 0])[0], np.linalg.lstsq(x, b[:, 0])[0])
    # Several matrices and one vector, which NumPy has no function for.
    ours = linalg.lstsq(np.stack([x, 2 * x]), b[:, 0])
    for i in range(2):
        theirs = np.linalg.lstsq((i + 1) * x, b[:, 0])
        close(ours[0][i], theirs[0])
        close(ours[1][i], theirs[1][0])
    x[:, 2] = x[:, 0] - x[:, 1]
    ours, theirs = linalg.lstsq(Tensor(x), Tensor(b)), np.linalg.lstsq(x, b)
    close(ours[0], theirs[0])
    assert ours[2].item() == theirs[2] == 2
    close(linalg.pinv(Tensor(x)), np.linalg.pinv(x))


def test_views_and_narrow_floats():
    x = values((4, 6))
    for view in (x.T, x[::-1], x[:, ::2], x[::-1, ::-1].T):
        close(linalg.svdvals(view), np.linalg.svdvals(view))
        theirs = abs(np.linalg.qr(x.T, "complete").Q)
        close(abs(linalg.qr(Tensor(x).T, "complete").Q.numpy()), theirs)
    half = Tensor(values((3, 3)) + 3 * np.eye(3)).half()
    assert linalg.inv(half).dtype == half.dtype
    close(linalg.inv(half), np.linalg.inv(half.numpy().astype(np.float64)), 1e-2)
    single = values((3, 3), dtype=np.float32)
    close(linalg.inv(Tensor(single)), np.linalg.inv(single), 1e-3)


def test_gradients_go_through():
    x = Tensor(values((3, 3)) + 3 * np.eye(3))
    [slope] = linalg.slogdet(x).logabsdet.gradient(x)
    close(slope, turned(np.linalg.inv(x.numpy())))


def test_errors_are_clear():
    with pytest.raises(errors.NumericError, match="solve of matrix: it is singular: pivot 1 is 0"):
        linalg.solve(Tensor(np.ones((2, 2))), Tensor(np.ones(2))).numpy()
    with pytest.raises(errors.NumericError, match="number 1: .*leading minor of order 2"):
        linalg.cholesky(Tensor(np.stack([np.eye(2), np.diag([1.0, -1.0])]))).numpy()
    with pytest.raises(errors.NumericError, match="not finite"):
        linalg.eigh(Tensor(np.full((2, 2), np.nan))).eigenvalues.numpy()
    with pytest.raises(Exception, match="square"):
        linalg.inv(Tensor.ones(2, 3))
    with pytest.raises(Exception, match="float dtype"):
        linalg.inv(Tensor([[1, 2], [3, 4]]))
    for call in (lambda a: linalg.qr(a, "raw"), lambda a: linalg.eigh(a, "X"),
                 lambda a: linalg.solve_triangular(a, a, 2)):
        with pytest.raises(ValueError):
            call(Tensor.eye(2))
    with pytest.raises(Exception, match='no norm "3"'):
        linalg.matrix_norm(Tensor.eye(2), 3)
