#!/usr/bin/env python3
"""Products of matrices of flt256 and flt512 beside FLINT's Arb (python-flint), where that is.

  bench/wide.py [--package DIR] [--sizes 256,1024] [--rounds 5] [--threads 1]

Rounds go ours, theirs, ours, theirs, ...; the least CPU time of each counts, with more threads
the least time, in milliseconds, and their ratio. Ours rounds every exact sum once; Arb's has a
bound of its error. An element of ours is compared with integers' sum first. Arb has one thread
whatever --threads says.
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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--package", default=os.path.join(root, "build", "release", "python"))
    parser.add_argument("--sizes", default="256,1024")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
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
