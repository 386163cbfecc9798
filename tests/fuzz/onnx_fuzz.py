#!/usr/bin/env python3
"""Models of the backend suite of the package onnx, altered in bytes or in what they say, given to
`aster run`.

  onnx_fuzz.py --aster BIN [--cases DIR] [--count N] [--seed S] [--megabytes M] [--seconds T]

Whatever comes of one is a status, within --megabytes of memory (0: what a sanitizer gives) and
--seconds; a process that ends, takes longer, or says INTERNAL is a failure, whose model is kept
beside the cases, with its inputs where these are others.
Without a seed the models are others each time; the seed is printed. 77 without the packages.
"""

import argparse
import os
import pathlib
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "nn" / "onnx"))
import suite  # noqa: E402
from suite import np, numpy_helper, onnx  # noqa: E402

MOST_INPUT = 1 << 16  # bytes; the interpreter takes longer over more than it should here
MOST_ALTERED = 64  # elements of an input that are other ones
# An allocation that fails is a status, and of this size all do.
SANITIZED = ("allocator_may_return_null=1", "max_allocation_size_mb=128")


def altered(data, other, draw):
    """Bytes changed, cut out, put in again elsewhere, or taken from another model."""
    data = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at, size = draw.randrange(len(data) + 1), draw.choice((1, 2, 3, 8, 40))
        way = draw.randrange(6)
        if way == 0 and at < len(data):
            data[at] = draw.randrange(256)
        elif way == 1 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif way == 2:
            del data[at : at + size]
        elif way == 3:
            begin = draw.randrange(len(data) + 1)
            data[at:at] = data[begin : begin + size]
        elif way == 4:
            begin = draw.randrange(len(other) + 1)
            data[at:at] = other[begin : begin + size]
        else:
            data[at : at + 1] = draw.choice((b"\xff" * 9 + b"\x01", b"\x80\x80\x80\x80\x08", b"\0"))
    return bytes(data)


INTEGERS = (-(1 << 63), -(1 << 31), -7, -2, -1, 0, 1, 2, 3, 5, 100, 1 << 12, 1 << 40, (1 << 63) - 1)
NUMBERS = (float("nan"), float("inf"), -1e30, -1.0, 0.0, 0.3, 2.0, 1e30)


def other_attribute(attribute, draw):
    """Another value, of the kind that it has or of another one."""
    if draw.random() < 0.1:
        attribute.type = draw.randrange(1, 15)
    attribute.i = draw.choice(INTEGERS)
    attribute.f = draw.choice(NUMBERS)
    for values, more in ((attribute.ints, INTEGERS), (attribute.floats, NUMBERS)):
        if values and draw.random() < 0.8:
            values[draw.randrange(len(values))] = draw.choice(more)
        elif draw.random() < 0.3:
            values.append(draw.choice(more))
        elif values:
            values.pop()
    if attribute.s and draw.random() < 0.5:
        attribute.s = draw.choice((b"", b"x", b"linear", b"reflect", b"FLOAT", b"\xff"))


def rearranged(data, other, draw):
    """What a node, a weight or an input says is other than it was: a model still."""
    model, second = onnx.ModelProto.FromString(data), onnx.ModelProto.FromString(other)
    graph, nodes = model.graph, list(model.graph.node)
    for attribute in (a for node in model.graph.node for a in node.attribute):
        nodes += attribute.g.node
    for _ in range(draw.choice((1, 1, 2, 4))):
        way, node = draw.randrange(9), draw.choice(nodes) if nodes else None
        names = [name for each in nodes for name in (*each.input, *each.output)]
        if way <= 2 and node is not None and node.attribute:
            other_attribute(draw.choice(node.attribute), draw)
        elif way == 3 and node is not None and node.input:
            node.input[draw.randrange(len(node.input))] = draw.choice([*names, ""])
        elif way == 4 and node is not None:
            if node.input and draw.random() < 0.5:
                node.input.pop()
            else:
                node.input.append(draw.choice([*names, ""]))
        elif way == 5 and node is not None and second.graph.node:
            like = draw.choice(second.graph.node)
            node.op_type, node.domain = like.op_type, like.domain
            if draw.random() < 0.5:
                node.attribute.extend(like.attribute)
        elif way == 6 and graph.initializer:
            weight = draw.choice(graph.initializer)
            if draw.random() < 0.5:
                weight.data_type = draw.randrange(30)
            elif weight.dims:
                weight.dims[draw.randrange(len(weight.dims))] = draw.choice(INTEGERS)
            elif weight.raw_data:
                weight.raw_data = weight.raw_data[::-1]
        elif way == 7 and graph.input:
            kind = draw.choice(graph.input).type.tensor_type
            kind.elem_type = draw.randrange(30) if draw.random() < 0.3 else kind.elem_type
            for dim in kind.shape.dim[: draw.randrange(3)]:
                dim.dim_param = draw.choice("nm")
        elif model.opset_import:
            model.opset_import[0].version = draw.randrange(30)
    return model.SerializeToString()


def other_values(array, draw):
    """A few elements of an array are other numbers."""
    flat = array.reshape(-1).copy()
    for _ in range(draw.choice((1, 1, 2, flat.size))):
        more = NUMBERS if flat.dtype.kind == "f" else INTEGERS
        with np.errstate(all="ignore"):  # as much of a number as the dtype has
            flat[draw.randrange(flat.size)] = np.array([draw.choice(more)]).astype(flat.dtype)[0]
    return flat.reshape(array.shape)


def other_inputs(folder, given, draw):
    """A folder of inputs where what are few numbers, as shapes, axes and scales are, is others."""
    files = []
    for file in sorted(given.glob("input_*.pb")):
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(file.read_bytes())
            array = numpy_helper.to_array(tensor)
        except Exception:  # of a sequence or an optional, of whatever kind the package says so
            continue
        own = array.dtype.isbuiltin == 1 and array.dtype.kind in "iuf"
        if own and 0 < array.size <= MOST_ALTERED:
            files.append((file, tensor, array))
    if not files:
        return given
    shutil.copytree(given, folder)
    for file, tensor, array in draw.sample(files, draw.randint(1, len(files))):
        changed = numpy_helper.from_array(other_values(array, draw), tensor.name)
        (folder / file.name).write_bytes(changed.SerializeToString())
    return folder


def make(folder, index, cases, count, draw):
    """Lines of a list: altered models, and the inputs of those that they were, or others."""
    models = []
    for case in index:
        path = cases / case["kind"] / case["name"]
        data = sorted(path.glob("test_data_set_*"))
        size = sum(file.stat().st_size for file in data[0].iterdir()) if data else 0
        if case["kind"] != "real" and data and size <= MOST_INPUT:
            models.append((path / "model.onnx", data[0]))
    lines = []
    for i in range(count):
        (model, inputs), (other, _) = draw.choice(models), draw.choice(models)
        path = folder / f"{i}.onnx"
        data = model.read_bytes()
        way = draw.random()
        if way < 0.3:
            inputs = other_inputs(folder / f"{i}_inputs", inputs, draw)
        if way > 0.2:  # else the model is what it was
            data = (rearranged if way < 0.8 else altered)(data, other.read_bytes(), draw)
        path.write_bytes(data)
        lines.append((path, inputs, folder / "out"))
    return lines


def run(aster, lines, list_path, megabytes, seconds):
    """What is wrong, of each model that something is wrong with."""
    wrong, at, statuses = {}, 0, [0, 0, 0]
    environment = {**os.environ, "ASTER_ML_CC": "none", "ASTER_ML_THREADS": "1"}
    if megabytes == 0:  # else what a model may ask for takes longer there than it has
        given = os.environ.get("ASAN_OPTIONS", "")
        environment["ASAN_OPTIONS"] = ":".join((given, *SANITIZED)).lstrip(":")

    def limit():
        if megabytes > 0:  # sanitizers map much
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    while at < len(lines):
        list_path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines[at:]))
        command = [aster, "run", "--batch", str(list_path)]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=said, env=environment, preexec_fn=limit
            )
            done, rest = 0, b""
            while done < len(lines) - at:
                if not select.select([process.stdout], [], [], seconds)[0]:
                    process.kill()
                    wrong[at + done] = f"more than {seconds} s"
                    break
                block = os.read(process.stdout.fileno(), 1 << 16)
                if not block:
                    break
                *whole, rest = (rest + block).split(b"\n")
                for line in whole:
                    _, number, status, message = line.split(b"\t", 3)
                    done = int(number) + 1
                    statuses[int(status)] += 1
                    if b"INTERNAL" in message:
                        wrong[at + int(number)] = message.decode(errors="replace")
            code = process.wait()
            said.seek(0)
            if done < len(lines) - at and at + done not in wrong:
                wrong[at + done] = f"ended with {code}: {said.read()[-2000:].decode()}"
        at += done + (at + done in wrong)
    return wrong, statuses


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aster", required=True)
    parser.add_argument("--cases", default=None)
    count = int(os.environ.get("ASTER_ML_FUZZ_ONNX", 1500))
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--megabytes", type=int, default=4096)
    parser.add_argument("--seconds", type=int, default=20)
    arguments = parser.parse_args()
    aster = os.path.abspath(arguments.aster)
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        cases = pathlib.Path(arguments.cases or folder / "cases").absolute()
        index = suite.generate(cases)
        draw = random.Random(arguments.seed)
        lines = make(folder, index, cases, arguments.count, draw)
        wrong, statuses = run(
            aster, lines, folder / "list.tsv", arguments.megabytes, arguments.seconds
        )
        for number, why in wrong.items():
            kept = cases.parent / f"onnx_fuzz_{arguments.seed}_{number}.onnx"
            shutil.copy(lines[number][0], kept)
            inputs = lines[number][1]
            if inputs.is_relative_to(folder):
                inputs = shutil.copytree(inputs, kept.with_suffix(".inputs"), dirs_exist_ok=True)
            print(f"{kept} of {inputs}: {why}")
    ran, refused, unsupported = statuses
    print(f"{len(lines)} models: {ran} ran, {unsupported} unsupported, {refused} refused")
    return 1 if wrong or not ran or not refused else 0


if __name__ == "__main__":
    sys.exit(main())
