"""TinyJit: capture and replay, what it refuses, state, random numbers, variables."""

import numpy as np
import pytest

from aster_ml import Context, JitError, Tensor, TinyJit, Variable, dtypes, nn


def rows(*shape):
    return Tensor.rand(*shape).realize()


def test_replays_compute_anew():
    runs = []

    @TinyJit
    def f(a, b, scale=1):
        runs.append(1)
        return (a @ b + scale).realize()

    for _ in range(5):
        a, b = rows(3, 4), rows(4, 2)
        np.testing.assert_allclose(f(a, b=b).numpy(), a.numpy() @ b.numpy() + 1, rtol=1e-5)
    assert len(runs) == 2 and f.captured.kernel_count == 1


def test_returns_are_the_same_objects():
    @TinyJit
    def f(xs, more):
        return {"sum": xs[0] + xs[1], "other": (more["x"] * 2, None)}

    for _ in range(4):
        xs, x = [rows(2), rows(2)], rows(2)
        out = f(xs, {"x": x})
        np.testing.assert_allclose(out["sum"].numpy(), xs[0].numpy() + xs[1].numpy(), rtol=1e-6)
        np.testing.assert_allclose(out["other"][0].numpy(), x.numpy() * 2)
    assert f(xs, {"x": x}) is out


def test_state_inputs_and_methods():
    class Counter:
        def __init__(self):
            self.total = Tensor.zeros(2).realize()

        @TinyJit
        def add(self, x):
            return self.total.assign(self.total + x).realize()

    counter = Counter()
    for _ in range(5):
        counter.add(Tensor([1.0, 2.0]).realize())
    assert counter.total.tolist() == [5.0, 10.0]

    @TinyJit
    def double(x):
        return x.assign(x * 2).realize()

    for _ in range(4):
        x = Tensor([1.0, 3.0]).realize()
        assert double(x).tolist() == [2.0, 6.0] and x.tolist() == [2.0, 6.0]


def test_training_step():
    Tensor.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.05)

    @TinyJit
    def step(x, y):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.realize()

    with Context(TRAINING=1):
        losses = []
        for _ in range(150):
            x = rows(16, 4)
            losses.append(step(x, x.sum(1, keepdim=True).realize()).item())
    assert losses[-1] < 0.05 * losses[0]


def test_tensors_made_inside_are_made_anew():
    @TinyJit
    def norm(grads):
        total = Tensor([0.0])
        for g in grads:
            total += g.square().sum()
        last = Tensor(np.zeros(3, np.float32))
        last[1:] = total
        return total.sqrt().realize(), last.realize()

    for _ in range(4):
        grads = [rows(3), rows(2, 2)]
        total, last = norm(grads)
        expected = sum((g.numpy() ** 2).sum() for g in grads)
        np.testing.assert_allclose(total.item(), expected**0.5, rtol=1e-6)
        np.testing.assert_allclose(last.numpy(), [0, expected, expected], rtol=1e-6)


def test_random_numbers_advance():
    @TinyJit
    def f(x):
        return (x + Tensor.rand(3)).realize()

    x = Tensor.zeros(3).realize()
    Tensor.manual_seed(7)
    with_jit = [f(x).tolist() for _ in range(6)]
    Tensor.manual_seed(7)
    assert with_jit == [Tensor.rand(3).tolist() for _ in range(6)]


def test_refusals():
    @TinyJit
    def f(a, b=None):
        return (a + 1).realize()

    for _ in range(3):
        f(rows(2, 3))
    with pytest.raises(JitError):
        f(rows(3, 2))
    with pytest.raises(JitError):
        f(Tensor([[1, 2, 3], [4, 5, 6]]).realize())
    with pytest.raises(JitError):
        f(rows(2, 3), rows(1))
    same = rows(2)
    with pytest.raises(JitError):
        TinyJit(lambda a, b: (a + b).realize())(same, same)
    f.reset()
    assert f(rows(3, 2)).shape == (3, 2)

    for bad in (lambda x: x.sum().item(), lambda x: (x + 1).tolist(), lambda x: 3, lambda x: x):
        jit = TinyJit(bad)
        jit(rows(2))
        with pytest.raises(JitError):
            jit(rows(2))
    assert (rows(2) + 1).realize().shape == (2,)  # nothing is left open


def test_a_recording_tells_what_it_reads_and_writes():
    weight, state = Tensor([1.0, 2.0]).realize(), Tensor([0.0, 0.0]).realize()

    @TinyJit
    def step(x, more, *, mask):
        state.assign(state + x * weight).realize()
        return {"sum": (x + mask + more[0]).sum().realize(), "flag": (mask > 0).realize()}

    for i in range(3):
        one = Tensor([1.0, float(i)]).realize()
        inside = [Tensor([2.0, 3.0]).realize()]
        step(one, inside, mask=Tensor([1, 0]).realize())
    arrays = step.captured.arrays()
    assert [a.name for a in arrays["inputs"]] == ["x", "mask", "input2"]
    assert [(a.shape, a.dtype) for a in arrays["inputs"]] == [
        ((2,), dtypes.float32),
        ((2,), dtypes.int32),
        ((2,), dtypes.float32),
    ]
    assert [(a.name, a.shape, a.dtype) for a in arrays["outputs"]] == [
        ("output0", (), dtypes.float32),
        ("output1", (2,), dtypes.bool),
    ]
    assert sorted(a.assigned for a in arrays["captured"]) == [False, True]
    assert {(a.shape, a.device) for a in arrays["captured"]} == {((2,), "CPU")}
    assert not any(a.assigned for a in arrays["inputs"] + arrays["outputs"])


def test_names_of_inputs_are_the_parameters():
    def names(f, *args, **kwargs):
        jit = TinyJit(f)
        for _ in range(2):
            jit(*args, **kwargs)
        return [a.name for a in jit.captured.arrays()["inputs"]]

    x, y = Tensor([1.0]).realize(), Tensor([2.0]).realize()
    assert names(lambda a, b: (a + b).realize(), x, y) == ["a", "b"]
    assert names(lambda *all: (all[0] + all[1]).realize(), x, y) == ["input0", "input1"]
    assert names(lambda a, /, **rest: (a + rest["a"]).realize(), x, a=y) == ["a", "a"]
    assert names(lambda **rest: sum(rest.values()).realize(), **{"": x, "\ud800": y}) == [
        "input0",
        "input1",
    ]
    assert names(Tensor.exp, x) == ["self"]


def test_jit_inside_jit():
    inner = TinyJit(lambda x: (x + 1).realize())
    outer = TinyJit(lambda x: (inner(x) * 2).realize())
    outer(rows(2))
    with pytest.raises(RuntimeError):
        outer(rows(2))


def test_variables_are_inputs():
    i = Variable("i", 1, 4)
    runs = []

    @TinyJit
    def f(x):
        runs.append(1)
        return x.sum(0).realize()

    x = rows(4, 3)
    for _ in range(3):
        for n in range(1, 5):
            got = f(x[: i.bind(n)]).numpy()
            np.testing.assert_allclose(got, x.numpy()[:n].sum(0), rtol=1e-5)
    assert len(runs) == 2
    with pytest.raises(JitError):
        f(x[: Variable("j", 1, 4).bind(2)])


def test_jit_off():
    runs = []
    f = TinyJit(lambda x: (runs.append(1), (x + 1).realize())[1])
    with Context(JIT=0):
        for _ in range(4):
            f(rows(2))
    assert len(runs) == 4 and f.captured is None


def test_prune():
    weights, runs = Tensor([1.0, 2.0]).realize(), []

    @TinyJit(prune=True)
    def step(x):
        runs.append(1)
        doubled = (weights * 2).realize()
        return (x * doubled).realize(), doubled, Tensor.rand(2).realize()

    seen = []
    for i in range(5):
        out, doubled, noise = step(Tensor([float(i), 1.0]).realize())
        assert out.tolist() == [2.0 * i, 4.0] and doubled.tolist() == [2.0, 4.0]
        seen.append(noise.tolist())
    assert len(runs) == 2 and step.captured.kernel_count == 1
    assert seen[1] == seen[2] == seen[4] != seen[0]


def test_prune_keeps_what_inputs_reach_by_way_of_others():
    weights = Tensor([1.0, 2.0]).realize()

    @TinyJit(prune=True)
    def step(x):
        weights.assign(weights + x).realize()
        return (weights * 2).realize()

    for i in range(5):
        assert step(Tensor([1.0, 0.0]).realize()).tolist() == [2.0 * (i + 2), 4.0]


def test_constant_weights_are_copied():
    weights = rows(300, 100)
    x = rows(1, 300)
    plain = TinyJit(lambda x: (x @ weights).relu().realize())
    promised = TinyJit(lambda x: (x @ weights).relu().realize(), constant=True)
    for _ in range(4):
        x = rows(1, 300)
        assert plain(x).tolist() == promised(x).tolist()

    @TinyJit(constant=True)
    def step(x):
        y = (x @ weights).realize()
        weights.assign(weights + 1).realize()
        return y

    step(x)
    with pytest.raises(ValueError, match="were to be constant"):
        step(x)


def test_prune_of_everything():
    @TinyJit(prune=True)
    def step(x):
        return Tensor([3.0, 4.0]).realize() + 1

    for i in range(4):
        assert step(Tensor([1.0]).realize()).tolist() == [4.0, 5.0]
