#!/usr/bin/env python3
"""Products of matrices of flt256 and flt512 beside FLINT's Arb (python-flint), where that is.

  bench/wide.py [--package DIR] [--sizes 256,1024] [--rounds 5] [--threads 1]
  ASTER_ML_LIB=build/release/lib/libaster_ml.so bench/wide.py --cores 2 [--sizes ..] [--rounds ..]

Rounds go ours, theirs, ours, theirs, ...; the least CPU time of each counts, with more threads
the least time, in milliseconds, and their ratio. Ours rounds every exact sum once; Arb's has a
bound of its error. An element of ours is compared with integers' sum first. Arb has one thread
whatever --threads says. With --cores ours by one thread, by so many, and as many products at once
of one thread each, in turn: the least times, and how many times as fast they are. What the last
ones lack is the machine's: clocks, caches and memory that they share.
"""

import argparse
import os
import random
import sys
import time

BITS = {"flt256": 237, "flt512": 489}


def numbers(count, bits, draw):
    """Whole significands of both signs, with four exponents."""
    top = 1 << (bits - 1)
    return [
        (draw.getrandbits(bits - 1) | top | 1) * draw.choice((-1, 1)) << draw.randrange(4)
        for _ in range(count)
    ]


def least(calls, rounds, clock):
    times = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begin = clock()
            call()
            times[i] = min(times[i], (clock() - begin) * 1e3)
    return times


def scaling(cores, sizes, rounds):
    import ctypes
    from threading import Thread

    import eng_aster  # noqa: F401: finds the binding
    import numpy as np
    from binding import Context, library

    alone, all_ = [Context(threads=1) for _ in range(cores)], Context(threads=cores)
    for code, (name, bits) in zip((56, 57), BITS.items()):
        words, exponent = (4, 19) if bits == 237 else (8, 23)
        for n in sizes:
            rng = np.random.default_rng(n)
            given = rng.integers(0, 1 << 63, (2, n * n, words), dtype=np.uint64) * np.uint64(2)
            given |= rng.integers(0, 2, given.shape, dtype=np.uint64)
            top = 63 - exponent  # of either sign, and of four exponents
            given[..., -1] &= np.uint64(1 << 63 | 3 << top | (1 << top) - 1)
            given[..., -1] |= np.uint64((1 << (exponent - 1)) - 4 << top)
            outs = [np.zeros_like(given[0]) for _ in range(cores + 1)]

            def call(context, out, given=given, code=code, n=n):
                at = [ctypes.c_void_p(x.ctypes.data) for x in (out, *given)]
                library().flt_matmul(at[0], context.handle, code, 0, *at[1:], n, n, n, None)

            def together(call=call, outs=outs):
                threads = [Thread(target=call, args=pair) for pair in zip(alone, outs)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            contexts = ((alone[0], outs[0]), (all_, outs[-1]))
            calls = [lambda c=c, out=out: call(c, out) for c, out in contexts]
            calls.append(together)
            for one in calls:
                one()
            if not all(np.array_equal(outs[0], out) for out in outs[1:]):
                sys.exit(f"{name} of {n}: threads change bits")
            one, many, apart = least(calls, rounds, time.perf_counter)
            line = f"{name} {n:5} {one:10.2f} ms, {cores} threads {many:10.2f} ms"
            line += f"  {one / many:5.2f} x, {cores} at once {cores * one / apart:5.2f} x"
            print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--package", default=os.path.join(root, "build", "release", "python"))
    parser.add_argument("--sizes", default="256,1024")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cores", type=int, default=0)
    options = parser.parse_args()
    if options.cores:
        return scaling(options.cores, [int(n) for n in options.sizes.split(",")], options.rounds)
    sys.path.insert(0, options.package)
    os.environ["ASTER_ML_THREADS"] = str(options.threads)
    from aster_ml import Tensor, dtypes

    try:
        import flint
    except ImportError:
        flint = None

    for name, bits in BITS.items():
        for n in map(int, options.sizes.split(",")):
            draw = random.Random(n)
            given = [numbers(n * n, bits, draw) for _ in range(2)]

            dtype = getattr(dtypes, name)
            a, b = (Tensor(x, dtype=dtype).reshape(n, n).realize() for x in given)
            calls = [lambda a=a, b=b: (a @ b).realize()]
            exact = sum(x * y for x, y in zip(given[0][:n], given[1][::n]))
            if calls[0]()[0, 0].item() != Tensor(exact, dtype=dtype).item():
                sys.exit(f"{name} of {n}: wrong")
            if flint is not None:
                flint.ctx.prec = bits
                c, d = (flint.arb_mat(n, n, [flint.arb(x) for x in numbers]) for numbers in given)
                calls.append(lambda c=c, d=d: c * d)
            clock = time.process_time if options.threads == 1 else time.perf_counter
            times = least(calls, options.rounds, clock)
            line = f"{name} {n:5} {times[0]:10.2f} ms {2e-6 * n**3 / times[0]:8.3f} GFLOP/s"
            if flint is not None:
                line += f"   Arb {times[1]:10.2f} ms  {times[1] / times[0]:6.2f} x"
            print(line, flush=True)


if __name__ == "__main__":
    main()
