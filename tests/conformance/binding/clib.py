"""The C library as ctypes: types and prototypes are derived from its manifest, errors raise.

    lib = library()
    out = lib.lazy()                      # a zeroed aster_ml_lazy
    lib.lazy_exp(out, x)                  # aster_ml_lazy_exp; structs go by reference
    options = lib.conv2d_options(groups=2)  # struct_size is filled in

The library is ASTER_ML_LIB, or the newest in a build/*/lib folder of the source tree, or where the
loader finds it. The manifest is ASTER_ML_MANIFEST, or that of the
library's installation, or the one that tools/manifest.py reads from the source tree's headers.
"""

import ctypes
import functools
import glob
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PREFIX = "aster_ml_"

# Functions that return an int32_t value and not a status.
VALUES = re.compile(r"_(is_\w+|dtype|device_type|device_index)$")

SCALARS = {
    "char": ctypes.c_char,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "int": ctypes.c_int,
    "ptrdiff_t": ctypes.c_ssize_t,
    "size_t": ctypes.c_size_t,
    **{
        f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}


class Error(Exception):
    """A status that is not OK; `status` is its name, `code` its number."""

    status = "ERROR"

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _error_classes(constants):
    """One class a status, so that a caller may catch ShapeError."""
    bases = {"MEMORY": MemoryError, "RANGE": IndexError, "DTYPE": TypeError, "IO": OSError}
    classes = {}
    names = list(constants)
    first, last = names.index("ASTER_ML_ERROR"), names.index("ASTER_ML_INTERNAL")
    for name in names[first : last + 1]:
        status = name[len("ASTER_ML_") :]
        title = "".join(part.capitalize() for part in status.split("_")) + "Error"
        parents = (Error, bases[status]) if status in bases else (Error,)
        if status != "ERROR":
            classes[constants[name]["value"]] = type(title, parents, {"status": status})
    return classes


def find_library():
    """Path of the shared library. Raises ImportError."""
    if path := os.environ.get("ASTER_ML_LIB"):
        return path
    built = glob.glob(os.path.join(ROOT, "build", "*", "lib", "libaster_ml.so"))
    built.sort(key=os.path.getmtime, reverse=True)
    for path in built:
        if os.path.exists(path):
            return path
    return "libaster_ml.so"  # the loader's own places


def load_manifest(library_path):
    """The manifest that belongs to a library. Raises ImportError."""
    installed = os.path.join(
        os.path.dirname(os.path.realpath(library_path)), "..", "share", "aster_ml", "manifest.json"
    )
    for path in filter(None, [os.environ.get("ASTER_ML_MANIFEST"), installed]):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
    tool = os.path.join(ROOT, "tools", "manifest.py")
    if os.path.exists(tool):
        made = subprocess.run([sys.executable, tool], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            return json.loads(made.stdout)
    raise ImportError(f"no manifest for {library_path}: set ASTER_ML_MANIFEST")


class Library:
    """The loaded library: its functions, structs and constants without their prefixes."""

    def __init__(self, path=None):
        self.path = path or find_library()
        try:
            self._dll = ctypes.CDLL(self.path)
        except OSError as error:
            raise ImportError(f"cannot load {self.path}: {error}; set ASTER_ML_LIB") from error
        self.manifest = load_manifest(self.path)
        self.constants = {
            name[len("ASTER_ML_") :]: constant["value"]
            for name, constant in self.manifest["constants"].items()
        }
        self.errors = _error_classes(self.manifest["constants"])
        self._types = {}
        types = self.manifest["types"].items()
        for name, entry in types:
            if entry["kind"] in ("struct", "union"):
                base = ctypes.Structure if entry["kind"] == "struct" else ctypes.Union
                self._types[name] = type(name, (base,), {"__init__": _init_struct})
        for name, entry in types:
            self._declare(name, entry)
        for function in self.manifest["functions"]:
            setattr(self, function["name"][len(PREFIX) :], self._bind(function))

    def _declare(self, name, entry):
        kind = entry["kind"]
        if kind in ("struct", "union"):
            made = self._types[name]
            made._fields_ = [(field["name"], self._field(field)) for field in entry["fields"]]
            for field in entry["fields"]:
                place = getattr(made, field["name"])
                if (place.offset, place.size) != (field["offset"], field["size"]):
                    raise ImportError(f"{name}.{field['name']} lies elsewhere than in the manifest")
            if ctypes.sizeof(made) != entry["size"]:
                raise ImportError(f"{name} has another size than in the manifest")
            setattr(self, name[len(PREFIX) :], made)
        elif kind == "function":
            setattr(self, name[len(PREFIX) :], self.type(name))

    def _field(self, field):
        made = self.type(field["type"])
        return made * self._count(field["count"]) if "count" in field else made

    def _count(self, text):
        return int(text) if text.isdigit() else self.manifest["constants"][text]["value"]

    def type(self, text):
        """The ctypes type of a C type as the manifest spells it."""
        if text == "void":
            return None
        if pointer := re.fullmatch(r"(.+?) ?\(\*\)\((.*)\)", text):
            arguments = [re.sub(r"\s*\w+$", "", a) for a in pointer.group(2).split(", ") if a]
            return ctypes.CFUNCTYPE(self.type(pointer.group(1)), *map(self.type, arguments))
        text = re.sub(r"\bconst\b ?", "", text).strip()
        if not text.endswith("*"):
            return SCALARS.get(text) or self._types.get(text) or self._named(text)
        pointee = text[:-1].strip()
        if pointee == "char":
            return ctypes.c_char_p
        if pointee == "void" or self.manifest["types"].get(pointee, {}).get("kind") == "opaque":
            return ctypes.c_void_p
        return ctypes.POINTER(self.type(pointee))

    def _named(self, name):
        entry = self.manifest["types"][name]
        if entry["kind"] == "integer":
            made = SCALARS[entry["of"]]
        else:
            arguments = [self.type(a["type"]) for a in entry["arguments"]]
            made = ctypes.CFUNCTYPE(self.type(entry["returns"]), *arguments)
        self._types[name] = made
        return made

    def _bind(self, function):
        name, arguments = function["name"], function["arguments"]
        try:
            entry = getattr(self._dll, name)
        except AttributeError as error:
            raise ImportError(f"{self.path} lacks {name}: it is older than its manifest") from error
        entry.restype = self.type(function["returns"])
        entry.argtypes = [self.type(a["type"]) for a in arguments]
        entry.__doc__ = function["doc"]
        if function["returns"] == "int32_t" and not VALUES.search(name):
            entry.errcheck = self._check
        return entry

    def _check(self, code, function, _arguments):
        if code == 0:
            return 0
        record = self._types[PREFIX + "error"]()
        self._dll.aster_ml_error_last(ctypes.byref(record))
        said = record.message.decode("utf-8", "replace") if record.code == code else ""
        said = said or self.status_text(code).decode()
        kind = self.errors.get(code, Error)
        raise kind(code, f"{function.__name__}: {kind.status}: {said}")


def _init_struct(struct, **fields):
    """Sets fields by name (sequences fill arrays), and struct_size."""
    ctypes.Structure.__init__(struct)
    if hasattr(struct, "struct_size"):
        struct.struct_size = ctypes.sizeof(struct)
    for name, value in fields.items():
        if not hasattr(struct, name):
            raise TypeError(f"{type(struct).__name__} has no field {name}")
        if isinstance(getattr(struct, name), ctypes.Array) and not isinstance(value, bytes):
            getattr(struct, name)[:] = value
        else:
            setattr(struct, name, value)


@functools.lru_cache(maxsize=None)
def library():
    """The library of this process, loaded at the first call. Raises ImportError."""
    return Library()
