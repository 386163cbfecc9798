"""What TinyJit does with returned inputs, and with JIT switched off after a recording."""

import pickle
from typing import NamedTuple

import pytest

from aster_ml import Context, Tensor, TinyJit


def vector(*values):
    return Tensor(list(values)).realize()


class Pair(NamedTuple):
    same: Tensor
    double: Tensor


@pytest.mark.parametrize("pack", [lambda a, b: (a, b), lambda a, b: [a, b], Pair])
def test_replays_leave_the_recorded_input_alone(pack):
    @TinyJit
    def step(x):
        return pack(x, (x * 2).realize())

    inputs = [vector(float(i), i + 0.5) for i in range(4)]
    for i, x in enumerate(inputs):
        same, double = step(x)
        assert same.tolist() == [i, i + 0.5]
        assert double.tolist() == [2 * i, 2 * i + 1]
    assert [x.tolist() for x in inputs] == [[i, i + 0.5] for i in range(4)]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:],
        lambda x: x.reshape(1, 3),
        lambda x: x.detach(),
        lambda x: x.reshape(3, 1)[:2],
        lambda x: x.contiguous(),
    ],
)
def test_of_views(view):
    @TinyJit
    def step(x):
        return (x + 1).realize(), {"view": view(x)}

    inputs = [vector(float(i), i + 0.5, 7.0) for i in range(4)]
    for x in inputs:
        more, rest = step(x)
        assert more.tolist() == (x + 1).tolist() and rest["view"].tolist() == view(x).tolist()
    assert [x.tolist() for x in inputs] == [[i, i + 0.5, 7] for i in range(4)]


def test_of_a_written_input():
    @TinyJit
    def step(x):
        return x.assign(x + 1).realize()[1:]

    inputs = [vector(float(i), 2.0 * i) for i in range(4)]
    assert [step(x).tolist() for x in inputs] == [[2 * i + 1] for i in range(4)]
    assert [x.tolist() for x in inputs] == [[i + 1, 2 * i + 1] for i in range(4)]


def test_of_a_dict():
    @TinyJit
    def step(x):
        return {"same": x, "sum": x.sum().realize()}

    inputs = [vector(float(i), 1.0) for i in range(4)]
    for i, x in enumerate(inputs):
        out = step(x)
        assert out["same"].tolist() == [i, 1]
        assert out["sum"].item() == i + 1
    assert [x.tolist() for x in inputs] == [[i, 1] for i in range(4)]


def test_off_after_a_recording():
    calls = []

    @TinyJit
    def step(x):
        calls.append(x)
        return (x + 1).realize()

    for i in range(4):
        assert step(vector(float(i))).item() == i + 1
    assert len(calls) == 2
    with Context(JIT=0):
        for i in range(3):
            assert step(vector(float(i))).item() == i + 1
        assert len(calls) == 5
        assert step(vector(1.0, 2.0)).tolist() == [2, 3]  # nothing is checked against the recording
    assert step(vector(7.0)).item() == 8
    assert len(calls) == 6


def test_off_before_and_on_later():
    @TinyJit
    def step(x):
        return (x + 1).realize()

    with Context(JIT=0):
        for i in range(3):
            assert step(vector(float(i))).item() == i + 1
    assert step.captured is None
    for i in range(4):
        assert step(vector(float(i))).item() == i + 1
    assert step.captured is not None


def test_pickling_says_why_not():
    with pytest.raises(TypeError, match="TinyJit cannot be pickled: its program is machine code"):
        pickle.dumps(TinyJit(lambda x: x))
