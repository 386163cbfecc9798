"""Scaled dot-product attention in every form against NumPy in double: lengths that no part divides,
dtypes, rows with NaN, infinities or nothing to see; gradients of gradients."""

import numpy as np
import pytest

from aster_ml import Tensor, dtypes, registry

FORMS = ["default", "force=composed", "force=tiled", "force=streaming"]


def in_double(q, k, v, mask=None, causal=False):
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    run = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, run, -3), np.repeat(v, run, -3)
    with np.errstate(invalid="ignore"):
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return p @ v, p


def normal(*shape, seed=0):
    return np.random.default_rng(seed + len(shape)).standard_normal(shape).astype(np.float32)


def attend(form, q, k, v, **named):
    try:
        with registry.policies(attention=form):
            return q.scaled_dot_product_attention(k, v, **named)
    except NotImplementedError as error:
        if "fewer than 128" not in str(error):
            raise
        pytest.skip("one part")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 7, 129, 1000])
@pytest.mark.parametrize("form", FORMS)
def test_lengths(form, length, causal):
    q, k, v = normal(2, length, 16), normal(2, length, 16, seed=1), normal(2, length, 20, seed=2)
    y = attend(form, Tensor(q), Tensor(k), Tensor(v), is_causal=causal).numpy()
    np.testing.assert_allclose(y, in_double(q, k, v, causal=causal)[0], atol=3e-6)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_dtypes(form, name):
    dtype = getattr(dtypes, name)
    epsilon = {"float64": 1e-12, "float32": 3e-6, "float16": 2e-3, "bfloat16": 2e-2}[name]
    given = [Tensor(normal(2, n, 16, seed=n)).cast(dtype).realize() for n in (200, 150, 150)]
    q, k, v = (x.cast(dtypes.float64).numpy() for x in given)
    y = attend(form, *given, is_causal=True)
    assert y.dtype == dtype
    expected, p = in_double(q, k, v, causal=True)
    got = y.cast(dtypes.float64).numpy()
    np.testing.assert_allclose(got, expected, atol=epsilon, rtol=epsilon)
    dy = normal(2, 200, 16, seed=9)
    slopes = (y * Tensor(dy).cast(dtype)).sum().gradient(*given)
    dp = dy.astype(np.float64) @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / 4
    wanted = ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dy
    for x, slope in zip(slopes, wanted):
        assert x.dtype == dtype
        error = np.abs(x.cast(dtypes.float64).numpy() - slope).max()
        assert error <= 8 * epsilon * max(1, np.abs(slope).max())


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_are_special(form):
    q, k, v = normal(1, 300, 8), normal(1, 300, 8, seed=1), normal(1, 300, 8, seed=2)
    q[0, 70, 3], q[0, 71], q[0, 200] = np.nan, np.inf, 1e20
    mask = np.random.default_rng(3).random((300, 300)) < 0.7
    mask[5], mask[290] = False, False
    y = attend(form, Tensor(q), Tensor(k), Tensor(v), attn_mask=Tensor(mask)).numpy()
    expected = in_double(q, k, v, mask)[0]
    expected[0, 200] = v[0, np.argmax(np.where(mask[200], k[0].sum(-1), -np.inf))]
    assert np.isnan(expected[0]).any(1).tolist() == [r in (5, 70, 71, 290) for r in range(300)]
    np.testing.assert_allclose(y, expected, atol=3e-6)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_a_row_without_keys(form):
    q, k, v = (Tensor(normal(1, n, 8, seed=n)) for n in (200, 140, 140))
    mask = np.ones((200, 140), bool)
    mask[17] = False
    y = attend(form, q, k, v, attn_mask=Tensor(mask))
    dq, dk, dv = (x.numpy() for x in y.sum().gradient(q, k, v))
    assert np.isfinite(dq).all() and (dq[0, 17] == 0).all()
    assert np.isfinite(dk).all() and np.isnan(dv).all()


@pytest.mark.parametrize("form", FORMS)
def test_gradients_where_operands_are_broadcast(form):
    q, k, v = normal(3, 2, 130, 8), normal(2, 140, 8), normal(3, 1, 140, 8, seed=4)
    dy = normal(3, 2, 130, 8, seed=5)
    tensors = [Tensor(x) for x in (q, k, v)]
    y = attend(form, *tensors, is_causal=True)
    slopes = (y * Tensor(dy)).sum().gradient(*tensors)
    expected, p = in_double(q, np.broadcast_to(k, (3, 2, 140, 8)),
                            np.broadcast_to(v, (3, 2, 140, 8)), causal=True)  # fmt: skip
    dp = dy @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(8)
    wanted = ds @ k, (np.swapaxes(ds, -1, -2) @ q).sum(0), np.swapaxes(p, -1, -2) @ dy
    np.testing.assert_allclose(y.numpy(), expected, atol=3e-6)
    for x, slope in zip(slopes, (*wanted[:2], wanted[2].sum(1, keepdims=True))):
        np.testing.assert_allclose(x.numpy(), slope, atol=3e-5)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_masks_and_of_gradients(form):
    q, k, v = (normal(1, n, 4, seed=n).astype(np.float64) for n in (130, 140, 140))
    bias = np.random.default_rng(2).standard_normal((130, 140))
    along = [np.random.default_rng(s).standard_normal(x.shape) for s, x in enumerate((q, k, v))]

    def loss(step):
        """The slope of the sum of squares of the gradients, along a direction."""
        at = [Tensor(x + step * a) for x, a in zip((q, k, v), along)]
        b = Tensor(bias)
        y = attend(form, *at, attn_mask=b)
        return at, b, (y * y).sum()

    at, b, value = loss(0.0)
    slope = value.gradient(b)[0].numpy()
    first = value.gradient(*at)
    squares = sum(((x * x).sum() for x in first), Tensor(0.0, dtype=dtypes.float64))
    second = sum((x.numpy() * a).sum() for x, a in zip(squares.gradient(*at), along))

    def numbers(step):
        at, _, value = loss(step)
        return sum((x.numpy() ** 2).sum() for x in value.gradient(*at))

    np.testing.assert_allclose(second, (numbers(1e-5) - numbers(-1e-5)) / 2e-5, rtol=1e-6)
    y, p = in_double(q, k, v, bias)
    dp = 2 * y @ np.swapaxes(v, -1, -2)
    np.testing.assert_allclose(slope, (p * (dp - (dp * p).sum(-1, keepdims=True)))[0], atol=1e-9)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_one_row_of_heads_in_groups(batch):
    q, k, v = normal(*batch, 8, 1, 16), normal(*batch, 2, 300, 16), normal(2, 300, 12, seed=3)
    tensors = [Tensor(x) for x in (q, k, v)]
    y = tensors[0].scaled_dot_product_attention(*tensors[1:], enable_gqa=True)
    expected, p = in_double(q, k, np.broadcast_to(v, (*batch, 2, 300, 12)))
    np.testing.assert_allclose(y.numpy(), expected, atol=3e-6)
    slopes = y.sum().gradient(*tensors)
    total = p.reshape(-1, 2, 4, 300).sum((0, 2))
    np.testing.assert_allclose(slopes[2].numpy(), np.repeat(total[..., None], 12, -1), atol=3e-5)
    assert [x.shape for x in slopes] == [x.shape for x in tensors]


@pytest.mark.parametrize("heads,keys,width", [(2, 0, 8), (0, 200, 8), (2, 200, 0)])
def test_nothing_to_attend_to(heads, keys, width):
    q, k = Tensor(normal(heads, 200, 8)), Tensor(normal(heads, keys, 8))
    v = Tensor(normal(heads, keys, width))
    y = q.scaled_dot_product_attention(k, v, is_causal=True)
    slopes = y.sum().gradient(q, k, v)
    assert y.shape == (heads, 200, width)
    assert [x.numpy().shape for x in slopes] == [x.shape for x in (q, k, v)]
    for form in ("tiled", "streaming"):
        with registry.policies(attention=f"force={form}"):
            with pytest.raises(NotImplementedError, match="there are no scores|fewer than 128"):
                q.scaled_dot_product_attention(k, v, is_causal=True)
