"""The environment variables that steer the package; those that begin as ours and are not get a
warning, as a misspelt one has no effect."""

from __future__ import annotations

import difflib
import os
import sys
import warnings

# Read by the library (src/base/flags.def), then by the package.
LIBRARY = """ASTER_ML_CACHE_DIR ASTER_ML_CACHE_LIMIT_MB ASTER_ML_CC ASTER_ML_NO_FALLBACK
ASTER_ML_NO_SIZES ASTER_ML_NO_KEPT_SCHEDULES ASTER_ML_BEAM ASTER_ML_TIERS ASTER_ML_FLT_ROUNDING
ASTER_ML_CHECK_KERNELS ASTER_ML_BLAS ASTER_ML_MPFR
ASTER_ML_OPENCL_LIBRARY ASTER_ML_OPENCL_AS ASTER_ML_THREADS ASTER_ML_LLVM
ASTER_ML_REGISTRY ASTER_ML_TRACE""".split()
PACKAGE = ["ASTER_ML_DATASETS"]
# Read by the programs that test and build it.
_TOOLS = """ASTER_ML_PYTHON ASTER_ML_PYTHON_AGAIN ASTER_ML_CONFORMANCE_AGAIN ASTER_ML_TORCH_PYTHON
ASTER_ML_TEST_DATA ASTER_ML_LIB ASTER_ML_LIBRARY ASTER_ML_MANIFEST""".split()


_PREFIX = "ASTER_ML_"


def warn_of_unknown() -> None:
    """A warning for every variable that begins with ASTER_ML_ and is none."""
    known = LIBRARY + PACKAGE
    for name in sorted(os.environ):
        if not name.startswith(_PREFIX) or name in known or name in _TOOLS:
            continue
        endings = [k.removeprefix(_PREFIX) for k in known]
        close = difflib.get_close_matches(name.removeprefix(_PREFIX), endings, 1)
        hint = f"{_PREFIX}{close[0]}?" if close else f"there are {', '.join(known)}"
        warnings.warn(f"the environment variable {name} means nothing: {hint}", stacklevel=3)


def warn(line: str) -> None:
    """What the library logs, as a RuntimeWarning at the program's line that called the package."""
    package, frame, level = __name__.partition(".")[0], sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(line, RuntimeWarning, stacklevel=level)
