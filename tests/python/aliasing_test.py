"""Programs of overlapping views against NumPy: a fixed part of what aliasing.py runs."""

from __future__ import annotations

import pytest
from aliasing import NumPy, check

from aster_ml import Device


@pytest.mark.parametrize("first", range(0, 500, 100))
def test_programs(first: int) -> None:
    found = [text for seed in range(first, first + 100) if (text := check(seed, NumPy()))]
    assert not found, "\n\n".join(found[:3])


def test_programs_interpreted() -> None:
    before = Device.DEFAULT
    Device.DEFAULT = "PYTHON"
    try:
        found = [text for seed in range(300) if (text := check(seed, NumPy()))]
    finally:
        Device.DEFAULT = before
    assert not found, "\n\n".join(found[:3])
