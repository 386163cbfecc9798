"""A run's findings by operator and dtype, as text, JSON, Markdown or a page of HTML."""

from __future__ import annotations

import html
import json

KINDS = ("agree", "deliberate", "differ", "crashed", "unsupported")
SIGNS = {"agree": "✓", "deliberate": "≈", "differ": "✗", "crashed": "☠", "unsupported": "–"}
MEANINGS = {
    "agree": "equal, or within the operator's bound",
    "deliberate": "differs on purpose: docs/DIFFERENCES.md",
    "differ": "differs by more than the bound",
    "crashed": "an engine ended or hung",
    "unsupported": "an engine has no such operator",
}


class Report:
    def __init__(self, engines, settings):
        self.engines = engines
        self.settings = settings
        self.cells = {}  # operator -> dtype -> {kind: count, "ulps": largest}
        self.groups = {}
        self.failures = []
        self.reasons = {}
        self.kept = []
        self.unsupported = {}
        self.seconds = 0.0

    def add(self, group, case, verdict):
        cell = self.cells.setdefault(case["op"], {}).setdefault(case["dtype"], {"ulps": 0.0})
        self.groups[case["op"]] = group
        cell[verdict.kind] = cell.get(verdict.kind, 0) + 1
        if verdict.kind in ("agree", "deliberate"):
            cell["ulps"] = max(cell["ulps"], verdict.ulps)
        if verdict.kind == "deliberate":
            self.reasons[verdict.reason] = self.reasons.get(verdict.reason, 0) + 1
        if verdict.kind == "unsupported":
            self.unsupported.setdefault(case["op"], verdict.text)

    def fail(self, case, verdict, file=""):
        self.failures.append(
            {
                "case": case,
                "kind": verdict.kind,
                "text": verdict.text,
                "ulps": verdict.ulps,
                "file": file,
            }
        )

    def total(self, kind):
        return sum(c.get(kind, 0) for dtypes in self.cells.values() for c in dtypes.values())

    def cases(self):
        return sum(self.total(k) for k in KINDS)

    def summary(self):
        parts = ", ".join(f"{self.total(k)} {k}" for k in KINDS if self.total(k))
        names = " against ".join(e["version"] or e["name"] for e in self.engines)
        operators = len(self.cells)
        return (
            f"{names}: {self.cases()} cases of {operators} operators: {parts}, {self.seconds:.0f} s"
        )

    def dtypes(self):
        from .row import EVERY

        used = {d for dtypes in self.cells.values() for d in dtypes}
        return [
            d
            for d in ("float32", "float64", "float16", "bfloat16", *EVERY)
            if d in used and not used.discard(d)
        ]

    def families(self):
        """{group: its operators}, in the table's order."""
        families = {}
        for name in self.cells:
            families.setdefault(self.groups[name], []).append(name)
        return families


def cell_text(cell):
    """One cell: counts by kind, and the largest distance in ULP."""
    if not cell:
        return ""
    parts = [f"{cell[k]}{SIGNS[k]}" for k in KINDS if cell.get(k)]
    if cell["ulps"] >= 0.05:
        parts.append(f"{cell['ulps']:.2g}u" if cell["ulps"] < 1e4 else f"{cell['ulps']:.0e}u")
    return " ".join(parts)


def as_json(report):
    return json.dumps(
        {
            "engines": report.engines,
            "settings": report.settings,
            "seconds": round(report.seconds, 1),
            "totals": {k: report.total(k) for k in KINDS},
            "operators": {
                name: {"group": report.groups[name], "dtypes": dtypes}
                for name, dtypes in report.cells.items()
            },
            "failures": report.failures,
            "deliberate": report.reasons,
            "unsupported": report.unsupported,
            "kept": report.kept,
        },
        indent=1,
    )


def shown(failure):
    case = failure["case"]
    gradient = " (gradient)" if case.get("gradient") else ""
    return f"{case['op']} {case['dtype']}{gradient}: {failure['text']}"


def as_text(report, verbose=True):
    lines = []
    for group, names in report.families().items():
        if verbose:
            lines.append(f"{group}:")
            for name in names:
                cells = "  ".join(f"{d} {cell_text(c)}" for d, c in report.cells[name].items())
                lines.append(f"  {name:32} {cells}")
    for failure in report.failures:
        lines.append(f"{failure['kind']}: {shown(failure)}")
        lines.append(f"    {json.dumps(failure['case'])}")
    for kept in report.kept:
        if kept["kind"] in ("differ", "crashed"):
            lines.append(f"kept {kept['file']}: {kept['kind']}: {kept['text']}")
    lines.append(report.summary())
    return "\n".join(lines) + "\n"


def as_markdown(report):
    """The page for docs/: totals, the tables, what differs on purpose and what does not."""
    names = " and ".join(e["version"] or e["name"] for e in report.engines)
    lines = [
        "# Conformance",
        "",
        f"The same generated cases on {names}.",
        "Written by `python -m aster_ml.conformance --page`; deliberate differences are",
        "explained in [DIFFERENCES.md](DIFFERENCES.md).",
        "",
        f"{report.cases()} cases of {len(report.cells)} operators: "
        + ", ".join(f"{report.total(k)} {k}" for k in KINDS)
        + ".",
        "",
        "| sign | meaning |",
        "|---|---|",
        *[f"| {SIGNS[k]} | {MEANINGS[k]} |" for k in KINDS],
        "| 2.5u | the largest distance found, in ULP of the dtype |",
        "",
    ]
    dtypes = report.dtypes()
    for group, operators in report.families().items():
        used = [d for d in dtypes if any(d in report.cells[n] for n in operators)]
        lines += [
            f"## {group}",
            "",
            "| operator | " + " | ".join(used) + " |",
            "|---" * (len(used) + 1) + "|",
        ]
        for name in operators:
            cells = (cell_text(report.cells[name].get(d)) for d in used)
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
        lines.append("")
    if report.reasons:
        lines += ["## Differences on purpose that showed", "", "| reason | cases |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in sorted(report.reasons.items())] + [
            ""
        ]
    if report.failures:
        lines += ["## What differs", ""]
        lines += [f"* {f['kind']}: {shown(f)}".replace("|", "\\|") for f in report.failures] + [""]
    if report.unsupported:
        lines += ["## Not supported", "", "| operator | what is said |", "|---|---|"]
        lines += [
            f"| `{n}` | {t[:120]} |".replace("\n", " ") for n, t in report.unsupported.items()
        ]
    return "\n".join(lines).rstrip() + "\n"


STYLE = """body{font:14px system-ui;margin:2em auto;max-width:70em;color:#222}
table{border-collapse:collapse;margin:.5em 0 2em}td,th{border:1px solid #ddd;
padding:.2em .6em;text-align:left}
th{background:#f4f4f4}.agree{background:#e9f7e9}.deliberate{background:#fff6d6}
.differ{background:#fbdcdc}
.crashed{background:#e3c7f5}.unsupported{background:#eee;color:#777}code{font-size:13px}"""


def as_html(report):
    """The same as a page of its own."""

    def colour(cell):
        return next(
            (k for k in ("crashed", "differ", "deliberate", "agree", "unsupported") if cell.get(k)),
            "",
        )

    text = html.escape
    out = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Conformance</title>",
        f"<style>{STYLE}</style><h1>Conformance</h1><p>{text(report.summary())}</p><table>",
        *[f"<tr><td class={k}>{SIGNS[k]}<td>{k}<td>{text(MEANINGS[k])}" for k in KINDS],
        "</table>",
    ]
    dtypes = report.dtypes()
    for group, operators in report.families().items():
        used = [d for d in dtypes if any(d in report.cells[n] for n in operators)]
        out.append(
            f"<h2>{text(group)}</h2><table><tr><th>operator" + "".join(f"<th>{d}" for d in used)
        )
        for name in operators:
            out.append(f"<tr><td><code>{text(name)}</code>")
            for dtype in used:
                cell = report.cells[name].get(dtype)
                out.append(
                    f"<td class='{colour(cell)}'>{text(cell_text(cell))}" if cell else "<td>"
                )
        out.append("</table>")
    if report.failures:
        out.append("<h2>What differs</h2><ul>")
        out += [
            f"<li><b>{f['kind']}</b> {text(shown(f))}<br><code>{text(json.dumps(f['case']))}</code>"
            for f in report.failures
        ]
        out.append("</ul>")
    if report.reasons:
        out.append("<h2>Differences on purpose</h2><ul>")
        out += [f"<li>{text(reason)}: {count}" for reason, count in sorted(report.reasons.items())]
        out.append("</ul>")
    return "\n".join(out) + "\n"


FORMATS = {"text": as_text, "json": as_json, "markdown": as_markdown, "html": as_html}
