"""ONNX models against ONNX Runtime on the same file, by turns in one process.

    PYTHONPATH=build/release/python python3 bench/onnx_runtime.py DIR [NAME...] [--threads 1]

DIR holds what bench/onnx_models.py wrote. A line a model: milliseconds of a run here and there
(medians), their ratio (above 1: we are ahead), milliseconds until the model is there, by us read
and compiled with a warm cache and by ONNX Runtime as a session, and the greatest difference of the
first result relative to its greatest element.

Each side runs several times in a row, and the other one after a pause: the threads of ONNX Runtime
look for work for a while when a run of theirs has ended, and whoever runs then lacks their cores.
"""

import argparse
import os
import pathlib
import statistics
import time

import numpy as np

SIZES = {"batch": 1, "length": 128}
PAUSE = 0.05  # seconds in which threads without work go to sleep
ROUNDS = 5


def inputs_of(session):
    rng = np.random.default_rng(1)
    out = {}
    for value in session.get_inputs():
        shape = [SIZES.get(size, size) for size in value.shape]
        if value.type == "tensor(int64)":
            least, most = (1, 2) if value.name == "mask" else (0, 1000)
            out[value.name] = rng.integers(least, most, shape)
        else:
            out[value.name] = rng.standard_normal(shape).astype(np.float32)
    return out


def timed(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def blocks(ours, peer, seconds):
    """Milliseconds of the runs of both sides, in ROUNDS blocks each."""
    sides = [(ours, []), (peer, [])]
    slowest = max(statistics.median(timed(run) for _ in range(3)) for run, _ in sides)
    count = min(max(int(seconds * 1e3 / (2 * ROUNDS * slowest)), 3), 50)
    for _ in range(ROUNDS):
        for run, times in sides:
            time.sleep(PAUSE)
            run()  # caches and threads are the other side's
            times += [timed(run) for _ in range(count)]
    return [times for _, times in sides]


def measure(path, arguments):
    import onnxruntime
    from aster_ml import Tensor
    from aster_ml.nn.onnx import OnnxRunner

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = arguments.threads, 1
    providers = ["CPUExecutionProvider"]

    def session():
        return onnxruntime.InferenceSession(str(path), options, providers=providers)

    theirs = session()
    given = inputs_of(theirs)
    names = [value.name for value in theirs.get_outputs()]
    tensors = {name: Tensor(value).realize() for name, value in given.items()}

    def first():
        runner = OnnxRunner(path)
        for y in runner(tensors).values():
            y.realize()
        return runner

    first()  # fills the cache
    peer_first = []
    loads, ours_loads = [], []
    for _ in range(arguments.loads):
        ours_loads.append(timed(first))
        peer_first.append(timed(lambda: session().run(names, given)))
        loads.append(timed(session))
    runner = first()

    def ours():
        for y in runner(tensors).values():
            y.realize()

    def peer():
        theirs.run(names, given)

    wanted = theirs.run(names, given)
    got = [runner(tensors)[name].numpy() for name in names]
    error = max(
        float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30)) for a, b in zip(got, wanted)
    )
    mine, other = blocks(ours, peer, arguments.seconds)
    a, b = statistics.median(mine), statistics.median(other)
    made = [statistics.median(times) for times in (ours_loads, peer_first, loads)]
    print(
        f"{path.stem:14} ours {a:8.3f} ms  ort {b:8.3f} ms  ratio {b / a:5.2f}  "
        f"load and first run {made[0]:7.1f} / {made[1]:7.1f} (session {made[2]:7.1f})  "
        f"error {error:.1e}",
        flush=True,
    )
    return b / a


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--loads", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["ASTER_ML_THREADS"] = str(arguments.threads)
    paths = sorted(arguments.folder.glob("*.onnx"))
    ratios = [
        measure(path, arguments)
        for path in paths
        if not arguments.names or path.stem in arguments.names
    ]
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
