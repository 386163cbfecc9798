#!/usr/bin/env python3
"""Sparse matrices beside SciPy: CSR by dense, by a vector, by itself, sums and formats.

  bench/sparse.py [--package DIR] [--size 10000] [--density 0.01] [--columns 64] [--rounds 9]

One thread; float32 and float64. Rounds go ours, theirs, ours, theirs, ...; the medians of CPU time
count, in milliseconds, and their ratio. GB/s: bytes of the stored elements and of the rows of the
dense matrix that they name, once each. Every answer is checked first.
"""

import argparse
import os
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "ASTER_ML_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import scipy.sparse  # noqa: E402


def rows(options, dtype, random):
    """(name, our call, SciPy's, bytes moved or 0, a check of both results)."""
    from aster_ml import _native, sparse

    n, columns = options.size, options.columns
    a = scipy.sparse.random_array((n, n), density=options.density, format="csr", rng=random)
    a = a.astype(dtype)
    a.sort_indices()
    thin = a[: n // 10]
    b = random.standard_normal((n, columns)).astype(dtype)
    v = b[:, 0].copy()
    x, y, coo = (sparse.from_scipy(m) for m in (a, thin, a.tocoo()))
    item = np.dtype(dtype).itemsize
    stored = a.nnz * (item + 4)

    def close(p, q):
        p, q = (m.numpy() if hasattr(m, "numpy") else m for m in (p, q))
        p, q = (m.toarray() if hasattr(m, "toarray") else m for m in (p, q))
        return np.allclose(p, q, rtol=1e-3)

    lent, lent_v = sparse._lend(b), sparse._lend(v)
    handle = x._handle
    yield (
        f"CSR @ [{n}, {columns}]",
        lambda: sparse._tensor(_native.sparse_matmul_dense(handle, lent)),
        lambda: a @ b,
        stored + a.nnz * columns * item,
        close,
    )
    yield (
        "CSR @ vector",
        lambda: sparse._tensor(_native.sparse_matmul_dense(handle, lent_v)),
        lambda: a @ v,
        stored + a.nnz * item,
        close,
    )
    yield f"[{n // 10}, {n}] @ CSR", lambda: y @ x, lambda: thin @ a, 0, close
    yield "a + b", lambda: x + x, lambda: a + a, 0, close
    yield "sum of rows", lambda: x.sum(1), lambda: a.sum(1), 0, close
    yield "CSR to CSC", lambda: x.compress("csc"), lambda: a.tocsc(), 0, lambda p, q: True
    scipys = a.tocoo()
    yield "COO to CSR", lambda: coo.compress(), lambda: scipys.tocsr(), 0, lambda p, q: True


def median(times):
    return sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package")
    parser.add_argument("--size", type=int, default=10000)
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.package:
        sys.path.insert(0, options.package)
    random = np.random.default_rng(5)
    for dtype in ("float32", "float64"):
        for name, ours, theirs, moved, check in rows(options, dtype, random):
            if not check(ours(), theirs()):
                sys.exit(f"{name} {dtype}: the results differ")
            times = ([], [])
            for _ in range(options.rounds):
                for i, call in enumerate((ours, theirs)):
                    begin = time.process_time()
                    call()
                    times[i].append((time.process_time() - begin) * 1e3)
            own, their = median(times[0]), median(times[1])
            rate = f"  {moved / own / 1e6:5.1f} GB/s" if moved else ""
            print(f"{dtype}  {name:24} {own:8.2f} {their:8.2f}  {their / own:5.2f} x{rate}")


if __name__ == "__main__":
    main()
