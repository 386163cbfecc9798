"""GGUF files: metadata and tensors, quantised ones as expressions over the mapped file.

Nothing is read but the header: blocks stay in the file, and a tensor's numbers are computed where
they are used. realize() gives a tensor memory of its own.
"""

from __future__ import annotations

import functools
import pathlib
import re
import struct
from typing import Any, Callable, Union

from .. import _native
from ..absent import of_module
from ..dtype import DType, dtypes
from ..errors import FormatError, UnsupportedError
from ..helpers import prod, round_up
from ..tensor import Tensor
from .codebooks import codebook

Source = Union[Tensor, str, pathlib.Path]

# ---- blocks to numbers: f(blocks of uint8 [n, bytes]) gives [n, elements]


def _scale(blocks: Tensor, at: int) -> Tensor:
    """A float16 of each block, [n, 1]."""
    return blocks[:, at : at + 2].bitcast(dtypes.float16).cast(dtypes.float32)


def _fields(x: Tensor, bits: int) -> Tensor:
    """[..., k] bytes as [..., 8 / bits, k] fields, the lowest bits first."""
    count = 8 // bits
    shifts = (Tensor.arange(count, dtype=dtypes.uint8) * bits).reshape(count, 1)
    return (x.unsqueeze(-2) >> shifts) & ((1 << bits) - 1)


def _signed(x: Tensor, zero: int) -> Tensor:
    return x.cast(dtypes.float32) - zero


def _q4(blocks: Tensor, offset: int) -> Tensor:
    """Sixteen bytes with the low halves before the high ones."""
    return _fields(blocks[:, offset : offset + 16], 4).flatten(-2)


def _q4_0(blocks: Tensor) -> Tensor:
    return _signed(_q4(blocks, 2), 8) * _scale(blocks, 0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _signed(_q4(blocks, 4), 0) * _scale(blocks, 0) + _scale(blocks, 2)


def _fifth_bits(blocks: Tensor, at: int) -> Tensor:
    """Bit i of four bytes, at place i, as 0 or 16."""
    return _fields(blocks[:, at : at + 4], 1).transpose(-1, -2).flatten(-2) << 4


def _q5_0(blocks: Tensor) -> Tensor:
    return _signed(_q4(blocks, 6) | _fifth_bits(blocks, 2), 16) * _scale(blocks, 0)


def _q5_1(blocks: Tensor) -> Tensor:
    q = _q4(blocks, 8) | _fifth_bits(blocks, 4)
    return _signed(q, 0) * _scale(blocks, 0) + _scale(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].bitcast(dtypes.int8).cast(dtypes.float32) * _scale(blocks, 0)


def _two_bits(x: Tensor) -> Tensor:
    """64 bytes as 16 rows of 16 fields of two bits, in the order of the scales."""
    return _fields(x.reshape(-1, 2, 32), 2).reshape(-1, 16, 16)


def _q2_k(blocks: Tensor) -> Tensor:
    scales = blocks[:, :16].unsqueeze(-1)
    q = _signed(_two_bits(blocks[:, 16:80]), 0) * _signed(scales & 15, 0)
    d, least = _scale(blocks, 80).unsqueeze(-1), _scale(blocks, 82).unsqueeze(-1)
    return (d * q - least * _signed(scales >> 4, 0)).flatten(-2)


def _q3_k(blocks: Tensor) -> Tensor:
    low = _fields(blocks[:, 96:104], 4).flatten(-2)
    high = _fields(blocks[:, 104:108], 2).flatten(-2)
    scales = _signed(low | (high << 4), 32) * _scale(blocks, 108)
    third = _fields(blocks[:, :32], 1).reshape(-1, 16, 16) << 2
    q = _signed(_two_bits(blocks[:, 32:96]) | third, 4)
    return (scales.unsqueeze(-1) * q).flatten(-2)


def _scales_and_least(x: Tensor) -> tuple[Tensor, Tensor]:
    """Twelve bytes as eight scales and eight offsets of six bits, [n, 8, 1]."""
    first, second, third = (x[:, k : k + 4] for k in (0, 4, 8))
    scales = (first & 63).cat((third & 15) | ((first >> 6) << 4), dim=-1)
    least = (second & 63).cat((third >> 4) | ((second >> 6) << 4), dim=-1)
    return _signed(scales, 0).unsqueeze(-1), _signed(least, 0).unsqueeze(-1)


def _q45_k(blocks: Tensor, fifth: bool) -> Tensor:
    at = 48 if fifth else 16
    q = _fields(blocks[:, at : at + 128].reshape(-1, 4, 32), 4).reshape(-1, 8, 32)
    if fifth:
        q = q | (_fields(blocks[:, 16:48], 1) << 4)
    scales, least = _scales_and_least(blocks[:, 4:16])
    d, step = _scale(blocks, 0).unsqueeze(-1), _scale(blocks, 2).unsqueeze(-1)
    return (d * scales * _signed(q, 0) - step * least).flatten(-2)


def _q6_k(blocks: Tensor) -> Tensor:
    low = _fields(blocks[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 2, 4, 32)
    high = _fields(blocks[:, 128:192].reshape(-1, 2, 32), 2)
    q = _signed(low | (high << 4), 32).reshape(-1, 16, 16)
    scales = blocks[:, 192:208].bitcast(dtypes.int8).cast(dtypes.float32).unsqueeze(-1)
    return (_scale(blocks, 208).unsqueeze(-1) * q * scales).flatten(-2)


_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_FP4 = tuple(s * x for s in (1.0, -1.0) for x in (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0))


def _looked_up(table: tuple[float, ...], q: Tensor) -> Tensor:
    return Tensor(table, dtype=dtypes.float32)[q]


def _iq4_nl(blocks: Tensor) -> Tensor:
    return _looked_up(_IQ4, _q4(blocks, 2)) * _scale(blocks, 0)


def _iq4_xs(blocks: Tensor) -> Tensor:
    low = _fields(blocks[:, 4:8], 4).transpose(-1, -2).flatten(-2)
    high = _fields(blocks[:, 2:4], 2).transpose(-1, -2).flatten(-2)
    scales = (_signed(low | (high << 4), 32) * _scale(blocks, 0)).unsqueeze(-1)
    q = _fields(blocks[:, 8:].reshape(-1, 8, 16), 4).flatten(-2)
    return (scales * _looked_up(_IQ4, q)).flatten(-2)


def _in_book(name: str, q: Tensor) -> Tensor:
    """The vectors of a codebook at these places, [..., components]."""
    count, vectors = codebook(name)
    return Tensor(vectors).reshape(-1, count)[q].cast(dtypes.float32)


def _signs(x: Tensor) -> Tensor:
    """[..., k] bytes as [..., k, 8] signs, the lowest bit first."""
    return 1 - 2 * _signed(_fields(x.unsqueeze(-1), 1).squeeze(-1), 0)


def _even_signs(x: Tensor) -> Tensor:
    """As _signs of seven bits: the eighth makes the number of those set even."""
    folded = x ^ (x >> 4)
    folded = folded ^ (folded >> 2)
    return _signs((x | ((folded ^ (folded >> 1)) << 7)).cast(dtypes.uint8))


def _each(x: Tensor, bits: int) -> Tensor:
    """[n, k] bytes as [n, k * 8 / bits] fields, byte by byte."""
    return _fields(x.unsqueeze(-1), bits).flatten(1)


def _parts(words: Tensor, first: int, step: int, count: int, mask: int) -> Tensor:
    """[n, k] words as [n, k, count] fields, step bits apart."""
    shifts = Tensor.arange(count, dtype=words.dtype) * step + first
    return (words.unsqueeze(-1) >> shifts) & mask


def _scaled(blocks: Tensor, scales: Tensor, q: Tensor) -> Tensor:
    """Elements times the scale of each part of a block, [n, parts], and of the block."""
    parts = q.reshape(q.shape[0], scales.shape[1], -1)
    return (_scale(blocks, 0).unsqueeze(-1) * scales.unsqueeze(-1) * parts).flatten(1)


def _seven_signs(words: Tensor) -> tuple[Tensor, Tensor]:
    """Words of four times seven signs under a scale: the signs, and scale + 1/2."""
    signs = _even_signs(_parts(words, 0, 7, 4, 127))
    return signs, (words >> 28).cast(dtypes.float32) + 0.5


def _iq2_xxs(blocks: Tensor) -> Tensor:
    parts = blocks[:, 2:].reshape(-1, 8, 8)
    signs, scales = _seven_signs(parts[:, :, 4:].bitcast(dtypes.uint32).squeeze(-1))
    return _scaled(blocks, scales * 0.25, _in_book("IQ2_XXS", parts[:, :, :4]) * signs)


def _iq2_xs(blocks: Tensor) -> Tensor:
    words = blocks[:, 2:66].bitcast(dtypes.uint16)
    q = _in_book("IQ2_XS", words & 511) * _even_signs(words >> 9)
    return _scaled(blocks, (_signed(_each(blocks[:, 66:], 4), 0) + 0.5) * 0.25, q)


def _high(blocks: Tensor, low: Tensor, at: int, bits: int) -> Tensor:
    """Places in a codebook: eight bits, above them those of eight bytes."""
    return low.cast(dtypes.uint16) | (_each(blocks[:, at : at + 8], bits).cast(dtypes.uint16) << 8)


def _iq2_s(blocks: Tensor) -> Tensor:
    q = _in_book("IQ2_S", _high(blocks, blocks[:, 2:34], 66, 2)) * _signs(blocks[:, 34:66])
    return _scaled(blocks, (_signed(_each(blocks[:, 74:], 4), 0) + 0.5) * 0.25, q)


def _iq3_xxs(blocks: Tensor) -> Tensor:
    signs, scales = _seven_signs(blocks[:, 66:].bitcast(dtypes.uint32))
    q = _in_book("IQ3_XXS", blocks[:, 2:66]).flatten(1) * signs.flatten(1)
    return _scaled(blocks, scales * 0.5, q)


def _iq3_s(blocks: Tensor) -> Tensor:
    q = _in_book("IQ3_S", _high(blocks, blocks[:, 2:66], 66, 1)).flatten(1)
    scales = _signed(_each(blocks[:, 106:], 4), 0) * 2 + 1
    return _scaled(blocks, scales, q * _signs(blocks[:, 74:106]).flatten(1))


def _shifted(q: Tensor, negative: Tensor) -> Tensor:
    """-1, 0 and 1 of IQ1, moved by an eighth up or down."""
    return _in_book("IQ1", q) - 1 + negative.where(-0.125, 0.125).unsqueeze(-1)


def _iq1_s(blocks: Tensor) -> Tensor:
    high = blocks[:, 34:].bitcast(dtypes.uint16)
    low = blocks[:, 2:34].reshape(-1, 8, 4).cast(dtypes.uint16)
    q = _shifted(low | (_parts(high, 0, 3, 4, 7) << 8), (high >> 15).unsqueeze(-1) != 0)
    return _scaled(blocks, _signed((high >> 12) & 7, 0) * 2 + 1, q)


def _iq1_m(blocks: Tensor) -> Tensor:
    high = _each(blocks[:, 32:48], 4).cast(dtypes.uint16)
    q = _shifted(blocks[:, :32].cast(dtypes.uint16) | ((high & 7) << 8), (high & 8) != 0)
    words = blocks[:, 48:].bitcast(dtypes.uint16)
    scales = _signed(_parts(words, 0, 3, 4, 7).flatten(1), 0) * 2 + 1
    d = ((words >> 12) << (Tensor.arange(4, dtype=dtypes.uint16) * 4)).sum(1, dtype=dtypes.uint16)
    whole = d.bitcast(dtypes.float16).cast(dtypes.float32).reshape(-1, 1, 1)
    return (whole * scales.unsqueeze(-1) * q.reshape(-1, 16, 16)).flatten(1)


def _thirds(x: Tensor, count: int) -> Tensor:
    """[n, k] bytes as [n, count * k] digits to the base 3, less 1: as fractions, first digits
    first."""
    powers = Tensor([3**i for i in range(count)], dtype=dtypes.uint8).reshape(count, 1)
    digits = ((x.unsqueeze(1) * powers).cast(dtypes.uint16) * 3) >> 8
    return _signed(digits.flatten(1), 1)


def _tq1_0(blocks: Tensor) -> Tensor:
    pieces = _thirds(blocks[:, :32], 5), _thirds(blocks[:, 32:48], 5), _thirds(blocks[:, 48:52], 4)
    return pieces[0].cat(*pieces[1:], dim=1) * _scale(blocks, 52)


def _tq2_0(blocks: Tensor) -> Tensor:
    return _signed(_two_bits(blocks[:, :64]).flatten(1), 1) * _scale(blocks, 64)


def _nvfp4(blocks: Tensor) -> Tensor:
    """Scales are fp8e4m3 without sign; its NaN stands for 0."""
    bits = blocks[:, :4] & 127
    d = bits.bitcast(dtypes.fp8e4m3).cast(dtypes.float32)
    scales = (bits == 127).where(0.0, d * 0.5).unsqueeze(-1)
    q = _fields(blocks[:, 4:].reshape(-1, 4, 8), 4).flatten(-2)
    return (scales * _looked_up(_FP4, q)).flatten(1)


def _mxfp4(blocks: Tensor) -> Tensor:
    """2 to the power of a byte - 128; the two least are subnormal."""
    e = blocks[:, :1].cast(dtypes.uint32)
    bits = (e < 2).where((e + 1) * 0x200000, (e.maximum(1) - 1) * 0x800000)
    return _looked_up(_FP4, _q4(blocks, 1)) * bits.bitcast(dtypes.float32)


def _q1_0(blocks: Tensor) -> Tensor:
    bits = _fields(blocks[:, 2:], 1).transpose(-1, -2).flatten(-2)
    return (bits.bitcast(dtypes.int8) * 2 - 1) * blocks[:, :2].bitcast(dtypes.float16)


# ggml's number of a type -> its dtype, or elements and bytes of a block and what makes numbers.
_STORED: dict[int, DType] = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
    27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16,
}  # fmt: skip
_BLOCKS: dict[int, tuple[int, int, Callable[[Tensor], Tensor]]] = {
    2: (32, 18, _q4_0),
    3: (32, 20, _q4_1),
    6: (32, 22, _q5_0),
    7: (32, 24, _q5_1),
    8: (32, 34, _q8_0),
    10: (256, 84, _q2_k),
    11: (256, 110, _q3_k),
    12: (256, 144, functools.partial(_q45_k, fifth=False)),
    13: (256, 176, functools.partial(_q45_k, fifth=True)),
    14: (256, 210, _q6_k),
    16: (256, 66, _iq2_xxs),
    17: (256, 74, _iq2_xs),
    18: (256, 98, _iq3_xxs),
    19: (256, 50, _iq1_s),
    20: (32, 18, _iq4_nl),
    21: (256, 110, _iq3_s),
    22: (256, 82, _iq2_s),
    23: (256, 136, _iq4_xs),
    29: (256, 56, _iq1_m),
    34: (256, 54, _tq1_0),
    35: (256, 66, _tq2_0),
    39: (32, 17, _mxfp4),
    40: (64, 36, _nvfp4),
    41: (128, 18, _q1_0),
}
_UNREAD = {9: "Q8_1", 15: "Q8_K"}  # of steps inside computations, not of files


def _bytes_of(n: int, ggml_type: int) -> int:
    """The bytes of n elements."""
    if ggml_type in _STORED:
        return n * _STORED[ggml_type].itemsize
    if ggml_type not in _BLOCKS:
        name = _UNREAD.get(ggml_type, "no type that is known")
        raise _Unread(f"GGML type {ggml_type} ({name}) is not supported")
    elements, size, _ = _BLOCKS[ggml_type]
    if n % elements:
        raise FormatError(f"{n} elements are no whole number of blocks of {elements}")
    return n // elements * size


class _Unread(UnsupportedError, ValueError):
    """A quantisation that this package does not read."""


def ggml_data_to_tensor(t: Tensor, n: int, ggml_type: int) -> Tensor:
    """n elements of a ggml type, from the bytes that begin with them.

    >>> ggml_data_to_tensor(Tensor([0, 0x3C, *range(32)], dtype="uint8"), 32, 8)[:4].tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    size = _bytes_of(n, ggml_type)
    if t.dtype is not dtypes.uint8 or t.ndim != 1 or len(t) < size:
        raise FormatError(f"{n} elements of GGML type {ggml_type} need {size} bytes, got {t.shape}")
    raw = t[:size]
    if ggml_type in _STORED:
        return raw.bitcast(_STORED[ggml_type]).contiguous()
    _, width, numbers = _BLOCKS[ggml_type]
    return numbers(raw.reshape(-1, width)).flatten()


# ---- the header

_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_TEXT, _ARRAY = 8, 9
_DEPTH = 16  # arrays in arrays


class _Reader:
    """What stands in a file, from its begin on. Raises FormatError where it ends too early."""

    def __init__(self, view: memoryview):
        self.view, self.at = view, 0

    def take(self, size: int) -> memoryview:
        part = self.view[self.at : self.at + size]
        if len(part) != size:
            raise FormatError(f"a GGUF file of {len(self.view)} bytes ends inside its header")
        self.at += size
        return part

    def number(self, fmt: str) -> Any:
        return self.numbers(fmt, 1)[0]

    def numbers(self, fmt: str, count: int) -> tuple[Any, ...]:
        return struct.unpack(f"<{count}{fmt}", self.take(struct.calcsize(f"<{fmt}") * count))

    def text(self) -> str:
        try:
            return str(self.take(self.number("Q")), "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"a text in a GGUF file is not UTF-8: {error}") from None

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY or depth == _DEPTH:
            raise FormatError(f"a value of type {kind} in a GGUF file")
        inner, count = self.number("I"), self.number("Q")
        if count > len(self.view) - self.at:
            raise FormatError(f"an array of {count} values in {len(self.view)} bytes of GGUF")
        if inner in _NUMBERS:
            return list(self.numbers(_NUMBERS[inner], count))
        return [self.value(inner, depth + 1) for _ in range(count)]


def _metadata(reader: _Reader) -> tuple[dict[str, Any], int]:
    """The metadata, and how many tensors follow."""
    if len(reader.view) < 24 or bytes(reader.take(4)) != b"GGUF":
        raise FormatError("no GGUF file: it does not begin with GGUF")
    version, tensors, count = reader.number("I"), reader.number("Q"), reader.number("Q")
    if version not in (2, 3):
        raise FormatError(f"GGUF version {version}: 2 and 3 are read")
    values: dict[str, Any] = {}
    for _ in range(count):
        name = reader.text()
        values[name] = reader.value(reader.number("I"))
    return values, tensors


def _parse(raw: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The metadata and tensors in a vector of bytes."""
    if raw.dtype is not dtypes.uint8 or raw.ndim != 1:
        raise FormatError(f"a GGUF file is a vector of uint8, got {raw.dtype} of shape {raw.shape}")
    memory: Any = raw.realize()
    reader = _Reader(memoryview(memory) if len(raw) else memoryview(b""))
    values, count = _metadata(reader)
    found: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(count):
        name = reader.text()
        dims = reader.numbers("Q", reader.number("I"))
        if name in found:
            raise FormatError(f"two tensors {name!r} in a GGUF file")
        found[name] = dims, reader.number("I"), reader.number("Q")
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise FormatError(f"general.alignment of a GGUF file is {alignment!r}")
    start, end = round_up(reader.at, alignment), len(raw)
    tensors = {}
    for name, (dims, kind, offset) in found.items():
        at, n = start + offset, prod(dims)
        try:
            if at + (size := _bytes_of(n, kind)) > end:
                raise FormatError(f"{size} bytes at {at} lie outside of {end}")
            data = ggml_data_to_tensor(raw[at : at + size], n, kind)
        except (FormatError, UnsupportedError) as error:
            raise type(error)(f"{name!r} in a GGUF file: {error}") from None
        tensors[name] = data.reshape(tuple(reversed(dims)))
    return values, tensors


def _mapped(path: pathlib.Path) -> Tensor:
    """The bytes of a file, not read."""
    size = path.stat().st_size
    if not size:
        return Tensor([], dtype=dtypes.uint8)
    mapped: Tensor = _native.lazy_from_file(
        path, dtypes.uint8.code, (size,), 0, _native.FILE_READ
    )
    return mapped


def _further(path: pathlib.Path, values: dict[str, Any]) -> list[pathlib.Path]:
    """The files behind the first one of several."""
    count = values.get("split.count", 1)
    if count <= 1:
        return []
    if values.get("split.no", 0) != 0:
        raise FormatError(f"a GGUF file in parts is read from its first, not {values['split.no']}")
    match = re.fullmatch(r"(.*)-00001-of-\d{5}\.gguf", str(path))
    if match is None:
        raise FormatError(f"the first of {count} parts ends in -00001-of-{count:05d}.gguf: {path}")
    return [pathlib.Path(f"{match[1]}-{i:05d}-of-{count:05d}.gguf") for i in range(2, count + 1)]


def gguf_load(fn: Source) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The metadata and the tensors of a GGUF file, or of a uint8 tensor of its bytes.

    Quantised tensors are float32 expressions over the file's blocks: no file is dequantised as a
    whole. Files in parts are read by the path of the first. Types that are of no file (Q8_1, Q8_K)
    are an UnsupportedError; a file that breaks its format is a FormatError.
    """
    if isinstance(fn, Tensor):
        values, tensors = _parse(fn)
        if values.get("split.count", 1) > 1:
            raise FormatError("a GGUF file in parts is read by its path")
        return values, tensors
    path = pathlib.Path(fn)
    values, tensors = _parse(_mapped(path))
    for part in _further(path, values):
        tensors.update(_parse(_mapped(part))[1])
    return values, tensors


__getattr__ = of_module("llm.gguf")
