#!/usr/bin/env python3
"""The pages in a headless Chromium: nothing is asked of the network, nothing fails, all is there.

pages_test.py ASTER DIGITS.BIN DOCS
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402

ASTER, DIGITS, DOCS = (os.path.abspath(path) for path in sys.argv[1:4])
PROGRAM = os.path.join(os.path.dirname(DIGITS), "../../tests/nn/program_v1.aster")
EPOCHS, TESTED, SKIPPED = 4, 359, 77


def aster(*arguments, **variables):
    return subprocess.run(
        [ASTER, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **variables},
    )


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def made(self, name, *arguments):
        if not os.path.exists(self.path(name)):
            done = aster(*arguments, "--html", self.path(name))
            self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(name)

    def open(self, path, **options):
        self.browser.open(path, **options)
        here = [r for r in self.browser.requests if not r.startswith(("file://", "data:"))]
        files = [r for r in self.browser.requests if r.startswith("file://")]
        self.assertEqual(here, [])
        self.assertEqual(len(files), 1, files)
        self.assertEqual(self.browser.errors, [])

    def value(self, expression):
        return self.browser.run(expression)

    def count(self, selector):
        return self.value(f"document.querySelectorAll({selector!r}).length")

    def fits(self, path):
        for dark in (False, True):
            self.open(path, width=375, dark=dark)
            self.assertLessEqual(self.value("document.documentElement.scrollWidth"), 375)

    # What every page owes its readers.
    def accessible(self):
        self.assertEqual(self.count("h1"), 1)
        self.assertEqual(self.value("document.documentElement.lang"), "en")
        self.assertTrue(self.value("document.title"))
        unnamed = "[...document.querySelectorAll('svg[role=img],button,input')].filter(e => !("
        unnamed += "e.getAttribute('aria-label') || e.textContent || e.labels?.length ||"
        unnamed += "e.getAttribute('aria-labelledby'))).length"
        self.assertEqual(self.value(unnamed), 0)
        ids = "[...document.querySelectorAll('[id]')].map(e => e.id)"
        self.assertTrue(self.value(f"new Set({ids}).size === {ids}.length"))

    def digits(self):
        return self.made("digits <&>.html", "demo", "digits", "--data", DIGITS, "--epochs",
                         str(EPOCHS), "--seed", "7")  # fmt: skip

    def test_digits(self):
        self.open(self.digits())
        self.accessible()
        self.assertEqual(self.count("#loss .mark"), EPOCHS)
        self.assertEqual(self.count("#accuracy .mark"), EPOCHS)
        steps = self.value("document.querySelector('#loss .faint').points.numberOfItems")
        self.assertEqual(steps, EPOCHS * 11)  # 1438 digits in whole batches of 128
        cells = "[...document.querySelectorAll('#confusion td')].map(e => Number(e.textContent))"
        numbers = self.value(cells)
        self.assertEqual((len(numbers), sum(numbers)), (100, TESTED))
        wrong = sum(n for i, n in enumerate(numbers) if i % 11)
        self.assertEqual(self.count("figure.wrong"), wrong)
        # Every mistake leads to an image.
        dead = "[...document.querySelectorAll('#confusion a')].filter(e => "
        dead += "!document.querySelector(e.getAttribute('href'))).length"
        self.assertEqual(self.value(dead), 0)
        # Marks go down from left to right as the numbers do: the first mean loss is the greatest.
        heights = "[...document.querySelectorAll('#loss .mark')].map(e => e.cy.baseVal.value)"
        self.assertEqual(self.value(heights)[0], min(self.value(heights)))

    def test_digits_keyboard(self):
        self.open(self.digits())
        self.browser.key("Tab")
        self.assertEqual(self.value("document.activeElement.className"), "skip")
        self.browser.key("Enter", "\r")
        self.assertEqual(self.value("location.hash"), "#main")

    def test_digits_narrow(self):
        self.fits(self.digits())

    def test_unwritable(self):
        for path in (self.path("no/such/folder.html"), self.folder.name):
            done = aster("demo", "digits", "--data", DIGITS, "--html", path)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(path, done.stderr)
        self.assertEqual([n for n in os.listdir(self.folder.name) if n.endswith(".new")], [])

    def test_graph(self):
        path = self.made("attention.html", "graph", "--of", "attention", "--level", "schedule")
        self.open(path)
        self.accessible()
        self.assertEqual(self.count("#levels button"), 7)
        self.assertEqual(self.value("document.querySelector('[aria-pressed=true]').textContent"),
                         "schedule")  # fmt: skip
        for level in range(7):
            self.value(f"document.querySelectorAll('#levels button')[{level}].click()")
            self.assertEqual(self.count(".node"), self.value("graph.nodes.length"))
            self.assertEqual(self.count(".edge"), self.value("graph.edges.length"))
        self.assertEqual(self.browser.errors, [])

    def test_graph_search(self):
        self.open(self.made("softmax.html", "graph", "--of", "softmax", "--level", "prepared"))
        self.value("document.getElementById('query').focus()")
        self.browser.type("reduce max")
        self.assertEqual(self.count(".node.found"), 1)
        self.browser.key("Enter", "\r")
        self.assertIn("Reduce:Max", self.value("document.querySelector('#panel h2').textContent"))
        self.value("document.getElementById('view').focus()")
        before = self.value("document.getElementById('scene').getAttribute('transform')")
        self.browser.key("ArrowLeft")
        self.assertNotEqual(
            self.value("document.getElementById('scene').getAttribute('transform')"), before
        )

    def test_graph_click(self):
        self.open(self.made("softmax.html", "graph", "--of", "softmax", "--level", "prepared"))
        box = "document.querySelector('.node rect').getBoundingClientRect()"
        x, y = self.value(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
        self.browser.click(x, y)
        self.assertEqual(self.count(".node.chosen"), 1)
        self.assertGreater(self.count("#panel dt"), 1)

    def test_graph_narrow(self):
        self.fits(self.made("attention.html", "graph", "--of", "attention"))

    def test_long_graph(self):
        """A chain with 2,000 nodes, from text."""
        lines = ["%0 = Param float32[4] (0)"]
        for i in range(1, 2000):
            op = "Sin" if i % 2 else "Exp"
            lines.append(f"%{i} = {op} float32[4] %{i - 1}")
        with open(self.path("long.txt"), "w") as file:
            file.write("\n".join(lines) + "\n")
        done = aster("graph", "--file", self.path("long.txt"), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.open(self.made("long.html", "graph", "--file", self.path("long.txt")))
        self.assertEqual(self.count(".node"), 2000)

    def test_profile(self):
        path, trace = self.path("profile.html"), self.path("trace.json")
        done = aster("profile", PROGRAM, "--runs", "7", "--html", path, "--trace", trace, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        kernels = json.loads(done.stdout)["kernels"]
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        calls = sum(k["calls"] for k in kernels)
        self.assertEqual((len(events), calls % 7), (calls, 0))
        self.assertGreater(calls, 0)
        self.open(path)
        self.accessible()
        rows = "[...document.querySelectorAll('#kernels tbody tr')].map("
        rows += "r => r.cells[0].textContent)"
        self.assertEqual(sorted(self.value(rows)), sorted(k["kernel"] for k in kernels))
        totals = self.value("document.getElementById('totals').textContent")
        self.assertIn(f"{calls} launches", totals)
        self.assertGreater(self.count("#timeline .span"), 0)
        self.assertEqual(self.count("#memory polyline"), 1)
        # What is held, over time: a point a launch, as far up as it is of the most.
        points = "[...document.querySelector('#memory polyline').points].map(p => [p.x, p.y])"
        held, points = self.value("launches.map(l => l.held)"), self.value(points)
        self.assertEqual(len(points), calls)
        self.assertEqual([x for x, _ in points], sorted(x for x, _ in points))
        self.assertGreater(min(held), 0)
        for (_, y), amount in zip(points, held):
            self.assertAlmostEqual(y, 100 - 92 * amount / max(held), delta=0.01)
        self.assertEqual(self.count("#places tbody tr"), 7)  # a row a run
        # By name, both ways; a row chosen is drawn so.
        for direction in ("ascending", "descending"):
            self.value("document.querySelector('#kernels th button').click()")
            sort = self.value("document.querySelector('#kernels th').getAttribute('aria-sort')")
            self.assertEqual(sort, direction)
            names = self.value(rows)
            self.assertEqual(names, sorted(names, reverse=direction == "descending"))
        self.value("document.querySelector('#kernels tbody tr').click()")
        self.assertEqual(self.count("#kernels tr.chosen"), 1)
        self.assertGreater(self.count("#timeline .chosen"), 0)
        before = self.value("document.getElementById('at').textContent")
        self.value("document.getElementById('closer').click()")
        self.assertNotEqual(self.value("document.getElementById('at').textContent"), before)
        self.value("document.getElementById('query').focus()")
        self.browser.type("no such kernel")
        self.assertEqual(self.count("#kernels tbody tr"), 0)
        self.fits(path)

    def test_profile_mistakes(self):
        for words, status, word in (
            ((), 2, "FILE"),
            ((self.path("none.aster"),), 1, "none.aster"),
            ((DIGITS,), 1, "FORMAT"),
            ((PROGRAM, "--runs", "0"), 2, "--runs"),
            ((PROGRAM, "--html", self.path("no/such/folder.html")), 1, "folder.html"),
        ):
            done = aster("profile", *words)
            self.assertEqual((done.returncode, done.stdout), (status, ""), words)
            self.assertIn(word, done.stderr)

    def test_tune(self):
        runs = ("tune", PROGRAM, "--beam", "1", "--runs", "3", "--json")
        with tempfile.TemporaryDirectory() as cache:
            told = [json.loads(aster(*runs, ASTER_ML_CACHE_DIR=cache).stdout) for _ in range(2)]
        self.assertEqual([[k["kept"] for k in t["kernels"]] for t in told], [[0, 0], [1, 1]])
        for kernel in told[0]["kernels"]:
            self.assertLessEqual(kernel["best_us"], kernel["planned_us"])
        self.assertGreater(told[0]["best_ms"], 0)
        for words, status, word in (
            ((), 2, "FILE"),
            ((self.path("none.aster"),), 1, "none.aster"),
            ((PROGRAM, "--beam", "65"), 2, "--beam"),
        ):
            done = aster("tune", *words)
            self.assertEqual((done.returncode, done.stdout), (status, ""), words)
            self.assertIn(word, done.stderr)

    def test_graph_mistakes(self):
        for text, word in (
            ("", "no graph"),
            ("nonsense\n", ":1:"),
            ("%0 = Param float32[4] (0)\n%1 = Nonsense float32[4] %0\n", "Nonsense"),
            ("%0 = Add float32[4] %3 %4\n", "not above"),
            ("%0 = Param float99[4] (0)\n", "float99"),
        ):
            with open(self.path("bad.txt"), "w") as file:
                file.write(text)
            done = aster("graph", "--file", self.path("bad.txt"))
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertIn(word, done.stderr)

    def test_docs(self):
        pages = sorted(os.listdir(DOCS))
        self.assertIn("index.html", pages)
        for page in pages:
            self.open(os.path.join(DOCS, page))
            self.accessible()
            # Every link leads to a page and an anchor that are there.
            for link in set(self.value(
                "[...document.querySelectorAll('a[href]')].map(e => e.getAttribute('href'))"
            )):  # fmt: skip
                name, _, anchor = link.partition("#")
                target = os.path.join(DOCS, name or page)
                self.assertTrue(os.path.exists(target), link)
                if anchor:
                    with open(target, encoding="utf-8") as file:
                        self.assertIn(f'id="{anchor}"', file.read(), link)

    def test_docs_search(self):
        self.open(os.path.join(DOCS, "index.html"))
        self.value("document.getElementById('query').focus()")
        self.browser.type("engine graph")
        names = self.value("[...document.querySelectorAll('#results a')].map(e => e.textContent)")
        self.assertIn("aster_ml_engine_graph", names)
        self.value("document.getElementById('query').select()")
        self.browser.type("tensor.graph")
        link = self.value("document.querySelector('#results a').getAttribute('href')")
        self.assertEqual(link, "python.html#Tensor.graph")
        self.fits(os.path.join(DOCS, "index.html"))
        self.fits(os.path.join(DOCS, "python.html"))
        self.fits(os.path.join(DOCS, "tensor_h.html"))


if __name__ == "__main__":
    if browser.find() is None:
        print("no chromium: apt-get install chromium")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
