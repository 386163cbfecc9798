"""Arenas: plans of their own, work that is shared or kept apart. Expected values are NumPy's."""

import threading

import numpy as np
import pytest

from aster_ml import Arena, GlobalCounters, Tensor


def launched(function):
    before = GlobalCounters.kernel_count
    function()
    return GlobalCounters.kernel_count - before


def test_plans_are_found_again():
    a = np.random.default_rng(1).standard_normal((16, 16), dtype=np.float32)
    arena = Arena()
    for _ in range(4):
        x = Tensor(a).realize()
        with arena:
            y = (x @ x).relu().sum(0)
        y.realize()
        np.testing.assert_allclose(y.numpy(), np.maximum(a @ a, 0).sum(0), rtol=1e-4, atol=1e-4)
    counted = arena.counters
    assert counted["plan_misses"] == 1 and counted["plan_hits"] == 3 and counted["plans"] == 1
    assert arena.reset().counters["plans"] == 0


@pytest.mark.parametrize("together", [False, True])
def test_with_graph(together):
    x = Tensor([1.0, 2.0, 3.0]).realize()
    arena = Arena(together=together)
    with arena:
        y = x * 2
    with arena:
        z = y + 1
        loose = x - 1
    assert launched(z.realize) >= 1
    assert y.is_realized == loose.is_realized == together
    assert (z.tolist(), y.tolist(), loose.tolist()) == ([3, 5, 7], [2, 4, 6], [0, 1, 2])


def test_random_steps_are_those_without_arenas():
    draw = np.random.default_rng(7)
    for _ in range(20):
        arenas = [Arena(together=draw.random() < 0.5, apart=draw.random() < 0.5) for _ in range(3)]
        start = draw.standard_normal((4, 4)).astype(np.float32)
        tensors, expected = [Tensor(start).realize()], [start.astype(np.float64)]
        for _ in range(12):
            i, j = draw.integers(len(tensors), size=2)
            kind = draw.integers(4)
            with arenas[draw.integers(3)]:
                if kind == 0:
                    made, value = tensors[i] + tensors[j], expected[i] + expected[j]
                elif kind == 1:
                    made, value = tensors[i] @ tensors[j], expected[i] @ expected[j]
                elif kind == 2:
                    made = tensors[i].softmax()
                    value = np.exp(expected[i] - expected[i].max(-1, keepdims=True))
                    value /= value.sum(-1, keepdims=True)
                else:
                    made, value = tensors[i].T.contiguous() * 0.5, expected[i].T * 0.5
            tensors.append(made)
            expected.append(value)
            if draw.random() < 0.3:
                tensors[draw.integers(len(tensors))].realize()
            if draw.random() < 0.2:
                arenas[draw.integers(3)].realize()
        for made, value in zip(tensors, expected):
            scale = max(1.0, float(np.abs(value).max()))
            np.testing.assert_allclose(made.numpy() / scale, value / scale, rtol=0, atol=1e-4)
        assert all(arena.realize().counters["pending"] == 0 for arena in arenas)
        for made, value in zip(tensors, expected):
            scale = max(1.0, float(np.abs(value).max()))
            np.testing.assert_allclose(made.numpy() / scale, value / scale, rtol=0, atol=1e-4)


def test_blocks_are_of_their_thread():
    arena, made = Arena(), []

    def elsewhere():
        made.append(Tensor([1.0]) + 1)

    with arena:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert arena.counters["tensors"] == 0
    arena.add(made[0])
    assert arena.counters["pending"] == 1 and arena.realize().counters["pending"] == 0


def test_gradients_and_writes():
    arena = Arena(together=True)
    w = Tensor([1.0, 2.0]).realize()
    w.requires_grad = True
    with arena:
        loss = (w * w * 3).sum()
        loss.backward()
        w.grad.realize()
    assert w.grad.tolist() == [6, 12]
    with arena:
        w.assign(w.detach() - 0.5)
        twice = w.detach() * 2
    assert twice.tolist() == [1, 3] and w.tolist() == [0.5, 1.5]


def test_an_error_leaves_nothing_open():
    arena = Arena()
    with pytest.raises(ValueError), arena:
        Tensor([1.0]).reshape(2)
    outside = Tensor([1.0]).realize() + 1
    assert arena.counters["tensors"] == 0 and outside.tolist() == [2]
