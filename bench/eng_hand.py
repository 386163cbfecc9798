"""The limits: loops by hand (hand.c) and the peak of multiply-adds, one thread."""

import ctypes
import os

import numpy as np

POINTER = ctypes.c_void_p


class Engine:
    def __init__(self, threads):
        if threads != 1:
            raise RuntimeError("one thread only")
        self.lib = ctypes.CDLL(os.environ["BENCH_HAND_LIB"])
        self.lib.hand_sum.restype = ctypes.c_float
        self.lib.hand_peak.restype = ctypes.c_double

    def version(self):
        return "loops by hand"

    def peak(self):
        """GFLOP/s."""
        return self.lib.hand_peak()

    def build(self, name, inputs, parameters):
        arrays = list(inputs.values())
        x = arrays[0]
        at = [POINTER(array.ctypes.data) for array in arrays]
        if name == "sum_16M":
            return lambda: self.lib.hand_sum(at[0], ctypes.c_size_t(x.size))
        out = aligned(x.shape)
        to, size = POINTER(out.ctypes.data), ctypes.c_size_t
        if name == "add_16M":
            # What is faster depends on the cache behind it: both are tried.
            call = self.faster(
                lambda: self.lib.hand_add(to, *at, size(x.size)),
                lambda: self.lib.hand_add_stream(to, *at, size(x.size)),
            )
        elif name == "gelu_fma_16M":
            call = lambda: self.lib.hand_gelu(to, *at, *map(size, x.shape))  # noqa: E731
        elif name == "softmax_4096":
            call = lambda: self.lib.hand_softmax(to, *at, *map(size, x.shape))  # noqa: E731
        else:
            raise NotImplementedError("no row")

        def run():
            call()
            return out

        return run

    def faster(self, first, second):
        import time

        least = []
        for call in (first, second):
            times = []
            for _ in range(5):
                begin = time.process_time()
                call()
                times.append(time.process_time() - begin)
            least.append(min(times))
        return first if least[0] < least[1] else second

    def to_np(self, result):
        return np.asarray(result)


def aligned(shape):
    """A float array whose memory begins at a cache line."""
    count = int(np.prod(shape))
    memory = np.empty(count + 16, np.float32)
    skip = -(memory.ctypes.data // 4) % 16
    return memory[skip : skip + count].reshape(shape)
