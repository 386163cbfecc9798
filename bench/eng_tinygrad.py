"""tinygrad, jitted, on the CPU through clang, or where DEV says."""

import importlib.metadata
import os

os.environ.setdefault("DEV", "CPU")

import front  # noqa: E402
import tinygrad  # noqa: E402


class Engine(front.Engine):
    def __init__(self, threads):
        super().__init__(tinygrad)
        self.device = tinygrad.Device[tinygrad.Device.DEFAULT]

    def version(self):
        return "tinygrad " + importlib.metadata.version("tinygrad")

    def wait(self):
        self.device.synchronize()
