"""aster_ml.freeze: what comes out, loaded by ctypes, gives the engine's bits."""

import ctypes
import pathlib
import shutil
import sys

import numpy as np
import pytest

from aster_ml import Tensor, dtypes, export, freeze
from aster_ml.nn.onnx import OnnxRunner

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


class _Frozen:
    """A frozen library; memory is the caller's, which is checked around it."""

    def __init__(self, path, name):
        self.library = ctypes.CDLL(str(path))
        header = path.with_name(f"{name}.h").read_text()
        size = header.split(f"{name.upper()}_MEMORY_BYTES ")[1].split("ll")[0]
        self.memory, self.name = np.full(int(size) + 192, 77, np.uint8), name
        begin = -self.memory.ctypes.data % 64 + 64
        self.place = self.memory[begin : begin + int(size)]
        self.around = self.memory[:begin], self.memory[begin + int(size) :]

    def call(self, what, *arrays):
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (self.place, *arrays)]
        assert getattr(self.library, f"{self.name}_{what}")(*pointers) == 0
        assert all((part == 77).all() for part in self.around)


def _same_bits(folder, fn, *arrays, name="net", **options):
    given = [Tensor(a).realize() for a in arrays]
    path = folder / f"lib{name}.so"
    freeze(fn, *given, path=path, **options)
    made = fn(*given)
    wanted = [y.numpy() for y in ([made] if isinstance(made, Tensor) else made)]
    frozen = _Frozen(path, name)
    frozen.call("init")
    for _ in range(2):
        results = [np.empty_like(y) for y in wanted]
        frozen.call("run", *arrays, *results)
        for got, want in zip(results, wanted):
            assert got.tobytes() == want.tobytes(), np.abs(got - want).max()
    return frozen


def _random(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _models():
    pytest.importorskip("onnx")
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
    import onnx_models

    return onnx_models


def _of(model, *names):
    """A function of the inputs of a model; all of its results."""
    run = OnnxRunner(Tensor(model.SerializeToString()))

    def fn(*given):
        results = run.lazy(dict(zip(run.graph_inputs, given)))
        return [results[name] for name in run.graph_outputs]

    return fn


def test_a_decoder_has_the_engines_bits(tmp_path):
    """GPT-2's shape: the words of a text, then one more with the keys and values of those."""
    ids = np.random.default_rng(1).integers(0, 50, (1, 12))
    made = {"layers": 2, "width": 64, "heads": 4, "words": 50}
    _same_bits(tmp_path, _of(_models().gpt2(12, **made)), ids, name="prefill")
    past = [_random(i, 1, 4, 12, 16) for i in range(4)]
    _same_bits(tmp_path, _of(_models().gpt2(1, 12, **made)), ids[:, :1], *past, name="token")


def test_an_encoder_has_the_engines_bits(tmp_path):
    rng = np.random.default_rng(2)
    ids, mask = rng.integers(0, 50, (2, 9)), np.ones((2, 9), np.int64)
    mask[1, 5:] = 0
    made = {"layers": 2, "width": 64, "heads": 4, "words": 50}
    _same_bits(tmp_path, _of(_models().bert("batch", "length", **made)), ids, mask, threads=2)


def test_quantised_weights_stay_so(tmp_path):
    """int8 with a scale a row, and nibbles: what is frozen has not become floats."""
    weight = _random(3, 512, 1024)
    scale = np.abs(weight).max(1, keepdims=True) / 127
    rows = Tensor(np.rint(weight / scale).astype(np.int8)).realize()
    scales = Tensor(scale[:, 0]).realize()
    x = _random(4, 1, 1024)
    path = tmp_path / "net.constants"

    def linear(x):
        return x @ rows.cast(dtypes.float32).transpose() * scales

    given = Tensor(x).realize()
    freeze(linear, given, path=tmp_path / "net.c", side_file=True)
    assert 512 * 1024 <= path.stat().st_size < 1.1 * 512 * 1024
    _same_bits(tmp_path, linear, x)

    low = (rows.cast(dtypes.uint8) & 15).realize()
    nibbles = (low[:256] + low[256:] * 16).realize()

    def of_nibbles(x):
        unpacked = (nibbles & 15).cat(nibbles >> 4).cast(dtypes.float32) - 8
        return x @ unpacked.transpose() * scales

    freeze(of_nibbles, given, path=tmp_path / "net.c", side_file=True)
    assert 256 * 1024 <= path.stat().st_size < 1.1 * 256 * 1024
    _same_bits(tmp_path, of_nibbles, x, name="nibbles")


class _Instance(ctypes.Structure):
    """aster_ml_dynamic_kernel_instance."""

    _fields_ = [
        ("kernel", ctypes.POINTER(ctypes.c_void_p * 2)),  # function, destructor
        ("size", ctypes.c_size_t),
        ("free", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


def test_kernels_are_called_as_blaze_kernels(tmp_path):
    weight = Tensor(_random(6, 4, 5)).realize()
    x = _random(7, 3, 4)

    def fn(x):
        return (x @ weight).softmax()

    freeze(fn, Tensor(x), path=tmp_path / "libnet.so", kernel=True)
    freeze(fn, Tensor(x), path=tmp_path / "libplain.so")
    assert '"float32[3, 4] -> float32[3, 5]"' in (tmp_path / "net.h").read_text()
    assert "plain_kernel" not in (tmp_path / "plain.h").read_text()
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    made, want = _Instance(), fn(Tensor(x)).numpy()
    assert library.net_kernel(ctypes.byref(made)) == 0
    kernel = ctypes.cast(made.kernel, ctypes.c_void_p)
    function, destructor = made.kernel.contents
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(function)
    for _ in range(2):
        y = np.empty_like(want)
        results = (ctypes.c_void_p * 1)(y.ctypes.data)
        call(results, (ctypes.c_void_p * 1)(x.ctypes.data), kernel)
        assert y.tobytes() == want.tobytes()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(destructor)(kernel)
    made.free(kernel)
    with pytest.raises(Exception, match="gives nobody a kernel"):
        freeze(fn, Tensor(x), path=tmp_path / "net", kernel=True)
    assert not (tmp_path / "net").exists()


def test_programs_are_frozen_too(tmp_path):
    x = _random(5, 3, 4)
    data = export(lambda x: (x @ x.transpose()).softmax(), Tensor(x))
    (tmp_path / "net.aster").write_bytes(data)
    for source in (data, tmp_path / "net.aster"):
        freeze(source, path=tmp_path / "libnet.so", targets=["native"])
        assert (tmp_path / "net.h").exists()
    with pytest.raises(TypeError, match="go with a function"):
        freeze(data, Tensor(x), path=tmp_path / "no.so")
    with pytest.raises(Exception, match="target 'vax'"):
        freeze(data, path=tmp_path / "no.so", targets=["vax"])
    with pytest.raises(FileNotFoundError):
        freeze(tmp_path / "none.aster", path=tmp_path / "no.so")
    assert not list(tmp_path.glob("no*"))
