#!/usr/bin/env python3
"""Decompositions and solutions beside NumPy, SciPy and torch, those of them that are installed.

  bench/linalg.py [--package DIR] [--sizes 1024,...] [--only lu,svd,...] [--rounds 5] [--threads 1]

float64, row-major. Rounds go ours, theirs, ours, theirs, ...; the least CPU time of each counts,
with more threads the least time, in milliseconds, and the ratio of the best peer to ours. Every
answer is checked first.
"""

import argparse
import os
import sys
import time

# Before anything that reads them is imported.
THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "ASTER_ML_THREADS"):
    os.environ[name] = THREADS

import numpy as np  # noqa: E402


def peers():
    """Name -> module, those that there are."""
    found = {"numpy": np}
    try:
        import scipy.linalg

        found["scipy"] = scipy.linalg
    except ImportError:
        pass
    try:
        import torch

        torch.set_num_threads(int(THREADS))
        found["torch"] = torch
    except ImportError:
        pass
    return found


def rows(n, random):
    """Name -> (our call, peers' calls by name, a check of our results)."""
    from aster_ml import Tensor, linalg

    x = random.standard_normal((n, n))
    s = x @ x.T / n + np.eye(n)
    b = random.standard_normal((n, 8))
    batch = random.standard_normal((2048, 16, 16))
    stored = [Tensor(v).realize() for v in (x, s, b, batch)]
    ours, ours_s, ours_b, ours_batch = stored
    found = peers()
    la = found.get("scipy")
    t = found.get("torch")
    tx, ts, tb, tbatch = (t.from_numpy(v) if t else None for v in (x, s, b, batch))

    def run(*results):
        Tensor.realize(*results)
        return [r.numpy() for r in results]

    def fits(*factors):
        return abs(np.linalg.multi_dot(factors) - x).max() < 1e-9 * n

    return {
        "lu": (
            lambda: run(*linalg.lu(ours)),
            {"scipy": lambda: la.lu(x), "torch": lambda: t.linalg.lu(tx)},
            lambda p, l, u: fits(p, l, u),
        ),
        "lu_factor": (
            lambda: run(*linalg.lu_factor(ours)),
            {"scipy": lambda: la.lu_factor(x), "torch": lambda: t.linalg.lu_factor(tx)},
            lambda lu, i: abs((np.tril(lu, -1) + np.eye(n)) @ np.triu(lu) - x[i]).max() < 1e-8,
        ),
        "cholesky": (
            lambda: run(linalg.cholesky(ours_s)),
            {
                "scipy": lambda: la.cholesky(s, lower=True),
                "numpy": lambda: np.linalg.cholesky(s),
                "torch": lambda: t.linalg.cholesky(ts),
            },
            lambda l: abs(l @ l.T - s).max() < 1e-9,
        ),
        "qr": (
            lambda: run(*linalg.qr(ours)),
            {
                "scipy": lambda: la.qr(x),
                "numpy": lambda: np.linalg.qr(x),
                "torch": lambda: t.linalg.qr(tx),
            },
            fits,
        ),
        "svd": (
            lambda: run(*linalg.svd(ours)),
            {
                "scipy": lambda: la.svd(x),
                "numpy": lambda: np.linalg.svd(x),
                "torch": lambda: t.linalg.svd(tx),
            },
            lambda u, s, vt: fits(u * s, vt),
        ),
        "svdvals": (
            lambda: run(linalg.svdvals(ours)),
            {
                "scipy": lambda: la.svdvals(x),
                "numpy": lambda: np.linalg.svdvals(x),
                "torch": lambda: t.linalg.svdvals(tx),
            },
            lambda v: abs((v * v).sum() / (x * x).sum() - 1) < 1e-9,
        ),
        "eigh": (
            lambda: run(*linalg.eigh(ours_s)),
            {
                "scipy": lambda: la.eigh(s),
                "numpy": lambda: np.linalg.eigh(s),
                "torch": lambda: t.linalg.eigh(ts),
            },
            lambda w, v: abs((v * w) @ v.T - s).max() < 1e-9 * n,
        ),
        "eig": (
            lambda: run(*linalg.eig(ours)),
            {
                "scipy": lambda: la.eig(x),
                "numpy": lambda: np.linalg.eig(x),
                "torch": lambda: t.linalg.eig(tx),
            },
            lambda re, im, v: abs(re.sum() - x.trace()) < 1e-8 * n,
        ),
        "solve": (
            lambda: run(linalg.solve(ours, ours_b)),
            {
                "scipy": lambda: la.solve(x, b),
                "numpy": lambda: np.linalg.solve(x, b),
                "torch": lambda: t.linalg.solve(tx, tb),
            },
            lambda y: abs(x @ y - b).max() < 1e-7 * n,
        ),
        "inv": (
            lambda: run(linalg.inv(ours)),
            {
                "scipy": lambda: la.inv(x),
                "numpy": lambda: np.linalg.inv(x),
                "torch": lambda: t.linalg.inv(tx),
            },
            lambda y: abs(x @ y - np.eye(n)).max() < 1e-7 * n,
        ),
        "inv_2048x16": (
            lambda: run(linalg.inv(ours_batch)),
            {"numpy": lambda: np.linalg.inv(batch), "torch": lambda: t.linalg.inv(tbatch)},
            lambda y: abs(batch @ y - np.eye(16)).max() < 1e-6,
        ),
    }


def seconds(call):
    clock = time.process_time if THREADS == "1" else time.perf_counter
    start = clock()
    call()
    return clock() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--package", default=os.path.join(root, "build", "release", "python"))
    parser.add_argument("--sizes", default="1024")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    sys.path.insert(0, args.package)
    found = peers()
    print(f"{'':18}{'ours':>10}" + "".join(f"{name:>10}" for name in found) + f"{'ratio':>8}")
    for n in map(int, args.sizes.split(",")):
        for name, (ours, theirs, right) in rows(n, np.random.default_rng(n)).items():
            if args.only and name not in args.only.split(","):
                continue
            if not right(*ours()):
                sys.exit(f"{name} of {n}: wrong")
            calls = {"ours": ours, **{p: f for p, f in theirs.items() if p in found}}
            least = dict.fromkeys(calls, float("inf"))
            for _ in range(args.rounds):
                for engine, call in calls.items():
                    least[engine] = min(least[engine], seconds(call))
            best = min((v for k, v in least.items() if k != "ours"), default=float("nan"))
            cells = (f"{least[k] * 1e3:10.2f}" if k in least else f"{'':10}" for k in found)
            print(
                f"{name:12}{n:6}{least['ours'] * 1e3:10.2f}"
                + "".join(cells)
                + f"{best / least['ours']:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
