"""Loading ONNX models in fresh processes, with a warm disk cache, by turns with ONNX Runtime.

    PYTHONPATH=build/release/python python3 bench/onnx_loading.py DIR [NAME...] [--processes 11]

DIR holds what bench/onnx_models.py wrote. Loading is what passes from the model's file to its first
result, less a later run: reading, graph, schedule, kernels, weights in the order of their kernels,
and memory that is touched first. ONNX Runtime's is also given as the making of its session alone,
which is less than that: its first run is slower than the later ones too. A line a model, wall time,
medians over the processes of a side: milliseconds here, there (session; with the first run), both
ratios (above 1: we are sooner), and the same a second time in the same process.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import onnx_runtime


def load_here(path, given):
    from aster_ml import Tensor
    from aster_ml.nn.onnx import OnnxRunner

    tensors = {name: Tensor(value).realize() for name, value in given.items()}
    runners = []

    def run():
        for y in runners[-1](tensors).values():
            y.realize()

    return lambda: runners.append(OnnxRunner(path)), run


def load_there(path, given):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    sessions = []

    def load():
        sessions.append(
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        )

    return load, lambda: sessions[-1].run(None, given)


def process(side, path):
    """Of one process: [load, first run] twice, and a later run, in milliseconds."""
    with open(path.with_suffix(".npz"), "rb") as file:
        given = dict(onnx_runtime.np.load(file))
    load, run = {"here": load_here, "there": load_there}[side](path, given)
    time.sleep(0.05)  # of libraries, their threads go to sleep
    turns = [[onnx_runtime.timed(load), onnx_runtime.timed(run)] for _ in range(2)]
    later = statistics.median(onnx_runtime.timed(run) for _ in range(5))
    return {"turns": turns, "later": later}


def measure(path, arguments, folder):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    link = folder / path.name
    link.symlink_to(path.resolve())
    onnx_runtime.np.savez(link.with_suffix(".npz"), **onnx_runtime.inputs_of(session))
    del session

    def fresh(side):
        command = [sys.executable, __file__, "--process", side, str(link)]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    sides = {"here": [], "there": []}
    for side in sides:
        fresh(side)  # the cache, and the file's pages
    for _ in range(arguments.processes):
        for side, found in sides.items():
            found.append(fresh(side))

    def of(side, figure):
        return statistics.median(figure(found) for found in sides[side])

    line = f"{path.stem:14}"
    for turn, name in enumerate(("", "  again:")):
        here = of("here", lambda x: sum(x["turns"][turn]) - x["later"])
        made = of("there", lambda x: x["turns"][turn][0])
        whole = of("there", lambda x: sum(x["turns"][turn]) - x["later"])
        line += f"{name} here {here:7.2f} ms  there {made:7.2f} ({whole:7.2f})"
        line += f"  ratio {made / here:5.2f} ({whole / here:5.2f})"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=11)
    parser.add_argument("--process", choices=("here", "there"))
    arguments = parser.parse_args()
    os.environ["ASTER_ML_THREADS"] = "1"
    if arguments.process:
        print(json.dumps(process(arguments.process, arguments.folder)))
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(arguments.folder.glob("*.onnx")):
            if not arguments.names or path.stem in arguments.names:
                measure(path, arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
