"""Capture and replay: a function of tensors recorded once, run again without building graphs."""

from .context import current
from .clib import library
from .tensor import Tensor, _adopt, handles


class TinyJit:
    """Wraps a function of realised tensors that returns a tensor or a tuple of them.

    The first call runs it as it is, the second records it, later ones replay the recording on their
    own arguments. Results of a replay live in the recording's memory: the next call overwrites them
    (clone what is kept). Arguments keep their shapes and dtypes. `warm=0` records at once.
    """

    def __init__(self, function, warm=1):
        self.function, self.calls = function, -warm
        self.program = self.single = None
        self.count = 0

    def __call__(self, *inputs):
        self.calls += 1
        if self.program is not None:
            return self._replay(inputs)
        return self._record(inputs) if self.calls > 0 else self._plain(inputs)

    def _plain(self, inputs):
        result = self.function(*inputs)
        for tensor in (result,) if isinstance(result, Tensor) else result:
            tensor.realize()
        return result

    def _record(self, inputs):
        lib = library()
        context = (inputs[0].context if inputs else current()).handle
        lib.engine_capture_begin(context, handles(inputs), len(inputs))
        try:
            result = self.function(*inputs)
        except BaseException:
            lib.engine_capture_cancel(context)
            raise
        self.single = isinstance(result, Tensor)
        outputs = (result,) if self.single else tuple(result)
        program = lib.program()
        lib.engine_capture_end(program, context, handles(outputs), len(outputs))
        self.program, self.count = program, len(outputs)
        return result

    def _replay(self, inputs):
        lib = library()
        context = inputs[0].context if inputs else current()
        given = (lib.tensor * max(len(inputs), 1))(*[t.view() for t in inputs])
        results = (lib.tensor * max(self.count, 1))()
        lib.program_run(self.program, None, given, len(inputs), results, self.count)
        made = []
        for descriptor in results[: self.count]:
            tensor = _adopt(lib.lazy(), context)
            lib.lazy_from_tensor(tensor.handle, context.handle, descriptor)
            lib.tensor_free(descriptor)
            made.append(tensor)
        return made[0] if self.single else tuple(made)

    def __del__(self, free=library().program_free):
        if getattr(self, "program", None) is not None:
            free(self.program)
