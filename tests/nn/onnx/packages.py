"""The packages that the tests beside this need: where they are not here the test runs again by
$ASTER_ML_PYTHON, that of the oracles, which scripts/test.sh sets; else it ends with status 77."""

import os
import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.backend.test.loader import load_model_tests
    from onnx.reference import ReferenceEvaluator
except ImportError:
    python = os.environ.get("ASTER_ML_PYTHON")
    if python and not os.environ.get("ASTER_ML_PYTHON_AGAIN"):
        os.environ["ASTER_ML_PYTHON_AGAIN"] = "1"
        os.execv(python, [python, *sys.argv])
    print("SKIPPED: needs a Python with numpy and onnx: set ASTER_ML_PYTHON to one")
    sys.exit(77)

__all__ = [
    "ReferenceEvaluator",
    "TensorProto",
    "helper",
    "load_model_tests",
    "np",
    "numpy_helper",
    "onnx",
]
