"""Symbolic numbers under tinygrad's path; its operations on graphs are not offered."""

from ..absent import of_module

__getattr__ = of_module("uop")
