"""Finds things in a picture, by a detector in an ONNX file:

python detect.py MODEL.onnx PICTURE.ppm

The model is of YOLO's kind: pictures [1, 3, height, width] from 0 to 1, and for every anchor the
middle of a box, its width and height, and a score for each class: [1, 4 + classes, anchors]. Most
boxes are of things that a better one has found; they are suppressed here.
"""

import argparse
import pathlib
import re
import sys

from aster_ml import Tensor, TinyJit
from aster_ml.nn.onnx import OnnxRunner

SCORE, OVERLAP, MOST = 0.25, 0.45, 300  # least score; what two boxes may share; boxes looked at
GREY = 114 / 255


def read_ppm(path: pathlib.Path) -> Tensor:
    """[height, width, 3], uint8."""
    data = path.read_bytes()
    header = re.match(rb"P6(?:\s|#.*\n)+(\d+)(?:\s|#.*\n)+(\d+)(?:\s|#.*\n)+255\s", data)
    if header is None:
        sys.exit(f"{path} is no binary PPM of 8 bits")
    width, height = int(header[1]), int(header[2])
    return Tensor(data[header.end() : header.end() + height * width * 3]).reshape(height, width, 3)


def prepare(picture: Tensor, height: int, width: int) -> tuple[Tensor, float, int, int]:
    """The picture in the middle of grey; its scale, and where it begins."""
    scale = min(height / picture.shape[0], width / picture.shape[1])
    rows, columns = round(picture.shape[0] * scale), round(picture.shape[1] * scale)
    top, left = (height - rows) // 2, (width - columns) // 2
    x = picture.permute(2, 0, 1).float().interpolate((rows, columns)) / 255
    x = x.pad((left, width - columns - left, top, height - rows - top), value=GREY)
    return x.unsqueeze(0), scale, top, left


@TinyJit
def candidates(found: Tensor) -> tuple[Tensor, ...]:
    """The best boxes [4, n] as corners, scores and classes [n], best first, and which of them hide
    which [n, n]: an earlier one of the same class that shares more than OVERLAP of both."""
    scores, places = found[4:].max(0).topk(min(MOST, found.shape[1]))
    classes = found[4:].argmax(0)[places]
    middle, size = found[:2, places], found[2:4, places]
    low, high = middle - size / 2, middle + size / 2
    inside = high.unsqueeze(2).minimum(high.unsqueeze(1)) - low.unsqueeze(2).maximum(
        low.unsqueeze(1)
    )
    shared = inside.relu().prod(0)
    area = size.prod(0)
    union = area.unsqueeze(1) + area.unsqueeze(0) - shared
    hides = (shared > union * OVERLAP) & (classes.unsqueeze(1) == classes.unsqueeze(0))
    hides = hides.float().triu(1)
    return low.cat(high).realize(), scores.realize(), classes.realize(), hides.realize()


def suppress(scores: Tensor, hides: Tensor) -> list[bool]:
    """What stays: those with a score that nothing hides that stays. Row i is right after i + 1
    rounds, and mostly much sooner: nothing changes then."""
    good = (scores > SCORE).float().realize()
    stays, before = good, None
    while before is None or (stays != before).any().item():
        stays, before = (good * (stays @ hides == 0)).realize(), stays
    return (stays > 0).tolist()


def main(model: pathlib.Path, picture: pathlib.Path) -> int:
    run = OnnxRunner(model)
    (name, spec), image = next(iter(run.graph_inputs.items())), read_ppm(picture)
    height, width = (size if isinstance(size, int) else 640 for size in spec.shape[2:])
    x, scale, top, left = prepare(image, height, width)
    found = run({name: x})[run.graph_outputs[0]].squeeze(0).realize()
    boxes, scores, classes, hides = candidates(found)
    origin = Tensor([left, top, left, top]).reshape(4, 1)
    rows = zip(classes.tolist(), scores.tolist(), ((boxes - origin) / scale).transpose().tolist())
    for (number, score, box), stays in zip(rows, suppress(scores, hides)):
        if stays:
            print(f"class {number} {score:.4f}", *(f"{side:.2f}" for side in box))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    sys.exit(main(**vars(parser.parse_args())))
