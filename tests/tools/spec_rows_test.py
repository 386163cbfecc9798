"""What tools/spec_rows.py finds wrong in docs/SPECS.md, and where it finds the names of tests."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
sys.dont_write_bytecode = True
import spec_rows  # noqa: E402

FILES = {
    "CMakeLists.txt": """foreach(module IN LISTS ASTER_MODULES)
  add_test(NAME ${module} COMMAND test_${module})
endforeach()""",
    "abi/CMakeLists.txt": """foreach(core HASWELL ZEN)
  string(TOLOWER ${core} name)
  add_test(NAME library_${name} COMMAND a)
endforeach()
foreach(source IN LISTS clients)
  add_test(NAME abi_${source} COMMAND b)
endforeach()
add_test(NAME exports
  COMMAND c)""",
    "abi/base_test.c": "static void test_one(void) {}\nstatic void help(void) {}\n",
    "base/a_test.cpp": "TEST(Suite, One) {}\nTEST_F(Other,\n       Two) {}\n"
    "// TEST(Suite, Gone) {}\nTEST_P(Many, Three) {}\n/* TEST(Suite, Away) */\n"
    "TYPED_TEST_SUITE(Kinds, All);\nTYPED_TEST(Kinds, Four) {}\n",
    "base/helper.cpp": "TEST(Suite, Helper) {}\n",
    "python/b_test.py": "class B:\n    def test_method(self):\n        pass\n\ndef test_two():\n"
    "    pass\n\ndef helper():\n    pass\n",
}
NAMES = {
    *("base", "uop", "library_haswell", "library_zen", "exports"),
    *("abi/base_test.c", "abi/base_test.c::test_one"),
    *("Suite.*", "Suite.One", "Other.*", "Other.Two", "Many.*", "Many.Three"),
    *("Kinds.*", "Kinds.Four"),
    *("python/b_test.py", "python/b_test.py::test_method", "python/b_test.py::test_two"),
}
HEAD = "| [A b](#a-b) | 2 | 1 | 0 | 1 | 0 |\n\n## A b\n\n| # | asked | state | tests | missing |\n"
ROW = "| 1 | x | done | `Suite.One`, `exports` | |\n"
LAST = "| 2 | y | open | | why |\n"


class SpecRowsTest(unittest.TestCase):
    def test_names_of_a_tree(self):
        with tempfile.TemporaryDirectory() as tree:
            for path, text in FILES.items():
                path = os.path.join(tree, "tests", path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(spec_rows.known_tests(tree, ["base", "uop"]), NAMES)

    def test_a_page_that_is_right(self):
        self.assertEqual(list(spec_rows.breaches(HEAD + ROW + LAST, NAMES)), [])

    def test_what_is_wrong_is_reported_with_its_line(self):
        for row, line, what in (
            ("| 1 | x | done | `Suite.Gone` | |\n", 6, "no such test: Suite.Gone"),
            ("| 1 | x | done | `python/b_test.py::helper` | |\n", 6, "no such test"),
            ("| 1 | x | done | `abi_exports` | |\n", 6, "no such test"),
            ("| 1 | x | done | Suite.One | |\n", 6, "names in backquotes"),
            ("| 1 | x | done | `Suite.One` and more | |\n", 6, "names in backquotes"),
            ("| 1 | x | done | | |\n", 6, "no test shows it"),
            ("| 1 | x | finished | `Suite.One` | y |\n", 6, "no such state"),
            ("| 1 | x | part | `Suite.One` | |\n", 6, "not a word"),
            ("| 1 | x | open | `Suite.One` | y |\n", 6, "tests of what is not there"),
            ("| 3 | x | done | `Suite.One` | |\n", 6, "row 3 where 1 comes"),
            ("| 1 | x | done | `Suite.One` |\n", 6, "4 columns"),
            ("", 1, "A b has [1, 0, 0, 1, 0] rows, not [2, 1, 0, 1, 0]"),
            (ROW + "## C\n| 1 | x | done | `Suite.One` | |\n## A b\n", 1, "no line counts"),
        ):
            with self.subTest(row=row):
                found = list(spec_rows.breaches(HEAD + row + LAST, NAMES))
                self.assertTrue(any(at == line and what in said for at, said in found), found)


if __name__ == "__main__":
    unittest.main()
