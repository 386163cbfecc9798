#!/usr/bin/env python3
"""Checks the source tree against docs/RULES.md; prints each breach, exits 1 if there is one.

  tools/check.py             every check on every tracked or new file
  tools/check.py NAME ...    only these checks (tools/check.py --list names them)
  tools/check.py --format    let clang-format rewrite what it finds wrong, check nothing

A check is a function from (path, text) to (line, message) pairs; tests/tools shows each can fail.
"""

import os
import re
import shutil
import subprocess
import sys

import spec_rows

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOFT_LINES, HARD_LINES, HARD_FUNCTION, COLUMNS = 600, 1000, 100, 100
CODE = (".c", ".cpp", ".h", ".hpp", ".cl")
OURS = ("src/", "include/", "tests/", "tools/", "examples/", "bench/")

# Where `case Op::` may stand, and why; what an op is or does in general is a column of ops.def.
OP_SWITCHES = {
    "src/runtime/reference/": "the interpreter",
    "src/uop/print": "the printer",
    "src/uop/eval": "values of constants",
    "src/uop/bounds": "bounds of symbolic integers",
    "src/uop/build": "the builders that a node's copy goes through",
    "src/engine/indexing": "movement operations become index arithmetic",
    "src/engine/rangeify_build": "tensor nodes become kernel nodes",
    "tests/": "tests name what they test",
}


def module_order():
    """The modules from left to right, as src/CMakeLists.txt lists them."""
    with open(os.path.join(ROOT, "src", "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"set\(ASTER_MODULES ([^)]*)\)", file.read()).group(1).split()


def blank(text):
    """The text with comments, strings and directives turned into spaces, newlines kept."""
    token = re.compile(
        r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'
        r"(?<!\w)'(?:[^'\\\n]|\\.)+'|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*",
        re.S | re.M,
    )
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def numbered(text):
    return enumerate(text.splitlines(), 1)


def check_layers(path, text):
    """A folder of src/ includes only folders on its left and the public headers."""
    match = re.match(r"src/(\w+)/", path)
    if not match:
        return
    order = module_order()
    if match.group(1) not in order:
        yield 1, f"src/{match.group(1)} is not in ASTER_MODULES"
        return
    for line, content in numbered(text):
        include = re.match(r'\s*#\s*include\s+"([^"]+)"', content)
        if not include or include.group(1).startswith("aster_ml/"):
            continue
        folder = include.group(1).split("/")[0]
        if folder not in order or "/" not in include.group(1):
            yield line, f'include "{include.group(1)}" by its path from src/'
        elif order.index(folder) > order.index(match.group(1)):
            yield line, f"{match.group(1)} may not include {folder}, which is on its right"


def check_public_includes(path, text):
    """A public header includes only the C library's and public headers."""
    if not path.startswith("include/"):
        return
    allowed = ("aster_ml/", "stddef.h", "stdint.h")
    for line, content in numbered(text):
        include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', content)
        if include and path.endswith(".h") and not include.group(1).startswith(allowed):
            yield line, f"a public header includes {include.group(1)}"


def check_length(path, text):
    """Files stay within the hard limit of lines."""
    if path.endswith(CODE + (".py", ".cmake", ".sh")):
        lines = text.count("\n")
        if lines > HARD_LINES:
            yield lines, f"{lines} lines, more than {HARD_LINES}"


def check_columns(path, text):
    """Lines stay within 100 columns; tables (.def) and data are left alone."""
    if path.endswith(CODE + (".py",)):
        long = [
            line
            for line, content in numbered(text)
            if len(content) > COLUMNS and "http" not in content
        ]
        if long:
            yield long[0], f"{len(long)} lines of more than {COLUMNS} columns"


def brace_kind(before, stack):
    """What a brace after this text, at this nesting, opens: function, scope, initialiser, other."""
    if "function" in stack or "other" in stack:
        return "other"
    head = re.sub(r"\boperator\s*(\(\)|[^\s\w(]+)", "operator_", " ".join(before.split()))
    count = 0
    while count != len(head):  # parentheses with their insides become @, innermost first
        count, head = len(head), re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "@", head)
    head = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", head))
    if re.search(r"(?<![=!<>])=(?!=)", head) or re.match(r"(typedef\b|enum\b)", head):
        return "other"
    if re.search(r"@\s*(noexcept)?\s*:[^:].*\w$", head):
        return "initialiser"  # member_{value} in a constructor's list
    if re.match(r"(template )?(namespace|class|struct|union|extern)\b", head):
        return "function" if head.endswith("@") else "scope"
    return "function" if "@" in head else "other"


def function_lengths(text):
    """(line, lines, head) of every function body at namespace or class scope."""
    stack, starts, before, line = [], [], "", 1
    for char in blank(text):
        line += char == "\n"
        if char == "{":
            stack.append(brace_kind(before, stack))
            starts.append((line, " ".join(before.split())))
        elif char == "}" and stack:
            kind, (start, head) = stack.pop(), starts.pop()
            if kind == "function":
                yield start, line - start + 1, head
            if kind == "initialiser":
                before = head + "@"
                continue
        if char in "{};" and "function" not in stack[:-1]:
            before = ""
        elif "function" not in stack:
            before += char


def check_functions(path, text):
    """Functions stay within the hard limit of lines."""
    if path.endswith(CODE):
        for line, length, head in function_lengths(text):
            if length > HARD_FUNCTION:
                yield line, f"a function of {length} lines, limit {HARD_FUNCTION}: {head[-60:]}"


def check_op_switches(path, text):
    """What an op does stands in its table: only few files may switch over ops."""
    if path.endswith(CODE) and not path.startswith(tuple(OP_SWITCHES)):
        lines = [
            line
            for line, content in numbered(blank(text))
            if re.search(r"\bcase\s+(\w+::)*Op::", content)
        ]
        if lines:
            yield lines[0], f"{len(lines)} `case Op::` outside the files that may switch over ops"


def check_machine(path, text):
    """No path, host or address of somebody's machine."""
    if path == "tests/tools/check_test.py":
        return
    places = re.compile(
        r"(?<![\w.])/(work|root|home/\w+|opt/(oracle|torch)|mnt|Users)/|"
        r"\b(?!127\.|0\.0\.0\.0)\d{1,3}(\.\d{1,3}){3}\b|\bpyenv\b"
    )
    texts = (".py", ".sh", ".cmake", ".txt", ".md", ".json", ".in", ".def")
    if path.endswith(CODE + texts) or "." not in os.path.basename(path)[1:]:
        for line, content in numbered(text):
            found = places.search(content)
            if found and path != "tools/check.py":
                yield line, f"names a machine: {found.group()}"


def check_memory_words(path, text):
    """src/ takes memory from base/memory.h and has no exceptions, streams or run-time types."""
    if not path.startswith("src/") or not path.endswith(CODE):
        return
    words = re.compile(
        r"\bstd::(vector|string|function|map|unordered_map|set|list|deque|thread|"
        r"unique_ptr|shared_ptr|make_unique|make_shared|cout|cerr|ostream|regex|"
        r"stringstream)\b|(?<![:\w])new\s+\w|\bthrow\b|\btry\s*\{|"
        r"\bcatch\s*\(|\bdynamic_cast\b|\btypeid\b|\.substr\((?!0\b)"
    )
    for line, content in numbered(blank(text)):
        found = words.search(content)
        if found:
            yield line, f"not used in src/: {found.group().strip()}"


def check_header_guard(path, text):
    """Headers of src/ begin with #pragma once after their comment; public ones with a guard."""
    if path.startswith("src/") and path.endswith(".h") and "#pragma once" not in text:
        yield 1, "no #pragma once"
    if path.startswith("include/") and path.endswith(".h"):
        guard = "ASTER_ML_" + re.sub(r"\W", "_", os.path.basename(path)).upper()
        guard = guard.replace("ASTER_ML_ASTER_ML_", "ASTER_ML_")
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield 1, f"no include guard {guard}"


def check_tests_exist(path, text):
    """Every module has a test."""
    if path == "src/CMakeLists.txt":
        for module in re.search(r"set\(ASTER_MODULES ([^)]*)\)", text).group(1).split():
            folders = os.walk(os.path.join(ROOT, "tests", module))
            if not any(name.endswith("_test.cpp") for _, _, names in folders for name in names):
                yield 1, f"module {module} has no tests/{module}/*_test.cpp"


def check_umbrella(path, text):
    """aster_ml.h includes every public C header."""
    if path == "include/aster_ml/aster_ml.h":
        for name in sorted(os.listdir(os.path.join(ROOT, "include", "aster_ml"))):
            if name.endswith(".h") and name != "aster_ml.h" and f"aster_ml/{name}" not in text:
                yield 1, f"does not include aster_ml/{name}"


def check_specs(path, text):
    """Every test that docs/SPECS.md names exists, and its counts are those of its rows."""
    if path == "docs/SPECS.md":
        yield from spec_rows.breaches(text, spec_rows.known_tests(ROOT, module_order()))


CHECKS = {
    "layers": check_layers,
    "public-includes": check_public_includes,
    "length": check_length,
    "columns": check_columns,
    "functions": check_functions,
    "op-switches": check_op_switches,
    "machine": check_machine,
    "memory": check_memory_words,
    "guards": check_header_guard,
    "umbrella": check_umbrella,
    "tests": check_tests_exist,
    "specs": check_specs,
}


def tree_files():
    """Tracked files and new ones that git does not ignore."""
    output = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted(set(output.splitlines()))


def read_text(path):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return None


def check_format(paths):
    """clang-format agrees with every C and C++ file."""
    tool = shutil.which("clang-format")
    if tool is None:
        yield "clang-format is not installed (scripts/packages.txt)"
        return
    files = [p for p in paths if p.endswith(CODE) and p.startswith(OURS)]
    for path in files:
        result = subprocess.run(
            [tool, "--dry-run", "-Werror", path],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            first = result.stderr.splitlines()[0] if result.stderr else "differs"
            yield f"{first.split(': error')[0]}: not formatted (clang-format -i)"


def rewrite(paths):
    files = [p for p in paths if p.endswith(CODE) and p.startswith(OURS)]
    return subprocess.run(["clang-format", "-i", *files], cwd=ROOT, check=False).returncode


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(list(CHECKS) + ["format"]))
        return 0
    if arguments == ["--format"]:
        return rewrite(tree_files())
    unknown = [a for a in arguments if a not in CHECKS and a != "format"]
    if unknown:
        print(f"check: no such check: {unknown[0]}", file=sys.stderr)
        return 2
    paths, breaches = tree_files(), 0
    texts = {path: text for path in paths if (text := read_text(path)) is not None}
    for name, check in CHECKS.items():
        if arguments and name not in arguments:
            continue
        for path, text in texts.items():
            for line, message in check(path, text):
                print(f"{path}:{line}: [{name}] {message}")
                breaches += 1
    if not arguments or "format" in arguments:
        for message in check_format(list(texts)):
            print(f"{message} [format]")
            breaches += 1
    for path, text in texts.items():
        if path.endswith(CODE) and SOFT_LINES < text.count("\n") <= HARD_LINES and not arguments:
            print(f"{path}: note: {text.count(chr(10))} lines, soft limit {SOFT_LINES}")
    print(f"{len(texts)} files, {breaches} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
