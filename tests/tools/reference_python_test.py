"""tools/reference_python.py writes what is public once, in order, and notices a stale page."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
sys.dont_write_bytecode = True
import reference_python  # noqa: E402

BASE = '''"""The base. More of it.

>>> 1
1
"""

__all__ = ["Box", "f"]

# ---- boxes


class Box:
    """A box."""

    # ---- sizes

    def __init__(self, size: int = 3):
        self.size = size

    @property
    def area(self) -> int:
        """Its area."""
        return self.size**2

    @area.setter
    def area(self, value: int) -> None:
        pass

    # ---- nothing follows

    def _hidden(self) -> None:
        """Not shown."""


# ---- functions


def f(x: int, *, y: str = "a") -> Box:
    """Makes one:

        Box()

    >>> f(1)
    Box()

    And ends."""


def g() -> None:
    """Not in __all__."""
'''
MIXIN = '''"""Ways to close. Of boxes."""


class CloseMixin:
    @classmethod
    def close(cls, *how) -> None:
        """Closes it."""
'''
PAGE = """## Box

The base. More of it.

```python
>>> 1
1
```

### Boxes

### `Box`

```python
Box(size: int=3)
```

A box.

#### Sizes

##### `Box.area`

```python
area: int
```

Its area.

### Functions

### `f`

```python
f(x: int, *, y: str='a') -> Box
```

Makes one:

```python
Box()
```

```python
>>> f(1)
Box()
```

And ends.

## Both

A box.

### `Box`

```python
Box(size: int=3)
```

#### Sizes

##### `Box.area`

```python
area: int
```

Its area.

#### Ways to close. Of boxes

##### `Box.close`

```python
close(*how) -> None
```

Closes it.
"""


class ReferenceTest(unittest.TestCase):
    def test_page(self):
        parts = reference_python.PARTS
        reference_python.PARTS = [("Box", ["base"], None), ("Both", ["base", "mixin"], "Box")]
        self.addCleanup(setattr, reference_python, "PARTS", parts)
        with tempfile.TemporaryDirectory() as work:
            page = os.path.join(work, "PYTHON.md")
            arguments = ["--package", work, "--out", page]
            for name, text in (("base", BASE), ("mixin", MIXIN)):
                with open(os.path.join(work, f"{name}.py"), "w", encoding="utf-8") as file:
                    file.write(text)
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(reference_python.main(arguments + ["--check"]), 1)
                self.assertEqual(reference_python.main(arguments), 0)
                self.assertEqual(reference_python.main(arguments + ["--check"]), 0)
            with open(page, encoding="utf-8") as file:
                self.assertEqual(file.read().partition("## Box")[2], PAGE.partition("## Box")[2])
            with open(os.path.join(work, "mixin.py"), "a", encoding="utf-8") as file:
                file.write('\n    def open(self) -> None:\n        """Opens it."""\n')
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(reference_python.main(arguments + ["--check"]), 1)

    def test_the_package(self):
        package = os.path.join(reference_python.manifest.ROOT, "python", "aster_ml")
        page = reference_python.reference(package)
        for name in ("Tensor.sum", "Tensor.rand", "TinyJit", "Variable.bind", "Context"):
            self.assertIn(f"# `{name}`\n", page)
        for name in ("note_seen", "on_device", "_native"):
            self.assertNotIn(f"# `{name}`\n", page)


if __name__ == "__main__":
    unittest.main()
