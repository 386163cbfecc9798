"""Data sets, from files that are there: nothing is downloaded.

mnist() and cifar() look for tinygrad's files under $ASTER_ML_DATASETS (default: ~/.cache/aster_ml
/datasets): train-images-idx3-ubyte and so on, plain or .gz, in mnist/ or fashion/; the five
batches of cifar-10-batches-bin/ in cifar/.
"""

from __future__ import annotations

import gzip
import os
import pathlib

from ..errors import NotFoundError
from ..tensor import Tensor


def _folder(name: str) -> pathlib.Path:
    root = os.environ.get("ASTER_ML_DATASETS") or "~/.cache/aster_ml/datasets"
    return pathlib.Path(root).expanduser() / name


def _bytes(folder: pathlib.Path, name: str) -> Tensor:
    """The bytes of a file, unpacked where only name.gz is there."""
    plain, packed = folder / name, folder / (name + ".gz")
    if plain.is_file():
        return Tensor(plain)
    if packed.is_file():
        return Tensor(gzip.decompress(packed.read_bytes()))
    raise NotFoundError(
        f"{plain} or {packed.name} is not there: put it there, or set ASTER_ML_DATASETS"
    )


def mnist(
    device: str | None = None, fashion: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images [n, 1, 28, 28] and labels [n], then those to test with, uint8."""
    folder = _folder("fashion" if fashion else "mnist")

    def part(name: str, begin: int) -> Tensor:
        return _bytes(folder, name)[begin:].to(device)

    return (
        part("train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28),
        part("train-labels-idx1-ubyte", 8),
        part("t10k-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28),
        part("t10k-labels-idx1-ubyte", 8),
    )


def cifar(device: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images [n, 3, 32, 32] and labels [n], then those to test with, uint8."""
    folder = _folder("cifar") / "cifar-10-batches-bin"
    rows = [_bytes(folder, f"data_batch_{i}.bin").to(device).reshape(-1, 3073) for i in range(1, 6)]
    train = Tensor.cat(*rows, dim=0)
    test = _bytes(folder, "test_batch.bin").to(device).reshape(-1, 3073)
    return (
        train[:, 1:].reshape(-1, 3, 32, 32),
        train[:, 0],
        test[:, 1:].reshape(-1, 3, 32, 32),
        test[:, 0],
    )
