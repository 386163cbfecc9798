#!/usr/bin/env python3
"""The command line as a user or a script meets it.

  cli_test.py ASTER DIGITS.BIN
"""

import json
import os
import pty
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

ASTER, DIGITS = (os.path.abspath(path) for path in sys.argv[1:3])
SIZES = {"F32": 4, "I64": 8}
COMMANDS = ("info", "cache info", "cache clear", "demo digits", "graph", "profile")
COMMANDS += ("tune", "run", "convert", "freeze")


def aster(*arguments, **options):
    return subprocess.run(
        [ASTER, *arguments], capture_output=True, text=True, timeout=300, check=False, **options
    )


def answer(*arguments, **options):
    """The JSON that a command prints, alone on standard output."""
    done = aster(*arguments, "--json", **options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr
    return json.loads(done.stdout)


class Usage(unittest.TestCase):
    def test_help(self):
        for arguments in (["--help"], ["-h"], ["info", "--help"], ["demo", "digits", "--help"]):
            done = aster(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for word in ("info", "cache clear", "demo digits", "--json", "--epochs"):
                self.assertIn(word, done.stdout)
        commands = answer("--help")["commands"]
        self.assertEqual(tuple(c["command"] for c in commands), COMMANDS)

    def test_version(self):
        self.assertRegex(aster("--version").stdout, r"^\d+\.\d+\.\d+\n$")
        self.assertEqual(answer("--version")["version"] + "\n", aster("--version").stdout)

    def test_mistakes(self):
        """One line on standard error that names what is wrong, nothing else, status 2."""
        for arguments in (
            [],
            ["--json"],
            ["nonsense"],
            ["demo"],
            ["demo", "nonsense"],
            ["cache"],
            ["info", "--nonsense"],
            ["info", "extra"],
            ["info", "--json=1"],
            ["cache", "info", "-x"],
            ["--version", "extra"],
            ["--nonsense"],
            ["demo", "digits", "--epochs"],
            ["demo", "digits", "--epochs="],
            ["demo", "digits", "--epochs", "many"],
            ["demo", "digits", "--epochs", "0"],
            ["demo", "digits", "--epochs", "2x"],
            ["demo", "digits", "--epochs", "99999999999999999999"],
            ["demo", "digits", "--threads", "-1"],
            ["demo", "digits", "--seed", "1.5"],
            ["profile", "p.aster", "--runs", "0"],
            *([*words.split(), "--nonsense"] for words in COMMANDS),
        ):
            done = aster(*arguments)
            self.assertEqual((arguments, done.returncode, done.stdout), (arguments, 2, ""))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("aster: "), done.stderr)

    def test_failures(self):
        """What was understood but cannot be done: one line, status 1."""
        with tempfile.TemporaryDirectory() as folder:
            short = os.path.join(folder, "short.bin")
            with open(short, "wb") as file:
                file.write(b"\0" * 100)
            missing = os.path.join(folder, "missing", "file")
            for arguments in (
                ["--data", missing],
                ["--data", short],
                ["--data", folder],
                ["--data", DIGITS, "--epochs", "1", "--save", missing],
            ):
                done = aster("demo", "digits", "--json", *arguments)
                self.assertEqual((arguments, done.returncode), (arguments, 1))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            # Of a file that is none: which, and why.
            for command in ("profile", "tune", "freeze", "convert", "run"):
                paths = ["--inputs", folder, "--outputs", folder] if command == "run" else []
                paths = ["-o", missing] if command in ("freeze", "convert") else paths
                files = ((short, "no"), (folder, "no regular file"), (missing, "no such"))
                for path, said in files:
                    done = aster(command, path, *paths)
                    self.assertEqual((command, path, done.returncode), (command, path, 1))
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertIn(f"'{path}'", done.stderr)
                    self.assertIn(said, done.stderr)
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([ASTER, "info"], stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)


class Graphs(unittest.TestCase):
    def test_every_form_of_a_line_is_read(self):
        """Windows without a size, and a move between devices, as they are printed."""
        text = (
            "%0 = Param float32[2, 8] (0)\n"
            "%1 = Contiguous float32[2, 8] %0 (196608, 65536)\n"
            "%2 = Window float32[2, 7, 2] %1 (1, 1, 1)\n"
            "%3 = Reduce:Add float32[2, 7, 1] %2 (2)\n"
        )
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            done = aster("graph", "--file", file.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("Contiguous", "Window", "Reduce"):
            self.assertIn(word, done.stdout)


class Pages(unittest.TestCase):
    def test_what_stands_where_a_page_is_written(self):
        """Links are followed, permissions stay, devices and pipes are written through."""
        with tempfile.TemporaryDirectory() as folder:
            graph, target = os.path.join(folder, "graph.txt"), os.path.join(folder, "page.html")
            link, pipe = os.path.join(folder, "link"), os.path.join(folder, "pipe")
            with open(graph, "w", encoding="utf-8") as file:
                file.write("%0 = Param float32[2, 8] (0)\n")
            with open(target, "w", encoding="utf-8") as file:
                file.write("before")
            os.chmod(target, 0o640)
            os.symlink("page.html", link)
            done = aster("graph", "--file", graph, "--html", link)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.islink(link))
            self.assertEqual(os.stat(target).st_mode & 0o777, 0o640)
            with open(target, encoding="utf-8") as file:
                page = file.read()
            self.assertTrue(page.startswith("<!doctype html>"))
            self.assertEqual(aster("graph", "--file", graph, "--html", "/dev/null").returncode, 0)
            self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
            self.assertEqual(aster("graph", "--file", graph, "--html", "/dev/full").returncode, 1)
            os.mkfifo(pipe)
            with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
                self.assertEqual(aster("graph", "--file", graph, "--html", pipe).returncode, 0)
                self.assertEqual(reader.communicate()[0], page)
            self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
            self.assertEqual(sorted(os.listdir(folder)), ["graph.txt", "link", "page.html", "pipe"])


class Machine(unittest.TestCase):
    def test_info(self):
        found = answer("info")
        self.assertRegex(found["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("x86_64", found["cpu_features"])
        self.assertIn(found["vector_bytes"], (16, 32, 64))
        self.assertGreaterEqual(found["threads"], 1)
        self.assertIn("CPU", found["devices"])
        self.assertEqual(set(found["compiler"]), {"path", "version"})
        self.assertEqual(set(found["blas"]), {"path", "config"})
        text = aster("info").stdout
        for value in (found["version"], found["cpu_features"], found["compiler"]["version"]):
            self.assertIn(value, text)

    def test_model(self):
        found = answer("info", "--model", "CPU")
        self.assertEqual(found["device"], "CPU")
        self.assertGreaterEqual(found["model"]["product_vectors"], 1)
        text = aster("info", "--model", "CPU").stdout
        self.assertRegex(text, r"(?m)^product_vectors +3 +most vectors side by side$")
        self.assertEqual(len(text.splitlines()), len(found["model"]))
        done = aster("info", "--model", "NOWHERE")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NOWHERE", done.stderr)

    def test_without_compiler(self):
        found = answer("info", env={**os.environ, "ASTER_ML_CC": "none"})
        self.assertEqual(found["compiler"], {"path": "", "version": ""})

    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "ASTER_ML_CACHE_DIR": folder, "ASTER_ML_TIERS": "off"}
            train = ["demo", "digits", "--data", DIGITS, "--epochs", "1"]
            first = answer(*train, env=environment)
            second = answer(*train, env=environment)
            if first["interpreted"] == 0:
                self.assertGreater(first["kernels_compiled"], 0)
                self.assertEqual(second["kernels_compiled"], 0)
                self.assertGreater(second["cache_hits"], 0)
            self.assertEqual(second["test_accuracy"], first["test_accuracy"])
            before = answer("cache", "info", env=environment)
            self.assertEqual(before["path"], folder)
            self.assertEqual(before["entries"] > 1, first["interpreted"] == 0)
            kept = os.path.join(folder, "not-ours")
            with open(kept, "w", encoding="utf-8") as file:
                file.write("x")
            removed = answer("cache", "clear", env=environment)
            after = answer("cache", "info", env=environment)
            self.assertEqual(removed["removed_entries"], before["entries"])
            self.assertLessEqual(after["entries"], 1)  # what the compiler said of itself
            self.assertTrue(os.path.exists(kept))


def read_safetensors(path):
    """Name -> (dtype, shape) of a file whose layout is checked on the way."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    at = 0
    for tensor in sorted(header.values(), key=lambda t: t["data_offsets"]):
        begin, end = tensor["data_offsets"]
        size = SIZES[tensor["dtype"]]
        for dim in tensor["shape"]:
            size *= dim
        assert (begin, end) == (at, at + size) and length % 8 == 0
        at = end
    assert 8 + length + at == len(data)
    return {name: (t["dtype"], t["shape"]) for name, t in header.items()}


class Demo(unittest.TestCase):
    def test_digits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits.safetensors")
            result = answer("demo", "digits", "--save", path)  # the data beside the command
            self.assertGreaterEqual(result["test_accuracy"], 0.98)
            self.assertEqual(result["test_count"], 359)
            self.assertTrue(result["reload_identical"])
            for key in ("kernels", "train_ms", "planned_bytes", "step_ms"):
                self.assertGreater(result[key], 0)
            self.assertGreaterEqual(result["compile_ms"], 0)
            tensors = read_safetensors(path)
            self.assertEqual(tensors["conv2.weight"], ("F32", [32, 16, 3, 3]))
            self.assertEqual(tensors["norm1.num_batches_tracked"], ("I64", []))
            self.assertEqual(len(tensors), 14)
            self.assertEqual(os.path.getsize(path), result["file_bytes"])

    def test_nothing_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TMPDIR": folder}
            done = aster("demo", "digits", "--epochs", "1", env=environment, cwd=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(os.listdir(folder), [])
            self.assertNotIn("\r", done.stdout)
            for word in ("accuracy", "kernels", "cache", "compiled", "planned"):
                self.assertIn(word, done.stdout)

    def test_progress_on_a_terminal(self):
        master, slave = pty.openpty()
        with subprocess.Popen(
            [ASTER, "demo", "digits", "--epochs", "2"], stdout=slave, stderr=slave
        ) as process:
            os.close(slave)
            shown = b""
            while True:
                try:
                    piece = os.read(master, 4096)
                except OSError:
                    break
                if not piece:
                    break
                shown += piece
            self.assertEqual(process.wait(), 0)
        os.close(master)
        self.assertIn("\rtraining", shown.decode())
        self.assertIn("2/2 epochs", shown.decode())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
