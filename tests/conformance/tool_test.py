"""Tests of the tool itself: generation, crashes, verdicts, shrinking, reports, records."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tool  # noqa: F401

try:
    import numpy as np
except ImportError:
    python = os.environ.get("ASTER_ML_PYTHON")  # that of the oracles, scripts/test.sh sets it
    if python and os.path.realpath(python) != os.path.realpath(sys.executable):
        os.execv(python, [python, "-W", "ignore", *sys.argv])
    print("SKIPPED: needs a Python with NumPy: set ASTER_ML_PYTHON to one")
    sys.exit(77)

from aster_conformance import (
    differences,
    engines,
    generate,
    kept,
    programs,
    record,
    report,
    run,
    verdict,
)  # noqa: E402
from aster_conformance.operators import ROWS  # noqa: E402
from aster_conformance.process import Outcome, Process  # noqa: E402

BROKEN = "file:" + os.path.join(HERE, "broken_engine.py")


def case(name, dtype="float32", count=1, seed=3):
    return generate.plainly(ROWS[name], dtype, count, seed)[0]


def literal(name, values, dtype="float32", **arguments):
    spec = {"dtype": dtype, "shape": list(np.shape(values)), "values": np.ravel(values).tolist()}
    return {"op": name, "dtype": dtype, "inputs": [spec], "args": arguments}


def results(*arrays, dtype="float32"):
    return Outcome("results", [(dtype, np.asarray(a)) for a in arrays])


class Generation(unittest.TestCase):
    def test_every_row_gives_plain_cases_that_its_numpy_function_takes(self):
        engine = engines.make("numpy")
        for row in ROWS.values():
            for dtype in row.dtypes:
                for found in generate.plainly(row, dtype, 3, 5):
                    self.assertEqual(found, json.loads(json.dumps(found)), row.name)
                    if row.numpy:
                        try:
                            engine.read(found, engine.build(found))
                        except Exception as error:
                            self.assertTrue(engine.unsupported(error), (found, error))

    def test_equal_seeds_give_equal_cases(self):
        for make in (generate.plainly, generate.generate):
            row = ROWS["conv2d"]
            self.assertEqual(make(row, "float32", 5, 7), make(row, "float32", 5, 7))
            self.assertNotEqual(make(row, "float32", 5, 7), make(row, "float32", 5, 8))

    def test_the_public_surface_has_rows(self):
        """Every method of the recorded list of tinygrad's, but what is no operator."""
        named = {n.split(".")[0] for n in ROWS} | {n.split(".")[-1] for n in ROWS}
        for name in ("where", "scatter_reduce", "max_unpool2d", "svd", "logcumsumexp", "rearrange"):
            self.assertIn(name, named)
        self.assertGreater(len(ROWS), 240)


class Verdicts(unittest.TestCase):
    def judge(self, name, ours, theirs, dtype="float32", **more):
        given = case(name, dtype)
        given.pop("gradient", None)
        return verdict.compare(given, ("aster", "tinygrad"), (ours, theirs), **more)

    def test_distance_is_counted_in_units_of_the_last_place(self):
        one = np.float32(1.5)
        near = np.nextafter(one, np.float32(2))
        found = self.judge("sqrt", results([one]), results([near]))
        self.assertEqual((found.kind, found.ulps), ("agree", 1.0))
        self.assertEqual(self.judge("sqrt", results([1.5]), results([1.6])).kind, "differ")

    def test_what_must_be_equal_is(self):
        self.assertEqual(
            self.judge("neg", results([1.0]), results([np.nextafter(1, 2)])).kind, "differ"
        )
        nan = results([np.nan, np.inf, 0.0])
        self.assertEqual(self.judge("neg", nan, results([np.nan, np.inf, -0.0])).kind, "agree")
        self.assertEqual(self.judge("neg", nan, results([np.nan, -np.inf, 0.0])).kind, "differ")

    def test_shapes_dtypes_counts_and_errors_differ(self):
        self.assertEqual(self.judge("neg", results([1.0]), results([[1.0]])).kind, "differ")
        self.assertEqual(
            self.judge("neg", results([1.0]), results([1.0], dtype="float16")).kind, "differ"
        )
        self.assertEqual(self.judge("neg", results([1.0]), results([1.0], [1.0])).kind, "differ")
        error = Outcome("error", text="ValueError: no")
        self.assertEqual(self.judge("neg", error, results([1.0])).kind, "differ")
        self.assertEqual(self.judge("neg", error, error).kind, "agree")
        self.assertEqual(self.judge("neg", Outcome("crashed"), error).kind, "crashed")
        self.assertEqual(self.judge("neg", Outcome("unsupported"), error).kind, "unsupported")

    def test_the_table_of_differences_excuses(self):
        given = literal("neg", [1])
        pair = (results([1], dtype="int32"), results([1], dtype="weakint"))
        row = differences.Difference("*/neg/*", "dtype", "a row of this test")
        for table, kind, reason in (([row], "deliberate", row.reason), ([], "differ", "")):
            with unittest.mock.patch.object(differences, "DIFFERENCES", table):
                found = verdict.compare(given, ("aster", "tinygrad"), pair)
            self.assertEqual((found.kind, found.reason), (kind, reason))


class Processes(unittest.TestCase):
    def setUp(self):
        self.engine = Process(BROKEN, timeout=2.0)
        self.addCleanup(self.engine.stop)

    def test_a_crash_is_one_case_s(self):
        cases = [literal("neg", [1.0]), literal("sqrt", [4.0]), literal("square", [3.0])]
        found = self.engine.run(cases)
        self.assertEqual([o.kind for o in found], ["results", "crashed", "results"])
        self.assertEqual(found[2].results[0][1].tolist(), [9.0])

    def test_so_is_a_hang(self):
        found = self.engine.run([literal("exp", [1.0]), literal("neg", [1.0])])
        self.assertEqual([o.kind for o in found], ["timeout", "results"])

    def test_errors_are_answers(self):
        found = self.engine.run([literal("sin", [1.0]), literal("abs", [1.0])])
        self.assertEqual([o.kind for o in found], ["unsupported", "error"])
        self.assertIn("ValueError", found[1].text)

    def test_an_engine_that_is_not_there(self):
        with self.assertRaisesRegex(RuntimeError, "does not start"):
            Process("file:/nowhere.py").run([literal("neg", [1.0])])


class Runs(unittest.TestCase):
    def plan(self, only, **more):
        fields = {
            "engines": ["numpy", BROKEN],
            "rows": generate.rows(only),
            "dtypes": ["float32"],
            "timeout": 5.0,
            "count": 12,
            **more,
        }
        return run.Plan(**fields)

    def test_findings_are_shrunk_kept_and_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            found = run.run(self.plan(["relu", "neg"], kept=folder))
            self.assertEqual({f["case"]["op"] for f in found.failures}, {"relu"})
            self.assertEqual(found.total("crashed"), 0)
            values = found.failures[0]["case"]["inputs"][0]
            self.assertIn("values", values)
            if not generate.available():  # hypothesis shrinks shapes
                self.assertLessEqual(len(values["values"]), 2)
            self.assertEqual(len(os.listdir(folder)), len(found.failures))
            again = run.run(self.plan(["relu", "neg"], kept=folder, shrink=False))
            self.assertEqual({k["kind"] for k in again.kept}, {"differ"})
            for name, kept_case in kept.load(folder):
                self.assertIn(kept_case["op"], name)

    def test_reports_say_what_was_found(self):
        found = run.run(self.plan(["relu", "neg", "sqrt", "sin"], shrink=False))
        self.assertGreater(found.total("crashed"), 0)
        self.assertGreater(found.total("unsupported"), 0)
        data = json.loads(report.as_json(found))
        self.assertEqual(sum(data["totals"].values()), found.cases())
        for write in report.FORMATS.values():
            text = write(found)
            for name in ("relu", "neg", "sqrt", "differ", "crashed"):
                self.assertIn(name, text)

    def test_recorded_answers_stand_for_their_engine(self):
        cases = [literal("neg", [1.0, -2.0]), literal("abs", [1.0]), literal("sin", [1.0])]
        engine = Process(BROKEN, timeout=5.0)
        self.addCleanup(engine.stop)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "answers.npz")
            self.assertEqual(record.save(path, "broken", cases, engine.run(cases)), 2)
            again = record.Recorded("recorded:" + path)
            kinds = [o.kind for o in again.run(cases)]
            self.assertEqual(kinds, ["results", "error", "unsupported"])
            self.assertEqual(again.run(cases)[0].results[0][1].tolist(), [-1.0, 2.0])
            plan = run.Plan(engines=["numpy", "recorded:" + path], rows=generate.rows(["neg"]))
            self.assertEqual(run.run(plan).total("agree"), 1)


class CommandLine(unittest.TestCase):
    def call(self, *arguments):
        folder = os.path.join(tool.FOLDER)
        command = [sys.executable, "-W", "ignore", folder, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def test_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            for ending in (".md", ".html", ".json", ".txt"):
                page = os.path.join(folder, "page" + ending)
                done = self.call("numpy", "numpy", "--only", "neg", "--count", "1", "--page", page)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(page, encoding="utf-8") as file:
                    self.assertIn("neg", file.read())

    def test_status_and_messages(self):
        broken = self.call("numpy", BROKEN, "--only", "relu", "--no-shrink", "--kept", "none")
        self.assertEqual(broken.returncode, 1)
        self.assertIn("differ: relu", broken.stdout)
        self.assertEqual(self.call("numpy", "matlab").returncode, 2)
        self.assertEqual(self.call("numpy").returncode, 2)
        self.assertEqual(self.call("numpy", "numpy", "--only", "nothing").returncode, 2)
        self.assertIn("/conv2d", self.call("--list").stdout)


class Kernels(unittest.TestCase):
    def test_more_than_allowed_fails(self):
        from aster_conformance.kernels import failures

        self.assertEqual(failures({"a": 2, "b": 1}, {"a": 2, "b": 3}), [])
        self.assertEqual(len(failures({"a": 3, "b": "error: no"}, {"a": 2})), 2)
        self.assertGreater(len(programs.PROGRAMS), 50)


if __name__ == "__main__":
    unittest.main()
