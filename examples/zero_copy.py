"""Shares memory with NumPy and torch, without copies:   python zero_copy.py"""

import sys

import numpy

from aster_ml import Tensor

try:
    import torch
except ImportError:
    torch = None


def numpy_shares() -> None:
    array = numpy.zeros(4, dtype=numpy.float32)
    x = Tensor.from_dlpack(array)
    array[1] = 7  # seen by the tensor
    assert (x + 1).tolist() == [1, 8, 1, 1]
    x.assign(x * 2).realize()  # seen by the array
    assert array.tolist() == [0, 14, 0, 0]
    view = numpy.from_dlpack(x)
    assert numpy.shares_memory(view, array)
    print("numpy: one memory, both ways")


def torch_shares() -> None:
    theirs = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = Tensor.from_dlpack(theirs)
    x.assign(x + 1).realize()
    assert theirs.tolist() == [[1, 2, 3], [4, 5, 6]]
    back = torch.from_dlpack(x)
    assert back.data_ptr() == theirs.data_ptr()
    product = torch.from_dlpack((x @ x.T).realize())  # lives on when the tensor is gone
    assert torch.equal(product, theirs @ theirs.T)
    print("torch: one memory, both ways")


def main() -> int:
    numpy_shares()
    if torch is None:
        print("torch: skipped, it is not installed")
        return 0
    torch_shares()
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(print("usage: zero_copy.py", file=sys.stderr) or 2)
    sys.exit(main())
