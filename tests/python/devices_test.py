"""Tensors on other devices than the default one, against live tinygrad where it has the device."""

import numpy as np
import pytest

from aster_ml import Context, Device, GlobalCounters, Tensor, TinyJit, dtypes, nn
from aster_ml.errors import Error
from aster_ml.helpers import DEV

OTHERS = ["CPU:1", "PYTHON"]


@pytest.fixture(params=OTHERS)
def other(request):
    """A device that is the default one for the test."""
    with Context(DEV=request.param):
        yield request.param


# ---- the device that computes nothing


def test_null_schedules_and_computes_nothing():
    a = Tensor.empty(2**20, 2**20, device="NULL")  # 4 TiB of no memory
    GlobalCounters.reset()
    b = (a + 1).sum(axis=1).realize()
    assert b.device == "NULL" and b.shape == (2**20,) and b.uop.is_realized
    assert GlobalCounters.kernel_count >= 1 and GlobalCounters.global_ops >= 2**41
    for read in (b.tolist, b.numpy, b[0].item, b.to("CPU").realize, b.data):
        with pytest.raises(RuntimeError, match="NULL computes nothing"):
            read()
    for share in (memoryview, np.asarray, np.from_dlpack):
        with pytest.raises(BufferError, match="not the host's"):
            share(b)
    b.assign(b * 2).realize()
    assert (Tensor([1, 2, 3], device="NULL") + 1).realize().shape == (3,)
    assert Tensor.ones(2**20, 2**20, device="NULL").realize().device == "NULL"


def test_a_training_step_on_null():
    with Context(DEV="NULL", TRAINING=1):
        assert Device.DEFAULT == "NULL" and Device["NULL"].is_available
        model = nn.Linear(8, 4)
        optimiser = nn.optim.AdamW([model.weight, model.bias])

        @TinyJit
        def step(x):
            optimiser.zero_grad()
            loss = model(x).relu().dropout(0.5).sum().backward()
            optimiser.step()
            return loss.realize()

        for _ in range(4):
            loss = step(Tensor.rand(2, 8).realize())
        assert loss.device == model.weight.device == model.weight.grad.device == "NULL"
        with pytest.raises(RuntimeError, match="NULL computes nothing"):
            loss.item()
    assert Device.DEFAULT == "CPU" and "NULL" not in list(Device.get_available_devices())


def test_renderers_say_which_dtypes_are_computed():
    tinygrad = pytest.importorskip("tinygrad")
    for name in ("CPU", "PYTHON"):
        ours = {str(d) for d in Device[name].renderer.supported_dtypes()}
        assert ours >= {str(d) for d in tinygrad.Device[name].renderer.supported_dtypes()}
        assert ours == {str(d) for d in dtypes.all}
    assert not Device["CPU"].renderer.has_local and Device["CPU"].renderer.tensor_cores == []


# ---- the default device


def test_default_device_follows_its_setting():
    assert Device.DEFAULT == "CPU"
    with Context(DEV="python:0"):
        assert Device.DEFAULT == "PYTHON" and Tensor([1]).device == "PYTHON"
    Device.DEFAULT = "cpu:1"
    assert Device.DEFAULT == "CPU:1" and DEV.value == "CPU:1"
    for text, device in {"CPU:CLANGJIT": "CPU", "X+python:r:a;CPU": "PYTHON", "": "CPU"}.items():
        DEV.value = text
        assert Device.DEFAULT == device


def test_a_device_that_is_none_changes_nothing():
    for name in ("nowhere", "CUDA"):
        with pytest.raises((Error, ValueError, RuntimeError)):
            Device.DEFAULT = name
        assert Device.DEFAULT == "CPU" and DEV.value in ("", "CPU")
        with pytest.raises((Error, ValueError, RuntimeError)):
            Tensor([1], device=name)
        with pytest.raises((Error, ValueError, RuntimeError)):
            Tensor([1]).to(name)
    with pytest.raises(ValueError):
        Tensor([1], device="CPU:x")


MADE = {
    "list": lambda **kw: Tensor([1, 2, 3], **kw),
    "numpy": lambda **kw: Tensor(np.arange(3.0), **kw),
    "bytes": lambda **kw: Tensor(b"abc", **kw),
    "empty": lambda **kw: Tensor.empty(3, **kw),
    "zeros": lambda **kw: Tensor.zeros(3, **kw),
    "full": lambda **kw: Tensor.full((3,), 2.5, **kw),
    "constant": lambda **kw: Tensor.full((3,), 2.5, buffer=False, **kw),
    "rand": lambda **kw: Tensor.rand(3, **kw),
    "randn": lambda **kw: Tensor.randn(3, **kw),
    "randint": lambda **kw: Tensor.randint(3, **kw),
    "randperm": lambda **kw: Tensor.randperm(3, **kw),
    "kaiming": lambda **kw: Tensor.kaiming_uniform(3, **kw),
    "scaled": lambda **kw: Tensor.scaled_uniform(3, **kw),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("device", OTHERS)
def test_made_on_a_device(name, device):
    make = MADE[name]
    x = make(device=device)
    assert x.device == device and x.realize().device == device
    if name != "empty":
        Tensor.manual_seed(5)
        there = make(device=device).tolist()
        Tensor.manual_seed(5)
        np.testing.assert_allclose(there, make().tolist(), rtol=1e-6)
    y = x.zeros_like().realize() if x.is_floating_point() else x.ones_like().realize()
    assert y.device == device and (y + x).realize().device == device
    assert Device.DEFAULT == "CPU" and make().device == "CPU"


def test_everything_lands_on_the_default_device(other):
    made = [f() for f in MADE.values()]
    made += [Tensor.arange(4), Tensor.eye(3), Tensor.linspace(0, 1, 3), Tensor(2.0)]
    made += [Tensor.arange(3) * 2]
    for x in made:
        assert x.device == other and x.realize().device == other
    assert (Tensor.arange(4) + Tensor([1, 2, 3, 4])).tolist() == [1, 3, 5, 7]
    assert Tensor([1], device="CPU").device == "CPU"


def test_a_model_trains_there(other):
    Tensor.manual_seed(1)
    layer, x = nn.Linear(4, 3), Tensor.rand(8, 4)
    w = layer.weight.numpy()
    optimizer = nn.optim.Adam(nn.state.get_parameters(layer), lr=0.1)
    with Context(TRAINING=1):
        for _ in range(2):
            optimizer.zero_grad()
            layer(x).dropout(0.1).square().mean().backward()
            optimizer.step()
    assert layer.weight.device == layer.weight.grad.device == other
    assert np.abs(layer.weight.numpy() - w).max() > 0.05


def test_captures_replay_there(other):
    @TinyJit
    def step(x):
        return (x * 2 + Tensor.arange(3)).realize()

    for i in range(4):
        assert step(Tensor([i, i, i]).realize()).tolist() == [2 * i, 2 * i + 1, 2 * i + 2]
    assert step(Tensor([0, 0, 0]).realize()).device == other


# ---- moving


@pytest.mark.parametrize("device", OTHERS)
def test_to_is_lazy_and_the_gradient_comes_back(device):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    y = (x * 2).T.to(device)
    assert y.device == device and not y.is_realized and y.shape == (2, 2)
    z = (y * y).sum() + y.sum()
    assert z.device == device
    z.backward()
    assert x.grad.device == "CPU"
    np.testing.assert_array_equal(x.grad.numpy(), 8 * x.numpy() + 2)
    assert y.tolist() == [[2.0, 6.0], [4.0, 8.0]] and y.realize().is_realized
    assert y.to("CPU").device == "CPU" and (y.to("CPU") - x).tolist() == [[1.0, 4.0], [1.0, 4.0]]


@pytest.mark.parametrize("device", OTHERS)
def test_reading_leaves_the_way_of_the_gradient(device):
    x = Tensor([1.0, 2.0]).realize()
    for y in ((x * 3).to(device), x.to(device) * 3):
        loss = (y * y).sum()
        assert loss.item() == 45.0 and y.tolist() == [3.0, 6.0]
        x.grad = None
        loss.backward()
        assert x.grad.tolist() == [18.0, 36.0] and x.grad.device == "CPU"


def test_writes_of_what_moves_happen_once():
    x, y = Tensor([1.0, 2.0]).realize(), Tensor([10.0], device="PYTHON")
    part = x[:1]
    x.assign(x + (y + 1).to("CPU"))
    assert (x * 2).tolist() == [24.0, 26.0]
    assert part.tolist() == [12.0] and x.tolist() == [12.0, 13.0]


def test_there_and_back_again():
    x = Tensor([1.0, 2.0, 3.0])
    y = ((x + 1).to("PYTHON") * 2).to("CPU:1") + Tensor([1.0, 1.0, 1.0], device="CPU:1")
    z = y.to("CPU") + x
    assert (z.device, y.device) == ("CPU", "CPU:1")
    assert Tensor.realize(z, y, x) is z
    assert z.tolist() == [6.0, 9.0, 12.0] and y.tolist() == [5.0, 7.0, 9.0]


def test_parts_and_pending_writes_move():
    x = Tensor.arange(12).reshape(3, 4).contiguous().realize()
    part = x[1:, ::2].to("PYTHON")
    x[1, 0] = 100
    assert part.tolist() == [[4, 6], [8, 10]]
    assert x[1:].to("CPU:1").tolist() == [[100, 5, 6, 7], [8, 9, 10, 11]]
    y = x.to("PYTHON").realize()
    y[0] = 7
    assert x[0].tolist() == [0, 1, 2, 3] and y[0].tolist() == [7, 7, 7, 7]


def test_devices_in_one_realize_and_in_one_operation():
    a, b = Tensor([1.0]) + 1, Tensor([2.0], device="PYTHON") + 1
    Tensor.realize(a, b)
    assert a.is_realized and b.is_realized and (a.item(), b.item()) == (2.0, 3.0)
    both = a + b
    assert both.item() == 5.0 and both.device == a.device and (b + a).device == b.device
    assert (a.to("PYTHON") + b).item() == 5.0 and (b + 3).item() == 6.0


def test_capture_of_a_step_on_two_devices():
    @TinyJit
    def step(x):
        return ((x + 1).to("CPU:1") * 3).to("CPU").realize()

    for i in range(4):
        assert step(Tensor([float(i)]).realize()).tolist() == [3.0 * i + 3]


# ---- random numbers, every device from its own counter


def draws(Tensor, devices):
    Tensor.manual_seed(42)
    return [Tensor.rand(5, device=d).tolist() for d in devices]


@pytest.mark.parametrize(
    "devices",
    [
        ["CPU", "CPU", "CPU"],
        ["CPU:1", "CPU", "CPU:1", "CPU"],
        ["CPU", "PYTHON", "CPU:1", "PYTHON", "CPU"],
        ["PYTHON", "PYTHON", "CPU"],
    ],
)
def test_draws_of_devices(devices):
    tinygrad = pytest.importorskip("tinygrad")
    assert draws(Tensor, devices) == draws(tinygrad.Tensor, devices)
    assert draws(Tensor, devices[::-1]) == draws(tinygrad.Tensor, devices[::-1])


def test_draws_like_a_tensor_are_of_its_device():
    tinygrad = pytest.importorskip("tinygrad")

    def run(Tensor):
        Tensor.manual_seed(9)
        x = Tensor([[1.0, 2.0, 3.0, 4.0]], device="CPU:1")
        return [
            Tensor.rand(2).tolist(),
            x.rand_like().tolist(),
            x.multinomial(3, replacement=True).tolist(),
            Tensor.rand(2).tolist(),
            x.multinomial(2).tolist(),
            x.rand_like(device="CPU").tolist(),
            Tensor.randint(4, device="CPU:1").tolist(),
        ]

    assert run(Tensor) == run(tinygrad.Tensor)


def test_replays_draw_on_their_device():
    @TinyJit
    def step():
        return Tensor.rand(3, device="CPU:1").realize()

    Tensor.manual_seed(3)
    replayed = [step().tolist() for _ in range(4)]
    Tensor.manual_seed(3)
    assert replayed == [Tensor.rand(3, device="CPU:1").tolist() for _ in range(4)]
