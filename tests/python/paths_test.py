"""Programs import from tinygrad's modules: every name is here, or says why it is not."""

import importlib
import types

import pytest

import aster_ml
from aster_ml import Tensor, errors

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


def named(module):
    return importlib.import_module(f"aster_ml.{module}".rstrip("."))


@pytest.mark.parametrize("module", IMPORTED)
def test_names_that_programs_import(module):
    for name in IMPORTED[module].split():
        assert getattr(named(module), name) is not None, name


@pytest.mark.parametrize(
    "module",
    ["helpers", "device", "dtype", "engine.jit", "engine.realize", "function", "nn", "nn.datasets",
     "nn.onnx", "nn.optim", "nn.state", "tensor", "llm.gguf", "uop", "uop.ops"],
)  # fmt: skip
def test_every_public_name_of_tinygrad_is_here_or_says_why_not(module):
    pytest.importorskip("tinygrad")
    theirs = pytest.importorskip(f"tinygrad.{module}")
    ours, silent = named(module), []
    for name, value in vars(theirs).items():
        here = getattr(value, "__module__", None) == theirs.__name__
        if name[0] == "_" or name == "count" or isinstance(value, types.ModuleType) or not here:
            continue
        try:
            getattr(ours, name)
        except errors.NotOffered as error:
            assert isinstance(error, ImportError) and "is not offered: " in str(error)
        except AttributeError:
            silent.append(name)
    inside = {"function": ["add_to_ctx", "invalid_outputs", "renumber_invalid_outputs"],
              "nn.state": ["accept_filename"]}  # fmt: skip
    assert silent == inside.get(module, [])


def test_an_import_says_why():
    with pytest.raises(ImportError, match="uop.ops.PatternMatcher is not offered: kernels and"):
        from aster_ml.uop.ops import PatternMatcher  # noqa: F401
    with pytest.raises(ImportError, match="device.Buffer is not offered: devices are"):
        from aster_ml.device import Buffer  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name"):
        from aster_ml.helpers import nothing_of_the_kind  # noqa: F401
    with pytest.raises(AttributeError, match="nothing"):
        aster_ml.uop.ops.__nothing__  # noqa: B018


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
