"""Reads the rows of docs/SPECS.md and the names of every test of the tree, for tools/check.py.

A row is `| number | asked for | state | tests | what is missing |`. Its tests are names in
backquotes with commas between: a GoogleTest `Suite.Test` or `Suite.*`; a file below tests/, alone
or with a function (`python/jit_test.py::test_refusals`, `abi/base_test.c::test_allocator`); the
name of a ctest (`abi_exports`). The table at the head of the page counts the rows of each section.
"""

import glob
import os
import re

STATES = ("done", "part", "open", "no")
SUMMARY = re.compile(r"^\| \[(?P<name>[^\]]+)\]\(#[^)]*\) \|(?P<counts>[ \d|]+)\|$")
ROW = re.compile(r"^\| \d+ \|")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def names_of_ctests(text, modules):
    """The names that add_test gives in a CMakeLists.txt; loops over words written there are run."""
    loops = {"module": modules}
    for variable, words in re.findall(r"foreach\((\w+) ([^)]*)\)", text):
        if not words.startswith("IN "):
            loops[variable] = words.split()
    lowered = re.findall(r"string\(TOLOWER \$\{(\w+)\} (\w+)\)", text)
    loops.update((to, [w.lower() for w in loops.get(of, [])]) for of, to in lowered)
    for name in re.findall(r"add_test\(\s*NAME (\S+)", text):
        used = re.match(r"([^$]*)\$\{(\w+)\}([^$]*)$", name)
        if used:
            yield from (used[1] + word + used[3] for word in loops.get(used[2], []))
        elif "$" not in name:
            yield name


def names_of_file(path, text):
    """What a test file is called by: itself and its functions, or its GoogleTests."""
    if path.endswith((".py", ".c")):
        yield path
        pattern = r"^\s*def (test_\w+)\(" if path.endswith(".py") else r"^static void (test_\w+)\("
        yield from (f"{path}::{name}" for name in re.findall(pattern, text, re.M))
    elif path.endswith(".cpp"):
        test = r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)"
        for suite, name in re.findall(test, without_comments(text), re.M):
            yield f"{suite}.*"
            yield f"{suite}.{name}"


def known_tests(root, modules):
    """Every name that a row may give for a test."""
    tests, names = os.path.join(root, "tests"), set()
    for path in glob.glob(os.path.join(tests, "**", "*"), recursive=True):
        relative = os.path.relpath(path, tests)
        if os.path.basename(path) == "CMakeLists.txt":
            names.update(names_of_ctests(read(path), modules))
        elif re.search(r"test\.(py|c|cpp)$", relative):
            names.update(names_of_file(relative, read(path)))
    return names


def breaches_of_row(cells, number, known):
    """What is wrong with the cells of one row."""
    if len(cells) != 5:
        yield f"{len(cells)} columns, not 5"
        return
    given, _, state, tests, rest = cells
    if given != str(number):
        yield f"row {given} where {number} comes"
    if state not in STATES:
        yield f"no such state: {state}"
    names = re.findall(r"`([^`]*)`", tests)
    if tests != ", ".join(f"`{name}`" for name in names):
        yield f"tests are names in backquotes with commas between: {tests}"
    yield from (f"no such test: {name}" for name in names if name not in known)
    if state in ("done", "part") and not names:
        yield "no test shows it"
    if state in ("open", "no") and names:
        yield "tests of what is not there"
    if state != "done" and not rest:
        yield "not a word about what is missing"


def breaches(text, known):
    """(line, message) of everything in the page that is not as the page says."""
    summary, states, section = {}, {}, None
    for line, content in enumerate(text.splitlines(), 1):
        counted = SUMMARY.match(content)
        if counted:
            summary[counted["name"]] = (line, [int(n) for n in counted["counts"].split("|")])
        elif content.startswith("## "):
            section = content[3:]
        elif ROW.match(content):
            cells = [cell.strip() for cell in content.strip().removesuffix("|").split("|")[1:]]
            rows = states.setdefault(section, [])
            rows.append(cells[2] if len(cells) > 2 else "")
            yield from ((line, what) for what in breaches_of_row(cells, len(rows), known))
    for name, (line, numbers) in summary.items():
        rows = states.get(name, [])
        seen = [len(rows)] + [rows.count(state) for state in STATES]
        if numbers != seen:
            yield line, f"{name} has {seen} rows, not {numbers}"
    for name in states.keys() - summary.keys():
        yield 1, f"no line counts the rows of {name}"
