"""GGUF files made here, read beside live tinygrad, or by NumPy an element at a time."""

import struct

import numpy as np
import pytest

from aster_ml import Tensor, dtypes, nn
from aster_ml.errors import FormatError, NotFoundError, UnsupportedError
from aster_ml.llm.codebooks import codebook
from aster_ml.llm.gguf import ggml_data_to_tensor, gguf_load

RNG = np.random.default_rng(7)
STORED = {
    0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64", 28: "float64",
    30: "bfloat16",
}  # fmt: skip
# Type: elements and bytes of a block, where its float16 are.
BLOCKS = {
    2: (32, 18, [0]), 3: (32, 20, [0, 2]), 6: (32, 22, [0]), 7: (32, 24, [0, 2]), 8: (32, 34, [0]),
    10: (256, 84, [80, 82]), 11: (256, 110, [108]), 12: (256, 144, [0, 2]),
    13: (256, 176, [0, 2]), 14: (256, 210, [208]), 20: (32, 18, [0]), 23: (256, 136, [0]),
    39: (32, 17, []), 41: (128, 18, [0]), 16: (256, 66, [0]), 17: (256, 74, [0]),
    18: (256, 98, [0]), 19: (256, 50, [0]), 21: (256, 110, [0]), 22: (256, 82, [0]),
    29: (256, 56, []), 34: (256, 54, [52]), 35: (256, 66, [64]), 40: (64, 36, []),
}  # fmt: skip
NOT_TINYGRADS = {10, 11, 16, 17, 19, 20, 29, 34, 35, 40}


def blocks(kind, count):
    elements, size, halves = BLOCKS[kind]
    raw = RNG.integers(0, 256, (count, size), dtype=np.uint8)
    for at in halves:
        half = RNG.standard_normal(count).astype(np.float16)
        raw[:, at : at + 2] = half.view(np.uint8).reshape(count, 2)
    if kind == 29:  # its float16 lies in four nibbles
        raw[:, 55] &= 0xBF
    if kind == 40:  # scales without sign
        raw[:, :4] &= 127
    return count * elements, raw.tobytes()


def text(x):
    return struct.pack("<Q", len(x.encode())) + x.encode()


VALUES = [
    ("u8", 0, "B", 200), ("i8", 1, "b", -3), ("u16", 2, "H", 60000), ("i16", 3, "h", -300),
    ("u32", 4, "I", 2**31), ("i32", 5, "i", -7), ("f32", 6, "f", 0.5), ("bool", 7, "?", True),
    ("u64", 10, "Q", 2**63), ("i64", 11, "q", -(2**40)), ("f64", 12, "d", 0.1),
]  # fmt: skip


def metadata(extra=()):
    parts = [text(n) + struct.pack(f"<I{f}", k, v) for n, k, f, v in VALUES]
    parts.append(text("name") + struct.pack("<I", 8) + text("ü text"))
    words = b"".join(map(text, ("a", "", "bc")))
    parts.append(text("words") + struct.pack("<IIQ", 9, 8, 3) + words)
    parts.append(text("numbers") + struct.pack("<IIQ3i", 9, 5, 3, 1, -2, 3))
    inner = struct.pack("<IQ2B", 0, 2, 1, 2)
    parts.append(text("nested") + struct.pack("<IIQ", 9, 9, 2) + inner + inner)
    return [*parts, *extra]


def file(tensors, parts=(), alignment=32, version=3, magic=b"GGUF"):
    """tensors: (name, dims, type, bytes)."""
    head = magic + struct.pack("<IQQ", version, len(tensors), len(parts)) + b"".join(parts)
    data = b""
    for name, dims, kind, raw in tensors:
        data += bytes(-len(data) % alignment)
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += raw
    return head + bytes(-len(head) % alignment) + data


def all_kinds():
    out = []
    for kind, name in STORED.items():
        size = 2 if name == "bfloat16" else np.dtype(name).itemsize
        raw = RNG.integers(0, 60, 6 * size, dtype=np.uint8).tobytes()
        out.append((name, (2, 3), kind, raw))
    for kind in BLOCKS:
        n, raw = blocks(kind, 6)
        out.append((f"type {kind}", (n // 2, 2), kind, raw))
    return out


def test_every_type_against_tinygrad(tmp_path):
    theirs = pytest.importorskip("tinygrad.llm.gguf")
    kinds = [t for t in all_kinds() if t[2] not in NOT_TINYGRADS]
    wanted_kinds = [t for t in kinds if t[0] != "bfloat16"]  # its compiler may lack it
    path = tmp_path / "model.gguf"
    path.write_bytes(file(wanted_kinds, metadata()[1:]))
    values, tensors = gguf_load(path)
    wanted_values, wanted = theirs.gguf_load(path)
    wanted_values["nested"] = [[1, 2], [1, 2]]  # numbers of 8 bits, not bytes
    assert values == wanted_values and list(tensors) == list(wanted)
    for name, x in tensors.items():
        assert x.shape == wanted[name].shape and str(x.dtype) == str(wanted[name].dtype), name
        np.testing.assert_allclose(x.numpy(), wanted[name].numpy(), rtol=1e-6, err_msg=name)


def q2_k(b):
    d, least = np.frombuffer(b[80:84], np.float16).astype(np.float64)
    for i in range(256):
        half, j, rest = i // 128, i % 128 // 32, i % 32
        scale = b[half * 8 + j * 2 + rest // 16]
        q = b[16 + half * 32 + rest] >> (2 * j) & 3
        yield d * (scale & 15) * q - least * (scale >> 4)


def q3_k(b):
    (d,) = np.frombuffer(b[108:110], np.float16).astype(np.float64)
    for i in range(256):
        half, j, rest = i // 128, i % 128 // 32, i % 32
        k = half * 8 + j * 2 + rest // 16
        low = b[96 + k] & 15 if k < 8 else b[96 + k - 8] >> 4
        scale = (low | (b[104 + k % 4] >> (2 * (k // 4)) & 3) << 4) - 32
        q = b[32 + half * 32 + rest] >> (2 * j) & 3
        yield d * scale * (q - (0 if b[rest] >> (half * 4 + j) & 1 else 4))


def iq4_nl(b):
    table = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
    (d,) = np.frombuffer(b[:2], np.float16).astype(np.float64)
    for i in range(32):
        yield d * table[b[2 + i % 16] >> (4 * (i // 16)) & 15]


def table(name):
    """A codebook as tinygrad's copy of the format's header has it: words of bytes."""
    words = getattr(pytest.importorskip("tinygrad.runtime.autogen.ggml_common"), name)
    size = 4 if "iq3" in name else 8
    return np.array(words, f"<u{size}").view(np.int8).reshape(-1, size)


def half(b):
    return float(np.frombuffer(bytes(b), np.float16)[0])


def word(b, at, size):
    return int.from_bytes(b[at : at + size], "little")


def even(seven):
    return seven | (seven.bit_count() % 2) << 7


def iq2(b, grid, groups):
    """groups: place in the codebook, eight signs, four bits of scale of every eight elements."""
    for place, signs, scale in groups:
        for i in range(8):
            sign = -1 if signs >> i & 1 else 1
            yield half(b[:2]) * (0.5 + scale) * 0.25 * sign * grid[place][i]


def iq2_xxs(b):
    grid = table("iq2xxs_grid")
    words = [word(b, 2 + 8 * (i // 4) + 4, 4) for i in range(32)]
    places = [b[2 + 8 * (i // 4) + i % 4] for i in range(32)]
    signs = [even(words[i] >> 7 * (i % 4) & 127) for i in range(32)]
    return iq2(b, grid, zip(places, signs, [w >> 28 for w in words]))


def iq2_xs(b):
    words = [word(b, 2 + 2 * i, 2) for i in range(32)]
    scales = [b[66 + i // 4] >> 4 * (i // 2 % 2) & 15 for i in range(32)]
    return iq2(
        b, table("iq2xs_grid"), zip([w & 511 for w in words], [even(w >> 9) for w in words], scales)
    )


def iq1(d, groups):
    """groups: place, whether it is moved down, three bits of scale of every eight elements."""
    grid = table("iq1s_grid")
    for place, down, scale in groups:
        for i in range(8):
            yield d * (2 * scale + 1) * (float(grid[place][i]) + (-0.125 if down else 0.125))


def iq1_s(b):
    high = [word(b, 34 + 2 * (i // 4), 2) for i in range(32)]
    places = [b[2 + i] | (high[i] >> 3 * (i % 4) & 7) << 8 for i in range(32)]
    return iq1(half(b[:2]), zip(places, [h >> 15 for h in high], [h >> 12 & 7 for h in high]))


def iq1_m(b):
    words = [word(b, 48 + 2 * i, 2) for i in range(4)]
    d = half(sum((w >> 12) << 4 * i for i, w in enumerate(words)).to_bytes(2, "little"))
    high = [b[32 + i // 2] >> 4 * (i % 2) for i in range(32)]
    places = [b[i] | (high[i] & 7) << 8 for i in range(32)]
    scales = [words[i // 8] >> 3 * (i // 2 % 4) & 7 for i in range(32)]
    return iq1(d, zip(places, [h >> 3 & 1 for h in high], scales))


def tq1_0(b):
    order = [(i, n) for n in range(5) for i in range(32)]
    order += [(32 + i, n) for n in range(5) for i in range(16)]
    order += [(48 + i, n) for n in range(4) for i in range(4)]
    for at, n in order:
        yield half(b[52:54]) * ((b[at] * 3**n % 256 * 3 >> 8) - 1)


def tq2_0(b):
    for i in range(256):
        yield half(b[64:66]) * ((b[i // 128 * 32 + i % 32] >> 2 * (i % 128 // 32) & 3) - 1)


def nvfp4(b):
    for i in range(64):
        exponent, fraction = b[i // 16] >> 3 & 15, b[i // 16] & 7
        scale = (8 + fraction) * 2.0 ** (exponent - 10) if exponent else fraction * 2.0**-9
        q = b[4 + i // 16 * 8 + i % 8] >> 4 * (i % 16 // 8) & 15
        value = [0, 1, 2, 3, 4, 6, 8, 12][q & 7] * (-1 if q & 8 else 1)
        yield 0.0 if b[i // 16] == 127 else scale / 2 * value


ELEMENTS = {
    10: q2_k, 11: q3_k, 16: iq2_xxs, 17: iq2_xs, 19: iq1_s, 20: iq4_nl, 29: iq1_m, 34: tq1_0,
    35: tq2_0, 40: nvfp4,
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_TINYGRADS)
def test_types_that_tinygrad_lacks(kind):
    n, raw = blocks(kind, 4)
    if kind == 40:
        raw = raw[:-36] + bytes([127, 126, 1, 0]) + raw[-32:]
    size = BLOCKS[kind][1]
    found = ggml_data_to_tensor(Tensor(raw), n, kind)
    wanted = [x for at in range(0, len(raw), size) for x in ELEMENTS[kind](raw[at : at + size])]
    assert found.shape == (n,) and found.dtype is dtypes.float
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name, theirs", [("IQ1", "iq1s"), ("IQ2_XXS", "iq2xxs"), ("IQ2_XS", "iq2xs"), ("IQ2_S", "iq2s"),
                     ("IQ3_XXS", "iq3xxs"), ("IQ3_S", "iq3s")]
)  # fmt: skip
def test_codebooks_are_the_formats(name, theirs):
    count, vectors = codebook(name)
    wanted = table(f"{theirs}_grid")
    found = np.frombuffer(vectors, np.int8).reshape(-1, count) - (name == "IQ1")
    assert count == wanted.shape[1]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", set(BLOCKS) - {41})
def test_every_type_against_its_reference(kind):
    gguf = pytest.importorskip("gguf")  # ggml's own package, where it is installed
    n, raw = blocks(kind, 50)
    rows = np.frombuffer(raw, np.uint8).reshape(50, -1)
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(kind)).reshape(-1)
    np.testing.assert_array_equal(ggml_data_to_tensor(Tensor(raw), n, kind).numpy(), wanted)


def test_values_and_dtypes():
    values, tensors = gguf_load(Tensor(file(all_kinds(), metadata())))
    assert {n: values[n] for n, _, _, _ in VALUES} == {n: v for n, _, _, v in VALUES}
    assert values["name"] == "ü text" and values["words"] == ["a", "", "bc"]
    assert values["numbers"] == [1, -2, 3] and values["nested"] == [[1, 2], [1, 2]]
    for name in STORED.values():
        assert tensors[name].dtype is getattr(dtypes, name) and tensors[name].shape == (3, 2)
    assert nn.state.gguf_load is gguf_load


def test_blocks_stay_in_the_file(tmp_path):
    n, raw = blocks(8, 1000)
    path = tmp_path / "model.gguf"
    path.write_bytes(file([("w", (n // 100, 100), 8, raw)]))
    w = gguf_load(str(path))[1]["w"]
    assert not w.uop.is_realized and w.device == "CPU"
    x = Tensor.ones(w.shape[1])
    np.testing.assert_allclose((w @ x).numpy(), w.numpy().sum(1), rtol=1e-3, atol=1e-3)
    with open(path, "r+b") as f:  # what is not realised follows the file
        f.seek(-34, 2)
        f.write(struct.pack("<e", 2.0) + bytes([1] * 32))
    assert w[-1, -32:].tolist() == [2.0] * 32
    w = w.realize()
    w[-1, -1] = 7.0
    assert w[-1, -2:].tolist() == [2.0, 7.0] and path.read_bytes()[-1] == 1


def test_alignment_versions_and_shapes():
    raw = np.arange(3, dtype=np.float32).tobytes()
    for alignment in (1, 8, 64):
        parts = [text("general.alignment") + struct.pack("<II", 4, alignment)]
        tensors = [("odd", (3,), 24, b"abc"), ("x", (3,), 0, raw), ("none", (0, 2), 0, b""),
                   ("number", (), 0, raw[4:8])]
        for version in (2, 3):
            found = gguf_load(Tensor(file(tensors, parts, alignment, version)))[1]
            assert found["x"].tolist() == [0.0, 1.0, 2.0] and found["odd"].tolist() == [97, 98, 99]
            assert found["none"].shape == (2, 0) and found["number"].item() == 1.0
    assert gguf_load(Tensor(file([]))) == ({}, {})


def test_files_in_parts(tmp_path):
    def part(number):
        kinds = (("split.count", 2), ("split.no", number))
        return [text(n) + struct.pack("<IH", 2, v) for n, v in kinds]

    paths = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for i, path in enumerate(paths):
        path.write_bytes(file([(f"x{i}", (1,), 24, bytes([i]))], part(i)))
    values, tensors = gguf_load(paths[0])
    assert values["split.count"] == 2 and [x.item() for x in tensors.values()] == [0, 1]
    for wrong, message in ((paths[1], "from its first"), (Tensor(paths[0]), "by its path")):
        with pytest.raises(FormatError, match=message):
            gguf_load(wrong)
    renamed = paths[0].rename(tmp_path / "other.gguf")
    with pytest.raises(FormatError, match="ends in -00001-of-00002.gguf"):
        gguf_load(renamed)
    renamed.rename(paths[0])
    paths[1].unlink()
    with pytest.raises(FileNotFoundError):
        gguf_load(paths[0])


X = ("x", (3,), 24, b"abc")
HUGE = struct.pack("<Q", 2**62)
BAD = {
    "empty": b"",
    "magic": file([X], magic=b"GGML"),
    "version": file([X], version=1),
    "count of tensors": b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0),
    "count of values": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62),
    "text": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + HUGE,
    "not UTF-8": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"\xff" + bytes(9),
    "type of value": file([X], [text("a") + struct.pack("<I", 13)]),
    "array": file([X], [text("a") + struct.pack("<II", 9, 4) + HUGE]),
    "deep array": file([X], [text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000]),
    "alignment": file([X], [text("general.alignment") + struct.pack("<II", 4, 0)]),
    "alignment as text": file([X], [text("general.alignment") + struct.pack("<I", 8) + text("x")]),
    "outside": file([("x", (4,), 24, b"abc")]),
    "dims": file([("x", (2**40, 2**40), 24, b"abc")]),
    "many dims": b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("x") + b"\xff" * 4,
    "part of a block": file([("x", (31,), 2, bytes(18))]),
    "twice": file([X, X]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name):
    with pytest.raises(FormatError) as caught:
        gguf_load(Tensor(BAD[name], dtype="uint8"))
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


def test_every_cut_is_an_error():
    whole = file([("x", (32,), 8, blocks(8, 1)[1])], metadata())
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            gguf_load(Tensor(whole[:size], dtype="uint8"))


def test_what_is_not_read():
    with pytest.raises(UnsupportedError, match="'x' in a GGUF file: GGML type 15 .Q8_K. is not"):
        gguf_load(Tensor(file([("x", (256,), 15, bytes(292))])))
    with pytest.raises(ValueError, match="type 99 .no type that is known. is not supported"):
        ggml_data_to_tensor(Tensor(b"abc"), 3, 99)
    with pytest.raises(FormatError, match="need 34 bytes, got .3,."):
        ggml_data_to_tensor(Tensor(b"abc"), 32, 8)
    with pytest.raises(FormatError, match="vector of uint8"):
        gguf_load(Tensor([1.0, 2.0]))
    with pytest.raises((NotFoundError, FileNotFoundError)):
        gguf_load("/nowhere/at/all.gguf")
