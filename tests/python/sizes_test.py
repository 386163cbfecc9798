"""Many batch sizes and lengths: what they give, and how many kernels are compiled for them."""

import json
import os
import subprocess
import sys

import pytest

COMMON = """
import json
import numpy as np
from aster_ml import Context, Tensor, TinyJit, _native, nn
rng = np.random.default_rng(0)
def data(*shape): return rng.standard_normal(shape).astype(np.float32)
def compiled(): return _native.engine_count()["kernels_compiled"]
"""
PERCEPTRON = """
w, b, v = data(64, 128), data(128), data(128, 10)
ours = [Tensor(a).realize() for a in (w, b, v)]
for n in range(10, 129):
    x = data(n, 64)
    got = ((Tensor(x) @ ours[0] + ours[1]).relu() @ ours[2]).numpy()
    np.testing.assert_allclose(got, np.maximum(x @ w + b, 0) @ v, rtol=1e-3, atol=1e-3)
print(json.dumps([compiled()]))
"""
CONVOLUTIONS = """
first, second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
def net(x): return second(first(x).relu().max_pool2d()).relu().max_pool2d().flatten(1)
all_of_them = data(129, 1, 12, 12)
want = net(Tensor(all_of_them)).numpy()
before = compiled()
for n in range(10, 129):
    np.testing.assert_allclose(net(Tensor(all_of_them[:n])).numpy(), want[:n], rtol=1e-3, atol=1e-4)
print(json.dumps([compiled() - before]))
"""
TRAINING = """
class Net:
    def __init__(self): self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)
    def __call__(self, x): return self.b(self.a(x).relu())
net = Net()
optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.05)
truth, losses = data(16, 4), []
with Context(TRAINING=1):
    for n in range(33, 97):
        x = data(n, 16)
        optimizer.zero_grad()
        loss = (net(Tensor(x)) - Tensor(x @ truth)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
print(json.dumps([compiled()]))
"""
CAPTURED = """
x = {n: Tensor(data(8, n)).realize() for n in (220, 210, 200)}
eager = {n: x[n].softmax().numpy() for n in x}
f = TinyJit(lambda x: x.softmax().realize())
np.testing.assert_array_equal(f(x[200]).numpy(), eager[200])  # not recorded yet
sized = _native.engine_count()["kernels_sized"]
before = compiled()
for _ in range(3):
    np.testing.assert_array_equal(f(x[200]).numpy(), eager[200])
print(json.dumps([sized, before, compiled(), _native.engine_count()["kernels_sized"]]))
"""


def run(program, folder, **environment):
    environment = os.environ | {"ASTER_ML_CACHE_DIR": str(folder)} | environment
    done = subprocess.run(
        [sys.executable, "-c", COMMON + program], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "program, most",
    [(PERCEPTRON, 24), (CONVOLUTIONS, 40), (TRAINING, 60)],
    ids=["perceptron", "convolutions", "training"],
)
def test_few_kernels_for_many_sizes(program, most, tmp_path):
    assert 0 < run(program, tmp_path)[0] <= most


def test_a_recording_has_kernels_of_its_own(tmp_path):
    """With the bits of those that serve all sizes."""
    sized, before, after, later = run(CAPTURED, tmp_path)
    assert sized >= 2 and after > before and later == sized


def test_sizes_may_be_refused(tmp_path):
    sized = run(CAPTURED, tmp_path, ASTER_ML_NO_SIZES="1")
    assert sized[0] == 0 and sized[3] == 0
