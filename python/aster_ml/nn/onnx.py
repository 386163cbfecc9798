"""Where tinygrad reads ONNX files, which is no part of this package."""

from ..absent import of_module

__getattr__ = of_module("nn.onnx")
