"""What tinygrad has under its paths and this package does not, with the reason.

>>> from aster_ml.uop.ops import PatternMatcher
Traceback (most recent call last):
aster_ml.errors.NotOfferedImport: uop.ops.PatternMatcher is not offered: ...
"""

from __future__ import annotations

import dis
import importlib
import sys
from types import FrameType
from typing import Any, Callable

from .errors import NotOfferedImport, NotOfferedName

_GRAPHS = "kernels and graphs in UOps are tinygrad's own form"
_SCHEDULES = "schedules stay inside the library"
_RUNTIMES = "devices are the library's backends, not classes of Python"
_PROFILES = "its profiler's own records; PROFILE=1, cpu_events, Timing and GlobalCounters serve"
_PLUMBING = "plumbing of tinygrad's own compiler and runtimes"
_MIXINS = "the mixins of Tensor are cut otherwise; Tensor has every name"

# Modules that are not here, with those below them.
MODULES = {
    "codegen": "kernels are made and optimised by the library, and lowering shows how: no Opt",
    "engine.worker": _PLUMBING,
    "llm": "models and their server are programs, not parts of this package",
    "mixin.dtype": _MIXINS,
    "mixin.gradient": "gradients are the library's rules: Tensor.gradient, backward()",
    "mixin.rand": _MIXINS,
    "nn.torch": "no backend of PyTorch; Tensor(t), from_dlpack and numpy() exchange",
    "renderer": "kernels are rendered by the library, for the devices that it has",
    "runtime": _RUNTIMES,
    "schedule": _SCHEDULES,
    "uop": _GRAPHS,
    "viz": "engine_graph, Tensor.graph() and PROFILE=1 show graphs, code and times",
}

# Members of classes that are here; "*" is every other one.
MEMBERS = {
    "device.Compiled": dict.fromkeys(
        """compiler count finalize has_copy_queue ifaces pm_bufferize pm_lower profile_events
        runtime""".split(),
        _RUNTIMES,
    ),
    "engine.jit.CapturedJit": {"linear": _SCHEDULES},
    "uop.ops.UOp": {"*": _GRAPHS},
}

# By module, then by name; "*" is whatever else is asked for.
REASONS: dict[str, dict[str, str]] = {
    "uop": {"*": _GRAPHS},
    "uop.ops": {"*": _GRAPHS},
    "engine.realize": {"*": _SCHEDULES},
    "engine.jit": dict.fromkeys(
        """GraphException GraphRunner MultiGraphRunner create_graph_call graph_class
        graph_split_rewrite jit_lower prune_linear""".split(),
        _SCHEDULES,
    ),
    "function": dict.fromkeys(
        "add_to_ctx invalid_outputs pm_ctx renumber_invalid_outputs".split(), _GRAPHS
    ),
    "nn.state": {"accept_filename": "a decorator of its own loaders"},
    "nn.onnx": {"*": "the library reads, runs and writes models: OnnxRunner, OnnxValue, export"},
    "llm": {"*": "models and their server are programs, not parts of this package"},
    "tensor": {
        **dict.fromkeys(
            """AllocCtx add_tags all_tensors contiguous_mops_to_view disk_copy_is_buffer disk_like
            finalize_after pm_early_transform_tensor_graph pm_finalize_call pm_replace_buf
            replace_contig_with_store_after replace_input_buffer replace_input_view
            replace_store_after_with_contig tag_uop transform_precompiled_call
            transform_to_call""".split(),
            _SCHEDULES,
        ),
        **dict.fromkeys("P T".split(), "its own type variables"),
    },
    "llm.gguf": dict.fromkeys(
        """read_arr read_int32 read_int64 read_str read_uint32 read_uint64 readers""".split(),
        "parts of gguf_load",
    ),
    "device": {
        **dict.fromkeys(
            """Allocator Buffer BufferSpec Compiled CompileError Compiler DepsTracker DeviceType
            LRUAllocator MultiBuffer Program TinyELF ALL_DEVICES enumerate_devices_str""".split(),
            _RUNTIMES,
        ),
        **dict.fromkeys(
            """ProfileDeviceEvent ProfileGraphEntry ProfileGraphEvent ProfileProgramEvent
            finalize_profile""".split(),
            _PROFILES,
        ),
    },
    "dtype": {
        **dict.fromkeys("AddrSpace ConstFloat DTypeMetaClass".split(), _GRAPHS),
        "FmtStr": "its own type variables",
        "promo_lattice": "the table is the library's: least_upper_dtype asks it",
    },
    "helpers": {
        **dict.fromkeys(
            """CACHEDB VERSION cache_dir db_connection diskcache diskcache_clear diskcache_get
            diskcache_put""".split(),
            "compiled kernels are cached by the library: aster cache, ASTER_ML_CACHE_DIR",
        ),
        **dict.fromkeys(
            "Metadata TracingKey get_stacktrace lines printable".split(),
            _PROFILES,
        ),
        **dict.fromkeys(
            """CHUNK_SIZE START_TIME Target USE_TC amdgpu_disassemble canonicalize_strides
            capstone_flatdump cpu_objdump disable_gc fetch_fw flat_mv from_mv fromimport gc_start
            is_image_shape my_gc_callback pad_bytes panic select_by_name select_first_inited
            suppress_finalizing to_be32 to_be64 to_char_p_p to_function_name to_mv
            wait_cond""".split(),
            _PLUMBING,
        ),
    },
}


# Modules inside packages whose other names are not offered.
_INSIDE = {"uop": ["ops"], "llm": ["gguf"]}


def _imports(frame: FrameType | None) -> bool:
    """Whether who asks a module for a name is at `from module import name`."""
    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    return frame is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"


def of_module(module: str) -> Callable[[str], Any]:
    """The __getattr__ of a module: NotOffered for what stands above, else AttributeError."""
    reasons = REASONS[module]

    def missing(name: str) -> Any:
        if name in _INSIDE.get(module, ()):
            return importlib.import_module(f"..{module}.{name}", __name__)
        reason = reasons.get(name) or (not name.startswith("_") and reasons.get("*"))
        if reason:
            kind = NotOfferedImport if _imports(sys._getframe(1)) else NotOfferedName
            raise kind(f"{module}.{name} is not offered: {reason}")
        raise AttributeError(f"module 'aster_ml.{module}' has no attribute {name!r}")

    return missing


def why_not(module: str) -> str | None:
    """Why there is no module of this path, below the package; None where nothing says so."""
    while module and module not in MODULES:
        module = module.rpartition(".")[0]
    return MODULES.get(module)


class _Absent:
    """Asked for the modules of the package that do not exist: an import of one says why."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        package, _, module = name.partition(".")
        if package == __name__.partition(".")[0] and (reason := why_not(module)):
            raise NotOfferedImport(f"{module} is not offered: {reason}")


sys.meta_path.append(_Absent)  # type: ignore[arg-type]
