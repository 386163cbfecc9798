"""tools/manylinux.py tags what it may tag, and refuses what it should."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True
import manylinux  # noqa: E402

HEADERS = os.path.join(sysconfig.get_path("include"), "Python.h")


class ManylinuxTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.work)

    def shared(self, name, text, *flags):
        source, out = os.path.join(self.work, name + ".c"), os.path.join(self.work, name)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        command = ["cc", "-shared", "-fPIC", "-o", out, source, *flags]
        subprocess.run(command, check=True, capture_output=True)
        return out

    def test_glibc_is_that_of_the_newest_symbol(self):
        old = self.shared("old.so", "int f(void) { return 1; }")
        self.assertEqual(manylinux.glibc_of([old]), (2, 17))
        text = 'int g(void); __asm__(".symver g,dlopen@GLIBC_2.34");'
        text += "int f(void) { return g(); }"
        new = self.shared("new.so", text)
        self.assertEqual(manylinux.glibc_of([old, new]), (2, 34))

    def test_libraries_from_elsewhere_are_refused(self):
        self.shared("libforeign.so", "int f(void) { return 1; }")
        flags = [f"-L{self.work}", "-lforeign"]
        user = self.shared("user.so", "int f(void); int g(void) { return f(); }", *flags)
        with self.assertRaisesRegex(ValueError, "user.so links libforeign.so"):
            manylinux.glibc_of([user])
        manylinux.glibc_of([user, os.path.join(self.work, "libforeign.so")])  # it is in the wheel

    @unittest.skipUnless(os.path.exists(HEADERS), "no headers of CPython")
    def test_symbols_outside_the_limited_api_are_found(self):
        text = "void *PyLong_FromLong(long); char *PyUnicode_AsUTF8(void *);\n"
        good = self.shared("good.so", text + "void *f(void) { return PyLong_FromLong(1); }")
        self.assertEqual(manylinux.outside_limited_api(good), [])
        bad = self.shared("bad.so", text + "void *f(void *x) { return PyUnicode_AsUTF8(x); }")
        self.assertEqual(manylinux.outside_limited_api(bad), ["PyUnicode_AsUTF8"])

    def test_other_wheels_are_refused(self):
        for name in ("a-1-py3-none-any.whl", "a-1-cp311-cp311-linux_x86_64.whl"):
            tool = [sys.executable, os.path.join(ROOT, "tools", "manylinux.py"), name]
            done = subprocess.run(tool, capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("is not an abi3 wheel", done.stderr)


if __name__ == "__main__":
    unittest.main()
