"""How long things take: blocks, functions of Python."""

from __future__ import annotations

import contextlib
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


@contextlib.contextmanager
def cpu_profile(name: Any, *arguments: Any, **kwargs: Any) -> Iterator[None]:
    """A named block, for profilers; nothing is recorded here."""
    yield


def profile_marker(name: str, color: str = "gray") -> None:
    """A named moment, for profilers; nothing is recorded here."""
