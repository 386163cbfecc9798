"""Dtypes by name: dtypes.float32, dtypes.half; codes and sizes are the library's."""

import ctypes

from .clib import Error, library

# NumPy has these under the same names; the others are read as float32.
NUMPY = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
NARROW = "fp8e4m3 fp8e4m3fnuz fp8e5m2 fp8e5m2fnuz bfloat16".split()
WEAK = "weakint weakfloat".split()
ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
}


class DType:
    """A dtype of the library: name, code, itemsize. One object a dtype."""

    def __init__(self, name):
        lib = library()
        self.name = name
        self.code = lib.constants["DTYPE_" + name.upper()]
        self.itemsize = lib.dtype_size(self.code)

    def __repr__(self):
        return f"dtypes.{self.name}"

    @property
    def is_float(self):
        return bool(library().dtype_is_float(self.code))


class dtypes:
    """The dtypes as attributes, and by code or anything that names one."""

    by_code = {}

    @staticmethod
    def of(what):
        """The dtype of a DType, name, alias, code or NumPy dtype. Raises TypeError."""
        if isinstance(what, DType):
            return what
        if isinstance(what, int):
            return dtypes.by_code[what]
        name = what if isinstance(what, str) else getattr(what, "name", None) or str(what)
        found = getattr(dtypes, ALIASES.get(name, name), None)
        if not isinstance(found, DType):
            raise TypeError(f"no such dtype: {what!r}")
        return found

    @staticmethod
    def promote(a, b):
        """The least dtype that a and b may both become."""
        out = ctypes.c_int32()
        library().dtype_promote(out, dtypes.of(a).code, dtypes.of(b).code)
        return dtypes.of(out.value)


for _name in NUMPY + NARROW + WEAK:
    _made = DType(_name)
    setattr(dtypes, _name, _made)
    dtypes.by_code[_made.code] = _made
for _alias, _name in ALIASES.items():
    setattr(dtypes, _alias, getattr(dtypes, _name))

__all__ = ["DType", "Error", "dtypes"]
