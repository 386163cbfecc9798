"""Small helpers under tinygrad's names: settings, counters, shapes, timing.

>>> with Context(TRAINING=1):
...     TRAINING.value
1
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import math
import operator
import os
import pathlib
import re
import sys
import time
from typing import Any, Callable, ClassVar, Generic, Iterable, Iterator, Sequence, TypeVar

from . import _native, profiling
from .absent import of_module
from .errors import not_offered
from .profiling import ProfileEvent as ProfileEvent
from .profiling import ProfilePointEvent as ProfilePointEvent
from .profiling import ProfileRangeEvent as ProfileRangeEvent
from .profiling import Profiling as Profiling
from .profiling import Timing as Timing
from .profiling import cpu_events as cpu_events
from .profiling import cpu_profile as cpu_profile
from .profiling import perf_counter_us as perf_counter_us
from .profiling import profile_marker as profile_marker

T = TypeVar("T")
U = TypeVar("U")

OSX, WIN = sys.platform == "darwin", sys.platform == "win32"

# ---- sequences and numbers


def prod(x: Iterable[Any]) -> Any:
    """The product; 1 of nothing."""
    return functools.reduce(operator.mul, x, 1)


def dedup(x: Iterable[T]) -> list[T]:
    """The distinct elements, in order of first appearance."""
    return list(dict.fromkeys(x))


def argfix(*x: Any) -> tuple[Any, ...]:
    """f(1, 2), f((1, 2)) and f([1, 2]) mean the same."""
    if x and x[0].__class__ in (tuple, list):
        if len(x) != 1:
            raise ValueError(f"a sequence stands alone, got {x}")
        return tuple(x[0])
    return x


def argsort(x: Any) -> Any:
    """The places of the elements in ascending order."""
    return type(x)(sorted(range(len(x)), key=x.__getitem__))


def all_same(items: Sequence[Any]) -> bool:
    return all(x == items[0] for x in items)


def all_int(t: Iterable[Any]) -> bool:
    return all(isinstance(s, int) for s in t)


def make_tuple(x: int | Sequence[int], cnt: int) -> tuple[int, ...]:
    """A number repeated, or the sequence itself."""
    return tuple(x) if isinstance(x, Sequence) else (x,) * cnt


def to_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def flatten(l: Iterable[Iterable[T]]) -> list[T]:
    return [item for part in l for item in part]


def fully_flatten(l: Any) -> list[Any]:
    """The leaves of nested sequences."""
    if isinstance(l, str) or not (hasattr(l, "__len__") and hasattr(l, "__getitem__")):
        return [l]
    if getattr(l, "shape", None) == ():
        return [l[()]]
    return [leaf for part in l for leaf in fully_flatten(part)]


def get_shape(x: Any) -> tuple[int, ...]:
    """The shape of nested sequences. Raises ValueError where they are ragged."""
    if not hasattr(x, "__len__") or isinstance(x, (str, bytes)) or getattr(x, "shape", 0) == ():
        return ()
    inner = [get_shape(part) for part in x]
    if not all_same(inner):
        raise ValueError(f"inhomogeneous shape: the parts have shapes {dedup(inner)}")
    return (len(inner),) + (inner[0] if inner else ())


def partition(itr: Iterable[T], fxn: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """What fxn holds for, and the rest."""
    yes: list[T] = []
    no: list[T] = []
    for item in itr:
        (yes if fxn(item) else no).append(item)
    return yes, no


def merge_dicts(ds: Iterable[dict[T, U]]) -> dict[T, U]:
    out: dict[T, U] = {}
    for d in ds:
        for key, value in d.items():
            if out.setdefault(key, value) != value:
                raise RuntimeError(f"{key!r} has two values: {out[key]!r} and {value!r}")
    return out


def unwrap(x: T | None) -> T:
    assert x is not None
    return x


def get_single_element(x: Sequence[T]) -> T:
    assert len(x) == 1, f"expected one element, got {len(x)}"
    return x[0]


def get_child(obj: Any, key: str) -> Any:
    """obj.a[0].b by the key "a.0.b"."""
    for part in key.split("."):
        if part.isnumeric():
            obj = obj[int(part)]
        elif isinstance(obj, dict):
            obj = obj[part]
        else:
            obj = getattr(obj, part)
    return obj


def flat_to_grouped(padding: Sequence[T]) -> tuple[tuple[T, T], ...]:
    """(left, right, top, bottom) -> ((top, bottom), (left, right))."""
    return tuple(zip(padding[-2::-2], padding[::-2]))


def resolve_pool_pads(padding: int | Sequence[int], dims: int) -> list[int]:
    """Paddings from the last axis on, two an axis, of tinygrad's three spellings."""
    if isinstance(padding, int):
        return [padding] * 2 * dims
    if len(padding) == 2 * dims:
        return list(padding)
    if len(padding) == dims:
        return [p for p in reversed(padding) for _ in range(2)]
    raise ValueError(f"padding has to be one number, {dims} or {2 * dims} of them, got {padding}")


def ceildiv(num: int, amt: int) -> int:
    ret = -(num // -amt)
    return int(ret)


def round_up(num: int, amt: int) -> int:
    return (num + amt - 1) // amt * amt


def round_down(num: int, amt: int) -> int:
    return -round_up(-num, amt)


def next_power2(x: int) -> int:
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def cdiv(x: int, y: int) -> int:
    """x / y rounded toward zero; 0 for y = 0."""
    return 0 if y == 0 else abs(x) // abs(y) * (-1 if x * y < 0 else 1)


def cmod(x: int, y: int) -> int:
    return x - cdiv(x, y) * y


def floordiv(x: int, y: int) -> int:
    """x / y rounded down; 0 for a divisor of 0."""
    return x // y if y else 0


def floormod(x: int, y: int) -> int:
    """What floordiv leaves."""
    return x - floordiv(x, y) * y


def strides_for_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides; 0 for axes of size 1."""
    out: list[int] = []
    step = 1
    for size in reversed(shape):
        out.append(0 if size == 1 else step)
        step *= size
    return tuple(reversed(out))


def polyN(x: Any, p: Sequence[float]) -> Any:
    """p[0] x^(n-1) + ... + p[n-1]."""
    return functools.reduce(lambda sum_, c: sum_ * x + c, p, 0.0)


# ---- texts


def colored(st: str, color: str | None, background: bool = False) -> str:
    if color is None or NO_COLOR:
        return st
    names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
    bright = 60 if color.upper() == color else 0
    return f"\033[{(40 if background else 30) + bright + names.index(color.lower())}m{st}\033[0m"


_ESCAPE = re.compile(r"\033\[(K|.*?m)")


def ansistrip(s: str) -> str:
    return _ESCAPE.sub("", s)


def ansilen(s: str) -> int:
    return len(ansistrip(s))


def ansipad(s: str, w: int) -> str:
    """Spaces behind s up to a width that is seen."""
    return s + " " * max(0, w - ansilen(s))


def word_wrap(x: str, wrap: int = 80) -> str:
    """Lines of at most so many characters that are seen."""
    if ansilen(x) <= wrap:
        return x
    lines = []
    for line in x.splitlines():
        while ansilen(line) > wrap:
            at = seen = 0
            while seen < wrap:
                escape = _ESCAPE.match(line, at)
                at, seen = (escape.end(), seen) if escape else (at + 1, seen + 1)
            lines.append(line[:at])
            line = line[at:]
        lines.append(line)
    return "\n".join(lines)


def strip_parens(fst: str) -> str:
    """The text without the pair of parentheses around all of it, if there is one.

    >>> strip_parens("(a+b)"), strip_parens("(a)+(b)")
    ('a+b', '(a)+(b)')
    """
    depth = 0
    for i, c in enumerate(fst):
        depth += (c == "(") - (c == ")")
        if depth <= 0:
            return fst[1:-1] if fst[:1] == "(" and i == len(fst) - 1 and depth == 0 else fst
    return fst


def colorize_float(x: float) -> str:
    """A ratio: green where it is small, red where it is large."""
    color = "green" if x < 0.75 else "red" if x > 1.15 else "yellow"
    return colored(f"{x:7.2f}x", color)


def stderr_log(msg: str) -> None:
    """msg on stderr, at once."""
    print(msg, end="", file=sys.stderr, flush=True)


def time_to_str(t: float, w: int = 8) -> str:
    for scale, unit in ((1, "s "), (1e3, "ms")):
        if t > 10 / scale:
            return f"{t * scale:{w}.2f}{unit}"
    return f"{t * 1e6:{w}.2f}us"


def size_to_str(s: int) -> str:
    for scale, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if s >= scale:
            return f"{s / scale:.2f} {unit}"
    return f"{s} B"


def pluralize(st: str, cnt: int) -> str:
    return f"{cnt} {st}" if cnt == 1 else f"{cnt} {st}s"


def temp(x: str, append_user: bool = False) -> str:
    """A path in the folder of temporary files."""
    import getpass
    import tempfile

    name = f"{x}.{getpass.getuser()}" if append_user else x
    return (pathlib.Path(tempfile.gettempdir()) / name).as_posix()


# ---- settings


@functools.cache
def getenv(key: str, default: Any = 0) -> Any:
    """An environment variable as the type of its default; read once.

    >>> getenv("NOT_SET_ANYWHERE", 3)
    3
    """
    return type(default)(os.getenv(key, default))


class ContextVar(Generic[T]):
    """A setting: read from the environment at import, changed by `Context`."""

    _cache: ClassVar[dict[str, ContextVar[Any]]] = {}
    _value: T
    key: str

    def __init__(self, key: str, default_value: T):
        if key in ContextVar._cache:
            raise RuntimeError(f"there is a setting {key} already")
        self._value, self.key = getenv(key, default_value), key
        self.changed: Callable[[], None] | None = None  # called behind a change
        ContextVar._cache[key] = self

    @property
    def value(self) -> T:
        """The value; who follows it is told of a change."""
        return self._value

    @value.setter
    def value(self, value: T) -> None:
        before, self._value = self._value, value
        if self.changed is not None:
            try:
                self.changed()
            except BaseException:
                self._value = before
                raise

    def tolist(self, obj: Any = None) -> list[Any]:
        """The parts of a text between commas; with obj, its attributes of these names.

        >>> NAMES = ContextVar("NAMES", "pi,e")
        >>> NAMES.tolist(), NAMES.tolist(math)
        (['pi', 'e'], [3.141592653589793, 2.718281828459045])
        """
        assert isinstance(self.value, str), f"{self.key} is no text: {self.value!r}"
        parts = [part for part in self.value.split(",") if part]
        return parts if obj is None else [getattr(obj, part) for part in parts]

    def __repr__(self) -> str:
        return f"{self.key}={self.value!r}"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, x: object) -> bool:
        return self.value == x

    def __hash__(self) -> int:
        return id(self)

    def __ge__(self, x: Any) -> bool:
        return bool(self.value >= x)

    def __gt__(self, x: Any) -> bool:
        return bool(self.value > x)

    def __le__(self, x: Any) -> bool:
        return bool(self.value <= x)

    def __lt__(self, x: Any) -> bool:
        return bool(self.value < x)

    def __int__(self) -> int:
        return int(self.value)  # type: ignore[call-overload]


class Context(contextlib.ContextDecorator):
    """Settings for the duration of a `with` block or of a decorated function.

    Unknown names raise KeyError. STRICT_PARITY=1: what is built has tinygrad's values where ours
    deliberately differ (docs/DIFFERENCES.md). BEAM=n: plans of kernels that are compiled meanwhile
    are searched for, n at a time, and kept on disk. WINO=1: convolutions of 3 x 3 by Winograd's
    tiles where these are faster; they round more (docs/REGISTRY.md, "fast"). Settings that steer
    parts of tinygrad which this library does not have (NOOPT, ...) are accepted and change nothing.

    >>> from aster_ml import Tensor
    >>> with Context(TRAINING=1):
    ...     x = Tensor.ones(4).dropout(0.5)
    """

    def __init__(self, **kwargs: Any):
        self.kwargs = kwargs
        self._old: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        known = ContextVar._cache
        self._old.append({k: known[k].value for k in self.kwargs})
        for k, v in self.kwargs.items():
            known[k].value = v

    def __exit__(self, *args: object) -> None:
        for k, v in self._old.pop().items():
            ContextVar._cache[k].value = v


# What this library looks at.
TRAINING: ContextVar[int] = ContextVar("TRAINING", 0)
JIT: ContextVar[int] = ContextVar("JIT", 1)
DEBUG: ContextVar[int] = ContextVar("DEBUG", 0)
PROFILE: ContextVar[int] = ContextVar("PROFILE", 0)
NO_COLOR: ContextVar[int] = ContextVar("NO_COLOR", 0)
FUSE_OPTIM: ContextVar[int] = ContextVar("FUSE_OPTIM", 0)
DEFAULT_FLOAT: ContextVar[str] = ContextVar("DEFAULT_FLOAT", "float32")
DEFAULT_INT: ContextVar[str] = ContextVar("DEFAULT_INT", "int32")
DEV: ContextVar[str] = ContextVar("DEV", "")
STRICT_PARITY: ContextVar[int] = ContextVar("STRICT_PARITY", 0)
BEAM: ContextVar[int] = ContextVar("BEAM", 0)
WINO: ContextVar[int] = ContextVar("WINO", 0)
# What it accepts: tuning of a compiler that it does not share.
for _name, _default in {
    "NOOPT": 0, "IMAGE": 0, "FLOAT16": 0, "OPENPILOT_HACKS": 0, "JIT_BATCH_SIZE": 32,
    "CAPTURING": 1, "TRACEMETA": 1, "TC": 1, "TC_SELECT": -1, "TC_OPT": 0,
    "TRANSCENDENTAL": 1, "NOLOCALS": 0, "SPLIT_REDUCEOP": 1, "NO_MEMORY_PLANNER": 0, "LRU": 1,
    "RING": 1, "ALL2ALL": 0, "ALLREDUCE_CAST": 1, "CACHELEVEL": 2, "IGNORE_BEAM_CACHE": 0,
    "VALIDATE_WITH_CPU": 0, "DISABLE_FAST_IDIV": 1, "ALLOW_DEVICE_USAGE": 1, "MAX_BUFFER_SIZE": 0,
    "MAX_KERNEL_BUFFERS": 0, "EMULATED_DTYPES": "", "CAPTURE_PROCESS_REPLAY": 0,
    "NUM_CPU_THREADS": os.cpu_count() or 1, "NULL_ALLOW_COPYOUT": 0, "VIZ": 0, "PARALLEL": 0,
    "SPEC": 1, "CHECK_OOB": 0, "PCONTIG": 0, "DEBUG_RANGEIFY": 0, "TUPLE_ORDER": 1,
    "CCACHE": 1, "ALLOW_TF32": 0, "SCACHE": 1, "USE_ATOMICS": 0, "DISALLOW_BROADCAST": 0,
    "TRACK_MATCH_STATS": 0, "REWRITE_STACK_LIMIT": 250000,
}.items():  # fmt: skip
    ContextVar(_name, _default)

def _follow_environment() -> None:
    """What the context is told: threads at its start, the others whenever they change."""
    if "NUM_CPU_THREADS" in os.environ:
        threads = ContextVar._cache["NUM_CPU_THREADS"].value
        _native.set_current(_native.context_init({"threads": threads}))
    STRICT_PARITY.changed = lambda: _native.context_set_strict_parity(int(bool(STRICT_PARITY)))
    if STRICT_PARITY:
        STRICT_PARITY.changed()
    WINO.changed = lambda: _native.registry_set_policies(
        '{"conv2d": "%s"}' % ("fast" if WINO else "default")
    )
    if WINO:
        WINO.changed()
    BEAM.changed = lambda: _native.context_set_beam(BEAM.value)
    if BEAM:
        BEAM.changed()
    DEBUG.changed = PROFILE.changed = profiling.follow
    profiling.follow()


_follow_environment()
BASEDIR = pathlib.Path(__file__).parent
count = itertools.count
CI = bool(os.getenv("CI"))


_absent = of_module("helpers")


def __getattr__(name: str) -> ContextVar[Any]:
    """Every setting is a name of this module: `from aster_ml.helpers import BEAM`."""
    found = ContextVar._cache.get(name)
    return _absent(name) if found is None else found

# ---- counters


class _Counters(type):
    """Reads the counters of the current context; reset() moves their zero."""

    _zero: dict[str, float] = {}

    def _since(cls, name: str) -> Any:
        now = _native.engine_count()[name]
        return now - cls._zero.get(name, 0)

    @property
    def kernel_count(cls) -> int:
        """Kernels launched since reset()."""
        return int(cls._since("kernels_launched"))

    @property
    def global_ops(cls) -> int:
        """Scalar operations of the kernels launched since reset(), estimated."""
        return int(cls._since("operations"))

    @property
    def global_mem(cls) -> int:
        """Bytes that the kernels launched since reset() read and wrote, estimated."""
        return int(cls._since("moved_bytes"))

    @property
    def time_sum_s(cls) -> float:
        """Seconds spent running kernels since reset()."""
        return float(cls._since("run_ms")) / 1e3

    @property
    def mem_used(cls) -> int:
        """Bytes of storage that tensors hold, counted once each; not reset."""
        return builtins.sum(size for _, size in _storages())

    @property
    def mem_used_per_device(cls) -> dict[str, int]:
        """mem_used by device."""
        out: dict[str, int] = {}
        for device, size in _storages():
            out[device] = out.get(device, 0) + size
        return out


def _storages() -> list[tuple[str, int]]:
    """(device, bytes) of every realised tensor alive."""
    from .values import realized_storages

    return realized_storages()


class GlobalCounters(metaclass=_Counters):
    """What has run so far, in the current context.

    >>> from aster_ml import Tensor
    >>> GlobalCounters.reset()
    >>> _ = (Tensor([1.0, 2.0]) + 1).realize()
    >>> GlobalCounters.kernel_count
    1
    >>> GlobalCounters.global_ops, GlobalCounters.global_mem
    (2, 16)
    """

    @staticmethod
    def reset() -> None:
        """Counts from here on."""
        profiling.shown.reset()
        _Counters._zero = dict(_native.engine_count())


# ---- progress


class tqdm(Generic[T]):
    """A progress bar on stderr; silent where stderr is no terminal and disable is None."""

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str = "",
        disable: bool | None = False,
        unit: str = "it",
        unit_scale: bool = False,
        total: int | None = None,
        rate: int = 100,
    ):
        self.iterable, self.unit, self.rate = iterable, unit, rate
        self.disable = not sys.stderr.isatty() if disable is None else disable
        self.total = getattr(iterable, "__len__", lambda: None)() if total is None else total
        self.n, self.start, self.shown = 0, time.perf_counter(), 0.0
        self.set_description(desc)

    def set_description(self, desc: str) -> None:
        self.desc = f"{desc}: " if desc else ""

    def __iter__(self) -> Iterator[T]:
        assert self.iterable is not None, "nothing to iterate over"
        for item in self.iterable:
            yield item
            self.update(1)
        self.update(close=True)

    def __enter__(self) -> tqdm[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.update(close=True)

    def update(self, n: int = 0, close: bool = False) -> None:
        self.n += n
        now = time.perf_counter()
        if self.disable or (not close and now - self.shown < 1 / self.rate):
            return
        self.shown, seconds = now, now - self.start
        of = f"/{self.total} {100 * self.n // max(self.total, 1)}%" if self.total else ""
        speed = f"{self.n / seconds:.2f}" if seconds else "?"
        text = f"\r{self.desc}{self.n}{of} [{seconds:.1f}s, {speed} {self.unit}/s]"
        print(text, end="\n" if close else "", file=sys.stderr, flush=True)

    @classmethod
    def write(cls, s: str) -> None:
        print(f"\r\033[K{s}", file=sys.stderr, flush=True)


def trange(n: int, **kwargs: Any) -> tqdm[int]:
    """tqdm(range(n))."""
    return tqdm(range(n), total=n, **kwargs)


# ---- downloads


def fetch(
    url: str,
    name: pathlib.Path | str | None = None,
    subdir: str | None = None,
    gunzip: bool = False,
    allow_caching: bool = True,
    headers: dict[str, str] | None = None,
    sha256: str | None = None,
    extract: bool = False,
) -> pathlib.Path:
    """The path itself where url is a local one ("/...", "./..."). Nothing is ever downloaded.

    >>> fetch("/etc/hosts").name
    'hosts'
    """
    if url.startswith(("/", ".")):
        return pathlib.Path(url)
    raise not_offered("fetch of a URL", f"the library downloads nothing; get {url} and pass a path")


def mv_address(mv: memoryview) -> int:
    """The address of writable memory."""
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(mv))


def lo32(x: int) -> int:
    return x & 0xFFFFFFFF


def hi32(x: int) -> int:
    return x >> 32


def data64(data: int) -> tuple[int, int]:
    """The words of 32 bits, the high one first."""
    return hi32(data), lo32(data)


def data64_le(data: int) -> tuple[int, int]:
    """The words of 32 bits, the low one first."""
    return lo32(data), hi32(data)


def getbits(value: int, start: int, end: int) -> int:
    """Bits start to end, both included.

    >>> getbits(0b101100, 2, 4)
    3
    """
    return value >> start & ((1 << (end - start + 1)) - 1)


def system(cmd: str, **kwargs: Any) -> str:
    """What a command prints; RuntimeError where it fails."""
    import subprocess

    done = subprocess.run(
        cmd.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **kwargs
    )
    text = done.stdout.decode().strip()
    if done.returncode:
        raise RuntimeError(f"system: {cmd!r} failed with exit code {done.returncode}\n{text}")
    return text


def i2u(bits: int, value: int) -> int:
    return value if value >= 0 else (1 << bits) + value
