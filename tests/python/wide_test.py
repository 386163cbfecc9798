"""flt256 and flt512 from Python, against integers and fractions."""

import ast
import math
import operator
import os
import pickle
import random
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import aster_ml
from aster_ml import Tensor, Variable, _native, dtypes

BITS = {dtypes.flt256: 237, dtypes.flt512: 489}


def rounded(x, dtype):
    """The nearest number of so many bits, ties to even; exponents have no end here."""
    x = Fraction(x)
    if not x:
        return x
    scale = BITS[dtype] - 1 - math.floor(math.log2(abs(x.numerator)) - math.log2(x.denominator))
    for shift in (scale - 1, scale, scale + 1):
        whole = round(x * Fraction(2) ** shift)
        if 2 ** (BITS[dtype] - 1) <= abs(whole) <= 2 ** BITS[dtype]:
            best = Fraction(whole) / Fraction(2) ** shift
    return best


def exact(x):
    """The elements as fractions, read as words."""
    bits, explicit = BITS[x.dtype], x.dtype.bitsize - BITS[x.dtype]
    raw = bytes(x._raw())
    out = []
    for at in range(0, len(raw), x.dtype.itemsize):
        word = int.from_bytes(raw[at : at + x.dtype.itemsize], "little")
        biased = word >> (bits - 1) & ((1 << explicit) - 1)
        whole = (word & ((1 << (bits - 1)) - 1)) + (1 << (bits - 1) if biased else 0)
        unit = max(biased, 1) - ((1 << (explicit - 1)) - 1) - (bits - 1)
        sign = -1 if word >> (x.dtype.bitsize - 1) else 1
        out.append(sign * whole * Fraction(2) ** unit)
    return out


@pytest.mark.parametrize("dtype", dtypes.wides)
def test_numbers_go_there_and_back(dtype):
    assert dtype.itemsize == dtype.bitsize // 8
    assert dtypes.is_float(dtype) and dtypes.is_wide(dtype)
    given = [0, 1, -3, 2**70 + 1, 10**90 + 1, 0.1, "0.1", Decimal("-1e-30"), Fraction(1, 3), True]
    x = Tensor(given, dtype=dtype)
    assert exact(x) == [rounded(Fraction(v), dtype) for v in given]
    assert Tensor(x.tolist(), dtype=dtype).tolist() == x.tolist()
    assert exact(Tensor(x.tolist(), dtype=dtype)) == exact(x)
    assert Tensor("0.1", dtype=dtype).item() == Decimal("0.1")
    texts = ["1e-5", "-2.5e40"]
    assert Tensor(texts, dtype=dtype).tolist() == [Decimal(text) for text in texts]
    special = Tensor([math.inf, "-inf", "nan", "-0", "1e9999999"], dtype=dtype).tolist()
    assert special[:2] == [Decimal("inf"), Decimal("-inf")] and special[2].is_nan()
    assert special[3] == 0 and special[3].is_signed() and special[4] == Decimal("inf")
    assert Tensor([[1, 2], [3, 4]], dtype=dtype).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("dtype", dtypes.wides)
def test_the_least_and_the_greatest(dtype):
    explicit, fraction = dtypes.finfo(dtype)
    assert (fraction + 1, explicit + fraction + 1) == (BITS[dtype], dtype.bitsize)
    top = (1 << (explicit - 1)) - 1
    greatest = Fraction(2) ** top * (2 - Fraction(1, 2**fraction))
    least = Fraction(2) ** (1 - top - fraction)
    x = Tensor([greatest, least, least / 2, least * Fraction(3, 2)], dtype=dtype)
    assert exact(x) == [greatest, least, 0, 2 * least]
    assert exact(Tensor(x[:2].tolist(), dtype=dtype)) == [greatest, least]
    assert Tensor([2 * greatest], dtype=dtype).tolist() == [Decimal("inf")]


@pytest.mark.parametrize("dtype", dtypes.wides)
def test_arithmetic_is_rounded_once(dtype):
    draw = random.Random(1)
    ratios = [Fraction(draw.getrandbits(600) + 1, draw.getrandbits(600) + 1) for _ in range(40)]
    a = [rounded(x, dtype) for x in ratios[:20]]
    b = [rounded(-x, dtype) for x in ratios[20:]]
    x, y = Tensor(a, dtype=dtype), Tensor(b, dtype=dtype)
    for name in ("add", "sub", "mul", "truediv"):
        f = getattr(operator, name)
        assert exact(f(x, y)) == [rounded(f(p, q), dtype) for p, q in zip(a, b)], name
    assert exact(x.sum()) == [rounded(sum(a), dtype)]
    assert exact(x.dot(y)) == [rounded(sum(p * q for p, q in zip(a, b)), dtype)]
    product = x.reshape(4, 5) @ y.reshape(5, 4)
    rows, columns = [a[i : i + 5] for i in range(0, 20, 5)], [b[j::4] for j in range(4)]
    wanted = [sum(p * q for p, q in zip(row, column)) for row in rows for column in columns]
    assert exact(product) == [rounded(v, dtype) for v in wanted]
    assert (x < y).tolist() == [p < q for p, q in zip(a, b)]
    assert exact((x > 1).where(x, y)) == [p if p > 1 else q for p, q in zip(a, b)]
    assert exact(x.max()) == [max(a)] and exact(y.min()) == [min(b)]


def test_constants_and_other_dtypes():
    x = Tensor([1, 2], dtype=dtypes.flt256)
    assert exact(x * 0.1) == [rounded(Fraction(0.1) * k, dtypes.flt256) for k in (1, 2)]
    assert (x * Decimal("0.1") * 10).tolist() == [1, 2]
    third = rounded(Fraction(1, 3), dtypes.flt256)
    assert exact(x + Fraction(1, 3)) == [rounded(third + k, dtypes.flt256) for k in (1, 2)]
    assert (x + 2**60).tolist() == [2**60 + 1, 2**60 + 2]
    assert (x + Tensor([1, 2], dtype=dtypes.flt512)).dtype is dtypes.flt512
    assert Tensor([1.5, -2.0]).cast(dtypes.flt512).tolist() == [1.5, -2]
    assert x.sqrt().cast(dtypes.float64).tolist() == [1.0, math.sqrt(2)]
    assert x.cast(dtypes.int32).tolist() == [1, 2]
    with pytest.raises(aster_ml.Error, match="flt256"):
        x + Tensor([1.0, 2.0])
    with pytest.raises(aster_ml.Error, match="flt256"):
        x.gelu()
    with pytest.raises(aster_ml.Error, match="flt256"):
        x.sort()


@pytest.mark.parametrize("dtype", dtypes.wides)
def test_fills_have_all_bits(dtype):
    x = Tensor([1, 2], dtype=dtype)
    tenth, third = Decimal("0.1"), Fraction(1, 3)
    assert Tensor.full((2, 1), tenth, dtype=dtype).tolist() == [[tenth]] * 2
    assert Tensor.full((), "1e-300", dtype=dtype, buffer=False).item() == Decimal("1e-300")
    assert exact(x.full_like(third)) == [rounded(third, dtype)] * 2
    assert x.const_like(tenth).tolist() == [tenth] * 2
    assert x.pad((1, 2), value=tenth).tolist() == [tenth, 1, 2, tenth, tenth]
    assert x.pad((-1, 1), value=tenth).tolist() == [2, tenth]
    assert x.reshape(1, 2).pad_to(2, 3, value=tenth).tolist() == [[1, 2, tenth], [tenth] * 3]
    assert x.masked_fill(x > 1, tenth).tolist() == [1, tenth]
    assert x.masked_select(x > 1, 3, tenth).tolist() == [2, tenth, tenth]
    n = Variable("n", 1, 2).bind(1)
    assert x[:n].pad((1, 1), value=tenth).tolist() == [tenth, 1, tenth]
    assert x[:n].const_like(tenth).tolist() == [tenth]
    assert Tensor.full((n, 1), tenth, dtype=dtype).tolist() == [[tenth]]
    assert x.scatter(0, Tensor([1]), tenth).tolist() == [1, tenth]
    assert x.full_like("-inf").tolist() == [Decimal("-inf")] * 2
    with pytest.raises(RuntimeError, match="cannot create"):
        Tensor.full((2,), tenth)
    with pytest.raises(ValueError, match="no decimal number"):
        x.pad((1, 1), value="x")
    with pytest.raises(RuntimeError, match="cannot create elements of dtypes.float"):
        Tensor([1.0]).pad((1, 1), value=tenth)
    with pytest.raises(TypeError, match="the bytes of an element"):
        _native.lazy_pad(x, [0], [1], (b"12", dtype.code))


def test_text_of_integers_and_of_what_is_no_number():
    x = Tensor([10, 700, 10**60, 10**90], dtype=dtypes.flt256)
    assert [str(v) for v in x.tolist()] == ["10", "700", "1" + "0" * 60, "1E+90"]
    absurd = ["1e" + "9" * 30, "-2.5E+" + "9" * 30, "1e-" + "9" * 30, "-.5e-" + "9" * 30,
              "0.0e" + "9" * 30, "1e999999999999999999", "1e-999999999999999999"]
    for dtype in dtypes.wides:
        found = [str(v) for v in Tensor(absurd, dtype=dtype).tolist()]
        assert found == ["Infinity", "-Infinity", "0", "-0", "0", "Infinity", "0"]
        assert Tensor([Decimal("sNaN")], dtype=dtype).tolist()[0].is_nan()
    for text in ("x", "", "1e", "0x10", "e" + "9" * 30, "1e" + "9" * 30 + "x"):
        with pytest.raises(ValueError, match="no decimal number"):
            Tensor([text], dtype=dtypes.flt512)


def test_the_environment_names_a_rounding_mode():
    program = (
        "from aster_ml import Tensor, dtypes\n"
        "x = Tensor([1, -1, 5], dtype=dtypes.flt256) / 3\n"
        "print([x.cast('float64').tolist(), bytes(x._raw()).hex()])\n"
    )

    def run(mode):
        environment = {**os.environ, "ASTER_ML_FLT_ROUNDING": mode}
        return subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                              capture_output=True, check=False)  # fmt: skip

    found = [run(mode).stdout for mode in "0123"]
    assert len(set(found)) == 4, found
    up, down = (ast.literal_eval(found[mode])[0] for mode in (2, 3))
    assert down[0] < 1 / 3 + 2**-54 and up[0] > down[0] and up[1] > down[1]
    wrong = run("4")
    assert wrong.returncode != 0 and "ASTER_ML_FLT_ROUNDING is '4'" in wrong.stderr


def test_profiles_say_how_products_were_computed():
    near = Tensor([[i * j + 1 for i in range(24)] for j in range(24)], dtype=dtypes.flt256)
    far = near * Tensor([["1e60000"] + ["1"] * 23], dtype=dtypes.flt256)
    far = far.realize().cat(Tensor([["1e-60000"] * 24], dtype=dtypes.flt256)).realize()
    with aster_ml.profile() as p:
        (near @ near).realize()
        (far @ near).realize()
        (Tensor.ones(32, 32).contiguous().realize() @ Tensor.rand(32, 32).realize()).realize()
    how = [(x.algorithm, x.exact) for x in p.launches if x.name.startswith(("wide", "matmul"))]
    assert how[:2] == [("residues", True), ("naive", True)]
    assert how[2] == ("generated", False)


def test_prints_copies_and_learns():
    x = Tensor(["0.1", "2.5"], dtype=dtypes.flt256)
    assert "flt256" in repr(x) and "0.1" in str(x)
    assert x.numpy().tolist() == x.tolist() and x.numpy().dtype == np.dtype(object)
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    w = Tensor(["0.25", "3"], dtype=dtypes.flt512)
    (w * w * w).sum().backward()
    assert exact(w.grad) == [Fraction(3, 16), 27]


@pytest.mark.parametrize("dtype", dtypes.wides)
def test_numbers_of_mpmath(dtype):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workprec(BITS[dtype]):
        given = [mpmath.pi, mpmath.mpf(-1) / 3, mpmath.ldexp(3, -5000), mpmath.mpf(0)]
        given[0] = +given[0]
        x = Tensor(given, dtype=dtype)
        # The same bits: its numbers have as many.
        wanted = [Fraction(int(mpmath.ldexp(v, 6000))) / Fraction(2) ** 6000 for v in given]
        assert exact(x) == wanted
        back = [mpmath.mpf(str(v)) for v in x.tolist()]
        assert back == given
        assert exact(x * given[1])[0] == rounded(wanted[0] * wanted[1], dtype)
    with mpmath.workprec(2000):  # more bits are rounded once
        third = mpmath.mpf(1) / 3
        assert exact(Tensor(third, dtype=dtype)) == [rounded(Fraction(1, 3), dtype)]
        special = [mpmath.inf, -mpmath.inf, mpmath.nan, mpmath.ldexp(-1, 10**8)]
        special = Tensor([+v for v in special], dtype=dtype).tolist()
    assert special[:2] == [Decimal("inf"), Decimal("-inf")] and special[2].is_nan()
    assert special[3] == Decimal("-inf")


@pytest.mark.parametrize("dtype", dtypes.wides)
def test_words_are_structures_of_numpy(dtype):
    count = dtype.bitsize // 64
    x = Tensor(["1", "-2", "0.1", "7"], dtype=dtype).reshape(2, 2).realize()
    view = np.asarray(memoryview(x))
    assert view.dtype == np.dtype([("words", "<u8", (count,))]) and view.shape == (2, 2)
    assert view.tobytes() == bytes(x._raw())
    view["words"][0, 0] = view["words"][1, 1]  # in place
    assert x.tolist()[0][0] == 7
    copy = Tensor(view)
    assert copy.dtype is dtype and copy.tolist() == x.tolist()
    # NumPy's own memory, lent, where it is aligned.
    size = dtype.itemsize
    memory = np.zeros(6 * size, np.uint8)
    memory = memory[-memory.ctypes.data % size :][: 4 * size]
    own = memory.view(view.dtype).reshape(2, 2)
    lent = aster_ml.BufferView.from_buffer(own).tensor()
    own["words"] = view["words"]
    assert lent.dtype is dtype and lent.tolist() == x.tolist()
    turned = np.asarray(memoryview(x.T))
    assert Tensor(turned).tolist() == x.T.tolist()
    for other in (
        np.zeros(2, [("words", "<u8", (3,))]),
        np.zeros(2, [("words", "<i8", (4,))]),
        np.zeros(2, [("a", "<u8", (4,))]),
    ):
        with pytest.raises(TypeError, match="not supported"):
            Tensor(other)


@pytest.mark.parametrize("dtype", dtypes.wides)
def test_products_by_an_algorithm_of_choice(dtype):
    draw = random.Random(7)
    numbers = [rounded(Fraction(draw.getrandbits(520) - 2**519, 3), dtype) for _ in range(66 * 66)]
    a = Tensor(numbers, dtype=dtype).reshape(66, 66)
    ran = {}
    for algorithm in ("auto", "residues", "naive", "strassen"):
        product, ran[algorithm] = aster_ml.linalg.matmul_by(a, a, algorithm)
        assert bytes(product._raw()) == bytes((a @ a)._raw()), algorithm
    assert ran == {"auto": "residues", **{name: name for name in list(ran)[1:]}}
    up, down = (aster_ml.linalg.matmul_by(a[:1], a[:, :1], rounding=r)[0] for r in ("up", "down"))
    true = sum(p * q for p, q in zip(numbers[:66], numbers[::66]))
    assert exact(down)[0] < true < exact(up)[0]
    narrow = Tensor([[1.0]])
    for wrong, error in (
        (lambda: aster_ml.linalg.matmul_by(a, a, "fast"), ValueError),
        (lambda: aster_ml.linalg.matmul_by(a, a, rounding="odd"), ValueError),
        (lambda: aster_ml.linalg.matmul_by(a, a[:5]), ValueError),
        (lambda: aster_ml.linalg.matmul_by(a[0], a), ValueError),
        (lambda: aster_ml.linalg.matmul_by(a, narrow), TypeError),
        (lambda: aster_ml.linalg.matmul_by(narrow, narrow), TypeError),
    ):
        with pytest.raises(error):
            wrong()
