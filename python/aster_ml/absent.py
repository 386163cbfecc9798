"""What tinygrad has under its paths and this package does not, with the reason.

>>> from aster_ml.uop.ops import PatternMatcher
Traceback (most recent call last):
aster_ml.errors.NotOffered: uop.ops.PatternMatcher is not offered: ...
"""

from __future__ import annotations

from typing import Any, Callable

from .errors import NotOffered

_GRAPHS = "kernels and graphs in UOps are tinygrad's own form"
_SCHEDULES = "schedules stay inside the library"
_RUNTIMES = "devices are the library's backends, not classes of Python"
_PROFILES = "its profiler's own records; PROFILE=1, cpu_events, Timing and GlobalCounters serve"
_PLUMBING = "plumbing of tinygrad's own compiler and runtimes"

# By module, then by name; "*" is whatever else is asked for.
REASONS: dict[str, dict[str, str]] = {
    "uop": {"*": _GRAPHS},
    "uop.ops": {"*": _GRAPHS},
    "engine.realize": {"*": _SCHEDULES},
    "engine.jit": dict.fromkeys(
        """GraphException GraphRunner MultiGraphRunner all_tensors create_graph_call graph_class
        graph_split_rewrite prune_linear""".split(),
        _SCHEDULES,
    ),
    "nn.onnx": {"*": "models are read from safetensors and torch files"},
    "llm": {"*": "models and their server are programs, not parts of this package"},
    "tensor": {
        **dict.fromkeys(
            """AllocCtx all_tensors contiguous_mops_to_view disk_copy_is_buffer disk_like
            finalize_after replace_contig_with_store_after replace_input_buffer replace_input_view
            replace_store_after_with_contig tag_uop transform_precompiled_call""".split(),
            _SCHEDULES,
        ),
        **dict.fromkeys("P T".split(), "its own type variables"),
    },
    "llm.gguf": dict.fromkeys("read_arr read_str readers".split(), "parts of gguf_load"),
    "device": {
        **dict.fromkeys(
            """Allocator Buffer BufferSpec Compiled CompileError Compiler DepsTracker DeviceType
            LRUAllocator MultiBuffer Program TinyELF ALL_DEVICES enumerate_devices_str""".split(),
            _RUNTIMES,
        ),
        **dict.fromkeys(
            "ProfileDeviceEvent ProfileGraphEntry ProfileGraphEvent ProfileProgramEvent".split(),
            _PROFILES,
        ),
    },
    "dtype": {
        **dict.fromkeys("AddrSpace ConstFloat DTypeMetaClass".split(), _GRAPHS),
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
            capstone_flatdump cpu_objdump disable_gc fetch_fw flat_mv from_mv fromimport
            is_image_shape pad_bytes panic select_by_name select_first_inited
            suppress_finalizing to_be32 to_be64 to_char_p_p to_function_name to_mv
            wait_cond""".split(),
            _PLUMBING,
        ),
    },
}


def of_module(module: str) -> Callable[[str], Any]:
    """The __getattr__ of a module: NotOffered for what stands above, else AttributeError."""
    reasons = REASONS[module]

    def missing(name: str) -> Any:
        reason = reasons.get(name) or (not name.startswith("_") and reasons.get("*"))
        if reason:
            raise NotOffered(f"{module}.{name} is not offered: {reason}")
        raise AttributeError(f"module 'aster_ml.{module}' has no attribute {name!r}")

    return missing
