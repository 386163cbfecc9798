"""Laws of algebra over every dtype, on every runtime that has it: what holds for numbers as they
are stored, so with wrapping, rounding, NaN and ERR, on pairs of special and random values."""

import random

import numpy as np
import pytest

from aster_ml import ERR, Tensor, dtypes

INTEGERS = [getattr(dtypes, f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, *dtypes.fp8s]
EVERY = [dtypes.bool, *INTEGERS, *FLOATS, *dtypes.stickies, *dtypes.wides]
DEVICES = ["CPU", "REFERENCE"]
COUNT = 60

everywhere = pytest.mark.parametrize("device", DEVICES)
of_every_dtype = pytest.mark.parametrize("dtype", EVERY, ids=lambda d: d.attribute)


def values(dtype, seed):
    """Numbers of all sizes, and what is special."""
    draw = random.Random(seed)
    if dtype is dtypes.bool:
        return [bool(draw.getrandbits(1)) for _ in range(COUNT)]
    if dtypes.is_int(dtype) or dtypes.is_sticky(dtype):
        low, high = int(dtype.min), int(dtype.max)
        special = [0, 1, low, high, 2] + ([ERR, -1] if dtypes.is_sticky(dtype) else [])
        bits = dtype.bitsize
        some = [draw.randrange(low, high + 1) >> draw.randrange(bits) for _ in range(COUNT)]
        return mixed(special, some, draw)
    special = [0.0, -0.0, 1.0, float("inf"), -float("inf"), float("nan"), 0.5]
    some = [draw.uniform(-1, 1) * 2.0 ** draw.randrange(-6, 7) for _ in range(COUNT)]
    return mixed(special, some, draw)


def mixed(special, some, draw):
    some[: 2 * len(special)] = 2 * special
    draw.shuffle(some)
    return some


def tensors(dtype, device, *seeds):
    return [Tensor(values(dtype, seed), dtype=dtype, device=device) for seed in seeds]


def elements(x):
    """The elements' bits; all NaN are one."""
    size = x.dtype.itemsize
    raw = bytes(x._raw())
    bits = [raw[at : at + size] for at in range(0, len(raw), size)]
    if not dtypes.is_float(x.dtype):
        return bits
    return ["nan" if nan else b for b, nan in zip(bits, (x != x).reshape(-1).tolist())]


def hold_equal(a, b):
    assert a.dtype is b.dtype
    assert elements(a) == elements(b)


def is_known(x):
    """Where x is neither NaN nor infinite nor ERR."""
    if dtypes.is_sticky(x.dtype):
        return [v is not ERR for v in x.tolist()]
    return (x - x == 0).tolist() if dtypes.is_float(x.dtype) else [True] * x.numel()


def is_exact(dtype):
    """Whether sums and products are those of a ring, or ERR."""
    return not dtypes.is_float(dtype)


@everywhere
@of_every_dtype
def test_sums_and_products_commute(dtype, device):
    a, b = tensors(dtype, device, 1, 2)
    hold_equal(a + b, b + a)
    hold_equal(a * b, b * a)
    hold_equal(a.maximum(b), b.maximum(a))
    hold_equal(a.minimum(b), b.minimum(a))


@everywhere
@of_every_dtype
def test_neutral_elements(dtype, device):
    (a,) = tensors(dtype, device, 3)
    zero, one = (Tensor([v], dtype=dtype, device=device) for v in (0, 1))
    hold_equal(a * one, a)
    assert (((a + zero) == a).tolist()) == (a == a).tolist()
    hold_equal(a.maximum(a), a)
    hold_equal(a.cast(dtype), a)
    if dtype is dtypes.bool:
        return
    hold_equal(-(-a), a)
    known = is_known(a)
    assert [v == 0 for v, k in zip((a - a).tolist(), known) if k] == [True] * sum(known)
    assert [v == 0 for v, k in zip((a * zero).tolist(), known) if k] == [True] * sum(known)
    if dtypes.is_sticky(dtype):  # ERR stays
        lost = [v for v, k in zip((a * zero).tolist() + (a - a).tolist(), known * 2) if not k]
        assert lost and set(lost) == {ERR}


@everywhere
@pytest.mark.parametrize("dtype", [d for d in EVERY if is_exact(d)], ids=lambda d: d.attribute)
def test_rings(dtype, device):
    a, b, c = tensors(dtype, device, 4, 5, 6)
    pairs = [((a + b) + c, a + (b + c)), ((a * b) * c, a * (b * c)), (a * (b + c), a * b + a * c)]
    for left, right in pairs:
        left, right = left.tolist(), right.tolist()
        if not dtypes.is_sticky(dtype):
            assert left == right
        # What fits both ways is the same.
        both = [(p, q) for p, q in zip(left, right) if p is not ERR and q is not ERR]
        assert both and all(p == q for p, q in both)


@everywhere
@of_every_dtype
def test_one_order(dtype, device):
    a, b = tensors(dtype, device, 7, 8)
    less, same, more = (x.tolist() for x in (a < b, a == b, a > b))
    known = [p == p and q == q for p, q in zip(a.tolist(), b.tolist())]
    if dtypes.is_sticky(dtype):
        known = [p is not ERR and q is not ERR for p, q in zip(a.tolist(), b.tolist())]
    for k, *three in zip(known, less, same, more):
        assert sum(three) == 1 if k else not (three[0] or three[2])
    assert [not x for x in (a != b).tolist()] == same
    top = a.maximum(b).tolist()
    for k, t, p, q in zip(known, top, a.tolist(), b.tolist()):
        assert not k or (t == max(p, q))


@everywhere
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.attribute)
def test_bits(dtype, device):
    a, b, c = tensors(dtype, device, 9, 10, 11)
    zero = Tensor([0], dtype=dtype, device=device)
    for left, right in (
        (a & b, b & a),
        (a | b, b | a),
        (a ^ b ^ b, a),
        (~~a, a),
        (~(a & b), ~a | ~b),
        (a & (b | c), a & b | a & c),
        (a | (a & b), a),
        ((a ^ b) + 2 * (a & b), a + b),
        (a * 2 + zero, a << 1),
        (-a, ~a + 1),
    ):
        hold_equal(left, right + zero)


@everywhere
@pytest.mark.parametrize(
    "dtype", [*INTEGERS, *dtypes.stickies, *dtypes.wides], ids=lambda d: d.attribute
)
def test_exact_sums_have_no_order(dtype, device):
    (a,) = tensors(dtype, device, 12)
    (b,) = tensors(dtype, device, 13)
    order = random.Random(14).sample(range(COUNT), COUNT)
    index = Tensor(order, device=device)
    hold_equal(a.sum(), a[index].sum())
    hold_equal(a.dot(b), a[index].dot(b[index]))
    x, y = a.reshape(6, 10), b.reshape(10, 6)
    hold_equal((x @ y).T.contiguous(), y.T @ x.T)
    some = random.Random(15).sample(range(10), 10)
    columns = Tensor(some, device=device)
    hold_equal(x @ y, x[:, columns] @ y[columns])


def test_every_dtype_is_here():
    named = {d for d in vars(dtypes).values() if type(d) is type(dtypes.int32)}
    missing = {d for d in named if d not in EVERY and not d.name.startswith("weak")}
    assert missing == set(), missing


def test_wrong_laws_fail():
    """The comparison finds what does not hold: floats and sums that are rounded, or fit one way."""
    a, b, c = (Tensor(np.float32(v)).reshape(1) for v in (1e8, -1e8, 0.1))
    with pytest.raises(AssertionError):
        hold_equal((a + b) + c, a + (b + c))
    with pytest.raises(AssertionError):
        hold_equal(Tensor([100], dtype=dtypes.tbb8) + 100 - 100, Tensor([100], dtype=dtypes.tbb8))
