#!/usr/bin/env python3
"""Writes the bulk of the C++ wrapper, include/aster_ml/cpp/{types,methods,families,eager}.hpp.

  tools/cpp_wrapper.py           write it
  tools/cpp_wrapper.py --check   exit 1 if it would change, or if a function is not reachable

One method a C function: aster_ml_lazy_X(out, x, ...) becomes Tensor::X(...), a function of a
context a static one of the current context. What needs taste is written by hand in the other
headers of that folder; what cannot be derived (defaults, names) is in the tables.
"""

import argparse
import os
import re
import subprocess
import sys

import manifest

FOLDER = os.path.join(manifest.ROOT, "include", "aster_ml", "cpp")
# Files of methods: the class, what it derives from, what it gives, what the file includes, which
# they are. A name and its overloads stand in one class.
FILES = {
    "methods": ("Methods", "Calls", "Tensor", "types", ", those of tensor.h and functions.h"),
    "families": ("FamilyMethods", "Methods", "Tensor", "methods", ", those of other headers"),
    "eager": ("EagerMethods", "Calls", "Array", "types", ""),
}
FIRST = ("tensor.h", "functions.h")  # headers whose functions are Methods
# Headers whose functions are all reachable from C++.
HEADERS = """tensor functions random indexing movement spatial linalg layer optim state engine
gradient graph view sparse arena""".split()

# Generated under the name of another function, as an overload of it.
RENAMED = {
    "sum_dtype": "sum",
    "prod_dtype": "prod",
    "softmax_dtype": "softmax",
    "log_softmax_dtype": "log_softmax",
    "softplus_beta": "softplus",
    "isinf_signed": "isinf",
    "squeeze_all": "squeeze",
    "keccak_rate": "keccak",
}
# Functions that another one, more general, serves.
SERVED = {
    "aster_ml_lazy_conv2d": "aster_ml_lazy_conv",
    "aster_ml_lazy_max_pool2d": "aster_ml_lazy_max_pool",
    "aster_ml_lazy_avg_pool2d": "aster_ml_lazy_avg_pool",
    "aster_ml_conv2d_init": "aster_ml_conv_init",
    "aster_ml_engine_graph_uop": "aster_ml_engine_graph",
}
# Parameters of int32_t that are something else.
BOOLEANS = set(
    """keepdim descending largest include_self replacement training is_causal enable_gqa
    full_matrices equal_nan positive negative align_corners upper transposed
    unit_diagonal""".split()
)
ENUMERATED = {"reduction": "Reduction", "mode": "ScatterMode"}
# Tensors that may be left out.
OPTIONAL = {"low", "high", "bias", "attn_mask", "pos_weight"}
OPTIONAL_IN = {
    name: {"weight"} for name in ("batchnorm", "layer_norm", "rms_norm", "batch_norm")
}

# Defaults of parameters, those of tinygrad; by name, then by function. A default that has one
# without behind it is dropped.
DEFAULTS = {
    "keepdim": "false",
    "axes": "{}",
    "dtype": "{}",
    "fill": "{}",
    "training": "training_now()",
    "correction": "1",
    "descending": "false",
    "reduction": "Reduction::mean",
    "label_smoothing": "0",
    "ignore_index": "-1",
    "equal_nan": "false",
    "rtol": "1e-5",
    "atol": "1e-8",
    "diagonal": "0",
    "replacement": "false",
    "include_self": "true",
    "is_causal": "false",
    "enable_gqa": "false",
    "dropout_p": "0",
    "largest": "true",
    "full_matrices": "true",
    "upper": "false",
    "transposed": "false",
    "unit_diagonal": "false",
    "rcond": "-1",
    "order": '"fro"',
    "align_corners": "false",
    "indexing": "Indexing::ij",
}
DEFAULTS_IN = {
    "arange": {"step": "1"},
    "arange_float": {"step": None, "dtype": "{}"},
    "argmax": {"axis": None},
    "argmin": {"axis": None},
    "argsort": {"axis": "-1"},
    "batchnorm": {"axes": "{}"},
    "cat": {"axis": "0"},
    "celu": {"alpha": "1"},
    "cond": {"order": '"2"'},
    "cummax": {"axis": "0"},
    "cummin": {"axis": "0"},
    "cumprod": {"axis": "0"},
    "cumsum": {"axis": "0"},
    "diagonal": {"offset": "0", "axis0": "0", "axis1": "1"},
    "dropout": {"p": "0.5"},
    "elu": {"alpha": "1"},
    "flatten": {"first": "0", "last": "-1"},
    "hardsigmoid": {"alpha": "1.0 / 6", "beta": "0.5"},
    "hardtanh": {"low": "-1", "high": "1"},
    "interpolate": {"mode": "Interpolation::linear"},
    "kaiming_normal": {"a": "0.01"},
    "kaiming_uniform": {"a": "0.01"},
    "keccak": {"name": '"sha3_256"'},
    "layer_norm": {"eps": "1e-5"},
    "layernorm": {"eps": "1e-5"},
    "rms_norm": {"weight": "{}", "eps": "1e-6"},
    "dot_general": {"a_batch": "{}", "b_batch": "{}", "accumulate": "{}"},
    "leaky_relu": {"slope": "0.01"},
    "log_softmax": {"axis": "-1"},
    "logcumsumexp": {"axis": "0"},
    "masked_select": {"size": "-1"},
    "multinomial": {"samples": "1"},
    "newton_schulz": {"eps": "1e-7"},
    "nonzero": {"size": "-1"},
    "normal": {"mean": "0", "std": "1"},
    "normalize": {"p": "2", "axis": "1", "eps": "1e-12"},
    "randint": {"low": "0", "high": "10"},
    "roll": {"axes": "{}"},
    "scatter": {"mode": "ScatterMode::write"},
    "selu": {"alpha": "1.67326", "gamma": "1.0507"},
    "slice": {"stop": "{}", "step": "{}"},
    "softmax": {"axis": "-1"},
    "softmin": {"axis": "-1"},
    "sort": {"axis": "-1"},
    "stack": {"axis": "0"},
    "topk": {"axis": "-1"},
    "transpose": {"axis0": "1", "axis1": "0"},
    "uniform": {"low": "0", "high": "1"},
    "from_file": {"dtype": "{}", "shape": "{-1}", "offset": "0", "mode": "FileMode::read"},
    # Overloads: every parameter that tells them apart is given.
    "sum_dtype": {"axes": None, "keepdim": None, "dtype": None},
    "prod_dtype": {"axes": None, "keepdim": None, "dtype": None},
    "softmax_dtype": {"dtype": None},
    "log_softmax_dtype": {"dtype": None},
    "cast": {"dtype": None},
    "bitcast": {"dtype": None},
    "flip": {"axes": None},
    "permute": {"axes": None},
}
ENUMERATIONS = {  # typedefs of constants -> prefix of the constants
    "aster_ml_reduction": "ASTER_ML_REDUCTION_",
    "aster_ml_scatter_mode": "ASTER_ML_SCATTER_",
    "aster_ml_indexing": "ASTER_ML_INDEXING_",
    "aster_ml_padding": "ASTER_ML_PADDING_",
    "aster_ml_interpolation": "ASTER_ML_INTERPOLATION_",
    "aster_ml_file_mode": "ASTER_ML_FILE_",
}
METHODS = """Methods of aster_ml::{kind} that are one call of the C library each{which}.
 *
 * Generated by tools/cpp_wrapper.py; include aster_ml.hpp. The whole contract of a method stands
 * above the C function that it calls."""
TYPES = """What the C library numbers, as types of C++: dtypes and the modes of operations.
 *
 * Generated by tools/cpp_wrapper.py; include aster_ml.hpp."""
INTRO = """/* {says}
 */
#ifndef ASTER_ML_CPP_{guard}_HPP
#define ASTER_ML_CPP_{guard}_HPP

#include "aster_ml/cpp/{needs}.hpp"

namespace aster_ml {{
"""


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def first_sentence(function):
    """What the method does, in a line or two."""
    doc = function["doc"]
    end = re.search(r"(?<!\be\.g)(?<!\bi\.e)[.:](?=\s+[A-Z]|$)", doc)
    return (doc[: end.start()] if end else doc.rstrip(".")) + "."


class Unfit(Exception):
    """A function whose parameters cannot be derived."""


def file_of(function):
    family, name = re.match(r"aster_ml_(lazy|tensor)_(.*)", function["name"]).groups()
    if family == "tensor":
        return "eager"
    return "methods" if function["header"] in FIRST or name in RENAMED else "families"


class Method:
    """A C function as a method: parameters (type, name, default), passed arguments, results."""

    def __init__(self, function, module):
        self.function, self.module = function, module
        self.short = function["name"][len(f"aster_ml_{module}_") :]
        self.name = RENAMED.get(self.short, self.short)
        self.owner = FILES[file_of(function)][0]
        self.parameters, self.passed, self.outs = [], [], 0
        self.static = self.has_self = False
        self.lists = []  # each of lists of one length
        arguments = function["arguments"]
        skip = set()
        for i, argument in enumerate(arguments):
            if i not in skip:
                self.take(arguments, i, skip)
        if self.static:  # the shape comes first, the dtype last
            rank = {"shape": 0, "dtype": 2}
            if self.short != "from_file":
                self.parameters.sort(key=lambda p: rank.get(p[1], 1))

    def default(self, name, usual=None):
        own = DEFAULTS_IN.get(self.short, {})
        return own[name] if name in own else DEFAULTS.get(name, usual)

    def take(self, arguments, i, skip):
        kind, name = arguments[i]["type"], arguments[i]["name"]
        own = f"const aster_ml_{self.module} *"
        if kind == f"aster_ml_{self.module} *" and name.startswith("out"):
            self.outs += 1
        elif kind == "const aster_ml_context *":
            self.static = self.module == "lazy"
        elif kind == own and not self.has_self and not self.static:
            self.has_self = True
        elif kind == own and self.module == "tensor":
            self.add("const Array&", name, None, f"{name}.get()")
        elif kind == own:
            optional = name in OPTIONAL or name in OPTIONAL_IN.get(self.short, ())
            text = f"{name}.in(self)"
            self.add("const Operand&", name, "{}" if optional else None, text)
        elif kind == own + "const *" and arguments[i + 1]["type"] == "size_t":
            self.static = True
            skip.add(i + 1)
            self.add("const Tensors&", name, None, f"{name}.data(), {name}.size()")
        elif kind == "size_t" and i + 1 < len(arguments) and self.lists_from(arguments, i + 1):
            run = self.lists_from(arguments, i + 1)
            skip.update(range(i + 1, i + 1 + len(run)))
            self.passed.append(f"{run[0]}.size()")
            for one in run:
                of = arguments[i + 1]["type"]
                view = "const Dims&" if of == "const int64_t *" else "const std::vector<double>&"
                self.add(view, one, self.default(one), f"{one}.data()")
            self.lists.append(run)
        else:
            self.take_plain(kind, name)

    def lists_from(self, arguments, i):
        names = []
        for argument in arguments[i:]:
            if argument["type"] not in ("const int64_t *", "const double *"):
                break
            names.append(argument["name"])
        return names

    def take_plain(self, kind, name):
        if kind in ENUMERATIONS or (kind == "int32_t" and name in ENUMERATED):
            made = camel(kind[len("aster_ml_") :]) if kind in ENUMERATIONS else ENUMERATED[name]
            self.add(made, name, self.default(name), f"code({name})")
        elif kind == "int32_t" and name in ("dtype", "accumulate"):
            self.add("Dtype", name, self.default(name), f"code({name})")
        elif kind == "int32_t" and name in BOOLEANS:
            self.add("bool", name, self.default(name), f"{name} ? 1 : 0")
        elif kind == "const aster_ml_scalar *":
            self.add("const Scalar&", name, self.default(name), f"{name}.get()")
        elif kind in ("int32_t", "int64_t", "uint64_t", "size_t", "double", "const char *"):
            self.add(kind, name, self.default(name), name)
        else:
            raise Unfit(f"{self.function['name']}: {name} of type {kind}")

    def add(self, kind, name, default, text):
        self.parameters.append((kind, name, default))
        self.passed.append(text)

    def text(self):
        kinds = {0: "{0}", 1: "{0}", 2: "std::pair<{0}, {0}>", 3: "std::tuple<{0}, {0}, {0}>"}
        result = kinds[self.outs].format("Tensor" if self.module == "lazy" else "Array")
        listed, last = [], True
        for kind, name, default in reversed(self.parameters):
            last = last and default is not None
            spelt = kind if kind.endswith(" *") else kind + " "
            listed.insert(0, f"{spelt}{name}" + (f" = {default}" if last else ""))
        call = f"make{self.outs if self.outs > 1 else ''}"
        operands = any(".in(self)" in p for p in self.passed)
        if self.static:
            listed_tensors = any(p[0] == "const Tensors&" for p in self.parameters)
            call = f"{self.owner}::join" if listed_tensors else f"{self.owner}::create"
            if listed_tensors:
                self.passed.insert(0, "tensors")
        passed = [self.function["name"]] + self.passed
        lines = [f"/* {first_sentence(self.function)} */"]
        lines.append(
            f"{'static ' if self.static else ''}{result} {self.name}({', '.join(listed)})"
            f"{'' if self.static else ' const'} {{"
        )
        if operands:
            lines.append("const Tensor& self = this->self();")
        for run in self.lists:
            if len(run) > 1:
                lines.append(f"if (!{self.owner}::equal_lengths({', '.join(run)})) return {{}};")
        lines.append(f"return {'' if self.static else 'this->'}{call}({', '.join(passed)});")
        return "\n".join(lines + ["}"])


def enumerations(contents):
    lines = []
    for name, prefix in ENUMERATIONS.items():
        constants = [c for c in contents["constants"] if c.startswith(prefix)]
        rows = ", ".join(f"{c[len(prefix):].lower()} = {c}" for c in constants)
        lines += [f"enum class {camel(name[len('aster_ml_'):])} : int32_t {{ {rows} }};"]
    lines += ["", "enum class Dtype : int32_t {};", "", "namespace dtypes {"]
    prefix = "ASTER_ML_DTYPE_"
    for constant in contents["constants"]:
        if constant.startswith(prefix):
            name = constant[len(prefix) :].lower()
            name += "_" * (name == "bool")
            lines.append(f"inline constexpr Dtype {name}{{{constant}}};")
    return lines + ["}  // namespace dtypes", ""]


def methods(contents, by_hand):
    """The texts of methods by their file, and what could not be derived."""
    made, unfit = {name: [] for name in FILES}, []
    for function in contents["functions"]:
        match = re.match(r"aster_ml_(lazy|tensor)_", function["name"])
        eager = match and match.group(1) == "tensor" and "buffer.h" != function["header"]
        if not match or function["name"] in by_hand | set(SERVED):
            continue
        if match.group(1) == "tensor" and not eager:
            continue
        try:
            made[file_of(function)].append(Method(function, match.group(1)).text())
        except Unfit as why:
            unfit.append(str(why))
    return made, unfit


def tidy(text):
    """clang-format's layout."""
    command = ["clang-format", "--style=file", "--assume-filename=methods.hpp"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, cwd=FOLDER
    )
    return done.stdout


def header(name, says, needs, lines):
    intro = INTRO.format(says=says, guard=name.upper(), needs=needs)
    return tidy("\n".join([intro, *lines, "}  // namespace aster_ml", "", "#endif", ""]))


def generate(contents, by_hand):
    """The texts of the files by name, and what is wrong."""
    made, unfit = methods(contents, by_hand)
    texts = {"types": header("types", TYPES, "core", enumerations(contents))}
    for name, (derived, base, kind, needs, which) in FILES.items():
        lines = [
            "namespace detail {",
            "",
            f"/* Of every class Self whose self() gives a {kind}. */",
            f"template <class Self, class {kind}>",
            f"class {derived} : public {base}<Self, {kind}> {{",
            " public:",
            "\n".join(made[name]),
            "};",
            "",
            "}  // namespace detail",
        ]
        texts[name] = header(name, METHODS.format(kind=kind, which=which), needs, lines)
    return texts, unfit


def hand_written():
    """The functions of C that the headers written by hand name."""
    named = set()
    generated = {f"{name}.hpp" for name in ("types", *FILES)}
    for name in sorted(set(os.listdir(FOLDER)) - generated):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            named |= set(re.findall(r"aster_ml_\w+", file.read()))
    return named


def is_current(path, text):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except FileNotFoundError:
        return False


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--headers", default=os.path.join(manifest.ROOT, "include", "aster_ml"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    contents = manifest.read_headers(options.headers)
    named = hand_written()
    texts, problems = generate(contents, named - set(SERVED))
    named.update(re.findall(r"aster_ml_\w+", "".join(texts.values())))
    for function in contents["functions"]:
        name = SERVED.get(function["name"], function["name"])
        if function["header"][:-2] in HEADERS and name not in named:
            problems.append(f"{name} is not reachable from C++")
    for name, text in texts.items():
        path = os.path.join(FOLDER, f"{name}.hpp")
        if not options.check:
            manifest.write_if_changed(path, text)
        elif not is_current(path, text):
            problems.append(f"{name}.hpp is not what the headers say: run tools/cpp_wrapper.py")
    for problem in problems:
        print(f"cpp_wrapper: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
