"""Installs into a temporary prefix, moves it, and builds clients by pkg-config and CMake.

package_test.py BUILD_FOLDER CMAKE CC CXX
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CONSUMER = os.path.join(HERE, "consumer")


def run(*command, **options):
    """Output of a command; its failure is the test's, with what it printed."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.work)
        first = os.path.join(cls.work, "first")
        run(CMAKE, "--install", BUILD, "--prefix", first)
        cls.prefix = os.path.join(cls.work, "moved")  # an installed tree may be moved
        os.rename(first, cls.prefix)
        cls.pc = next(f for f in cls.files() if f.endswith("aster_ml.pc"))
        cls.lib = os.path.dirname(os.path.dirname(cls.pc))
        # A cache of its own: the first run compiles, as on a stranger's machine.
        cls.environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(cls.pc))
        cls.environment["ASTER_ML_CACHE_DIR"] = os.path.join(cls.work, "cache")
        cls.environment.pop("LD_LIBRARY_PATH", None)

    @classmethod
    def files(cls):
        return [os.path.join(at, name) for at, _, names in os.walk(cls.prefix) for name in names]

    def pkg_config(self, *arguments):
        return run("pkg-config", *arguments, "aster_ml", env=self.environment).split()

    def build_and_run(self, compiler, source, *flags):
        program = os.path.join(self.work, "program")
        run(compiler, source, "-Wall", "-Wextra", "-Werror", "-o", program, *flags)
        run(program, env=self.environment)

    def test_c11_through_pkg_config(self):
        flags = self.pkg_config("--cflags", "--libs")
        source = os.path.join(CONSUMER, "consumer.c")
        self.build_and_run(CC, source, "-std=c11", *flags, f"-Wl,-rpath,{self.lib}")

    def test_static_c11_through_pkg_config(self):
        flags = self.pkg_config("--cflags", "--static", "--libs")
        flags = ["-l:libaster_ml.a" if f == "-laster_ml" else f for f in flags]
        self.build_and_run(CC, os.path.join(CONSUMER, "consumer.c"), "-std=c11", *flags)

    def test_cxx20_without_exceptions(self):
        flags = self.pkg_config("--cflags", "--libs") + [f"-Wl,-rpath,{self.lib}"]
        source = os.path.join(CONSUMER, "consumer.cpp")
        self.build_and_run(CXX, source, "-std=c++20", "-fno-exceptions", "-fno-rtti", *flags)

    def test_the_wrapper(self):
        flags = self.pkg_config("--cflags", "--libs") + [f"-Wl,-rpath,{self.lib}"]
        source = os.path.join(CONSUMER, "wrapper.cpp")
        self.build_and_run(CXX, source, "-std=c++17", "-fno-exceptions", "-fno-rtti", *flags)

    def configure(self, folder, *flags):
        return run(CMAKE, "-S", CONSUMER, "-B", folder, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                   f"-DCMAKE_C_COMPILER={CC}", *flags)  # fmt: skip

    def test_c11_through_cmake(self):
        folder = os.path.join(self.work, "cmake")
        self.configure(folder, "-DWANTED=0.1")
        run(CMAKE, "--build", folder)
        for kind in ("shared", "static", "aster_ml"):
            run(os.path.join(folder, f"consumer_{kind}"), env=self.environment)

    def test_cmake_refuses_another_version(self):
        with self.assertRaises(AssertionError):
            self.configure(os.path.join(self.work, "refused"), "-DWANTED=0.2")

    def test_readme_example(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            example = re.search(r"```c\n(.*?)```", file.read(), re.S).group(1)
        source = os.path.join(self.work, "readme.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(example)
        flags = self.pkg_config("--cflags", "--libs")
        self.build_and_run(CC, source, "-std=c11", *flags, f"-Wl,-rpath,{self.lib}")

    def test_command(self):
        command = os.path.join(self.prefix, "bin", "aster")
        self.assertIn("usage", run(command, "--help", env=self.environment).lower())
        run(command, "info", "--json", env=self.environment)

    def test_what_is_installed(self):
        names = [os.path.relpath(f, self.prefix) for f in self.files()]
        for folder, _, headers in os.walk(os.path.join(ROOT, "include")):
            for header in headers:
                self.assertIn(os.path.relpath(os.path.join(folder, header), ROOT), names)
        self.assertIn(os.path.join("share", "aster_ml", "manifest.json"), names)
        for path in self.files():
            if path.endswith((".pc", ".cmake", ".json")):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                for place in (ROOT, BUILD, os.path.join(self.work, "first")):
                    self.assertNotIn(place, text, path)


if __name__ == "__main__":
    BUILD, CMAKE, CC, CXX = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1])
