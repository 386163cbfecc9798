"""Kernel counts of the table of programs: ours are at most those of the other engine."""

from __future__ import annotations

import json
import os

from .process import Process, each
from .programs import PROGRAMS


def counts(engines, pythons, only, timeout=120.0, say=None):
    """{program: (count or why not, of each engine)}"""
    processes = [Process(n, pythons.get(n.partition(":")[0]), timeout) for n in engines]
    names = [n for n in PROGRAMS if not only or n in only]
    found = {}
    try:
        for name in names:
            outcomes = [o[0] for o in each(processes, [name])]
            found[name] = [
                int(o.results[0][1]) if o.kind == "results" else f"{o.kind}: {o.text}"
                for o in outcomes
            ]
            if say:
                say(f"{name}: {' '.join(map(str, found[name]))}")
    finally:
        for process in processes:
            process.stop()
    return found


def load(path):
    """The recorded counts: {program: count}."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, found):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({n: c for n, c in found.items() if isinstance(c, int)}, file, indent=1)
        file.write("\n")


def failures(ours, theirs):
    """Lines about programs that do not run, or launch more than the other's."""
    lines = []
    for name, count in ours.items():
        if not isinstance(count, int):
            lines.append(f"{name}: {count}")
        elif isinstance(theirs.get(name), int) and count > theirs[name]:
            lines.append(f"{name}: {count} kernels, {theirs[name]} allowed")
    return lines
