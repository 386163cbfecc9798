"""Lets the cases here use the tool's modules, as aster_conformance: without the package around it,
which needs its built extension."""

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "python", "aster_ml", "conformance")

if "aster_conformance" not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        "aster_conformance",
        os.path.join(FOLDER, "__init__.py"),
        submodule_search_locations=[os.path.abspath(FOLDER)],
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["aster_conformance"] = package
    spec.loader.exec_module(package)
