"""What runs and how long it takes: DEBUG=2, PROFILE, cpu_events, profile_marker."""

import json
import os
import re
import subprocess
import sys

import pytest

from aster_ml import Context, GlobalCounters, Tensor, TinyJit, _native
from aster_ml.helpers import (
    ProfilePointEvent,
    ProfileRangeEvent,
    ansistrip,
    cpu_events,
    cpu_profile,
    profile_marker,
)

LINE = re.compile(
    r"\*\*\* CPU +(\d+) (\S+) +arg +(\d+) mem +[\d.]+ GB"
    r" tm +[\d.]+(us|ms|s )/ +[\d.]+ms \( +\d+ GFLOPS +[\d.]+ GB/s\)"
)


def lines_of(capfd):
    return [LINE.fullmatch(ansistrip(line)) for line in capfd.readouterr().out.splitlines()]


def test_debug_2_prints_every_kernel(capfd):
    x = Tensor.rand(64, 32).realize()
    w = Tensor.rand(32, 16).realize()
    GlobalCounters.reset()
    capfd.readouterr()
    with Context(DEBUG=2):
        (x @ w).relu().realize()
        x.exp().realize()
    found = lines_of(capfd)
    assert all(found), found
    assert [m[1] for m in found] == ["1", "2"]
    assert [m[2] for m in found] == ["matmul_relu_64x16_r32", "exp_64x32"]
    assert [m[3] for m in found] == ["3", "2"]
    x.sin().realize()
    assert capfd.readouterr().out == ""


def test_debug_2_prints_replays(capfd):
    step = TinyJit(lambda x: (x * 2).cos().realize())
    inputs = [Tensor.rand(50).realize() for _ in range(4)]
    for x in inputs[:3]:
        step(x)
    capfd.readouterr()
    with Context(DEBUG=2, NO_COLOR=1):
        step(inputs[3])
    found = lines_of(capfd)
    assert [m and m[2] for m in found] == ["mul_cos_50"]


def test_profile_keeps_launches_blocks_and_markers():
    before = len(cpu_events)
    with Context(PROFILE=1):
        with cpu_profile("block"):
            Tensor.rand(33).realize().tan().realize()
        profile_marker("here", color="red")
    with cpu_profile("not kept"):
        Tensor([1.0, 2.0]).exp().realize()
    new = cpu_events[before:]
    ranges = [e for e in new if isinstance(e, ProfileRangeEvent)]
    assert ranges[-1].name == "block" and "not kept" not in [e.name for e in ranges]
    kernels = [e for e in ranges if e.device == "CPU"]
    assert kernels and all(ranges[-1].st <= e.st <= e.en <= ranges[-1].en for e in kernels)
    (marker,) = [e for e in new if isinstance(e, ProfilePointEvent)]
    assert marker.arg == {"name": "here", "color": "red"}


def test_a_profile_is_written_at_the_end(tmp_path):
    program = (
        "from aster_ml import Tensor\nfrom aster_ml.helpers import profile_marker\n"
        "profile_marker('start'); (Tensor([1.0, 2.0, 3.0]).realize() * 2).exp().realize()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PROFILE": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    path = done.stderr.strip().removeprefix("profile: ")
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = [e["name"] for e in events]
    assert "start" in names and "mul_exp_3" in names, names
    assert all({"ph", "pid", "tid"} <= set(e) for e in events)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="not callable"):
        _native.engine_trace(3)
    _native.engine_trace(None)


def test_errors_of_the_function_do_not_stop_the_work(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: seen.append(str(found.exc_value)))

    def fail(*told):
        raise RuntimeError("of the function")

    _native.engine_trace(fail)
    try:
        assert (Tensor([1.0]).realize() + 1).tolist() == [2.0]
    finally:
        _native.engine_trace(None)
    assert seen == ["of the function"]
