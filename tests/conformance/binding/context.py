"""Contexts: who owns the graphs, caches and buffers of tensors."""

from .clib import library

_stack = []


class Context:
    """A context of the library. Options are the fields of aster_ml_context_options:
    Context(threads=1, compiler="none", vector_bytes=32). Inside `with`, new tensors belong to it.
    """

    def __init__(self, **options):
        lib = library()
        texts = {k: v.encode() for k, v in options.items() if isinstance(v, str)}
        self.handle = lib.context()
        lib.context_init(self.handle, lib.context_options(**{**options, **texts}))

    def __enter__(self):
        _stack.append(self)
        return self

    def __exit__(self, *_):
        _stack.remove(self)

    def __del__(self, free=library().context_free):
        if hasattr(self, "handle"):
            free(self.handle)

    def counters(self):
        """What the engine has done so far, by the names of aster_ml_engine_counters."""
        lib = library()
        counters = lib.engine_counters()
        lib.engine_count(counters, self.handle)
        return {name: getattr(counters, name) for name, _ in counters._fields_[1:]}

    def collect(self):
        """Reclaims what no tensor reaches."""
        library().engine_collect(self.handle)


_default = None


def current():
    """The innermost context of `with`, or the process's own."""
    global _default
    if _stack:
        return _stack[-1]
    if _default is None:
        _default = Context()
    return _default
