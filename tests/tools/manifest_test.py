"""tools/manifest.py reads our headers, refuses what it cannot represent, sees an ABI change."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
sys.dont_write_bytecode = True
import manifest  # noqa: E402

HEADER = """/* About the module. */
#ifndef ASTER_ML_BASE_H
#define ASTER_ML_BASE_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define ASTER_ML_API
#define ASTER_ML_VERSION_MAJOR 3
#define ASTER_ML_FLAGS (1u << 4)
typedef int32_t aster_ml_code;
enum { ASTER_ML_A = 2, ASTER_ML_B, /* after A */ ASTER_ML_C = 0x10 | ASTER_ML_A };

/* A pair. */
typedef struct aster_ml_pair {
  int8_t first; /* small */
  double *second;
  char name[16];
  void (*call)(void *self, size_t count);
} aster_ml_pair;
typedef struct aster_ml_hidden aster_ml_hidden;
typedef void (*aster_ml_callback)(void *self, int32_t level);

/* out = a + b.
 * Shapes: any [m], as b.
 * Errors: SHAPE, DTYPE.   Cost: O(1). */
ASTER_ML_API int32_t aster_ml_pair_add(aster_ml_pair *out, size_t *count, const aster_ml_pair *a,
                                       const int64_t dims[4],
                                       void (*done)(void *self, int32_t code));

/* Empties it. */
ASTER_ML_API int32_t aster_ml_pair_free(aster_ml_pair *pair);

/* Static text. */
ASTER_ML_API const char *aster_ml_pair_name(void);
#ifdef __cplusplus
}
#endif
#endif
"""


def parse(text, strict=True):
    result = {"library": "x", "headers": {}, "constants": {}, "types": {}, "functions": []}
    manifest.parse_header(text, "base.h", result, strict)
    return result


class ManifestTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.headers = os.path.join(self.work.name, "aster_ml")
        os.mkdir(self.headers)
        self.recorded = os.path.join(self.work.name, "recorded.json")

    def write(self, text):
        with open(os.path.join(self.headers, "base.h"), "w", encoding="utf-8") as file:
            file.write(text)

    def run_tool(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = manifest.main(
                ["--headers", self.headers, "--recorded", self.recorded, *arguments]
            )
        return code, out.getvalue()

    def test_functions(self):
        add, free, name = parse(HEADER)["functions"]
        self.assertEqual(
            (add["name"], add["returns"], add["module"]), ("aster_ml_pair_add", "int32_t", "base")
        )
        self.assertEqual(
            [(a["name"], a["type"], a["direction"]) for a in add["arguments"]],
            [
                ("out", "aster_ml_pair *", "out"),
                ("count", "size_t *", "out"),
                ("a", "const aster_ml_pair *", "in"),
                ("dims", "const int64_t", "in"),
                ("done", "void (*)(void *self, int32_t code)", "in"),
            ],
        )
        self.assertEqual(add["doc"], "out = a + b.")
        self.assertEqual(
            add["contract"],
            {"Shapes": "any [m], as b.", "Errors": "SHAPE, DTYPE.", "Cost": "O(1)."},
        )
        self.assertEqual(free["arguments"][0]["direction"], "inout")
        self.assertEqual((name["returns"], name["arguments"]), ("const char *", []))

    def test_constants_and_types(self):
        result = parse(HEADER)
        self.assertEqual(result["headers"], {"base.h": "About the module."})
        self.assertEqual(
            {n: c["value"] for n, c in result["constants"].items()},
            {
                "ASTER_ML_VERSION_MAJOR": 3,
                "ASTER_ML_FLAGS": 16,
                "ASTER_ML_A": 2,
                "ASTER_ML_B": 3,
                "ASTER_ML_C": 18,
            },
        )
        kinds = {name: entry["kind"] for name, entry in result["types"].items()}
        self.assertEqual(
            kinds,
            {
                "aster_ml_code": "integer",
                "aster_ml_pair": "struct",
                "aster_ml_hidden": "opaque",
                "aster_ml_callback": "function",
            },
        )
        fields = [
            (f["name"], f["type"], f.get("count"))
            for f in result["types"]["aster_ml_pair"]["fields"]
        ]
        self.assertEqual(
            fields,
            [
                ("first", "int8_t", None),
                ("second", "double *", None),
                ("name", "char", "16"),
                ("call", "void (*)(void *self, size_t count)", None),
            ],
        )

    def test_a_family_shares_its_comment(self):
        functions = parse(
            "/* F, G. */\nASTER_ML_API int32_t aster_ml_f(void);\n"
            "ASTER_ML_API int32_t aster_ml_g(int32_t a,\n int32_t b);\n"
            "ASTER_ML_API int32_t aster_ml_h(void);\n"
        )["functions"]
        self.assertEqual([f["doc"] for f in functions], ["F, G."] * 3)

    def test_refuses(self):
        for text, what in (
            ("ASTER_ML_API int32_t aster_ml_f(void);\n", "no comment"),
            ("/* Far away. */\n\nASTER_ML_API int32_t aster_ml_f(void);\n", "no comment"),
            (
                "/* F. */\nASTER_ML_API int32_t aster_ml_f(void);\n\n"
                "ASTER_ML_API int32_t aster_ml_g(void);\n",
                "aster_ml_g has no comment",
            ),
            ("/* F. */\nASTER_ML_API int32_t other_f(void);\n", "not of the form"),
            ("/* F. */\nASTER_ML_API int32_t aster_ml_f(void);\n" * 2, "declared twice"),
            ("int32_t aster_ml_f(void);\n", "cannot read"),
            ("#define F(n) ASTER_ML_API int32_t aster_ml_##n(void);\n", "must not hide"),
            ("typedef enum { A } aster_ml_a;\n", "int32_t typedefs"),
            ("typedef struct aster_ml_a { struct { int x; } y; } aster_ml_a;\n", "nested struct"),
            ("enum { ASTER_ML_A = sizeof(int) };\n", "cannot evaluate"),
            ("typedef int32_t aster_ml_a", "ends inside"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(manifest.HeaderError, what):
                parse(text)
        self.assertEqual(
            len(parse("ASTER_ML_API int32_t aster_ml_f(void);\n", strict=False)["functions"]), 1
        )

    def test_layout_comes_from_the_compiler(self):
        if manifest.find_compiler() is None:
            self.skipTest("no C compiler")
        self.write(HEADER)
        code, out = self.run_tool()
        self.assertEqual(code, 0, out)
        pair = json.loads(out)["types"]["aster_ml_pair"]
        self.assertEqual(
            [(f["offset"], f["size"]) for f in pair["fields"]], [(0, 1), (8, 8), (16, 16), (32, 8)]
        )
        self.assertEqual((pair["size"], pair["align"]), (40, 8))

    def test_export_map(self):
        self.write(HEADER)
        path = os.path.join(self.work.name, "x.map")
        self.assertEqual(self.run_tool("--export-map", path)[0], 0)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(
            text.split(),
            [
                "{",
                "global:",
                "aster_ml_pair_add;",
                "aster_ml_pair_free;",
                "aster_ml_pair_name;",
                "local:",
                "*;",
                "};",
            ],
        )

    def test_a_change_must_be_declared(self):
        self.write(HEADER)
        self.assertEqual(self.run_tool("--check")[0], 1)
        self.assertEqual(self.run_tool("--record")[0], 0)
        self.assertEqual(self.run_tool("--check")[0], 0)
        self.write(HEADER.replace("/* Empties it. */", "/* Empties the pair. */"))
        self.assertEqual(self.run_tool("--check")[0], 0)  # words are not the ABI
        for old, new, what in (
            ("int8_t first;", "int16_t first;", "changed  type aster_ml_pair"),
            ("size_t *count, ", "", "changed  function aster_ml_pair_add"),
            ("ASTER_ML_A = 2", "ASTER_ML_A = 5", "changed  constant ASTER_ML_A"),
            ("_pair_name", "_pair_text", "removed  function aster_ml_pair_name"),
            ("_pair_name", "_pair_text", "added    function aster_ml_pair_text"),
        ):
            with self.subTest(what=what):
                self.write(HEADER.replace(old, new))
                code, out = self.run_tool("--check")
                self.assertEqual(code, 1)
                self.assertIn(what, out)


if __name__ == "__main__":
    unittest.main()
