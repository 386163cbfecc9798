#!/usr/bin/env python3
"""Writes the reference as pages, one a public header, one of the Python package, and an index that
searches.

tools/reference_html.py --out FOLDER
"""

import argparse
import html
import json
import os
import re
import sys

import manifest
import reference
import reference_python

STYLE = """
:root { color-scheme: light dark; --ground: #fbfbf9; --card: #fff;
  --text: #1c2024; --quiet: #545c66;
  --line: #d6d9dd; --blue: #1f5fa8; --mark: #b4530a; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1c2025; --text: #e9ebee;
  --quiet: #a9b1bb; --line: #3a4149; --blue: #7fb5f0; --mark: #f2a25c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; }
header, main { max-width: 56rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.6rem; } main { padding-bottom: 3rem; }
h1 { font-size: 1.6rem; margin: .3rem 0 .8rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
h4 { font: 600 .92em/1.5 ui-monospace, "DejaVu Sans Mono", monospace; margin: .2rem 0; }
section h2 { margin: .3rem 0 .5rem; }
a { color: var(--blue); } code, pre { font: .88em/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .4rem; padding: .7rem;
  overflow-x: auto; margin: .4rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .2rem .8rem; }
input { font: inherit; width: 100%; max-width: 28rem; padding: .4rem .6rem; color: inherit;
  background: var(--card); border: 1px solid var(--line); border-radius: .4rem; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
section { border-top: 1px solid var(--line); padding: .9rem 0; } section p { margin: .3rem 0; }
section:target { box-shadow: -4px 0 var(--mark); padding-left: .6rem; }
dl { margin: .3rem 0; } dt { color: var(--quiet); float: left; margin-right: .5rem; }
dd { margin: 0; }
#results { list-style: none; padding: 0; }
#results li { margin: .25rem 0; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); }
"""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
SEARCH = """
const all = JSON.parse(document.getElementById("names").textContent);
const query = document.getElementById("query"), list = document.getElementById("results");
const count = document.getElementById("count");
function search() {
  const words = query.value.toLowerCase().split(/[\\s_]+/).filter(Boolean);
  list.replaceChildren();
  if (!words.length) { count.textContent = ""; return; }
  const found = all.filter(([name, , text]) =>
    words.every(w => name.toLowerCase().includes(w) || text.toLowerCase().includes(w)));
  const rank = ([name]) =>
    words.filter(w => !name.toLowerCase().includes(w)).length * 100 + name.length;
  found.sort((a, b) => rank(a) - rank(b));
  count.textContent = found.length + " found";
  for (const [name, where, text] of found.slice(0, 60)) {
    const item = list.appendChild(document.createElement("li"));
    const link = item.appendChild(document.createElement("a"));
    link.href = where; link.textContent = name;
    item.append(" " + text);
  }
}
query.oninput = search;
query.onkeydown = e => {
  if (e.key === "Enter" && list.firstChild) location.href = list.querySelector("a").href;
};
search();
"""


class Pages:
    def __init__(self, contents, parts):
        self.contents, self.parts = contents, parts
        self.headers = [
            h
            for h in sorted(contents["headers"], key=place)
            if any(x["header"] == h for x in self.everything())
        ]
        self.where = {}
        for name, entry in contents["types"].items():
            self.where[name] = f"{page_of(entry['header'])}#{name}"
        for name, entry in contents["constants"].items():
            self.where[name] = f"{page_of(entry['header'])}#{name}"
        for function in contents["functions"]:
            self.where[function["name"]] = f"{page_of(function['header'])}#{function['name']}"
        self.python_names = {}
        for part in parts:
            for name, entry in named(part.entries, prefix_of(part)):
                self.python_names[name] = (f"python.html#{name}", entry.doc)

    def everything(self):
        yield from self.contents["functions"]
        yield from self.contents["types"].values()
        yield from self.contents["constants"].values()

    def linked(self, text):
        """Escaped text whose names of functions, types, constants and headers are links."""

        def link(match):
            where = self.where.get(match[0])
            return f'<a href="{where}">{match[0]}</a>' if where else match[0]

        return re.sub(r"\b(?:aster_ml|ASTER_ML)_\w+", link, html.escape(text))

    def prose(self, text):
        return "".join(f"<p>{self.linked(part)}</p>" for part in text.split("\n\n") if part.strip())

    def code(self, lines):
        return f"<pre><code>{self.linked(chr(10).join(lines))}</code></pre>"

    def type_(self, name, entry):
        body = self.prose(entry["doc"])
        if entry["kind"] in ("struct", "union"):
            body += self.code([reference.spell(field) + ";" for field in entry["fields"]])
        return f'<section id="{name}"><h2><code>{name}</code></h2>{body}</section>'

    def family(self, functions):
        first = functions[0]
        anchors = "".join(f'<a id="{f["name"]}"></a>' for f in functions[1:])
        names = ", ".join(f["name"].removeprefix("aster_ml_") for f in functions)
        keys = "".join(
            f"<dt>{key}</dt><dd>{self.linked(first['contract'][key])}</dd>"
            for key in manifest.KEYS
            if key in first["contract"]
        )
        return (
            f'<section id="{first["name"]}">{anchors}<h2>{html.escape(names)}</h2>'
            + self.code([reference.signature(f) for f in functions])
            + self.prose(first["doc"] or "")
            + (f"<dl>{keys}</dl>" if keys else "")
            + "</section>"
        )

    def python(self):
        """The page of the Python package."""
        links = (f'<a href="#part.{p.title}">{p.title}</a>' for p in self.parts)
        body = f'<nav aria-label="Parts">{"".join(links)}</nav>'
        for part in self.parts:
            body += f'<h2 id="part.{part.title}">{part.title}</h2>{self.docstring(part.doc)}'
            for name, entry in named(part.entries, prefix_of(part), True):
                if entry.kind == "heading":
                    body += f"<h3>{html.escape(entry.name[0].upper() + entry.name[1:])}</h3>"
                    continue
                body += f'<section id="{name}"><h4>{name}</h4>'
                body += self.code([entry.signature]) + self.docstring(entry.doc) + "</section>"
        return self.page("The Python package", body)

    def docstring(self, doc):
        return "".join(
            self.code([text]) if kind == "example" else self.prose(text)
            for kind, text in reference_python.split(doc)
        )

    def navigation(self):
        links = "".join(f'<a href="{page_of(h)}">{h}</a>' for h in self.headers)
        links += '<a href="python.html">Python</a>' if self.parts else ""
        return f'<nav aria-label="Headers"><a href="index.html">Index</a>{links}</nav>'

    def page(self, title, body):
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,">\n<title>{html.escape(title)}</title>\n'
            f"<style>{STYLE}</style>\n</head>\n<body>\n<header>{self.navigation()}"
            f"<h1>{html.escape(title)}</h1></header>\n<main>{body}</main>\n</body>\n</html>\n"
        )

    def header(self, header):
        contents = self.contents
        body = f"<pre>{self.linked(contents['headers'][header])}</pre>"
        for name, entry in contents["types"].items():
            if entry["header"] == header:
                body += self.type_(name, entry)
        constants = [n for n, c in contents["constants"].items() if c["header"] == header]
        if constants:
            rows = "".join(
                f'<li id="{n}"><code>{n}</code> {contents["constants"][n]["value"]}</li>'
                for n in constants
            )
            body += f"<section><h2>Constants</h2><ul>{rows}</ul></section>"
        functions = [f for f in contents["functions"] if f["header"] == header]
        for group in reference.families(functions):
            body += self.family(group)
        return self.page(f"aster_ml/{header}", body)

    def index(self):
        docs = {f["name"]: f["doc"] or "" for f in self.contents["functions"]}
        docs.update({n: t["doc"] for n, t in self.contents["types"].items()})
        names = [
            [name, where, docs.get(name, "").split(". ")[0][:160]]
            for name, where in sorted(self.where.items())
        ]
        names += [
            [name, where, doc.split(". ")[0].split("\n")[0][:160]]
            for name, (where, doc) in sorted(self.python_names.items())
        ]
        data = json.dumps(names).replace("<", "\\u003c")
        rows = "".join(
            f'<li><a href="{page_of(h)}">{h}</a> <span class="quiet">'
            f"{html.escape(self.contents['headers'][h].split(chr(10))[0])}</span></li>"
            for h in self.headers
        )
        body = (
            '<p><label for="query">Search functions, types, constants, Python</label></p>'
            '<input id="query" type="search" autocomplete="off" autofocus>'
            '<p id="count" class="quiet" role="status" aria-live="polite"></p>'
            f'<ul id="results"></ul><h2>Headers</h2><ul>{rows}</ul>'
            f'<script type="application/json" id="names">{data}</script>'
            f"<script>{SEARCH}</script>"
        )
        return self.page("aster_ml reference", body)


def prefix_of(part):
    """What stands before the names of a part: those of nn are reached through it."""
    return f"{part.title}." if part.title.split(".")[0] == "nn" else ""


def named(entries, prefix, headings=False):
    """(full name, entry) of entries and their members, headings where they are asked for."""
    for entry in entries:
        if entry.kind != "heading" or headings:
            yield prefix + entry.name, entry
        yield from named(entry.members, f"{prefix}{entry.name}.", headings)


def page_of(header):
    return header.replace(".", "_") + ".html"


def place(header):
    module = header.rsplit(".", 1)[0]
    order = reference.ORDER
    return (order.index(module) if module in order else len(order), module)


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--headers", default=os.path.join(manifest.ROOT, "include", "aster_ml"))
    parser.add_argument("--package", default=os.path.join(manifest.ROOT, "python", "aster_ml"))
    parser.add_argument("--out", required=True)
    options = parser.parse_args(arguments)
    pages = Pages(manifest.read_headers(options.headers), reference_python.read(options.package))
    os.makedirs(options.out, exist_ok=True)
    manifest.write_if_changed(os.path.join(options.out, "index.html"), pages.index())
    manifest.write_if_changed(os.path.join(options.out, "python.html"), pages.python())
    for header in pages.headers:
        manifest.write_if_changed(os.path.join(options.out, page_of(header)), pages.header(header))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
