#!/usr/bin/env python3
"""The peak of memory of training steps beside parameters, state of the optimiser and inputs: what a
captured step of ours plans, which is known before it runs; what torch holds at once, storage by
storage; what tinygrad's planner gives its captured step. One JSON line a model.

usage: memory.py [--models mlp,conv,resnet,transformer,lstm]
python: $PEERS_PYTHON, else this one; each library in a process of its own
"""

import argparse
import json
import os
import subprocess
import sys

MODELS = {  # of a model: shapes of inputs, how many classes its labels have, shapes of parameters
    "mlp": ([(128, 784)], (128,), 10, {"a": (784, 512), "b": (512, 512), "c": (512, 10)}),
    "conv": ([(64, 1, 28, 28)], (64,), 10,
             {"a": (32, 1, 5, 5), "b": (32, 32, 5, 5), "c": (64, 32, 3, 3), "d": (64, 64, 3, 3),
              "e": (576, 10)}),
    "resnet": ([(16, 32, 32, 32)], (16,), 10,
               {**{f"{i}{j}": (32, 32, 3, 3) for i in range(3) for j in "ab"},
                **{f"{i}{j}": (1, 32, 1, 1) for i in range(3) for j in "cdef"}, "z": (32, 10)}),
    "transformer": ([(8, 64, 128)], (512,), 96,
                    {**{f"{i}qkv": (128, 384) for i in range(2)},
                     **{f"{i}out": (128, 128) for i in range(2)},
                     **{f"{i}up": (128, 512) for i in range(2)},
                     **{f"{i}down": (512, 128) for i in range(2)}, "head": (128, 96)}),
    "lstm": ([(24, 16, 64)], (16,), 10, {"x": (64, 512), "h": (128, 512), "z": (128, 10)}),
}


def mlp(o, p, x):
    return o.relu(o.relu(x @ p["a"]) @ p["b"]) @ p["c"]


def conv(o, p, x):
    x = o.relu(o.conv(o.relu(o.conv(x, p["a"], 0)), p["b"], 0))
    x = o.pool(x)
    x = o.relu(o.conv(o.relu(o.conv(x, p["c"], 0)), p["d"], 0))
    return o.pool(x).reshape(x.shape[0], -1) @ p["e"]


def resnet(o, p, x):
    def norm(x, scale, shift):
        centred = x - x.mean((0, 2, 3), True)
        return centred * ((centred * centred).mean((0, 2, 3), True) + 1e-5) ** -0.5 * scale + shift

    for i in range(3):
        y = o.relu(norm(o.conv(x, p[f"{i}a"], 1), p[f"{i}c"], p[f"{i}d"]))
        x = o.relu(x + norm(o.conv(y, p[f"{i}b"], 1), p[f"{i}e"], p[f"{i}f"]))
    return x.mean((2, 3)) @ p["z"]


def transformer(o, p, x):
    batch, length, width = x.shape

    def norm(x):
        centred = x - x.mean(2, True)
        return centred * ((centred * centred).mean(2, True) + 1e-5) ** -0.5

    for i in range(2):
        heads = (norm(x) @ p[f"{i}qkv"]).reshape(batch, length, 3, 4, width // 4)
        q, k, v = (heads[:, :, j].transpose(1, 2) for j in range(3))
        y = o.attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + y @ p[f"{i}out"]
        x = x + o.gelu(norm(x) @ p[f"{i}up"]) @ p[f"{i}down"]
    return (norm(x) @ p["head"]).reshape(batch * length, -1)


def lstm(o, p, x):
    h = c = None
    for t in range(x.shape[0]):
        gates = x[t] @ p["x"] if h is None else x[t] @ p["x"] + h @ p["h"]
        i, f, g, out = (gates[:, 128 * j : 128 * (j + 1)] for j in range(4))
        new = i.sigmoid() * g.tanh()
        c = new if c is None else f.sigmoid() * c + new
        h = out.sigmoid() * c.tanh()
    return h @ p["z"]


def data(name):
    import numpy as np

    inputs, labels, classes, parameters = MODELS[name]
    r = np.random.default_rng(1)
    x = [r.standard_normal(shape, dtype=np.float32) for shape in inputs]
    y = r.integers(0, classes, labels).astype(np.int32)
    return x, y, {k: 0.05 * r.standard_normal(s, dtype=np.float32) for k, s in parameters.items()}


class OfTorch:
    """The functions that torch names otherwise, and the step."""

    def __init__(self):
        import torch

        self.t, self.f = torch, torch.nn.functional
        torch.set_num_threads(1)
        self.relu, self.gelu = self.f.relu, lambda x: self.f.gelu(x, approximate="tanh")

    def conv(self, x, w, padding):
        return self.f.conv2d(x, w, padding=padding)

    def pool(self, x):
        return self.f.max_pool2d(x, 2)

    def attention(self, q, k, v):
        return self.f.scaled_dot_product_attention(q, k, v, is_causal=True)

    def measure(self, model, x, y, parameters):
        """Bytes of the storages that live at once, beside those before the step."""
        import weakref

        from torch.utils._python_dispatch import TorchDispatchMode

        torch = self.t
        x = [torch.tensor(a) for a in x]
        y = torch.tensor(y).long()
        p = {k: torch.tensor(v, requires_grad=True) for k, v in parameters.items()}
        adam = torch.optim.Adam(p.values(), lr=1e-3)
        live, now, most = {}, [0], [0]

        def note(value):
            if not isinstance(value, torch.Tensor):
                return
            storage = value.untyped_storage()
            key = storage._cdata
            if key in live or storage.nbytes() == 0:
                return
            live[key] = storage.nbytes()
            now[0] += live[key]
            most[0] = max(most[0], now[0])

            def gone(key=key):
                now[0] -= live.pop(key, 0)

            weakref.finalize(storage, gone)

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                out = function(*arguments, **(named or {}))
                torch.utils._pytree.tree_map(note, out)
                return out

        def step():
            adam.zero_grad()
            loss = self.f.cross_entropy(model(self, p, *x), y)
            loss.backward()
            adam.step()
            return float(loss.detach())

        loss = step()
        known = [*p.values(), *x, y, *(v for s in adam.state.values() for v in s.values())]
        adam.zero_grad()
        for value in known:
            if isinstance(value, torch.Tensor):
                live[value.untyped_storage()._cdata] = 0
        now[0] = most[0] = 0
        with Watch():
            step()
        return loss, most[0]


class OfTinygrad:
    """tinygrad, and what has its interface."""

    def __init__(self, library, nn):
        self.library, self.nn = library, nn
        self.relu, self.gelu = (lambda x: x.relu()), (lambda x: x.gelu())

    def conv(self, x, w, padding):
        return x.conv2d(w, padding=padding)

    def pool(self, x):
        return x.max_pool2d()

    def attention(self, q, k, v):
        return q.scaled_dot_product_attention(k, v, is_causal=True)

    def measure(self, model, x, y, parameters):
        library = self.library
        x = [library.Tensor(a).realize() for a in x]
        y = library.Tensor(y).realize()
        p = {k: library.Tensor(v).realize() for k, v in parameters.items()}
        adam = self.nn.optim.Adam(list(p.values()), lr=1e-3)

        @library.TinyJit
        def step(*x):
            with library.Context(TRAINING=1):
                adam.zero_grad()
                loss = model(self, p, *x).sparse_categorical_crossentropy(y).backward()
                return loss.realize(*adam.schedule_step())

        losses = [float(step(*x).item()) for _ in range(3)]
        state = [v for v in self.nn.state.get_state_dict(adam).values()]
        return losses[0], self.planned(step, [*x, y, *p.values(), *state])


class Ours(OfTinygrad):
    def __init__(self):
        import aster_ml
        from aster_ml import nn

        super().__init__(aster_ml, nn)

    def planned(self, step, known):
        from aster_ml import _native

        return int(_native.program_count_bytes(step.captured.program))


class Tinygrad(OfTinygrad):
    def __init__(self):
        import tinygrad
        from tinygrad import nn

        super().__init__(tinygrad, nn)

    def planned(self, step, known):
        from tinygrad.uop.ops import buffers

        held = {id(t.uop.base.buffer.base) for t in known if t.uop.base.realized is not None}
        bases = {id(buffers[u].base): buffers[u].base for u in step.captured._written_uops
                 if u in buffers}
        return sum(base.nbytes for key, base in bases.items() if key not in held)


ENGINES = {"ours": Ours, "torch": OfTorch, "tinygrad": Tinygrad}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--engine", choices=ENGINES, help="measure in this process")
    options = parser.parse_args()
    for name in options.models.split(","):
        if options.engine:
            loss, peak = ENGINES[options.engine]().measure(globals()[name], *data(name))
            print(json.dumps({"loss": loss, "peak": peak}))
            continue
        row = {"model": name}
        for engine in ENGINES:
            python = os.environ.get("PEERS_PYTHON", sys.executable)
            run = subprocess.run([python, __file__, "--models", name, "--engine", engine],
                                 capture_output=True, text=True,
                                 env=os.environ | {"ASTER_ML_THREADS": "1"})
            if run.returncode != 0:
                row[engine] = run.stderr.strip().splitlines()[-1][:200]
                continue
            made = json.loads(run.stdout.strip().splitlines()[-1])
            row[engine], row[engine + "_loss"] = made["peak"], round(made["loss"], 4)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
