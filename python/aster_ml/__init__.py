"""aster_ml: lazy tensors, gradients and captured programs, under tinygrad's names.

    from aster_ml import Tensor
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    print((x @ x).relu().sum(axis=0).numpy())

A program written for tinygrad 0.14 runs after its import line is changed; docs/DIFFERENCES.md says
where results differ, and what is not offered.
"""

from . import _native, errors, helpers, linalg, lowering, nn, registry, sparse, trace
from .arena import Arena
from .device import Device
from .dtype import ERR, dtypes
from .engine.jit import TinyJit
from .environment import warn_of_unknown
from .errors import Error, JitError
from .freezing import freeze
from .function import function
from .helpers import Context, GlobalCounters, fetch, getenv
from .kernels import Kernel, kernel
from .portable import Program, export, load_program
from .symbolic import UOp, Variable
from .tensor import Tensor
from .trace import profile
from .view import BufferView, MemoryType

warn_of_unknown()
__version__ = str(_native.version())

__all__ = [
    "Arena", "BufferView", "Context", "Device", "ERR", "Error", "GlobalCounters", "JitError",
    "Kernel", "MemoryType", "Program", "Tensor", "TinyJit", "UOp", "Variable", "dtypes", "errors",
    "export", "fetch", "freeze", "function", "getenv", "helpers", "kernel", "linalg",
    "load_program", "lowering", "nn", "profile", "registry", "sparse", "trace",
]  # fmt: skip
