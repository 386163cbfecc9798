"""Every check of tools/check.py accepts a right file and refuses a wrong one."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
sys.dont_write_bytecode = True
import check  # noqa: E402

LONG_BODY = "void f() {\n" + "  g();\n" * 120 + "}\n"

# check -> (path, right text, wrong text)
SAMPLES = {
    "layers": [
        (
            "src/dtype/a.cpp",
            '#include "base/status.h"\n#include "dtype/b.h"\n#include "aster_ml/base.h"\n',
            '#include "uop/uop.h"\n',
        ),
        ("src/dtype/a.cpp", "#include <array>\n", '#include "b.h"\n'),
        ("src/uop/a.cpp", "", '#include "engine/lazy.h"\n'),
        ("src/uop/a.cpp", "", '#include "nowhere/a.h"\n'),
    ],
    "public-includes": [
        (
            "include/aster_ml/a.h",
            "#include <stdint.h>\n#include <aster_ml/base.h>\n",
            "#include <stdio.h>\n",
        )
    ],
    "length": [("src/base/a.cpp", "\n" * 1000, "\n" * 1001)],
    "columns": [("src/base/a.cpp", "x" * 100 + "\n", "x" * 101 + "\n")],
    "functions": [
        ("src/base/a.cpp", "namespace a {\n" * 150 + "void f() {}\n" + "}\n" * 150, LONG_BODY),
        (
            "src/base/a.cpp",
            "const int kA[] = {\n" + "  1,\n" * 150 + "};\n",
            "class A {\n" + LONG_BODY + "};\n",
        ),
        (
            "src/base/a.cpp",
            "class A {\n" + "  int f(int x = 1);\n" * 150 + "};\n",
            "A::A(int x) : a_{x}, b_(x) {\n" + "  g();\n" * 120 + "}\n",
        ),
        (
            "src/base/a.cpp",
            "enum class A : int {\n" + "  b,\n" * 150 + "};\n",
            "template <typename T = int>\nbool operator==(T a, T b) noexcept {\n"
            + "  g('{');\n" * 120
            + "}\n",
        ),
        (
            "src/base/a.c",
            'const char *a = "(){";\n' * 150,
            "struct a *f(void) {\n" + "  g();\n" * 120 + "}\n",
        ),
    ],
    "op-switches": [
        ("src/engine/a.cpp", "// case Op::kAdd:\n", "  case Op::kAdd: return 1;\n"),
        ("src/engine/a.cpp", 'f("case Op::kAdd:");\n', "  case uop::Op::kAdd:\n"),
    ],
    "machine": [
        ("scripts/a.sh", "cd /usr/share\n", "cd /root/project\n"),
        ("README.md", "127.0.0.1\n", "see 10.1.2.3\n"),
        ("src/base/a.cpp", '"aster/work/x"', '"/home/somebody/x"'),
    ],
    "memory": [
        (
            "src/base/a.cpp",
            "std::span<int> a; // new vector\nVec<int> news;\n",
            "std::vector<int> a;\n",
        ),
        ("src/base/a.cpp", "::new (p) T();\n", "auto* a = new int;\n"),
        ("src/base/a.cpp", "try_push(a);\n", "throw 1;\n"),
        ("src/base/a.cpp", "a.substr(0, n);\n", "a.substr(n);\n"),
    ],
    "guards": [
        ("src/base/a.h", "#pragma once\n", "int f();\n"),
        (
            "include/aster_ml/a.h",
            "#ifndef ASTER_ML_A_H\n#define ASTER_ML_A_H\n#endif\n",
            "#pragma once\n",
        ),
    ],
    "specs": [  # spec_rows_test.py has the others
        (
            "docs/SPECS.md",
            "| [A](#a) | 1 | 1 | 0 | 0 | 0 |\n## A\n| 1 | x | done | `tools_check` | |\n",
            "| [A](#a) | 1 | 1 | 0 | 0 | 0 |\n## A\n| 1 | x | done | `tools_checks` | |\n",
        )
    ],
    "umbrella": [],
    "tests": [],
}


class CheckTest(unittest.TestCase):
    def test_samples(self):
        for name, samples in SAMPLES.items():
            for path, right, wrong in samples:
                with self.subTest(check=name, wrong=wrong[:40]):
                    self.assertEqual(list(check.CHECKS[name](path, right)), [])
                    self.assertTrue(list(check.CHECKS[name](path, wrong)))

    def test_every_check_has_samples(self):
        self.assertEqual(set(SAMPLES), set(check.CHECKS))

    def test_length_of_a_function(self):
        text = (
            "int f(int a) {\n  if (a) {\n    g();\n  }\n  return 1;\n}\n\nint h() { return 2; }\n"
        )
        self.assertEqual(
            [(line, length) for line, length, _ in check.function_lengths(text)], [(1, 6), (8, 1)]
        )

    def test_checks_that_look_at_the_tree(self):
        root = check.ROOT
        with tempfile.TemporaryDirectory() as tree:
            os.makedirs(os.path.join(tree, "include", "aster_ml"))
            os.makedirs(os.path.join(tree, "tests", "base"))
            open(os.path.join(tree, "include", "aster_ml", "base.h"), "w", encoding="utf-8").close()
            open(os.path.join(tree, "tests", "base", "a_test.cpp"), "w", encoding="utf-8").close()
            check.ROOT = tree
            try:
                modules = "set(ASTER_MODULES base)\n"
                self.assertEqual(list(check.check_tests_exist("src/CMakeLists.txt", modules)), [])
                modules = "set(ASTER_MODULES base dtype)\n"
                self.assertTrue(list(check.check_tests_exist("src/CMakeLists.txt", modules)))
                umbrella = "include/aster_ml/aster_ml.h"
                right = "#include <aster_ml/base.h>\n"
                self.assertEqual(list(check.check_umbrella(umbrella, right)), [])
                self.assertTrue(list(check.check_umbrella(umbrella, "")))
            finally:
                check.ROOT = root

    def test_unformatted_file_is_found(self):
        if check.shutil.which("clang-format") is None:
            self.skipTest("no clang-format")
        root = check.ROOT
        with tempfile.TemporaryDirectory() as tree:
            os.makedirs(os.path.join(tree, "src"))
            for name, text in (("a.cpp", "int a;\n"), ("b.cpp", "int   b ;\n")):
                with open(os.path.join(tree, "src", name), "w", encoding="utf-8") as file:
                    file.write(text)
            check.ROOT = tree
            try:
                self.assertEqual(list(check.check_format(["src/a.cpp"])), [])
                self.assertEqual(len(list(check.check_format(["src/a.cpp", "src/b.cpp"]))), 1)
            finally:
                check.ROOT = root

    def test_unknown_name(self):
        self.assertEqual(check.main(["no-such-check"]), 2)


if __name__ == "__main__":
    unittest.main()
