"""Where the time went: launches with their times, and who asked for them.

>>> import aster_ml
>>> from aster_ml import Tensor
>>> x = Tensor.rand(64, 64).realize()
>>> with aster_ml.profile() as p:
...     with aster_ml.trace.scope("layer 1"):
...         _ = (x @ x).relu().sum().realize()
>>> p.launches[0].scope, p.launches[0].us > 0
('layer 1', True)
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence

from . import _native, graph, profiling

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Launch", "Profile", "configure", "limits", "profile", "scope"]

_MODES = ("none", "tensors", "nan", "compare")

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_scopes: list[str] = []
_active: list[Profile] = []


class Launch(NamedTuple):
    """One launch; start and length in microseconds, the first since the profile began."""

    name: str
    start: float
    us: float
    operations: int
    bytes: int
    held_bytes: int
    device: str
    operands: int
    replayed: bool
    where: str
    scope: str
    stored: str  # why what it computes is stored, and not computed in who reads it
    algorithm: str  # how it was computed; of wide floats' products "residues" or "naive"
    exact: bool  # each element is the exact result, which was rounded or checked once


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """Names what is realised in a block, in every profile; scopes nest.

    >>> from aster_ml import trace
    >>> with trace.scope("encoder"), trace.scope("attention"):
    ...     pass
    """
    _scopes.append(name)
    try:
        yield
    finally:
        _scopes.pop()


def limits() -> tuple[float, float]:
    """What the host can do at most: GFLOP/s of float32 and GB/s from memory.

    Measured once, with the threads that kernels may use, and kept beside the compiled kernels.

    >>> from aster_ml import trace
    >>> all(x > 0 for x in trace.limits())
    True
    """
    found = _native.runtime_measure()
    return found["gflops"], found["gbytes"]


def _where() -> str:
    """The line outside this package that the thread is in."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def _told(name: str, ns: int, ops: int, moved: int, held: int, device: int, operands: int,
          replayed: int, stored: str, algorithm: str, exact: int) -> None:  # fmt: skip
    """Called inside the library behind every launch."""
    end, where, within = time.perf_counter_ns(), _where(), "/".join(_scopes)
    for p in _active:
        start = (end - ns - p.began) / 1e3
        device_name = _native.device_to_name(device)
        p.launches.append(
            Launch(name, start, ns / 1e3, ops, moved, held, device_name, operands, bool(replayed),
                   where, within, stored, algorithm, bool(exact))  # fmt: skip
        )


def configure(
    *,
    dump: str | os.PathLike[str] | None = None,
    profile: str | os.PathLike[str] | None = None,
    debug: str = "none",
) -> None:
    """Traces what this context does from now on; without arguments it ends. aster_ml/trace.h.

    dump: a directory for every schedule that is made, its programs and sources. profile: a file for
    launches, written when the trace ends. debug: "tensors" logs what kernels write, "nan" and
    "compare" raise where one wrote NaN, or not what the reference runtime computes.

    >>> from aster_ml import Tensor, trace
    >>> trace.configure(debug="nan")
    >>> try:
    ...     (Tensor([1.0, -1.0]).log() * 2).realize()
    ... except ArithmeticError as e:
    ...     print("wrote NaN: element 1" in str(e))
    True
    >>> trace.configure()
    """
    if debug not in _MODES:
        raise ValueError(f"debug {debug!r}: one of {', '.join(_MODES)}")
    folder = None if dump is None else os.fspath(dump)
    file = None if profile is None else os.fspath(profile)
    _native.trace_configure(folder, file, _MODES.index(debug))


# The context of a program lives until the process ends, and its trace with it.
if "profile=" in os.environ.get("ASTER_ML_TRACE", ""):
    atexit.register(configure)


class Profile:
    """What ran between begin and end."""

    def __init__(self, tensors: Sequence[Tensor] = ()):
        self.launches: list[Launch] = []
        self.began = 0
        self.totals: dict[str, str] = {}
        self._graph: str | None = graph.page(tensors, "schedule") if tensors else None
        self._before: dict[str, Any] = {}

    def begin(self) -> None:
        """Begins; what ran before is forgotten.

        >>> from aster_ml.trace import Profile
        >>> p = Profile()
        >>> p.begin(); p.end(); p.launches
        []
        """
        self.launches.clear()
        _active.append(self)
        profiling.tell(_told)
        self._before = dict(_native.engine_count())
        self.began = time.perf_counter_ns()

    def end(self) -> None:
        """Ends."""
        took = (time.perf_counter_ns() - self.began) / 1e6
        _active.remove(self)
        if not _active:
            profiling.tell(None)
        now = _native.engine_count()

        def since(key: str) -> float:
            return float(now[key]) - float(self._before[key])

        self.totals = {
            "wall": f"{took:.2f} ms",
            "scheduling": f"{since('schedule_ms'):.2f} ms",
            "compiling": f"{since('compile_ms'):.2f} ms",
            "kernels compiled": f"{since('kernels_compiled'):.0f}",
        }

    def __enter__(self) -> Profile:
        self.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def table(self, most: int = 30) -> str:
        """Kernels by time, as text.

        >>> import aster_ml
        >>> with aster_ml.profile() as p:
        ...     _ = aster_ml.Tensor.rand(8).realize()
        >>> p.table().splitlines()[0].split()[:3]
        ['kernel', 'calls', 'ms']
        """
        rows: dict[str, list[Launch]] = {}
        for launch in self.launches:
            rows.setdefault(launch.name, []).append(launch)
        busy = sum(x.us for x in self.launches) or 1e-9
        lines = [
            f"{'kernel':40} {'calls':>6} {'ms':>9} {'%':>5} {'mean us':>9} {'GFLOP/s':>8}"
            f" {'GB/s':>7} {'% limit':>7} {'bytes':>10}  who asked; why it is stored"
        ]
        most_ops, most_bytes = limits() if self.launches else (1.0, 1.0)
        for name, group in sorted(rows.items(), key=lambda row: -sum(x.us for x in row[1]))[:most]:
            us = sum(x.us for x in group) or 1e-9
            ops, moved = sum(x.operations for x in group), sum(x.bytes for x in group)
            asked = ", ".join(
                dict.fromkeys(" ".join(filter(None, (x.scope, x.where))) for x in group)
            )
            share = max(ops / us / 1e3 / most_ops, moved / us / 1e3 / most_bytes)
            asked = asked[:60] + (f"; {group[0].stored}" if group[0].stored else "")
            lines.append(
                f"{name[:40]:40} {len(group):6} {us / 1e3:9.3f} {100 * us / busy:5.1f}"
                f" {us / len(group):9.1f} {ops / us / 1e3:8.1f} {moved / us / 1e3:7.1f}"
                f" {100 * share:7.1f} {moved:10}  {asked}"
            )
        totals = ", ".join(f"{key} {value}" for key, value in self.totals.items())
        lines.append(f"{len(self.launches)} launches, {busy / 1e3:.3f} ms in kernels; {totals}")
        return "\n".join(lines)

    def chrome(self) -> dict[str, Any]:
        """The launches as a trace that Perfetto and chrome://tracing show.

        >>> from aster_ml.trace import Profile
        >>> Profile().chrome()
        {'traceEvents': []}
        """
        lanes: dict[str, int] = {}
        events: list[dict[str, Any]] = []
        for x in self.launches:
            lane = lanes.setdefault(x.device, len(lanes) + 1)
            more = {"operations": x.operations, "bytes": x.bytes, "where": x.where,
                    "algorithm": x.algorithm, "exact": x.exact}  # fmt: skip
            if x.scope:
                more["scope"] = x.scope
            if x.stored:
                more["stored"] = x.stored
            events.append({"name": x.name, "ph": "X", "ts": x.start, "dur": x.us, "pid": 1,
                           "tid": lane, "args": more})  # fmt: skip
            events.append({"name": "memory", "ph": "C", "ts": x.start + x.us, "pid": 1,
                           "args": {"held": x.held_bytes}})  # fmt: skip
        for device, lane in lanes.items():
            events.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": lane,
                           "args": {"name": device}})  # fmt: skip
        return {"traceEvents": events}

    def page(self, title: str = "Profile") -> str:
        """One HTML page that loads nothing: timeline, kernels, memory, who asked, and the graph of
        the tensors that the profile was given.

        >>> from aster_ml.trace import Profile
        >>> "<title>" in Profile().page()
        True
        """
        data = {
            "title": title,
            "launches": [list(x) for x in self.launches],
            "totals": self.totals,
            "limits": limits() if self.launches else None,
            "graph": self._graph,
        }
        template = pathlib.Path(__file__).with_name("profile.html").read_text(encoding="utf-8")
        return template.replace("/*DATA*/", json.dumps(data).replace("<", "\\u003c"))

    def write(self, path: str | os.PathLike[str], title: str = "Profile") -> None:
        """Writes the page, or by the name's end the trace (.json) or the table (.txt).

        >>> import os, tempfile
        >>> from aster_ml.trace import Profile
        >>> with tempfile.TemporaryDirectory() as d:
        ...     Profile().write(os.path.join(d, "p.json"))
        ...     open(os.path.join(d, "p.json")).read()
        '{"traceEvents": []}'
        """
        name = str(path)
        if name.endswith(".json"):
            text = json.dumps(self.chrome())
        elif name.endswith(".txt"):
            text = self.table(most=1 << 30) + "\n"
        else:
            text = self.page(title)
        graph.write_text(path, text)


def profile(*tensors: Tensor) -> Profile:
    """A profile of a block; the graph of the tensors, as it is before, stands on its page.

    >>> import aster_ml
    >>> x = aster_ml.Tensor.rand(16, 16).softmax()
    >>> with aster_ml.profile(x) as p:
    ...     _ = x.realize()
    >>> len(p.launches) > 0 and "schedule" in p.page()
    True
    """
    return Profile(tensors)
