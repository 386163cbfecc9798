"""python -m aster_ml: versions, the machine as the library sees it, and what steers it."""

import os
import platform
import sys

import aster_ml
from aster_ml import Device, _native


def info() -> str:
    """A line a fact."""
    found = _native.runtime_get()
    compiler = f"{found['compiler']}: {found['compiler_version']}"
    blas = f"{found['blas']}: {found['blas_config']}"
    cache = f"{found['cache_dir']}: {found['cache_entries']} files"
    if found["cache_problem"]:
        cache += f" (not used: {found['cache_problem']})"
    facts = {
        "aster_ml": f"{aster_ml.__version__} in {os.path.dirname(aster_ml.__file__)}",
        "Python": f"{platform.python_version()}, {sys.executable}",
        "CPU": found["cpu"],
        "vectors": f"{found['vector_bytes']} bytes",
        "threads": found["threads"],
        "devices": ", ".join(Device.get_available_devices()),
        "compiler": compiler if found["compiler"] else "none; kernels are interpreted",
        "BLAS": blas if found["blas"] else "none",
        "cache": cache if found["cache_dir"] else "none",
    }
    return "\n".join(f"{name:9} {fact}" for name, fact in facts.items())


if __name__ == "__main__":
    print(info())
