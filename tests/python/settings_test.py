"""What the settings of Context and the environment change, and what GlobalCounters count."""

import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

from aster_ml import Context, GlobalCounters, Tensor, TinyJit, environment, registry


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


def test_beam_searches_for_plans(tmp_path):
    program = """
import ctypes
from aster_ml import Context, Tensor, _native
x, y = Tensor.rand(40, 30), Tensor.rand(30, 50)
plain = (x @ y).relu().numpy()
print(_native.codegen_count_tuned())
with Context(BEAM=1):
    found = (x @ y).relu().numpy()
print(_native.codegen_count_tuned() > 0, abs(found - plain).max() < 1e-5)
"""
    said = in_environment(program, ASTER_ML_CACHE_DIR=str(tmp_path)).split()
    assert said == ["0", "True", "True"]
    with pytest.raises(ValueError, match="width is 65"), Context(BEAM=65):
        pass
    assert Context(BEAM=0).kwargs == {"BEAM": 0}


def test_wino_is_the_policy_fast():
    def policy():
        return registry.describe("conv2d")["policy"]

    assert policy() == "default"
    with Context(WINO=1):
        assert policy() == "fast"
    assert policy() == "default"
    program = "from aster_ml import registry; print(registry.describe('conv2d')['policy'])"
    assert in_environment(program, WINO="1") == "fast"


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
    # The compiler has a thread of its own beside kernels that begin without it.
    assert in_environment(program, NUM_CPU_THREADS="1", ASTER_ML_TIERS="off") == "1"
    assert in_environment(program, NUM_CPU_THREADS="2", ASTER_ML_TIERS="off") == "2"


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


def fake_compiler(folder, body):
    path = folder / "cc"
    version = '[ "$1" = --version ] && { echo gcc fake; exit 0; }'
    path.write_text(f"#!/bin/sh\n{version}\n{body}\n")
    path.chmod(0o700)
    return str(path)


def logged(program, **environment):
    """Of a program in two contexts: category, file and text of what it is warned of."""
    shown = f"""
import warnings
from aster_ml import Tensor, _native
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    exec(compile({program!r}, "program.py", "exec"), {{"__name__": "program", **globals()}})
for w in seen:
    print(w.category.__name__, w.filename, w.lineno, w.message)
"""
    return in_environment(shown, **environment).splitlines()


def test_a_compiler_that_fails_is_warned_of_once(tmp_path):
    compiler = fake_compiler(tmp_path, "echo 'a.c:1: error: n\\303o' >&2; exit 1")
    program = "x = Tensor([1.0, 4.0])\nfor i in (2, 3):\n  assert (x + i).tolist()[0] == 1 + i\n"
    settings = {
        "ASTER_ML_CC": compiler,
        "ASTER_ML_CACHE_DIR": str(tmp_path / "cache"),
        "ASTER_ML_TIERS": "off",
    }
    lines = logged(program + "(x.exp() * 2).sum().item()", **settings)
    assert len(lines) == 1, lines
    assert lines[0].startswith("RuntimeWarning program.py 3 the reference runtime computes, slowly")
    assert "failed with status 1: a.c:1: error: n" in lines[0]
    assert lines[0].endswith("no_fallback, or ASTER_ML_NO_FALLBACK=1, makes this an error)")
    # Another context says it again; a filter makes it the exception of the call.
    again = """_native.set_current(_native.context_init())
try:
    (Tensor([1.0]) + 1).realize()
    assert False
except RuntimeWarning as w:
    print("raised", w)
assert (Tensor([1.0]) + 1).item() == 2"""
    raised = logged(program + "warnings.simplefilter('error')\n" + again, **settings)
    assert len(raised) == 2 and raised[0].startswith("raised the reference runtime computes")
    refused = "try:\n  (Tensor([1.0]) + 1).tolist()\nexcept RuntimeError as e: print(e)"
    lines = logged(refused, ASTER_ML_NO_FALLBACK="1", **settings)
    assert len(lines) == 1 and "status 1: a.c:1: error" in lines[0]
    assert not lines[0].startswith("RuntimeWarning")
    assert len(logged(program, ASTER_ML_NO_FALLBACK="0", **settings)) == 1


def test_no_compiler_is_warned_of_where_nobody_wanted_none():
    program = "assert (Tensor([1.0]) + 1).item() == 2"
    assert logged(program, ASTER_ML_CC="none") == []
    lines = logged(program, ASTER_ML_CC="/nowhere/cc")
    assert len(lines) == 1 and "'/nowhere/cc' is not a program" in lines[0]


def test_a_cache_that_cannot_be_written_is_warned_of(tmp_path):
    (tmp_path / "file").touch()
    program = "assert (Tensor([1.0]) + 1).item() == 2\nassert (Tensor([1.0]) + 2).item() == 3"
    lines = logged(program, ASTER_ML_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert len(lines) == 1, lines
    assert lines[0].startswith("RuntimeWarning program.py 1 compiled kernels are not kept in '")
    assert logged(program, ASTER_ML_CACHE_DIR=str(tmp_path / "cache")) == []


def test_logged_lines_come_from_any_thread(tmp_path):
    program = """
import threading
def work(i):
    assert (Tensor([1.0]) + i).tolist() == [1.0 + i]
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
"""
    lines = logged(program, ASTER_ML_CC="/nowhere/cc")
    assert len(lines) == 1 and "'/nowhere/cc' is not a program" in lines[0]
