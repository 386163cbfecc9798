"""The C interface through ctypes, derived from the manifest: what the tests of the ABI, the
conformance suite and the benchmarks drive the library with. Programs import `aster_ml`.

    from binding import Tensor, TinyJit, dtypes
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    print((x @ x).relu().sum(axis=0).numpy())

`library()` gives every C function with prototypes from the manifest. Errors are `Error`
with the library's message; there is a subclass a status, e.g. `library().errors[3]` for SHAPE.
"""

from .context import Context, current
from .dtype import DType, dtypes
from .jit import TinyJit
from .clib import Error, Library, library
from .tensor import Tensor, realize

__version__ = library().version().decode()
__all__ = "Context DType Error Library Tensor TinyJit current dtypes library realize".split()
