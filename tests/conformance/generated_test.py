"""The fixed part of the conformance run: generated cases against tinygrad's recorded answers, and
kernel counts against tinygrad's.

  generated_test.py cases ENGINE...     each engine against answers/generated.npz
  generated_test.py opencl K/N          every operator once on OPENCL, the Kth of N parts
  generated_test.py kernels             aster's against kernel_counts.json

answers/generated.npz comes from `python -m aster_ml.conformance tinygrad --record FILE --count 2
--seed 1`, kernel_counts.json from `... tinygrad --kernels FILE`.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

try:
    import numpy  # noqa: F401
except ImportError:
    python = os.environ.get("ASTER_ML_PYTHON")  # that of the oracles, scripts/test.sh sets it
    if python and os.path.realpath(python) != os.path.realpath(sys.executable):
        os.execv(python, [python, "-W", "ignore", *sys.argv])
    print("SKIPPED: needs a Python with NumPy: set ASTER_ML_PYTHON to one")
    sys.exit(77)

from aster_ml.conformance.__main__ import main  # noqa: E402

RECORDED = "recorded:" + os.path.join(HERE, "answers", "generated.npz")


def cases(engines):
    """The status of all engines' runs; what is kept is replayed by the full run, which asks."""
    return max(main([engine, RECORDED, "--no-shrink", "--kept", "none"]) for engine in engines)


def opencl(share):
    from aster_ml import Device

    if "CL" not in Device.get_available_devices():
        print("SKIPPED: no OpenCL device is installed")
        return 77
    few = ["--each", "1", "--share", share, "--timeout", "600"]
    return main(["aster:opencl", RECORDED, "--no-shrink", "--kept", "none", *few])


def kernels():
    return main(["aster:cpu", "--kernels", os.path.join(HERE, "kernel_counts.json")])


if __name__ == "__main__":
    parts = {"cases": lambda: cases(sys.argv[2:]), "opencl": lambda: opencl(sys.argv[2])}
    sys.exit(parts.get(sys.argv[1], kernels)())
