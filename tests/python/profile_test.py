"""Profiles: what ran, who asked, as table, trace and page."""

import json
import pathlib
import sys

import numpy as np
import pytest

import aster_ml
from aster_ml import Context, Tensor, TinyJit, trace
from aster_ml.helpers import cpu_events

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "pages"))
import browser  # noqa: E402


def test_who_asked_is_told():
    x = Tensor.rand(64, 64).realize()
    with aster_ml.profile() as p:
        with trace.scope("encoder"), trace.scope("layer 1"):
            (x @ x).relu().realize()
        x.sum().item()
    first, *_, last = p.launches
    here = pathlib.Path(__file__).read_text().splitlines()
    assert first.scope == "encoder/layer 1" and last.scope == ""
    for launch, text in ((first, "relu().realize()"), (last, "x.sum().item()")):
        name, line = launch.where.split(":")
        assert name == "profile_test.py" and text in here[int(line) - 1]
    assert first.us > 0 and first.operations >= 2 * 64**3 and first.device == "CPU"
    assert first.bytes >= 2 * 64 * 64 * 4 and 0 <= first.start < last.start
    ran = len(p.launches)
    x.exp().realize()
    assert len(p.launches) == ran  # it has ended


def test_replays_are_told():
    @TinyJit
    def step(x):
        return (x * 2).sum().realize()

    x = Tensor.rand(1000).realize()
    for _ in range(3):
        step(x)
    with aster_ml.profile() as p:
        for _ in range(5):
            step(x)
    assert len(p.launches) % 5 == 0 and all(x.replayed for x in p.launches)


def test_beside_the_others(capfd):
    x = Tensor.rand(100).realize()
    cpu_events.clear()
    with Context(PROFILE=1), aster_ml.profile() as p, aster_ml.profile() as q:
        (x + 1).realize()
    assert p.launches == q.launches or len(p.launches) == len(q.launches) == 1
    assert len(cpu_events) == 1
    with Context(DEBUG=2):
        (x + 2).realize()
    assert len(p.launches) == 1 and "***" in capfd.readouterr().out


def spans_of(p):
    return [e for e in p.chrome()["traceEvents"] if e["ph"] == "X"]


def test_texts(tmp_path):
    x = Tensor.rand(128, 128).realize()
    p = ((x @ x).softmax() * 3).profile()
    table = p.table().splitlines()
    kernels = {launch.name for launch in p.launches}
    assert {row.split()[0] for row in table[1:-1]} == {name[:40] for name in kernels}
    assert f"{len(p.launches)} launches" in table[-1]
    assert "% limit" in table[0] and any(row.endswith("; a result") for row in table[1:-1])
    assert {x.stored for x in p.launches} >= {"a result"}
    assert all(e["args"]["stored"] == x.stored for e, x in zip(spans_of(p), p.launches))
    p.write(tmp_path / "p.json")
    events = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in spans] == [x.name for x in p.launches]
    assert all(e["dur"] > 0 and "profile_test.py" in e["args"]["where"] for e in spans)
    assert sum(e["ph"] == "C" for e in events) == len(spans)
    p.write(tmp_path / "p.txt")
    assert (tmp_path / "p.txt").read_text().startswith("kernel")
    with pytest.raises(OSError):
        p.write(tmp_path / "no" / "p.html")


def test_the_page(tmp_path):
    if browser.find() is None:
        pytest.skip("no Chromium")
    x = Tensor.rand(64, 64).realize()
    path = tmp_path / "page <&>.html"
    p = (x @ x).softmax().profile(path=path)
    chromium = browser.Browser()
    try:
        chromium.open(path)
        assert chromium.errors == [] and len(chromium.requests) == 1
        names = chromium.run(
            "[...document.querySelectorAll('#kernels tbody tr')].map(r => r.cells[0].textContent)"
        )
        assert sorted(names) == sorted({x.name for x in p.launches})
        assert "profile_test.py" in chromium.run("document.getElementById('places').textContent")
        # The graph is a page within, at its level of kernels.
        frame = "document.querySelector('#graph iframe').contentDocument"
        assert chromium.run(f"{frame}.querySelectorAll('#levels button').length") == 7
        pressed = f"{frame}.querySelector('[aria-pressed=true]').textContent"
        assert chromium.run(pressed) == "schedule"
        assert chromium.run(f"{frame}.querySelectorAll('.node').length") > 2
        chromium.run(f"{frame}.querySelectorAll('#levels button')[3].click()")
        boxes = chromium.run(f"{frame}.querySelectorAll('.box').length")  # of fused groups
        assert boxes == len({x.name for x in p.launches})
    finally:
        chromium.close()


def test_values_are_those_without(tmp_path):
    a = np.random.default_rng(0).standard_normal((50, 60)).astype(np.float32)
    with aster_ml.profile():
        y = (Tensor(a) @ Tensor(a.T)).numpy()
    np.testing.assert_array_equal(y, (Tensor(a) @ Tensor(a.T)).numpy())
