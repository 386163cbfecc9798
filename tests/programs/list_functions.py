#!/usr/bin/env python3
"""Writes one FUNCTION(name, directions, arguments) a public function, from the manifest.

directions has a letter an argument: i (in), o (out), x (in and out). Usage: MANIFEST OUT
"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    functions = json.load(file)["functions"]
letters = {"in": "i", "out": "o", "inout": "x"}
with open(sys.argv[2], "w", encoding="utf-8") as file:
    for function in functions:
        arguments = function["arguments"]
        directions = "".join(letters[a["direction"]] for a in arguments)
        names = ",".join(a["name"] for a in arguments)
        file.write(f'FUNCTION({function["name"]}, "{directions}", "{names}")\n')
