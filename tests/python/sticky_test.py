"""Sticky integers from Python."""

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import aster_ml
from aster_ml import ERR, Tensor, dtypes


def sticky(values, dtype=dtypes.tbb8):
    return Tensor(values, dtype=dtype)


@pytest.mark.parametrize("dtype", dtypes.stickies)
def test_numbers_go_there_and_back(dtype):
    most = 2 ** (dtype.bitsize - 1) - 1
    assert (dtype.min, dtype.max, dtype.itemsize) == (-most, most, dtype.bitsize // 8)
    values = [0, 1, -1, most, -most, most + 1, -most - 1, 10**30, ERR, 1.9, math.nan]
    expected = [0, 1, -1, most, -most, ERR, ERR, ERR, ERR, 1, ERR]
    assert sticky(values, dtype).tolist() == expected
    assert sticky(most, dtype).item() == most
    assert sticky(ERR, dtype).item() is ERR
    assert (sticky([most], dtype) + 1).item() is ERR


@pytest.mark.parametrize("dtype", dtypes.stickies)
def test_decimals_fractions_and_text(dtype):
    most = int(dtype.max)
    half = Fraction(1, 2)
    given = [Decimal("-7.9"), Decimal(most), Decimal(most) + Decimal("0.5"), Decimal("1e30"),
             Decimal("nan"), Decimal("sNaN"), Decimal("-inf"), Decimal("1e-99999"),
             Fraction(7, 2), most + half, -most - half, Fraction(10**40, 3),
             str(most), f"-{most}", str(most + 1), "ERR", "12.75", "-inf",
             "1e999999999999999999999", "-3e-999999999999999999999", "0e999999999999999999999"]
    expected = [-7, most, ERR, ERR, ERR, ERR, ERR, 0, 3, ERR, ERR, ERR,
                most, -most, ERR, ERR, 12, ERR, ERR, 0, 0]
    assert sticky(given, dtype).tolist() == expected
    assert sticky(str(most), dtype).item() == most and sticky("ERR", dtype).item() is ERR
    assert sticky(Decimal("1.5"), dtype).shape == ()
    # And back: whole numbers, and ERR, which prints as it is read.
    x = sticky([most, ERR, -5], dtype)
    assert [str(v) for v in x.tolist()] == [str(most), "ERR", "-5"]
    assert sticky([str(v) for v in x.tolist()], dtype).tolist() == x.tolist()
    assert [Decimal(v) for v in x.tolist() if v is not ERR] == [most, -5]
    for text in ("", "x", "err", "1e", "0x10", "1,5"):
        with pytest.raises(ValueError, match="no decimal number"):
            sticky([text], dtype)
    for other in (1j, None, object()):
        with pytest.raises(RuntimeError, match="could not infer"):
            sticky([other], dtype)


@pytest.mark.parametrize("dtype", dtypes.stickies)
def test_numbers_of_mpmath(dtype):
    mpmath = pytest.importorskip("mpmath")
    most = int(dtype.max)
    with mpmath.workprec(300):
        given = [mpmath.mpf(most), mpmath.mpf(most) + 0.5, -mpmath.mpf(most), mpmath.pi * 3,
                 mpmath.inf, mpmath.nan, mpmath.ldexp(-1, 10**8), mpmath.ldexp(-1, -(10**8))]
        assert sticky([+v for v in given], dtype).tolist() == [
            most, ERR, -most, 9, ERR, ERR, ERR, 0]
        assert [mpmath.mpf(v) for v in sticky([most], dtype).tolist()] == given[:1]


def test_prints_errors():
    x = sticky([[100, 27], [-128, 3]]) + 100
    assert str(x).startswith("Tensor([[ERR, 127],\n        [ERR, 103]]")
    assert "dtypes.tbb8" in repr(x)


def test_float_bounds_come_before_truncation():
    given = Tensor([126.9, 127.0, 127.5, -127.5, math.nan, math.inf])
    assert given.cast(dtypes.tbb8).tolist() == [126, 127, ERR, ERR, ERR, ERR]
    back = sticky([1, ERR]).float().tolist()
    assert back[0] == 1 and math.isnan(back[1])


def test_numpy_has_patterns():
    x = sticky([1, ERR, -127])
    assert x.numpy().tolist() == [1, -128, -127] and x.numpy().dtype == np.int8
    assert np.asarray(x).dtype == np.int8
    assert sticky(np.array([1, 300, -5]), dtypes.tbb8).tolist() == [1, ERR, -5]
    assert Tensor(np.array([-128, 5], dtype=np.int8)).bitcast(dtypes.tbb8).tolist() == [ERR, 5]


def test_matches_a_model_of_errors():
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (9, 20)), rng.integers(-128, 128, (20, 7))
    y = sticky(a.tolist()) @ sticky(b.tolist())
    assert y.dtype is dtypes.tbb32
    bad = (a == -128).any(1)[:, None] | (b == -128).any(0)[None, :]
    exact = (a.astype(object) @ b.astype(object)).tolist()
    for row, found, errors in zip(exact, y.tolist(), bad.tolist()):
        assert found == [ERR if e else x for x, e in zip(row, errors)]


class Dependencies:
    """A random graph of tensors beside a model of it: of each element a set, as bits of a number,
    of the elements of inputs that it depends on."""

    def __init__(self, seed, device):
        self.rng = np.random.default_rng(seed)
        self.device, self.inputs, self.pool = device, [], []
        self.planted = 0
        for shape in ((3, 4), (4, 3), (4, 4), (1, 4), (3, 1)):
            values = self.rng.integers(-1, 2, shape).tolist()
            sets = np.empty(shape, object)
            for at in np.ndindex(shape):
                sets[at] = 1 << len(self.inputs)
                if self.rng.random() < 0.1:
                    self.planted |= sets[at]
                    values[at[0]][at[1]] = ERR
                self.inputs.append(at)
            self.keep(Tensor(values, dtype=dtypes.tbb16, device=device), sets)

    def keep(self, x, sets):
        """Sizes stay small, so that nothing but ERR is ERR."""
        assert x.shape == sets.shape
        self.pool.append((x.cast(dtypes.tbb16).clamp(-1, 1), sets))

    def some(self, fits=lambda shape: True):
        found = [one for one in self.pool if fits(one[0].shape)]
        return found[self.rng.integers(len(found))] if found else None

    def grow(self):
        rng, axis = self.rng, int(self.rng.integers(2))
        x, p = self.some()
        other = self.some(lambda s: all(a == b or 1 in (a, b) for a, b in zip(s, x.shape)))
        below = self.some(lambda s: s[0] == x.shape[1])
        beside = self.some(lambda s: s[1 - axis] == x.shape[1 - axis])
        shape = np.broadcast_shapes(x.shape, other[0].shape)
        mask = rng.random(shape) < 0.5
        index = rng.integers(0, x.shape[axis], x.shape)
        edges = [(1, 0), (0, 1)][axis]
        united = np.bitwise_or
        steps = [
            lambda: ((x + other[0], x - other[0], x * other[0])[rng.integers(3)], p | other[1]),
            lambda: ((x.maximum(other[0]), x.minimum(other[0]))[axis], p | other[1]),
            lambda: (Tensor(mask, device=self.device).where(x, other[0]),
                     np.where(mask, np.broadcast_to(p, shape), np.broadcast_to(other[1], shape))),
            lambda: (x.T, p.T),
            lambda: (x.flip(axis), np.flip(p, axis)),
            lambda: (x.reshape(p.size // x.shape[axis], -1), p.reshape(-1, x.shape[axis])),
            lambda: (x.pad((edges, edges)), np.pad(p, (edges, edges), constant_values=0)),
            lambda: (x[: 1 + x.shape[0] // 2], p[: 1 + x.shape[0] // 2]),
            lambda: (x.cat(beside[0], dim=axis), np.concatenate([p, beside[1]], axis)),
            lambda: (x.gather(axis, Tensor(index, device=self.device)),
                     np.take_along_axis(p, index, axis)),
            lambda: (getattr(x, ("sum", "max", "min", "prod")[rng.integers(4)])(axis, keepdim=True),
                     united.reduce(p, axis, keepdims=True)),
            lambda: ((x.cumsum, x.cumprod)[rng.integers(2)](axis), united.accumulate(p, axis)),
            lambda: (x @ below[0], united.reduce(p, 1, keepdims=True)
                     | united.reduce(below[1], 0, keepdims=True)),
            lambda: (x.cast(dtypes.stickies[rng.integers(4)]), p),
        ]
        usable = [s for k, s in enumerate(steps) if k != 12 or below is not None]
        y, sets = usable[rng.integers(len(usable))]()
        if max(y.shape) <= 24:
            self.keep(y, sets)

    def check(self):
        checked, errors = 0, [x.is_error() for x, _ in self.pool[5:]]
        errors[0].realize(*errors[1:])
        for found, (_, sets) in zip(errors, self.pool[5:]):
            wanted = [[bool(s & self.planted) for s in row] for row in sets.tolist()]
            assert found.tolist() == wanted
            checked += sum(map(sum, wanted))
        return checked


@pytest.mark.parametrize("device, graphs", [("CPU", 20), ("REFERENCE", 200)])
def test_errors_follow_what_depends_on_them(device, graphs):
    spoiled = 0
    for seed in range(graphs):
        graph = Dependencies(seed, device)
        for _ in range(12):
            graph.grow()
        spoiled += graph.check()
    assert spoiled > 10 * graphs


def test_says_where_errors_are():
    x = sticky([[1, 2, 3], [4, 200, 6]])
    assert x.is_error().tolist() == [[False, False, False], [False, True, False]]
    assert x.error_count().item() == 1
    assert x.error_rows().tolist() == [False, True]
    assert x.error_columns().tolist() == [False, True, False]
    assert x.first_error().tolist() == [1, 1]


def test_meets_no_other_dtype():
    x = sticky([1, 2])
    for other in (Tensor([1, 2]), Tensor([1.0, 2.0]), sticky([1, 2], dtypes.tbb16), 1.5):
        with pytest.raises((aster_ml.Error, TypeError)):
            x + other
    for f in (lambda: x & 1, lambda: x << 1, lambda: x / 2, lambda: x.exp(), lambda: ~x):
        with pytest.raises((aster_ml.Error, TypeError, RuntimeError)):
            f()


def test_factors_are_minors():
    x = sticky([[2, 7, 1], [4, 1, 3], [6, 5, 9]])
    p, lo, up = aster_ml.linalg.lu(x)
    assert lo.dtype is dtypes.tbb32
    assert lo.tolist() == [[6, 0, 0], [2, 32, 0], [4, -14, -124]]
    assert up.tolist() == [[6, 5, 9], [0, 32, -12], [0, 0, -124]]
    assert round(np.linalg.det(np.array(x.tolist()))) == -124 * round(np.linalg.det(p.tolist()))
    packed, rows = aster_ml.linalg.lu_factor(x)
    assert rows.tolist() == [2, 0, 1] and packed.tolist()[1] == [2, 32, -12]
    for bad, told in (([[1, 2], [2, 4]], "pivot 2 is 0"), ([[1, 2], [200, 4]], "pivot 1 is ERR")):
        with pytest.raises(aster_ml.Error, match=told):
            aster_ml.linalg.lu(sticky(bad))[1].realize()


def test_fills():
    x = sticky([1, 2])
    assert x.pad((1, 1), value=ERR).tolist() == [ERR, 1, 2, ERR]
    assert x.full_like(ERR).tolist() == [ERR, ERR]
    assert Tensor.full((2,), Decimal("127.5"), dtype=dtypes.tbb8).tolist() == [ERR, ERR]
    assert x.masked_fill(x > 1, ERR).tolist() == [1, ERR]
    assert x.masked_select(x > 1, 2, ERR).tolist() == [2, ERR]
    assert x.scatter(0, Tensor([0]), "-3").tolist() == [-3, 2]


def test_other_functions_of_tensors():
    x = sticky([3, ERR, -7, 127])
    assert x.sum().item() is ERR and x.sum().dtype is dtypes.tbb32
    assert sticky([100, 100, -100]).sum().item() == 100
    assert x.sort()[0].tolist() == [ERR, -7, 3, 127]
    assert (x // 2).tolist() == [1, ERR, -4, 63] and (x // 0).tolist() == [ERR] * 4
    assert x.cumsum().tolist() == [3, ERR, ERR, ERR]
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(ERR)) is ERR and f"{ERR:>5}" == "ERR"
    assert Tensor.zeros(2, dtype=dtypes.tbb16).tolist() == [0, 0]
    assert Tensor.full((2,), 7, dtype="tbb64").tolist() == [7, 7]
