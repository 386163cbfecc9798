"""Variables under TinyJit: one recording for all values, more only where a value is looked at."""

import numpy as np
import pytest

from aster_ml import Context, JitError, Tensor, TinyJit, Variable, _native, dynamic, linalg, nn

RNG = np.random.default_rng(1)


def data(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def realized(*shape):
    return Tensor(data(*shape)).realize()


def compiled():
    return _native.engine_count()["kernels_compiled"]


A, B, C = data(7, 8), data(8, 5), data(2, 8, 4, 8)
I = RNG.integers(0, 5, (7, 8)).astype(np.int32)
NAN = data(7, 8)
NAN[:, 6:] = np.nan


def attend(q, k, v):
    return q.transpose(1, 2).scaled_dot_product_attention(k.transpose(1, 2), v.transpose(1, 2))


# (the function, its arguments of a variable n), n in 1..5: compared with the same of plain numbers.
CASES = {
    "plus": (lambda x: x + 1, lambda n: [t(A)[:, :n]]),
    "add": (lambda x, y: x + y, lambda n: [t(A)[:, :n], t(A)[:, :n]]),
    "times n": (lambda x, n: x * n, lambda n: [t(A), n]),
    "matmul": (lambda x, y: x @ y, lambda n: [t(NAN)[:, :n], t(B)[:n]]),
    "rows": (lambda x, y: x @ y + 1, lambda n: [t(A)[:n], t(B)]),
    "twice": (lambda x, y: ((x @ y).realize() * 2), lambda n: [t(A)[:, :n], t(B)[:n]]),
    "attention": (attend, lambda n: [t(C)[:, :1], t(C)[:, :n], t(C)[:, :n]]),
    "self attention": (attend, lambda n: [t(C)[:, :n], t(C)[:, :n], t(C)[:, :n]]),
    "cat": (lambda x, y: x.cat(y, dim=1), lambda n: [t(A)[:, :n], t(A)]),
    "pad": (lambda x: (x + 1).pad((None, (0, 8 - x.shape[1]))), lambda n: [t(A)[:, :n]]),
    "part": (lambda x: x + 1, lambda n: [t(A)[1:3, n : n + 2]]),
    "shrink": (lambda x: x + 1, lambda n: [t(A).shrink(((2, 4), (n, n + 2)))]),
    "ones": (lambda x: x + 1, lambda n: [Tensor.ones(n, 4).contiguous()[:, 1:2]]),
    "sum": (lambda x: x.sum(), lambda n: [t(NAN)[:, :n]]),
    "mean": (lambda x: x.mean(), lambda n: [t(NAN)[:, :n]]),
    "mean 0": (lambda x: x.mean(0), lambda n: [t(A)[:n]]),
    "mean 1": (lambda x: x.mean(1), lambda n: [t(A)[:n]]),
    "var": (lambda x: x.var(correction=0), lambda n: [t(NAN)[:, :n]]),
    "var 1": (lambda x: x.var(1), lambda n: [t(A)[:n]]),
    "softmax": (lambda x: x.softmax(1).argmax(1), lambda n: [t(NAN)[:, :n]]),
    "inside": (lambda x, n: x[:, :n].max(1) + x[:, n] + x[:, n : n + 1].sum(), lambda n: [t(A), n]),
    "shape": (lambda x: (x * x.shape[1]).sum(1), lambda n: [t(A)[:, :n]]),
    "last": (lambda x: x[:, -1], lambda n: [(t(A) + 0)[:, :n]]),
    "embedding": (lambda w, n: w[n : n + 2].flatten(), lambda n: [t(A), n]),
    "triangle": (lambda n: Tensor.full((2, n + 2), -9.0).triu(n + 1).sum(0), lambda n: [n]),
    "range": (lambda x, n: x[0, :n] * Tensor.arange(n), lambda n: [t(A), n]),
    "flip": (lambda x: x.flip((0, 1)), lambda n: [t(A)[:, :n]]),
    "roll": (lambda x, n: x.roll((2, 1), (1, 0)).roll(n, 1), lambda n: [t(A)[:, :n], n]),
    "roll by": (lambda x, n: (x + 1).roll((n, -n, 1), (0, 1, 0)), lambda n: [t(A), n]),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda n: [t(A)[:, :n]]),
    "interleaved": (lambda x: x.repeat_interleave(3, 1), lambda n: [t(A)[:, :n]]),
    "gather": (
        lambda x, n: x[:, :n].gather(1, (Tensor.arange(8) * 3 % n).reshape(4, 2)),
        lambda n: [t(A)[:4], n],
    ),
    "sort": (lambda x: x.sort(1)[0], lambda n: [t(NAN)[:, :n]]),
    "sort down": (lambda x: x.sort(1, descending=True)[1], lambda n: [t(NAN)[:, :n]]),
    "argsort": (lambda x: (x * 3).int().argsort(1), lambda n: [t(A)[:, :n]]),
    "topk": (lambda x: x.topk(1, 1)[0], lambda n: [t(A)[:, :n]]),
    "smallest": (lambda x: x.topk(1, 1, largest=False)[1], lambda n: [t(A)[:, :n]]),
    "layernorm": (lambda x: x.layernorm(), lambda n: [t(A)[:, :n]]),
    "layernorm 2": (lambda x: x.layernorm((0, 1)), lambda n: [t(A)[:, :n]]),
    "normalize": (lambda x: x.normalize(dim=1), lambda n: [t(A)[:, :n]]),
    "softmin": (lambda x: x.softmin(1), lambda n: [t(A)[:, :n]]),
    "einsum": (lambda x, y: Tensor.einsum("ij,jk->ki", x, y), lambda n: [t(A)[:, :n], t(B)[:n]]),
    "einsum sum": (lambda x: Tensor.einsum("ij->j", x + 1), lambda n: [t(A)[:n]]),
    "einsum outer": (lambda x: Tensor.einsum("ij,kj->ikj", x, x), lambda n: [t(A)[:, :n]]),
    "einsum of letters": (lambda x: Tensor.einsum("ij,kj", x, x), lambda n: [t(A)[:, :n]]),
    "convolution": (
        lambda x: x.reshape(1, 1, *x.shape).conv2d(t(C)[:1, :1, :3, :3], padding=1),
        lambda n: [t(A)[:, :n]],
    ),
    "strided": (
        lambda x: x.reshape(1, *x.shape).conv2d(t(A)[:2, :4].reshape(2, 4, 1), stride=2),
        lambda n: [t(A)[:4, :n]],
    ),
    "images": (
        lambda x: x.reshape(x.shape[0], 1, 1, 8).conv2d(t(B)[:1, :2].reshape(1, 1, 1, 2)),
        lambda n: [t(A)[:n]],
    ),
    "two": (lambda x, y: x.sum() + y, lambda n: [t(A)[:, :n], t(A)[: n + 1, :n]]),
    "max pool": (lambda x: x.max_pool2d((1, 3), 2, padding=(0, 1)), lambda n: [t(NAN)[:, :n]]),
    "max pool beside": (lambda x: x.max_pool2d((2, 2)), lambda n: [t(C)[:, :n]]),
    "places of maxima": (
        lambda x: x.max_pool2d((3, 3), 2, padding=1, return_indices=True)[1],
        lambda n: [t(C).transpose(1, 2)[:, :, :n].realize()],
    ),
    "unpooled": (
        lambda x: (lambda y: y[0].max_unpool2d(y[1]))(x.max_pool2d(return_indices=True)),
        lambda n: [t(C)[:, :n]],
    ),
    "mean pool": (lambda x: x.avg_pool2d((1, 3), 2, padding=(0, 1)), lambda n: [t(NAN)[:, :n]]),
    "mean pool inside": (
        lambda x: x.avg_pool2d((1, 3), padding=(0, 1), count_include_pad=False, stride=1),
        lambda n: [t(NAN)[:, :n]],
    ),
    "mean pool beside": (lambda x: x.avg_pool2d((2, 2)), lambda n: [t(C)[:, :n]]),
    "unfold": (lambda x: x.unfold(1, 1, 2), lambda n: [t(A)[:, :n]]),
    "unfold beside": (lambda x: x.unfold(0, 3, 2).max(-1), lambda n: [t(A)[:, :n]]),
    "transposed convolution": (
        lambda x: x.reshape(1, 7, -1).conv_transpose2d(
            t(C)[0, :7, :2, :3], stride=2, padding=1, output_padding=1
        ),
        lambda n: [t(NAN)[:, :n]],
    ),
    "resampled beside": (lambda x: x.interpolate((3,)), lambda n: [t(B)[:n]]),
    "reflected beside": (
        lambda x: x.pad(((0, 0), (1, 2)), mode="reflect"),
        lambda n: [t(B)[:n]],
    ),
    "resampled": (lambda x: x.interpolate((4, 3)), lambda n: [t(A)[:, :n]]),
    "resampled from edges": (
        lambda x: x.interpolate((7,), align_corners=True),
        lambda n: [t(A)[:, :n]],
    ),
    "resampled to": (
        lambda x, n: x.interpolate((n + 2, 2 * n), mode="nearest"),
        lambda n: [t(A)[:, :n], n],
    ),
    "middles": (
        lambda x, n: x.interpolate((3, n), mode="nearest-exact") * 2,
        lambda n: [t(A), n],
    ),
    "reflected": (
        lambda x: x.pad(((0, 0), (1, 2)), mode="reflect"),
        lambda n: [t(A)[:, : n + 2]],
    ),
    "edges again": (
        lambda x: x.pad(((1, 0), (4, 2)), mode="replicate"),
        lambda n: [t(A)[:, :n]],
    ),
    "around": (lambda x: x.pad(((0, 2), (0, 1)), mode="circular"), lambda n: [t(A)[:, :n]]),
    "selected": (lambda x: x.masked_select(x > 0.1, 9, -1), lambda n: [t(A)[:, :n]]),
    "places of what is not zero": (
        lambda x: (x > 0.1).nonzero(30, -1),
        lambda n: [t(A)[:, :n]],
    ),
    "scatter": (lambda x, i, y: x.scatter(1, i, y), lambda n: [t(A), t(I)[:, :n], t(A)[:, :n]]),
    "scatter beside": (
        lambda x, i: x.scatter(0, i, 3.0),
        lambda n: [t(A)[:, :n], t(I)[:3, :n]],
    ),
    "scatter sums": (
        lambda x, i, y: x.scatter_reduce(1, i, y, "sum"),
        lambda n: [t(A), t(I)[:, :n], t(NAN)[:, :n]],
    ),
    "scatter means": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "mean", include_self=False),
        lambda n: [t(A)[:, :n], t(I)[:, :n], t(A)[:, :n]],
    ),
    "steps": (lambda x: x[:, 1::3] + x[:, ::3][:, :1], lambda n: [t(A)[:, : n + 3]]),
    "steps back": (lambda x, n: x[:, n::-2].abs(), lambda n: [t(A), n]),
    "steps to n": (lambda x, n: x[:, :n:2] + x[:, n : 2 * n : 2], lambda n: [t(A).repeat(1, 2), n]),
    "list": (lambda x: x[:, [1, -1, 0]], lambda n: [t(NAN)[:, : n + 1]]),
    "tensors": (lambda x, i: x[i, i] * 2, lambda n: [t(A), t(I)[0, :n]]),
    "tensors apart": (lambda x, i: x[i, :, i], lambda n: [t(C)[:, :n, :2, 0], t(I)[1, :2] % 2]),
    "one hot": (lambda i: i.one_hot(9).sum(1), lambda n: [t(I)[:, :n]]),
    "diagonal matrix": (lambda x: x[0].diag() + 1, lambda n: [t(A)[:, :n]]),
    "identity": (lambda n: Tensor.eye(n).contiguous() * 2, lambda n: [n]),
    "line": (lambda n: Tensor.linspace(1, 3, n + 1) + 1, lambda n: [n]),
    "merged": (lambda x: (x.flatten() * 2).reshape(x.shape), lambda n: [t(A)[:, :n]]),
    "rearranged": (lambda x: x.rearrange("(a b) n -> b (n a)", b=2), lambda n: [t(B)[:, :n]]),
    "repeat by": (lambda x, n: x.repeat(1, n), lambda n: [t(A), n]),
    "pad before": (lambda x, n: x.pad(((0, 0), (n, 1)), value=2.0), lambda n: [t(A)[:, :n], n]),
    "ellipsis": (lambda x: Tensor.einsum("...j,kj->...k", x, x), lambda n: [t(NAN)[:, :n]]),
    "labels": (lambda x, i: x.cross_entropy(i), lambda n: [t(NAN.T.copy())[:n, :5], t(I)[0, :n]]),
    "labels behind": (
        lambda x, i: x.sparse_categorical_crossentropy(i, 2, 0.1),
        lambda n: [t(NAN.T.copy())[:n, :5], t(I)[0, :n]],
    ),
    "weighted labels": (
        lambda x, i: x.nll_loss(i, t(B)[0].abs(), ignore_index=2, reduction="mean"),
        lambda n: [t(NAN.T.copy())[:n, :5], t(I)[0, :n]],
    ),
    "probabilities": (
        lambda x, y: x.cross_entropy(y, "sum"),
        lambda n: [t(NAN.T.copy())[:n], t(A.T.copy())[:n].softmax()],
    ),
    "logits": (
        lambda x, y: x.binary_crossentropy_logits(y, "none"),
        lambda n: [t(A)[:, :n], t(A)[:, :n] > 0],
    ),
    "gradient": (lambda x: x.square().mean().gradient(x)[0], lambda n: [t(NAN)[:, :n]]),
    "gradient by": (
        lambda x, y: x.square().gradient(x, gradient=y)[0],
        lambda n: [t(NAN)[:, :n], t(A)[:, :n]],
    ),
    "view of rows": (lambda x: x.exp().sum(1), lambda n: [t(A)[1:5, :n]]),
}


def t(x):
    return Tensor(x).realize()


def numbers(x):
    """The arguments with plain numbers."""
    return [int(a) if not isinstance(a, Tensor) else a for a in x]


@pytest.mark.parametrize("name", CASES)
def test_one_recording(name):
    function, arguments = CASES[name]
    runs = []

    @TinyJit
    def jitted(*args):
        runs.append(1)
        return function(*args).realize()

    n = Variable("n", 1, 6)
    for k in (1, 2, 3, 5, 4, 2):
        before = compiled()
        got = jitted(*arguments(n.bind(k)))
        assert len(runs) < 3 or name == "part" or compiled() == before
        want = function(*numbers(arguments(k)))
        assert tuple(map(int, got.shape)) == want.shape
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=3e-5, atol=2e-6)
    assert len(runs) == 2 and jitted.captured.kernel_count > 0


def test_two_variables():
    runs = []

    @TinyJit
    def f(a, b):
        runs.append(1)
        return (a @ b + 1).realize(), a.var(1).realize()

    a, b = realized(10, 3), realized(3, 10)
    for i in range(2, 5):
        for j in range(2, 5):
            product, spread = f(
                a[: Variable("i", 1, 10).bind(i)], b[:, : Variable("j", 1, 10).bind(j)]
            )
            np.testing.assert_allclose(
                product.numpy(), a.numpy()[:i] @ b.numpy()[:, :j] + 1, rtol=1e-4, atol=1e-5
            )
            np.testing.assert_allclose(spread.numpy(), a.numpy()[:i].var(1, ddof=1), rtol=1e-4)
    assert len(runs) == 2


def test_values_that_are_looked_at():
    """A recording serves the values that look the same."""
    runs = []

    @TinyJit
    def f(x, n):
        runs.append(int(n.expression.vmax))
        if n > 3:
            return (x[:, :n].sum(1) * 2).realize()
        return x[:, :n].sum(1).realize()

    x = realized(3, 8)
    for k in (1, 2, 3, 5, 6, 1, 7, 3):
        got = f(x, Variable("n", 1, 8).bind(k)).numpy()
        np.testing.assert_allclose(
            got, x.numpy()[:, :k].sum(1) * (2 if k > 3 else 1), rtol=1e-5, atol=1e-6
        )
    assert len(runs) == 3  # plain, up to 3, above

    runs.clear()

    @TinyJit
    def g(x, n):
        runs.append(1)
        return (x * [10.0, 20.0, 30.0, 40.0, 50.0][n] + sum(range(n)) + int(n)).realize()

    for k in (1, 2, 3, 1, 2, 3, 2):
        got = g(x, Variable("n", 1, 4).bind(k)).numpy()
        np.testing.assert_allclose(got, x.numpy() * 10 * (k + 1) + sum(range(k)) + k, rtol=1e-5)
    assert len(runs) == 4  # plain, then one of each value


def test_operations_without_a_rule():
    """They are right as well, with a recording of each value."""
    runs = []

    @TinyJit
    def f(x, n):
        runs.append(1)
        return x[:, :n].svd()[1].realize()

    x = realized(9, 8)
    for k in (2, 3, 2, 5, 3, 2):
        want = np.linalg.svd(x.numpy()[:, :k], compute_uv=False)
        got = f(x, Variable("n", 1, 8).bind(k)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert len(runs) == 4


DECOMPOSED = {
    "inv": (linalg.inv, np.linalg.inv),
    "det": (linalg.det, np.linalg.det),
    "slogdet": (lambda a: linalg.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1]),
    "cholesky": (linalg.cholesky, np.linalg.cholesky),
    "qr": (lambda a: abs(linalg.qr(a)[1]), lambda a: abs(np.linalg.qr(a)[1])),
    "svdvals": (linalg.svdvals, lambda a: np.linalg.svd(a, compute_uv=False)),
    "eigvalsh": (linalg.eigvalsh, np.linalg.eigvalsh),
    "pinv": (linalg.pinv, np.linalg.pinv),
    "cond": (linalg.cond, np.linalg.cond),
    "matrix_rank": (linalg.matrix_rank, np.linalg.matrix_rank),
}


SYSTEMS = {
    "solve": linalg.solve,
    "lstsq": lambda a, b: linalg.lstsq(a, b)[0],
    "solve_triangular": lambda a, b: linalg.solve_triangular(a.tril(), b, lower=True),
}


@pytest.mark.parametrize("name", sorted(SYSTEMS))
@pytest.mark.parametrize("shared", ["", "a", "b", "vector"])
def test_systems_along_a_batch(name, shared):
    """One recording serves batches of every length, of both sides or of one."""
    runs = []

    @TinyJit
    def f(x, y, n):
        runs.append(1)
        x = x[2] if shared == "a" else x[:n]
        y = y[1] if shared == "b" else y[1, :, 0] if shared == "vector" else y[:n]
        return SYSTEMS[name](x, y).realize()

    half = np.random.default_rng(0).standard_normal((6, 4, 4))
    x = Tensor((half + 4 * np.eye(4)).astype(np.float32)).realize()
    y = realized(6, 4, 2)
    lower = np.tril if name == "solve_triangular" else np.asarray
    for k in (2, 3, 4, 1, 2, 3):
        got = f(x, y, Variable("n", 1, 6).bind(k)).numpy()
        left = lower(x.numpy()[2] if shared == "a" else x.numpy()[:k])
        right = y.numpy()[1] if shared in ("b", "vector") else y.numpy()[:k]
        want = np.linalg.solve(left, right)
        np.testing.assert_allclose(
            got, want[..., 0] if shared == "vector" else want, rtol=1e-3, atol=1e-4
        )
    assert len(runs) == 2


@pytest.mark.parametrize("name", ["inv", "solve", "cholesky"])
def test_matrices_beyond_the_size_are_none(name):
    """What stands there may be singular: it is not looked at."""

    @TinyJit
    def f(x, y, n):
        known = x[:n] * 1
        if name == "solve":
            return linalg.solve(known, y[:n]).realize()
        return (linalg.inv if name == "inv" else linalg.cholesky)(known).realize()

    x = np.zeros((6, 3, 3), np.float32)
    x[:4] = np.diag([1.0, 2.0, 4.0]) + np.ones((3, 3))
    theirs = {"inv": np.linalg.inv, "cholesky": np.linalg.cholesky}
    y = realized(6, 3, 1)
    for k in (2, 3, 4, 1, 4):
        got = f(Tensor(x).realize(), y, Variable("n", 1, 6).bind(k)).numpy()
        want = theirs[name](x[:k]) if name in theirs else np.linalg.solve(x[:k], y.numpy()[:k])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(DECOMPOSED))
@pytest.mark.parametrize("axis", ["batch", "size"])
def test_decompositions(name, axis):
    """One recording serves batches of every length; of sizes of matrices each has its own."""
    ours, theirs = DECOMPOSED[name]
    runs = []

    @TinyJit
    def f(x, n):
        runs.append(1)
        return ours(x[:n] if axis == "batch" else x[0, :n, :n]).realize()

    half = np.random.default_rng(0).standard_normal((6, 4, 4))
    x = Tensor((half @ half.swapaxes(1, 2) + 4 * np.eye(4)).astype(np.float32)).realize()
    for k in (2, 3, 4, 1, 2, 3):
        want = theirs(x.numpy()[:k] if axis == "batch" else x.numpy()[0, :k, :k])
        got = f(x, Variable("n", 1, 6 if axis == "batch" else 4).bind(k)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    assert len(runs) == (2 if axis == "batch" else 5)


def test_values_that_are_outside():
    """They get recordings of their own, as eager calls have it: errors are errors."""
    runs = []

    @TinyJit
    def f(x, n):
        runs.append(1)
        part = x[:, n : n + 2]
        return (part * 2).realize(), x[:, :n].pad(((0, 0), (2, 0)), mode="reflect").realize()

    x = realized(3, 8)
    for k in (3, 4, 6, 7, 5, 7, 8):
        part, padded = f(x, Variable("n", 1, 8).bind(k))
        np.testing.assert_array_equal(part.numpy(), x.numpy()[:, k : k + 2] * 2)
        want = np.pad(x.numpy()[:, :k], ((0, 0), (2, 0)), mode="reflect")
        np.testing.assert_array_equal(padded.numpy(), want)
    assert len(runs) == 4  # plain, rows that are inside, and slices that are cut: of 7 and of 8
    for k in (2, 1):
        with pytest.raises(ValueError, match="pad of axis 1"):
            f(x, Variable("n", 1, 8).bind(k))


def test_cache():
    """A decoding loop: what is new goes to its place, all so far is attended."""
    runs, cache = [], Tensor.zeros(2, 1, 16, 2, 4).contiguous().realize()
    wq, wk, wv = (realized(8, 8) for _ in range(3))
    rotations = realized(16, 8)

    @TinyJit
    def step(x, n):
        runs.append(1)
        x = x + rotations[n]
        k, v = ((x @ w).reshape(1, 1, 2, 4) for w in (wk, wv))
        cache.shrink((None, None, (n, n + 1), None, None)).assign(Tensor.stack(k, v)).realize()
        keys, values = cache[0, :, : n + 1], cache[1][:, 0 : n + 1]
        return (
            attend((x @ wq).reshape(1, 1, 2, 4), keys, values)
            .transpose(1, 2)
            .reshape(1, 8)
            .realize()
        )

    keys, values, counts = [], [], []
    for k in range(12):
        x = data(1, 8)
        before = compiled()
        got = step(Tensor(x).realize(), Variable("start_pos", 0, 15).bind(k)).numpy()
        counts.append(compiled() - before)
        y = (x + rotations.numpy()[k]) @ np.stack([w.numpy() for w in (wq, wk, wv)])
        keys.append(y[1].reshape(2, 4)), values.append(y[2].reshape(2, 4))
        scores = np.einsum("hd,khd->hk", y[0].reshape(2, 4), np.array(keys)) / 2
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        want = np.einsum("hk,khd->hd", shares, np.array(values)).reshape(1, 8)
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5)
    assert len(runs) == 2 and not any(counts[2:])


def test_results_of_variable_size():
    f = TinyJit(lambda x: {"y": (x * 2).realize()})
    x, n = realized(3, 8), Variable("n", 1, 8)
    for k in (2, 3, 4, 8, 1):
        out = f(x[:, : n.bind(k)])["y"]
        assert repr(out.shape) == f"(3, n={k})"
        np.testing.assert_array_equal(out.numpy(), x.numpy()[:, :k] * 2)
        np.testing.assert_allclose(
            (out + 1).sum(1).numpy(), (x.numpy()[:, :k] * 2 + 1).sum(1), rtol=1e-5, atol=1e-6
        )


def test_training_on_variable_lengths():
    model = nn.Linear(4, 1)
    optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.1)
    truth, x = data(4, 1), realized(32, 4)
    runs = []

    @TinyJit
    def step(x, y):
        runs.append(1)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.realize()

    y, losses = Tensor(x.numpy() @ truth).realize(), []
    for k in range(60):
        n = Variable("n", 8, 32).bind(8 + k % 25)
        with Context(TRAINING=1):
            losses.append(step(x[:n], y[:n]).item())
    assert losses[-1] < 0.02 * losses[0] and len(runs) == 2


def test_refusals():
    n, x = Variable("n", 1, 8), realized(3, 8)
    f = TinyJit(lambda a, b: (a.sum() + b.sum()).realize())
    for k in range(1, 4):
        f(x[:, : n.bind(k)], realized(3, 8)[:, : n.bind(k)])
    with pytest.raises(JitError):  # another shape
        f(x[:, : n.bind(2)], realized(4, 8)[:, : n.bind(2)])
    with pytest.raises(JitError):  # another variable
        f(x[:, : Variable("m", 1, 8).bind(2)], realized(3, 8)[:, : n.bind(2)])
    with pytest.raises(JitError):  # none
        f(x, realized(3, 8))
    with pytest.raises(RuntimeError, match="bind mismatch"):
        f(x[:, : n.bind(2)], realized(3, 8)[:, : n.bind(3)])
    with pytest.raises(JitError):  # one name, two ranges
        f(x[:, : n.bind(2)], realized(3, 8)[:, : Variable("n", 1, 9).bind(2)])
    f(x[:, : n.bind(5)], realized(3, 8)[:, : n.bind(5)])
    g = TinyJit(lambda x, n: Tensor([x[:, :n].sum().item()]).realize())
    g(x, n.bind(2))
    with pytest.raises(JitError):
        g(x, n.bind(2))


# ---- replays of recordings with variables, which take a short way


def planned(f):
    """f under TinyJit, recorded with a tensor of n columns and n; and the calls of the long way."""
    jitted, long = TinyJit(f), []
    inputs = realized(4, 8), Variable("n", 1, 8)
    for k in (2, 3):
        jitted(inputs[0][:, : inputs[1].bind(k)], inputs[1].bind(k), 1)
    record = jitted._check
    jitted._check = lambda given: (long.append(given), record(given))[1]
    return jitted, long, *inputs


def test_short_way():
    f, long, x, n = planned(lambda x, n, more: ((x * n).sum(1) + more).realize())
    for k in (1, 8, 5, 3):
        got = f(x[:, : n.bind(k)], n.bind(k), 1)
        np.testing.assert_allclose(got.numpy(), x.numpy()[:, :k].sum(1) * k + 1, rtol=1e-5)
    assert not long and f.cnt == 6
    got = f(x[:, : n.bind(4)], n.bind(4), 7)  # a number is baked in
    np.testing.assert_allclose(got.numpy(), x.numpy()[:, :4].sum(1) * 4 + 1, rtol=1e-5)


def test_short_way_gives_sizes_anew():
    f, long, x, n = planned(lambda x, n, more: (x + n).realize())
    for k in (1, 8, 5):
        got = f(x[:, : n.bind(k)], n.bind(k), None)
        assert got.shape[1].val == k
        np.testing.assert_allclose(got.numpy(), x.numpy()[:, :k] + k)
    assert not long


def test_short_way_keeps_to_what_was_recorded():
    f, long, x, n = planned(lambda x, n, more: (x * n).sum(1).realize())
    five, other = n.bind(5), Variable("m", 1, 8).bind(5)
    for wrong in (
        (x, five, 1),
        (x[:, :five], other, 1),
        (x[:, :five].cast("half").realize(), five, 1),
        (x[:2, :five], five, 1),
        (x[:, :five], five, x),
        (x[:, : five - 1], five, 1),
    ):
        with pytest.raises(JitError):
            f(*wrong)
    with pytest.raises(RuntimeError, match="bind mismatch"):
        f(x[:, : n.bind(3)], five, 1)
    assert f(x[:, :five], five, 1).shape == (4,)


def test_short_way_with_values_that_were_seen():
    f, long, x, n = planned(lambda x, n, more: (x.sum(1) * (2 if n > 4 else 1)).realize())
    for k in (5, 6, 2, 1, 7, 8, 3):
        got = f(x[:, : n.bind(k)], n.bind(k), 1).numpy()
        np.testing.assert_allclose(got, x.numpy()[:, :k].sum(1) * (1 + (k > 4)), rtol=1e-5)
    assert len(long) == 4  # where the other recording has to be found


def test_replay_refuses():
    f, _, x, n = planned(lambda x, n, more: (x * n).sum(1).realize())
    for wrong in ((), ((x,),), ([x], (1,)), ((x,), [1]), ((x,), (1,), 2)):
        with pytest.raises(TypeError):
            f._replay(*wrong)
    with pytest.raises((TypeError, OverflowError)):
        f._replay((x,), ("a",))
    part = x[:, : n.bind(2)]
    for wrong in (((part,), ()), ((), (1,)), ((part, part), (1,)), ((3,), (1,)), ((part,), (1, 2))):
        assert f._replay(*wrong) is NotImplemented
    assert f._replay((x,), (1,)) is NotImplemented  # its sizes are numbers
    assert f._replay((part,), (2,)).shape == (4,)


# Loops that end at the value: (the function, the same of NumPy, shapes), n being 1 to 40.
def softmax_of(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention_of(q, k, v):
    return softmax_of(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -1) @ v


ENDS = {
    "sum": (lambda x: x.sum(1), lambda x: x.sum(1), [(9, "n")]),
    "sum of all": (lambda x: x.sum(), lambda x: x.sum(), [("n", "n")]),
    "columns": (lambda x: x.sum(0), lambda x: x.sum(0), [("n", 33)]),
    "softmax": (lambda x: x.softmax(1) * 2, lambda x: softmax_of(x, 1) * 2, [(9, "n")]),
    "of rows": (lambda x: x.softmax(1), lambda x: softmax_of(x, 1), [("n", 33)]),
    "logsumexp": (
        lambda x: x.logsumexp(1),
        lambda x: np.log(np.exp(x).sum(1)),
        [(9, "n")],
    ),
    "one row": (lambda x, y: x @ y, lambda x, y: x @ y, [(1, "n"), ("n", 24)]),
    "one column": (lambda x, y: x @ y, lambda x, y: x @ y, [("n", 24), (24, 1)]),
    "turned": (lambda x, y: x @ y.T, lambda x, y: x @ y.T, [(2, 24), ("n", 24)]),
    "rows": (lambda x, y: x @ y + 1, lambda x, y: x @ y + 1, [("n", 24), (24, 33)]),
    "batches": (lambda x, y: x @ y, lambda x, y: x @ y, [("n", 2, 24), ("n", 24, 5)]),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v),
        attention_of,
        [(2, 3, 1, 8), (2, 3, "n", 8), (2, 3, "n", 8)],
    ),
    "to few": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v),
        attention_of,
        [(3, 5, 8), (3, "n", 8), (3, "n", 2)],
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_at_every_value(name):
    """Beyond the size stands NaN, which nothing may read."""
    f, expected, shapes = ENDS[name]
    most, n = 40, Variable("n", 1, 40)
    whole = [data(*(most if d == "n" else d for d in s)) for s in shapes]
    jitted = TinyJit(lambda *x: f(*x).realize())
    before = None
    for k in (3, 40, *range(1, 41)):
        cuts = [tuple(slice(k if d == "n" else None) for d in s) for s in shapes]
        given = []
        for x, cut in zip(whole, cuts):
            held = np.full_like(x, np.nan)
            held[cut] = x[cut]
            place = tuple(slice(n.bind(k)) if part.stop else part for part in cut)
            given.append(Tensor(held).realize()[place])
        out = jitted(*given)
        got = dynamic.whole(out).numpy()[tuple(slice(int(d)) for d in out.shape)]
        want = expected(*(x[cut] for x, cut in zip(whole, cuts)))
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
        if k == 1:
            before = compiled()
    assert compiled() == before  # one recording for all values
