"""Layers, optimisers and states against formulas in NumPy, and against files of their own."""

import io
import json
import math
import pathlib
import pickle
import struct
import warnings
import zipfile

import numpy as np
import pytest

from aster_ml import Context, Tensor, nn
from aster_ml.nn.state import (
    TensorIO,
    get_parameters,
    get_state_dict,
    load_state_dict,
    safe_load,
    safe_load_metadata,
    safe_save,
    tar_extract,
    torch_load,
    zip_extract,
)


def array(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


# ---- layers


def test_linear_and_embedding():
    layer, x = nn.Linear(3, 4), array(2, 3)
    expected = x @ layer.weight.numpy().T + layer.bias.numpy()
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(layer.weight.numpy()).max() <= 1 / np.sqrt(3)
    table = nn.Embedding(5, 3)
    np.testing.assert_array_equal(table(Tensor([[4, 0]])).numpy(), table.weight.numpy()[[[4, 0]]])
    with pytest.raises(TypeError):
        table(Tensor([1.0]))


@pytest.mark.parametrize(
    "layer, axes",
    [
        (nn.LayerNorm((4, 5)), (2, 3)),
        (nn.LayerNorm2d(3), (1,)),
        (nn.InstanceNorm(3), (2, 3)),
        (nn.GroupNorm(1, 3), (1, 2, 3)),
    ],
)
def test_norms(layer, axes):
    x = array(2, 3, 4, 5)
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    np.testing.assert_allclose(
        layer(Tensor(x)).numpy(), (x - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5
    )
    layer(Tensor(x)).square().sum().backward()
    assert layer.weight.grad is not None and layer.bias.grad is not None


def test_batch_norm_trains_and_rests():
    layer, x = nn.BatchNorm(3), array(4, 3, 2)
    mean, var = x.mean((0, 2)), x.var((0, 2))
    with Context(TRAINING=1):
        out = layer(Tensor(x)).numpy()
    expected = (x - mean[:, None]) / np.sqrt(var + 1e-5)[:, None]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * var * 8 / 7, rtol=1e-5)
    assert layer.num_batches_tracked.item() == 1
    rest = (x - 0.1 * mean[:, None]) / np.sqrt(layer.running_var.numpy() + 1e-5)[:, None]
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), rest, rtol=1e-4, atol=1e-5)


def test_convolutions_keep_their_adjoint():
    """<conv(x), y> = <x, conv_transpose(y)> for the same weight."""
    x, y = array(1, 2, 5, 6), array(1, 3, 2, 2)
    weight = Tensor(array(3, 2, 3, 2))
    options = dict(stride=2, padding=(1, 0), dilation=(1, 2))
    forward = Tensor(x).conv2d(weight, **options)
    assert forward.shape == (1, 3, 3, 2)
    y = array(*forward.shape)
    back = Tensor(y).conv_transpose2d(weight, output_padding=(0, 1), **options)
    assert back.shape == x.shape
    left, right = (forward.numpy() * y).sum(), (back.numpy() * x).sum()
    np.testing.assert_allclose(left, right, rtol=1e-4)
    same = nn.Conv2d(2, 4, 3, padding="same")
    assert same(Tensor(x)).shape == (1, 4, 5, 6)
    with pytest.raises(ValueError):
        nn.Conv2d(2, 4, 3, padding="other")
    with pytest.raises(ValueError):
        Tensor(x).conv2d(weight, stride=(1, 2, 3))


def test_lstm_cell():
    cell, x = nn.LSTMCell(3, 2), array(4, 3)
    h, c = cell(Tensor(x))
    gates = x @ cell.weight_ih.numpy().T

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    i, _, g, o = np.split(gates, 4, axis=1)
    expected = sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(c.numpy(), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h.numpy(), sigmoid(o) * np.tanh(expected), rtol=1e-4, atol=1e-6)


# ---- optimisers


def steps(make, count=5, fused=False):
    """The parameters after steps on sum((w - 1)^2), w beginning at [2, -1] and [[3]]."""
    ws = [Tensor([2.0, -1.0]), Tensor([[3.0]])]
    optimizer = make(ws)
    with Context(TRAINING=1):
        for _ in range(count):
            optimizer.zero_grad()
            sum(((w - 1) ** 2).sum() for w in ws).backward()
            optimizer.step()
    return [w.numpy().ravel() for w in ws]


def reference(update, count=5):
    out = []
    for w in (np.array([2.0, -1.0]), np.array([3.0])):
        state = {}
        for t in range(1, count + 1):
            w = update(w, 2 * (w - 1), t, state)
        out.append(w)
    return out


def sgd(w, g, t, s):
    g = g + 0.01 * w
    s["b"] = 0.9 * s.get("b", 0) + g
    return w - 0.1 * (g + 0.9 * s["b"])


def adamw(w, g, t, s, decay=0.01):
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    m, v = s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.999**t)
    return w - 0.1 * (m / (np.sqrt(v) + 1e-8) + decay * w)


def lamb(w, g, t, s):
    up = w - adamw(w, g, t, s, 0.0)
    up = up / 0.1
    return w - 0.1 * np.linalg.norm(w) / np.linalg.norm(up) * up


def lars(w, g, t, s):
    r1, r2 = np.linalg.norm(w), np.linalg.norm(g)
    g = (g + 1e-4 * w) * (0.001 * r1 / (r2 + 1e-4 * r1)) * 0.1
    s["b"] = 0.9 * s.get("b", 0) + g
    return w - s["b"]


@pytest.mark.parametrize(
    "make, update",
    [
        (lambda p: nn.optim.SGD(p, 0.1, 0.9, 0.01, nesterov=True), sgd),
        (lambda p: nn.optim.AdamW(p, 0.1), adamw),
        (lambda p: nn.optim.AdamW(p, 0.1, fused=True), adamw),
        (lambda p: nn.optim.Adam(p, 0.1), lambda *a: adamw(*a, 0.0)),
        (lambda p: nn.optim.LAMB(p, 0.1, eps=1e-8), lamb),
        (lambda p: nn.optim.LARS(p, 0.1), lars),
        (lambda p: nn.optim.OptimizerGroup(*(nn.optim.AdamW([w], 0.1) for w in p)), adamw),
    ],
)  # fmt: skip
def test_optimisers(make, update):
    for got, expected in zip(steps(make), reference(update)):
        np.testing.assert_allclose(got, expected, rtol=2e-4)


def test_optimisers_refuse():
    w = Tensor([1.0])
    for make in (nn.optim.SGD, nn.optim.Adam):
        with pytest.raises(ValueError):
            make([w], lr=-1)
        with pytest.raises(AssertionError):
            make([])
    with pytest.raises(RuntimeError):
        nn.optim.SGD([w]).step()  # not TRAINING
    w.is_param_(False)
    assert nn.optim.SGD([w, Tensor([2.0])]).buffers[0] is w


# ---- states


class Net:
    def __init__(self):
        self.layers = [nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]
        self.named = {"scale": Tensor([2.0])}


def test_state_dicts(tmp_path):
    net, other = Net(), Net()
    state = get_state_dict(net)
    assert sorted(state) == ["layers.0.bias", "layers.0.weight", "layers.1.weight", "named.scale"]
    assert len(get_parameters(net)) == 4
    path = tmp_path / "net.safetensors"
    safe_save(state, path, metadata={"step": "3"})
    load_state_dict(other, safe_load(path), verbose=False)
    for k, v in get_state_dict(other).items():
        np.testing.assert_array_equal(v.numpy(), state[k].numpy())
        assert v.device == "CPU"
    other.named["scale"] += 1  # no part of the file
    assert safe_load(path)["named.scale"].tolist() == [2.0]
    assert safe_load_metadata(path)[2]["__metadata__"] == {"step": "3"}
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    safe_save({"a": Tensor([1.0])}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert list(safe_load(path)) == ["a"]
    safe_save(state, "/dev/null")
    assert pathlib.Path("/dev/null").is_char_device()
    with pytest.raises(ValueError, match="__metadata__"):
        safe_save({"__metadata__": Tensor([1.0])}, path)
    safe_save(state, path, metadata={"step": "3"})
    with pytest.raises(KeyError):
        load_state_dict(net, {}, verbose=False)
    with pytest.raises(ValueError, match="Shape mismatch in layer"):
        load_state_dict(net, {**state, "named.scale": Tensor.ones(3)}, verbose=False)
    assert len(load_state_dict(net, {"named.scale": Tensor(7.0)}, strict=False, verbose=False)) == 1


def test_safetensors_by_hand(tmp_path):
    data = np.arange(6, dtype=np.float16)
    header = json.dumps({"x": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + data.tobytes())
    np.testing.assert_array_equal(safe_load(path)["x"].numpy(), data.reshape(2, 3))
    np.testing.assert_array_equal(safe_load(Tensor(path))["x"].numpy(), data.reshape(2, 3))
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError):
        safe_load(path)
    with pytest.raises(FileNotFoundError):
        safe_load(tmp_path / "missing")


def test_archives(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one", b"hello" * 100)
    assert bytes(zip_extract(path)["one"].data()) == b"hello" * 100
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("two")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    assert bytes(tar_extract(tmp_path / "a.tar")["two"].data()) == b"abc"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(65 << 20))
    with pytest.raises((ValueError, IndexError), match="unpacks to 68157440"):
        zip_extract(path)
    assert zip_extract(path, limit=65 << 20)["zeros"].shape == (65 << 20,)
    with pytest.raises((ValueError, IndexError), match="limit of 100 "):
        zip_extract(path, limit=100)
    file = TensorIO(Tensor(b"abcdef"))
    assert file.read(2) == b"ab" and file.seek(-1, 2) == 5 and file.read() == b"f"
    with pytest.raises(ValueError):
        TensorIO(Tensor([1]))


def torch_file(path, pickled):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")
    return path


def test_torch_load_reads_numbers_as_text(tmp_path):
    numbers = [1.5, -2e-300, math.inf, -math.inf, 0.1, 5e-324, 1.7976931348623157e308]
    path = torch_file(tmp_path / "numbers.pt", pickle.dumps(numbers, 0))
    assert torch_load(str(path)) == numbers
    for bad in (b"0x10", b"1.5 ", b"", b"1e", b"1" * 80):
        path = torch_file(tmp_path / "bad.pt", b"F" + bad + b"\n.")
        with pytest.raises(ValueError, match="a number is needed"):
            torch_load(str(path))


def test_torch_load_skips_what_it_is_told_to(tmp_path):
    net = b"\x80\x02c__main__\nNet\n)\x81}X\x01\0\0\0aK\x01sb."  # an object and its attributes
    call = b"\x80\x02cposix\nsystem\n(X\x04\0\0\0truetR."
    text = b"X\x07\0\0\0storagectorch\nQInt8Storage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04"
    odd = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text + b"tQK\0(K\x01t(K\x01ttR."
    for k, (pickle, name, expected) in enumerate((
        (odd, "torch.QInt8Storage", nn.state.Skipped("torch.QInt8Storage")),
        (net, "__main__.Net", {"a": 1}),
        (call, "posix.system", nn.state.Skipped("posix.system")),
    )):  # fmt: skip
        file = torch_file(tmp_path / str(k), pickle)
        for source in (file, Tensor(file)):
            with pytest.raises(NotImplementedError, match=f"'{name}'"):
                nn.state.torch_load(source)
            with pytest.warns(UserWarning, match=f"torch_load skipped {name}$"):
                assert nn.state.torch_load(source, skip_unknown=True) == expected
    plain = torch_file(tmp_path / "plain", b"\x80\x02K\x07.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nn.state.torch_load(plain, skip_unknown=True) == 7
