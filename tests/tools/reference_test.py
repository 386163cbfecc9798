"""tools/reference.py writes every function once, families together, and notices a stale page."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
sys.dont_write_bytecode = True
import reference  # noqa: E402

HEADER = """/* Conventions. */
#define ASTER_ML_API
enum { ASTER_ML_A = 2 };
/* A pair. */
typedef struct aster_ml_pair {
  int *first;
  void *(*call)(void *self);
  char name[16];
} aster_ml_pair;
/* F and G. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_f(aster_ml_pair *out, void (*done)(int code));
ASTER_ML_API const char *aster_ml_g(void);
"""

PAGE = """## base.h

```text
Conventions.
```

**`aster_ml_pair`** A pair.

```c
int *first;
void *(*call)(void *self);
char name[16];
```

Constants: `ASTER_ML_A` 2.

```c
int32_t aster_ml_f(aster_ml_pair *out, void (*done)(int code));
const char *aster_ml_g(void);
```

F and G.

*Errors*: SHAPE.
"""


class ReferenceTest(unittest.TestCase):
    def test_page(self):
        with tempfile.TemporaryDirectory() as work:
            header, page = os.path.join(work, "base.h"), os.path.join(work, "API.md")
            arguments = ["--headers", work, "--out", page]
            with open(header, "w", encoding="utf-8") as file:
                file.write(HEADER)
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(reference.main(arguments + ["--check"]), 1)
                self.assertEqual(reference.main(arguments), 0)
                self.assertEqual(reference.main(arguments + ["--check"]), 0)
            with open(page, encoding="utf-8") as file:
                self.assertEqual(file.read(), reference.INTRO + "\n" + PAGE)
            with open(header, "a", encoding="utf-8") as file:
                file.write("\n/* H. */\nASTER_ML_API int32_t aster_ml_h(void);\n")
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(reference.main(arguments + ["--check"]), 1)


if __name__ == "__main__":
    unittest.main()
