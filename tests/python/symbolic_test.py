"""Variables as sizes and positions: every operation against NumPy on the part meant."""

import numpy as np
import pytest

from aster_ml import GlobalCounters, Tensor, Variable, dtypes
from aster_ml import _native

RNG = np.random.default_rng(0)


def data(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(q, k, v, mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return softmax(scores if mask is None else scores + mask, -1) @ v


A, B, C, POISON = data(6, 8), data(8, 6), data(2, 8, 4), data(6, 8)
POISON[:, 5:] = np.nan  # beyond every size used below

LABELS = [5, 1, 0, 3, 3]

# (name, the program of a, a size n and positions; the same in NumPy), n in 2..5.
CASES = [
    ("add", lambda t, n: t(A)[:, :n] + t(A)[:, :n] * 2, lambda n: A[:, :n] * 3),
    ("scalar", lambda t, n: 1 - t(A)[:, :n], lambda n: 1 - A[:, :n]),
    ("by n", lambda t, n: t(A)[:, :n] * n + n, lambda n: A[:, :n] * n + n),
    ("row", lambda t, n: t(A)[:, :n] + t(A)[:1, :n], lambda n: A[:, :n] + A[:1, :n]),
    ("column", lambda t, n: t(A)[:, :n] * t(A)[:, :1], lambda n: A[:, :n] * A[:, :1]),
    ("cast", lambda t, n: t(A)[:, :n].cast("int32"), lambda n: A[:, :n].astype(np.int32)),
    (
        "where",
        lambda t, n: (t(A)[:, :n] > 0).where(t(A)[:, :n], 7),
        lambda n: np.where(A[:, :n] > 0, A[:, :n], 7),
    ),
    ("n + 1", lambda t, n: t(A)[:, : n + 1], lambda n: A[:, : n + 1]),
    ("n - 1", lambda t, n: t(A)[:, : n - 1], lambda n: A[:, : n - 1]),
    ("2n // 2", lambda t, n: t(A)[:, : 2 * n // 2], lambda n: A[:, :n]),
    ("rows", lambda t, n: t(A)[n:], lambda n: A[n:]),
    ("part", lambda t, n: t(A)[1:3, n : n + 2], lambda n: A[1:3, n : n + 2]),
    ("from 1", lambda t, n: t(A)[:, 1:n], lambda n: A[:, 1:n]),
    ("n to 2n", lambda t, n: t(data2)[n : 2 * n], lambda n: data2[n : 2 * n]),
    ("position", lambda t, n: t(A)[:, n], lambda n: A[:, n]),
    ("negative", lambda t, n: t(A)[:, :n][:, -2:], lambda n: A[:, :n][:, -2:]),
    ("last", lambda t, n: t(A)[:, :n][:, -1], lambda n: A[:, n - 1]),
    ("stepped", lambda t, n: t(A)[:, :n][:, ::2], lambda n: A[:, :n:2]),
    ("shrink", lambda t, n: t(A).shrink(((1, 4), (n, n + 2))), lambda n: A[1:4, n : n + 2]),
    ("transposed", lambda t, n: t(A)[:, :n].T, lambda n: A[:, :n].T),
    ("permuted", lambda t, n: t(C)[:, :n].permute(2, 1, 0), lambda n: C[:, :n].transpose(2, 1, 0)),
    ("unsqueeze", lambda t, n: t(A)[:, :n].unsqueeze(1).squeeze(1), lambda n: A[:, :n]),
    ("split", lambda t, n: t(C)[:, :n].reshape(2, n, 2, 2), lambda n: C[:, :n].reshape(2, n, 2, 2)),
    ("merged", lambda t, n: t(B)[:n].reshape(-1), lambda n: B[:n].reshape(-1)),
    ("merged behind", lambda t, n: t(A)[:, :n].flatten(), lambda n: A[:, :n].flatten()),
    ("split again", lambda t, n: t(B)[:n].flatten().reshape(n, 6), lambda n: B[:n]),
    ("expanded", lambda t, n: t(A)[:, :1].expand(6, n), lambda n: np.repeat(A[:, :1], n, 1)),
    (
        "expanded beside",
        lambda t, n: t(A)[:, :n].unsqueeze(0).expand(3, -1, n),
        lambda n: np.stack([A[:, :n]] * 3),
    ),
    (
        "padded",
        lambda t, n: t(A)[:, :n].pad(((1, 0), (2, 1))),
        lambda n: np.pad(A[:, :n], ((1, 0), (2, 1))),
    ),
    (
        "padded up",
        lambda t, n: t(A)[:, :n].pad((None, (0, 8 - n))),
        lambda n: np.pad(A[:, :n], ((0, 0), (0, 8 - n))),
    ),
    ("padded by", lambda t, n: t(A).pad(((0, n), (0, 0))), lambda n: np.pad(A, ((0, n), (0, 0)))),
    ("cat", lambda t, n: t(A)[:, :n].cat(t(A), dim=1), lambda n: np.concatenate([A[:, :n], A], 1)),
    (
        "cat two",
        lambda t, n: t(A)[:, :n].cat(t(A)[:, : n + 1], t(A)[:, :2], dim=-1),
        lambda n: np.concatenate([A[:, :n], A[:, : n + 1], A[:, :2]], 1),
    ),
    (
        "cat beside",
        lambda t, n: t(A)[:, :n].cat(t(A)[:2, :n]),
        lambda n: np.concatenate([A[:, :n], A[:2, :n]]),
    ),
    (
        "stack",
        lambda t, n: t(A)[:, :n].stack(t(A)[:, :n], dim=1),
        lambda n: np.stack([A[:, :n]] * 2, 1),
    ),
    ("flip", lambda t, n: t(A)[:, :n].flip(1), lambda n: A[:, n - 1 :: -1]),
    ("roll", lambda t, n: t(A)[:, :n].roll(1, 1), lambda n: np.roll(A[:, :n], 1, 1)),
    (
        "embedding",
        lambda t, n: t(B)[Tensor([[3, 1, 2, 0, 4, 5]])[:, :n]],
        lambda n: B[np.array([[3, 1, 2, 0, 4, 5]])[:, :n]],
    ),
    ("sum", lambda t, n: t(POISON)[:, :n].sum(1), lambda n: POISON[:, :n].sum(1)),
    ("sum all", lambda t, n: t(POISON)[:, :n].sum(), lambda n: POISON[:, :n].sum()),
    ("sum beside", lambda t, n: t(A)[:, :n].sum(0), lambda n: A[:, :n].sum(0)),
    (
        "sum int",
        lambda t, n: t((A * 10).astype(np.int8))[:, :n].sum(1),
        lambda n: (A * 10).astype(np.int8)[:, :n].sum(1),
    ),
    ("prod", lambda t, n: t(POISON)[:, :n].prod(1), lambda n: POISON[:, :n].prod(1)),
    (
        "max",
        lambda t, n: t(POISON)[:, :n].max(1, keepdim=True),
        lambda n: POISON[:, :n].max(1, keepdims=True),
    ),
    ("max below 0", lambda t, n: (t(A)[:, :n] - 9).max(), lambda n: (A[:, :n] - 9).max()),
    ("min", lambda t, n: t(POISON)[:, :n].min(-1), lambda n: POISON[:, :n].min(1)),
    ("any", lambda t, n: (t(A)[:, :n] > 9).any(1), lambda n: (A[:, :n] > 9).any(1)),
    ("all", lambda t, n: (t(POISON)[:, :n] < 9).all(1), lambda n: (POISON[:, :n] < 9).all(1)),
    ("mean", lambda t, n: t(POISON)[:, :n].mean(1), lambda n: POISON[:, :n].mean(1)),
    ("mean both", lambda t, n: t(A)[:n, :n].mean(), lambda n: A[:n, :n].mean()),
    ("mean beside", lambda t, n: t(A)[:, :n].mean(0), lambda n: A[:, :n].mean(0)),
    ("var", lambda t, n: t(POISON)[:, :n].var(1), lambda n: POISON[:, :n].var(1, ddof=1)),
    ("var all", lambda t, n: t(A)[:n, :n].var(), lambda n: A[:n, :n].var(ddof=1)),
    ("std", lambda t, n: t(A)[:, :n].std(1, correction=0), lambda n: A[:, :n].std(1)),
    ("std_mean", lambda t, n: t(A)[:, :n].std_mean(1)[1], lambda n: A[:, :n].mean(1)),
    ("argmax", lambda t, n: t(POISON)[:, :n].argmax(1), lambda n: POISON[:, :n].argmax(1)),
    ("argmin", lambda t, n: t(POISON)[:, :n].argmin(1), lambda n: POISON[:, :n].argmin(1)),
    ("softmax", lambda t, n: t(POISON)[:, :n].softmax(1), lambda n: softmax(POISON[:, :n], 1)),
    ("softmax beside", lambda t, n: t(A)[:, :n].softmax(0), lambda n: softmax(A[:, :n], 0)),
    (
        "log_softmax",
        lambda t, n: t(POISON)[:, :n].log_softmax(),
        lambda n: np.log(softmax(POISON[:, :n], 1)),
    ),
    (
        "logsumexp",
        lambda t, n: t(POISON)[:, :n].logsumexp(1),
        lambda n: np.log(np.exp(POISON[:, :n]).sum(1)),
    ),
    ("cumsum", lambda t, n: t(POISON)[:, :n].cumsum(1), lambda n: POISON[:, :n].cumsum(1)),
    ("sort", lambda t, n: t(A)[:, :n].sort(1)[0], lambda n: np.sort(A[:, :n], 1)),
    ("inner", lambda t, n: t(POISON)[:, :n] @ t(B)[:n], lambda n: POISON[:, :n] @ B[:n]),
    ("rows of product", lambda t, n: t(A)[:n] @ t(B), lambda n: A[:n] @ B),
    ("columns of product", lambda t, n: t(A) @ t(B)[:, :n], lambda n: A @ B[:, :n]),
    (
        "batches",
        lambda t, n: t(C)[:, :n] @ t(C)[:, :n].transpose(1, 2),
        lambda n: C[:, :n] @ C[:, :n].transpose(0, 2, 1),
    ),
    ("linear", lambda t, n: t(A)[:n].linear(t(B), t(B)[0]), lambda n: A[:n] @ B + B[0]),
    ("vector", lambda t, n: t(A)[:, :n] @ t(B)[:n, 0], lambda n: A[:, :n] @ B[:n, 0]),
    (
        "attention",
        lambda t, n: t(C)[:, :1].scaled_dot_product_attention(t(C)[:, :n], t(C)[:, :n]),
        lambda n: attention(C[:, :1], C[:, :n], C[:, :n]),
    ),
    (
        "self attention",
        lambda t, n: t(C)[:, :n].scaled_dot_product_attention(t(C)[:, :n], t(C)[:, :n]),
        lambda n: attention(*[C[:, :n]] * 3),
    ),
    (
        "causal",
        lambda t, n: t(C)[:, :n].scaled_dot_product_attention(
            t(C)[:, :n], t(C)[:, :n], is_causal=True
        ),
        lambda n: attention(*[C[:, :n]] * 3, np.triu(np.full((n, n), -np.inf), 1)),
    ),
    (
        "queries",
        lambda t, n: t(C)[:, :n].scaled_dot_product_attention(t(C), t(C)),
        lambda n: attention(C[:, :n], C, C),
    ),
    (
        "batch",
        lambda t, n: t(D)[:n].scaled_dot_product_attention(t(D)[:n], t(D)[:n]),
        lambda n: attention(*[D[:n]] * 3),
    ),
    (
        "mask",
        lambda t, n: t(C).scaled_dot_product_attention(t(C)[:, :n], t(C)[:, :n], t(M)[:, :n]),
        lambda n: attention(C, C[:, :n], C[:, :n], M[:, :n]),
    ),
    (
        "triu",
        lambda t, n: Tensor.full((3, n + 3), 2.0).triu(n + 1),
        lambda n: np.triu(np.full((3, n + 3), 2.0), n + 1),
    ),
    (
        "tril",
        lambda t, n: Tensor.full((3, n + 3), 2.0).tril(n - 1),
        lambda n: np.tril(np.full((3, n + 3), 2.0), n - 1),
    ),
    ("ones", lambda t, n: Tensor.ones(n, 3).contiguous()[:, 1:2], lambda n: np.ones((n, 1))),
    (
        "arange",
        lambda t, n: Tensor.arange(n) + Tensor.arange(n, 2 * n),
        lambda n: np.arange(n) * 2 + n,
    ),
    ("arange by", lambda t, n: Tensor.arange(0, 12, n), lambda n: np.arange(0, 12, n)),
    ("full", lambda t, n: Tensor.full((3,), n), lambda n: np.full(3, n)),
    ("one", lambda t, n: Tensor(n) + 3, lambda n: np.int32(n + 3)),
    ("bitcast", lambda t, n: t(A)[:n].bitcast(dtypes.int32), lambda n: A[:n].view(np.int32)),
    ("bitcast down", lambda t, n: t(A)[:n].bitcast(dtypes.uint8), lambda n: A[:n].view(np.uint8)),
    (
        "convolution",
        lambda t, n: t(C)[:, :n].unsqueeze(1).conv2d(t(C)[:, None, :2, :2]),
        lambda n: conv(C[:, None, :n], C[:, None, :2, :2]),
    ),
    (
        "max pool",
        lambda t, n: t(POISON)[:, : n - 1].max_pool2d((1, 2), 1, padding=(0, 1)),
        lambda n: np.maximum(*padded(POISON[:, : n - 1], -np.inf)),
    ),
    (
        "mean pool",
        lambda t, n: t(POISON)[:, :n].avg_pool2d((1, 2), 1, padding=(0, 1)),
        lambda n: sum(padded(POISON[:, :n], 0)) / 2,
    ),
    (
        "mean pool inside",
        lambda t, n: t(A)[:, :n].avg_pool2d((1, 2), 1, padding=(0, 1), count_include_pad=False),
        lambda n: sum(padded(A[:, :n], 0)) / np.array([1] + [2] * (n - 1) + [1]),
    ),
    (
        "unfold",
        lambda t, n: t(A)[:, :n].unfold(1, 2, 1),
        lambda n: np.stack([A[:, : n - 1], A[:, 1:n]], -1),
    ),
    (
        "scatter",
        lambda t, n: t(A).scatter_reduce(
            1, Tensor([[3, 1, 1, 0, 3]] * 6)[:, :n], t(B)[:n, 0].expand(6, n), "sum"
        ),
        lambda n: added(n),
    ),
    ("every second", lambda t, n: t(A)[:, n:0:-2], lambda n: A[:, n:0:-2]),
    ("list", lambda t, n: t(A)[:, :n][:, [-1, 0]], lambda n: A[:, [n - 1, 0]]),
    (
        "tensors",
        lambda t, n: t(A)[Tensor([[0, 5]]), :n, None],
        lambda n: A[[[0, 5]], :n, None],
    ),
    (
        "one hot",
        lambda t, n: Tensor([3, 0, 1, 2, 1])[:n].one_hot(4),
        lambda n: np.eye(4)[[3, 0, 1, 2, 1][:n]],
    ),
    ("diag", lambda t, n: t(A)[0, :n].diag(), lambda n: np.diag(A[0, :n])),
    ("eye", lambda t, n: Tensor.eye(n, n + 1), lambda n: np.eye(n, n + 1)),
    ("linspace", lambda t, n: Tensor.linspace(-1, 1, n), lambda n: np.linspace(-1, 1, n)),
    (
        "swapped",
        lambda t, n: t(A)[:, :n].rearrange("(a b) n -> (n b) a", a=2),
        lambda n: A[:, :n].reshape(2, 3, n).transpose(2, 1, 0).reshape(-1, 2),
    ),
    (
        "repeated n times",
        lambda t, n: t(A)[:, :n].repeat(1, n),
        lambda n: np.tile(A[:, :n], n),
    ),
    (
        "padded n before",
        lambda t, n: t(A)[:, :n].pad(((0, 0), (n, 1)), value=3),
        lambda n: np.pad(A[:, :n], ((0, 0), (n, 1)), constant_values=3),
    ),
    (
        "labels",
        lambda t, n: t(POISON.T.copy())[:n].sparse_categorical_crossentropy(Tensor(LABELS)[:n]),
        lambda n: -np.log(softmax(POISON.T[:n], 1))[range(n), LABELS[:n]].mean(),
    ),
    (
        "written beyond",
        lambda t, n: written_from(t, n),
        lambda n: np.concatenate([A[:, :n], np.zeros((6, 7 - n))], 1),
    ),
    ("chunks", lambda t, n: t(A)[:, :n].chunk(2)[1], lambda n: A[3:, :n]),
    (
        "assigned",
        lambda t, n: written(t, n),
        lambda n: np.concatenate([np.zeros((2, n)), A[:2, :2], np.zeros((2, 6 - n))], 1),
    ),
]
data2, D, M = data(12, 3), data(8, 3, 4), data(8, 8)


def conv(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x[:, 0], w.shape[-2:], (1, 2))
    return np.einsum("nyxab,oab->noyx", windows, w[:, 0])


def padded(x, fill):
    """x with one more element in front, and with one behind."""
    return [np.pad(x, ((0, 0), ends), constant_values=fill) for ends in ((1, 0), (0, 1))]


def added(n):
    out = A.copy()
    for place, value in zip([3, 1, 1, 0, 3][:n], B[:n, 0]):
        out[:, place] += value
    return out


def written_from(t, n):
    x = Tensor.zeros(6, 7).contiguous().realize()
    x[:, :n] = t(A)[:, :n]  # of another memory behind it
    return x


def written(t, n):
    x = Tensor.zeros(2, 8).contiguous().realize()
    x[:, n : n + 2] = t(A)[:2, :2]
    return x


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_as_numpy(case):
    _, program, expected = case
    for n in (2, 3, 5):
        got = program(lambda x: Tensor(x).realize(), Variable("n", 1, 6).bind(n))
        want = np.asarray(expected(n))
        assert tuple(int(d) for d in got.shape) == want.shape
        np.testing.assert_allclose(got.realize().numpy(), want, rtol=3e-5, atol=2e-6)


def test_two_variables():
    i, j = Variable("i", 1, 6), Variable("j", 1, 8)
    a, b = Tensor(A).realize(), Tensor(B).realize()
    for m, n in ((2, 3), (4, 2)):
        rows, columns = i.bind(m), j.bind(n)
        part = a[:rows, :columns]
        for axis in (None, 0, 1):
            np.testing.assert_allclose(
                part.mean(axis).numpy(), A[:m, :n].mean(axis), rtol=1e-5, atol=1e-6
            )
            np.testing.assert_allclose(
                part.var(axis).numpy(), A[:m, :n].var(axis, ddof=1), rtol=1e-4
            )
        np.testing.assert_allclose(
            (part @ b[:columns] + 1).numpy(), A[:m, :n] @ B[:n] + 1, rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(
            (a[:rows] @ b[:, :rows]).numpy(), A[:m] @ B[:, :m], rtol=1e-4, atol=1e-5
        )
        joined = a[:rows].cat(a[:columns] if n <= 6 else a)
        np.testing.assert_allclose(joined.numpy(), np.concatenate([A[:m], A[:n]]))
        assert part.sum((0, 1)).shape == () and part.shape[0].vmax == 6


def test_shapes_show_the_variables():
    n = Variable("n", 1, 6).bind(3)
    x = Tensor(A).realize()[:, :n]
    assert (
        _native.lazy_is_symbolic(x)
        and x.shape == (6, 3)
        and x.shape[1].unbind() == (Variable("n", 1, 6), 3)
    )
    assert repr(x.shape) == "(6, n=3)" and x.max_shape == (6, 6) and x.numel() == 18
    assert repr((x.T.reshape(-1)).shape) == "((n*6)=18,)"
    assert x.tolist() == A[:, :3].tolist() and len(x.T) == 3 and "n=3" in repr(x)
    assert (n + 2 - n, (n + 1) - 1, (2 * n) // 2, (n * 4) % 2) == (2, n, n, 0)
    assert (2 + n).expression == (n + 2).expression and (n * 2 + n).expression == (3 * n).expression


def test_sizes_that_may_be_beyond_the_memory():
    """What is now inside serves; where the variable is greater, slices end with the axis."""
    x, m = Tensor(A.copy()).realize(), Variable("m", 1, 20).bind(7)
    part, want = x[:, :m], A[:, :7]
    assert repr(part.shape) == "(6, m=7)"
    for got, expected in (
        (part.cat(part, dim=1), np.concatenate([want] * 2, 1)),
        (part.reshape(-1), want.reshape(-1)),
        (part.flip(1), want[:, ::-1]),
        (part.pad(((0, 0), (2, 1))), np.pad(want, ((0, 0), (2, 1)))),
        (part.repeat(1, 2), np.tile(want, 2)),
        (part.sum(1), want.sum(1)),
    ):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)
    part.assign(part * 2).realize()
    np.testing.assert_allclose(x.numpy(), np.concatenate([want * 2, A[:, 7:]], 1))


def test_kernels_serve_all_values():
    n, x = Variable("n", 1, 6), Tensor(data(7, 9)).realize()
    counts = []
    for k in (1, 2, 4, 6):
        before = _native.engine_count()["kernels_compiled"]
        v = n.bind(k)
        ((x[:, :v] * 3).softmax(1) @ x[:v] + x[:, v : v + 1]).realize()
        counts.append(_native.engine_count()["kernels_compiled"] - before)
    assert counts[1:] == [0, 0, 0]


def test_writes():
    n = Variable("n", 0, 6)
    cache, want = Tensor.zeros(2, 8, 3).contiguous().realize(), np.zeros((2, 8, 3), np.float32)
    for k in (0, 2, 5):
        v, new = n.bind(k), data(2, 2, 3)
        cache[:, v : v + 2] = Tensor(new)
        want[:, k : k + 2] = new
        np.testing.assert_array_equal(cache.numpy(), want)
        cache[:, v] = 7.0
        want[:, k] = 7
        cache.shrink((None, (v + 1, v + 2), None)).assign(Tensor(new[:, :1])).realize()
        want[:, k + 1 : k + 2] = new[:, :1]
        np.testing.assert_array_equal(cache.numpy(), want)
        if k:
            cache[:, :v].assign(cache[:, :v] * 2).realize()
            want[:, :k] *= 2
            cache[0, :v] += 1
            want[0, :k] += 1
        np.testing.assert_array_equal(cache.numpy(), want)
        assert cache[:, v : v + 2].assign(Tensor(new)).numpy().tolist() == new.tolist()
        want[:, k : k + 2] = new
        cache[0][v] = 3.0
        want[0][k] = 3
        np.testing.assert_array_equal(cache.numpy(), want)


def test_writes_where_two_axes_are_variables():
    x, y = Tensor.zeros(5, 6, 7).contiguous().realize(), Tensor(data(9, 8)).realize()
    want, n = np.zeros((5, 6, 7), np.float32), Variable("n", 0, 4)
    m = Variable("m", 0, 6)
    for i, j in ((1, 2), (4, 5), (3, 0), (0, 6)):
        a, b = n.bind(i), m.bind(j)
        x[:, :a, :b] = y[:a, :b]
        want[:, :i, :j] = y.numpy()[:i, :j]
        np.testing.assert_array_equal(x.numpy(), want)
        x[a, b - j, 1:b] = 3.0
        want[i, 0, 1:j] = 3
        x[:a, b - j, ::2] = Tensor(data(1, 4))[:, :1]
        want[:i, 0, ::2] = x.numpy()[:i, 0, ::2]
        x[:a, 1, :b] = y[0, :b]  # apart
        want[:i, 1, :j] = y.numpy()[0, :j]
        np.testing.assert_array_equal(x.numpy(), want)


def test_gradients():
    n = Variable("n", 1, 8).bind(3)
    x, w = Tensor(A).realize(), Tensor(B).realize()
    ((x[:, :n] @ w[:n]).square().mean() + x[:, n].sum()).backward()
    y, want = A[:, :3] @ B[:3], np.zeros_like(A)
    want[:, :3] = 2 * y @ B[:3].T / y.size
    want[:, 3] = 1
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4, atol=1e-6)


def test_refusals():
    n, x = Variable("n", 1, 10), Tensor(A).realize()
    for wrong in (0, 11):
        with pytest.raises(AssertionError, match="not in range"):
            n.bind(wrong)
    with pytest.raises(AttributeError):
        n.bind(3).bind(4)
    with pytest.raises(RuntimeError, match="bind mismatch"):
        n.bind(2) + n.bind(3)
    with pytest.raises(TypeError):
        x[:n]
    with pytest.raises(ValueError):
        Tensor(data(30)).reshape(3, n.bind(4))
    with pytest.raises(AssertionError):
        x[:, : n.bind(4)].chunk(2, dim=1)
    with pytest.raises(ValueError):
        x[:, : n.bind(4)] + x[:, : Variable("m", 1, 10).bind(3)]
    with pytest.raises(IndexError):
        x[:, n.bind(9)]
    with pytest.raises(TypeError):
        Tensor(n)
    assert x[: n.bind(10)].shape == (6, 8)  # as slices are


def test_seen_values():
    GlobalCounters.reset()
    n = Variable("n", 1, 10).bind(3)
    assert [int(n), float(n), n / 2, n * 0.5, list(range(n)), [1, 2, 3, 4][n]] == [
        3,
        3.0,
        1.5,
        1.5,
        [0, 1, 2],
        4,
    ]
    assert (
        n == 3
        and n != 4
        and n > 2
        and n >= 3
        and n < 4
        and n <= 3
        and bool(n)
        and hash(n) == hash(3)
    )
    assert f"{n:03d}" == "003" and str(n) == "n=3" and divmod(int(n), 2) == (1, 1) and n != "n"
    assert max(n, 2) == 3 and sum([n, n]) == 6 and -n == -3 and abs(-n) == 3 and 2**n == 8


def test_variables_and_numbers_beyond_32_bits():
    wide, narrow = Variable("w", 0, 2**40), Variable("n", 0, 2**31 - 1)
    zeros = Tensor([0, 1], dtype="int64")
    assert (zeros + wide.bind(2**35)).tolist() == [2**35, 2**35 + 1]
    assert (zeros + narrow.bind(2**31 - 1) * 4).tolist() == [2**33 - 4, 2**33 - 3]
    assert (zeros + (narrow.bind(3) + 2**40)).tolist() == [2**40 + 3, 2**40 + 4]
    assert (zeros + (2**40 - narrow.bind(3)) // 2).tolist() == [2**39 - 2, 2**39 - 1]
    assert (zeros + narrow.bind(7) % 2**33).tolist() == [7, 8]
    x = Tensor.arange(2**33 + 8)
    at = Variable("at", 0, 2**33).bind(2**32 + 7)
    assert x[at].item() == 2**32 + 7
    assert x.shrink(((at, at + 2),)).tolist() == [2**32 + 7, 2**32 + 8]


def test_padding_keeps_the_dtype():
    n = Variable("n", 1, 10).bind(4)
    for x in (Tensor.arange(10), Tensor.ones(10, dtype="bool"), Tensor.ones(10, dtype="half")):
        for pads in ((0, 10 - n), (n, 0), (1, 1)):
            assert x[:n].pad(pads).dtype is x.dtype
    plain = Tensor.arange(10).pad((0, 1), value=0.5)
    assert Tensor.arange(10)[:n].pad((0, 1), value=0.5).dtype is plain.dtype


def test_bound_variables_are_uops():
    from aster_ml import UOp
    from aster_ml.uop.ops import UOp as same_uop
    from aster_ml.uop.ops import Variable as as_type

    n = Variable("n", 1, 10, dtypes.int32)
    assert same_uop is as_type is UOp
    for x in (n, n + 1, n.bind(3), n.bind(3) * 2 + 1, UOp.variable("m", 0, 4)):
        assert isinstance(x, UOp) and x.shape == () and x.ndim == 0 and x.numel() == 1
    part = Tensor.ones(10, 4)[: n.bind(3)]
    assert [isinstance(s, UOp) for s in part.shape] == [True, False]
    assert n.dtype is (n + 1).dtype is n.bind(3).dtype is (n.bind(3) + 1).dtype is dtypes.int32
    assert (Variable("m", 0, 4) * 2).dtype is dtypes.weakint and (n < 3).dtype is dtypes.bool


def test_members_of_symbolic_sizes_are_tinygrads():
    tinygrad = pytest.importorskip("tinygrad")
    from aster_ml import UOp
    import aster_ml as package
    from aster_ml.uop import ops as own

    def asked(library, kinds, ops):
        n = library.UOp.variable("n", 2, 8, multiple_of=2)
        m = library.UOp.variable("m", 0, 300)
        sizes = [n, m, n * 6 + 4, m * 4 - 8, n * 3 + m * 3, n + m, (m + 1) % 7, m // 2 * 10]
        for x in sizes:
            yield from (x.is_variable, x.is_bound_var, x.const_factor(), x.ssimplify() is not None)
            yield from (x.overflows(kinds.uint8), x.overflows(kinds.int32))
            divided = [x.divides(v) for v in (1, 2, 3, 4)]
            yield from (d if d is None else (d.vmin, d.vmax) for d in divided)
            values = {"n": 4, "m": 21}
            made = (x.add(3), x.sub(3, reverse=True), x.mul(n), x.mod(5), x.neg())
            yield from (ops.sym_infer(y, values) for y in made)
            yield [v.expr for v in x.unbind_all()[0].variables()]
            yield x.sym_infer(values)
        bound = n.bind(4)
        yield from (bound.is_variable, bound.is_bound_var, (bound + 1).is_bound_var)

    theirs = list(asked(tinygrad, tinygrad.dtypes, tinygrad.uop.ops))
    assert list(asked(package, dtypes, own)) == theirs
    four = UOp.variable("n", 2, 8).bind(4)
    assert (four * 6 + 2).divides(2) == 13 and (four * 6 + 2).divides(4) is None
    assert (four * 6).const_factor() == 6 and four.overflows(dtypes.uint8) is False


def test_unbound_variables_have_no_tensors():
    n, x = Variable("n", 1, 10), Tensor.ones(10, 4)
    for use in (
        lambda: Tensor.empty(n), lambda: Tensor.empty(n, 3), lambda: Tensor.ones(n * 2 + 1),
        lambda: Tensor.full((n,), 2), lambda: Tensor.arange(n), lambda: x[:n], lambda: x[n],
        lambda: x.shrink(((0, n), None)), lambda: x.reshape(n, 4), lambda: x[:1].expand(n, 4),
        lambda: x.pad(((0, n), (0, 0))), lambda: Tensor(n), lambda: x * n, lambda: x + (n - 1),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="n.* has no value: bind its variables first"):
            use()
    assert Tensor.arange(n.bind(3)).sum().item() == 3
