#!/usr/bin/env python3
"""Writes docs/API.md, the reference of the public headers, from the manifest.

tools/reference.py           write it
tools/reference.py --check   exit 1 if it would change
"""

import argparse
import os
import re
import sys

import manifest

ORDER = """base dtype flt device buffer sparse matrix uop gradient codegen runtime engine tensor
nn""".split()
INTRO = """# API reference

Generated from the headers by `tools/reference.py`; the headers are the authority. Conventions that
hold everywhere stand at the top of `base.h` and are not repeated.
"""


def spell(variable):
    """A parameter or a field as C writes it."""
    kind, name = variable["type"], variable["name"]
    if "(*)" in kind:
        return re.sub(r"\* \(\*\)", "*(*)", kind).replace("(*)", f"(*{name})", 1)
    count = f"[{variable['count']}]" if "count" in variable else ""
    return f"{kind}{'' if kind.endswith('*') else ' '}{name}{count}"


def signature(function):
    arguments = ", ".join(map(spell, function["arguments"])) or "void"
    return spell({"type": function["returns"], "name": function["name"]}) + f"({arguments});"


def describe_type(name, entry):
    lines = [f"**`{name}`** {entry['doc']}".rstrip(), ""]
    if entry["kind"] in ("struct", "union"):
        lines += ["```c"] + [spell(field) + ";" for field in entry["fields"]] + ["```", ""]
    return lines


def describe_family(functions):
    """Functions that share a comment: their signatures, the sentence, the keys."""
    lines = ["```c"] + [signature(f) for f in functions] + ["```", ""]
    first = functions[0]
    if first["doc"]:
        lines += [first["doc"], ""]
    contract = first["contract"]
    lines += [f"*{key}*: {contract[key]}  " for key in manifest.KEYS if key in contract]
    return lines + [""]


def families(functions):
    groups = []
    for function in functions:
        same = groups and (groups[-1][0]["doc"], groups[-1][0]["contract"]) == (
            function["doc"],
            function["contract"],
        )
        if same:
            groups[-1].append(function)
        else:
            groups.append([function])
    return groups


def describe_header(contents, header):
    constants = [n for n, c in contents["constants"].items() if c["header"] == header]
    lines = [f"## {header}", "", "```text", contents["headers"][header], "```", ""]
    for name, entry in contents["types"].items():
        if entry["header"] == header:
            lines += describe_type(name, entry)
    if constants:
        values = (f"`{n}` {contents['constants'][n]['value']}" for n in constants)
        lines += ["Constants: " + ", ".join(values) + ".", ""]
    for group in families([f for f in contents["functions"] if f["header"] == header]):
        lines += describe_family(group)
    return lines


def reference(contents):
    def place(header):
        module = header.rsplit(".", 1)[0]
        return (ORDER.index(module) if module in ORDER else len(ORDER), module)

    lines = INTRO.split("\n")
    for header in sorted(contents["headers"], key=place):
        if any(f["header"] == header for f in contents["functions"]):
            lines += describe_header(contents, header)
    text = re.sub(r"  $(?!\n\*)", "", "\n".join(lines), flags=re.M)  # breaks between keys only
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--headers", default=os.path.join(manifest.ROOT, "include", "aster_ml"))
    parser.add_argument("--out", default=os.path.join(manifest.ROOT, "docs", "API.md"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    text = reference(manifest.read_headers(options.headers))
    if not options.check:
        manifest.write_if_changed(options.out, text)
        return 0
    return manifest.check_current(options.out, text, "the headers say: tools/reference.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
