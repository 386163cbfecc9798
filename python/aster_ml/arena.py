"""Arenas: tensors that belong together, with a plan cache and counters of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from .tensor import Tensor

_TOGETHER, _APART = 1, 2


class Arena:
    """Tensors that are realised by schedules of their own; docs/ARENAS.md.

    What a thread makes in a block belongs to the arena. together: realising one of its tensors
    realises all that are pending, by one schedule. apart: what they read of pending tensors that
    are not its own is realised before, by itself.

    >>> from aster_ml import Arena, Tensor
    >>> x = Tensor([1.0, 2.0]).realize()
    >>> arena = Arena(together=True)
    >>> with arena:
    ...     y = x * 2
    ...     z = y + 1
    >>> arena.counters["pending"]
    2
    >>> z.realize().tolist(), y.is_realized, arena.counters["plans"]
    ([3.0, 5.0], True, 1)
    """

    def __init__(self, *, together: bool = False, apart: bool = False):
        self._handle = _native.arena_init(_TOGETHER * together | _APART * apart)

    def __enter__(self) -> Arena:
        _native.arena_begin(self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        _native.arena_end()

    def add(self, *tensors: Tensor) -> Arena:
        """Has tensors belong to this arena, in the place of others.

        >>> from aster_ml import Arena, Tensor
        >>> arena = Arena().add(Tensor.ones(2) + Tensor([1.0, 2.0]))
        >>> arena.counters["tensors"]
        0
        """
        for x in tensors:
            _native.arena_add(self._handle, x)
        return self

    def realize(self) -> Arena:
        """Realises all that is pending, by one schedule.

        >>> from aster_ml import Arena
        >>> Arena().realize().counters["realizes"]
        0
        """
        _native.arena_realize(self._handle)
        return self

    def reset(self) -> Arena:
        """Forgets the schedules.

        >>> from aster_ml import Arena
        >>> Arena().reset().counters["plans"]
        0
        """
        _native.arena_reset(self._handle)
        return self

    @property
    def counters(self) -> dict[str, int | float]:
        """What it has and has done, by the names of aster_ml/arena.h.

        >>> from aster_ml import Arena
        >>> Arena().counters["version"]
        0
        """
        counted = dict(_native.arena_count(self._handle))
        counted.pop("flags", None)
        return counted
