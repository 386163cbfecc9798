"""The engines that cases run on: one interface over aster_ml, tinygrad, torch and NumPy.

An engine's name is `aster`, `aster:DEVICE` (cpu, reference), `aster:DEVICE+OPTION` (strict: the
context's strict_parity; narrow: vectors of 32 bytes; interpreted: no compiler), `tinygrad`,
`torch`, `numpy`, or `file:PATH` for the class Engine of a Python file. build() gives what a case
computes, not yet realised; read() gives (dtype, array) of each.
"""

from __future__ import annotations

import importlib.util
import os

import numpy as np

from .operators import ROWS
from .programs import PROGRAMS
from .row import tuples
from .values import ALL, NARROW, is_float, through_spec


class Unsupported(Exception):
    """The engine, or the table, has no such operator."""


def seed_of(shape):
    """What a gradient starts from: no zeros, exact in every float dtype."""
    count = int(np.prod(shape, dtype=np.int64))
    return (((np.arange(count) * 7 + 3) % 11) * 0.25 - 1.125).astype(np.float32).reshape(shape)


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


class Lazy:
    """What tinygrad and aster_ml share: the front end."""

    Tensor = dtypes = nn = Context = GlobalCounters = None

    def learn_names(self):
        names = [n for n in [*ALL, "weakint", "weakfloat"] if hasattr(self.dtypes, n)]
        self.names = {getattr(self.dtypes, n): n for n in names}

    def name_of(self, tensor):
        return self.names[tensor.dtype]

    def unsupported(self, error):
        return isinstance(error, (NotImplementedError, Unsupported)) or (
            isinstance(error, AttributeError) and "has no attribute" in str(error)
        )

    def build(self, case):
        row = ROWS[case["op"]]
        arrays = [through_spec(s) for s in case["inputs"]]
        tensors = [
            view(self.upload(base, s["dtype"]))
            for (_, base, view), s in zip(arrays, case["inputs"])
        ]
        arguments = tuples(case["args"])
        if row.call:
            out = row.call(self, *tensors, **arguments)
        else:
            out = getattr(tensors[0], row.name)(*tensors[1:], **arguments)
        out = listed(out)
        if case.get("gradient"):
            out = self.gradient(case, tensors, out)
        return [(self.name_of(t), t) for t in out]  # realising makes weak dtypes strong

    def gradient(self, case, tensors, out):
        floats = [t for t, s in zip(tensors, case["inputs"]) if is_float(s["dtype"])]
        out = [t for t in out if is_float(self.name_of(t).replace("weakfloat", "float32"))][:1]
        if not floats or not out:
            raise Unsupported("nothing to differentiate")
        seed = self.upload(seed_of(out[0].shape), "float32").cast(out[0].dtype)
        return out[0].gradient(*floats, gradient=seed)

    def realize(self, tensors):
        if tensors:
            self.Tensor.realize(*[t for _, t in tensors])

    def kernels(self, name):
        """How many kernels a program launches, the second time that it runs."""
        run = PROGRAMS[name](self)
        for _ in range(2):
            self.GlobalCounters.reset()
            self.Tensor.realize(*run())
        return self.GlobalCounters.kernel_count

    def read(self, case, tensors):
        return [(name, np.array(t.numpy())) for name, t in tensors]


class Tinygrad(Lazy):
    def __init__(self):
        os.environ.setdefault("EMULATED_DTYPES", "bfloat16")  # some compilers have no __bf16
        os.environ.setdefault("DEV", "CPU")
        import tinygrad

        self.Tensor, self.dtypes, self.nn = tinygrad.Tensor, tinygrad.dtypes, tinygrad.nn
        self.Context, self.GlobalCounters = tinygrad.Context, tinygrad.GlobalCounters
        self.learn_names()

    def version(self):
        import importlib.metadata

        return "tinygrad " + importlib.metadata.version("tinygrad")

    def upload(self, array, dtype):
        out = self.Tensor(np.array(array, order="C"))
        if dtype in NARROW and array.size:
            out = out.cast(getattr(self.dtypes, dtype)).contiguous().realize()
        return out.cast(getattr(self.dtypes, dtype))


class Aster(Lazy):
    DEVICES = {"cpu": "CPU", "reference": "PYTHON", "opencl": "OPENCL"}

    def __init__(self, device="cpu", options=()):
        import aster_ml

        unknown = [o for o in options if o not in OPTIONS]
        if device not in self.DEVICES or unknown:
            raise ValueError(f"no device or option of aster: {device} {' '.join(unknown)}")
        self.library = aster_ml
        self.Tensor, self.dtypes, self.nn = aster_ml.Tensor, aster_ml.dtypes, aster_ml.nn
        self.Context, self.GlobalCounters = aster_ml.Context, aster_ml.GlobalCounters
        self.learn_names()
        set_up_aster(aster_ml, self.DEVICES[device], options)

    def version(self):
        return f"aster_ml {getattr(self.library, '__version__', '')}".strip()

    def upload(self, array, dtype):
        out = self.Tensor(np.array(array, order="C"))
        return out if self.name_of(out) == dtype else out.cast(getattr(self.dtypes, dtype))


OPTIONS = {
    "strict": {"strict_parity": 1},
    "narrow": {"vector_bytes": 32},
    "interpreted": {"compiler": "none"},
}


def set_up_aster(library, device, options):
    """The context that cases run in, and the device."""
    from aster_ml import _native

    settings = {}
    for name in options:
        settings.update(OPTIONS[name])
    if settings:
        _native.set_current(_native.context_init(settings))
        library.dtype.follow_defaults()
    library.Device.DEFAULT = device


class Torch:
    def __init__(self):
        import torch

        self.torch = torch
        torch.set_num_threads(1)

    def version(self):
        return "torch " + self.torch.__version__

    def unsupported(self, error):
        text = str(error)
        return isinstance(error, (NotImplementedError, Unsupported)) or any(
            t in text
            for t in ("not implemented for", "no attribute", "not supported", "Unsupported")
        )

    def build(self, case):
        row = ROWS[case["op"]]
        if row.torch is None:
            raise Unsupported("no torch function in the table")
        tensors = []
        for s in case["inputs"]:
            array = np.array(through_spec(s)[0], order="C")
            tensor = self.torch.from_numpy(array).to(getattr(self.torch, s["dtype"]))
            if case.get("gradient") and is_float(s["dtype"]):
                tensor.requires_grad_()
            tensors.append(tensor)
        out = listed(row.torch(self.torch, *tensors, **tuples(case["args"])))
        if case.get("gradient"):
            floats = [t for t in tensors if t.requires_grad]
            out = [t for t in out if t.is_floating_point() and t.requires_grad][:1]
            if not floats or not out:
                raise Unsupported("nothing to differentiate")
            seed = self.torch.from_numpy(seed_of(tuple(out[0].shape))).to(out[0].dtype)
            slopes = self.torch.autograd.grad(out[0], floats, seed, allow_unused=True)
            out = [self.torch.zeros_like(t) if g is None else g for t, g in zip(floats, slopes)]
        return [(str(t.dtype).removeprefix("torch."), t.detach()) for t in out]

    def realize(self, tensors):
        pass

    def read(self, case, tensors):
        return [
            (name, (t.float() if name in NARROW else t).contiguous().numpy()) for name, t in tensors
        ]


class Numpy:
    """The table's functions on float64; longdouble for float64."""

    def version(self):
        return "numpy " + np.__version__

    def unsupported(self, error):
        return isinstance(error, (NotImplementedError, Unsupported)) or "identity" in str(error)

    def build(self, case):
        row = ROWS[case["op"]]
        if row.numpy is None:
            raise Unsupported("no NumPy function in the table")
        arrays = [through_spec(s)[0] for s in case["inputs"]]
        wide = [
            (
                a.astype(np.longdouble if a.dtype == np.float64 else np.float64)
                if a.dtype.kind == "f"
                else a
            )
            for a in arrays
        ]
        arguments = tuples(case["args"])
        if case.get("gradient"):
            return self.slopes(row, case, wide, arguments)
        with np.errstate(all="ignore"):
            out = [np.asarray(a) for a in listed(row.numpy(*wide, **arguments))]
            if any(
                a.dtype in (np.float16, np.float32) for a in out
            ):  # NumPy's own of small integers
                wide = [a.astype(np.float64) for a in wide]
                out = [np.asarray(a) for a in listed(row.numpy(*wide, **arguments))]
        return [("", a) for a in out]

    def slopes(self, row, case, arrays, arguments):
        """Central differences."""
        if case["dtype"] not in ("float32", "float64") or any(a.size > 48 for a in arrays):
            raise Unsupported("no central differences of this size or dtype")

        def value():
            out = listed(row.numpy(*arrays, **arguments))
            out = [a for a in map(np.asarray, out) if a.dtype.kind == "f"]
            if not out:
                raise Unsupported("nothing to differentiate")
            return np.sum(out[0].astype(np.longdouble) * seed_of(out[0].shape))

        results = []
        with np.errstate(all="ignore"):
            for which, spec in enumerate(case["inputs"]):
                if not is_float(spec["dtype"]):
                    continue
                base = arrays[which]
                slope = np.empty(base.shape, np.float64)
                for at in np.ndindex(base.shape):
                    ends = []
                    for step in (1e-6, -1e-6):
                        arrays[which] = base.copy()
                        arrays[which][at] += step
                        ends.append(value())
                    slope[at] = (ends[0] - ends[1]) / 2e-6
                arrays[which] = base
                results.append(("slopes", slope))
        return results

    def realize(self, tensors):
        pass

    def read(self, case, tensors):
        return [(n, a.astype(np.float64) if a.dtype == np.longdouble else a) for n, a in tensors]


def make(name):
    """The engine of this name."""
    kind, _, rest = name.partition(":")
    if kind == "aster":
        device, *options = (rest or "cpu").split("+")
        return Aster(device, options)
    if kind == "file":
        spec = importlib.util.spec_from_file_location("engine", rest)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.Engine()
    return {"tinygrad": Tinygrad, "torch": Torch, "numpy": Numpy}[kind]()
