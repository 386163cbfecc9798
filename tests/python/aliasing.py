"""Random programs of views, writes through them, expressions and replays, in two engines.

    python tests/python/aliasing.py [--against numpy|torch] [--first SEED] [--count N]

Every program runs through this package and through NumPy or torch, whose tensors share memory as
ours do. It is a list of steps drawn from its seed. Tensors are realised as they are made, or stay
pending until they are read; pending ones are computed before a write that is not an item
assignment, since there they mean what their operands hold when they are computed
(docs/DIFFERENCES.md).
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any, Callable

import numpy as np

from aster_ml import Device, Tensor, TinyJit, dtypes

# Few shapes and numbers, so that programs share kernels.
SHAPES = ((6,), (12,), (6, 1), (4, 3), (1, 6), (2, 3, 2))
NUMBERS = (-2, 1, 3)
Recipe = Callable[[list[Any], Any], Any]


class Ours:
    flip = Tensor.flip

    @staticmethod
    def sum(x: Tensor, axis: int) -> Tensor:
        return x.sum(axis, keepdim=True)


class NumPy:
    """Tensors of the other engine; a view shares memory with what it is of."""

    def make(self, values: np.ndarray) -> Any:
        return values.copy()

    def wrap(self, memory: np.ndarray) -> Any:
        return memory

    def flip(self, x: Any, axis: int) -> Any:
        return np.flip(x, axis)

    def sum(self, x: Any, axis: int) -> Any:
        return x.sum(axis, dtype=np.int32, keepdims=True)

    def copy(self, x: Any) -> Any:
        return np.array(x)

    def write(self, x: Any, value: Any) -> None:
        x[...] = np.broadcast_to(value, x.shape).copy()

    def get(self, x: Any) -> np.ndarray:
        return np.asarray(x)


class Torch(NumPy):
    def __init__(self) -> None:
        import torch

        self.torch = torch

    def make(self, values: np.ndarray) -> Any:
        return self.torch.from_numpy(values.copy())

    def wrap(self, memory: np.ndarray) -> Any:
        return self.torch.from_numpy(memory)

    def flip(self, x: Any, axis: int) -> Any:
        return self.torch.flip(x, (axis,))

    def sum(self, x: Any, axis: int) -> Any:
        return x.sum(axis, dtype=self.torch.int32, keepdim=True)

    def copy(self, x: Any) -> Any:
        return x.clone()

    def write(self, x: Any, value: Any) -> None:
        x.copy_(value.clone() if hasattr(value, "clone") else self.torch.full_like(x, value))

    def get(self, x: Any) -> np.ndarray:
        return x.numpy()


class Program:
    """One random program: the tensors of both engines side by side."""

    def __init__(self, seed: int, other: NumPy) -> None:
        self.draw = random.Random(seed)
        self.other = other
        self.log: list[str] = []
        self.ours: list[Tensor] = []
        self.theirs: list[Any] = []
        self.pending: list[tuple[int, Any]] = []  # a tensor, and the value that it has to have
        self.keep: list[Any] = []
        self.lazily = self.draw.random() < 0.4
        for _ in range(self.draw.randint(1, 3)):
            self.base()

    # ---- what is said of a tensor

    def add(self, ours: Tensor, theirs: Any, text: str) -> None:
        self.ours.append(ours)
        self.theirs.append(theirs)
        self.log.append(f"t{len(self.ours) - 1} = {text}")

    def pick(self, fits: Callable[[Any], bool] = lambda x: True) -> int | None:
        numbers = [i for i, x in enumerate(self.theirs) if fits(x)]
        return self.draw.choice(numbers) if numbers else None

    def values(self, shape: tuple[int, ...]) -> np.ndarray:
        count = int(np.prod(shape, dtype=np.int64))
        return np.array([self.draw.randint(-9, 9) for _ in range(count)], np.int32).reshape(shape)

    # ---- steps

    def base(self) -> None:
        shape = self.draw.choice(SHAPES)
        values = self.values(shape)
        text = f"Tensor({values.tolist()}).realize()"
        self.add(Tensor(values.copy()).realize(), self.other.make(values), text)

    def wrapped(self) -> None:
        """Two tensors on memory of the caller's, the second inside or across the first."""
        memory = self.values((12,))
        other = memory.copy()
        self.keep.append(memory)
        for _ in range(2):
            start = self.draw.randint(0, 8)
            size = self.draw.randint(1, 12 - start)
            ours = Tensor.from_blob(memory.ctypes.data + 4 * start, (size,), dtype=dtypes.int32)
            theirs = self.other.wrap(other[start : start + size])
            self.add(ours, theirs, f"blob{len(self.keep)}[{start}:{start + size}]")

    def view(self) -> None:
        i = self.pick(lambda x: x.ndim > 0)
        assert i is not None
        rows = self.theirs[i].shape[0]
        kind = self.draw.randint(0, 3)
        if kind == 0:
            start = self.draw.randint(0, rows - 1)
            stop = self.draw.randint(start + 1, rows)
            self.see(i, lambda x: x[start:stop], f"[{start}:{stop}]")
        elif kind == 1:
            row = self.draw.randint(0, rows - 1)
            self.see(i, lambda x: x[row, ...], f"[{row}]")
        elif kind == 2:
            self.see(i, lambda x: x.reshape(-1), ".reshape(-1)")
        else:
            count = int(np.prod(tuple(self.theirs[i].shape)))
            first = self.draw.choice([d for d in range(1, count + 1) if count % d == 0])
            shape = (first, count // first)
            self.see(i, lambda x: x.reshape(shape), f".reshape{shape}")

    def see(self, i: int, look: Callable[[Any], Any], text: str) -> None:
        ours = look(self.ours[i])
        late = self.draw.random() < 0.3  # a view sees writes whether it is realised or not
        if not late:
            ours, text = ours.realize(), text + ".realize()"
        self.add(ours, look(self.theirs[i]), f"t{i}{text}")

    def recipe(self, shape: tuple[int, ...] | None = None) -> tuple[Recipe, str]:
        """What an expression of tensors computes from a list of them, and its text."""
        first = self.pick(lambda x: shape is None or tuple(x.shape) == shape)
        assert first is not None
        steps: list[tuple[str, int]] = []
        like, text = tuple(self.theirs[first].shape), f"t{first}"
        for _ in range(self.draw.randint(1, 3)):
            kind = self.draw.randint(0, 6)
            number = self.draw.choice(NUMBERS)
            if kind == 6 and like:
                steps.append(("sum", self.draw.randrange(len(like))))
                text = f"({text} - {text}.sum({steps[-1][1]}, keepdim=True))"
            elif kind <= 1:
                steps.append(("+" if kind == 0 else "*", number))
                text = f"({text} {steps[-1][0]} {number})"
            elif kind <= 3 and like:
                steps.append(("flip", self.draw.randrange(len(like))))
                text += f".flip({steps[-1][1]})"
            elif (j := self.pick(lambda x: tuple(x.shape) == like)) is not None:
                steps.append(("-", j))
                text = f"({text} - t{j})"

        def compute(tensors: list[Any], engine: Any) -> Any:
            x = tensors[first]
            for name, n in steps:
                if name == "flip":
                    x = engine.flip(x, n)
                elif name == "sum":
                    x = x - engine.sum(x, n)
                elif name == "-":
                    x = x - tensors[n]
                else:
                    x = x + n if name == "+" else x * n
            return x

        return compute, text

    def ours_of(self, recipe: Recipe) -> Tensor:
        return recipe(self.ours, Ours)

    def theirs_of(self, recipe: Recipe) -> Any:
        return self.other.copy(recipe(self.theirs, self.other))

    def expression(self, shape: tuple[int, ...] | None = None) -> tuple[Tensor, Any, str]:
        """An expression of one or two tensors of a shape, in both engines."""
        recipe, text = self.recipe(shape)
        return self.ours_of(recipe), self.theirs_of(recipe), text

    def compute(self) -> None:
        ours, theirs, text = self.expression()
        # No view, whatever the rest is.
        ours, theirs, text = ours + 7, self.other.copy(theirs + 7), f"({text} + 7)"
        if self.lazily and self.draw.random() < 0.5:
            self.log.append(f"p{len(self.keep)} = {text}")
            self.pending.append((len(self.keep), theirs))
            self.keep.append(ours)
        else:
            self.add(ours.realize(), theirs, f"{text}.realize()")

    def settle(self) -> None:
        """Pending expressions are computed."""
        for number, theirs in self.pending:
            self.add(self.keep[number].realize(), theirs, f"p{number}.realize()")
        self.pending.clear()

    def write(self) -> None:
        i = self.pick()
        assert i is not None
        kind = self.draw.randint(0, 3)
        target = self.theirs[i]
        if kind == 0 or target.ndim == 0:
            self.settle()
            ours, theirs, text = self.expression(tuple(target.shape))
            self.ours[i].assign(ours).realize()
            self.other.write(target, theirs)
            self.log.append(f"t{i}.assign({text}).realize()")
        elif kind == 1:
            self.settle()
            number = self.draw.choice(NUMBERS)
            if self.draw.random() < 0.5:
                self.ours[i] += number
                self.other.write(target, target + number)
                self.log.append(f"t{i} += {number}")
            else:
                self.ours[i].assign(self.ours[i] * number).realize()
                self.other.write(target, target * number)
                self.log.append(f"t{i}.assign(t{i} * {number}).realize()")
        else:
            rows = target.shape[0]
            start = self.draw.randint(0, rows - 1)
            stop = self.draw.randint(start + 1, rows)
            ours, theirs, text = self.expression(tuple(target.shape))
            self.ours[i][start:stop] = ours[start:stop]
            self.other.write(target[start:stop], theirs[start:stop])
            self.log.append(f"t{i}[{start}:{stop}] = {text}[{start}:{stop}]")

    def write_together(self) -> None:
        """Two assignments that one realize carries out."""
        numbers = [i for i in (self.pick(), self.pick()) if i is not None]
        self.settle()
        for i in numbers:
            ours, theirs, text = self.expression(tuple(self.theirs[i].shape))
            self.ours[i].assign(ours)
            self.other.write(self.theirs[i], theirs)
            self.log.append(f"t{i}.assign({text})")
        Tensor.realize(*[self.ours[i] for i in numbers])
        self.log.append(f"Tensor.realize({numbers})")

    def replay(self) -> None:
        """A captured function fed what it gave."""
        i = self.pick(lambda x: x.ndim > 0)
        assert i is not None
        number = self.draw.choice(NUMBERS)
        in_place = self.draw.random() < 0.3

        def step(x: Tensor) -> list[Tensor]:
            if in_place:
                x.assign(x.flip(0) + number).realize()
                return [(x * 2 - x.flip(0)).contiguous().realize()]
            return [(x.flip(0) * 2 - x + number).contiguous().realize()]

        jit, ours = TinyJit(step), (self.ours[i] + 0).contiguous().realize()
        theirs = self.other.copy(self.theirs[i])
        listed = self.draw.random() < 0.5
        if listed:
            jit = TinyJit(lambda s: step(s[0]))
        for _ in range(5):
            ours = (jit([ours]) if listed else jit(ours))[0]
            if in_place:
                theirs = self.other.copy(self.other.flip(theirs, 0) + number)
                theirs = self.other.copy(theirs * 2 - self.other.flip(theirs, 0))
            else:
                theirs = self.other.copy(self.other.flip(theirs, 0) * 2 - theirs + number)
        text = f"five replays on t{i} ({number}, {in_place}, {listed})"
        self.add(ours.clone().realize(), theirs, text)

    def recorded(self) -> None:
        """Writes to tensors that are no arguments, recorded once and replayed."""
        self.settle()
        writes = []
        for _ in range(self.draw.randint(1, 3)):
            i = self.pick()
            assert i is not None
            recipe, text = self.recipe(tuple(self.theirs[i].shape))
            rows = self.theirs[i].shape[0] if self.theirs[i].ndim else 0
            start = self.draw.randint(0, rows - 1) if rows and self.draw.random() < 0.5 else None
            writes.append((i, recipe, start))
            self.log.append(f"  t{i}[{start}:] = {text}[{start}:]")

        def step(x: Tensor) -> Tensor:
            for i, recipe, start in writes:
                if start is None:
                    self.ours[i].assign(self.ours_of(recipe)).realize()
                else:
                    self.ours[i][start:] = self.ours_of(recipe)[start:]
            return (x + 1).realize()

        jit = TinyJit(step)
        for count in range(4):
            jit(Tensor([count], dtype=dtypes.int32).realize())
            for i, recipe, start in writes:
                target, value = self.theirs[i], self.theirs_of(recipe)
                if start is None:
                    self.other.write(target, value)
                else:
                    self.other.write(target[start:], value[start:])
        self.log.append("  recorded, four times")

    # ---- a run

    def run(self) -> str:
        """What differs at the end, or nothing."""
        steps = [self.view] * 5 + [self.compute] * 3 + [self.write] * 5 + [self.write_together] * 2
        for _ in range(self.draw.randint(4, 14)):
            step = self.draw.choice(steps)
            if self.draw.random() < 0.04:
                step = self.replay
            elif self.draw.random() < 0.04 and Device.DEFAULT == "CPU":  # elsewhere it is copied
                step = self.wrapped
            elif self.draw.random() < 0.04:
                step = self.recorded
            step()
            if self.draw.random() < 0.2:
                if difference := self.compare():
                    return difference
        self.settle()
        return self.compare()

    def compare(self) -> str:
        for i, (ours, theirs) in enumerate(zip(self.ours, self.theirs)):
            expected = self.other.get(theirs)
            found = ours.numpy()
            if found.shape != tuple(expected.shape) or not np.array_equal(found, expected):
                return f"t{i} is {found.tolist()}, not {expected.tolist()}"
        return ""


def check(seed: int, other: NumPy) -> str:
    """The program of a seed and what differs, or nothing."""
    program = None
    try:
        program = Program(seed, other)
        difference = program.run()
    except Exception as error:  # whatever it is, it is a finding
        difference = f"{type(error).__name__}: {error}"
    if not difference:
        return ""
    return "\n".join([f"seed {seed}:", *(program.log if program else []), difference])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", choices=("numpy", "torch"), default="numpy")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--most", type=int, default=3, help="differences shown before it stops")
    options = parser.parse_args()
    other = Torch() if options.against == "torch" else NumPy()
    found = 0
    for seed in range(options.first, options.first + options.count):
        if difference := check(seed, other):
            found += 1
            print(difference, flush=True)
            if found == options.most:
                break
    print(f"{seed - options.first + 1} programs, {found} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
