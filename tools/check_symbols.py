#!/usr/bin/env python3
"""Checks what the built libraries export and reference.

  tools/check_symbols.py --shared libaster_ml.so --manifest manifest.json
  tools/check_symbols.py --objects FILE [--debug]      FILE: one object or archive a line

The shared library exports exactly the functions of the manifest. No object of ours ends the
process, prints, throws or allocates behind the context's allocator, and none runs code at load
time. --debug: assert is compiled in, so __assert_fail is allowed.
"""

import argparse
import fnmatch
import json
import re
import subprocess
import sys

# Why a symbol is forbidden -> patterns of names.
FORBIDDEN = {
    "ends the process": """abort exit _exit _Exit quick_exit atexit __cxa_atexit __assert_fail
        __cxa_pure_virtual _ZSt9terminatev raise __fortify_fail""",
    "prints": """printf fprintf vprintf vfprintf dprintf vdprintf puts fputs putchar fputc putc
        _IO_putc fwrite perror psignal stdout stderr syslog __printf_chk __fprintf_chk
        __vprintf_chk __vfprintf_chk __dprintf_chk _ZNSo* _ZSt4cout _ZSt4cerr _ZSt4clog
        _ZNSt8ios_base*""",
    "throws": """__cxa_throw __cxa_rethrow __cxa_allocate_exception __cxa_begin_catch
        __gxx_personality* _ZSt*__throw_* _ZNSt9exception*""",
    "allocates behind the context": """malloc calloc realloc reallocarray free aligned_alloc
        posix_memalign memalign valloc strdup strndup asprintf vasprintf getline getdelim
        open_memstream realpath opendir fdopendir scandir fopen fdopen tmpfile getaddrinfo qsort
        _Znw* _Zna* _Zdl* _Zda*""",
    "builds static state at run time": "__cxa_guard_acquire __cxa_thread_atexit*",
    "needs the C++ library at run time": "_ZSt* _ZNSt* _ZNKSt*",
    "is not safe in a library": "gets strtok setenv putenv unsetenv system popen signal",
}

# End of an object's path -> symbol -> reason. Everything else is forbidden.
SYSTEM = "the system allocator"
EXCEPTIONS = {
    "base/heap.cpp.o": {"malloc": SYSTEM, "posix_memalign": SYSTEM, "free": SYSTEM},
    "runtime/cpu/compiler.cpp.o": {"realpath": "writes into the caller's array"},
    "runtime/cpu/background.cpp.o": {
        "atexit": "threads that use LLVM stop before what LLVM registered for the exit is done"
    },
    "runtime/cpu/process.cpp.o": {"_exit": "ends a forked child whose exec failed"},
}

# Sections that hold code pointers run at load or unload time.
LOAD_TIME = re.compile(r"^\.(init_array|fini_array|preinit_array|ctors|dtors)(\.|$)")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported(shared):
    """The names that a dynamic library defines."""
    lines = run("nm", "-D", "--defined-only", shared).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def check_exports(names, functions):
    problems = [f"{n}: exported, but not in a public header" for n in sorted(names - functions)]
    problems += [f"{n}: in a public header, but not exported" for n in sorted(functions - names)]
    problems += [
        f"{n}: does not begin with aster_ml_"
        for n in sorted(names | functions)
        if not n.startswith("aster_ml_")
    ]
    return problems


def undefined_symbols(objects):
    """(object, symbol) for every symbol that an object takes from elsewhere."""
    for name in objects:
        for line in run("nm", "-u", "--print-file-name", name).splitlines():
            place, symbol = line.rsplit(None, 2)[0], line.split()[-1]
            yield place.rstrip(":"), symbol.split("@")[0]


def reason_forbidden(symbol):
    return next(
        (
            why
            for why, patterns in FORBIDDEN.items()
            if any(fnmatch.fnmatchcase(symbol, p) for p in patterns.split())
        ),
        None,
    )


def allowed(place, symbol, debug):
    if debug and symbol == "__assert_fail":
        return True
    return any(
        symbol in symbols and place.endswith("/" + end) for end, symbols in EXCEPTIONS.items()
    )


def check_references(objects, debug):
    problems = set()
    for place, symbol in undefined_symbols(objects):
        why = reason_forbidden(symbol)
        if why and not allowed(place, symbol, debug):
            problems.add(f"{place}: references {symbol}, which {why}")
    return sorted(problems)


def check_load_time(objects):
    problems = []
    for name in objects:
        for line in run("readelf", "-SW", name).splitlines():
            match = re.match(r"\s*\[\s*\d+\]\s+(\S+)", line)
            if match and LOAD_TIME.match(match.group(1)):
                problems.append(f"{name}: runs code when it is loaded ({match.group(1)})")
    return problems


def check_names(objects):
    """A program that links the static library meets no name of ours that it might use itself."""
    problems = set()
    for name in objects:
        for line in run("nm", "--defined-only", "--extern-only", name).splitlines():
            kind, symbol = (line.split() + ["", ""])[1:3]
            ours = re.match(r"aster_ml_|_Z(N|NK|TV|ZN|ZNK|GVZN|GVN)[KVR]*5aster", symbol)
            if kind and kind in "TDBRC" and not ours:
                problems.add(f"{name}: defines {symbol}, outside namespace aster and aster_ml_")
    return sorted(problems)


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared")
    parser.add_argument("--objects")
    parser.add_argument("--manifest")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    problems = []
    if options.shared:
        with open(options.manifest, encoding="utf-8") as file:
            functions = {f["name"] for f in json.load(file)["functions"]}
        problems += check_exports(exported(options.shared), functions)
    if options.objects:
        with open(options.objects, encoding="utf-8") as file:
            objects = file.read().split()
        problems += check_references(objects, options.debug) + check_load_time(objects)
        problems += check_names(objects)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
