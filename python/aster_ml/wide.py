"""Numbers of Python as elements of flt256 and flt512, and back: in integers, rounded once, to
nearest and ties to even."""

from __future__ import annotations

import math
import numbers
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from .dtype import DType, ErrType

_SCIENTIFIC = re.compile(r"\s*([+-]?)(\d+\.?\d*|\.\d+)[eE]([+-]?)\d+\s*")


def is_number(x: Any) -> bool:
    """Whether an element can be made of it: numbers, and decimal text."""
    return isinstance(x, (numbers.Rational, float, Decimal, str)) or hasattr(x, "_mpf_")


def is_element(x: Any) -> bool:
    """Whether x is what elements of wide floats and sticky integers alone are made of: decimals,
    fractions, numbers of mpmath, text, ERR."""
    return isinstance(x, (Decimal, Fraction, str, ErrType)) or hasattr(x, "_mpf_")


def number_of(x: Any) -> Any:
    """The number that text or an mpf of mpmath is, as a decimal, a fraction or a float."""
    if isinstance(x, str):
        return _from_text(x)
    return _from_mpmath(x) if hasattr(x, "_mpf_") else x


def pack(values: list[Any], dtype: DType) -> bytes:
    """The elements of numbers, each rounded once."""
    return b"".join(_element(x, dtype).to_bytes(dtype.itemsize, "little") for x in values)


def unpack(raw: Any, dtype: DType) -> list[Decimal]:
    """Elements as decimals, with as many digits as give the same element back."""
    data, size = bytes(raw), dtype.itemsize
    return [
        _decimal(int.from_bytes(data[at : at + size], "little"), dtype)
        for at in range(0, len(data), size)
    ]


def _layout(dtype: DType) -> tuple[int, int]:
    """Bits of the exponent and of the fraction, as IEEE 754 has them."""
    exponent_bits = 4 * (dtype.bitsize.bit_length() - 1) - 13
    return exponent_bits, dtype.bitsize - 1 - exponent_bits


def _digit_counts(dtype: DType) -> tuple[int, int]:
    """Digits that every decimal keeps, and that every element needs at most."""
    fraction_bits = _layout(dtype)[1]
    return fraction_bits * 30103 // 100000, (fraction_bits + 1) * 30103 // 100000 + 2


def _element(x: Any, dtype: DType) -> int:
    exponent_bits, fraction_bits = _layout(dtype)
    special = ((1 << exponent_bits) - 1) << fraction_bits
    x = number_of(x)
    negative = False
    if isinstance(x, (float, Decimal)):
        negative = math.copysign(1.0, x) < 0 if isinstance(x, float) else x.is_signed()
        if is_nan(x):
            return special | 1 << (fraction_bits - 1)
        if x in (math.inf, -math.inf):
            return _signed(special, negative, dtype)
        if isinstance(x, Decimal) and x and abs(x.adjusted()) > 3_000_000:
            return _signed(special if x.adjusted() > 0 else 0, negative, dtype)
    top, bottom = _ratio(x)
    return _signed(_rounded(abs(top), bottom, dtype), negative or top < 0, dtype)


def is_nan(x: Any) -> bool:
    """Whether a number is NaN, of decimals a signalling one too."""
    return x.is_nan() if isinstance(x, Decimal) else bool(x != x)


def _from_text(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        pass
    # Exponents that decimals do not have are beyond all elements.
    if (parts := _SCIENTIFIC.fullmatch(text)) is None:
        raise ValueError(f"{text!r} is no decimal number")
    sign, digits, below = parts.groups()
    return Decimal(sign + ("0" if below == "-" or not digits.strip("0.") else "inf"))


def _from_mpmath(x: Any) -> Any:
    """An mpf of mpmath, exactly: a sign, a whole number and an exponent of two."""
    sign, whole, exponent, bits = x._mpf_
    if not whole and exponent:  # infinities and NaN have exponents and no digits
        return float(x)
    if abs(exponent + bits) > 10_000_000:  # beyond all elements
        return Decimal(("-" if sign else "") + ("inf" if exponent > 0 else "0"))
    whole = -int(whole) if sign else int(whole)
    return Fraction(whole << max(exponent, 0), 1 << max(-exponent, 0))


def _ratio(x: Any) -> tuple[int, int]:
    """A number as a quotient, of decimals one whose terms may have common factors."""
    if not isinstance(x, Decimal):
        return Fraction(x).as_integer_ratio()
    parts = x.as_tuple()
    digits, power = int("".join(map(str, parts.digits))), int(parts.exponent)
    digits = -digits if parts.sign else digits
    return (digits * 10**power, 1) if power > 0 else (digits, 10**-power)


def _signed(bits: int, negative: bool, dtype: DType) -> int:
    return bits | (1 << (dtype.bitsize - 1) if negative else 0)


def _rounded(top: int, bottom: int, dtype: DType) -> int:
    """The bits of top / bottom, which is not negative."""
    exponent_bits, fraction_bits = _layout(dtype)
    bias = (1 << (exponent_bits - 1)) - 1
    if not top:
        return 0
    exponent = top.bit_length() - bottom.bit_length()  # of the leading bit, or one above it
    if (top << max(-exponent, 0)) < (bottom << max(exponent, 0)):
        exponent -= 1
    unit = max(exponent, 1 - bias) - fraction_bits  # exponent of the last bit
    whole, up = _divided(top << max(-unit, 0), bottom, max(unit, 0))
    # The implicit bit is one of the exponent, and a carry goes on into it.
    bits = whole + up + ((max(exponent, 1 - bias) + bias - 1) << fraction_bits)
    return min(bits, ((1 << exponent_bits) - 1) << fraction_bits)


def _decimal(bits: int, dtype: DType) -> Decimal:
    exponent_bits, fraction_bits = _layout(dtype)
    bias = (1 << (exponent_bits - 1)) - 1
    sign = bits >> (dtype.bitsize - 1)
    biased = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    if biased == (1 << exponent_bits) - 1:
        return Decimal("nan") if fraction else Decimal("-inf" if sign else "inf")
    whole = fraction | (1 << fraction_bits if biased else 0)
    if not whole:
        return Decimal("-0" if sign else "0")
    unit = max(biased, 1) - bias - fraction_bits
    same = bits & ((1 << (dtype.bitsize - 1)) - 1)
    for count in _digit_counts(dtype):
        digits, power = _digits(whole, unit, count)
        top, bottom = (digits * 10**power, 1) if power > 0 else (digits, 10**-power)
        if _rounded(top, bottom, dtype) == same:
            break
    text = str(digits).rstrip("0")
    power += len(str(digits)) - len(text)
    if 0 < power <= _digit_counts(dtype)[0] - len(text):  # integers are written out
        text, power = text + "0" * power, 0
    return Decimal((sign, tuple(map(int, text)), power))


def _digits(whole: int, unit: int, count: int) -> tuple[int, int]:
    """whole * 2**unit with so many digits, to nearest: (digits, power of ten)."""
    power = math.floor((whole.bit_length() + unit) * math.log10(2)) - count
    while True:
        top = whole * 10 ** max(-power, 0) << max(unit, 0)
        bottom = 10 ** max(power, 0)
        digits, rest = _divided(top, bottom, max(-unit, 0))
        if digits < 10**count:
            return digits + rest, power
        power += 1


def _divided(top: int, bottom: int, shift: int) -> tuple[int, int]:
    """top / (bottom * 2**shift): the whole part, and 1 where it is rounded up."""
    if bottom == 1:
        whole, rest, half = top >> shift, top & ((1 << shift) - 1), 1 << shift >> 1
        return whole, int(shift > 0 and (rest > half or (rest == half and whole & 1)))
    whole, rest = divmod(top, bottom << shift)
    double = 2 * rest - (bottom << shift)
    return whole, int(double > 0 or (double == 0 and whole & 1))
