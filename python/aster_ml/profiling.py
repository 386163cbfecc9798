"""How long things take: blocks, functions of Python."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import decimal
import time
from typing import Any, Callable, Iterator


class Timing(contextlib.ContextDecorator):
    """Prints how long a block took."""

    def __init__(
        self,
        prefix: str = "",
        on_exit: Callable[[int], str] | None = None,
        enabled: bool = True,
    ):
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self) -> None:
        self.st = time.perf_counter_ns()

    def __exit__(self, *exc: object) -> None:
        self.et = time.perf_counter_ns() - self.st
        if self.enabled:
            more = self.on_exit(self.et) if self.on_exit else ""
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms{more}")


class Profiling(contextlib.ContextDecorator):
    """Prints where a block of Python spends its time: the first frac of its functions.

    fn: a file for the whole profile. ts: calls over which times are divided.
    """

    def __init__(
        self,
        enabled: bool = True,
        sort: str = "cumtime",
        frac: float = 0.2,
        fn: str | None = None,
        ts: float = 1,
    ):
        self.enabled, self.sort, self.frac, self.fn, self.time_scale = enabled, sort, frac, fn, ts

    def __enter__(self) -> None:
        import cProfile

        self.pr = cProfile.Profile()
        if self.enabled:
            self.pr.enable()

    def __exit__(self, *exc: object) -> None:
        if not self.enabled:
            return
        import pstats

        self.pr.disable()
        if self.fn:
            self.pr.dump_stats(self.fn)
        found: Any = pstats.Stats(self.pr).strip_dirs().sort_stats(self.sort)
        for where in found.fcn_list[: int(len(found.fcn_list) * self.frac)]:
            file, line, name = where
            _, calls, own, total, _ = found.stats[where]
            scale = 1e3 / self.time_scale
            print(f"n:{calls:8d}  tm:{own * scale:7.2f}ms  tot:{total * scale:7.2f}ms", end="")
            print(f"  {file}:{line}  {name}")


def perf_counter_us() -> decimal.Decimal:
    """The clock in microseconds."""
    return decimal.Decimal(time.perf_counter_ns()) / 1000


# ---- what happened when


class ProfileEvent:
    """Something that happened: a range or a moment."""


@dataclasses.dataclass
class ProfileRangeEvent(ProfileEvent):
    """What took from st to en, in microseconds of perf_counter_us()."""

    device: str
    name: Any
    st: decimal.Decimal
    en: decimal.Decimal | None = None
    profile_key: bytes | None = None


@dataclasses.dataclass(frozen=True)
class ProfilePointEvent(ProfileEvent):
    """A moment, ts."""

    device: str
    name: str
    key: Any
    arg: Any = dataclasses.field(default_factory=dict)
    ts: decimal.Decimal = dataclasses.field(default_factory=perf_counter_us)


# Markers; under PROFILE=1 named blocks and the launches of kernels too.
cpu_events: list[ProfileEvent] = []


@contextlib.contextmanager
def cpu_profile(
    name: Any, device: str = "TINY", display: bool = True, profile_key: bytes | None = None
) -> Iterator[ProfileRangeEvent]:
    """A named block; PROFILE=1 keeps it in cpu_events."""
    from .helpers import PROFILE

    event = ProfileRangeEvent(device, name, perf_counter_us(), profile_key=profile_key)
    try:
        yield event
    finally:
        event.en = perf_counter_us()
        if PROFILE and display:
            cpu_events.append(event)


def profile_marker(name: str, color: str = "gray") -> None:
    """Keeps a named moment in cpu_events.

    >>> profile_marker("epoch 1")
    >>> cpu_events[-1].arg["name"]
    'epoch 1'
    """
    cpu_events.append(ProfilePointEvent("TINY", "marker", None, {"name": name, "color": color}))


def write_profile(path: str) -> None:
    """Writes cpu_events as a trace that Perfetto and chrome://tracing show.

    PROFILE=1 writes one at the end of the process and says where on stderr.
    """
    import json

    lanes: dict[str, int] = {}
    events: list[dict[str, Any]] = []
    for e in cpu_events:
        if isinstance(e, ProfileRangeEvent):
            start, name = e.st, str(e.name)
            rest: dict[str, Any] = {"ph": "X", "dur": float((e.en or e.st) - e.st)}
        elif isinstance(e, ProfilePointEvent):
            start, name = e.ts, str(e.arg.get("name", e.name))
            rest = {"ph": "i", "s": "g"}
        else:
            continue
        lane = lanes.setdefault(e.device, len(lanes) + 1)
        events.append({"name": name, "ts": float(start), "pid": 1, "tid": lane, **rest})
    for device, lane in lanes.items():
        name_of = {"name": "thread_name", "ph": "M", "pid": 1, "tid": lane}
        events.append({**name_of, "args": {"name": device}})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)


# ---- kernels: DEBUG=2 prints them, PROFILE=1 keeps them


class _Shown:
    """What DEBUG=2 has printed since GlobalCounters.reset()."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.reset()

    def reset(self) -> None:
        self.kernels, self.seconds = 0, 0.0


shown = _Shown()


def _launched(
    name: str, ns: int, ops: int, moved: int, held: int, device: int, operands: int, replayed: int
) -> None:
    """A kernel has run. Called inside the library: must not call it on a context."""
    from . import _native
    from .helpers import DEBUG, PROFILE, ansipad, colored, time_to_str

    where = _native.device_to_name(device)
    if PROFILE:
        end = perf_counter_us()
        cpu_events.append(ProfileRangeEvent(where, name, end - decimal.Decimal(ns) / 1000, end))
    shown.kernels += 1
    shown.seconds += ns * 1e-9
    if not DEBUG >= 2:
        return
    color = "magenta" if replayed else None if name in shown.seen else "green"
    shown.seen.add(name)
    took = ns * 1e-9 or 1e-20
    time_text = colored(time_to_str(ns * 1e-9, w=9), "yellow" if took > 0.01 else None)
    print(
        f"{colored(f'*** {where[:7]:7s} {shown.kernels:4d}', color)} {ansipad(name, 46)}"
        f" arg {operands:2d} mem {held / 1e9:6.2f} GB tm {time_text}/{shown.seconds * 1e3:9.2f}ms"
        f" ({ops / took * 1e-9:7.0f} GFLOPS {moved / took * 1e-9:6.1f} GB/s)"
    )


_follows = _writes_at_exit = False
_listener: Callable[..., None] | None = None


def _heard(*launch: Any) -> None:
    """For DEBUG and PROFILE, and for a profile (trace.py)."""
    from .helpers import DEBUG, PROFILE

    if DEBUG >= 2 or PROFILE:
        _launched(*launch[:8])
    if _listener is not None:
        _listener(*launch)


def tell(listener: Callable[..., None] | None) -> None:
    """Has one more function told of launches; None: no longer."""
    global _listener
    _listener = listener
    follow()


def _write_at_exit() -> None:
    from .helpers import stderr_log, temp

    path = temp("profile.json", append_user=True)
    write_profile(path)
    stderr_log(f"profile: {path}\n")


def follow() -> None:
    """Has the library tell of launches while DEBUG or PROFILE wants them."""
    global _follows, _writes_at_exit
    from . import _native
    from .helpers import DEBUG, PROFILE

    wanted = DEBUG >= 2 or bool(PROFILE) or _listener is not None
    if PROFILE and not _writes_at_exit:
        _writes_at_exit = True
        atexit.register(_write_at_exit)
    if wanted or _follows:
        _native.engine_trace(_heard if wanted else None)
    _follows = wanted
