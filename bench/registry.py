#!/usr/bin/env python3
"""Whether policy "benchmark" finds the fastest implementation: 20 shapes, each form captured and
replayed in interleaved turns beside what was chosen.

  PYTHONPATH=build/release/python bench/registry.py

A line a shape: microseconds of each form, what was chosen, and its time over the least; at the end
how many are within 10 %.
"""

import statistics
import time

from aster_ml import Tensor, TinyJit, registry

PRODUCTS = (
    (16, 64, 64),
    (64, 64, 64),
    (128, 128, 128),
    (200, 300, 100),
    (256, 256, 256),
    (384, 128, 640),
    (512, 512, 512),
    (1, 1024, 1024),
    (8, 2048, 512),
    (1024, 256, 1024),
    (1000, 1000, 1000),
    (1536, 1536, 1536),
)
ATTENTIONS = (
    # heads, rows, columns, width, causal
    (4, 64, 64, 32, False),
    (8, 128, 128, 64, True),
    (8, 256, 256, 64, True),
    (4, 512, 512, 64, False),
    (8, 512, 512, 64, True),
    (12, 1024, 1024, 64, True),
    (1, 128, 2048, 64, False),
    (2, 2048, 2048, 32, True),
)


def replayed(operation, form, function, inputs):
    with registry.policies(**{operation: form}):
        step = TinyJit(function)
        for _ in range(3):
            step(*inputs)
    return lambda: step(*inputs)


def measured(operation, function, inputs):
    names = [x["name"] for x in registry.describe(operation)["implementations"]]
    runs = {}
    for name in names:
        try:
            runs[name] = replayed(operation, f"force={name}", function, inputs)
        except NotImplementedError:
            pass
    registry.forget()
    with registry.policies(**{operation: "benchmark"}):
        function(*inputs)
    found = registry.describe(operation)["measured"]
    chosen = found[0]["fastest"] if found else names[0]
    times = {name: [] for name in runs}
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.5 or len(times[chosen]) < 7:
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) * 1e6 for name, t in times.items()}, chosen


def main():
    within, all_of_them = 0, 0
    cases = [("matmul", lambda a, b: (a @ b).realize(), ((m, k), (k, n)), f"{m}x{k}x{n}")
             for m, k, n in PRODUCTS]  # fmt: skip
    for heads, rows, columns, width, causal in ATTENTIONS:

        def attend(q, k, v, causal=causal):
            return q.scaled_dot_product_attention(k, v, is_causal=causal).realize()

        shapes = ((heads, rows, width), (heads, columns, width), (heads, columns, width))
        name = f"{heads}x{rows}x{columns}x{width}{' causal' if causal else ''}"
        cases.append(("attention", attend, shapes, name))
    for operation, function, shapes, name in cases:
        inputs = [Tensor.randn(*shape).realize() for shape in shapes]
        us, chosen = measured(operation, function, inputs)
        ratio = us[chosen] / min(us.values())
        within += ratio <= 1.1
        all_of_them += 1
        forms = "  ".join(f"{form} {t:.0f}" for form, t in us.items())
        print(f"{operation:9} {name:24} {forms}  chosen {chosen} {ratio:.2f}", flush=True)
    print(f"within 10 %: {within} of {all_of_them}")


if __name__ == "__main__":
    main()
