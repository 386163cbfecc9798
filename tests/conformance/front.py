"""The two front ends under test: one interface over our binding and over tinygrad."""

import os

import numpy as np

from aster_conformance.values import ALL, NARROW


# What the package raises itself, where no call of the library says it.
RAISED = (TypeError, ValueError, IndexError, RuntimeError, AssertionError, NotImplementedError)


class Aster:
    """libaster_ml through its Python package, in one context."""

    def __init__(self, **options):
        import aster_ml
        from aster_ml import _native

        self.Tensor, self.dtypes, self.errors = aster_ml.Tensor, aster_ml.dtypes, aster_ml.errors
        self.native = _native
        self.context = _native.context_init(options)
        _native.set_current(self.context)
        self.names = {getattr(self.dtypes, n): n for n in [*ALL, "weakint", "weakfloat"]}

    def tensor(self, array, dtype):
        return self.Tensor(np.array(array, order="C"), dtype=getattr(self.dtypes, dtype))

    def realize(self, tensors):
        if tensors:
            self.Tensor.realize(*tensors)

    def counters(self):
        return self.native.engine_count(self.context)

    def dtype(self, tensor):
        return self.names[tensor.dtype]

    def read(self, tensor):
        return np.array(tensor.numpy())

    def error(self, error):
        """The kind of an exception that the library or the package raised on purpose, else None."""
        if isinstance(error, self.errors.Error):
            return type(error).__name__.removesuffix("Error").upper()
        return type(error).__name__ if isinstance(error, RAISED) else None


class Tinygrad:
    """tinygrad 0.14.0 on its CPU device."""

    def __init__(self):
        os.environ.setdefault("EMULATED_DTYPES", "bfloat16")  # clang 14 has no __bf16 on x86
        from tinygrad import Tensor, dtypes

        self.Tensor, self.dtypes = Tensor, dtypes
        self.names = {getattr(dtypes, n): n for n in [*ALL, "weakint", "weakfloat"]}

    def tensor(self, array, dtype):
        out = self.Tensor(np.array(array, order="C"))
        if dtype in NARROW and array.size:
            out = out.cast(getattr(self.dtypes, dtype)).contiguous().realize()
        return out.cast(getattr(self.dtypes, dtype))

    def realize(self, tensors):
        self.Tensor.realize(*tensors)

    def dtype(self, tensor):
        return self.names[tensor.dtype]

    def read(self, tensor):
        return np.array(tensor.numpy())

    def error(self, error):
        return type(error).__name__


def compute(front, case):
    """[(dtype, array), ...] or the name of the error. Anything but a clean error propagates."""
    try:
        tensors = case.build(front)
        dtypes = [front.dtype(t) for t in tensors]  # realising makes weak dtypes strong
        front.realize(tensors)
        return [(d, front.read(t)) for d, t in zip(dtypes, tensors)]
    except Exception as error:
        name = front.error(error)
        if name is None:
            raise
        return name


def compute_all(front, cases, batch=48):
    """Yields (case, result); the cases of a batch are realised together: one compilation."""
    for start in range(0, len(cases), batch):
        built = []
        for case in cases[start : start + batch]:
            try:
                tensors = case.build(front)
                built.append((case, tensors, [front.dtype(t) for t in tensors]))
            except Exception as error:
                name = front.error(error)
                if name is None:
                    raise RuntimeError(f"{case.name}: {error!r}") from error
                built.append((case, None, name))
        try:
            front.realize([t for _, tensors, _ in built for t in tensors or ()])
        except Exception:  # someone's error: each on its own says whose
            yield from ((case, compute(front, case)) for case, _, _ in built)
            continue
        for case, tensors, dtypes in built:
            if tensors is None:
                yield case, dtypes  # the error's name
                continue
            try:
                yield case, [(d, front.read(t)) for d, t in zip(dtypes, tensors)]
            except Exception:
                yield case, compute(front, case)
