"""Gradients as training steps need them: of large filters, and of weights that many steps share."""

import numpy as np
import pytest

from aster_ml import Context, GlobalCounters, Tensor, TinyJit, nn

RNG = np.random.default_rng(7)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def _filters_gradient(x, dy, kernel, stride, padding):
    """dw of a convolution, in double: one product a tap."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    height, width = dy.shape[2:]
    out = np.zeros((dy.shape[1], x.shape[1], kernel, kernel))
    for i, j in np.ndindex(kernel, kernel):
        rows = slice(i, i + stride * (height - 1) + 1, stride)
        columns = slice(j, j + stride * (width - 1) + 1, stride)
        out[:, :, i, j] = np.einsum("nohw,nchw->oc", dy.astype(np.float64), x[:, :, rows, columns])
    return out


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize(
    "filters, channels, kernel, stride, padding",
    [(32, 16, 3, 1, 1), (48, 17, 4, 2, 1), (33, 40, 5, 2, 2), (64, 16, 3, 3, 0), (16, 3, 7, 2, 3)],
)
def test_gradients_of_filters(filters, channels, kernel, stride, padding, update):
    x, w = array(2, channels, 12, 13), array(filters, channels, kernel, kernel)
    # As it is, and where what follows stores several results beside it.
    weight = Tensor(w).realize()
    y = Tensor(x).conv2d(weight, stride=stride, padding=padding)
    dy = array(*y.shape)
    (y * Tensor(dy)).sum().backward()
    want = _filters_gradient(x, dy, kernel, stride, padding)
    size = np.abs(want).max()
    if not update:
        np.testing.assert_allclose(weight.grad.numpy(), want, atol=2e-5 * size)
        return
    new, squares = weight - 0.5 * weight.grad, weight.grad.square() * 0.25
    Tensor.realize(new, squares)
    np.testing.assert_allclose(new.numpy(), w - 0.5 * want, atol=2e-5 * size)
    np.testing.assert_allclose(squares.numpy(), want**2 / 4, atol=1e-4 * size**2)


def test_gradients_of_transposed_filters():
    x, w = array(2, 32, 5, 6), array(32, 40, 4, 4)
    weight = Tensor(w).realize()
    y = Tensor(x).conv_transpose2d(weight, stride=2, padding=1)
    dy = array(*y.shape)
    (y * Tensor(dy)).sum().backward()
    want = _filters_gradient(dy, x, 4, 2, 1)  # the roles exchanged: [32, 40, 4, 4]
    np.testing.assert_allclose(weight.grad.numpy(), want, atol=2e-5 * np.abs(want).max())


def _recurrent(steps, batch=3, width=40, hidden=48):
    return array(steps, batch, width), array(width, hidden), array(hidden, hidden) * 0.1


def _loss_of_steps(x, wx, wh):
    h = None
    for t in range(x.shape[0]):
        z = x[t] @ wx
        h = (z if h is None else z + h @ wh).tanh()
    return h.sum()


@pytest.mark.parametrize("steps", [2, 7, 40])
def test_weights_that_steps_share(steps):
    """Sums of a product a step are one product: as backward through time in double says."""
    x, wx, wh = _recurrent(steps)
    p = [Tensor(value) for value in (wx, wh)]
    _loss_of_steps(Tensor(x), *p).backward()
    got = [value.grad.numpy() for value in p]
    x, wx, wh = (value.astype(np.float64) for value in (x, wx, wh))
    h = [np.zeros((x.shape[1], wh.shape[0]))]
    for t in range(steps):
        h.append(np.tanh(x[t] @ wx + h[-1] @ wh))
    dh, dwx, dwh = np.ones_like(h[0]), np.zeros_like(wx), np.zeros_like(wh)
    for t in reversed(range(steps)):
        dz = dh * (1 - h[t + 1] ** 2)
        dwx += x[t].T @ dz
        dwh += h[t].T @ dz
        dh = dz @ wh.T
    for mine, want in zip(got, (dwx, dwh), strict=True):
        np.testing.assert_allclose(mine, want, atol=1e-5 * np.abs(want).max())


def test_products_of_a_sum_that_are_read_stay():
    a, b = [Tensor(array(32, 4)) for _ in range(6)], [Tensor(array(4, 40)) for _ in range(6)]
    products = [x @ y for x, y in zip(a, b, strict=True)]
    total = products[0]
    for product in products[1:]:
        total = total + product
    Tensor.realize(total, products[2])
    each = [x.numpy().astype(np.float64) @ y.numpy() for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(products[2].numpy(), each[2], atol=1e-5)
    np.testing.assert_allclose(total.numpy(), sum(each), atol=1e-4)


def test_steps_of_a_recurrent_net_take_few_kernels():
    """A product a step and weight is not stored: one of all steps is."""
    x, wx, wh = _recurrent(12)
    p = [Tensor(value) for value in (wx, wh)]
    sgd = nn.optim.SGD(p, lr=0.01)
    x = Tensor(x).realize()

    @TinyJit
    def step():
        sgd.zero_grad()
        loss = _loss_of_steps(x, *p).backward()
        return loss.realize(*sgd.schedule_step())

    with Context(TRAINING=1):
        for _ in range(3):
            step()
        GlobalCounters.reset()
        step()
    assert GlobalCounters.kernel_count < 12 * 5


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_gradients_to_parts_stand_beside_each_other(dtype):
    """Sums of padded parts, in any order, overlapping or not, of zeros of both signs."""
    for parts in (
        [(0, 2), (2, 5), (5, 9)],
        [(5, 9), (0, 2), (2, 5)],
        [(1, 3), (5, 8)],
        [(0, 4), (3, 9)],
        [(8, 9), (0, 1), (4, 5), (2, 4)],
    ):
        want, total = np.zeros((3, 9, 2), dtype), None
        for first, end in parts:
            part = (array(3, end - first, 2) * 10).astype(dtype)
            part.reshape(-1)[:2] = [-0.0, 0.0]
            want[:, first:end] += part
            padded = Tensor(part).pad(((0, 0), (first, 9 - end), (0, 0)))
            total = padded if total is None else total + padded
        got = total.numpy()
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
