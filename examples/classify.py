"""Says what is in a picture, by a network for ImageNet in an ONNX file, such as ResNet-18:

python classify.py MODEL.onnx PICTURE.ppm [NAMES.txt]

`convert picture.jpg picture.ppm` makes a PPM; NAMES.txt has a line for each class.
"""

import argparse
import pathlib
import re
import sys

from aster_ml import Tensor
from aster_ml.nn.onnx import OnnxRunner

SHORTER, SIZE = 256, 224  # the picture's shorter side is made so long, its middle is looked at
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def read_ppm(path: pathlib.Path) -> Tensor:
    """[height, width, 3], uint8."""
    data = path.read_bytes()
    header = re.match(rb"P6(?:\s|#.*\n)+(\d+)(?:\s|#.*\n)+(\d+)(?:\s|#.*\n)+255\s", data)
    if header is None:
        sys.exit(f"{path} is no binary PPM of 8 bits")
    width, height = int(header[1]), int(header[2])
    return Tensor(data[header.end() : header.end() + height * width * 3]).reshape(height, width, 3)


def prepare(picture: Tensor) -> Tensor:
    """[1, 3, SIZE, SIZE], as the network was trained: nothing is computed yet."""
    height, width = picture.shape[:2]
    scale = SHORTER / min(height, width)
    rows, columns = max(round(height * scale), SIZE), max(round(width * scale), SIZE)
    x = picture.permute(2, 0, 1).float().interpolate((rows, columns)) / 255
    top, left = (rows - SIZE) // 2, (columns - SIZE) // 2
    x = x[:, top : top + SIZE, left : left + SIZE]
    return ((x - Tensor(MEAN).reshape(3, 1, 1)) / Tensor(DEVIATION).reshape(3, 1, 1)).unsqueeze(0)


def main(model: pathlib.Path, picture: pathlib.Path, names: pathlib.Path | None) -> int:
    run = OnnxRunner(model)
    (name,) = run.graph_inputs
    scores = run({name: prepare(read_ppm(picture))})[run.graph_outputs[0]]
    chances, classes = scores.flatten().softmax().topk(5)
    words = names.read_text().splitlines() if names else []
    for chance, number in zip(chances.tolist(), classes.tolist()):
        word = words[number] if number < len(words) else ""
        print(f"{100 * chance:8.4f} %  class {number} {word}".rstrip())
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("names", type=pathlib.Path, nargs="?")
    sys.exit(main(**vars(parser.parse_args())))
