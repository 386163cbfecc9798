"""Where tinygrad runs its schedules, which stay inside the library here."""

from ..absent import of_module

__getattr__ = of_module("engine.realize")
