"""Portable programs from Python: functions exported, loaded and run, also in another process."""

import subprocess
import sys

import numpy as np
import pytest

from aster_ml import Error, Tensor, export, load_program, nn


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
