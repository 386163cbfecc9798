"""The table of operators: a row each, by family."""

from ..row import ROWS
from . import creation, elementwise, indexing, layers, movement, random, reduce, spatial

__all__ = [
    "ROWS",
    "creation",
    "elementwise",
    "indexing",
    "layers",
    "movement",
    "random",
    "reduce",
    "spatial",
]
