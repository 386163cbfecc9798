#!/usr/bin/env python3
"""Times every operator of the conformance table, captured (TinyJit), against tinygrad, worst first.

  bench/ops_sweep.py [--build build/release] [--sizes 1048576,65536] [--only sum,sort] [--skip ...]
                     [--seconds 600] [--rounds 5] [--patience 25] [--out sweep.jsonl] [--again]
                     [--margin 1.05] [--before TREE]
  bench/ops_sweep.py --report --out sweep.jsonl

One process an engine (python: $PEERS_PYTHON, a list by ':'; the first that imports the engine), one
thread, CPU time, rounds A B A B, medians; NumPy beside them for sorting, gathering and scattering.
Rows come from python/aster_ml/conformance; what their own generators cannot make large has a
shape here. Results land in --out, one JSON line a figure; what it holds already is not run
again (but with --again), so a sweep that was cut off goes on. Results are compared with
tinygrad's. With --before, another checkout of this project, built in its build/release, is the peer
in tinygrad's place: what a change cost or gained; the report ends with the mean of the ratios.
"""

import argparse
import gc
import json
import math
import os
import select
import statistics
import subprocess
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SIZES = (1 << 20, 1 << 16, 1 << 10, 1, 1 << 24)
ROUND_SECONDS = 0.03
NUMPY = ("sort", "argsort", "topk", "gather", "scatter", "masked_select", "nonzero", "cumsum")


def square(n):
    """Two sides of n elements, the last not the shorter."""
    rows = 1 << (int(math.log2(n)) // 2)
    return rows, n // rows


def image(n, least=4):
    """(batch, channels, height, width) of about n elements."""
    side = max(least, min(64, 1 << int(math.log2(max(n, 16)) / 4 + 1)))
    channels = max(1, min(32, n // (side * side)))
    return max(1, n // (side * side * channels)), channels, side, side


def spec(shape, kind="plain", dtype=None, **more):
    return {"shape": list(shape), "kind": kind, "dtype": dtype or "float32", **more}


def cube(n):
    """Side of the squares whose product costs about as much as n elements of work are worth."""
    return max(1, min(1024, 1 << (int(math.log2(n)) // 2)))


def convolved(n, transposed=False, **arguments):
    x = image(n)
    c = x[1]
    return [spec(x), spec((c, c, 3, 3)), spec((c,))], {
        "groups": 1, "stride": 1, "dilation": 1, "padding": 1, **arguments}


def pooled(n, size=2, **arguments):
    return [spec(image(n), "distinct")], {"kernel_size": [size, size], **arguments}


def labelled(n, classes_last=False, **arguments):
    classes = max(2, min(256, n))
    rows = max(1, n // classes)
    return [spec((rows, classes)), spec((rows,), "range", "int32", low=0, high=classes)], {
        "reduction": "mean", **arguments}


def rows_of(kind="plain", extra=0, **arguments):
    return lambda n: ([spec(square(n), kind)] + [spec(square(n)[1:])] * extra, dict(arguments))


def channelled(extra, **arguments):
    return lambda n: ([spec(image(n))] + [spec(image(n)[1:2], "positive")] * extra, dict(arguments))


def attended(n):
    length = max(4, min(512, 1 << int(math.log2(max(n, 64)) / 2 - 1)))
    shape = (1, max(1, min(16, n // (length * 32))), length, min(64, max(4, n // length)))
    return [spec(shape)] * 3, {"is_causal": True, "enable_gqa": False}


def stepped(**arguments):
    return lambda n: ([spec(square(n)), spec(square(n))], {"lr": 0.01, "count": 1, **arguments})


def indexed(n, unique=False):
    a, b = square(n)
    kind = {"kind": "permutation", "axis": 1} if unique else {"kind": "range", "low": 0}
    return spec((a, b), dtype="int32", high=b, **kind)


def products(n):
    return [spec((cube(n), cube(n)))] * 2, {}


# Rows whose generators do not scale: n -> (inputs, arguments).
SHAPES = {
    "conv2d": convolved,
    "conv2d.padding": lambda n: (convolved(n)[0][:2],
                                 {**convolved(n)[1], "padding": [1, 0, 2, 1]}),
    "conv_transpose2d": lambda n: convolved(n, output_padding=0),
    "conv_transpose2d.stride": lambda n: convolved(n, output_padding=1, stride=2),
    "max_pool2d": lambda n: pooled(n, padding=0, stride=None),
    "max_pool2d.3s2": lambda n: pooled(n, 3, padding=1, stride=2),
    "max_pool2d.indices": lambda n: pooled(n, padding=0, stride=None),
    "avg_pool2d": lambda n: pooled(n, padding=0, stride=None),
    "max_unpool2d": pooled,
    "interpolate": lambda n: ([spec(image(n))], {"size": [2 * s for s in image(n)[2:]],
                                                 "mode": "linear", "align_corners": False}),
    "interpolate.nearest": lambda n: ([spec(image(n))], {
        "size": [2 * s for s in image(n)[2:]], "mode": "nearest", "align_corners": False}),
    "matmul": products,
    "dot": products,
    "matmul.dtype": lambda n: (products(n)[0], {"dtype": "float64"}),
    "linear": lambda n: (products(n)[0] + [spec((cube(n),))], {}),
    "nn.Linear": lambda n: (products(n)[0] + [spec((cube(n),))], {}),
    "einsum": lambda n: ([spec((cube(n), cube(n)))] * 2, {"formula": "ij,jk->ik"}),
    "qr": lambda n: ([spec((min(32, cube(n)),) * 2)], {}),
    "svd": lambda n: ([spec((min(16, cube(n)),) * 2)], {"full_matrices": False}),
    "newton_schulz": lambda n: ([spec((min(256, cube(n)),) * 2)],
                                {"steps": 5, "params": (3.4445, -4.775, 2.0315)}),
    "scaled_dot_product_attention": attended,
    "cross_entropy": lambda n: labelled(n, label_smoothing=0.0),
    "cross_entropy.probabilities": lambda n: ([spec(square(n)), spec(square(n), "probability")],
                                              {"reduction": "mean", "label_smoothing": 0.0}),
    "sparse_categorical_crossentropy": lambda n: labelled(n, ignore_index=-1, label_smoothing=0.0),
    "nll_loss": lambda n: labelled(n, ignore_index=None),
    "keccak": lambda n: ([spec((min(n, 1 << 16),), "range", "uint8", low=0, high=256)],
                         {"cfg": "sha3_256"}),
    "hash": lambda n: ([spec((n,), "range", "uint8", low=0, high=256)], {}),
    **{name: rows_of(axis=-1, keepdim=False, correction=1)
       for name in ("var", "std", "var_mean", "std_mean")},
    "layernorm": rows_of(axis=-1, eps=1e-5),
    "batchnorm": channelled(4),
    "topk": lambda n: ([spec(square(n), "distinct")],
                       {"k": min(8, square(n)[1]), "dim": -1, "largest": True}),
    "sort": rows_of("distinct", dim=-1, descending=False),
    "sort.flat": lambda n: ([spec((n,), "distinct")], {"dim": -1, "descending": False}),
    "sum.all": rows_of(axis=None, keepdim=False),
    "sum.columns": rows_of(axis=0, keepdim=False),
    "max.columns": rows_of(axis=0, keepdim=False),
    "argmax.columns": rows_of(axis=0, keepdim=False),
    "argmax.rows": rows_of(axis=1, keepdim=False),
    "cumsum.columns": rows_of(axis=0),
    "cumsum.flat": lambda n: ([spec((n,))], {"axis": 0}),
    "softmax.columns": rows_of(axis=0),
    "bitcast": lambda n: ([spec((max(1, n // 8), 8))], {"dtype": "int8"}),
    "reshape": lambda n: ([spec((n,))], {"shape": square(n)}),
    "view": lambda n: ([spec((n,))], {"shape": square(n)}),
    "expand": lambda n: ([spec((1, square(n)[1]))], {"shape": square(n)}),
    "permute": rows_of(order=(1, 0)),
    "transpose": rows_of(dim0=0, dim1=1),
    "flip": rows_of(axis=(0, 1)),
    "pad": rows_of(padding=((1, 2), (3, 1)), value=0),
    "pad.mode": lambda n: ([spec(image(n))], {"padding": [(0, 0), (0, 0), (1, 1), (1, 1)],
                                              "mode": "reflect"}),
    "shrink": lambda n: ([spec(square(n))], {"arg": [(0, (s + 1) // 2) for s in square(n)]}),
    "rearrange": rows_of(formula="b c -> c b"),
    "split": lambda n: ([spec(square(n))], {"sizes": max(1, square(n)[1] // 4), "dim": 1}),
    "chunk": rows_of(chunks=2, dim=1),
    "__getitem__.advanced": lambda n: (
        [spec(square(n)), spec(square(n)[:1], "range", "int32", low=0, high=square(n)[0])],
        {"index": [{"tensor": 1}]}),
    "masked_select.size": lambda n: ([spec((n,)), spec((n,), dtype="bool")],
                                     {"size": max(1, n // 2), "fill_value": 0}),
    "gather": lambda n: ([spec(square(n)), indexed(n)], {"dim": 1}),
    "scatter": lambda n: ([spec(square(n)), indexed(n, True), spec(square(n))], {"dim": 1}),
    "scatter.reduce": lambda n: ([spec(square(n)), indexed(n)],
                                 {"dim": 1, "number": 2, "reduce": "add"}),
    "scatter_reduce": lambda n: ([spec(square(n)), indexed(n), spec(square(n))],
                                 {"dim": 1, "reduce": "sum", "include_self": True}),
    "one_hot": lambda n: ([spec((max(1, n // 64),), "range", "int32", low=0, high=64)],
                          {"num_classes": 64}),
    "nn.Conv1d": lambda n: ([spec((4, 16, max(3, n // 64))), spec((16, 16, 3)), spec((16,))],
                            {"stride": 1, "padding": 1, "groups": 1}),
    "nn.Conv2d": lambda n: (convolved(n)[0], {"stride": 1, "padding": 1, "groups": 1}),
    "nn.ConvTranspose1d": lambda n: ([spec((4, 16, max(3, n // 64))), spec((16, 16, 3)),
                                      spec((16,))], {"stride": 2, "padding": 1, "groups": 1}),
    "nn.ConvTranspose2d": lambda n: (convolved(n)[0], {"stride": 2, "padding": 1, "groups": 1}),
    "nn.BatchNorm": channelled(4, training=True, eps=1e-5),
    "nn.GroupNorm": channelled(2, groups=1),
    "nn.InstanceNorm": channelled(2, groups=1),
    "nn.LayerNorm2d": channelled(2, groups=1),
    "nn.LayerNorm": rows_of(extra=2),
    "nn.RMSNorm": rows_of(extra=2),
    "nn.Embedding": lambda n: ([spec((1000, 64)),
                                spec((max(1, n // 64),), "range", "int32", low=0, high=1000)], {}),
    "nn.LSTMCell": lambda n: ([spec((16, 128)), spec((16, 128)), spec((16, 128)), spec((512, 128)),
                               spec((512, 128)), spec((512,)), spec((512,))], {}),
    "nn.optim.SGD": stepped(momentum=0.9, weight_decay=0.1, nesterov=False, classic=False),
    "nn.optim.Adam": stepped(b1=0.9, eps=1e-8),
    "nn.optim.AdamW": stepped(weight_decay=0.01),
    "nn.optim.LAMB": stepped(weight_decay=0.01),
    "nn.optim.LARS": stepped(momentum=0.9, weight_decay=1e-4, nesterov=False),
    "nn.optim.Muon": lambda n: ([spec((min(256, cube(n)),) * 2)] * 2, {
        "lr": 0.01, "count": 1, "momentum": 0.95, "weight_decay": 0.1, "nesterov": True}),
}
VARIANTS = {name: name.partition(".")[0] for name in
            ("conv_transpose2d.stride", "max_pool2d.3s2", "interpolate.nearest", "sum.all",
             "sum.columns", "max.columns", "argmax.columns", "argmax.rows", "cumsum.columns",
             "cumsum.flat", "softmax.columns", "sort.flat")}
VIEWS = {"bitcast", "detach", "contiguous_backward"}  # of storage: timed with one addition
SMALL_ONLY = {"keccak", "qr", "svd", "nonzero", "masked_select", "nn.initial"}


# ---- one engine in a process of its own


def sized_case(name, n):
    """The inputs and arguments of a row at a size."""
    from aster_ml.conformance.operators import ROWS
    from aster_ml.conformance.row import Draw

    class Sized(Draw):
        """The simplest case, with shapes of n elements."""

        def shape(self, low=0, high=3, side=6, least=1):
            ndim = low if low > 2 else min(2, high)
            if ndim == 0:
                return ()
            return (1,) * (ndim - 2) + square(n) if ndim >= 2 else (n,)

        def axis(self, ndim):
            return ndim - 1

        axes = axis

    row = ROWS[VARIANTS.get(name, name)]
    dtype = "float32" if "float32" in row.dtypes else row.dtypes[0]
    if name in SHAPES:
        return row, *SHAPES[name](n)
    draw = Sized(lambda low, high: low, dtype)
    arguments = row.make(draw) or {}
    return row, draw.inputs, arguments


def values(s, rng):
    """An array of these shape, kind and dtype: no infinities, nothing denormal."""
    import numpy as np

    shape, kind, dtype = tuple(s["shape"]), s["kind"], s["dtype"]
    if kind == "range":
        return rng.integers(s["low"], s["high"], shape).astype(dtype)
    if kind == "permutation":
        axis = s.get("axis", 0)
        keys = np.moveaxis(rng.random((*shape[:axis], s["high"], *shape[axis + 1:])), axis, -1)
        order = np.argsort(keys, -1)[..., : shape[axis]]
        return np.moveaxis(order, -1, axis).astype(dtype)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind != "f":
        return rng.integers(1 if dtype.startswith("u") else -9, 10, shape).astype(dtype)
    x = rng.standard_normal(shape, np.float32)
    if kind == "distinct":
        x = rng.permutation(np.arange(x.size)).reshape(shape) * 0.5
    if kind in ("positive", "above_one"):
        x = np.abs(x) + (0.25 if kind == "positive" else 1.25)
    if kind == "unit":
        x = np.tanh(x) * 0.9
    if kind == "probability":
        x = np.tanh(x) * 0.4 + 0.5
    return np.asarray(x, dtype)


def digest(arrays):
    """A few numbers that agree where results do."""
    import numpy as np

    out = []
    for a in arrays:
        a = np.asarray(a, np.float64)
        finite = a[np.isfinite(a)]
        out.append([list(a.shape), float(np.abs(finite).mean()) if finite.size else 0.0])
    return out


def lazily(name):
    """The engine's front end, as the rows want it, and the wait for its results."""
    if name == "tinygrad":
        import tinygrad as library
        from tinygrad import nn

        wait = library.Device[library.Device.DEFAULT].synchronize
        from importlib.metadata import version

        said = "tinygrad " + version("tinygrad")
    else:
        import aster_ml as library
        from aster_ml import _native, nn

        _native.set_current(_native.context_init({"threads": 1}))
        said, wait = "aster_ml", None
    f = types.SimpleNamespace(Tensor=library.Tensor, dtypes=library.dtypes, nn=nn,
                              Context=library.Context, TinyJit=library.TinyJit)
    return f, wait, said


def build(f, wait, name, n, slopes):
    import numpy as np

    row, inputs, arguments = sized_case(name, n)
    rng = np.random.default_rng(n)
    arrays = [values(s, rng) for s in inputs]
    count = max([a.size for a in arrays], default=0)
    if f is None:
        if row.numpy is None:
            raise NotImplementedError("no NumPy function")
        return (lambda: row.numpy(*arrays, **arguments)), None, count

    tensors = [f.Tensor(a).realize() for a in arrays]
    moves = row.group == "movement" or row.name in ("contiguous", "clone", "float")

    @f.TinyJit
    def step(*given):
        if row.call:
            out = row.call(f, *given, **arguments)
        else:
            out = getattr(given[0], row.name)(*given[1:], **arguments)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        if slopes:
            floats = [t for t, a in zip(given, arrays) if a.dtype.kind == "f"]
            out = list(out[0].gradient(*floats, gradient=f.Tensor.ones(*out[0].shape)))
        elif row.name in VIEWS:
            out = [t + 1 for t in out]
        elif moves:
            out = [t.contiguous() for t in out]
        f.Tensor.realize(*out)
        return out

    def call():
        out = step(*tensors)
        if wait:
            wait()
        return out

    return call, (lambda: digest([t.numpy() for t in call()])), count


def worker(name):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer):
        out.write(json.dumps(answer) + "\n")
        out.flush()

    package = os.path.join(ROOT, "python", "aster_ml")
    if name != "aster":  # the table of rows, without the library
        sys.modules["aster_ml"] = stub = types.ModuleType("aster_ml")
        stub.__path__ = [package]
    f, wait, version = lazily(name) if name != "numpy" else (None, None, "numpy")
    from aster_ml.conformance.operators import ROWS

    say({"version": version, "rows": [*ROWS, *VARIANTS]})
    call = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "build" in order:
                call = None
                gc.collect()
                call, check, count = build(f, wait, *order["build"])
                call()  # runs, then records; where that is quick, one more warms it up
                call()
                begin = time.process_time()
                call()
                seconds = time.process_time() - begin
                if seconds < 1:
                    begin = time.process_time()
                    call()
                    seconds = time.process_time() - begin
                said = check() if check and seconds < 5 else None
                say({"seconds": seconds, "digest": said, "count": count})
            else:
                call()
                begin = time.process_time()
                for _ in range(order["calls"]):
                    call()
                say({"seconds": (time.process_time() - begin) / order["calls"]})
        except Exception as error:  # a row that an engine refuses is a figure, too
            call = None
            say({"error": f"{type(error).__name__}: {error}"[:200]})


# ---- the sweep


class Peer:
    def __init__(self, name, python, environment, patience):
        self.patience = patience
        engine = "aster" if name == "before" else name
        self.name, self.environment = name, environment
        self.command = [python, __file__, "--worker", engine]
        self.process = None
        self.hello = self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=self.environment, text=True,
                                        stderr=subprocess.DEVNULL)
        return self.answer(self.patience)

    def answer(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.stop()
        return {"error": "died" if ready else f"took more than {seconds} s"}

    def ask(self, order):
        if self.process is None:
            hello = self.start()
            if "error" in hello:
                return hello
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except OSError:
            self.stop()
            return {"error": "died"}
        return self.answer(self.patience)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


def agree(a, b):
    if not a or not b or len(a) != len(b):
        return None
    return all(x[0] == y[0] and math.isclose(x[1], y[1], rel_tol=1e-3, abs_tol=1e-4)
               for x, y in zip(a, b))


def figure(peers, name, n, slopes, rounds):
    first = {p: p.ask({"build": [name, n, slopes]}) for p in peers}
    said = {"name": name, "size": n, "gradient": slopes,
            "count": first[peers[0]].get("count"),
            "errors": {p.name: a["error"] for p, a in first.items() if "error" in a}}
    going = [p for p in peers if "error" not in first[p]]
    times = {p: [] for p in going}
    for _ in range(rounds):
        for p in list(going):
            calls = max(1, min(5000, int(ROUND_SECONDS / max(first[p]["seconds"], 1e-7))))
            answer = p.ask({"calls": calls})
            if "error" in answer:
                said["errors"][p.name] = answer["error"]
                going.remove(p)
            else:
                times[p].append(answer["seconds"])
        if sum(t[-1] for t in times.values() if t) > 1:
            break
    for p in going:
        said[p.name] = float(f"{statistics.median(times[p]):.4g}")
    if len(peers) > 1:
        said["agree"] = agree(*(first[p].get("digest") for p in peers[:2]))
    return said


def python_for(module, pythons, environment):
    for python in pythons:
        try:
            if subprocess.run([python, "-c", f"import numpy, {module}"], capture_output=True,
                              env=environment, check=False).returncode == 0:
                return python
        except OSError:
            pass
    sys.exit(f"ops_sweep: no python of {':'.join(pythons)} imports {module}")


def held(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except OSError:
        return []


def report(figures, margin):
    """The last figure of each row and size, the worst ratio first."""
    latest = {(f["name"], f["size"], f["gradient"]): f for f in figures}.values()
    peer = "before" if any("before" in f for f in latest) else "tinygrad"
    both = [f for f in latest if "aster" in f and peer in f]
    both.sort(key=lambda f: f[peer] / f["aster"])
    print(f"{'row':34}{'size':>9}{'aster ms':>12}{peer + ' ms':>12}{'numpy ms':>10}{'ratio':>9}")
    for f in both:
        numpy = f"{f['numpy'] * 1e3:.3f}" if "numpy" in f else ""
        ratio = f[peer] / f["aster"]
        mark = " <" if ratio < 1 / margin else ""
        mark += " ?" if f.get("agree") is False else ""
        ours, theirs = f["aster"] * 1e3, f[peer] * 1e3
        print(f"{f['name'] + (' grad' if f['gradient'] else ''):34}{f['size']:>9}"
              f"{ours:>12.4f}{theirs:>12.4f}{numpy:>10}{ratio:>9.2f}{mark}")
    behind = sum(f[peer] / f["aster"] < 1 / margin for f in both)
    mean = math.exp(statistics.fmean(math.log(f[peer] / f["aster"]) for f in both)) if both else 1
    print(f"{len(both)} figures, {behind} behind by more than {margin}, mean {mean:.3f}; "
          "< behind, ? results differ")
    for f in latest:
        if f["errors"]:
            print(f"not compared: {f['name']} {f['size']} {f['errors']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default="ops_sweep.jsonl")
    parser.add_argument("--patience", type=float, default=25, help="seconds for one answer")
    parser.add_argument("--margin", type=float, default=1.05)
    parser.add_argument("--before", help="another checkout, the peer in tinygrad's place")
    parser.add_argument("--gradients", action="store_true", help="time gradients instead")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--worker")
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(arguments.worker)
    if arguments.report:
        return report(held(arguments.out), arguments.margin)
    if os.path.dirname(arguments.out):
        os.makedirs(os.path.dirname(arguments.out), exist_ok=True)

    one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUM_CPU_THREADS",
                                  "CPU_COUNT")}
    pythons = os.environ.get("PEERS_PYTHON", sys.executable).split(":")
    builds = {"before": os.path.join(arguments.before or "", "build", "release")}
    peers = []
    for name, module in (("aster", "aster_ml"),
                         ("before", "aster_ml") if arguments.before else ("tinygrad", "tinygrad"),
                         ("numpy", "numpy")):
        build = os.path.abspath(builds.get(name, arguments.build))
        environment = {**os.environ, **one, "DEV": "CPU",
                       "PYTHONPATH": os.path.join(build, "python")}
        python = python_for(module, pythons, environment)
        peers.append(Peer(name, python, environment, arguments.patience))
    for p in peers:
        if "error" in p.hello:
            sys.exit(f"ops_sweep: {p.name}: {p.hello['error']}")
    only = [n for n in arguments.only.split(",") if n]
    names = [n for n in peers[0].hello["rows"]
             if (not only or n in only) and n not in arguments.skip.split(",")]
    done = set() if arguments.again else {(f["name"], f["size"], f["gradient"])
                                          for f in held(arguments.out)}
    end = time.monotonic() + arguments.seconds
    slopes = arguments.gradients
    with open(arguments.out, "a", encoding="utf-8") as out:
        for n in map(int, arguments.sizes.split(",")):
            for name in names:
                if (name, n, slopes) in done or (name in SMALL_ONLY and n > 1 << 10):
                    continue
                if time.monotonic() > end:
                    print("ops_sweep: out of time; start it again to go on", file=sys.stderr)
                    return None
                with_numpy = name.partition(".")[0] in NUMPY and n == 1 << 20 and not slopes
                said = figure(peers[: 3 if with_numpy else 2], name, n, slopes, arguments.rounds)
                out.write(json.dumps(said) + "\n")
                out.flush()
    for p in peers:
        p.stop()
    return report(held(arguments.out), arguments.margin)


if __name__ == "__main__":
    main()
