"""What the settings of Context and the environment change, and what GlobalCounters count."""

import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

from aster_ml import Context, GlobalCounters, Tensor, TinyJit, environment


def of_nan():
    return Tensor([math.nan, -1.0, 2.0]).relu6().tolist()


def test_strict_parity_follows_the_context():
    assert math.isnan(of_nan()[0])
    with Context(STRICT_PARITY=1):
        assert of_nan() == [0.0, 0.0, 2.0]  # tinygrad's comparisons lose NaN
        with Context(STRICT_PARITY=0):
            assert math.isnan(of_nan()[0])
        assert of_nan()[0] == 0
    assert math.isnan(of_nan()[0])


def test_unknown_settings_are_refused():
    with pytest.raises(KeyError, match="STRICT_PARTY"), Context(STRICT_PARTY=1):
        pass


def in_environment(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_strict_parity_from_the_environment():
    program = "from aster_ml import Tensor; print(Tensor([float('nan')]).relu6().item())"
    assert in_environment(program, STRICT_PARITY="1") == "0.0"
    assert in_environment(program, STRICT_PARITY="0") == "nan"


def test_threads_from_the_environment():
    program = """
import threading, os
from aster_ml import Tensor
x = Tensor.ones(1 << 22).contiguous().realize()
(x.sin().exp().sqrt() + x).realize()
print(len(os.listdir("/proc/self/task")))
"""
    assert in_environment(program, NUM_CPU_THREADS="1") == "1"
    assert in_environment(program, NUM_CPU_THREADS="2") == "2"


def test_threads_of_the_library_from_the_environment():
    program = "from aster_ml import _native; print(_native.runtime_get()['threads'])"
    assert in_environment(program, ASTER_ML_THREADS="3") == "3"
    assert in_environment(program, ASTER_ML_THREADS="3", NUM_CPU_THREADS="2") == "2"
    refused = "import aster_ml\ntry: aster_ml.Tensor([1])\nexcept IndexError as e: print(e)"
    program = f"try:\n    exec({refused!r})\nexcept IndexError as e: print(e)"
    message = in_environment(program, ASTER_ML_THREADS="many")
    assert "ASTER_ML_THREADS is 'many': a number from 1 is needed" in message


def warned(**environment):
    program = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import aster_ml
    import aster_ml.tensor
print("|".join(str(w.message) for w in seen))
"""
    return in_environment(program, **environment)


def test_variables_that_mean_nothing():
    assert warned() == ""
    assert warned(ASTER_ML_THREADS="1", ASTER_ML_DATASETS="/", ASTER_CACHE="1") == ""
    shown = warned(ASTER_ML_THREAD="1", ASTER_ML_QQQ="1").split("|")
    assert shown[0].startswith("the environment variable ASTER_ML_QQQ means nothing: there are AS")
    assert shown[1].endswith(" ASTER_ML_THREAD means nothing: ASTER_ML_THREADS?")


def test_the_variables_of_the_library_are_known():
    table = pathlib.Path(__file__).parents[2] / "src" / "base" / "flags.def"
    assert set(re.findall(r'"(ASTER_ML_\w+)"', table.read_text())) == set(environment.LIBRARY)


def counts(f):
    GlobalCounters.reset()
    f()
    return GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem


def test_global_counters_estimate_work():
    x, y = Tensor.ones(64, 32).contiguous().realize(), Tensor.ones(64, 32).contiguous().realize()
    n = 64 * 32
    assert counts(lambda: (x + y).realize()) == (1, n, 3 * 4 * n)
    assert counts(lambda: (x * y).sum(1).realize()) == (1, 2 * n, 4 * (2 * n + 64))
    assert counts(lambda: None) == (0, 0, 0)

    @TinyJit
    def step(a, b):
        return (a @ b).realize()

    square = Tensor.ones(32, 32).contiguous().realize()
    for _ in range(3):
        step(x, square)
    kernels, operations, moved = counts(lambda: [step(x, square) for _ in range(5)])
    assert (kernels, operations) == (5, 5 * 2 * 64 * 32 * 32)
    assert moved == 5 * 4 * (n + 32 * 32 + n)
