"""Small operations realised one by one, again and again, against Python's own arithmetic."""

import pytest

from aster_ml import Tensor, _native


def test_the_same_operation_on_other_data():
    for k in range(5):
        x, y = Tensor([1.0 + k, 2.0]).realize(), Tensor([3.0, 4.0 * k]).realize()
        assert (x + y).realize().tolist() == [4.0 + k, 2.0 + 4.0 * k]
        assert (x - y).realize().tolist() == [k - 2.0, 2.0 - 4.0 * k]
        assert (x * 2).sum().realize().item() == 2.0 * (3.0 + k)


def test_whether_it_was_ready():
    x = Tensor([1, 2, 3]).realize()
    (x * 7 - x).realize()
    y = x * 7 - x
    assert _native.lazy_realize_ready(y) and y.is_realized
    assert y.tolist() == [6, 12, 18]
    z = (x * 11) ^ x
    assert not _native.lazy_realize_ready(z) and not z.is_realized
    assert z.tolist() == [11 ^ 1, 22 ^ 2, 33 ^ 3]
    with pytest.raises(TypeError):
        _native.lazy_realize_ready(3)


def test_checkpoints_give_the_same_bits():
    def step(checkpoint):
        x, w = Tensor([[0.5, -1.0], [2.0, 0.25]]), Tensor([[1.5, 0.5], [-0.5, 1.0]])
        y = (x @ w).sin()
        y = (y @ w).tanh()
        if checkpoint:
            y = y.checkpoint(x)
        (y * y).sum().backward()
        return y.tolist(), x.grad.tolist(), w.grad.tolist()

    assert step(True) == step(False)
