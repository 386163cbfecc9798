"""An operator with a gradient of its own, in training:   python custom_gradient.py [STEPS]

Rounding has the gradient 0 nearly everywhere, so that what is before it learns nothing. Here it
passes the gradient on as if it were not there, and a layer learns weights that are whole numbers.
"""

import argparse
import sys

from aster_ml import Context, Tensor, TinyJit, function
from aster_ml.nn.optim import SGD

TRUE_WEIGHTS = [3.0, -2.0, 0.0, 1.0]


def straight_through(gradient: Tensor, call) -> tuple[Tensor]:
    """The gradients of the inputs, call.src[1:], by that of the result."""
    return (gradient,)


@function(grad_fxn=straight_through)
def rounded(x: Tensor) -> Tensor:
    return x.round()


def main(steps: int) -> int:
    Tensor.manual_seed(1)
    x = Tensor.randn(256, 4).realize()
    y = (x @ Tensor(TRUE_WEIGHTS)).realize()
    weights = Tensor.zeros(4).contiguous()
    optimizer = SGD([weights], lr=0.05)

    @TinyJit
    @Context(TRAINING=1)
    def step() -> Tensor:
        optimizer.zero_grad()
        loss = (x @ rounded(weights) - y).square().mean().backward()
        return loss.realize(*optimizer.schedule_step())

    for _ in range(steps):
        step()
    print("weights", *map(int, weights.round().tolist()))
    return 0 if weights.round().tolist() == TRUE_WEIGHTS else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int, nargs="?", default=100)
    sys.exit(main(**vars(parser.parse_args())))
