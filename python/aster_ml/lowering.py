"""lowering: the kernels of a computation, how each is made, and the text that is compiled.

>>> from aster_ml import Tensor, lowering
>>> x = Tensor.ones(64, 512).contiguous().realize()
>>> [row_sum] = lowering.kernels(x.sum(1))
>>> avx2 = lowering.Target("c", 32, {"fma", "f16c"})
>>> row_sum.plan(avx2).splitlines()[0]
'plan'
>>> row_sum.program(avx2).split()[0]
'program'
>>> "void r_" in row_sum.source(avx2), "__kernel" in row_sum.source(lowering.Target("opencl", 32))
(True, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

from . import _native
from .device import Device
from .tensor import Tensor

_FORMS = {"program": 1, "c": 2, "opencl": 4}
_FEATURES = {"fma": 1, "f16c": 2, "avx512": 4, "streaming": 8, "fp64": 16}


@dataclass(frozen=True)
class Target:
    """What kernels are made for: a form ("c", "opencl" or "program"), bytes of vectors (16, 32, 64;
    0: C for any CPU), and features ("fma", "f16c", "avx512", "streaming", "fp64"). A GPU also has
    groups of work-items, a largest one, and bytes of local memory that they share.

    >>> from aster_ml import lowering
    >>> lowering.Target("c", 64, {"fma", "f16c", "avx512"}).vector_bytes
    64
    >>> lowering.Target("opencl", 16, {"fma"}, group=64, group_limit=256).group
    64
    """

    form: str = "c"
    vector_bytes: int = 0
    features: Iterable[str] = frozenset()
    group: int = 0
    group_limit: int = 0
    local_bytes: int = 0

    def __post_init__(self) -> None:
        features = frozenset(self.features)
        object.__setattr__(self, "features", features)
        if self.form not in _FORMS:
            raise ValueError(f"form {self.form!r}: one of {', '.join(_FORMS)}")
        if unknown := features - set(_FEATURES):
            raise ValueError(f"features {sorted(unknown)}: some of {', '.join(_FEATURES)}")

    @staticmethod
    def of(device: str | None = None) -> Target:
        """What the kernels of a device (the default one) are made for.

        >>> from aster_ml import lowering
        >>> lowering.Target.of("CPU").form
        'c'
        """
        code = _native.device_from_name(device if device is not None else Device.DEFAULT)
        form, vector_bytes, flags, group, limit, local = _native.codegen_target(code)
        [name] = [name for name, value in _FORMS.items() if value == form]
        features = {n for n, bit in _FEATURES.items() if flags & bit}
        return Target(name, vector_bytes, features, group, limit, local)

    def _numbers(self) -> tuple[int, int, int, int, int, int]:
        return (
            _FORMS[self.form],
            self.vector_bytes,
            sum(_FEATURES[name] for name in self.features),
            self.group,
            self.group_limit,
            self.local_bytes,
        )


class KernelNode:
    """A kernel: stores over loops and index arithmetic; str() shows it."""

    def __init__(self, node: Any):
        self.node = node

    def plan(self, target: Target | None = None) -> str:
        """How it is made to run: loops, vectors, tiles, tasks (docs/KERNEL_PROGRAM.md)."""
        return _native.codegen_plan(self.node, *_numbers(target))

    def program(self, target: Target | None = None, plan: str | None = None) -> str:
        """Its instructions, by a plan or the planner's own."""
        return _native.codegen_lower(self.node, *_numbers(target), plan)

    def source(self, target: Target | None = None, plan: str | None = None) -> str:
        """The text that the target's compiler takes."""
        return render(self.program(target, plan), target)

    def __str__(self) -> str:
        return _native.uop_print(self.node)


def model(device: str | None = None) -> str:
    """What the machine behind a device (the default one) is taken to do well, by which plans are
    chosen: a line for each number.

    >>> from aster_ml import lowering
    >>> "vectors side by side" in lowering.model("CPU")
    True
    """
    code = _native.device_from_name(device if device is not None else Device.DEFAULT)
    return _native.codegen_model(code)


def kernels(*tensors: Tensor) -> list[KernelNode]:
    """The kernels that realising tensors would launch, each once; nothing is computed.

    >>> from aster_ml import Tensor, lowering
    >>> len(lowering.kernels(Tensor.rand(8, 8).realize().softmax()))
    1
    """
    return [KernelNode(node) for node in _native.codegen_kernels(list(tensors))]


def render(program: str, target: Target | None = None) -> str:
    """A program's text, verified, as the text that the target's compiler takes.

    >>> from aster_ml import lowering
    >>> text = '''program two
    ... %0 = Param f32 0 [8] write
    ... %1 = Const f32 2
    ... %2 = Loop task 0 8 1
    ...   Store %0 + %2, %1
    ... End'''
    >>> "void two(" in lowering.render(text, lowering.Target("c", 16))
    True
    """
    return _native.codegen_render(program, *_numbers(target))


def _numbers(target: Target | None) -> tuple[int, int, int, int, int, int]:
    return (Target.of() if target is None else target)._numbers()
