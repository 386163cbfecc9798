"""Trains a small convolutional network on handwritten digits, tests it on a fifth held out, saves
it and reads it back:   python digits.py examples/data/digits.bin [EPOCHS]"""

import argparse
import random
import sys
from typing import BinaryIO

from aster_ml import Context, Tensor, TinyJit, dtypes, nn
from aster_ml.nn.state import get_state_dict, load_state_dict, safe_load, safe_save

TRAINED, BATCH, RECORD = 1438, 128, 65  # a record is 8 x 8 pixels from 0 to 16, then the label


class Network:
    def __init__(self):
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm(32)
        self.linear = nn.Linear(32 * 2 * 2, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(x)).relu().max_pool2d()
        x = self.norm2(self.conv2(x)).relu().max_pool2d()
        return self.linear(x.flatten(1))


def read(file: BinaryIO) -> tuple[Tensor, Tensor]:
    """Images [n, 1, 8, 8] from 0 to 1, and labels [n], in random order."""
    data = file.read()
    records = [data[i : i + RECORD] for i in range(0, len(data), RECORD)]
    random.Random(42).shuffle(records)
    table = Tensor(b"".join(records), dtype=dtypes.uint8).reshape(-1, RECORD)
    images, labels = table[:, :-1].reshape(-1, 1, 8, 8) / 16, table[:, -1].cast(dtypes.int32)
    return images.realize(), labels.contiguous().realize()


def main(file: BinaryIO, epochs: int) -> int:
    Tensor.manual_seed(42)
    images, labels = read(file)
    net = Network()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)

    @TinyJit
    @Context(TRAINING=1)
    def step(batch: Tensor) -> Tensor:
        """One step on the digits of these numbers."""
        optimizer.zero_grad()
        loss = net(images[batch]).sparse_categorical_crossentropy(labels[batch]).backward()
        return loss.realize(*optimizer.schedule_step())

    for epoch in range(epochs):
        optimizer.lr.assign(Tensor([0.01 * (epochs - epoch) / epochs])).realize()
        order = Tensor.randperm(TRAINED)
        for i in range(0, TRAINED - BATCH + 1, BATCH):
            loss = step(order[i : i + BATCH].contiguous().realize())
        print(f"epoch {epoch + 1:2}, loss {loss.item():.4f}")

    predicted = net(images[TRAINED:]).argmax(1)
    right = (predicted == labels[TRAINED:]).mean().item()
    print(f"{100 * right:.2f} % of {len(images) - TRAINED} test digits right")

    safe_save(get_state_dict(net), "digits.safetensors")
    copy = Network()
    load_state_dict(copy, safe_load("digits.safetensors"), verbose=False)
    same = (copy(images[TRAINED:]).argmax(1) == predicted).all().item()
    print("digits.safetensors, read back, gives", "the same" if same else "OTHER PREDICTIONS")
    return 0 if same and right > 0.98 else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=argparse.FileType("rb"), help="examples/data/digits.bin")
    parser.add_argument("epochs", type=int, nargs="?", default=20)
    sys.exit(main(**vars(parser.parse_args())))
