"""Finds the weights behind noisy points by gradient descent:

python linear_regression.py [STEPS]
"""

import argparse
import sys

from aster_ml import Context, Tensor, TinyJit
from aster_ml.nn.optim import SGD

TRUE_WEIGHTS, TRUE_BIAS = [2.0, -3.0, 0.5], 1.0


def main(steps: int) -> int:
    Tensor.manual_seed(1)
    x = Tensor.randn(1000, 3).realize()
    y = (x @ Tensor(TRUE_WEIGHTS) + TRUE_BIAS + 0.1 * Tensor.randn(1000)).realize()
    weights, bias = Tensor.zeros(3).contiguous(), Tensor.zeros(1).contiguous()
    optimizer = SGD([weights, bias], lr=0.1)

    @TinyJit  # run, then recorded, then replayed
    @Context(TRAINING=1)
    def step() -> Tensor:
        optimizer.zero_grad()
        loss = (x @ weights + bias - y).square().mean().backward()
        optimizer.step()
        return loss.realize()

    for i in range(steps):
        loss = step()
        if i % 20 == 19:
            print(f"step {i + 1:3}, loss {loss.item():.4f}")
    found = weights.tolist() + bias.tolist()
    print("weights", *(f"{w:.2f}" for w in found[:3]), f"bias {found[3]:.2f}")
    right = all(abs(a - b) < 0.02 for a, b in zip(found, [*TRUE_WEIGHTS, TRUE_BIAS]))
    return 0 if right else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int, nargs="?", default=100)
    sys.exit(main(**vars(parser.parse_args())))
