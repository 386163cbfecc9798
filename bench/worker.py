"""One engine in a process of its own, told by JSON lines what to build and to time.

  worker.py ENGINE THREADS FOLDER

build: makes the call, saves its first results under FOLDER.  round: seconds of n calls, CPU time
where there is one thread (other programs do not count in), else the wall's.
"""

import gc
import importlib
import json
import os
import sys
import time

import numpy as np
from workloads import WORKS


def main():
    name, threads, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print is no answer

    def say(answer):
        out.write(json.dumps(answer) + "\n")
        out.flush()

    clock = time.process_time if threads == 1 else time.perf_counter
    try:
        engine = importlib.import_module("eng_" + name).Engine(threads)
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    said = {"version": engine.version()}
    if hasattr(engine, "peak"):
        said["peak"] = engine.peak()
    say(said)
    call = None
    for line in sys.stdin:
        order = json.loads(line)
        if "build" in order:
            work, call = WORKS[order["build"]], None
            gc.collect()
            try:
                inputs, parameters = work.make()
                call = engine.build(work.name, inputs, parameters)
                results = [np.array(engine.to_np(call())) for _ in range(work.results)]
                np.save(os.path.join(folder, name + ".npy"), np.stack(results))
                for _ in range(2):  # some record at the second call
                    call()
                begin = clock()
                call()
                say({"seconds": clock() - begin})
            except NotImplementedError as error:
                say({"none": str(error)})
            except Exception as error:
                call = None
                say({"error": f"{type(error).__name__}: {error}"[:300]})
        elif "calls" in order:
            call()
            begin = clock()
            for _ in range(order["calls"]):
                call()
            say({"seconds": (clock() - begin) / order["calls"]})


if __name__ == "__main__":
    main()
