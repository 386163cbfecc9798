"""Graphs of tensors, at every level between what a program says and the C that runs."""

from __future__ import annotations

import errno
import html
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Sequence

from . import _native

if TYPE_CHECKING:
    from .tensor import Tensor

LEVELS = ("tensor", "prepared", "schedule", "kernel", "source", "plan", "program")
_DOT, _JSON = 0, 1


def dot(tensors: Sequence[Tensor], level: str = "tensor") -> str:
    """What realising tensors would compute, as Graphviz text.

    level is "tensor" (as built), "prepared" (as fusion gets it), "schedule" (kernels and memory),
    "kernel" (the arithmetic in every kernel), "source" (the C text of every kernel), "plan" (how
    each is made to run) or "program" (its instructions).
    """
    return _native.engine_graph(list(tensors), _number(level), _DOT)


def page(tensors: Sequence[Tensor], level: str = "tensor", title: str = "Graph") -> str:
    """A page of all levels that shows level first: one file that loads nothing."""
    _number(level)
    tensors = list(tensors)
    levels = []
    for number in range(len(LEVELS)):
        try:
            levels.append(_native.engine_graph(tensors, number, _JSON))
        except NotImplementedError:  # no kernel has such a dtype: interpreted
            break
    template = pathlib.Path(__file__).with_name("graph.html").read_text(encoding="utf-8")
    text = ", ".join(levels).replace("<", "\\u003c")
    data = f'{{"title": {_quoted(title)}, "first": "{level}", "levels": [{text}]}}'
    template = template.replace("<title>aster: graph", f"<title>{html.escape(title)}")
    return template.replace("/*DATA*/", data)


def write_page(
    path: str | os.PathLike[str],
    tensors: Sequence[Tensor],
    level: str = "tensor",
    title: str = "Graph",
) -> None:
    """Writes the page as write_text does."""
    write_text(path, page(tensors, level, title))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file whole or not at all: behind links, with the permissions of what was there.

    What is no regular file (a device, a pipe) is written through.
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, prefix=target.name, delete=False
    ) as file:
        try:
            file.write(text)
            file.close()
            os.chmod(file.name, target.stat().st_mode & 0o777 if target.exists() else 0o644)
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def _number(level: str) -> int:
    if level not in LEVELS:
        raise ValueError(f"level {level!r}: one of {', '.join(LEVELS)}")
    return LEVELS.index(level)


def _quoted(text: str) -> str:
    import json

    return json.dumps(text).replace("<", "\\u003c")
