"""Frozen models beside captured programs of the same files, interleaved in one process.

    PYTHONPATH=build/release/python python3 bench/frozen.py DIR [NAME...] [--threads 1]

DIR holds what bench/onnx_models.py wrote (batch 1, 128 words). A line a model: milliseconds of a
run frozen and captured (medians), their ratio (above 1: frozen is ahead); from the start of the
frozen executable to its first result in a file, and reading the model's file and one inference; KiB
of the library without its weights.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

SIZES = {"batch": 1, "length": 128}


def timed(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def inputs_of(run):
    rng, out = np.random.default_rng(1), []
    for name, spec in run.graph_inputs.items():
        shape = [SIZES.get(size, size) for size in spec.shape]
        if "int" in str(spec.dtype):
            out.append(rng.integers(*((1, 2) if name == "mask" else (0, 1000)), shape))
        else:
            out.append(rng.standard_normal(shape).astype(np.float32))
    return out


def pointers(arrays):
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def load(path, header, arguments):
    """The library, with memory that is begun; what runs it."""
    library = ctypes.CDLL(str(path))
    size = int(header.read_text().split("NET_MEMORY_BYTES ")[1].split("ll")[0])
    memory = np.zeros(size + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :]
    constants = ctypes.c_char_p(str(path.with_name("net.constants")).encode())
    assert library.net_init(*pointers([memory]), constants) == 0
    given = pointers([memory, *arguments])
    return lambda: library.net_run(*given) if len(memory) else 1  # which keeps the memory


def measure(path, folder, threads, seconds):
    from aster_ml import Tensor, freeze
    from aster_ml.nn.onnx import OnnxRunner

    runner = OnnxRunner(path)
    arrays = inputs_of(runner)
    tensors = [Tensor(array).realize() for array in arrays]

    def lazy(*given):
        results = runner.lazy(dict(zip(runner.graph_inputs, given)))
        return [results[name] for name in runner.graph_outputs]

    wanted = [y.numpy() for y in lazy(*tensors)]  # first: what weights make is kept
    names = {"input_names": list(runner.graph_inputs)}
    freeze(lazy, *tensors, path=folder / "libnet.so", side_file=True, threads=threads, **names)
    freeze(lazy, *tensors, path=folder / "start", side_file=True, threads=threads, **names)
    results = [np.empty_like(y) for y in wanted]
    frozen = load(folder / "libnet.so", folder / "net.h", arrays + results)
    named = dict(zip(runner.graph_inputs, tensors))

    def captured():
        for y in runner(named).values():
            y.realize()

    assert frozen() == 0
    same = all(got.tobytes() == want.tobytes() for got, want in zip(results, wanted))
    captured(), captured()
    ours, theirs = [], []
    begin = time.perf_counter()
    while len(ours) < 5 or (len(ours) < 60 and time.perf_counter() - begin < seconds):
        ours.append(timed(frozen))
        theirs.append(timed(captured))
    files = [folder / f"{i}.npy" for i in range(len(arrays) + len(results))]
    for file, array in zip(files, arrays):
        np.save(file, array)
    command = [folder / "start", *files]
    starts = [timed(lambda: subprocess.run(command, check=True)) for _ in range(9)]
    read = [timed(path.read_bytes) for _ in range(9)]
    a, b, start, base = (statistics.median(times) for times in (ours, theirs, starts, read))
    size = (folder / "libnet.so").stat().st_size // 1024
    print(
        f"{path.stem:14} frozen {a:8.3f} ms  captured {b:8.3f} ms  ratio {b / a:5.2f}  "
        f"start {start:7.1f} ms, file and run {base + a:7.1f} ({start / (base + a):4.2f})  "
        f"{size} KiB  {'the same bits' if same else 'OTHER bits'}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    arguments = parser.parse_args()
    os.environ["ASTER_ML_THREADS"] = str(arguments.threads)
    for path in sorted(arguments.folder.glob("*.onnx")):
        if not arguments.names or path.stem in arguments.names:
            with tempfile.TemporaryDirectory() as folder:
                measure(path, pathlib.Path(folder), arguments.threads, arguments.seconds)


if __name__ == "__main__":
    main()
