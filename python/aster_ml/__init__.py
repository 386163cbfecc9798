"""aster_ml: lazy tensors, gradients and captured programs of libaster_ml, over its C interface.

    from aster_ml import Tensor, TinyJit, dtypes
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    print((x @ x).relu().sum(axis=0).numpy())

`library()` gives every C function with prototypes from the manifest. Errors are `aster_ml.Error`
with the library's message; there is a subclass a status, e.g. `library().errors[3]` for SHAPE.
"""

from .context import Context, current
from .dtype import DType, dtypes
from .jit import TinyJit
from .clib import Error, Library, library
from .tensor import Tensor, realize

__version__ = library().version().decode()
__all__ = "Context DType Error Library Tensor TinyJit current dtypes library realize".split()
