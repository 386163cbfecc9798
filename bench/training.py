#!/usr/bin/env python3
"""Training steps of six models by Adam, captured: ours beside torch's eager mode and torch.compile,
in one process, in turn. One line a model: the medians of milliseconds (CPU time of the process with
one thread, else the wall's), the better of torch's by ours, and how far the first losses are apart.

  PYTHONPATH=build/release/python bench/training.py [--models resnet18,vit] [--threads 1]
                                                    [--rounds 7] [--no-compile]

python: one that has torch. The transformer of characters is a row of `report` (train_char). The
same text is both engines' model; what they name otherwise is in Torch and Ours.
"""

import argparse
import os
import statistics
import sys
import time

import numpy as np

RNG = np.random.default_rng(1)


def he(*shape):
    fan = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
    return (RNG.standard_normal(shape) * (1.0 / fan) ** 0.5).astype(np.float32)


class Parameters(dict):
    """Made as a model is written down: names are numbers."""

    def weight(self, name, *shape):
        self[name] = he(*shape)

    def norm(self, name, channels):
        self[name + ".w"] = np.ones(channels, np.float32)
        self[name + ".b"] = np.zeros(channels, np.float32)


# ---- Models: parameters, and the loss of p and inputs


def resnet18(batch=4, size=224):
    p = Parameters()
    p.weight("stem", 64, 3, 7, 7)
    p.norm("stem", 64)
    blocks, before = [], 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for i in range(2):
            name, stride = f"{stage}{i}", 2 if stage > 0 and i == 0 else 1
            p.weight(name + "a", width, before, 3, 3)
            p.weight(name + "b", width, width, 3, 3)
            p.norm(name + "a", width)
            p.norm(name + "b", width)
            if stride == 2:
                p.weight(name + "c", width, before, 1, 1)
                p.norm(name + "c", width)
            blocks.append((name, stride))
            before = width
    p.weight("head", 512, 1000)

    def loss(o, p, x, y):
        x = o.pool3(o.relu(o.batchnorm(o.conv(x, p["stem"], 2, 3), p, "stem")))
        for name, stride in blocks:
            z = o.relu(o.batchnorm(o.conv(x, p[name + "a"], stride, 1), p, name + "a"))
            z = o.batchnorm(o.conv(z, p[name + "b"], 1, 1), p, name + "b")
            if stride == 2:
                x = o.batchnorm(o.conv(x, p[name + "c"], 2, 0), p, name + "c")
            x = o.relu(x + z)
        return o.cross_entropy(x.mean((2, 3)) @ p["head"], y)

    return p, loss, [image(batch, size), labels(batch, 1000)]


def mobilenetv2(batch=4, size=224):
    p, blocks = Parameters(), []
    p.weight("stem", 32, 3, 3, 3)
    p.norm("stem", 32)
    before = 32
    for grow, width, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                      (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            name, inner = str(len(blocks)), before * grow
            if grow > 1:
                p.weight(name + "a", inner, before, 1, 1)
                p.norm(name + "a", inner)
            p.weight(name + "b", inner, 1, 3, 3)
            p.norm(name + "b", inner)
            p.weight(name + "c", width, inner, 1, 1)
            p.norm(name + "c", width)
            blocks.append((name, grow > 1, first if i == 0 else 1, before == width, inner))
            before = width
    p.weight("last", 1280, 320, 1, 1)
    p.norm("last", 1280)
    p.weight("head", 1280, 1000)

    def loss(o, p, x, y):
        x = o.relu6(o.batchnorm(o.conv(x, p["stem"], 2, 1), p, "stem"))
        for name, grows, stride, same, inner in blocks:
            z = x
            if grows:
                z = o.relu6(o.batchnorm(o.conv(z, p[name + "a"]), p, name + "a"))
            z = o.conv(z, p[name + "b"], stride, 1, inner)
            z = o.relu6(o.batchnorm(z, p, name + "b"))
            z = o.batchnorm(o.conv(z, p[name + "c"]), p, name + "c")
            x = x + z if stride == 1 and same else z
        x = o.relu6(o.batchnorm(o.conv(x, p["last"]), p, "last"))
        return o.cross_entropy(x.mean((2, 3)) @ p["head"], y)

    return p, loss, [image(batch, size), labels(batch, 1000)]


def dcgan(batch=16):
    """Images of 64x64 from noise, and what tells them from others: both losses at once."""
    p, widths = Parameters(), (512, 256, 128, 64)
    p.weight("g0", 100, 512, 4, 4)
    p.norm("g0", 512)
    for i, width in enumerate((256, 128, 64, 3), 1):
        p.weight(f"g{i}", widths[i - 1], width, 4, 4)
        if width != 3:
            p.norm(f"g{i}", width)
    for i, (width, before) in enumerate(((64, 3), (128, 64), (256, 128), (512, 256))):
        p.weight(f"d{i}", width, before, 4, 4)
        if i > 0:
            p.norm(f"d{i}", width)
    p.weight("d4", 1, 512, 4, 4)

    def made(o, p, z):
        z = o.relu(o.batchnorm(o.transposed(z, p["g0"], 1, 0), p, "g0"))
        for i in (1, 2, 3):
            z = o.relu(o.batchnorm(o.transposed(z, p[f"g{i}"], 2, 1), p, f"g{i}"))
        return o.transposed(z, p["g4"], 2, 1).tanh()

    def told(o, p, x):
        x = o.leaky(o.conv(x, p["d0"], 2, 1))
        for i in (1, 2, 3):
            x = o.leaky(o.batchnorm(o.conv(x, p[f"d{i}"], 2, 1), p, f"d{i}"))
        return o.conv(x, p["d4"]).reshape(-1)

    def loss(o, p, z, x):
        return o.softplus(-told(o, p, x)).mean() + o.softplus(-told(o, p, made(o, p, z))).mean()

    return p, loss, [RNG.standard_normal((batch, 100, 1, 1)).astype(np.float32), image(batch, 64)]


def convnext(batch=8, width=96, size=56):
    """Two blocks, and the square of what they give."""
    p = Parameters()
    for i in "ab":
        p.weight(i + "d", width, 1, 7, 7)
        p.norm(i, width)
        p.weight(i + "u", width, 4 * width)
        p.weight(i + "v", 4 * width, width)

    def loss(o, p, x):
        for i in "ab":
            y = o.conv(x, p[i + "d"], 1, 3, width).permute(0, 2, 3, 1)
            y = o.gelu(o.layernorm(y, p, i) @ p[i + "u"]) @ p[i + "v"]
            x = x + y.permute(0, 3, 1, 2)
        return (x * x).mean()

    return p, loss, [RNG.standard_normal((batch, width, size, size)).astype(np.float32)]


def vit(batch=4, width=192, heads=3, layers=6):
    p = Parameters()
    p.weight("patch", width, 3, 16, 16)
    p["places"] = 0.02 * RNG.standard_normal((1, 196, width)).astype(np.float32)
    for i in range(layers):
        for name, shape in (("qkv", (width, 3 * width)), ("out", (width, width)),
                            ("up", (width, 4 * width)), ("down", (4 * width, width))):
            p.weight(f"{i}{name}", *shape)
        p.norm(f"{i}a", width)
        p.norm(f"{i}b", width)
    p.norm("last", width)
    p.weight("head", width, 1000)

    def loss(o, p, x, y):
        x = o.conv(x, p["patch"], 16).reshape(batch, width, 196).permute(0, 2, 1) + p["places"]
        for i in range(layers):
            z = (o.layernorm(x, p, f"{i}a") @ p[f"{i}qkv"]).reshape(batch, 196, 3, heads, -1)
            q, k, v = (z[:, :, j].permute(0, 2, 1, 3) for j in range(3))
            z = o.attention(q, k, v).permute(0, 2, 1, 3).reshape(batch, 196, width)
            x = x + z @ p[f"{i}out"]
            x = x + o.gelu(o.layernorm(x, p, f"{i}b") @ p[f"{i}up"]) @ p[f"{i}down"]
        return o.cross_entropy(o.layernorm(x, p, "last").mean(1) @ p["head"], y)

    return p, loss, [image(batch, 224), labels(batch, 1000)]


def lstm(steps=32, batch=32, width=64, hidden=256):
    p = Parameters()
    p.weight("x", width, 4 * hidden)
    p.weight("h", hidden, 4 * hidden)
    p.weight("head", hidden, 10)

    def loss(o, p, x, y):
        return o.cross_entropy(o.lstm(x, p["x"], p["h"], hidden) @ p["head"], y)

    x = RNG.standard_normal((steps, batch, width)).astype(np.float32)
    return p, loss, [x, labels(batch, 10)]


def image(batch, size):
    return RNG.standard_normal((batch, 3, size, size)).astype(np.float32)


def labels(batch, classes):
    return RNG.integers(0, classes, batch).astype(np.int32)


MODELS = {f.__name__: f for f in (resnet18, mobilenetv2, dcgan, convnext, vit, lstm)}


# ---- Engines


class Torch:
    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.t, self.f = torch, torch.nn.functional
        self.relu, self.relu6, self.softplus = self.f.relu, self.f.relu6, self.f.softplus
        self.attention, self.cross_entropy = self.f.scaled_dot_product_attention, self.entropy

    def entropy(self, x, y):
        return self.f.cross_entropy(x, y.long())

    def leaky(self, x):
        return self.f.leaky_relu(x, 0.2)

    def gelu(self, x):
        return self.f.gelu(x, approximate="tanh")

    def conv(self, x, w, stride=1, padding=0, groups=1):
        return self.f.conv2d(x, w, None, stride, padding, 1, groups)

    def transposed(self, x, w, stride, padding):
        return self.f.conv_transpose2d(x, w, None, stride, padding)

    def pool3(self, x):
        return self.f.max_pool2d(x, 3, 2, 1)

    def batchnorm(self, x, p, name):
        return self.f.batch_norm(x, None, None, p[name + ".w"], p[name + ".b"], True)

    def layernorm(self, x, p, name):
        return self.f.layer_norm(x, x.shape[-1:], p[name + ".w"], p[name + ".b"])

    def lstm(self, x, wx, wh, hidden):
        none = self.t.zeros(1, x.shape[1], hidden)
        weights = [wx.t().contiguous(), wh.t().contiguous()]
        out = self.t.lstm(x, (none, none), weights, False, 1, 0.0, True, False, False)
        return out[0][-1]

    def step(self, model, parameters, inputs, compiled):
        p = {k: self.t.tensor(v, requires_grad=True) for k, v in parameters.items()}
        inputs = [self.t.tensor(x) for x in inputs]
        adam = self.t.optim.Adam(p.values(), lr=1e-3, fused=True)
        loss_of = self.t.compile(lambda p, *x: model(self, p, *x)) if compiled else None

        def step():
            adam.zero_grad()
            loss = loss_of(p, *inputs) if compiled else model(self, p, *inputs)
            loss.backward()
            adam.step()
            return loss.detach()

        return step


class Ours:
    def __init__(self):
        import aster_ml
        from aster_ml import nn

        self.library, self.nn = aster_ml, nn

    def relu(self, x):
        return x.relu()

    def relu6(self, x):
        return x.relu6()

    def softplus(self, x):
        return x.softplus()

    def leaky(self, x):
        return x.leaky_relu(0.2)

    def gelu(self, x):
        return x.gelu()

    def conv(self, x, w, stride=1, padding=0, groups=1):
        return x.conv2d(w, groups=groups, stride=stride, padding=padding)

    def transposed(self, x, w, stride, padding):
        return x.conv_transpose2d(w, stride=stride, padding=padding)

    def pool3(self, x):
        return x.max_pool2d((3, 3), stride=2, padding=1)

    def batchnorm(self, x, p, name):
        mean = x.mean((0, 2, 3))
        by = ((x - mean.reshape(1, -1, 1, 1)).square().mean((0, 2, 3)) + 1e-5).rsqrt()
        return x.batchnorm(p[name + ".w"], p[name + ".b"], mean, by)

    def layernorm(self, x, p, name):
        return x.layernorm() * p[name + ".w"] + p[name + ".b"]

    def attention(self, q, k, v):
        return q.scaled_dot_product_attention(k, v)

    def cross_entropy(self, x, y):
        return x.sparse_categorical_crossentropy(y)

    def lstm(self, x, wx, wh, hidden):
        h = c = None
        for t in range(x.shape[0]):
            gates = x[t] @ wx if h is None else x[t] @ wx + h @ wh
            i, f, g, o = (gates[:, hidden * j : hidden * (j + 1)] for j in range(4))
            new = i.sigmoid() * g.tanh()
            c = new if c is None else f.sigmoid() * c + new
            h = o.sigmoid() * c.tanh()
        return h

    def step(self, model, parameters, inputs):
        Tensor = self.library.Tensor
        p = {k: Tensor(v).realize() for k, v in parameters.items()}
        inputs = [Tensor(x).realize() for x in inputs]
        adam = self.nn.optim.Adam(list(p.values()), lr=1e-3)

        @self.library.TinyJit
        def step(*inputs):
            with self.library.Context(TRAINING=1):
                adam.zero_grad()
                loss = model(self, p, *inputs).backward()
                return loss.realize(*adam.schedule_step())

        return lambda: step(*inputs)


def measure(name, options, ours, torch):
    parameters, model, inputs = MODELS[name]()
    steps = {"ours": ours.step(model, parameters, inputs),
             "torch": torch.step(model, parameters, inputs, False)}
    if not options.no_compile:
        steps["compiled"] = torch.step(model, parameters, inputs, True)
    losses = {}
    for engine, step in list(steps.items()):
        try:
            losses[engine] = float(step().item())
            for _ in range(3):
                step()
        except Exception as failure:  # torch.compile does not take every model
            why = " ".join(str(failure).split())
            print(f"{name}: {engine}: {why[:160]}", file=sys.stderr)
            del steps[engine]
    clock = time.process_time if options.threads == 1 else time.perf_counter
    times = {engine: [] for engine in steps}
    for _ in range(options.rounds):
        for engine, step in steps.items():
            if options.threads > 1:
                time.sleep(0.05)  # threads that spin behind the one before
            step()
            begin = clock()
            for _ in range(3):
                step()
            times[engine].append((clock() - begin) / 3 * 1e3)
    medians = {engine: statistics.median(t) for engine, t in times.items()}
    best = min(v for engine, v in medians.items() if engine != "ours")
    apart = max(abs(loss / losses["torch"] - 1) for loss in losses.values())
    print(f"{name:12}" + "  ".join(f"{k} {v:9.3f} ms" for k, v in medians.items())
          + f"  ratio {best / medians['ours']:.2f}  losses within {apart:.1e}", flush=True)
    return best / medians["ours"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    os.environ["ASTER_ML_THREADS"] = str(options.threads)
    ours, torch = Ours(), Torch(options.threads)
    ratios = [measure(name, options, ours, torch) for name in options.models.split(",")]
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
