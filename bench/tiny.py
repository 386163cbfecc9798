#!/usr/bin/env python3
"""One eager operation on 48 floats, realised at once: ours, NumPy's and torch's in turn, medians of
rounds in microseconds of the process's own time, as one JSON line.

usage: tiny.py [--rounds 9]          python: one that has all three
"""

import argparse
import json
import statistics
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    import numpy as np
    import torch

    from aster_ml import Tensor

    torch.set_num_threads(1)
    a, b = np.ones(48, np.float32), np.full(48, 2, np.float32)
    x, y = Tensor(a).realize(), Tensor(b).realize()
    s, t = torch.tensor(a), torch.tensor(b)
    assert (x + y).realize().tolist() == (a + b).tolist() == (s + t).tolist()
    calls = {"ours": lambda: (x + y).realize(), "numpy": lambda: a + b, "torch": lambda: s + t,
             "built": lambda: x + y, "nothing": lambda: None}
    times = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(20000):
                call()
            times[name].append((time.process_time() - start) / 20000 * 1e6)
    print(json.dumps({name: round(statistics.median(t), 3) for name, t in times.items()}))


if __name__ == "__main__":
    main()
