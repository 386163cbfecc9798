#!/usr/bin/env python3
"""Writes the wrappers of the Python extension aster_ml._native, and its stub, from the manifest.

  tools/python_binding.py --manifest FILE --library LIB --out FILE.cpp --stub FILE.pyi

One wrapper a C function: aster_ml_X becomes _native.X. How parameters become Python's is said in
python/native/README.md; what cannot be derived is in the tables below. Functions that the library
does not export are left out and named.
"""

import argparse
import json
import keyword
import os
import re
import subprocess
import sys

PREFIX = "aster_ml_"

# Functions that run kernels, compile or read files: they give the GIL up, and others wait for them.
SLOW = re.compile(
    r"(_realize|runtime_measure|_to_double|_copy_out|masked_select|nonzero|_item|_unique"
    r"|engine_(capture_begin|capture_end|collect)|runtime_get|cache_clear"
    r"|program_(load|save_captured)|lazy_backward"
    r"|state_(set|load|read|write|realize|set_layer|set_optimizer|(read|from)_\w+)"
    r"|onnx_(read|from_bytes|run|compute)"
    r"|kernel_(add_source|from_\w+)"
    r"|(sgd|adam|lars|lamb|muon)_init|optimizer_(step\w*|get|realize)|layer_get"
    r"|tensor_(?!from_buffer|count|is_)\w+)$"
)
# Functions whose result is the object x itself where nothing moves, as tinygrad's.
MOVED = re.compile(
    r"lazy_(reshape|expand|permute|transpose|flip|pad|pad_to|shrink|shrink_to|slice|squeeze"
    r"|squeeze_all|flatten|unflatten|rearrange|index)$"
)
# Functions that do so only now and then: when.
SLOW_WHERE = {
    "lazy_index": "call.masked(items_, count_)",
    "lazy_index_assign": "call.masked(items_, count_)",
    "lazy_index_dims": "call.masked(items_, count_)",
    "lazy_index_assign_dims": "call.masked(items_, count_)",
}

# Written by hand in python/native (special.cpp, exchange.cpp, codegen.cpp), under the same name.
BY_HAND = {
    *(f"codegen_{name}" for name in "kernels lower model plan render target".split()),
    "device_to_name",
    "dtype_copy",
    "engine_cancel",
    "engine_graph",
    "engine_graph_uop",
    "engine_print_schedule",
    "engine_trace",
    "flt_matmul_by",
    "freeze",
    "lazy_copy_out",
    "lazy_from",
    "lazy_realize_ready",
    "lazy_shape",
    "lazy_view",
    "lazy_view_strided",
    "lazy_view_whole",
    "program_captured_to_bytes",
    "program_from_bytes",
    "program_from_bytes_on",
    "program_run",
    "program_run_sized",
    "program_save",
    "program_to_bytes",
    "registry_add",
    "registry_describe",
    "scalar_from_data",
    "tensor_copy_in",
    "tensor_copy_out",
    "tensor_from_data",
    "trace_configure",
    "uop_print",
    "uop_rewrite",
    "uop_walk",
}

# Not offered, and why.
LEFT_OUT = {
    "scope_begin": "references of Python are the scopes",
    "scope_end": "as scope_begin",
    "lazy_keep": "as scope_begin",
    "context_free": "contexts end with their last reference",
    "lazy_free": "handles end with their last reference",
    "uop_retain": "a Uop object retains its node",
    "uop_release": "as uop_retain",
    "device_register": "a table of C functions",
    "kernel_get_assignment": "kernels are functions of C, for callers in C",
    "kernel_get_assignment_in": "as kernel_get_assignment",
    "kernel_from_blaze": "as kernel_get_assignment",
    "kernel_get_elementwise": "as kernel_get_assignment",
    "kernel_get_reduction": "as kernel_get_assignment",
    "kernel_get_program": "as kernel_get_assignment",
    **{
        f"queue_{name}": "threads of Python order calls, which give the GIL up"
        for name in "init call run barrier wait free opencl opencl_memory".split()
    },
    **{
        f"event_{name}": "as queue_call: threading.Event"
        for name in "init signal is_done wait free from_opencl to_opencl".split()
    },
    "lazy_dims": "lazy_shape gives them",
    "trace_scope_begin": "trace.scope names scopes",
    "trace_scope_end": "as trace_scope_begin",
    "op_plan": "shapes of lazy tensors are there at once",
    "op_name": "as op_plan",
    "schedule_init": "structs of C functions; Tensor.kernels and lowering serve",
    "schedule_count": "as schedule_init",
    "schedule_at": "as schedule_init",
    "schedule_source": "as schedule_init",
    "uop_from_data": "a Tensor of the data has such a node",
    "program_verify": "portable.load verifies",
    "program_run_bound": "program_run takes the values",
    "kernel_set_gradient_function": "aster_ml.kernel takes functions of Python",
    "tensor_from_buffer": "from_buffer wraps memory of Python objects",
    **{
        f"buffer_{name}": "memoryview, from_buffer and ConcreteTensor serve"
        for name in (
            "copy copy_in copy_out from_memory init init_kind is_read_only memory_kind".split()
        )
    },
    **{
        f"flt_{name}": "elements at addresses; tensors of these dtypes serve"
        for name in "apply copy sum dot matmul from_text to_text".split()
    },
    **{
        f"matrix_{name}_{size}{kind}": "matrices of Python are arrays and tensors"
        for name in "matmul apply transpose determinant inverse solve".split()
        for size in (2, 3, 4, 8)
        for kind in "fd"
    },
    "freeze_step": "aster_ml.freeze exports to a file first",
    "onnx_value_to_proto": "files of messages are the command line's",
    "onnx_value_from_proto": "as onnx_value_to_proto",
    "sticky_text": "text of integers is Python's own",
    "view_from_memory": "view_of_object describes memory of Python objects",
    "view_from_buffer": "as view_from_memory",
    **{
        f"dlpack_{name}": "__dlpack__ and from_dlpack serve"
        for name in "export export_legacy import import_legacy".split()
    },
}

# Functions that return a value and not a status.
VALUES = re.compile(
    r"(^onnx_(has_operator|value_kind|value_element)"
    r"|_(is_\w+|dtype|device_type|device_index|count_\w+))$"
)

# One parameter: C type -> (declaration of name, position and whether it may be null; hint; whether
# it is a pointer that may be null).
INTEGER = 'const auto {0}_ = static_cast<{kind}>(call.{getter}({1}, "{0}"));'
PARAMETERS = {
    "const aster_ml_lazy *": (
        'const aster_ml_lazy *{0}_ = call.operand({1}, "{0}", {2});',
        "Operand",
        True,
    ),
    "aster_ml_lazy *": ('aster_ml_lazy *{0}_ = call.lazy({1}, "{0}");', "Lazy", False),
    "const aster_ml_scalar *": (
        'const aster_ml_scalar *{0}_ = call.scalar({1}, "{0}", {2});',
        "Number",
        True,
    ),
    "const aster_ml_uop *": ('const aster_ml_uop *{0}_ = call.uop({1}, "{0}");', "Uop", False),
    "aster_ml_tensor *": (
        'aster_ml_tensor *{0}_ = call.tensor({1}, "{0}");',
        "ConcreteTensor",
        False,
    ),
    "const aster_ml_tensor *": (
        'const aster_ml_tensor *{0}_ = call.tensor({1}, "{0}");',
        "ConcreteTensor",
        False,
    ),
    "const aster_ml_buffer_view *": (
        'const aster_ml_buffer_view *{0}_ = call.view({1}, "{0}");',
        "View",
        False,
    ),
    "const aster_ml_dim *": (
        'const aster_ml_dim *{0}_ = call.dim({1}, "{0}");',
        "int | Uop",
        False,
    ),
    "const char *": ('const char *{0}_ = call.text({1}, "{0}", {2});', "Text", True),
    "double": ('const double {0}_ = call.real({1}, "{0}");', "float", False),
    "float": ('const auto {0}_ = static_cast<float>(call.real({1}, "{0}"));', "float", False),
    **{
        kind: (INTEGER.replace("{kind}", kind).replace("{getter}", getter), "int", False)
        for kind, getter in [
            ("int32_t", "integer32"),
            ("int64_t", "integer"),
            ("ptrdiff_t", "integer"),
            ("size_t", "size"),
            ("uint32_t", "natural"),
            ("uint64_t", "natural"),
        ]
    },
}
RESULTS = {
    "int32_t": ("PyLong_FromLong({})", "int"),
    "uint32_t": ("PyLong_FromUnsignedLong({})", "int"),
    "int64_t": ("PyLong_FromLongLong({})", "int"),
    "uint64_t": ("PyLong_FromUnsignedLongLong({})", "int"),
    "size_t": ("PyLong_FromSize_t({})", "int"),
    "double": ("PyFloat_FromDouble({})", "float"),
    "float": ("PyFloat_FromDouble({})", "float"),
    "const char *": ("text_of({})", "str | None"),
    "aster_ml_lazy": ("make_lazy(call.owner(), {})", "Any"),
    "aster_ml_context": ("make_context({})", "Context"),
    "aster_ml_tensor": ("make_tensor(call.owner(), {})", "ConcreteTensor"),
    "aster_ml_buffer_view": ("make_view(call.owner(), {})", "View"),
    "aster_ml_scalar": ("scalar_of({})", "tuple[bool | int | float, int]"),
    "const aster_ml_uop *": ("make_uop(call.owner(), {})", "Uop | None"),
}
# Arrays that a size_t counts: C type -> (reader of Call, type that it gives, hint).
ARRAYS = {
    "const int64_t *": ("words", "const int64_t *", "Sequence[int] | int"),
    "const size_t *": ("words", "const int64_t *", "Sequence[int] | int"),
    "const ptrdiff_t *": ("words", "const int64_t *", "Sequence[int] | int"),
    "const aster_ml_dim *": ("dims", "const aster_ml_dim *", "Sequence[int | Uop]"),
    "const double *": ("reals", "const double *", "Sequence[float]"),
    "const char *const *": ("texts", "const char **", "Sequence[str]"),
    "const aster_ml_index *": ("indices", "const aster_ml_index *", "Any"),
    "const aster_ml_dim_index *": ("dim_indices", "const aster_ml_dim_index *", "Any"),
}
# Counts that do not stand beside their array, and rooms for results whose size is not given.
COUNTS = {"lazy_split": {"count": "sizes"}}
CAPACITIES = {
    ("lazy_split_every", "capacity"): "static_cast<size_t>(aster_ml_lazy_dim(x_, axis_) + 2)"
}
HANDLES_OF_THEIR_OWN = {"aster_ml_context", "aster_ml_lazy", "aster_ml_scope"}


def short(name):
    return name[len(PREFIX) :]


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


class Skip(Exception):
    """A function that cannot be wrapped, and why."""


class Wrapper:
    """What a function's wrapper is made of: declarations, the C call's arguments, results,
    Python's parameters (name, hint, may be left out)."""

    def __init__(self, name, nullable):
        self.name, self.nullable = name, nullable
        self.lines, self.last, self.passed, self.outs, self.python = [], [], [], [], []


class Binding:
    """The wrappers of a manifest."""

    def __init__(self, manifest, exported):
        self.manifest, self.types = manifest, manifest["types"]
        functions = {f["name"]: f for f in manifest["functions"]}
        self.handles = {
            name: camel(short(name))
            for name, entry in self.types.items()
            if entry["kind"] == "struct"
            and [f["name"] for f in entry["fields"]] == ["impl"]
            and name not in HANDLES_OF_THEIR_OWN
            and name + "_free" in functions
            and (exported is None or name + "_free" in exported)
        }
        self.structs = {}  # used: name -> StructInfo text
        self.wrappers, self.methods, self.stubs, self.skipped = [], [], [], []
        for function in manifest["functions"]:
            name = short(function["name"])
            if name in LEFT_OUT or name in BY_HAND:
                continue
            if exported is not None and function["name"] not in exported:
                self.skipped.append(f"{name}: the library does not export it")
                continue
            if name.endswith("_free") and PREFIX + name[:-5] in self.types:
                continue  # handles end with their last reference
            try:
                self.add(function)
            except Skip as why:
                self.skipped.append(f"{name}: {why}")

    # ---- Structs ----

    def struct(self, name):
        """The name of a struct's StructInfo."""
        if name not in self.structs:
            entry = self.types[name]
            rows = []
            for field in entry["fields"]:
                row = self.field(name, field, entry["fields"])
                if row:
                    rows.append(row)
            sized = entry["fields"][0]["name"] == "struct_size"
            self.structs[name] = (rows, sized)
        return f"k_{short(name)}"

    def field(self, struct, field, fields):
        kind, name, count = field["type"], field["name"], field.get("count", "1")
        if name in ("struct_size", "zero"):
            return None
        number = int(count) if count.isdigit() else self.manifest["constants"][count]["value"]
        base = self.types.get(kind, {})
        if base.get("kind") == "integer":
            kind = base["of"]
        kinds = {
            "int32_t": "kI32",
            "uint32_t": "kU32",
            "int64_t": "kI64",
            "ptrdiff_t": "kI64",
            "uint64_t": "kU64",
            "size_t": "kU64",
            "double": "kF64",
            "const char *": "kText",
            "char": "kChars",
            "const aster_ml_lazy *": "kLazy",
            "const int64_t *": "kWords",
            "const aster_ml_uop *const *": "kUops",
        }
        if (struct, name) == ("aster_ml_program_array", "data"):
            kind = "size_t"  # an address, by which callers know their tensors again
        if kind not in kinds:
            return None  # functions, pointers to anything else
        names = [f["name"] for f in fields]
        if kind == "size_t" and self.counted_array(fields, names.index(name)) is not None:
            return None
        length = "0"
        if kinds[kind] in ("kWords", "kUops"):
            counter = next(
                (
                    f["name"]
                    for i, f in enumerate(fields)
                    if f["type"] == "size_t" and self.counted_array(fields, i) == name
                ),
                None,
            )
            if counter is not None:
                length = f"offsetof({struct}, {counter})"
            elif kinds[kind] == "kUops":
                return None  # kWords without a count: the function knows how many it reads
        return (
            f'{{"{name}", Field::{kinds[kind]}, {number}, offsetof({struct}, {name}), {length}}}',
            name,
            kinds[kind],
            number,
        )

    @staticmethod
    def counted_array(fields, index):
        """The array that a size_t field counts: the one before it."""
        name = fields[index]["name"]
        before = fields[index - 1] if index else None
        if before and before["type"] in ("const int64_t *", "const aster_ml_uop *const *"):
            if name in ("ndim", "count") or name.endswith("_count"):
                return before["name"]
        return None

    # ---- Functions ----

    def counts(self, name, arguments):
        """size_t parameters that count arrays -> their arrays; by position."""
        counted, taken = {}, set()
        kinds = [a["type"] for a in arguments]
        names = [a["name"] for a in arguments]

        def free(i):
            array = 0 <= i < len(kinds) and (kinds[i] in ARRAYS or kinds[i].endswith(" *const *"))
            return array and i not in taken

        for i, kind in enumerate(kinds):
            if kind != "size_t" or names[i] in ("axes", "index", "axis"):
                continue
            run = []
            step = 1 if free(i + 1) and kinds[i + 1] in ARRAYS else -1
            while free(i + step * (len(run) + 1)):
                run.append(i + step * (len(run) + 1))
            if names[i] in COUNTS.get(name, {}):
                run = [names.index(COUNTS[name][names[i]])]
            if not run and i and kinds[i - 1] in ("const void *", "void *") and "byte" in names[i]:
                run = [i - 1]
            if run:
                counted[i] = sorted(run)
                taken.update(run)
        return counted

    def add(self, function):
        name = short(function["name"])
        arguments = function["arguments"]
        counted = self.counts(name, arguments)
        of = {j: i for i, run in counted.items() for j in run}
        said = f"{function['doc']} {' '.join(function['contract'].values())}"
        made = Wrapper(name, re.search(r"\bnull\b", said) is not None)
        for i in counted:
            if arguments[counted[i][0]]["type"] not in ("const void *", "void *"):
                made.lines.append(f"size_t {arguments[i]['name']}_ = 0;")
                made.lines.append(f"bool {arguments[i]['name']}_known = false;")
        many = self.many(function)
        context = None  # the last argument of Python
        for i, argument in enumerate(arguments):
            kind, arg = argument["type"], argument["name"]
            if kind == "const aster_ml_context *":
                context = arg
                made.passed.append(f"{arg}_")
            elif i in counted:
                made.passed.append(f"{arg}_")
            elif (name, arg) in CAPACITIES:
                made.passed.append(f"{arg}_")
                made.last[:0] = [
                    f"size_t {arg}_ = 0;",
                    f"call.plain([&] {{ {arg}_ = {CAPACITIES[name, arg]}; }});",
                ]
            elif many and arg == many[0]:
                made.passed.append(f"{arg}_")
                made.last.append(f"aster_ml_lazy *{arg}_ = call.results({many[1]}_);")
            elif argument["direction"] == "out" and i not in of:
                text, result, declared = self.out(kind, arg)
                made.lines.append(declared)
                made.passed.append(text)
                if not many or arg != many[2]:
                    made.outs.append(result)
            elif not self.parameter(made, i, argument, arguments, of):
                raise Skip(f"parameter {arg} of type {kind}")
        if many:
            made.outs.insert(0, ("many", f"{many[0]}_", f"{many[2]}_"))
        if context:
            at = len(made.python)
            made.lines.insert(0, f"const aster_ml_context *{context}_ = call.context({at});")
            made.python.append(("context", "Context | None", True))
        self.emit(function, made)

    def many(self, function):
        """Of a function that gives an array of tensors: out, its room, how many there are."""
        said = function["contract"].get("Out", "")
        names = [a["name"] for a in function["arguments"]]
        if match := re.fullmatch(r"(\w+) of `(\w+)` handles, the others empty\.", said):
            return "out", match.group(2), match.group(1)
        if said == "count handles." and "count" in names:
            return "out", "count", "count"
        return None

    def out(self, kind, arg):
        pointee = kind[:-1].strip()
        if pointee in ("const char", "const void"):
            raise Skip("a pointer out")
        if kind == "const aster_ml_uop **":
            return (
                f"&{arg}_",
                ("const aster_ml_uop *", f"{arg}_"),
                f"const aster_ml_uop *{arg}_ = nullptr;",
            )
        if kind == "const char **":
            return f"&{arg}_", ("const char *", f"{arg}_"), f"const char *{arg}_ = nullptr;"
        if pointee in self.handles:
            return f"&{arg}_", (pointee, f"{arg}_"), f"{pointee} {arg}_ = {{}};"
        if pointee in RESULTS:
            return f"&{arg}_", (pointee, f"{arg}_"), f"{pointee} {arg}_ = {{}};"
        if self.types.get(pointee, {}).get("kind") == "struct":
            self.struct(pointee)
            return f"&{arg}_", (pointee, f"{arg}_"), f"{pointee} {arg}_ = {{}};"
        raise Skip(f"a result of type {kind}")

    def parameter(self, made, i, argument, arguments, of):
        """Adds one parameter that Python gives, or a struct to fill. False where it is unknown."""
        kind, arg, at = argument["type"], argument["name"], len(made.python)
        nullable = (made.nullable and at > 0) or arg == "axes"
        pointee = re.sub(r"^const |\s*\*$", "", kind)
        base = self.types.get(kind, {}).get("of", kind)  # of an integer typedef
        if i in of:
            found = self.array(made, kind, arg, arguments[of[i]]["name"], nullable)
        elif kind == "const int64_t *" and nullable:  # one number or none
            made.lines.append(f"int64_t {arg}_room = 0;")
            made.lines.append(f'if (call.given({at})) {arg}_room = call.integer({at}, "{arg}");')
            found = (
                f"const int64_t *{arg}_ = call.given({at}) ? &{arg}_room : nullptr;",
                "int",
                True,
            )
        elif base in PARAMETERS:
            text, hint, may = PARAMETERS[base]
            found = text.format(arg, at, str(nullable).lower()), hint, may and nullable
        elif pointee in self.handles and kind.count("*") == 1:
            getter = f'call.handle({at}, "{arg}", {self.row(pointee)}, {str(nullable).lower()})'
            text = f"auto *{arg}_ = static_cast<{pointee} *>({getter});"
            found = text, self.handles[pointee], nullable
        elif kind == f"const {pointee} *" and pointee.endswith("_options"):
            made.lines.append(f"{pointee} {arg}_room;")
            getter = f'call.options({at}, "{arg}", {self.struct(pointee)}, &{arg}_room)'
            text = f"const auto *{arg}_ = static_cast<const {pointee} *>({getter});"
            if pointee == "aster_ml_context_options":
                text = f"const auto *{arg}_given = static_cast<const {pointee} *>({getter});\n"
                text += f"  const auto *{arg}_ = for_python(&{arg}_room, {arg}_given);"
            found = text, camel(short(pointee)), True
        else:
            return self.result_struct(made, argument, pointee)
        if found is None:
            return False
        text, hint, may = found
        made.lines.append(text)
        if kind not in ("const size_t *", "const ptrdiff_t *"):
            made.passed.append(f"{arg}_")
        else:  # the same bits as int64_t
            made.passed.append(f"reinterpret_cast<{kind}>({arg}_)")
        made.python.append((arg, hint + " | None" * may, may))
        return True

    def array(self, made, kind, arg, counter, nullable):
        """An array that the size_t counter counts, or bytes: declaration, hint, may be null."""
        at, known = len(made.python), f"&{counter}_, &{counter}_known"
        if kind in ARRAYS:
            reader, given, hint = ARRAYS[kind]
            rest = f"{known}, {str(nullable).lower()}"
            return f'{given}{arg}_ = call.{reader}({at}, "{arg}", {rest});', hint, nullable
        if kind.endswith("lazy *const *"):
            text = f'aster_ml_lazy **{arg}_ = call.lazies({at}, "{arg}", {known});'
            return text, "Sequence[Lazy]", False
        if kind.endswith(" *const *"):
            pointee = re.sub(r"^const | \*const \*$", "", kind)
            if pointee not in self.handles:
                return None
            getter = f'call.handles({at}, "{arg}", {self.row(pointee)}, {known})'
            text = f"auto **{arg}_ = reinterpret_cast<{pointee} **>({getter});"
            return text, f"Sequence[{self.handles[pointee]}]", False
        writable = "false" if kind.startswith("const") else "true"
        view, none = f"{arg}_view", f"{arg}_view == nullptr"
        made.lines += [
            f'const Py_buffer *{view} = call.bytes({at}, "{arg}", {writable});',
            f"const size_t {counter}_ = {none} ? 0 : static_cast<size_t>({view}->len);",
        ]
        return f"void *{arg}_ = {none} ? nullptr : {view}->buf;", "Buffer", False

    def result_struct(self, made, argument, pointee):
        """A struct that says its size and is filled. False for anything else."""
        fields = [field["name"] for field in self.types.get(pointee, {}).get("fields", [])]
        if argument["direction"] != "inout" or "struct_size" not in fields:
            return False
        arg = argument["name"]
        self.struct(pointee)
        made.lines.append(f"{pointee} {arg}_ = {{}};")
        made.lines.append(f"{arg}_.struct_size = sizeof({arg}_);")
        made.passed.append(f"&{arg}_")
        made.outs.append((pointee, f"{arg}_"))
        return True

    def row(self, handle):
        """The HandleType of a type."""
        return f"kHandleTypes[{list(self.handles).index(handle)}]"

    def result(self, kind, text, count=None):
        if kind == "many":
            return f"make_lazies(call.owner(), {text}, {count})", "tuple[Any, ...]"
        if kind in self.handles:
            made = f"make_handle({self.row(kind)}, call.owner(), {text}.impl)"
            return made, self.handles[kind]
        if kind in RESULTS:
            template, hint = RESULTS[kind]
            return template.format(text), hint
        return f"dict_of(k_{short(kind)}, &{text})", "dict[str, Any]"

    def emit(self, function, made):
        name, outs, python, passed = made.name, made.outs, made.python, made.passed
        returns = function["returns"]
        status = returns == "int32_t" and not (VALUES.search(name) and not outs)
        call = f"{function['name']}({', '.join(passed)})"
        least = len(python)
        while least and python[least - 1][2]:
            least -= 1
        body = [f'  Call call("{name}", arguments, count, {least}, {len(python)});']
        body += ["  " + line for line in made.lines + made.last]
        if status:
            how = "slow(" if SLOW.search(name) else "quick("
            if name in SLOW_WHERE:
                how = f"run({SLOW_WHERE[name]}, "
            body.append(f"  if (!call.{how}[&] {{ return {call}; }})) return nullptr;")
        else:
            value = "result" if returns != "const aster_ml_uop *" else "found"
            body.append(f"  {self.spell(returns, value)} = {{}};")
            body.append(f"  if (!call.plain([&] {{ {value} = {call}; }})) return nullptr;")
            if value == "found":  # lent: an object of Python keeps it
                body.append("  const aster_ml_uop *result = found;")
                body.append(
                    "  if (found != nullptr && !call.quick([&] { return "
                    "aster_ml_uop_retain(&call.owner()->handle, found); })) return nullptr;"
                )
            outs = [(returns, "result")]
        hints = []
        if not outs:
            body.append("  return none();")
            hints = ["None"]
        elif len(outs) == 1:
            text, hint = self.result(*outs[0])
            if not status and name.split("_")[-2:-1] == ["is"] or "_is_" in name and not status:
                text, hint = f"PyBool_FromLong({outs[0][1]})", "bool"
            if MOVED.match(name):
                text = text.replace("make_lazy(", "make_moved(arguments[0], ")
            body.append(f"  return {text};")
            hints = [hint]
        else:
            results = [self.result(*out) for out in outs]
            hints = [hint for _, hint in results]
            body.append(f"  PyObject *results[] = {{{', '.join(text for text, _ in results)}}};")
            body.append(f"  return tuple_of(results, {len(results)});")
        text = "\n".join(body)
        self.wrappers.append(
            f"PyObject *{name}(PyObject *, PyObject *const *arguments, Py_ssize_t count) {{\n"
            f"{text}\n}}\n"
        )
        hint = hints[0] if len(hints) == 1 else f"tuple[{', '.join(hints)}]"
        signature, optional = [], False
        for arg, kind, may in python:
            optional = optional or (
                may and all(m for _, _, m in python[python.index((arg, kind, may)) :])
            )
            word = arg + "_" * keyword.iskeyword(arg)
            signature.append(f"{word}: {kind}" + (" = ..." if optional else ""))
        self.stubs.append(
            f"def {name}({', '.join(signature + ['/'] if signature else [])}) -> {hint}: ..."
        )
        doc = f"{name}({', '.join(a for a, _, _ in python)})\n\n{function['doc']}"
        for key, words in function["contract"].items():
            doc += f"\n{key}: {words}"
        self.methods.append((name, doc))

    @staticmethod
    def spell(kind, name):
        return f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}"

    # ---- Texts ----

    def source(self):
        out = [
            "// Generated by tools/python_binding.py. Do not edit.",
            '#include "native.h"',
            "",
            "namespace aster::python {",
            "",
            "HandleType kHandleTypes[] = {",
        ]
        for name, python in self.handles.items():
            free = f"{name}_free(static_cast<{name} *>(x))"
            out.append(f'    {{"{python}", [](void *x) {{ return {free}; }}, nullptr}},')
        out += [
            "};",
            f"const size_t kHandleTypeCount = {len(self.handles)};",
            "",
            "namespace {",
            "",
            "// Takes the items over; null where one of them is.",
            "PyObject *tuple_of(PyObject **items, Py_ssize_t count) {",
            "  PyObject *tuple = PyTuple_New(count);",
            "  bool whole = tuple != nullptr;",
            "  for (Py_ssize_t i = 0; i < count; ++i) {",
            "    whole = whole && items[i] != nullptr;",
            "    if (tuple == nullptr) Py_XDECREF(items[i]);",
            "    else PyTuple_SetItem(tuple, i, items[i]);",
            "  }",
            "  if (!whole) Py_CLEAR(tuple);",
            "  return tuple;",
            "}",
            "",
        ]
        for name, (rows, sized) in self.structs.items():
            info = short(name)
            out.append(f"constexpr FieldInfo k_{info}_fields[] = {{")
            out += [f"    {row[0]}," for row in rows]
            out.append("};")
            out.append(
                f'constexpr StructInfo k_{info} = {{"{info}", k_{info}_fields, {len(rows)}, '
                f"sizeof({name}), {str(sized).lower()}}};\n"
            )
        out += self.wrappers
        out += ["}  // namespace", "", "PyMethodDef kGeneratedMethods[] = {"]
        for name, doc in self.methods:
            out.append(f'    {{"{name}", as_method({name}), METH_FASTCALL, {c_text(doc)}}},')
        out += ["    {nullptr, nullptr, 0, nullptr},", "};", "", "const Constant kConstants[] = {"]
        for name, constant in self.manifest["constants"].items():
            out.append(f'    {{"{name[len(PREFIX):]}", {number(constant["value"])}}},')
        out += ["    {nullptr, 0},", "};", "", "}  // namespace aster::python", ""]
        return "\n".join(out)

    def stub(self, extra):
        kinds = {
            "kI32": "int",
            "kU32": "int",
            "kI64": "int",
            "kU64": "int",
            "kF64": "float",
            "kText": "Text | None",
            "kLazy": "Lazy | None",
            "kWords": "Sequence[int]",
            "kUops": "Sequence[Uop]",
            "kChars": "str",
        }
        out = [extra.rstrip(), ""]
        for name in self.manifest["constants"]:
            out.append(f"{name[len(PREFIX):]}: int")
        out.append("")
        for python in self.handles.values():
            out.append(f"class {python}: ...")
        for name, (rows, _) in self.structs.items():
            if name.endswith("_options"):
                out.append(f"class {camel(short(name))}(TypedDict, total=False):")
                for _, field, kind, count in rows:
                    hint = kinds[kind] if count == 1 else f"Sequence[{kinds[kind]}]"
                    out.append(f"    {field}: {hint}")
                if not rows:
                    out.append("    pass")
        out.append("")
        return "\n".join(out + self.stubs) + "\n"


def number(value):
    return f"{value}" if -(2**63) < value < 2**63 else "0"


def c_text(text):
    escaped = json.dumps(text, ensure_ascii=True)
    return re.sub(r"\?\?", r"?\\?", escaped)


def exported_by(library):
    """The public functions that a shared library defines."""
    made = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in made.stdout.splitlines() if f" {PREFIX}" in line}


def write_if_changed(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--library")
    parser.add_argument("--hand-written", required=True, help="the stub of what is not generated")
    parser.add_argument("--out", required=True)
    parser.add_argument("--stub", required=True)
    options = parser.parse_args(arguments)
    with open(options.manifest, encoding="utf-8") as file:
        manifest = json.load(file)
    binding = Binding(manifest, exported_by(options.library) if options.library else None)
    for line in binding.skipped:
        print(f"python_binding: left out {line}", file=sys.stderr)
    with open(options.hand_written, encoding="utf-8") as file:
        extra = file.read()
    write_if_changed(options.out, binding.source())
    write_if_changed(options.stub, binding.stub(extra))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
