"""Computes cases on one engine, in a process of its own.

  worker.py ENGINE        cases arrive as lines of JSON, a list each; answers leave the same way

Every case is announced by {"start": n}, so that its parent knows which one ended the process.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import sys

if not __package__:  # run as a file: the package of the tool without the one around it
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "aster_conformance", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["aster_conformance"] = package
    spec.loader.exec_module(package)
    sys.path = [p for p in sys.path if os.path.abspath(p or ".") != here]
    __package__ = "aster_conformance"

import numpy as np  # noqa: E402

from . import engines  # noqa: E402


def encode(results):
    out = []
    for dtype, array in results:
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        data = base64.b64encode(array.tobytes()).decode()
        out.append([dtype, array.dtype.str, list(array.shape), data])
    return out


def decode(results):
    """[(dtype, array), ...]"""
    return [
        (dtype, np.frombuffer(base64.b64decode(data), kind).reshape(shape))
        for dtype, kind, shape, data in results
    ]


def failure(engine, error):
    kind = "unsupported" if engine.unsupported(error) else "error"
    return {kind: f"{type(error).__name__}: {str(error)[:300]}", "type": type(error).__name__}


def batch(engine, cases, say):
    """Builds the cases, realises them together, reads them; after an error one by one."""
    built = []
    for number, case in enumerate(cases):
        say({"start": number})
        try:
            built.append(engine.build(case))
        except Exception as error:
            built.append(failure(engine, error))
    together = [b for b in built if not isinstance(b, dict)]
    fine = True
    try:
        engine.realize([t for tensors in together for t in tensors])
    except Exception:
        fine = False
    for number, (case, tensors) in enumerate(zip(cases, built)):
        if not isinstance(tensors, dict):
            say({"start": number})
            try:
                if not fine:
                    tensors = engine.build(case)
                    engine.realize(tensors)
                tensors = {"results": encode(engine.read(case, tensors))}
            except Exception as error:
                tensors = failure(engine, error)
        say({"done": number, **tensors})


def programs(engine, names, say):
    """Kernels of the programs."""
    for number, name in enumerate(names):
        say({"start": number})
        try:
            counted = {"results": encode([("kernels", np.array(engine.kernels(name)))])}
        except Exception as error:
            counted = failure(engine, error)
        say({"done": number, **counted})


def main():
    engine = engines.make(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints is no answer

    def say(what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    say({"ready": engine.version()})
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, dict):
            programs(engine, asked["programs"], say)
        else:
            batch(engine, asked, say)
        say({"end": True})


if __name__ == "__main__":
    main()
