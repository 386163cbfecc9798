"""What a case is, and how a front end computes it: one code for our binding and for tinygrad."""

import dataclasses
import typing

import numpy as np

from aster_conformance.values import draw, through


@dataclasses.dataclass
class Input:
    """An operand: the values that the operation sees and how a tensor of them is made."""

    dtype: str
    array: np.ndarray  # what the operation sees
    base: np.ndarray  # what is uploaded
    view: typing.Callable  # base tensor -> tensor


def operand(rng, dtype, shape, kind="all", view="plain"):
    """An input of a case, drawn."""
    array, base, function = through(view, draw(rng, dtype, shape, kind))
    return Input(dtype, array, base, function)


@dataclasses.dataclass
class Case:
    name: str  # group/operation/what/view
    call: typing.Callable  # (front end, *tensors) -> tensor or list of tensors
    inputs: typing.Sequence[Input] = ()
    reference: typing.Optional[typing.Callable] = (
        None  # the same on NumPy arrays, see operations.py
    )
    scale: typing.Optional[typing.Callable] = None  # magnitude that errors are relative to
    ulps: float = 0  # allowed against the reference; 0: exact
    parity: float = 0  # allowed against tinygrad, in ULPs
    slack: float = 0  # and in ULPs of 1, where results cancel
    gradient: bool = False  # compare gradients of every input, not the result
    status: str = ""  # the error that we promise
    ask: bool = True  # False: tinygrad traps on this; only the reference is asked

    @property
    def group(self):
        return self.name.split("/")[0]

    @property
    def operation(self):
        return self.name.split("/")[1]

    def seed(self, result):
        """What a gradient starts from: a fixed array of the result's shape, without zeros."""
        count = int(np.prod(result, dtype=np.int64))
        return (((np.arange(count) * 7 + 3) % 11) * 0.25 - 1.125).astype(np.float32).reshape(result)

    def build(self, front):
        """The tensors to compare, not yet realised."""
        tensors = [i.view(front.tensor(i.base, i.dtype)) for i in self.inputs]
        out = self.call(front, *tensors)
        if self.gradient:
            seed = front.tensor(self.seed(out.shape), "float32").cast(out.dtype)
            return list(out.gradient(*tensors, gradient=seed))
        return list(out) if isinstance(out, (list, tuple)) else [out]
