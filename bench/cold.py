#!/usr/bin/env python3
"""What a program pays before its second step: the first training step of four models, long chains,
wide concatenations and 500 kernels at once, each in a process of its own with an empty cache of
kernels. One JSON line a row: seconds of the wall, of scheduling and of all that comes after it up
to running (rendering, compiling, loading), of CPU time in the compiler's processes; launches and
distinct kernels; the least time of later steps.

  bench/cold.py [--only conv_net,cat_250,...] [--package FOLDER]
                [--compilers gcc,clang,llvm,builtin] [--cores 1,2] [--tiers off,auto]

Of each row one run for every compiler, number of cores and value of ASTER_ML_TIERS that are named;
`begun` counts launches of kernels that began without machine code. LLVM compiles in the
process: its share is in compile_s and in cpu_s, which is what the step took of all cores. Two
libraries are compared with two runs: FOLDER is where `aster_ml` lies, build/release/python by
default.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


class Sequence:
    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, x):
        return x.sequential(list(self.layers))


def conv_net():
    from aster_ml import Tensor, nn

    return Sequence(nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5), Tensor.relu,
                    nn.BatchNorm(32), Tensor.max_pool2d, nn.Conv2d(32, 64, 3), Tensor.relu,
                    nn.Conv2d(64, 64, 3), Tensor.relu, nn.BatchNorm(64), Tensor.max_pool2d,
                    lambda x: x.flatten(1), nn.Linear(576, 10)), (64, 1, 28, 28)


class Block:
    """Of ResNet-18: two convolutions and what goes around them."""

    def __init__(self, before, size, stride):
        from aster_ml import nn

        self.first = nn.Conv2d(before, size, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(size, size, 3, padding=1, bias=False)
        self.norms = [nn.BatchNorm(size), nn.BatchNorm(size)]
        self.around = []
        if stride != 1 or before != size:
            self.around = [nn.Conv2d(before, size, 1, stride=stride, bias=False),
                           nn.BatchNorm(size)]

    def __call__(self, x):
        y = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(y)) + x.sequential(self.around)).relu()


def resnet18():
    from aster_ml import Tensor, nn

    layers = [nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm(64), Tensor.relu,
              lambda x: x.max_pool2d(3, 2, padding=1)]
    before = 64
    for size in (64, 128, 256, 512):
        layers += [Block(before, size, 1 if size == 64 else 2), Block(size, size, 1)]
        before = size
    return Sequence(*layers, lambda x: x.mean((2, 3)), nn.Linear(512, 1000)), (4, 3, 64, 64)


class Inverted:
    """Of EfficientNet: widen, depthwise, squeeze and excite, narrow."""

    def __init__(self, before, size, kernel, stride, expand):
        from aster_ml import nn

        wide = before * expand
        self.has_shortcut = stride == 1 and before == size
        self.widen = [] if expand == 1 else [nn.Conv2d(before, wide, 1, bias=False),
                                             nn.BatchNorm(wide)]
        self.deep = nn.Conv2d(wide, wide, kernel, stride=stride, padding=kernel // 2, groups=wide,
                              bias=False)
        self.deep_norm = nn.BatchNorm(wide)
        few = max(1, before // 4)
        self.squeeze, self.excite = nn.Conv2d(wide, few, 1), nn.Conv2d(few, wide, 1)
        self.narrow, self.narrow_norm = nn.Conv2d(wide, size, 1, bias=False), nn.BatchNorm(size)

    def __call__(self, x):
        y = x.sequential(self.widen).swish() if self.widen else x
        y = self.deep_norm(self.deep(y)).swish()
        y = self.excite(self.squeeze(y.avg_pool2d(y.shape[2:])).swish()).sigmoid() * y
        y = self.narrow_norm(self.narrow(y))
        return x + y if self.has_shortcut else y


def efficientnet_b0():
    from aster_ml import Tensor, nn

    layers = [nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm(32), Tensor.swish]
    before = 32
    stages = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80),
              (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320))
    for count, kernel, stride, expand, size in stages:
        for i in range(count):
            layers.append(Inverted(before, size, kernel, stride if i == 0 else 1, expand))
            before = size
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm(1280), Tensor.swish]
    return Sequence(*layers, lambda x: x.mean((2, 3)), nn.Linear(1280, 1000)), (4, 3, 64, 64)


class Transformer:
    def __init__(self, size=128, heads=4):
        from aster_ml import nn

        self.heads = heads
        self.norms = nn.LayerNorm(size), nn.LayerNorm(size)
        self.all, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def __call__(self, x):
        batch, length, size = x.shape
        parts = self.all(self.norms[0](x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = (parts[:, :, i].transpose(1, 2) for i in range(3))
        y = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(y.reshape(batch, length, size))
        return x + self.down(self.up(self.norms[1](x)).gelu())


def transformer_12():
    from aster_ml import nn

    return Sequence(*[Transformer() for _ in range(12)], lambda x: x.mean(1),
                    nn.Linear(128, 10)), (4, 64, 128)


def training(model):
    """Parameters are there; forward, backward and SGD with momentum are timed."""

    def prepare():
        from aster_ml import Context, Tensor, nn

        net, shape = model()
        parameters = nn.state.get_parameters(net)
        x, y = Tensor.randn(*shape), Tensor.arange(shape[0]) % 10
        Tensor.realize(x, y, *parameters)
        optimizer = nn.optim.SGD([p for p in parameters if p.is_param], lr=0.01,
                                 momentum=0.9)

        def step():
            with Context(TRAINING=1):
                optimizer.zero_grad()
                loss = net(x).sparse_categorical_crossentropy(y).backward()
                loss.realize(*optimizer.schedule_step())

        return step

    return prepare


def cat(parts):
    def prepare():
        from aster_ml import Tensor

        x = [Tensor([[float(i)] * 5] * 3).realize() for i in range(parts)]
        return lambda: x[0].cat(*x[1:]).realize()

    return prepare


def gradient(nodes):
    """Of a chain of about so many nodes."""

    def prepare():
        from aster_ml import Tensor

        x = Tensor.ones(16, 16).contiguous().realize()

        def step():
            y = x
            for i in range(nodes // 2):
                y = y.softmax() if i % 25 == 24 else y * x + x
            y.sum().gradient(x)[0].realize()

        return step

    return prepare


def tiny():
    """One small expression, the first of its process."""
    from aster_ml import Tensor

    x = Tensor([i / 100 for i in range(1000)]).realize()
    return lambda: (x.sqrt() + (x * 2 + 1).exp().sin()).realize()


def kernels(count):
    """So many distinct kernels in one schedule, of every kind that networks have, each on memory of
    its own: elementwise, sums and maxima of rows and of columns, softmax, normalisation, scans,
    products with what follows them."""

    def prepare():
        from aster_ml import Tensor, dtypes

        functions = (Tensor.exp, Tensor.log, Tensor.sin, Tensor.tanh, Tensor.sqrt, Tensor.relu,
                     Tensor.gelu, Tensor.sigmoid, Tensor.swish, Tensor.erf)
        forms = (lambda f, a, b: f(a) + b, lambda f, a, b: f(a * b - a),
                 lambda f, a, b: f(a + b).sum(1), lambda f, a, b: (f(a) * b).sum(0),
                 lambda f, a, b: f(a.max(1)) + b.sum(1), lambda f, a, b: (f(a) + b).softmax(1),
                 lambda f, a, b: f(a.layernorm()) * b, lambda f, a, b: (f(a) * b).cumsum(1),
                 lambda f, a, b: f(a @ b.T), lambda f, a, b: f(a.T).contiguous() + b.T)
        kinds = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.float32, dtypes.float32)
        sizes = ((64, 64), (32, 48), (48, 80), (16, 17), (100, 33))
        chosen = [(i % 10, i // 10 % 10, i // 100 % 5) for i in range(count)]
        inputs = [[(Tensor.rand(*sizes[k]) + 0.5).cast(kinds[k]).realize() for _ in range(2)]
                  for _, _, k in chosen]

        def step():
            Tensor.realize(*[forms[form](functions[f], a, b)
                             for (f, form, _), (a, b) in zip(chosen, inputs)])

        return step

    return prepare


def views(count):
    """Minibatches of one tensor, each at another offset."""

    def prepare():
        from aster_ml import Tensor

        x = Tensor.ones(count * 64, 32).contiguous().realize()
        return lambda: [x[64 * i:64 * i + 64].sum().realize() for i in range(count)]

    return prepare


ROWS = {
    "conv_net": training(conv_net),
    "transformer_12": training(transformer_12),
    "resnet18": training(resnet18),
    "efficientnet_b0": training(efficientnet_b0),
    **{f"cat_{n}": cat(n) for n in (100, 250, 500, 1001, 10000)},
    **{f"gradient_{n}": gradient(n) for n in (1000, 3000, 10000, 30000, 100000)},
    "views_100": views(100),
    "kernels_500": kernels(500),
    "tiny": tiny,
}
MODELS = ("conv_net", "transformer_12", "resnet18", "efficientnet_b0")


def compiler_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(name):
    sys.setrecursionlimit(1 << 20)
    from aster_ml import _native

    step = ROWS[name]()
    before, spent = dict(_native.engine_count()), compiler_seconds()
    own, start = time.process_time(), time.perf_counter()
    step()
    wall = time.perf_counter() - start
    own = time.process_time() - own
    now, used = _native.engine_count(), compiler_seconds() - spent
    later = []
    for _ in range(3 if name in MODELS else 0):
        start = time.perf_counter()
        step()
        later.append(time.perf_counter() - start)
    delta = {key: value - before[key] for key, value in now.items() if key != "struct_size"}
    print(json.dumps({
        "name": name,
        "compiler": os.environ.get("ASTER_ML_CC", ""),
        "cores": len(os.sched_getaffinity(0)),
        "wall_s": round(wall, 3),
        "schedule_s": round(delta["schedule_ms"] / 1e3, 3),
        "compile_s": round(delta["compile_ms"] / 1e3, 3),
        "compiler_cpu_s": round(used, 3),
        "cpu_s": round(own + used, 3),
        "run_s": round(delta["run_ms"] / 1e3, 3),
        **({"later_s": round(min(later), 4)} if later else {}),
        "schedules": delta["schedule_misses"],
        "launches": delta["kernels_launched"],
        "kernels": delta["kernels_compiled"] + delta["kernels_cached"],
        "tiers": os.environ.get("ASTER_ML_TIERS", ""),
        "begun": delta["kernels_begun"],
    }), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--package", default=os.path.join(ROOT, "build", "release", "python"))
    parser.add_argument("--compilers", default="", help="values of ASTER_ML_CC")
    parser.add_argument("--cores", default="", help="that each run may use")
    parser.add_argument("--tiers", default="", help="values of ASTER_ML_TIERS")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        return row(arguments.row)
    names = arguments.only.split(",") if arguments.only else ROWS
    compilers = arguments.compilers.split(",") if arguments.compilers else [None]
    cores = [int(n) for n in arguments.cores.split(",")] if arguments.cores else [None]
    tiers = arguments.tiers.split(",") if arguments.tiers else [None]
    for row_of_run in itertools.product(names, compilers, cores, tiers):
        run(arguments.package, *row_of_run)


def run(package, name, compiler, cores, tiers):
    """In a process of its own, with a cache of its own."""
    chosen = {} if compiler is None else {"ASTER_ML_CC": compiler}
    if tiers is not None:
        chosen["ASTER_ML_TIERS"] = tiers
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    with tempfile.TemporaryDirectory(prefix="aster-cold-") as folder:
        environment = {**os.environ, **chosen, "ASTER_ML_CACHE_DIR": folder,
                       "PYTHONPATH": package}
        done = subprocess.run([sys.executable, __file__, "--row", name], env=environment,
                              preexec_fn=lambda: os.sched_setaffinity(0, allowed), check=False)
        if done.returncode != 0:
            print(json.dumps({"name": name, "failed": done.returncode}), flush=True)


if __name__ == "__main__":
    main()
