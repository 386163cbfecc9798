"""Rules (dynamic) of rearranging."""

from __future__ import annotations

import re
from typing import Any

from .. import _native
from . import dims_of, rule


@rule("rearrange")
def _rearrange(native: Any, x: Any, formula: str, names: Any, sizes: Any) -> Any:
    """Axes split by reshapes, permuted, joined by another."""
    left, arrow, right = formula.partition("->")
    (before, split), (after, joined) = _groups(left), _groups(right)
    known = dict(zip(names, sizes))
    if not arrow or len(split) != len(dims_of(x)) or sorted(before) != sorted(after):
        return NotImplemented
    if len(set(before)) != len(before) or not all(name.isidentifier() for name in before):
        return NotImplemented
    axis = 0
    for group in split:
        if len([name for name in group if name not in known]) > 1:
            return NotImplemented
        of_axis = [known.get(name, -1) for name in group]
        shape = dims_of(x)
        x = _native.lazy_reshape(x, (*shape[:axis], *of_axis, *shape[axis + 1 :]))
        axis += len(group)
    x = _native.lazy_permute(x, [before.index(name) for name in after])
    shape, axis, out = dims_of(x), 0, list[Any]()
    for group in joined:
        size: Any = 1
        for d in shape[axis : axis + len(group)]:
            size = size * d
        out.append(size)
        axis += len(group)
    return _native.lazy_reshape(x, out)


def _groups(side: str) -> tuple[list[str], list[list[str]]]:
    """The names of one side of a formula of axes, and those of each of its axes."""
    groups = [part.strip("()").split() for part in re.findall(r"\([^()]*\)|[^\s()]+", side)]
    return [name for group in groups for name in group], groups
