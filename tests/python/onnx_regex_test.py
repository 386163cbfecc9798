"""RegexFullMatch of ONNX: expressions of RE2 against Python's re where both say the same, and what
only one of them has."""

import random
import re

import numpy as np
import pytest

from aster_ml import Tensor
from aster_ml.nn.onnx import OnnxRunner

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402


def matches(pattern, *texts):
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    given = numpy_helper.from_array(np.array(texts, object), "x")
    result = helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [len(texts)])
    graph = helper.make_graph([node], "g", [], [result], [given])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return OnnxRunner(Tensor(model.SerializeToString()))({})["y"].tolist()


ATOMS = [
    "a", "b", "é", ".", "[ab]", "[^a]", "[b-d]", r"\d", r"\w", r"\S", r"[\da-c]", "[]a]", "[a-]",
    "(ab)", "(?:a|b)", "(a|)", "(?i:B)", "(c)", r"\.", r"\x62", "^", "$", r"\b", r"\B", " ",
]  # fmt: skip
COUNTS = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{2,}", "{0,1}"]


def expression(draw, depth=0):
    parts = []
    for _ in range(draw.randrange(1, 4)):
        if depth < 2 and draw.random() < 0.3:
            atom = draw.choice(("(", "(?:", "(?s:")) + expression(draw, depth + 1) + ")"
        else:
            atom = draw.choice(ATOMS)
        place = atom in ("^", "$", r"\b", r"\B")
        parts.append(atom + ("" if place else draw.choice(COUNTS)))
    joined = "".join(parts)
    if depth < 2 and draw.random() < 0.3:
        joined += "|" + expression(draw, depth + 1)
    return joined


def test_random_expressions_are_those_of_python():
    draw = random.Random(5)
    texts = [""] + ["".join(draw.choices("abcd1. éB", k=draw.randrange(1, 7))) for _ in range(60)]
    found = 0
    for _ in range(400):
        pattern = expression(draw)
        # There $ is before a last line's end too, and an empty text has no \\B: neither is here.
        compiled, some = re.compile(pattern, re.ASCII), texts[r"\B" in pattern :]
        wanted = [compiled.fullmatch(text) is not None for text in some]
        assert matches(pattern, *some) == wanted, pattern
        found += sum(wanted)
    assert found > 1000


def test_what_is_re2s():
    assert matches(r"[[:alpha:]]+[[:^digit:]]", "ab!", "ab1") == [True, False]
    assert matches(r"\Qa.b*\E+", "a.b**", "axb*", "a.b") == [True, False, False]
    assert matches(r"(?i)straße", "STRAßE", "strasse") == [True, False]
    assert matches(r"(?m)a$\n^b", "a\nb", "ab") == [True, False]
    assert matches(r"a$\nb", "a\nb") == [False]
    assert matches("a.b", "a\nb", "axb", "aéb") == [False, True, True]
    assert matches("(?s)a.b", "a\nb") == [True]
    assert matches("(?s-s:a.b)", "a\nb") == [False]
    assert matches(r"\x{1F600}\101", "\U0001f600A") == [True]
    assert matches(r"\Aab\z", "ab", "ab\n") == [True, False]
    assert matches(r"\s", "\v", "\t") == [False, True]
    assert matches("a{,2}", "a{,2}", "aa") == [True, False]
    assert matches("x{0}y", "y", "xy") == [True, False]
    assert matches("(?P<n>a)(?<m>b)", "ab") == [True]
    assert matches("", "", "a") == [True, False]
    assert matches("(a*)*b", "a" * 5000 + "b", "a" * 5000) == [True, False]


def test_what_is_none_is_named():
    for pattern, said in (
        ("(a", "closing bracket at byte 2"),
        ("a)", "opening bracket before at byte 1"),
        ("*a", "something to repeat before at byte 0"),
        ("a**", "end of a repetition at byte 2"),
        ("^*", "something to repeat before at byte 1"),
        ("[a", "closing bracket of a class"),
        ("[b-a]", "range from less to more"),
        ("[[:what:]]", "class of that name"),
        (r"\q", "escape that is known"),
        (r"\x4", "hexadecimal number"),
        ("(?z)", "flag, i, m, s or U,"),
        ("(?P<)", "name of a group"),
        ("a\\", "character behind a backslash"),
        (r"\pL", r"\\p in a regular expression"),
        ("((a{1000}){1000}){1000}", "more than 20000 states"),
        ("(" * 300 + ")" * 300, "nested more than 200 deep"),
    ):
        with pytest.raises(Exception, match=said):
            matches(pattern, "a")
    with pytest.raises(Exception, match="too long"):
        matches("(.*){900}x", "a" * 300_000)
