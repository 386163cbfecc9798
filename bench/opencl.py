#!/usr/bin/env python3
"""OPENCL beside our CPU runtime and tinygrad's CL device on the same driver, one JSON line a row.

  bench/opencl.py [--build build/release] [--rounds 7] [--only sum_16M,train_digits]
                  [--without cl] [--replay]

Engines are processes (worker.py), first results are compared, rounds go A B C A B C, medians
count: wall time, all threads. goals: ours / cpu at most so much, cl / ours at least so much.
python: $PEERS_PYTHON, else this one; NumPy, tinygrad and our package have to be in it. --replay:
launches of a replayed program against a loop of enqueues by hand (bench_opencl.cpp), no more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
ENGINES = {"opencl": ("package", "OPENCL"), "cpu": ("package", "CPU"), "cl": ("tinygrad", "CL")}
# row: (most of ours / cpu, least of cl / ours)
GOALS = {
    "add_16M": (1.5, 1), "gelu_16M": (1.5, 1), "sum_16M": (1.5, 1), "row_sum_4096": (1.5, 1),
    "column_sum_4096": (1.5, 1), "softmax_4096": (1.5, 1), "transpose_4096": (1.5, 1),
    "permute_0213": (1.5, 1), "gemm_1024": (3, 1), "train_digits": (None, 3),
}
ROUND_SECONDS = 0.15


class Worker:
    def __init__(self, name, folder, build):
        engine, device = ENGINES[name]
        environment = {**os.environ, "DEV": device, "PYTHONPATH": os.path.join(build, "python"),
                       "ASTER_ML_CACHE_DIR": os.path.join(folder, "cache")}
        self.folder = os.path.join(folder, name)
        self.engine = engine
        os.mkdir(self.folder)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", os.path.join(HERE, "worker.py"), engine, "2",
             self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment)
        said = self.hear()
        if "version" not in said:
            sys.exit(f"opencl: {name}: {said}")
        self.version = said["version"]

    def hear(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process ended"}

    def ask(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def results(self):
        return os.path.join(self.folder, self.engine + ".npy")


def measure(name, workers, rounds):
    """Medians by engine, or what they said instead."""
    import numpy as np
    from workloads import WORKS

    built = {k: w.ask({"build": name}) for k, w in workers.items()}
    fine = {k: b["seconds"] for k, b in built.items() if "seconds" in b}
    results = {k: np.load(workers[k].results()).reshape(-1) for k in fine}
    for k in list(fine):
        want = results["cpu"] if "cpu" in results else results[k]
        scale = max(float(np.abs(want).max()), 1e-30)
        if np.abs(results[k] - want).max() > max(WORKS[name].tolerance, 1e-6) * scale:
            built[k] = {"error": "another result"}
            del fine[k]
    seconds = {k: [] for k in fine}
    for _ in range(rounds):
        for k in fine:
            calls = max(1, int(ROUND_SECONDS / max(fine[k], 1e-6)))
            seconds[k].append(workers[k].ask({"calls": min(calls, 2000)})["seconds"])
    said = {k: b for k, b in built.items() if k not in fine}
    return {k: statistics.median(v) for k, v in seconds.items()}, said


def row(name, workers, rounds):
    found, said = measure(name, workers, rounds)
    ours, (most, least) = found.get("opencl"), GOALS[name]
    out = {"name": name, **{k + "_ms": round(v * 1e3, 4) for k, v in found.items()}}
    met = ours is not None
    if ours and "cpu" in found:
        out["of_cpu"] = round(ours / found["cpu"], 2)
        met = met and (most is None or out["of_cpu"] <= most)
    if ours and "cl" in found:
        out["cl_of_ours"] = round(found["cl"] / ours, 2)
        met = met and out["cl_of_ours"] >= least
    if said:
        out["said"] = said
    print(json.dumps({**out, "goals": [most, least], "met": met}), flush=True)


def replay(build, rounds):
    """Launches of a replayed program and of a loop by hand, their repetitions mixed."""
    said = subprocess.run(
        [os.path.join(build, "bin", "bench_opencl"), "--benchmark_format=json",
         "--benchmark_enable_random_interleaving=true", f"--benchmark_repetitions={rounds}"],
        capture_output=True, text=True, check=True).stdout
    times = {}
    for one in json.loads(said)["benchmarks"]:
        if one["run_type"] == "iteration":
            times.setdefault(one["run_name"].split("/")[0], []).append(one["real_time"])
    found = {k: statistics.median(v) for k, v in times.items()}
    ratio = round(found["Replay"] / found["Enqueues"], 2)
    print(json.dumps({"name": "launches", "replay_us": round(found["Replay"], 2),
                      "by_hand_us": round(found["Enqueues"], 2), "of_hand": ratio,
                      "goals": [1.5], "met": ratio <= 1.5}), flush=True)


def main():
    python = os.environ.get("PEERS_PYTHON", sys.executable).split(":")[0]
    if os.path.abspath(python) != os.path.abspath(sys.executable):
        os.execv(python, [python, *sys.argv])
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--without", default="", help="engines to leave out: cl, cpu")
    parser.add_argument("--replay", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    if not options.replay:
        sys.path.insert(0, HERE)
        with tempfile.TemporaryDirectory(prefix="aster-opencl-") as folder:
            left_out = options.without.split(",")
            workers = {k: Worker(k, folder, build) for k in ENGINES if k not in left_out}
            print(json.dumps({k: w.version for k, w in workers.items()}), flush=True)
            for name in options.only.split(",") if options.only else GOALS:
                row(name, workers, options.rounds)
            for one in workers.values():
                one.process.kill()
                one.process.wait()
    replay(build, options.rounds)


if __name__ == "__main__":
    main()
