"""Variables and what is computed of them, under tinygrad's path.

>>> n = Variable("n", 1, 10)
>>> sym_infer(n * 2 + 1, {"n": 3}), smax(n, 12), resolve(n < 11)
(7, 12, True)
"""

from __future__ import annotations

import functools
from typing import Any, Union

from ..absent import of_module
from ..helpers import argfix
from ..symbolic import BoundInt, Expression, UOp, extreme, resolve, sym_infer

Variable = UOp
sint = Union[int, UOp]

__all__ = [
    "UOp", "Variable", "resolve", "sint", "smax", "smin", "srender", "ssimplify", "sym_infer",
]  # fmt: skip


def smax(*lst: Any) -> Any:
    """The greatest of numbers, some of them symbolic.

    >>> smax(2, 3), smax(Variable("n", 4, 8), 3)
    (3, Variable('n', 4, 8))
    """
    return functools.reduce(lambda a, b: extreme("max", a, b), argfix(*lst))


def smin(*lst: Any) -> Any:
    """The least of numbers, some of them symbolic.

    >>> smin(Variable("n", 4, 8).bind(5), 3)
    3
    """
    return functools.reduce(lambda a, b: extreme("min", a, b), argfix(*lst))


def srender(x: Any) -> str:
    """A number as text.

    >>> srender(Variable("n", 1, 3) + 1), srender(4)
    ('(n+1)', '4')
    """
    return x.render() if isinstance(x, (Expression, BoundInt)) else str(x)


def ssimplify(uop: Any) -> Any:
    """A symbolic number in its simplest form."""
    return uop.simplify() if isinstance(uop, (Expression, BoundInt)) else uop


__getattr__ = of_module("uop.ops")
