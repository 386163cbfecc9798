"""Portable programs from Python: functions exported, loaded and run, also in another process."""

import os
import subprocess
import sys

import numpy as np
import pytest

from aster_ml import Error, JitError, Tensor, TinyJit, Variable, export, load_program, nn
from aster_ml.helpers import Context


class Net:
    def __init__(self):
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 3)

    def __call__(self, x):
        return self.second(self.first(x).relu()).softmax(-1)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_model_is_one_file(tmp_path):
    net = Net()
    x = numbers(4, 6)
    path = tmp_path / "net.aster"
    assert export(net, Tensor(x), path=path) is None
    program = load_program(path)
    other = numbers(4, 6, seed=1)
    for given in (x, other):
        want = net(Tensor(given)).numpy()
        np.testing.assert_array_equal(program(Tensor(given)).numpy(), want)
    assert [a.name for a in program.inputs] == ["x"]
    assert program.kernel_count >= 1
    # Another process, which knows nothing of the model.
    code = (
        "import sys, numpy as np; from aster_ml import load_program, Tensor;"
        "np.save(sys.argv[3], load_program(sys.argv[1])(Tensor(np.load(sys.argv[2]))).numpy())"
    )
    np.save(tmp_path / "in.npy", other)
    files = [str(tmp_path / name) for name in ("net.aster", "in.npy", "out.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), net(Tensor(other)).numpy())


@pytest.mark.parametrize("options", [{}, {"text": True}])
def test_bytes_and_texts(options):
    def step(a, b):
        return {"sum": (a + b).sum(0), "product": a * b}

    a, b = numbers(3, 2), numbers(3, 2, seed=1)
    data = export(step, Tensor(a), Tensor(b), **options)
    program = load_program(data)
    assert [x.name for x in program.inputs] == ["a", "b"]
    assert [x.name for x in program.outputs] == ["sum", "product"]
    total, product = program(Tensor(a), Tensor(b))
    np.testing.assert_allclose(total.numpy(), (a + b).sum(0), rtol=1e-6)
    np.testing.assert_array_equal(product.numpy(), a * b)


def test_side_files(tmp_path):
    weight = Tensor(numbers(5, 5))
    path = tmp_path / "w.aster"
    export(lambda x: x @ weight, Tensor(numbers(2, 5)), path=path, side_file=True)
    assert (tmp_path / "w.aster.data").stat().st_size == 100
    x = Tensor(numbers(2, 5, seed=3))
    np.testing.assert_array_equal(load_program(path)(x).numpy(), (x @ weight).numpy())
    (tmp_path / "w.aster.data").unlink()
    with pytest.raises(Error):
        load_program(path)


def test_state_is_the_programs_own():
    total = Tensor([0.0]).realize()

    def count(x):
        return total.assign(total + x.sum())

    program = load_program(export(count, Tensor([1.0])))
    assert [program(Tensor([2.0])).item() for _ in range(3)] == [2.0, 4.0, 6.0]


def test_what_cannot_be_exported():
    with pytest.raises(ValueError, match="realises"):
        export(lambda x: Tensor([x.sum().item()]), Tensor([1.0]))
    with pytest.raises(TypeError):
        export(lambda x: 3, Tensor([1.0]))
    with pytest.raises(TypeError):
        export(lambda x: x, [1.0])
    with pytest.raises(ValueError):
        export(lambda x: x + 1, Tensor([1.0]), side_file=True)
    with pytest.raises(Error):
        load_program(b"no program")
    with pytest.raises(Error):
        load_program("/nowhere/at/all.aster")
    program = load_program(export(lambda x: x + 1, Tensor([1.0])))
    with pytest.raises(TypeError):
        program()
    with pytest.raises(Error):
        program(Tensor([1.0, 2.0]))


def adam_by_hand(w, m, v, t, g, rate=0.1):
    """One step of Adam in float64."""
    m, v, t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g, t + 1
    return w - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v, t


def test_training_steps_are_recorded(tmp_path):
    w = Tensor(numbers(6, 3)).realize()
    optimizer = nn.optim.Adam([w], lr=0.1)
    Tensor.realize(w, *nn.state.get_parameters(optimizer))

    def step(x, y):
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = (x @ w - y).square().mean()
            loss.backward()
            loss.realize()
            optimizer.step()
            return loss

    start = w.numpy()
    path = tmp_path / "step.aster"
    export(step, Tensor(numbers(4, 6)), Tensor(numbers(4, 3)), path=path, recorded=True)
    np.testing.assert_array_equal(w.numpy(), start)  # nothing ran
    program = load_program(path)
    assert [a.name for a in program.inputs] == ["x", "y"]
    hand = (start.astype(np.float64), np.zeros((6, 3)), np.zeros((6, 3)), 0)
    for seed in range(4):
        x, y = numbers(4, 6, seed=seed), numbers(4, 3, seed=seed + 10)
        d = x.astype(np.float64) @ hand[0] - y
        loss = program(Tensor(x), Tensor(y)).item()
        assert loss == pytest.approx((d * d).mean(), rel=1e-4)
        assert loss == step(Tensor(x).realize(), Tensor(y).realize()).item()
        hand = adam_by_hand(*hand, x.T.astype(np.float64) @ d * 2 / d.size)


def test_state_by_name():
    w = Tensor(numbers(3)).realize()

    def step(x):
        return w.assign(w + x)

    own = load_program(export(step, Tensor(numbers(3)), state={"w": w}))
    assert [(a.name, a.assigned) for a in own.captured] == [("w", True)]
    given = load_program(export(step, Tensor(numbers(3)), state={"w": w}, state_inputs=True))
    assert [(a.name, a.assigned) for a in given.inputs] == [("x", False), ("w", True)]
    memory = Tensor(numbers(3, seed=5)).realize()
    x = numbers(3, seed=6)
    np.testing.assert_array_equal(given(Tensor(x), memory).numpy(), numbers(3, seed=5) + x)
    np.testing.assert_array_equal(memory.numpy(), numbers(3, seed=5) + x)
    np.testing.assert_array_equal(own(Tensor(x)).numpy(), numbers(3) + x)
    with pytest.raises(ValueError, match="nothing of the state other"):
        export(step, Tensor(numbers(3)), state={"other": Tensor([1.0])})


def test_jits_are_saved():
    w = Tensor(numbers(4, 4)).realize()
    f = TinyJit(lambda x: (x @ w).relu().realize())
    for seed in range(3):
        f(Tensor(numbers(2, 4, seed=seed)).realize())
    x = numbers(2, 4, seed=9)
    want = f(Tensor(x).realize()).numpy()
    np.testing.assert_array_equal(load_program(f.captured.save())(Tensor(x)).numpy(), want)


def test_batches_and_lengths_are_variables(tmp_path):
    net, batch, length = Net(), Variable("batch", 1, 8), Variable("length", 2, 12)
    weight = numbers(6, 6, seed=3)
    scale = Tensor(weight).realize()

    def attend(x, mask):
        scores = (x @ scale) @ x.transpose(1, 2) + mask
        return {"rows": scores.softmax(-1) @ x, "classes": net(x.mean(1))}

    path = tmp_path / "attend.aster"
    dynamic = {"x": {0: batch, 1: length}, "mask": {0: length, 1: length}}
    export(attend, Tensor(numbers(2, 3, 6)), Tensor(numbers(3, 3)), path=path, dynamic=dynamic)
    program = load_program(path)
    assert sorted(program.variables) == [("batch", 1, 8), ("length", 2, 12)]
    for b, n in ((1, 2), (8, 12), (3, 7), (2, 3)):
        x, mask = numbers(b, n, 6, seed=b), numbers(n, n, seed=n)
        rows, classes = program(Tensor(x), Tensor(mask))
        scores = x.astype(np.float64) @ weight @ x.transpose(0, 2, 1) + mask
        e = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(
            rows.numpy(), (e / e.sum(-1, keepdims=True)) @ x, rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(classes.numpy(), net(Tensor(x.mean(1))).numpy(), rtol=1e-4)
        assert classes.shape == (b, 3)
    with pytest.raises(Error, match="axis"):
        program(Tensor(numbers(2, 4, 6)), Tensor(numbers(5, 5)))
    with pytest.raises(Error, match="batch = 9"):
        program(Tensor(numbers(9, 4, 6)), Tensor(numbers(4, 4)))


def test_what_cannot_be_recorded():
    n = Variable("n", 1, 8)
    x = Tensor.ones(2)
    with pytest.raises(ValueError, match="looks at the value"):
        export(lambda x: x * int(x.shape[0]), x, dynamic={0: {0: n}})
    with pytest.raises(JitError, match="cannot access tensor data"):
        export(lambda x: x * x.sum().item(), x, recorded=True)
    with pytest.raises(ValueError, match="no example"):
        export(lambda x: x + 1, x, dynamic={"y": {0: n}})
    with pytest.raises(ValueError, match="no axis 3"):
        export(lambda x: x + 1, x, dynamic={"x": {3: n}})
    with pytest.raises(TypeError, match="no Variable"):
        export(lambda x: x + 1, x, dynamic={"x": {0: 4}})
    with pytest.raises(Exception):  # 20 is out of bounds
        export(lambda x: x + 1, Tensor.ones(20), dynamic={"x": {0: n}})
    with pytest.raises(TypeError):
        export(lambda x: 3, x, recorded=True)
    with pytest.raises(ValueError, match="assigns to its arguments"):
        export(lambda x: x.assign(x + 1) * 2, Tensor([1.0, 2.0]))
    pending = [Tensor.ones(3) * 2]  # its value would be lost
    with pytest.raises(Error, match="realise it first"):
        export(lambda x, held=pending: held[0].realize() + 1, x, recorded=True)
    assert pending[0].tolist() == [2.0, 2.0, 2.0]
    assert (x + 1).tolist() == [2.0, 2.0]


def test_programs_on_a_device():
    weight = Tensor(numbers(3, 3))
    data = export(lambda x: x @ weight, Tensor(numbers(2, 3)))
    x = Tensor(numbers(2, 3))
    program = load_program(data, device="CPU:1")
    assert [a.device for a in program.inputs + program.outputs] == ["CPU:1", "CPU:1"]
    got = program(x)
    assert got.device == "CPU:1"
    np.testing.assert_array_equal(got.numpy(), load_program(data)(x).numpy())
    with pytest.raises(Error, match="no device is named 'NOWHERE'"):
        load_program(data, device="NOWHERE")
    with pytest.raises(Error, match="NULL"):
        load_program(data, device="NULL")


# What the first process made of a file, kernels and schedule, the second reads.
def test_another_process_reads_the_schedule(tmp_path):
    path = str(tmp_path / "net.aster")
    net = Net()
    export(net, Tensor(numbers(5, 6)), path=path)
    np.save(tmp_path / "x.npy", numbers(5, 6))
    code = (
        "import sys, numpy as np; from aster_ml import load_program, Tensor, _native;"
        "y = load_program(sys.argv[1])(Tensor(np.load(sys.argv[2]))).numpy();"
        "c = _native.engine_count();"
        "print(y.tobytes().hex(), *(c[n] for n in"
        " ('schedules_read', 'schedules_kept', 'kernels_compiled', 'kernels_scheduled')))"
    )

    def run(**environment):
        command = [sys.executable, "-c", code, path, str(tmp_path / "x.npy")]
        where = {
            **os.environ,
            "ASTER_ML_CACHE_DIR": str(tmp_path / "cache"),
            "ASTER_ML_TIERS": "off",  # the first one ends before a compiler beside it would
            **environment,
        }
        done = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
        bits, *counts = done.stdout.split()
        return bits, [int(count) for count in counts]

    first, second, alone = run(), run(), run(ASTER_ML_NO_KEPT_SCHEDULES="1")
    assert first[1][:2] == [0, 1] and first[1][2] > 0
    assert second[1] == [1, 0, 0, first[1][3]]
    assert alone[1] == [0, 0, 0, first[1][3]]
    assert first[0] == second[0] == alone[0]
