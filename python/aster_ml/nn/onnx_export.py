"""Functions of tensors as ONNX files: the graph of a portable program, node by node."""

from __future__ import annotations

import math
import os
import re
import struct
from typing import Any, Callable, Iterable, Sequence

from ..portable import export as _export_program
from ..tensor import Tensor

_OPSET, _IR_VERSION = 20, 9
_INT32, _INT64, _BOOL = 6, 7, 9
# What TensorProto.DataType says, and how struct packs one.
_TYPES = {
    "float32": (1, "f"),
    "uint8": (2, "B"),
    "int8": (3, "b"),
    "uint16": (4, "H"),
    "int16": (5, "h"),
    "int32": (_INT32, "i"),
    "int64": (_INT64, "q"),
    "bool": (_BOOL, "?"),
    "float16": (10, "e"),
    "float64": (11, "d"),
    "uint32": (12, "I"),
    "uint64": (13, "Q"),
}
_SAME = {
    "Neg": "Neg",
    "Abs": "Abs",
    "Recip": "Reciprocal",
    "Sqrt": "Sqrt",
    "Exp": "Exp",
    "Log": "Log",
    "Sin": "Sin",
    "Cos": "Cos",
    "Tanh": "Tanh",
    "Erf": "Erf",
    "Floor": "Floor",
    "Ceil": "Ceil",
    "Round": "Round",
    "Add": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "Div": "Div",
    "CDiv": "Div",
    "Max": "Max",
    "Min": "Min",
    "Pow": "Pow",
    "CmpLt": "Less",
    "CmpLe": "LessOrEqual",
    "CmpEq": "Equal",
    "Where": "Where",
    "Call:Matmul": "MatMul",
    "Call:Sigmoid": "Sigmoid",
    "Call:ContiguousBackward": "Identity",
    "Contiguous": "Identity",
    "Detach": "Identity",
}
_OF_BOOLS = {"Add": "Or", "Max": "Or", "Mul": "And", "Min": "And", "Not": "Not"}
_OF_BITS = {"And": "BitwiseAnd", "Or": "BitwiseOr", "Xor": "BitwiseXor", "Not": "BitwiseNot"}
_REDUCTIONS = {"Add": "ReduceSum", "Mul": "ReduceProd", "Max": "ReduceMax", "Min": "ReduceMin"}
_LINE = re.compile(r"%(\d+) = (\S+) (\w+)(?:\[([\d, ]*)\])?((?: [%@#\"].*?)*)(?: \(([-\d, ]*)\))?$")


# Messages of protobuf.


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _tensor(name: str, code: int, shape: Iterable[int], data: bytes) -> bytes:
    dims = b"".join(_integer(1, size) for size in shape)
    return dims + _integer(2, code) + _bytes(8, name) + _bytes(9, data)


def _attribute(name: str, value: int | str | Sequence[int]) -> bytes:
    if isinstance(value, str):
        return _bytes(5, _bytes(1, name) + _bytes(4, value) + _integer(20, 3))
    if isinstance(value, int):
        return _bytes(5, _bytes(1, name) + _integer(3, value) + _integer(20, 2))
    values = b"".join(_integer(8, one) for one in value)
    return _bytes(5, _bytes(1, name) + values + _integer(20, 7))


class _Node:
    """A line of a portable program."""

    def __init__(self, line: str):
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"export: a line of a program that is not known: {line[:80]}")
        number, self.op, self.dtype, shape, rest, arguments = found.groups()
        self.number = int(number)
        self.shape = [int(size) for size in (shape or "").split(",") if size.strip()]
        self.rest = rest.split() if self.op != "Input" else [rest.strip()]
        self.sources = [int(one[1:]) for one in self.rest if one.startswith("%")]
        self.arguments = [int(one) for one in (arguments or "").split(",") if one.strip()]


class _Writer:
    def __init__(self, text: str, constants: memoryview):
        self.constants = constants
        self.nodes: dict[int, _Node] = {}
        self.names: dict[int, str] = {}
        self.weights: list[bytes] = []
        self.written: list[bytes] = []
        self.inputs: list[bytes] = []
        self.outputs: list[bytes] = []
        self.known: dict[tuple[Any, ...], str] = {}
        self.made = 0
        for line in text.splitlines()[1:]:
            if line.startswith("%"):
                node = _Node(line)
                self.nodes[node.number] = node
                self.write(node)
            elif line.startswith("output "):
                self.output(line)

    # ---- Pieces ----

    def info(self, name: str, node: _Node) -> bytes:
        dims = b"".join(_bytes(1, _integer(1, size)) for size in node.shape)
        kind = _integer(1, self.code(node)) + _bytes(2, dims)
        return _bytes(1, name) + _bytes(2, _bytes(1, kind))

    def code(self, node: _Node) -> int:
        if node.dtype not in _TYPES:
            raise ValueError(f"export: {node.dtype} has no type in ONNX here")
        return _TYPES[node.dtype][0]

    def array(self, dtype: str, shape: Sequence[int], values: Iterable[Any]) -> str:
        values = tuple(values)
        key = (dtype, tuple(shape), values if values == values else id(values))
        if key not in self.known:
            code, letter = _TYPES[dtype]
            name = self.known[key] = f"aster_ml/constant{len(self.weights)}"
            data = struct.pack(f"<{len(values)}{letter}", *values)
            self.weights.append(_tensor(name, code, shape, data))
        return self.known[key]

    def ints(self, *values: int) -> str:
        return self.array("int64", [len(values)], values)

    def add(self, op: str, *inputs: str, into: str | None = None, **attributes: Any) -> str:
        names = None if into is None else [into]
        return self.parts(op, 1, *inputs, names=names, **attributes)[0]

    def parts(
        self, op: str, count: int, *inputs: str, names: list[str] | None = None, **attributes: Any
    ) -> list[str]:
        """A node of several results."""
        if names is None:
            names = [f"aster_ml/step{self.made + i}" for i in range(count)]
            self.made += count
        body = b"".join(_bytes(1, name) for name in inputs)
        body += b"".join(_bytes(2, name) for name in names) + _bytes(4, op)
        body += b"".join(_attribute(key, value) for key, value in attributes.items())
        self.written.append(_bytes(1, body))
        return names

    def scalar(self, node: _Node, value: Any) -> str:
        return self.array(node.dtype, [], [value])

    def value(self, node: _Node) -> Any:
        """What a Const says."""
        word = node.arguments[0]
        if node.dtype == "bool":
            return bool(word)
        if not node.dtype.startswith("float"):
            return word & (1 << 64) - 1 if node.dtype == "uint64" else word
        return struct.unpack("<d", struct.pack("<q", word))[0]

    def name(self, number: int) -> str:
        """The tensor of a node; constants are written where they are met."""
        if number not in self.names:
            node = self.nodes[number]
            if node.op == "State":
                raise ValueError("export: the function reads what it assigns to")
            name = self.scalar(node, self.value(node))
            if node.shape:
                name = self.add("Expand", name, self.ints(*node.shape))
            self.names[number] = name
        return self.names[number]

    def operands(self, node: _Node) -> list[str]:
        """Those of an elementwise operation: constants broadcast."""
        sources = [self.nodes[i] for i in node.sources]
        if all(one.op == "Const" for one in sources):
            return [self.name(one.number) for one in sources]
        return [
            self.scalar(one, self.value(one)) if one.op == "Const" else self.name(one.number)
            for one in sources
        ]

    # ---- Nodes ----

    def write(self, node: _Node) -> None:
        if node.op == "Const":
            self.code(node)
            return
        if node.op == "Input":
            name = _text(node.rest[0])
            self.inputs.append(_bytes(11, self.info(name, node)))
        elif node.op == "Constant":
            count = math.prod(node.shape) * struct.calcsize(_TYPES[node.dtype][1])
            at = int(node.rest[0][1:])
            name = f"aster_ml/weight{node.number}"
            data = bytes(self.constants[at : at + count])
            self.weights.append(_tensor(name, self.code(node), node.shape, data))
        elif node.op == "State":
            return  # named by what is assigned
        elif node.op == "Assign":
            name = self.assigned(node)
        else:
            self.code(node)
            name = self.computed(node)
        self.names[node.number] = name

    def assigned(self, node: _Node) -> str:
        """Tensors that the function makes of numbers (Tensor.ones) are memory that gets them."""
        made, value = (self.nodes[i] for i in node.sources)
        if made.op != "State" or value.op != "Const":
            raise ValueError("export: the function assigns to tensors, which ONNX cannot say")
        return self.name(value.number)

    def computed(self, node: _Node) -> str:
        kind, _, more = node.op.partition(":")
        method: Callable[[_Node], str] | None = getattr(self, f"_{node.op.replace(':', '_')}", None)
        if method is None and kind in ("Reduce", "Scan"):
            method = getattr(self, f"_{kind}")
        if method is not None:
            return method(node)
        of_bools = bool(node.sources) and self.nodes[node.sources[0]].dtype == "bool"
        if node.op in ("And", "Or", "Xor") and of_bools:
            return self.add(node.op, *self.operands(node))
        if of_bools and node.op in _OF_BOOLS:
            return self.add(_OF_BOOLS[node.op], *self.operands(node))
        if node.op in _OF_BITS:
            return self.add(_OF_BITS[node.op], *self.operands(node))
        if node.op not in _SAME:
            raise ValueError(f"export: {node.op} is not written to ONNX")
        operands = self.operands(node)
        if of_bools and node.op in ("CmpLt", "CmpLe"):
            operands = [self.add("Cast", name, to=_INT32) for name in operands]
        return self.add(_SAME[node.op], *operands)

    def _CmpNe(self, node: _Node) -> str:
        return self.add("Not", self.add("Equal", *self.operands(node)))

    def _MulAcc(self, node: _Node) -> str:
        a, b, c = self.operands(node)
        return self.add("Add", self.add("Mul", a, b), c)

    def _Exp2(self, node: _Node) -> str:
        return self.add("Pow", self.scalar(node, 2.0), *self.operands(node))

    def _Log2(self, node: _Node) -> str:
        natural = self.add("Log", *self.operands(node))
        return self.add("Mul", natural, self.scalar(node, 1 / math.log(2)))

    def _Trunc(self, node: _Node) -> str:
        (x,) = self.operands(node)
        return self.add("Mul", self.add("Sign", x), self.add("Floor", self.add("Abs", x)))

    def _CMod(self, node: _Node) -> str:
        return self.add("Mod", *self.operands(node), fmod=1)

    def _FloorMod(self, node: _Node) -> str:
        return self.add("Mod", *self.operands(node), fmod=0)

    def _FloorDiv(self, node: _Node) -> str:
        a, b = self.operands(node)
        return self.add("Div", self.add("Sub", a, self.add("Mod", a, b, fmod=0)), b)

    def _Cast(self, node: _Node) -> str:
        return self.add("Cast", self.name(node.sources[0]), to=self.code(node))

    def _Iota(self, node: _Node) -> str:
        return self.array(node.dtype, node.shape, range(node.shape[0]))

    def _shift(self, node: _Node, direction: str) -> str:
        """By a number: ONNX shifts unsigned elements alone, and not beyond their width."""
        x, by = (self.nodes[i] for i in node.sources)
        if by.op != "Const" or not 0 <= self.value(by) < 8 * struct.calcsize(_TYPES[node.dtype][1]):
            raise ValueError("export: shifts by what is no number within the width are not written")
        count = self.value(by)
        if node.dtype.startswith("u"):
            return self.add("BitShift", *self.operands(node), direction=direction)
        if direction == "LEFT":
            bits = 8 * struct.calcsize(_TYPES[node.dtype][1])
            factor = 1 << count if count < bits - 1 else -(1 << count)
            return self.add("Mul", self.name(x.number), self.scalar(node, factor))
        mask = self.scalar(node, -1 << count)
        rest = self.add("BitwiseAnd", self.name(x.number), mask)
        return rest if count == 0 else self.add("Div", rest, self.scalar(node, 1 << count))

    def _Shl(self, node: _Node) -> str:
        return self._shift(node, "LEFT")

    def _Shr(self, node: _Node) -> str:
        return self._shift(node, "RIGHT")

    # ---- Movement ----

    def _Reshape(self, node: _Node) -> str:
        shape = self.ints(*node.shape)
        return self.add("Reshape", self.name(node.sources[0]), shape, allowzero=1)

    def _Expand(self, node: _Node) -> str:
        return self.add("Expand", self.name(node.sources[0]), self.ints(*node.shape))

    def _Permute(self, node: _Node) -> str:
        return self.add("Transpose", self.name(node.sources[0]), perm=node.arguments)

    def _Flip(self, node: _Node) -> str:
        axes = [axis for axis, turned in enumerate(node.arguments) if turned]
        lists = ([-1] * len(axes), [-(1 << 62)] * len(axes), axes, [-1] * len(axes))
        return self.add("Slice", self.name(node.sources[0]), *(self.ints(*one) for one in lists))

    def _Slice(self, node: _Node) -> str:
        starts, steps = node.arguments[::2], node.arguments[1::2]
        ends = [
            start + (size - 1) * step + 1 if size else start
            for start, step, size in zip(starts, steps, node.shape)
        ]
        lists = (starts, ends, range(len(starts)), steps)
        return self.add("Slice", self.name(node.sources[0]), *(self.ints(*one) for one in lists))

    def _Pad(self, node: _Node) -> str:
        before, after, interior = (node.arguments[:-1][i::3] for i in range(3))
        if any(interior):
            raise ValueError("export: padding between elements is not written to ONNX")
        fill = _Node(f"%0 = Const {node.dtype} ({node.arguments[-1]})")
        pads = self.ints(*before, *after)
        value = self.scalar(fill, self.value(fill))
        return self.add("Pad", self.name(node.sources[0]), pads, value)

    def _Cat(self, node: _Node) -> str:
        names = [self.name(i) for i in node.sources]
        return self.add("Concat", *names, axis=node.arguments[0])

    def _Window(self, node: _Node) -> str:
        axis, stride, dilation = node.arguments[:3]
        outs, size = node.shape[axis : axis + 2]
        places = [o * stride + k * dilation for o in range(outs) for k in range(size)]
        index = self.array("int64", [outs, size], places)
        return self.add("Gather", self.name(node.sources[0]), index, axis=axis)

    def _Gather(self, node: _Node) -> str:
        x, indices = self.nodes[node.sources[0]], node.sources[1:]
        inside: str | None = None
        parts = []
        for axis, where in enumerate(node.arguments):
            if where >= 0:
                shape = [-1 if i == where else 1 for i in range(len(node.shape))]
                count = node.shape[where]
                line = self.array("int64", [count], range(count))
                at = self.add("Reshape", line, self.ints(*shape))
                at = self.add("Expand", at, self.ints(*node.shape))
            else:
                most = self.array("int64", [], [max(x.shape[axis] - 1, 0)])
                zero = self.array("int64", [], [0])
                given = self.add("Cast", self.name(indices[-where - 1]), to=_INT64)
                at = self.add("Clip", given, zero, most)
                same = self.add("Equal", at, given)
                inside = same if inside is None else self.add("And", inside, same)
            parts.append(self.add("Unsqueeze", at, self.ints(-1)))
        places = self.add("Concat", *parts, axis=-1)
        taken = self.add("GatherND", self.name(x.number), places)
        if inside is None:
            return taken
        return self.add("Where", inside, taken, self.scalar(node, 0))

    # ---- Reductions, and what goes along an axis ----

    def _Reduce(self, node: _Node) -> str:
        kind = node.op.partition(":")[2]
        x = self.name(node.sources[0])
        axes = self.ints(*node.arguments)
        if node.dtype == "bool":
            kind = {"Add": "Max", "Or": "Max", "Mul": "Min", "And": "Min"}.get(kind, kind)
            whole = self.add("Cast", x, to=_INT32)
            return self.add("Cast", self.add(_REDUCTIONS[kind], whole, axes), to=_BOOL)
        if kind not in _REDUCTIONS:
            raise ValueError(f"export: {node.op} is not written to ONNX")
        return self.add(_REDUCTIONS[kind], x, axes)

    def _Argsort(self, node: _Node) -> str:
        axis, descending = node.arguments
        count = self.ints(node.shape[axis])
        x = self.name(node.sources[0])
        _, places = self.parts("TopK", 2, x, count, axis=axis, largest=descending)
        return self.add("Cast", places, to=_INT32)

    def _Scan(self, node: _Node) -> str:
        axis, reverse = node.arguments
        if node.op != "Scan:Add":
            raise ValueError(f"export: {node.op} is not written to ONNX")
        place = self.array("int64", [], [axis])
        return self.add("CumSum", self.name(node.sources[0]), place, reverse=reverse)

    def _Call_Softmax(self, node: _Node) -> str:
        return self.add("Softmax", self.name(node.sources[0]), axis=node.arguments[0])

    def _Call_LogSoftmax(self, node: _Node) -> str:
        return self.add("LogSoftmax", self.name(node.sources[0]), axis=node.arguments[0])

    def _Call_LogSumExp(self, node: _Node) -> str:
        axes = self.ints(*node.arguments)
        return self.add("ReduceLogSumExp", self.name(node.sources[0]), axes)

    def _Call_LayerNorm(self, node: _Node) -> str:
        x, eps = self.name(node.sources[0]), self.name(node.sources[1])
        axes = self.ints(*range(len(node.shape) - node.arguments[0], len(node.shape)))
        apart = self.add("Sub", x, self.add("ReduceMean", x, axes))
        spread = self.add("ReduceMean", self.add("Mul", apart, apart), axes)
        return self.add("Div", apart, self.add("Sqrt", self.add("Add", spread, eps)))

    def _Call_Conv2d(self, node: _Node) -> str:
        groups, sy, sx, top, bottom, left, right, dy, dx = node.arguments
        names = [self.name(i) for i in node.sources]
        return self.add(
            "Conv",
            *names,
            group=groups,
            strides=[sy, sx],
            pads=[top, left, bottom, right],
            dilations=[dy, dx],
        )

    def _pool(self, node: _Node, op: str, **more: Any) -> str:
        ky, kx, sy, sx, top, bottom, left, right, dy, dx = node.arguments[:10]
        return self.add(
            op,
            self.name(node.sources[0]),
            kernel_shape=[ky, kx],
            strides=[sy, sx],
            pads=[top, left, bottom, right],
            dilations=[dy, dx],
            **more,
        )

    def _Call_MaxPool2d(self, node: _Node) -> str:
        return self._pool(node, "MaxPool")

    def _Call_AvgPool2d(self, node: _Node) -> str:
        return self._pool(node, "AveragePool", count_include_pad=node.arguments[10])

    # ---- The file ----

    def output(self, line: str) -> None:
        number, name = line[len("output %") :].split(" ", 1)
        node = self.nodes[int(number)]
        self.add("Identity", self.name(node.number), into=_text(name))
        self.outputs.append(_bytes(12, self.info(_text(name), node)))

    def model(self) -> bytes:
        graph = b"".join(self.written) + _bytes(2, "aster_ml")
        graph += b"".join(_bytes(5, weight) for weight in self.weights)
        graph += b"".join(self.inputs) + b"".join(self.outputs)
        opset = _bytes(8, _bytes(1, "") + _integer(2, _OPSET))
        return _integer(1, _IR_VERSION) + _bytes(2, "aster_ml") + _bytes(7, graph) + opset


def _text(quoted: str) -> str:
    """A name as programs quote it: \\xNN is a byte."""
    inner = quoted.strip()[1:-1].encode()
    return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), inner).decode()


def export(
    fn: Callable[..., Any],
    *examples: Tensor,
    path: str | os.PathLike[str] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> bytes | None:
    """What fn computes of tensors like the examples as a model of ONNX (opset 20), as bytes, or in
    a file where there is a path. Names and constants are those of aster_ml.export.

    ValueError names what has no words in ONNX: state, dtypes, and some operations (scatters,
    bitcasts).

    >>> from aster_ml import Tensor
    >>> from aster_ml.nn import onnx
    >>> model = onnx.export(lambda x: (x * 2).relu(), Tensor([1.0, -1.0]))
    >>> onnx.OnnxRunner(Tensor(model))({"x": Tensor([3.0, -3.0])})["output0"].tolist()
    [6.0, 0.0]
    """
    data = _export_program(fn, *examples, input_names=input_names, output_names=output_names)
    assert data is not None
    begin, size, constants, count = struct.unpack_from("<QQQQ", data, 16)
    whole = memoryview(data)
    text = data[begin : begin + size].decode()
    model = _Writer(text, whole[constants : constants + count]).model()
    if path is None:
        return model
    with open(path, "wb") as file:
        file.write(model)
    return None
