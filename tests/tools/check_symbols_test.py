"""tools/check_symbols.py accepts a clean object and refuses each kind of wrong one."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
sys.dont_write_bytecode = True
import check_symbols  # noqa: E402

CLEAN = 'extern "C" __attribute__((visibility("default"))) int aster_ml_f() { return 1; }\n'


@unittest.skipUnless(shutil.which("c++") and shutil.which("nm"), "no compiler")
class CheckSymbolsTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)

    def path(self, name):
        return os.path.join(self.work.name, name)

    def compile(self, text, *flags, name="x.cpp.o"):
        with open(self.path("x.cpp"), "w", encoding="utf-8") as file:
            file.write(text)
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        subprocess.run(
            ["c++", "-std=c++20", "-fPIC", *flags, self.path("x.cpp"), "-o", self.path(name)],
            check=True,
        )
        return self.path(name)

    def run_tool(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = check_symbols.main(list(arguments))
        return code, out.getvalue()

    def check_object(self, text, *arguments, name="x.cpp.o"):
        with open(self.path("list"), "w", encoding="utf-8") as file:
            file.write(self.compile(text, "-c", "-fno-rtti", name=name))
        return self.run_tool("--objects", self.path("list"), *arguments)

    def test_clean_object(self):
        code, out = self.check_object(
            CLEAN
            + "#include <cstring>\nnamespace aster { size_t g(char* p) { return strlen(p); } }\n"
        )
        self.assertEqual((code, out), (0, ""))

    def test_forbidden_references(self):
        for text, what in (
            ("#include <cstdlib>\nvoid f() { abort(); }", "ends the process"),
            ("#include <cstdlib>\nvoid f() { exit(1); }", "ends the process"),
            ('#include <cstdio>\nvoid f(int a) { printf("%d", a); }', "prints"),
            ('#include <cstdio>\nvoid f(int a) { fprintf(stderr, "%d", a); }', "prints"),
            ("#include <cstdlib>\nvoid* f() { return malloc(4); }", "allocates"),
            ("int* f() { return new int; }", "allocates"),
            ("void f(int* p) { delete p; }", "allocates"),
            ("void f() { throw 1; }", "throws"),
            ("#include <vector>\nvoid f(std::vector<int>& v) { v.push_back(1); }", "throws"),
            ("struct A { A(); }; A a;", "runs code when it is loaded"),
            ("struct A { A(); }; A& f() { static A a; return a; }", "builds static state"),
            ("struct A { A(); ~A(); }; thread_local A a; A* f() { return &a; }", "builds static"),
            ("#include <cassert>\nvoid f(int a) { assert(a); }", "ends the process"),
            ("int helper() { return 1; }", "outside namespace aster"),
            ('extern "C" int helper() { return 1; }', "outside namespace aster"),
        ):
            with self.subTest(text=text):
                code, out = self.check_object(text)
                self.assertEqual(code, 1)
                self.assertIn(what, out)

    def test_exceptions_hold_for_their_object_only(self):
        text = "#include <cstdlib>\nnamespace aster { void* f() { return malloc(4); } }"
        self.assertEqual(self.check_object(text, name="base/heap.cpp.o")[0], 0)
        self.assertEqual(self.check_object(text, name="nn/heap.cpp.o")[0], 1)

    def test_assert_in_debug(self):
        text = "#include <cassert>\nnamespace aster { void f(int a) { assert(a); } }"
        self.assertEqual(self.check_object(text, "--debug")[0], 0)

    def test_exports(self):
        with open(self.path("manifest"), "w", encoding="utf-8") as file:
            json.dump({"functions": [{"name": "aster_ml_f"}]}, file)
        for text, expected, what in (
            (CLEAN, 0, ""),
            ("static int x;", 1, "not exported"),
            (CLEAN + CLEAN.replace("_f", "_g"), 1, "not in a public header"),
            (CLEAN + 'extern "C" int other() { return 1; }\n', 1, "does not begin with"),
        ):
            with self.subTest(text=text):
                shared = self.compile(text, "-shared", name="x.so")
                code, out = self.run_tool("--shared", shared, "--manifest", self.path("manifest"))
                self.assertEqual(code, expected, out)
                self.assertIn(what, out)


if __name__ == "__main__":
    unittest.main()
