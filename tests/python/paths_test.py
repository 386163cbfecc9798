"""Programs import from tinygrad's modules: every name is here, or says why it is not."""

import ast
import importlib
import importlib.util
import pathlib
import subprocess
import sys

import pytest

import aster_ml
from aster_ml import Tensor, absent, errors

# What programs written for tinygrad (its examples among them) import, by module.
IMPORTED = {
    "": """Context Device GlobalCounters Tensor TinyJit UOp Variable dtypes fetch function getenv
        nn""",
    "tensor": """Tensor DType DTypeLike PyConst UOp Variable all_int canonicalize_device
        cast dtypes getenv fetch is_numpy_ndarray least_upper_dtype sint strong_dtype to_dtype
        _from_np_dtype _to_np_dtype""",
    "dtype": """DType DTypeLike Invalid bitcast dtypes float_to_bf16 float_to_fp16 float_to_fp8
        fp8_to_float least_upper_dtype to_dtype truncate _from_np_dtype _from_torch_dtype
        _to_np_dtype _to_torch_dtype""",
    "device": "Device canonicalize_device is_dtype_supported",
    "engine.jit": "JitError TinyJit",
    "uop.ops": "UOp Variable resolve sint smax smin srender ssimplify sym_infer",
    "helpers": """BEAM CI Context ContextVar DEBUG GlobalCounters JIT OSX Profiling Timing WINO
        all_same ansilen ansistrip argfix argsort ceildiv colored cpu_profile dedup fetch flatten
        fully_flatten get_child getenv make_tuple merge_dicts next_power2 partition perf_counter_us
        polyN prod profile_marker round_up size_to_str stderr_log temp time_to_str tqdm trange
        unwrap word_wrap""",
    "llm.gguf": "ggml_data_to_tensor gguf_load",
    "nn": """BatchNorm BatchNorm2d Conv1d Conv2d ConvTranspose2d Embedding GroupNorm InstanceNorm
        LSTMCell LayerNorm LayerNorm2d Linear RMSNorm""",
    "nn.datasets": "cifar mnist",
    "nn.optim": "LAMB LARS SGD Adam AdamW Muon Optimizer OptimizerGroup",
    "nn.state": """get_parameters get_state_dict gguf_load load_state_dict safe_load
        safe_load_metadata safe_save tar_extract torch_load zip_extract""",
}


def named(module, package="aster_ml"):
    return importlib.import_module(f"{package}.{module}".rstrip("."))


@pytest.mark.parametrize("module", IMPORTED)
def test_names_that_programs_import(module):
    for name in IMPORTED[module].split():
        assert getattr(named(module), name) is not None, name


def defined(tree):
    """The public names that a module's own source gives."""
    names, todo = set(), list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names.update(x.id for x in ast.walk(target) if isinstance(x, ast.Name))
        elif not isinstance(node, ast.Expr):
            todo += [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.stmt)]
    return {name for name in names if name[0] != "_"}


def modules():
    found = importlib.util.find_spec("tinygrad")
    if found is None:
        return {}
    root = pathlib.Path(found.origin).parent
    files = {".".join(f.relative_to(root).with_suffix("").parts): f for f in root.rglob("*.py")}
    return {m.removesuffix("__init__").rstrip("."): f for m, f in sorted(files.items())}


def lacking(module, path):
    """The names of a module of tinygrad that are not here, and nothing says why."""
    try:
        ours = named(module)
    except errors.NotOffered as error:
        assert absent.why_not(module) in str(error)
        return
    theirs = named(module, "tinygrad")
    for name in sorted(defined(ast.parse(path.read_text()))):
        try:
            mine = getattr(ours, name)
        except errors.NotOffered as error:
            assert "is not offered: " in str(error)
            continue
        except AttributeError:
            yield name
            continue
        kind = getattr(theirs, name, None)
        if not isinstance(kind, type) or not isinstance(mine, type):
            continue
        # What is mixed into tinygrad's Tensor is in ours; the parts are others.
        mine = Tensor if module.startswith("mixin.") else mine
        rows = absent.MEMBERS.get(f"{module}.{kind.__name__}", {})
        for member in dir(kind):
            if member[0] != "_" and not hasattr(mine, member):
                if member not in rows and "*" not in rows:
                    yield f"{name}.{member}"


@pytest.mark.parametrize("module", modules())
def test_every_public_name_of_tinygrad_is_here_or_says_why_not(module):
    assert list(lacking(module, modules()[module])) == []


def test_the_walk_finds_what_is_lacking(tmp_path):
    pytest.importorskip("tinygrad")
    (tmp_path / "m.py").write_text("""
if True:
    def flatten(x): ...
    for _ in (): novelty, (second, _third) = other = {v: v for v in ()}
class Timing:
    inner = 1
def diskcache(f): local = 1
""")
    assert list(lacking("helpers", tmp_path / "m.py")) == ["novelty", "other", "second"]


def test_reasons_are_of_names_that_tinygrad_has():
    found = modules()
    if not found:
        pytest.skip("needs tinygrad")
    for module in absent.MODULES:
        assert module in found, module
        assert absent.why_not(f"{module}.any.below") == absent.MODULES[module]
    for module, names in absent.REASONS.items():
        theirs = defined(ast.parse(found[module].read_text()))
        stale = [n for n in names if n != "*" and n not in theirs]
        assert not stale, (module, stale)
    for path, names in absent.MEMBERS.items():
        module, _, kind = path.rpartition(".")
        theirs = getattr(named(module, "tinygrad"), kind)
        assert all(n == "*" or hasattr(theirs, n) for n in names), path
    page = (pathlib.Path(__file__).parents[2] / "docs" / "DIFFERENCES.md").read_text()
    rows = page[page.index("## Not offered") :]
    for module in absent.MODULES:
        assert f"`{module}`" in rows, module


def test_an_import_says_why():
    with pytest.raises(ImportError, match="uop.ops.PatternMatcher is not offered: kernels and"):
        from aster_ml.uop.ops import PatternMatcher  # noqa: F401
    with pytest.raises(ImportError, match="device.Buffer is not offered: devices are"):
        from aster_ml.device import Buffer  # noqa: F401
    with pytest.raises(ImportError, match="renderer is not offered: kernels are rendered"):
        from aster_ml.renderer.cstyle import ClangRenderer  # noqa: F401
    with pytest.raises(ImportError, match="codegen is not offered: kernels are made"):
        importlib.import_module("aster_ml.codegen.opt")
    with pytest.raises(ModuleNotFoundError, match="No module named 'aster_ml.nothing'"):
        importlib.import_module("aster_ml.nothing")
    with pytest.raises(ImportError, match="cannot import name"):
        from aster_ml.helpers import nothing_of_the_kind  # noqa: F401
    with pytest.raises(AttributeError, match="nothing"):
        aster_ml.uop.ops.__nothing__  # noqa: B018


@pytest.mark.parametrize("path", ["uop.ops", "llm.gguf", "engine.jit", "nn.state"])
def test_modules_inside_packages_that_are_not_imported_yet(path):
    package, name = path.split(".")
    program = f"from aster_ml.{package} import {name}; print({name}.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == f"aster_ml.{path}", done.stderr


def test_symbolic_numbers():
    from aster_ml.uop.ops import UOp, Variable, resolve, smax, smin, ssimplify, sym_infer

    tinygrad = pytest.importorskip("tinygrad")
    ops = pytest.importorskip("tinygrad.uop.ops")
    assert UOp.variable("n", 1, 10).bind(3) == 3
    n, theirs = Variable("n", 1, 10), tinygrad.Variable("n", 1, 10)
    for build in (
        lambda v, s: s.smax(v, 4),
        lambda v, s: s.smin(v, 4, 2),
        lambda v, s: s.smax(v * 2 + 1, v),
        lambda v, s: s.smin((v, 20)),
        lambda v, s: s.smax(v, 0),
        lambda v, s: (v * 6 + 4) // 2 % 7,
    ):
        for value in (1, 3, 10):
            mine = sym_infer(build(n, named("uop.ops")), {"n": value})
            assert mine == ops.sym_infer(build(theirs, ops), {"n": value})
    assert smax(n, 12) == 12 and smin(n, 12) is n and smax(3, 5) == 5
    assert smax(n.bind(4), 6) == 6 and smin(n.bind(4), 6) == 4
    assert resolve(n < 11) and not resolve(n > 10) and resolve(n < 5, False) is False
    assert ssimplify(7) == 7 and Tensor.ones(10)[: smin(n.bind(4), 6)].shape[0] == 4


def test_helpers(capfd):
    theirs = pytest.importorskip("tinygrad.helpers")
    ours = aster_ml.helpers
    red = ours.colored("abcdef", "red")
    for text in ("", "short", "x" * 30, "one\ntwo " + "y" * 25, red * 4, "a" * 10 + red + "b" * 9):
        assert ours.word_wrap(text, 10) == theirs.word_wrap(text, 10), text
        assert ours.ansipad(text, 8) == theirs.ansipad(text, 8)
    for text in ("", "(a)", "(a)+(b)", "((a))", "(", ")", "a", "(a)(b)"):
        assert ours.strip_parens(text) == theirs.strip_parens(text), text
    for x in (0.1, 0.75, 1.0, 1.15, 1.2):
        assert ours.colorize_float(x) == theirs.colorize_float(x)
    for x, y in ((7, 2), (-7, 2), (7, -2), (7, 0)):
        assert ours.floordiv(x, y) == theirs.floordiv(x, y)
        assert ours.floormod(x, y) == theirs.floormod(x, y)
    word = 0x0123456789ABCDEF
    assert ours.data64(word) == theirs.data64(word)
    assert ours.data64_le(word) == theirs.data64_le(word)
    assert ours.getbits(word, 5, 17) == theirs.getbits(word, 5, 17)
    assert ours.system("echo two words") == "two words"
    with pytest.raises(RuntimeError, match="failed with exit code 1"):
        ours.system("false")
    ours.stderr_log("note")
    assert capfd.readouterr().err == "note"
    with ours.Profiling(frac=1.0):
        Tensor([1.0]).exp().tolist()
    assert "tolist" in capfd.readouterr().out
    with ours.Profiling(enabled=False), ours.cpu_profile("block"):
        ours.profile_marker("moment")
    assert capfd.readouterr().out == ""


def test_names_that_are_not_offered_are_no_attributes():
    """What goes through all modules and asks, as torch.compile does, hears no; imports hear why."""
    import aster_ml.helpers
    import aster_ml.llm
    import aster_ml.nn.onnx
    import aster_ml.uop.ops

    for module, name in (
        (aster_ml.llm, "torch"),
        (aster_ml.nn.onnx, "torch"),
        (aster_ml.uop.ops, "PatternMatcher"),
        (aster_ml.helpers, "diskcache"),
    ):
        assert not hasattr(module, name)
        with pytest.raises(errors.NotOffered, match="is not offered: "):
            getattr(module, name)
        with pytest.raises(ImportError, match="is not offered: "):
            exec(f"from {module.__name__} import {name}")
