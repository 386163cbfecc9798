"""Runs the examples in the docstrings of the package, and asks each public method for one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import aster_ml
from aster_ml import Context, Device, GlobalCounters, Tensor, TinyJit, Variable, dtypes, nn

# What a module's examples need not import.
NAMES = dict(
    Context=Context,
    Device=Device,
    GlobalCounters=GlobalCounters,
    Tensor=Tensor,
    TinyJit=TinyJit,
    Variable=Variable,
    dtypes=dtypes,
    nn=nn,
)
SKIPPED = ("aster_ml._native", "aster_ml.conformance")
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(aster_ml.__path__, "aster_ml.")
    if not name.startswith(SKIPPED)
]
# Methods whose docstring says what is missing, and such as only others call.
WITHOUT_EXAMPLE = """alu as_param call callify custom_kernel decode_hevc_frame from_url
linear_with_vars schedule_linear shard shard_ uop""".split()


@pytest.mark.parametrize("name", ["aster_ml", *MODULES])
def test_examples(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    report = []
    for test in finder.find(module, name, extraglobs=NAMES):
        runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)


def test_every_public_method_has_an_example():
    bare = []
    for name, member in inspect.getmembers(Tensor):
        if name.startswith("_") or name in WITHOUT_EXAMPLE:
            continue
        if ">>>" not in (inspect.getdoc(member) or ""):
            bare.append(name)
    assert not bare
