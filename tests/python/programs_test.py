"""Programs written for tinygrad (programs.py) give what they gave under tinygrad 0.14.0."""

import json

import pytest

import aster_ml
import programs

EXPECTED = json.loads(programs.RECORD.read_text())


def close(got, want, where):
    if isinstance(want, dict):
        assert got.keys() == want.keys(), where
        for key, value in want.items():
            (refused if key == "refused" else close)(got[key], value, f"{where} {key}")
    elif isinstance(want, list):
        assert len(got) == len(want), where
        for k, value in enumerate(want):
            close(got[k], value, f"{where}[{k}]")
    else:
        exact = isinstance(want, (str, bool, int))
        assert got == (want if exact else pytest.approx(want, rel=2e-3, abs=2e-4)), where


def refused(got, want, where):
    """What tinygrad refuses is refused by an exception that is tinygrad's as well."""
    for k, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        if isinstance(theirs, list) and theirs[-1:] == ["object"]:
            assert isinstance(mine, list) and theirs[0] in mine, f"{where}[{k}]: {mine}, {theirs}"
        else:
            close(mine, theirs, f"{where}[{k}]")


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_as_under_tinygrad(program):
    close(json.loads(json.dumps(program(aster_ml))), EXPECTED[program.__name__], program.__name__)
