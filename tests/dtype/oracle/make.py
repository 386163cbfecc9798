#!/usr/bin/env python3
"""Writes the tables beside it from live tinygrad 0.14.0 and NumPy; --check compares instead.

promotion.tsv, lossless.tsv   19 x 19, rows by columns
unary.tsv                     dtype, least upper float, sum accumulator, strong
fp8.tsv                       code, then its value in each of the four formats
encode.tsv                    dtype, value, code: specials and the ends of each format
digest.tsv                    dtype, what, FNV-1a over all codes: see digests()
convert.tsv                   from, to, source bytes, expected bytes
"""
import io, math, pathlib, struct, sys
import numpy as np
from tinygrad.dtype import (dtypes, least_upper_dtype, least_upper_float, can_lossless_cast,
                            sum_acc_dtype, strong_dtype, fp8_to_float, to_storage_scalar,
                            from_storage_scalar, float_to_fp16)

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
         "fp8e4m3", "fp8e4m3fnuz", "fp8e5m2", "fp8e5m2fnuz", "float16", "bfloat16", "float32",
         "float64", "weakint", "weakfloat"]
DT = {n: getattr(dtypes, n) for n in NAMES}
NAME = {d: n for n, d in DT.items()}
FP8 = [n for n in NAMES if n.startswith("fp8")]
NARROW = FP8 + ["float16", "bfloat16"]
INTS = NAMES[1:9]
STORED = NAMES[:17]


def encode(name, x):
    if name == "float16":
        return struct.unpack("H", struct.pack("e", float_to_fp16(x)))[0]
    return int(to_storage_scalar(x, DT[name]))


def decode(name, code):
    if name == "float16":
        return struct.unpack("e", struct.pack("H", code))[0]
    return from_storage_scalar(code, DT[name])


def hexfloat(x):
    return "nan" if math.isnan(x) else x.hex() if math.isfinite(x) else str(x)


def square(f):
    out = io.StringIO()
    print("", *NAMES, sep="\t", file=out)
    for a in NAMES:
        print(a, *[f(DT[a], DT[b]) for b in NAMES], sep="\t", file=out)
    return out.getvalue()


def unary():
    rows = [(n, NAME[least_upper_float(d)], NAME[sum_acc_dtype(d)], NAME[strong_dtype(d)])
            for n, d in DT.items()]
    return "".join("\t".join(r) + "\n" for r in rows)


def fp8_table():
    rows = ["code\t" + "\t".join(FP8)]
    for code in range(256):
        rows.append("\t".join([str(code)] + [hexfloat(fp8_to_float(code, DT[n])) for n in FP8]))
    return "\n".join(rows) + "\n"


def specials(name):
    codes = range(1 << (8 if name in FP8 else 16))
    finite = [v for v in (decode(name, c) for c in codes) if math.isfinite(v)]
    top, tiny = max(finite), min(v for v in finite if v > 0)
    step = top - max(v for v in finite if v < top)
    values = [0.0, 1.0, 1.5, 1 / 3, top, top + step / 4, top + step / 2,
              math.nextafter(top + step / 2, math.inf), top + step, 2 * top, 1e30, 1e300,
              sys.float_info.max, tiny, tiny / 2, math.nextafter(tiny / 2, 1), tiny / 4, tiny * 1.5,
              1e-40, 5e-324, math.inf]
    return [s * v for v in values for s in (1, -1)] + [math.nan]


def encodings():
    return "".join(f"{n}\t{hexfloat(v)}\t{encode(n, v)}\n" for n in NARROW for v in specials(n))


class Fnv:
    def __init__(self):
        self.state = 0xCBF29CE484222325

    def add(self, data):
        state = self.state
        for byte in data:
            state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        self.state = state


def digests():
    """decode: the double of every code, NaN as 7ff8000000000000. encode: for every finite code, the
    codes (2 bytes) of its value, of the doubles next to it, of the midpoint to the next code's
    value and of the doubles next to that."""
    rows = []
    for name in NARROW:
        count = 1 << (8 if name in FP8 else 16)
        values = [decode(name, c) for c in range(count)]
        into, out_of = Fnv(), Fnv()
        for code, v in enumerate(values):
            out_of.add(bytes.fromhex("000000000000f87f") if math.isnan(v) else struct.pack("<d", v))
            if not math.isfinite(v):
                continue
            points = [v]
            if code + 1 < count and math.isfinite(values[code + 1]):
                points.append((v + values[code + 1]) / 2)
            for p in points:
                for x in (p, math.nextafter(p, math.inf), math.nextafter(p, -math.inf)):
                    into.add(struct.pack("<H", encode(name, x)))
        rows += [f"{name}\tdecode\t{out_of.state:016x}\n", f"{name}\tencode\t{into.state:016x}\n"]
    return "".join(rows)


def pack(name, x):
    if name in NARROW:
        return struct.pack("<B" if name in FP8 else "<H", encode(name, x))
    if name in ("float32", "float64"):
        with np.errstate(all="ignore"):
            return (np.float32(x) if name == "float32" else np.float64(x)).tobytes()
    if name == "bool":
        return b"\x01" if x != 0 else b"\x00"
    bits = DT[name].bitsize
    return (int(x) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")


def sources(name):
    if name == "bool":
        return [False, True]
    if name in INTS:
        low, high = int(DT[name].min), int(DT[name].max)
        near = (-1, 0, 1, 100, 2049, 16777217, 2**31, 2**53 + 1, 2**62 + 2**38 + 1,
                2**63 + 2**39 + 1)
        return [low, high] + [v for v in near if low < v < high]
    return [0.0, -0.0, 0.5, -0.5, 1.0, -1.75, 3.0, 200.0, -200.0, 300.0, 70000.0, -40000.0, 2.0**31,
            -2.0**31 - 1, 3e9, 2.0**62, 1e18, 2.0**63, -(2.0**63), 1e19, 1e30, -1e30, 1e300, 1e-8,
            1e-42, math.inf, -math.inf, math.nan]


def value_of(name, data):
    if name in NARROW:
        return decode(name, int.from_bytes(data, "little"))
    if name in ("float32", "float64"):
        return float(np.frombuffer(data, dtype=name)[0])
    if name == "bool":
        return int(data[0] != 0)
    return int.from_bytes(data, "little", signed=name.startswith("int"))


def converted(name, x):
    """x, an int or a float, in another dtype."""
    if isinstance(x, float) and name in INTS:
        return pack(name, int(x) if math.isfinite(x) and abs(x) < 2.0**63 else 0)
    if isinstance(x, int) and (name in NARROW or name == "float32"):
        x = float(np.float32(np.uint64(x) if x >= 2**63 else np.int64(x)))  # rounded once
    return pack(name, x)


def conversions():
    rows = []
    for a in STORED:
        data = [pack(a, v) for v in sources(a)]
        for b in STORED:
            out = [converted(b, value_of(a, d)) for d in data] if a != b else data
            rows.append(f"{a}\t{b}\t{b''.join(data).hex()}\t{b''.join(out).hex()}\n")
    return "".join(rows)


TABLES = {"promotion.tsv": lambda: square(lambda a, b: NAME[least_upper_dtype(a, b)]),
          "lossless.tsv": lambda: square(lambda a, b: int(can_lossless_cast(a, b))),
          "unary.tsv": unary, "fp8.tsv": fp8_table, "encode.tsv": encodings, "digest.tsv": digests,
          "convert.tsv": conversions}

if __name__ == "__main__":
    check, failed = "--check" in sys.argv, False
    for file, make in TABLES.items():
        if not check:
            (HERE / file).write_text(make())
        elif (HERE / file).read_text() != make():
            failed = True
            print(f"{file} differs from the live oracle")
    sys.exit(failed)
