#!/usr/bin/env python3
"""Asks tinygrad 0.14.0 for the answers of the cases and keeps them in answers/.

  oracle.py [GROUP...]        only cases whose answer is missing or whose inputs changed
  oracle.py --anew [GROUP...]

Needs numpy, tinygrad 0.14.0 and clang.
"""

import argparse
import time

import tool  # noqa: F401  first: the modules below use what it loads
import answers
import numpy as np
from cases import GROUPS, all_cases
from front import Tinygrad, compute_all


def narrow(results):
    """Answers without what a comparison cannot see: NaN payloads."""
    if isinstance(results, str):
        return results
    return [
        (d, np.where(a != a, a.dtype.type(np.nan), a).astype(a.dtype) if a.dtype.kind == "f" else a)
        for d, a in results
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("groups", nargs="*")
    arguments = parser.parse_args()
    front = Tinygrad()
    for group in arguments.groups or GROUPS:
        cases = [c for c in all_cases() if c.group == group and c.ask]
        known = {} if arguments.anew else answers.load(group)
        wanted = [c for c in cases if known.get(c.name, (None,))[0] != answers.fingerprint(c)]
        known = {c.name: known[c.name] for c in cases if c.name in known}
        start = time.time()
        batch = 1 if group == "random" else 24
        for count, (case, results) in enumerate(compute_all(front, wanted, batch), 1):
            known[case.name] = (answers.fingerprint(case), narrow(results))
            if count % 120 == 0:
                answers.save(group, known)
                print(f"{group}: {count} of {len(wanted)}, {time.time() - start:.0f} s", flush=True)
        answers.save(group, known)
        print(
            f"{group}: {len(wanted)} asked, {len(known)} kept, {time.time() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
