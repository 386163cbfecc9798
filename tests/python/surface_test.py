"""The public names of tinygrad are here, with its parameters and defaults (needs tinygrad).

What is not offered stands in docs/DIFFERENCES.md; what only looks different in the tables below.
"""

import inspect
import types

import pytest

import aster_ml
import aster_ml.nn.datasets

tinygrad = pytest.importorskip("tinygrad")
pytest.importorskip("tinygrad.nn.datasets")

# Ours take what theirs take, and are declared otherwise.
DECLARED_OTHERWISE = {
    "Tensor.__init__",  # __new__ takes the arguments
    "Tensor.decode_hevc_frame",  # not offered: raises
    "Tensor.gradient",  # materialize_grads besides
    "nn.state.safe_load_metadata",  # theirs hide `fn` behind a decorator
    "nn.state.zip_extract",
    "nn.state.tar_extract",
    "nn.state.torch_load",
    "Variable",  # param=True makes a parameter of a graph function
    "fetch",  # headers=None for {}
}
NOT_OFFERED = {
    "nn.state.accept_filename",  # the decorator
    "Device.get_class",  # classes of runtimes
}
SETTINGS = {"fused": "FUSE_OPTIM"}


def parameters(function):
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind, default_of(p)) for p in found]


def default_of(parameter):
    if parameter.name in SETTINGS:
        return SETTINGS[parameter.name]
    if callable(parameter.default) and parameter.default is not inspect.Parameter.empty:
        return "a function"
    return repr(parameter.default)


def differences(where, theirs, ours, names):
    for name in names:
        full = f"{where}.{name}".strip(".")
        if full in NOT_OFFERED:
            continue
        if not hasattr(ours, name):
            yield f"{full} is missing"
            continue
        a, b = getattr(theirs, name), getattr(ours, name)
        if not callable(a) or full in DECLARED_OTHERWISE or inspect.isclass(a):
            continue
        if not callable(b):
            yield f"{full} cannot be called"
        elif None not in (wanted := parameters(a), found := parameters(b)) and wanted != found:
            yield f"{full}{inspect.signature(a)}, here {inspect.signature(b)}"


def public(thing):
    return [n for n in dir(thing) if not n.startswith("_") or n in ("__init__", "__call__")]


def defined_in(module):
    here = module.__name__
    return [n for n in public(module) if getattr(getattr(module, n), "__module__", None) == here]


def checked():
    yield "Tensor", tinygrad.Tensor, aster_ml.Tensor, public(tinygrad.Tensor)
    yield "dtypes", tinygrad.dtypes, aster_ml.dtypes, public(tinygrad.dtypes)
    for name in ("TinyJit", "Context", "GlobalCounters"):
        theirs, ours = getattr(tinygrad, name), getattr(aster_ml, name)
        yield name, theirs, ours, public(theirs)
    yield "Device", type(tinygrad.Device), type(aster_ml.Device), public(type(tinygrad.Device))
    names = [n for n in public(tinygrad) if not isinstance(getattr(tinygrad, n), types.ModuleType)]
    yield "", tinygrad, aster_ml, names
    for path in ("nn", "nn.optim", "nn.state", "nn.datasets"):
        theirs, ours = tinygrad, aster_ml
        for part in path.split("."):
            theirs, ours = getattr(theirs, part), getattr(ours, part)
        names = defined_in(theirs)
        yield path, theirs, ours, names
        for name in names:
            if inspect.isclass(getattr(theirs, name)) and hasattr(ours, name):
                inner = getattr(theirs, name)
                yield f"{path}.{name}", inner, getattr(ours, name), public(inner)


def test_names_parameters_and_defaults_are_tinygrads():
    found = [line for row in checked() for line in differences(*row)]
    assert not found, "\n".join(found)


def test_settings_are_names_of_helpers():
    import tinygrad.helpers as theirs

    import aster_ml.helpers

    settings = [v.key for v in vars(theirs).values() if isinstance(v, theirs.ContextVar)]
    missing = [n for n in settings if not hasattr(aster_ml.helpers, n)]
    assert settings
    assert not missing


def test_random_bits_are_tinygrads():
    def words(library, count):
        key = library.Tensor([7, 11], dtype="uint32")
        counter = library.Tensor([2**32 - 3, 5], dtype="uint32")
        return library.Tensor.random_bits(key, counter, count).tolist()

    for count in (0, 1, 2, 7):
        assert words(aster_ml, count) == words(tinygrad, count)
