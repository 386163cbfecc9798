"""The shrunk failing cases: one small JSON file each, replayed first in every run."""

from __future__ import annotations

import hashlib
import json
import os

from .generate import key
from .operators import ROWS


def folder():
    """tests/conformance/kept of the source tree this file is of, else a folder where we are."""
    root = os.path.realpath(__file__)
    for _ in range(4):
        root = os.path.dirname(root)
    inside = os.path.join(root, "tests", "conformance")
    return os.path.join(inside, "kept") if os.path.isdir(inside) else "conformance-kept"


def load(path):
    """[(file, case), ...] of the operators that the table still has."""
    found = []
    for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
        if name.endswith(".json"):
            with open(os.path.join(path, name), encoding="utf-8") as file:
                case = json.load(file)["case"]
            if case["op"] in ROWS:
                found.append((name, case))
    return found


def save(path, case, engines, verdict):
    """Writes the case; gives the file's name."""
    digest = hashlib.sha256(key(case).encode()).hexdigest()[:8]
    name = f"{case['op'].strip('_')}-{case['dtype']}-{digest}.json"
    os.makedirs(path, exist_ok=True)
    kept = {"case": case, "engines": engines, "found": verdict.kind, "text": verdict.text}
    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
    return name
