#!/usr/bin/env python3
"""Writes docs/PYTHON.md, the reference of the Python package, from its sources: signatures,
docstrings, and the headings that stand between functions.

tools/reference_python.py           write it
tools/reference_python.py --check   exit 1 if it would change
"""

import argparse
import ast
import os
import re
import sys
from dataclasses import dataclass, field

import manifest

# Each part of the page: its title, the modules that it is made of, and the class that the methods
# of its mixins belong to.
MIXINS = "creation movement indexing unary elementwise reduce op inplace not_offered".split()
PARTS = [
    ("Tensor", ["tensor", *(f"mixin/{name}" for name in MIXINS)], "Tensor"),
    ("TinyJit", ["engine/jit"], None),
    ("Variable", ["expression"], None),
    ("Bound variables", ["symbolic"], None),
    ("Views of memory", ["view"], None),
    ("dtypes", ["dtype"], None),
    ("Device", ["device"], None),
    ("function", ["function"], None),
    ("linalg", ["linalg"], None),
    ("sparse", ["sparse"], None),
    ("lowering", ["lowering"], None),
    ("registry", ["registry"], None),
    ("trace", ["trace"], None),
    ("helpers", ["helpers"], None),
    ("errors", ["errors"], None),
    ("freeze", ["freezing"], None),
    ("nn", ["nn/__init__"], None),
    ("nn.optim", ["nn/optim"], None),
    ("nn.state", ["nn/state"], None),
    ("nn.datasets", ["nn/datasets"], None),
    ("nn.onnx", ["nn/onnx"], None),
    ("nn.onnx.export", ["nn/onnx_export"], None),
    ("llm.gguf", ["llm/gguf"], None),
]
# What other modules of the package use.
INTERNAL = {
    "expression": {"combine", "VALUE"},
    "symbolic": {"note_seen", "bindings", "bound"},
    "dtype": {"code_of", "convert", "float_code", "from_code", "is_stored_float"},
    "device": {"code_of", "disk_path", "name_of", "on_device"},
    "errors": {"not_offered"},
}
INTRO = """# The Python package

Generated from the sources in `python/aster_ml` by `tools/reference_python.py`. Names, defaults and
results are tinygrad's but for what [`DIFFERENCES.md`](DIFFERENCES.md) lists. Examples are run as
tests, with `from aster_ml import *` before them.
"""


@dataclass
class Entry:
    """A function, method, property or class; a heading has a name only."""

    name: str
    kind: str  # def, class, property, heading
    signature: str = ""
    doc: str = ""
    members: list["Entry"] = field(default_factory=list)


@dataclass
class Part:
    title: str
    doc: str
    entries: list[Entry]


def arguments_of(function, method):
    """The parameters as they are written, without self, cls and annotations of what is returned."""
    parameters = function.args
    kinds = {d.id for d in function.decorator_list if isinstance(d, ast.Name)}
    if method and "staticmethod" not in kinds:
        del (parameters.posonlyargs or parameters.args)[:1]
    return ast.unparse(parameters)


def public(name):
    return not name.startswith("_")


def headings_of(text):
    """The comments that head groups of functions: line, text, whether they are in a class."""
    lines = enumerate(text.split("\n"), 1)
    found = ((n, re.match(r"(\s*)# -{4} (.+)", line)) for n, line in lines)
    return [(n, m[2], bool(m[1])) for n, m in found if m]


def returned(node):
    return f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""


def function_entry(node, method):
    decorators = {ast.unparse(d) for d in node.decorator_list}
    if "overload" in decorators or any(d.endswith(".setter") for d in decorators):
        return None
    doc = ast.get_docstring(node) or ""
    if decorators & {"property", "functools.cached_property"}:
        return Entry(node.name, "property", f"{node.name}{returned(node).replace(' ->', ':')}", doc)
    signature = f"{node.name}({arguments_of(node, method)}){returned(node)}"
    return Entry(node.name, "def", signature, doc)


def class_entry(node, headings):
    """A class: what makes it, its public members under the headings between them."""
    init = next(
        (f for f in node.body if getattr(f, "name", "") in ("__init__", "__new__")), None
    )
    arguments = arguments_of(init, True) if init is not None else ""
    entry = Entry(node.name, "class", f"{node.name}({arguments})", ast.get_docstring(node) or "")
    entry.members = entries_of(node.body, headings, True)
    return entry


def entries_of(body, headings, method=False):
    """What is public of a body, in its order, headings included where something follows."""
    first, last = (body[0].lineno - 2, body[-1].end_lineno) if body else (0, 0)
    out, waiting = [], [h for h in headings if first <= h[0] <= last and h[2] == method]
    for node in body:
        while waiting and waiting[0][0] < node.lineno:
            out.append(Entry(waiting.pop(0)[1], "heading"))
        found = None
        if isinstance(node, ast.FunctionDef) and public(node.name):
            found = function_entry(node, method)
        elif isinstance(node, ast.ClassDef) and public(node.name) and not method:
            found = class_entry(node, headings)
        if found is not None:
            out.append(found)
    kept = []
    for k, entry in enumerate(out):
        following = out[k + 1].kind if k + 1 < len(out) else "heading"
        if entry.kind != "heading" or following != "heading":
            kept.append(entry)
    return kept


def listed(tree):
    """The names in a module's __all__, None without one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return None


def read_part(root, title, modules, owner):
    part = Part(title, "", [])
    for module in modules:
        with open(os.path.join(root, f"{module}.py"), encoding="utf-8") as file:
            text = file.read()
        tree, headings = ast.parse(text), headings_of(text)
        doc = ast.get_docstring(tree) or ""
        entries, names = entries_of(tree.body, headings), listed(tree)
        hidden = INTERNAL.get(module, set())
        entries = [
            e
            for e in entries
            if e.kind == "heading" or e.name not in hidden and (names is None or e.name in names)
        ]
        if owner is None:
            part.doc, part.entries = doc, entries
        elif module == modules[0]:
            part.entries = [e for e in entries if e.name == owner]
            part.doc = part.entries[0].doc
        else:
            mixin = next(e for e in entries if e.name.endswith("Mixin"))
            part.entries[0].members += [Entry(doc.split("\n")[0].rstrip("."), "heading")]
            part.entries[0].members += mixin.members
    if owner is not None:
        part.entries[0].doc = ""
    return part


def read(root):
    """The parts of the page."""
    return [read_part(root, *row) for row in PARTS]


def split(doc):
    """A docstring as paragraphs: ("text", ...) and ("example", ...)."""
    out = []
    for paragraph in re.split(r"\n\s*\n", doc.strip()) if doc.strip() else []:
        kind = "example" if re.match(r"\s*>>>|    ", paragraph) else "text"
        if kind == "example":
            lines = paragraph.split("\n")
            indent = len(lines[0]) - len(lines[0].lstrip())
            paragraph = "\n".join(line[indent:] for line in lines)
        out.append((kind, paragraph))
    return out


def describe_doc(doc):
    lines = []
    for kind, text in split(doc):
        if kind == "example":
            lines += ["```python", text, "```", ""]
        else:
            lines += [text, ""]
    return lines


def describe(entry, level, owner=""):
    mark = "#" * level
    if entry.kind == "heading":
        title = entry.name[0].upper() + entry.name[1:]
        return [f"{mark} {title}", ""]
    name = f"{owner}{entry.name}"
    lines = [f"{mark} `{name}`", "", "```python", entry.signature, "```", ""]
    lines += describe_doc(entry.doc)
    for member in entry.members:
        deeper = level + (1 if member.kind == "heading" else 2)
        lines += describe(member, deeper, f"{entry.name}.")
    return lines


def reference(root):
    parts = read(root)
    links = (f"[`{p.title}`](#{p.title.lower().replace('.', '')})" for p in parts)
    lines = INTRO.split("\n") + [f"Parts: {', '.join(links)}.", ""]
    for part in parts:
        lines += [f"## {part.title}", "", *describe_doc(part.doc)]
        for entry in part.entries:
            lines += describe(entry, 3)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", default=os.path.join(manifest.ROOT, "python", "aster_ml"))
    parser.add_argument("--out", default=os.path.join(manifest.ROOT, "docs", "PYTHON.md"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    text = reference(options.package)
    if not options.check:
        manifest.write_if_changed(options.out, text)
        return 0
    return manifest.check_current(options.out, text, "the sources say: tools/reference_python.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
