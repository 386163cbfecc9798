"""What is shown: repr, print, format, notebooks, `python -m aster_ml`, layers."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import aster_ml
from aster_ml import Context, GlobalCounters, Tensor, TinyJit, Variable, nn


def kernels(f):
    GlobalCounters.reset()
    f()
    return GlobalCounters.kernel_count


def values(text):
    """The numbers between the brackets of a shown tensor."""
    return np.array(eval(text[text.index("[") : text.rindex("]") + 1]))


def test_print_computes_and_repr_does_not():
    x = Tensor([1.0, 2.5]).realize() * 2
    assert repr(x) == "Tensor(<lazy>, shape=(2,), dtype=dtypes.float, device='CPU')"
    assert kernels(lambda: repr(x)) == 0
    assert str(x) == "Tensor([2., 5.], shape=(2,), dtype=dtypes.float, device='CPU')"
    assert f"{x}" == str(x) and "<lazy>" in f"{[x]}"
    assert repr(x.realize()) == str(x)


def test_notebooks_show_what_print_shows():
    class Printer:
        def text(self, text):
            self.shown = text

    printer, x = Printer(), Tensor([1, 2]) + 1
    x._repr_pretty_(printer, False)
    assert printer.shown == str(x) and "[2, 3]" in printer.shown


def test_showing_keeps_gradients():
    x = Tensor([1.0, 2.0]).realize()
    y = (x * x).sum()
    assert "5." in str(y) and f"{y:.1f}" == "5.0"
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0] and str(x).endswith("grad)")


def test_a_capture_shows_no_values():
    shown = []

    @TinyJit
    def step(x):
        y = x + 1
        shown.append((str(y), repr(x)))
        return y.realize()

    for _ in range(3):
        assert step(Tensor([1.0]).realize()).tolist() == [2.0]
    assert "[2.]" in shown[0][0] and "<lazy>" in shown[1][0] + shown[1][1] and len(shown) == 2
    with pytest.raises(aster_ml.JitError):
        again = TinyJit(lambda x: f"{x:.1f}" and x.realize())
        for _ in range(2):
            again(Tensor([1.0]).realize())
    assert "not recorded" in repr(again) and "1 kernels" in repr(step)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (2, 3, 4), (40, 30), (2000,), (1, 1001)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "bool", "uint8"])
def test_every_number_shown_is_there(shape, dtype):
    array = np.arange(int(np.prod(shape))).reshape(shape) % 200
    x = Tensor(array).cast(dtype)
    shown, expected = str(x), x.numpy()
    if array.size > 1000:
        for axis in range(array.ndim):
            if shape[axis] > 6:
                expected = np.take(expected, [0, 1, 2, -3, -2, -1], axis)
        assert "..." in shown
        shown = shown.replace("...,", "")
    assert max(map(len, shown.splitlines())) < 140
    if shape:
        np.testing.assert_array_equal(values(shown), expected)
    else:
        assert shown.startswith("Tensor(0") or shown.startswith("Tensor(False")


@pytest.mark.parametrize(
    "numbers, text",
    [
        ([1.5, -22.25], "[  1.5000, -22.2500]"),
        ([1e20, 1.0], "[1.0000e+20, 1.0000e+00]"),
        ([1e-7, 1.0], "[1.0000e-07, 1.0000e+00]"),
        ([float("nan"), float("inf"), 1.0], "[nan, inf,  1.]"),
        ([], "[]"),
        ([[1, 20], [300, 4]], "[[  1,  20],\n        [300,   4]]"),
    ],
)
def test_layout(numbers, text):
    assert str(Tensor(numbers)).startswith(f"Tensor({text}, shape=")


def test_numbers_alone():
    assert "Tensor(0.693147, " in str(Tensor([2.0]).log().sum())
    assert "Tensor([], shape=(0, 3), " in str(Tensor.ones(0, 3))
    assert "Tensor([[], []], shape=(2, 0), " in str(Tensor.ones(2, 0))


def test_large_tensors_are_not_copied_to_be_shown(tmp_path):
    file = tmp_path / "large"
    with open(file, "wb") as made:
        made.truncate(1 << 40)  # a hole: nothing is stored
    assert "[0, 0, 0, ..., 0, 0, 0]" in str(Tensor(pathlib.Path(file)))
    file.unlink()


def test_symbolic_shapes():
    n = Variable("n", 1, 8).bind(3)
    assert "[2, 3, 4]" in str(Tensor.arange(8).realize()[:n] + 2)


def test_format():
    x = Tensor([[1.0, 2.0], [0.5, 4.0]])
    assert f"{x.mean():.3f}" == "1.875" and f"{x:.1f}" == "[[1.0, 2.0],\n [0.5, 4.0]]"
    assert f"{Tensor(7):04d}" == "0007" and f"{Tensor([1, 2]).sum():>5}" == "    3"
    with pytest.raises(ValueError, match="format"):
        f"{x:d}"


LAYERS = """Linear(3, 4) | Linear(3, 4, bias=False) | Conv2d(4, 6, (3, 3), stride=2, groups=2)
Conv2d(1, 2, (3,)) | ConvTranspose2d(4, 6, (3, 3), padding=1, output_padding=1, groups=2)
BatchNorm(3) | BatchNorm(3, affine=False, momentum=0.5) | BatchNorm(3, track_running_stats=False)
GroupNorm(2, 4) | InstanceNorm(4, eps=0.001, affine=False) | LayerNorm(3) | LayerNorm((3, 4))
LayerNorm2d(3, elementwise_affine=False) | RMSNorm(4, eps=1e-05) | Embedding(10, 3)
LSTMCell(3, 4) | LSTMCell(3, 4, bias=False)"""


@pytest.mark.parametrize("call", [c.strip() for c in LAYERS.replace("\n", " | ").split(" | ")])
def test_layers_show_the_call_that_makes_them(call):
    layer = eval(call, vars(nn))
    assert kernels(lambda: repr(layer)) == 0
    assert repr(layer) == call


def test_layers_that_were_taken_apart():
    class Own(nn.Linear):
        def __init__(self):
            pass

    assert "Own object at" in repr(Own())


def test_optimisers():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0])
    shown = repr(nn.optim.Adam([x, y], lr=0.25))
    assert shown.startswith("LAMB(2 parameters, lr=0.25, b1=0.9, b2=0.999, eps=1e-08")
    assert "momentum=0.5" in repr(nn.optim.OptimizerGroup(nn.optim.SGD([x], momentum=0.5)))


def test_the_module_says_what_it_runs_on():
    ran = subprocess.run(
        [sys.executable, "-m", "aster_ml"], capture_output=True, text=True, check=True
    )
    facts = dict(line.split(maxsplit=1) for line in ran.stdout.splitlines())
    assert facts["aster_ml"].startswith(aster_ml.__version__ + " in ")
    assert int(facts["threads"]) >= 1 and "CPU" in facts["devices"]


def test_version():
    root = pathlib.Path(__file__).parents[2]
    assert f"VERSION {aster_ml.__version__}" in (root / "CMakeLists.txt").read_text()


def test_settings_do_not_change_what_is_shown():
    with Context(STRICT_PARITY=1):
        assert "[2.]" in str(Tensor([1.0]) + 1)
