"""Each public header compiles alone, as every C and C++ a client may use, without a warning.

headers_test.py HEADER_FOLDER COMPILER ...     COMPILER: "cc c++" pairs, comma-separated: gcc,g++
"""

import os
import subprocess
import sys
import unittest

FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-fsyntax-only"]
C_STANDARDS = ("c11", "c17")
CXX_STANDARDS = ("c++17", "c++20")


def compile_text(compiler, language, standard, folder, text):
    """The compiler's complaints about a text; empty: none."""
    extra = ["-fno-exceptions", "-fno-rtti"] if language == "c++" else ["-Wstrict-prototypes"]
    command = [compiler, f"-std={standard}", "-x", language, *FLAGS, *extra, "-I", folder, "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return result.stderr if result.returncode else ""


def cases(folder, pairs):
    """(compiler, language, standard, header) for everything that has to compile."""
    for header in sorted(os.listdir(os.path.join(folder, "aster_ml"))):
        for cc, cxx in pairs:
            if header.endswith(".h"):
                yield from ((cc, "c", standard, header) for standard in C_STANDARDS)
            if header.endswith((".h", ".hpp")):
                standards = CXX_STANDARDS if header.endswith(".h") else CXX_STANDARDS[1:]
                yield from ((cxx, "c++", standard, header) for standard in standards)


class HeadersTest(unittest.TestCase):
    def test_each_alone(self):
        count = 0
        for compiler, language, standard, header in cases(FOLDER, PAIRS):
            with self.subTest(compiler=compiler, standard=standard, header=header):
                # Twice: the guard holds.
                text = f"#include <aster_ml/{header}>\n" * 2 + "int used;\n"
                self.assertEqual(compile_text(compiler, language, standard, FOLDER, text), "")
                count += 1
        print(f"{count} compilations with {', '.join(cc for cc, _ in PAIRS)}")

    def test_can_fail(self):
        for cc, _ in PAIRS:
            for text in (
                "void f();\n",
                "// comment\nint f(void) { return 1u - 2.5; }\n",
                "class A;\n",
            ):
                self.assertNotEqual(compile_text(cc, "c", "c11", FOLDER, text), "")


if __name__ == "__main__":
    FOLDER = sys.argv[1]
    PAIRS = [tuple(pair.split(",")) for pair in sys.argv[2:]]
    unittest.main(argv=sys.argv[:1])
