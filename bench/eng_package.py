"""Ours, jitted, through the Python package, where DEV says. A call returns when it is done."""

import aster_ml
import front


class Engine(front.Engine):
    def __init__(self, threads):
        super().__init__(aster_ml)

    def version(self):
        return f"aster_ml {aster_ml.__version__} on {aster_ml.Device.DEFAULT}"
