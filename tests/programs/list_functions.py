#!/usr/bin/env python3
"""Writes one FUNCTION(name, directions, arguments, types) a public function, from the manifest, and
one FIELD(struct, name, type) a field of the options that they take.

directions has a letter an argument: i (in), o (out), x (in and out). Usage: MANIFEST OUT
"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    manifest = json.load(file)
functions = manifest["functions"]
letters = {"in": "i", "out": "o", "inout": "x"}
with open(sys.argv[2], "w", encoding="utf-8") as file:
    for function in functions:
        arguments = function["arguments"]
        directions = "".join(letters[a["direction"]] for a in arguments)
        names = ",".join(a["name"] for a in arguments)
        types = ";".join(a["type"] for a in arguments)
        file.write(f'FUNCTION({function["name"]}, "{directions}", "{names}", "{types}")\n')
    for name, entry in manifest["types"].items():
        if name.endswith("_options") and entry["kind"] == "struct":
            for field in entry["fields"]:
                file.write(f'FIELD({name}, {field["name"]}, "{field["type"]}")\n')
