"""Random graphs with kernels of others among their nodes, against the same graphs without them.

On elements of any strides and on whole arrays, with gradients, realised in between and captured.
Longer: ASTER_ML_FUZZ_KERNELS=5000 and ASTER_ML_FUZZ_SEED=1.
"""

import os
import random

import numpy as np
import pytest

from aster_ml import BufferView, Tensor, TinyJit, kernel

CASES = int(os.environ.get("ASTER_ML_FUZZ_KERNELS", "60"))
SEED = int(os.environ.get("ASTER_ML_FUZZ_SEED", "7"))
ANY = "float64[...]"


def source(name, operands, body):
    """C of a function of elements."""
    names = "".join(f", const double *{x}" for x in operands)
    return (
        f"void {name}(double *out{names}, long long begin, long long end) {{"
        f" for (long long i = begin; i < end; i++) {{ {body} }} }}"
    )


def mixed_back(grad, call):
    return grad * 2, -grad


def least_back(grad, call):
    first = call.src[1] < call.src[2]
    return first.where(grad, 0), first.where(0, grad)


def turned_back(grad, call):
    return (grad - grad.roll(1),)


mixed = kernel(
    source("mixed", "ab", "out[i] = 2 * a[i] - b[i];"),
    f"{ANY}, {ANY} -> {ANY}",
    gradient=mixed_back,
)
least = kernel(
    source("least", "ab", "out[i] = a[i] < b[i] ? a[i] : b[i];"),
    f"{ANY}, {ANY} -> {ANY}",
    gradient=least_back,
)
square = kernel(
    source("square", "x", "out[i] = x[i] * x[i];"),
    f"{ANY} -> {ANY}",
    gradient=kernel(
        source("square_back", "xyd", "out[i] = 2 * x[i] * d[i];"), f"{ANY}, {ANY}, {ANY} -> {ANY}"
    ),
)
turned = kernel(
    source("turned", "x", "out[i] = x[i] - x[(i + 1) % 12];"),
    "float64[12] -> float64[12]",
    gradient=turned_back,
    tasks=12,
)

# By kernels of others, and as tensors say it.
FOREIGN = {"mixed": mixed, "least": least, "square": square, "turned": turned}
OURS = {
    "mixed": lambda a, b: a * 2 - b,
    "least": lambda a, b: (a < b).where(a, b),
    "square": lambda x: x * x,
    "turned": lambda x: x - x.roll(-1),
}


def moved(draw, x):
    """A movement of x."""
    way = draw.choice(["permute", "flip", "step", "reshape", "expand", "part"])
    if way == "permute":
        return x.permute(draw.sample(range(x.ndim), x.ndim))
    if way == "flip":
        return x.flip(draw.randrange(x.ndim))
    if way == "step":
        return x[::2] if draw.random() < 0.5 else x[..., ::-2]
    if way == "reshape":
        return x.reshape(-1)
    if way == "expand" and x.numel() < 100:
        return x.unsqueeze(0).expand(draw.randint(1, 3), *x.shape)
    return x[draw.randrange(x.shape[0]) :]


def graph(seed, functions, leaves):
    """The same for the same seed, whoever computes: outputs and a loss."""
    draw = random.Random(seed)
    values = list(leaves)
    squares = 0
    for _ in range(draw.randint(2, 6)):
        x = values[-1] if draw.random() < 0.6 else draw.choice(values)
        die = draw.random()
        if die < 0.3:
            y = moved(draw, x)
        elif die < 0.65:
            name, operands = draw.choice(["mixed", "least"]), [x, moved(draw, x)]
            if operands[1].shape != x.shape:
                operands[1] = draw.choice([x.flip(0), x.sum(0, keepdim=True), x + 1])
                operands[1] = operands[1].expand(*x.shape)  # read again and again
            draw.shuffle(operands)
            y = functions[name](*operands)
        elif die < 0.75 and squares < 2:
            y, squares = functions["square"](x), squares + 1
        elif die < 0.85 and x.numel() >= 12:
            y = functions["turned"](x.reshape(-1)[:12]).reshape(3, 4)
        elif die < 0.93:
            y = x.sum(draw.randrange(x.ndim), keepdim=True)
        else:
            y = x * 2 + 1
        if draw.random() < 0.1:
            y = y.contiguous()
        values.append(y)
    last = values[len(leaves) :][-2:]
    loss = sum((v.sum() * draw.randint(1, 3) for v in last), Tensor(0.0, dtype="float64"))
    return values[len(leaves) :], loss


def numbers(draw, shape):
    """Whole numbers in an array that lies anyhow."""
    base = draw.integers(-4, 5, [2 * size + 1 for size in shape]).astype(np.float64)
    view = base[tuple(slice(1, None, 2) for _ in shape)]
    if draw.random() < 0.5:
        view = view[::-1]
    return view.T if draw.random() < 0.5 else view


def close(got, want, text):
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=0, err_msg=text)


@pytest.mark.parametrize("part", range(4))
def test_graphs(part):
    for seed in range(SEED * 1000 + part * CASES // 4, SEED * 1000 + (part + 1) * CASES // 4):
        draw = np.random.default_rng(seed)
        arrays = [numbers(draw, (3, 4)), numbers(draw, (2, 3, 2))]
        found = []
        for functions in (FOREIGN, OURS):
            leaves = [BufferView.from_numpy(a).tensor() for a in arrays]
            outputs, loss = graph(seed, functions, leaves)
            gradients = loss.gradient(*leaves)
            if seed % 3 == 0:
                Tensor.realize(*outputs)
            found.append([t.numpy() for t in (*outputs, loss, *gradients)])
        for i, (got, want) in enumerate(zip(*found)):
            close(got, want, f"seed {seed}, value {i}")


def test_captured():
    for seed in range(SEED * 1000, SEED * 1000 + CASES // 12):
        steps = [
            TinyJit(lambda a, b, f=functions: graph(seed, f, [a, b])[1].realize())
            for functions in (FOREIGN, OURS)
        ]
        draw = np.random.default_rng(seed)
        for _ in range(4):
            arrays = [draw.integers(-4, 5, s).astype(np.float64) for s in ((3, 4), (2, 3, 2))]
            got, want = (step(*(Tensor(a).realize() for a in arrays)).item() for step in steps)
            close(got, want, f"seed {seed}")
