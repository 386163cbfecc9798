#!/usr/bin/env python3
"""Asks tinygrad 0.14.0 and NumPy what linalg_test.cpp, hash_test.cpp and random_test.cpp expect.

  make_linalg.py [FILE..]   writes einsum.tsv, attention.tsv, decompose.tsv, hash.tsv, sampling.tsv

Numbers are written as the hexadecimal of their little-endian bytes.
"""

import hashlib
import os
import sys

os.environ.setdefault("EMULATED_DTYPES", "bfloat16")  # clang 14 has no __bf16 on x86

import numpy as np  # noqa: E402
from tinygrad import Context, Tensor, dtypes  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def values(shape, salt, dtype="float32"):
    """Numbers without structure; the same in the test (world_values)."""
    n = int(np.prod(shape)) if len(shape) else 1
    k = (np.arange(n, dtype=np.int64) * 7919 + salt * 104729) % 2003
    k = (k * k) % 2003
    if dtype.startswith("float"):
        return (k / 1001.0 - 1.0).astype(dtype).reshape(shape)
    return ((k % 21) - 10).astype(dtype).reshape(shape)


def hexed(array):
    return np.ascontiguousarray(array).tobytes().hex()


def text(shape):
    return ",".join(str(d) for d in shape) if len(shape) else "-"


# ---- einsum ----

EINSUM = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ij,jk->ki", (3, 4), (4, 5)),
    ("ij,kj->ik", (3, 4), (5, 4)),
    ("ji,jk->ik", (4, 3), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bhij,bhjd->bihd", (2, 3, 4, 6), (2, 3, 6, 5)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ba", (3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,j->ji", (3,), (4,)),
    ("i,i", (4,), (4,)),
    ("ii->", (4, 4)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("iij->j", (3, 3, 4)),
    ("iji->ij", (3, 4, 3)),
    ("iii->i", (3, 3, 3)),
    ("ijij->ij", (2, 3, 2, 3)),
    ("ii,ij->j", (3, 3), (3, 4)),
    ("...ij,...jk->...ik", (2, 2, 3, 4), (2, 2, 4, 5)),
    ("...ij,jk->...ik", (2, 3, 4), (4, 5)),
    ("i...,i...->...", (3, 4, 2), (3, 4, 2)),
    ("...i,...i", (2, 3, 4), (2, 3, 4)),
    ("b...i,i->b...", (2, 3, 4), (4,)),
    ("...", (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,kl", (2, 3), (3, 4), (4, 5)),
    ("i,ij,j->", (3,), (3, 4), (4,)),
    ("abc,cd,be->ade", (2, 3, 4), (4, 5), (3, 2)),
    ("pqrs,tuqvr->pstuv", (2, 3, 4, 2), (2, 2, 3, 2, 4)),
    ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)),
    ("Aa,aB->AB", (2, 3), (3, 4)),
    (" i j , j k -> i k ", (3, 4), (4, 5)),
    ("i,->i", (3,), ()),
    ("ij,k->", (2, 3), (4,)),
    ("abcd,abcd->ad", (2, 3, 2, 4), (2, 3, 2, 4)),
    ("nchw,oc->nohw", (2, 3, 2, 2), (4, 3)),
]


def einsum_rows():
    """formula, dtype, dtype argument, shapes, result dtype, result shape, result, gradients."""
    rows = []

    def row(formula, shapes, dtype="float32", to=None):
        inputs = [Tensor(values(s, i + 1, dtype)) for i, s in enumerate(shapes)]
        arg = getattr(dtypes, to) if to else None
        known = "".join(formula.split())
        exact = [values(s, i + 1, dtype).astype("float64") for i, s in enumerate(shapes)]
        sums = np.einsum(known, *exact)
        try:
            y = Tensor.einsum(formula, *inputs, dtype=arg)
            r, right = y.numpy(), True
        except Exception:  # whatever it refuses with
            r, right = None, False
        if right and dtype == "float32" and not to:
            right = r.shape == sums.shape and np.allclose(r, sums, atol=1e-4)
        if not right:  # tinygrad mixes letters up where one occurs twice beside others
            print("tinygrad is wrong:", formula)
            r = sums.astype(dtype)
        grads = []
        if right and dtype == "float32" and not to:
            w = Tensor(values(y.shape, 9))
            grads = [hexed(g.numpy()) for g in (y * w).sum().gradient(*inputs)]
        shape_text = ";".join(text(s) for s in shapes)
        rows.append(
            [formula, dtype, to or "none", shape_text, str(r.dtype), text(r.shape), hexed(r)]
            + grads
        )

    for formula, *shapes in EINSUM:
        row(formula, shapes)
    for formula, *shapes in EINSUM[:1] + EINSUM[8:12] + EINSUM[17:20]:
        row(formula, shapes, "int32")
        row(formula, shapes, "int8")
    row("ij,jk->ik", ((3, 4), (4, 5)), "float16", "float32")
    row("ij,jk->ik", ((3, 4), (4, 5)), "float32", "float64")
    row("ij,jk->ik", ((3, 4), (4, 5)), "float32", "int32")
    row("ij->i", ((3, 4),), "int32", "float32")
    return rows


# ---- attention ----


def attention_rows():
    """query, key, value, mask shapes, mask kind, causal, gqa, result shape, result, gradients."""
    rows = []
    for q, k, v, mask, kind, causal, gqa in [
        ((4, 8), (5, 8), (5, 6), None, "-", 0, 0),
        ((2, 3, 4, 8), (2, 3, 4, 8), (2, 3, 4, 8), None, "-", 0, 0),
        ((2, 3, 4, 8), (2, 3, 4, 8), (2, 3, 4, 8), None, "-", 1, 0),
        ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), None, "-", 1, 0),
        ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), (4, 6), "bool", 0, 0),
        ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), (2, 1, 4, 6), "bool", 0, 0),
        ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), (2, 3, 4, 6), "float32", 0, 0),
        ((2, 6, 4, 8), (2, 3, 5, 8), (2, 3, 5, 7), None, "-", 0, 1),
        ((2, 6, 4, 8), (2, 3, 4, 8), (2, 3, 4, 7), None, "-", 1, 1),
        ((6, 4, 8), (1, 4, 8), (1, 4, 7), (6, 4, 4), "float32", 0, 1),
        ((6, 4, 8), (2, 4, 8), (3, 4, 7), None, "-", 0, 1),
        ((2, 3, 4, 8), (4, 8), (4, 8), None, "-", 0, 0),
        ((1, 4, 8), (1, 4, 8), (1, 4, 8), (1, 1, 4, 4), "bool", 0, 0),
    ]:
        inputs = [Tensor(values(s, i + 1)) for i, s in enumerate((q, k, v))]
        m = None
        if mask is not None:
            at = values(mask, 4)
            m = Tensor((at > -0.5) | (np.arange(mask[-1]) == 0)) if kind == "bool" else Tensor(at)
        y = inputs[0].scaled_dot_product_attention(
            *inputs[1:], attn_mask=m, is_causal=bool(causal), enable_gqa=bool(gqa)
        )
        w = Tensor(values(y.shape, 9))
        grads = (y * w).sum().gradient(*inputs)
        rows.append(
            [text(q), text(k), text(v), text(mask) if mask else "none", kind]
            + [str(causal), str(gqa), text(y.shape)]
            + [hexed(t.numpy()) for t in (y, *grads)]
        )
    return rows


# ---- decompositions ----


def decompose_rows():
    """kind, shape, results."""
    rows = []
    squares = [(n, n) for n in (1, 2, 3, 4, 6, 7)]
    for shape in (*squares, (5, 3), (3, 5), (8, 5), (2, 3, 4), (2, 2, 4, 3)):
        x = Tensor(values(shape, 3))
        q, r = x.qr()
        rows.append(["qr", text(shape), hexed(q.numpy()), hexed(r.numpy())])
        if min(shape[-2:]) < 2:
            continue  # tinygrad has no singular values of these
        for full in (1, 0):
            u, s, v = x.svd(full_matrices=bool(full))
            rows.append([f"svd{full}", text(shape)] + [hexed(t.numpy()) for t in (u, s, v)])
    for shape, steps, params in (
        ((4, 4), 5, (2, -1.5, 0.5)),
        ((3, 6), 3, (3.4445, -4.775, 2.0315)),
        ((6, 3), 3, (3.4445, -4.775, 2.0315)),
        ((2, 3, 5), 2, (1.5, -0.5)),
        ((3, 3), 0, (1.0,)),
    ):
        y = Tensor(values(shape, 3)).newton_schulz(steps, params)
        rows.append(["newton_schulz", text(shape), str(steps), text(params), hexed(y.numpy())])
    x = Tensor(values((4, 3), 3))
    q, r = x.qr()
    loss = (q * Tensor(values((4, 4), 5))).sum() + (r * Tensor(values((4, 3), 6))).sum()
    (g,) = loss.gradient(x)
    rows.append(["qr_gradient", "4,3", hexed(g.numpy())])
    return rows


# ---- hashes ----


def hash_rows():
    """kind, dtype, shape, result; the bytes of the message are k mod 251, or values()."""
    rows = []

    def message(n):
        return (np.arange(n) * 31 % 251).astype(np.uint8)

    for name, f in (("sha3_224", hashlib.sha3_224), ("sha3_256", hashlib.sha3_256)):
        for n in (0, 1, 7, 55, 71, 72, 134, 135, 136, 137, 143, 144, 145, 272, 400):
            rows.append([name, "uint8", str(n), f(message(n).tobytes()).hexdigest()])
    for n in (0, 1, 166, 167, 168, 169, 500):
        digest = hashlib.shake_128(message(n).tobytes()).hexdigest(16)
        rows.append(["shake_128", "uint8", str(n), digest])
    for shape in ((3, 20), (2, 2, 137)):
        t = Tensor(message(int(np.prod(shape))).reshape(shape))
        rows.append(["sha3_256", "uint8", text(shape), hexed(t.keccak().numpy())])
    for dtype in ("float32", "int16", "float64"):
        x = values((2, 9), 1, dtype)
        digests = [hashlib.sha3_256(row.tobytes()).hexdigest() for row in x]
        rows.append(["sha3_256", dtype, "2,9", "".join(digests)])

    # As Tensor.hash is defined, by hashlib: tinygrad itself takes minutes.
    def megabyte(data):
        pieces = b"".join(
            hashlib.shake_128(data[i : i + 4096]).digest(16) for i in range(0, len(data), 4096)
        )
        return hashlib.shake_128(pieces).digest(16)

    for n in (0, 12, 5000):
        data = message(n).tobytes()
        rows.append(["hash", "uint8", str(n), megabyte(data + bytes((1 << 20) - n)).hex()])
    return rows


# ---- random numbers ----


def sampling_rows():
    """name, arguments, dtype of the result, result: one after another from seed 1234."""
    rows = []
    Tensor.manual_seed(1234)

    def row(name, arguments, t):
        r = t.bitcast(dtypes.uint16).numpy() if t.dtype == dtypes.bfloat16 else t.numpy()
        dtype = "bfloat16" if t.dtype == dtypes.bfloat16 else str(r.dtype)
        rows.append([name, arguments, dtype, hexed(r)])

    for shape in ((5,), (3, 4), (2, 3, 4), (7, 1)):
        row("scaled_uniform", text(shape), Tensor.scaled_uniform(*shape))
        row("glorot_uniform", text(shape), Tensor.glorot_uniform(*shape))
        row("kaiming_uniform", text(shape), Tensor.kaiming_uniform(*shape, a=5**0.5))
        row("kaiming_normal", text(shape), Tensor.kaiming_normal(*shape, a=0.01))
        row("rand_like", text(shape), Tensor.zeros(*shape).rand_like())
        row("randn_like", text(shape), Tensor.zeros(*shape).randn_like())
    for dtype in ("half", "bfloat16", "float64"):
        row("rand_like", "3,5", Tensor.zeros(3, 5).rand_like(dtype=getattr(dtypes, dtype)))
        drawn = Tensor.kaiming_uniform(3, 5, a=5**0.5, dtype=getattr(dtypes, dtype))
        row("kaiming_uniform", "3,5", drawn)
    for n in (1, 6, 20, 100):
        row("randperm", str(n), Tensor.randperm(n))
    row("randperm", "9", Tensor.randperm(9, dtype=dtypes.int64))
    weights = np.array([1, 2, 3, 4, 0, 5], dtype=np.float32)
    two = np.stack([weights, weights[::-1]])
    for replacement, samples in ((1, 20), (0, 1), (0, 3), (0, 5)):
        argument = f"{samples},{replacement}"
        row("multinomial", argument, Tensor(weights).multinomial(samples, bool(replacement)))
        row("multinomial2", argument, Tensor(two).multinomial(samples, bool(replacement)))
        whole = Tensor(weights.astype(np.int32))
        row("multinomial_int", argument, whole.multinomial(samples, bool(replacement)))
    with Context(TRAINING=1):
        for p in (0.0, 0.25, 0.5, 0.9, 1.0):
            row("dropout", str(p), Tensor(values((3, 11), 2)).dropout(p))
    row("rand_like", "4", Tensor.zeros(4).rand_like())
    return rows


TABLES = {
    "einsum.tsv": einsum_rows,
    "attention.tsv": attention_rows,
    "decompose.tsv": decompose_rows,
    "hash.tsv": hash_rows,
    "sampling.tsv": sampling_rows,
}

if __name__ == "__main__":
    only = sys.argv[1:]
    for file, make in TABLES.items():
        if only and file not in only:
            continue
        rows = make()
        with open(os.path.join(HERE, file), "w", encoding="utf-8") as out:
            for row in rows:
                out.write("\t".join(row) + "\n")
        print(f"{file}: {len(rows)} rows")
