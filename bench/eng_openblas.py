"""OpenBLAS called directly. Debian's 0.3.21 takes newer CPUs for older ones, so its kernels are
chosen here as the library's own loader does; the version says which they are."""

import ctypes
import ctypes.util
import glob
import os

import numpy as np


def best_core():
    """The newest kernels that 0.3.21 has for this CPU, or none to leave it alone."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    if "avx512vl" in flags and "avx512dq" in flags:
        return "SkylakeX"
    return "Haswell" if "avx2" in flags else None


class Engine:
    def __init__(self, threads):
        core = best_core()
        if core:
            os.environ.setdefault("OPENBLAS_CORETYPE", core)
        kind = "serial" if threads == 1 else "pthread"
        found = glob.glob(f"/usr/lib/*/openblas-{kind}/libopenblas.so.0")
        path = found[0] if found else ctypes.util.find_library("openblas")
        if not path:
            raise RuntimeError("no OpenBLAS")
        self.lib = ctypes.CDLL(path)
        if threads > 1:
            self.lib.openblas_set_num_threads(threads)
        self.lib.openblas_get_config.restype = ctypes.c_char_p
        self.lib.openblas_get_corename.restype = ctypes.c_char_p

    def version(self):
        config = self.lib.openblas_get_config().decode().split()
        return " ".join(config[:2]) + " " + self.lib.openblas_get_corename().decode()

    def build(self, name, inputs, parameters):
        if not name.startswith("gemm_"):
            raise NotImplementedError("no row")
        x, y = inputs["x"], inputs["y"]
        n = x.shape[0]
        out = np.empty_like(x)
        at = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, out)]
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def run():
            self.lib.cblas_sgemm(101, 111, 111, n, n, n, one, at[0], n, at[1], n, zero, at[2], n)
            return out

        return run

    def to_np(self, result):
        return result
