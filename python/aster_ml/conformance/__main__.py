"""aster-conformance: the same cases on any two engines, and how their results compare.

  python -m aster_ml.conformance                              aster on the CPU and tinygrad
  python -m aster_ml.conformance aster:reference numpy        any two of tinygrad, torch, numpy,
                                                              aster[:cpu|:reference][+strict]
                                                              [+narrow][+interpreted]
  python -m aster_ml.conformance --only 'cum*' 'nn/*' --dtypes float32 --count 50 --seed 7
  python -m aster_ml.conformance --page docs/CONFORMANCE.md   (or .html, .json, .txt)
  python -m aster_ml.conformance --record FILE tinygrad       keeps answers, for the engine
                                                              recorded:FILE
  python -m aster_ml.conformance --kernels [FILE]             kernels of the table of programs,
                                                              against tinygrad's, or FILE's
  python -m aster_ml.conformance --list

Cases are generated from the table of operators by hypothesis (pip install 'aster_ml[conformance]');
without it they come from a plain generator and are not shrunk. Equal seeds give equal cases.
Engines run in processes of their own: a crash is a finding. Where an engine is installed for
another Python, name it: --python torch=/path/to/python, or ASTER_ML_TORCH_PYTHON.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

if not __package__:  # run as a folder: the tool without the package around it
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "aster_conformance", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["aster_conformance"] = package
    spec.loader.exec_module(package)
    sys.path = [p for p in sys.path if os.path.abspath(p or ".") != here]
    __package__ = "aster_conformance"

KINDS = ("aster", "tinygrad", "torch", "numpy", "recorded", "file")
ENDINGS = {".md": "markdown", ".html": "html", ".json": "json", ".txt": "text"}


def parsed(arguments):
    parser = argparse.ArgumentParser(
        prog="aster-conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("engines", nargs="*", help="two engines (default: aster:cpu tinygrad)")
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="PATTERN", help="operators, or group/operator"
    )
    parser.add_argument("--dtypes", nargs="+", metavar="DTYPE")
    parser.add_argument("--count", type=int, default=4, help="cases of an operator and dtype (4)")
    parser.add_argument("--each", type=int, default=0, help="at most so many of an operator")
    parser.add_argument("--share", default="1/1", metavar="K/N", help="of N parts the Kth")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=["text", "json", "html", "markdown"], default="text")
    parser.add_argument("--page", metavar="FILE", help="write the report; its ending says how")
    parser.add_argument("--kept", metavar="DIR", help="shrunk failing cases; 'none' keeps none")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--seconds", type=float, default=0, help="no new cases after this long")
    parser.add_argument("--timeout", type=float, default=60, help="seconds a batch may take (60)")
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH")
    parser.add_argument("--record", metavar="FILE", help="keep the answers of one engine")
    parser.add_argument("--kernels", nargs="?", const="", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="the operators")
    parser.add_argument("--verbose", "-v", action="store_true")
    options = parser.parse_args(arguments)
    if options.page and os.path.splitext(options.page)[1] not in ENDINGS:
        parser.error(f"--page: the ending is one of {', '.join(ENDINGS)}")
    part, _, parts = options.share.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        parser.error("--share takes K/N, K from 1 to N")
    options.share = int(part), int(parts)
    if any("=" not in p for p in options.python):
        parser.error("--python takes ENGINE=PATH")
    wanted = 1 if options.record or options.kernels else 2
    default = ["tinygrad"] if options.record else ["aster:cpu", "tinygrad"][:wanted]
    options.engines = options.engines or default
    if len(options.engines) != wanted:
        parser.error(f"{wanted} engine{'s' if wanted > 1 else ''}, not {len(options.engines)}")
    for name in options.engines:
        if name.partition(":")[0] not in KINDS:
            parser.error(f"no engine {name!r}: {', '.join(KINDS)}")
    return options


def record(options, plan):
    """Answers of one engine to the plan's cases; what the file has of them is not asked again."""
    from .generate import key
    from .process import Process
    from .record import Recorded, save
    from .run import batches, planned

    engine = Process(options.engines[0], plan.pythons.get(options.engines[0]), options.timeout)
    engine.start()
    cases = list(planned(plan, []))
    known = {}
    if os.path.exists(options.record):
        old = Recorded("recorded:" + options.record)
        known = {key(c): o for c, o in zip(old.cases, old.run(old.cases))}
    for part in batches([c for c in cases if key(c) not in known]):
        known.update(zip(map(key, part), engine.run(part)))
        if plan.progress:
            print(f"{len(known)} of {len(cases)}, {part[-1]['op']}", file=sys.stderr, flush=True)
    engine.stop()
    outcomes = [known[key(c)] for c in cases]
    count = save(options.record, engine.version, cases, outcomes)
    left = [
        f"{c['op']} {c['dtype']}: {o.kind}: {o.text[:100]}"
        for c, o in zip(cases, outcomes)
        if o.kind not in ("results", "error")
    ]
    print("\n".join(left) + f"\n{count} of {len(cases)} answers in {options.record}")
    return 0


def count_kernels(options, pythons):
    """Prints the counts; the engine `tinygrad` alone writes them to the file."""
    from . import kernels

    only = [] if options.only == ["*"] else options.only
    found = kernels.counts(options.engines, pythons, only, options.timeout, print)
    first = {name: counted[0] for name, counted in found.items()}
    if options.kernels and options.engines == ["tinygrad"]:
        kernels.save(options.kernels, {**kernels.load(options.kernels), **first})
        return 0
    if options.kernels:
        theirs = kernels.load(options.kernels)
    else:
        theirs = {name: counted[1] for name, counted in found.items()}
    wrong = kernels.failures(first, theirs)
    print("\n".join([*wrong, f"{len(first)} programs, {len(wrong)} with too many kernels or none"]))
    return 1 if wrong else 0


def main(arguments=None):
    options = parsed(arguments)
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("aster-conformance needs NumPy: pip install 'aster_ml[conformance]'", file=sys.stderr)
        return 77
    from . import generate, kept, report, run

    pythons = dict(p.split("=", 1) for p in options.python)
    if options.kernels is not None:
        return count_kernels(options, pythons)
    rows = generate.rows(options.only)
    if options.list or not rows:
        for row in rows:
            print(f"{row.group}/{row.name}: {' '.join(row.dtypes)}")
        if not rows:
            print(f"no operator matches {' '.join(options.only)}", file=sys.stderr)
        return 0 if rows else 2
    if generate.available():
        print(generate.available(), file=sys.stderr)
    plan = run.Plan(
        engines=options.engines,
        rows=rows,
        dtypes=options.dtypes,
        count=options.count,
        each=options.each,
        share=options.share,
        seed=options.seed,
        shrink=not options.no_shrink,
        kept="" if options.kept == "none" else options.kept or kept.folder(),
        pythons=pythons,
        timeout=options.timeout,
        seconds=options.seconds,
        progress=sys.stderr.isatty() or options.verbose,
    )
    if options.record:
        return record(options, plan)
    try:
        found = run.run(plan, lambda text: print(text, file=sys.stderr, flush=True))
    except RuntimeError as error:  # an engine that is not installed
        print(f"aster-conformance: {error}", file=sys.stderr)
        return 2
    if options.page:
        ending = ENDINGS[os.path.splitext(options.page)[1]]
        with open(options.page, "w", encoding="utf-8") as file:
            file.write(report.FORMATS[ending](found))
    if options.format == "text":
        print(report.as_text(found, options.verbose), end="")
    else:
        print(report.FORMATS[options.format](found), end="")
    again = any(k["kind"] in run.FAILURES for k in found.kept)
    return 1 if found.failures or again else 0


if __name__ == "__main__":
    sys.exit(main())
