"""Runs a small model from a safetensors file, and makes the file if none is given:

python load_safetensors.py [FILE]
"""

import argparse
import sys

from aster_ml import Tensor, nn
from aster_ml.nn.state import get_state_dict, load_state_dict, safe_load, safe_save


class Network:
    def __init__(self):
        self.hidden, self.output = nn.Linear(2, 2), nn.Linear(2, 1)

    def __call__(self, x: Tensor) -> Tensor:
        return self.output(self.hidden(x).relu())


def make(path: str) -> None:
    """Writes a network that computes a xor b = relu(a + b) - 2 relu(a + b - 1)."""
    weights = {
        "hidden.weight": Tensor([[1.0, 1.0], [1.0, 1.0]]),
        "hidden.bias": Tensor([0.0, -1.0]),
        "output.weight": Tensor([[1.0, -2.0]]),
        "output.bias": Tensor([0.0]),
    }
    safe_save(weights, path, metadata={"computes": "exclusive or"})


def main(path: str) -> int:
    weights = safe_load(path)  # mapped, not read: a tensor is read when it is used
    for name, tensor in weights.items():
        print(f"{name:14} {tensor.dtype} {tuple(tensor.shape)}")
    network = Network()
    assert list(get_state_dict(network)) == list(weights), "another network's file"
    load_state_dict(network, weights, verbose=False)
    x = Tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    answers = network(x).flatten().tolist()
    for (a, b), answer in zip(x.tolist(), answers):
        print(f"{a:.0f} xor {b:.0f} = {answer:.0f}")
    return 0 if answers == [0, 1, 1, 0] else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    path = parser.parse_args().file
    if path is None:
        path = "exclusive_or.safetensors"
        make(path)
    sys.exit(main(path))
