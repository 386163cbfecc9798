#!/usr/bin/env python3
"""The first training step of two models of `cold.py` in what a user would pick instead: JAX's jit,
torch.compile, torch's eager mode beside them, ours in the same run. Each in a process of its own
without any cache; parameters and inputs are there before, imports are not counted. One JSON line a
row: seconds of the wall until the first step has its loss and new parameters, the least of three
later ones.

  bench/cold_peers.py [--python PEERS] [--only conv_net,transformer_12] [--cores 2]
                      [--engines aster,jax,torch,torch_compile] [--package FOLDER] [--rounds 1]

PEERS has torch and jax; by default that of $PEERS_PYTHON, or this one.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def torch_model(name):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, size=128, heads=4):
            super().__init__()
            self.heads = heads
            self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
            self.all, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

        def forward(self, x):
            batch, length, size = x.shape
            parts = self.all(self.norms[0](x)).reshape(batch, length, 3, self.heads, -1)
            q, k, v = (parts[:, :, i].transpose(1, 2) for i in range(3))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, size))
            up = nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh")
            return x + self.down(up)

    class Mean(nn.Module):
        def forward(self, x):
            return x.mean(1)

    if name == "conv_net":
        return nn.Sequential(
            nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32),
            nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.BatchNorm2d(64), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(576, 10)), torch.randn(64, 1, 28, 28)
    return nn.Sequential(*[Block() for _ in range(12)], Mean(),
                         nn.Linear(128, 10)), torch.randn(4, 64, 128)


def torch_step(name, compiled):
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    net, x = torch_model(name)
    y = torch.arange(x.shape[0]) % 10
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    run = torch.compile(net) if compiled else net

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def jax_step(name):
    import jax
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(0)

    def array(*shape, scale=0.05):
        return jnp.asarray(random.standard_normal(shape, dtype=np.float32) * scale)

    def linear(p, x):
        return x @ p["w"] + p["b"]

    def norm(p, x, axes):
        mean = x.mean(axes, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(axes, keepdims=True) + 1e-5) * p["g"] + p["b"]

    def conv(p, x):
        return jax.lax.conv(x, p["w"], (1, 1), "VALID") + p["b"][:, None, None]

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def dense(rows, columns):
        return {"w": array(rows, columns), "b": array(columns)}

    if name == "conv_net":
        def filters(count, before, size):
            return {"w": array(count, before, size, size), "b": array(count)}

        def batch_norm(size):
            return {"g": jnp.ones((size, 1, 1)), "b": jnp.zeros((size, 1, 1))}

        p = [filters(32, 1, 5), filters(32, 32, 5), batch_norm(32), filters(64, 32, 3),
             filters(64, 64, 3), batch_norm(64), dense(576, 10)]
        x = array(64, 1, 28, 28, scale=1)

        def net(p, x):
            x = jax.nn.relu(conv(p[1], jax.nn.relu(conv(p[0], x))))
            x = pool(norm(p[2], x, (0, 2, 3)))
            x = jax.nn.relu(conv(p[4], jax.nn.relu(conv(p[3], x))))
            x = pool(norm(p[5], x, (0, 2, 3)))
            return linear(p[6], x.reshape(x.shape[0], -1))
    else:
        def block():
            row = {"g": jnp.ones(128), "b": jnp.zeros(128)}
            return {"n0": row, "n1": dict(row), "all": dense(128, 384), "out": dense(128, 128),
                    "up": dense(128, 512), "down": dense(512, 128)}

        p = [[block() for _ in range(12)], dense(128, 10)]
        x = array(4, 64, 128, scale=1)

        def net(p, x):
            batch, length, size = x.shape
            mask = jnp.tril(jnp.ones((length, length), bool))
            for b in p[0]:
                parts = linear(b["all"], norm(b["n0"], x, -1)).reshape(batch, length, 3, 4, -1)
                q, k, v = (parts[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
                scores = q @ k.transpose(0, 1, 3, 2) / 32 ** 0.5
                scores = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
                y = (scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, size)
                x = x + linear(b["out"], y)
                x = x + linear(b["down"], jax.nn.gelu(linear(b["up"], norm(b["n1"], x, -1))))
            return linear(p[1], x.mean(1))

    y = jnp.arange(x.shape[0]) % 10
    momenta = jax.tree.map(jnp.zeros_like, p)

    def loss(p):
        return -jnp.take_along_axis(jax.nn.log_softmax(net(p, x)), y[:, None], 1).mean()

    @jax.jit
    def train(p, momenta):
        value, gradients = jax.value_and_grad(loss)(p)
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, gradients)
        return value, jax.tree.map(lambda a, m: a - 0.01 * m, p, momenta), momenta

    jax.block_until_ready((p, momenta))

    def step():
        nonlocal p, momenta
        value, p, momenta = jax.block_until_ready(train(p, momenta))
        return float(value)

    return step


def aster_step(name):
    import cold

    return cold.ROWS[name]()


ENGINES = {
    "aster": aster_step,
    "jax": jax_step,
    "torch": lambda name: torch_step(name, False),
    "torch_compile": lambda name: torch_step(name, True),
}


def row(name, engine):
    step = ENGINES[engine](name)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"name": name, "engine": engine, "cores": len(os.sched_getaffinity(0)),
                      "first_s": round(times[0], 3), "later_s": round(min(times[1:]), 4)}),
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=os.environ.get("PEERS_PYTHON", sys.executable))
    parser.add_argument("--only", default="conv_net,transformer_12")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--package",
                        default=os.path.join(os.path.dirname(HERE), "build", "release", "python"))
    parser.add_argument("--cores", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        return row(*arguments.row)
    allowed = sorted(os.sched_getaffinity(0))[:arguments.cores]
    for _, name, engine in itertools.product(
            range(arguments.rounds), arguments.only.split(","), arguments.engines.split(",")):
        with tempfile.TemporaryDirectory(prefix="aster-cold-") as folder:
            environment = {**os.environ, "ASTER_ML_CACHE_DIR": folder, "JAX_PLATFORMS": "cpu",
                           "TORCHINDUCTOR_CACHE_DIR": folder,
                           "OMP_NUM_THREADS": str(len(allowed)),
                           "PYTHONPATH": os.pathsep.join((arguments.package, HERE))}
            done = subprocess.run([arguments.python, __file__, "--row", name, engine],
                                  env=environment, check=False,
                                  preexec_fn=lambda: os.sched_setaffinity(0, allowed))
            if done.returncode != 0:
                print(json.dumps({"name": name, "engine": engine, "failed": done.returncode}),
                      flush=True)


if __name__ == "__main__":
    main()
