#!/usr/bin/env python3
"""Reads the public C headers and writes what they declare as JSON: the manifest.

The export list of the shared library, the recorded ABI, the Python binding and the reference are
derived from it. The headers are disciplined C (docs/RULES.md): `ASTER_ML_API type name(arguments);`
below its comment (a family without blank lines between shares one), typedefs of structs, functions
and integers, enumerations of constants. Anything else is an error that names the line.

  tools/manifest.py                    print the manifest
  tools/manifest.py --out FILE         write it
  tools/manifest.py --export-map FILE  write the linker's version script, comments unchecked
  tools/manifest.py --check            compare with tests/abi/recorded_abi.json, 1 on a difference
  tools/manifest.py --record           declare the change: write tests/abi/recorded_abi.json
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORDED = os.path.join(ROOT, "tests", "abi", "recorded_abi.json")
KEYS = ("Shapes", "Dtypes", "Out", "Owns", "Alias", "Errors", "Cost", "Threads", "Source")
# Functions whose leading pointers are changed in place, not written for the first time; a parameter
# named out* or dst*, or listed under `Out:`, is an output all the same.
IN_PLACE = re.compile(
    r"_(free|reset|end|keep|retain|release|set|assign|write|realize|run|clear|"
    r"collect|step|load|replace|backward)(_\w+)?$"
)
SCALARS = re.compile(
    r"(u?int(8|16|32|64)_t|size_t|ptrdiff_t|uintptr_t|float|double|char|"
    r"const (char|void|aster_ml_uop) \*) ?\*"
)


class HeaderError(Exception):
    """A declaration that the manifest cannot represent, or a function without its comment."""


def fail(header, line, what):
    raise HeaderError(f"{header}:{line}: {what}")


# ---------------------------------------------------------------------------------------------
# Reading a header


def split_items(text, header):
    """Yields (kind, text, line) in order: comment, directive, declaration; no extern "C" braces."""
    token = re.compile(
        r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*|"
        r"\"(?:[^\"\\\n]|\\.)*\"|[{}();]|\n|[^\n]",
        re.S | re.M,
    )
    pending, start, depth, line = "", None, 0, 1
    for match in token.finditer(text):
        piece, here = match.group(), line
        line += piece.count("\n")
        if piece.startswith(("/*", "//")):
            if pending.strip():
                pending += " "  # a comment inside a declaration
                yield "inner", piece, here
            else:
                yield "comment", piece, here
        elif piece.lstrip().startswith("#") and not pending.strip():
            yield "directive", piece.strip(), here
        elif piece == "{" and pending.strip() == 'extern "C"':
            pending, start = "", None
        elif piece == "}" and depth == 0:
            if pending.strip():
                fail(header, here, "a declaration without ';'")
        else:
            if piece.strip() and start is None:
                start = here
            depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(piece, 0)
            pending += piece
            if piece == ";" and depth == 0:
                yield "declaration", " ".join(pending.split()), start
                pending, start = "", None
        if piece == "\n" and not pending.strip():
            yield "newline", "", here
    if pending.strip():
        fail(header, start, "the file ends inside a declaration")


def comment_text(comment):
    """The words of a comment, one string a line, without the stars."""
    if comment.startswith("//"):
        return comment[2:].strip()
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment[2:-2].split("\n")]
    return "\n".join(line.rstrip() for line in lines).strip()


def contract_of(text):
    """Splits a comment into its sentence and its keys (Shapes:, Errors:, ...)."""
    parts = re.split(r"(?:(?<=\s)|^)(" + "|".join(KEYS) + r"):\s", text)
    contract = {key: " ".join(body.split()) for key, body in zip(parts[1::2], parts[2::2])}
    return " ".join(parts[0].split()), contract


def normal_type(text):
    """One spelling for a type: single spaces, the stars after one space."""
    text = re.sub(r"\bstruct (aster_ml_\w+)", r"\1", text)
    text = re.sub(r"\bASTER_ML_ALIGN\(\d+\)\s*", "", text)  # of a field
    text = re.sub(r"\s*\*\s*", "*", " ".join(text.split()))
    text = re.sub(r"\*(?=const\b)", "* ", text)
    return re.sub(r"(?<=[\w)])\*", " *", text).replace("* const", "*const").strip()


def split_commas(text):
    parts, depth, current = [], 0, ""
    for char in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [p for p in parts + [current.strip()] if p]


def parse_variable(text, where):
    """A parameter or field -> {name, type[, count]}; a pointer to function: its type, no name."""
    pointer = re.fullmatch(r"(.+?)\(\s*\*\s*(\w+)\s*\)\s*\((.*)\)", text)
    if pointer:
        arguments = ", ".join(normal_type(a) for a in split_commas(pointer.group(3)))
        returns = normal_type(pointer.group(1))
        return {"name": pointer.group(2), "type": f"{returns} (*)({arguments})"}
    match = re.fullmatch(r"(.*?[\s*])(\w+)\s*((?:\[[^\]]*\])*)", text)
    if not match:
        fail(*where, f"cannot read '{text}'")
    variable = {"name": match.group(2), "type": normal_type(match.group(1))}
    if match.group(3):
        variable["count"] = match.group(3)[1:-1].strip()
    return variable


def direction_of(argument, index, function, contract, leading):
    """in, out or inout; leading: every argument before this one is an output."""
    kind, name = argument["type"], argument["name"]
    pointee_const = re.match(r"const\b[^*]*(\*?|\*const \*)$", kind)
    if ("*" not in kind and "count" not in argument) or "(*)" in kind or pointee_const:
        return "in"
    if name in re.findall(r"\w+", contract.get("Out", "")) or re.match(r"(out|dst)", name):
        return "out"
    if not leading or IN_PLACE.search(function):
        return "inout"
    if SCALARS.fullmatch(kind):
        return "out"
    made = index == 0 and function.endswith(("_init", "_begin", "_view", "_copy", "_copy_out"))
    return "out" if made else "inout"


def parse_function(text, where, comment):
    match = re.fullmatch(r"ASTER_ML_API (.+?[\s*])(aster_ml_\w+)\s*\((.*)\);", text)
    if not match:
        fail(*where, f"not of the form 'ASTER_ML_API type aster_ml_name(arguments);': {text}")
    returns, name, inside = match.groups()
    doc, contract = contract_of(comment_text(comment)) if comment else ("", {})
    function = {
        "name": name,
        "header": where[0],
        "module": where[0].rsplit(".", 1)[0],
        "returns": normal_type(returns),
        "doc": doc,
        "contract": contract,
        "arguments": [],
    }
    leading = True
    for index, part in enumerate(split_commas("" if inside.strip() == "void" else inside)):
        argument = parse_variable(part, where)
        argument["direction"] = direction_of(argument, index, name, contract, leading)
        leading = leading and argument["direction"] == "out"
        function["arguments"].append(argument)
    return function


def parse_integer(text, constants, where):
    """The value of a constant expression of integers, shifts and earlier constants."""

    def known(match):
        return str(constants.get(match.group(), {}).get("value", match.group()))

    digits = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b", lambda m: str(int(m.group(1), 0)), text)
    plain = re.sub(r"[A-Za-z_]\w*", known, digits)
    if not re.fullmatch(r"[\d\s()+\-*|<>~]+", plain):
        fail(*where, f"cannot evaluate '{text}'")
    return int(eval(plain, {"__builtins__": {}}))  # digits and operators only, checked above


def parse_enum(body, manifest, where):
    value = -1
    for item in split_commas(body):
        name, _, expression = (part.strip() for part in item.partition("="))
        value = parse_integer(expression, manifest["constants"], where) if expression else value + 1
        manifest["constants"][name] = {"value": value, "header": where[0]}


def parse_typedef(text, manifest, where, doc):
    entry = {"header": where[0], "doc": doc}
    if match := re.fullmatch(r"typedef struct (aster_ml_\w+) (aster_ml_\w+);", text):
        entry.update(kind="opaque")
        return manifest["types"].setdefault(match.group(2), entry)
    record = r"typedef (struct|union) (aster_ml_\w+) \{(.*)\} (aster_ml_\w+);"
    if match := re.fullmatch(record, text):
        if match.group(2) != match.group(4):
            fail(*where, "a struct's tag and its typedef name differ")
        if "{" in match.group(3):
            fail(*where, "a nested struct: name it")
        fields = [parse_variable(f.strip(), where) for f in match.group(3).split(";") if f.strip()]
        entry.update(kind=match.group(1), fields=fields)
        manifest["types"][match.group(4)] = entry
        return entry
    if match := re.fullmatch(r"typedef (.+?)\(\s*\*\s*(aster_ml_\w+)\s*\)\s*\((.*)\);", text):
        arguments = [] if match.group(3).strip() == "void" else split_commas(match.group(3))
        entry.update(
            kind="function",
            returns=normal_type(match.group(1)),
            arguments=[parse_variable(a, where) for a in arguments],
        )
        return manifest["types"].setdefault(match.group(2), entry)
    if match := re.fullmatch(r"typedef enum (?:\w+ )?\{(.*)\} (\w+);", text):
        fail(*where, f"{match.group(2)}: enumerations are int32_t typedefs with constants")
    if match := re.fullmatch(r"typedef (\w+) (aster_ml_\w+);", text):
        entry.update(kind="integer", of=match.group(1))
        return manifest["types"].setdefault(match.group(2), entry)
    return fail(*where, f"cannot read typedef: {text}")


def parse_define(text, manifest, where):
    match = re.fullmatch(r"#\s*define\s+(ASTER_ML_\w+)[ \t]+(\(?-?\w[\w\s<|()+\-]*)", text)
    if match and match.group(1) != "ASTER_ML_API" and re.match(r"\(?-?\d", match.group(2)):
        value = parse_integer(match.group(2), manifest["constants"], where)
        manifest["constants"][match.group(1)] = {"value": value, "header": where[0]}
    elif "ASTER_ML_API" in text and not re.match(r"#\s*(define\s+ASTER_ML_API\b|if|undef)", text):
        fail(*where, "a macro must not hide declarations from the manifest")


def parse_declaration(text, manifest, where, comment, strict):
    if text.startswith("ASTER_ML_API"):
        function = parse_function(text, where, comment)
        if strict and not (function["doc"] or function["contract"]):
            fail(*where, f"{function['name']} has no comment directly above it")
        if any(f["name"] == function["name"] for f in manifest["functions"]):
            fail(*where, f"{function['name']} is declared twice")
        manifest["functions"].append(function)
    elif text.startswith("typedef"):
        doc = contract_of(comment_text(comment))[0] if comment else ""
        parse_typedef(text, manifest, where, doc)
    elif match := re.fullmatch(r"enum (?:\w+ )?\{(.*)\};", text):
        parse_enum(match.group(1), manifest, where)
    elif not re.fullmatch(r"(struct aster_ml_\w+|(static|_Static)_assert\s*\(.*\));", text):
        fail(*where, f"cannot read: {text[:120]}")


def parse_header(text, header, manifest, strict=True):
    """Adds what one header declares. Raises HeaderError."""
    comment, newlines = None, 0
    for kind, piece, line in split_items(text, header):
        where = (header, line)
        if kind == "comment":
            manifest["headers"].setdefault(header, comment_text(piece))  # the first: conventions
            comment, newlines = piece, 0
        elif kind == "newline":
            newlines += 1
            if newlines > 1:
                comment = None
        elif kind == "directive":
            parse_define(piece, manifest, where)
            comment = None
        elif kind == "declaration":
            parse_declaration(piece, manifest, where, comment, strict)
            newlines = 0  # a family of declarations without blank lines shares its comment
            if piece.startswith("typedef"):
                comment = None


def read_headers(folder, strict=True):
    """The manifest of every .h of a folder, without layouts."""
    manifest = {"library": "aster_ml", "headers": {}, "constants": {}, "types": {}, "functions": []}
    names = sorted(n for n in os.listdir(folder) if n.endswith(".h"))
    if "base.h" in names:  # the others use its constants
        names.insert(0, names.pop(names.index("base.h")))
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            parse_header(file.read(), name, manifest, strict)
        manifest["headers"].setdefault(name, "")
    version = [
        manifest["constants"].get(f"ASTER_ML_VERSION_{p}", {}).get("value", 0)
        for p in ("MAJOR", "MINOR", "PATCH")
    ]
    manifest["version"] = ".".join(map(str, version))
    return manifest


# ---------------------------------------------------------------------------------------------
# Layouts, from a C compiler


def layout_program(manifest):
    lines = ["#include <stdio.h>", "#include <stddef.h>"]
    lines += [f'#include "{header}"' for header in manifest["headers"]]
    lines += ["int main(void) {"]
    for name, entry in manifest["types"].items():
        if entry["kind"] in ("struct", "union"):
            lines.append(f'  printf("{name} %zu %zu\\n", sizeof({name}), _Alignof({name}));')
            lines += [
                f'  printf("{name}.{f["name"]} %zu %zu\\n", offsetof({name}, {f["name"]}), '
                f'sizeof((({name} *)0)->{f["name"]}));'
                for f in entry["fields"]
            ]
    return "\n".join(lines + ["  return 0;", "}", ""])


def add_layouts(manifest, folder, compiler):
    """Adds sizes and offsets of every struct. Raises HeaderError if the headers do not compile."""
    with tempfile.TemporaryDirectory() as work:
        source, program = os.path.join(work, "layout.c"), os.path.join(work, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write(layout_program(manifest))
        build = subprocess.run(
            [
                compiler,
                "-std=c11",
                "-I",
                os.path.dirname(folder),
                "-I",
                folder,
                source,
                "-o",
                program,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if build.returncode != 0:
            raise HeaderError(f"the headers do not compile with {compiler}:\n{build.stderr}")
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        name, first, second = line.split()
        kind, _, field = name.partition(".")
        if field:
            target = next(f for f in manifest["types"][kind]["fields"] if f["name"] == field)
            target.update(offset=int(first), size=int(second))
        else:
            manifest["types"][kind].update(size=int(first), align=int(second))


def find_compiler():
    for name in filter(None, [os.environ.get("CC"), "cc", "gcc", "clang"]):
        try:
            if not subprocess.run([name, "--version"], capture_output=True, check=False).returncode:
                return name
        except OSError:
            continue
    return None


# ---------------------------------------------------------------------------------------------
# What is derived


def export_map(manifest):
    """The linker's version script: the public functions and nothing else."""
    names = "".join(f"    {name};\n" for name in sorted(f["name"] for f in manifest["functions"]))
    return "{\n" + (f"  global:\n{names}" if names else "") + "  local:\n    *;\n};\n"


def abi_of(manifest):
    """What a client's machine code depends on: comments and the order of declarations are not."""

    def spell(variable):
        count = f"[{variable['count']}]" if "count" in variable else ""
        return f"{variable['type']} {variable['name']}{count}"

    def spell_field(field):
        place = f" @{field['offset']}+{field['size']}" if "offset" in field else ""
        return spell(field) + place

    types = {}
    for name, entry in manifest["types"].items():
        if entry["kind"] in ("struct", "union"):
            size = [f"size {entry['size']} align {entry['align']}"] if "size" in entry else []
            types[name] = [entry["kind"]] + size + [spell_field(f) for f in entry["fields"]]
        elif entry["kind"] == "function":
            types[name] = [f"{entry['returns']} ({', '.join(map(spell, entry['arguments']))})"]
        else:
            types[name] = [f"{entry['kind']} {entry.get('of', '')}".strip()]
    return {
        "functions": {
            f["name"]: f"{f['returns']} ({', '.join(map(spell, f['arguments']))})"
            for f in manifest["functions"]
        },
        "types": types,
        "constants": {
            name: c["value"]
            for name, c in manifest["constants"].items()
            if not name.startswith("ASTER_ML_VERSION_")
        },
    }


def abi_differences(recorded, current):
    """Lines that say what was added, removed and changed."""
    lines = []
    for group in ("functions", "types", "constants"):
        old, new = recorded.get(group, {}), current.get(group, {})
        for name in sorted(old.keys() | new.keys()):
            if name not in old:
                lines.append(f"added    {group[:-1]} {name}: {new[name]}")
            elif name not in new:
                lines.append(f"removed  {group[:-1]} {name}: {old[name]}")
            elif old[name] != new[name]:
                lines.append(
                    f"changed  {group[:-1]} {name}:\n"
                    f"  recorded {old[name]}\n  now      {new[name]}"
                )
    return lines


def check_recorded(manifest, path):
    try:
        with open(path, encoding="utf-8") as file:
            recorded = json.load(file)
    except FileNotFoundError:
        recorded = {}
    lines = abi_differences(recorded, abi_of(manifest))
    if lines:
        print("\n".join(lines))
        print(
            f"{len(lines)} differences from {os.path.basename(path)}; if they are meant, "
            "declare them with tools/manifest.py --record"
        )
    return 1 if lines else 0


def write_if_changed(path, text):
    """Leaves an equal file alone, so that nothing is rebuilt for it."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def check_current(path, text, source):
    """The exit status of --check: 0 where a generated file is what its sources say."""
    try:
        with open(path, encoding="utf-8") as file:
            same = file.read() == text
    except FileNotFoundError:
        same = False
    if not same:
        print(f"{os.path.basename(path)} is not what {source}")
    return 0 if same else 1


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--headers", default=os.path.join(ROOT, "include", "aster_ml"))
    parser.add_argument("--out")
    parser.add_argument("--export-map")
    parser.add_argument("--recorded", default=RECORDED)
    parser.add_argument(
        "--compiler", help="for struct layouts; default: $CC, cc, gcc, clang; 'none': no layouts"
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    try:
        manifest = read_headers(options.headers, strict=not options.export_map)
        compiler = options.compiler or find_compiler()
        if not options.export_map and compiler not in (None, "none"):
            add_layouts(manifest, options.headers, compiler)
    except HeaderError as error:
        print(f"manifest: {error}", file=sys.stderr)
        return 1
    text = json.dumps(manifest, indent=1) + "\n"
    if options.export_map:
        write_if_changed(options.export_map, export_map(manifest))
    elif options.record:
        record = json.dumps(abi_of(manifest), indent=1, sort_keys=True) + "\n"
        write_if_changed(options.recorded, record)
    elif options.check:
        return check_recorded(manifest, options.recorded)
    elif options.out:
        write_if_changed(options.out, text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
