#!/usr/bin/env python3
"""Writes the files that the tests of nn read: what torch, zipfile and tarfile make of known values.

  make.py    writes torch.zip.pt, torch.legacy.pt, torch.tar.pt, tensor.pt, torch.tsv (name, dtype,
             shape, float32 values as hexadecimal) and archive.{zip,tar,tar.gz} beside this script

Needs torch.
"""

import collections
import io
import os
import pickle
import struct
import tarfile
import zipfile
import zlib

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = """float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64
float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz""".split()


def path(name):
    return os.path.join(HERE, name)


def numbers(*shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) * 7 % 23 - 8).div(4).reshape(shape)


def tensors():
    """Layouts and dtypes by name."""
    base = numbers(4, 6)
    out = {
        "base": base,
        "shared.rows": base[1:3],
        "transposed": numbers(3, 4).t(),
        "permuted": numbers(2, 3, 4).permute(2, 0, 1),
        "every other": numbers(3, 8)[:, ::2],
        "one column": base[:, 2],
        "expanded": numbers(3, 1).expand(3, 5),
        "expanded.permuted": numbers(4, 1, 2).expand(4, 3, 2).permute(2, 1, 0),
        "all one": torch.ones(1).expand(2, 3),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "channels last": numbers(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "windows": numbers(10).unfold(0, 4, 3),
    }
    return out


def typed():
    return {name: torch.tensor([0.0, 1, 0, 1, 1]).to(getattr(torch, name)) for name in DTYPES}


def everything():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(numbers(*p.shape) + i)
    return {
        "model": module.state_dict(),
        "layouts": tensors(),
        "parameter": torch.nn.Parameter(numbers(2, 2)),
        "list": [numbers(2), (numbers(3), 5)],
        "epoch": 12,
        "rate": 0.125,
        "big": 2**70 + 1,
        "minus": -(2**40),
        "name": 'a "net" ü',
        "nothing": None,
        "yes": True,
        "odd": [float("inf"), float("nan"), 1e300],
        "set": {1},
        "raw": b"\x00\xff",
        "size": torch.Size([2, 3]),
        3: {"deep": {"er": numbers(1)}},
    }


def rows(value, where, out):
    if isinstance(value, torch.Tensor):
        data = value.detach().contiguous().to(torch.float32).flatten().tolist()
        shape = ",".join(str(s) for s in value.shape)
        dtype = str(value.dtype).removeprefix("torch.")
        out.append(f"{where}\t{dtype}\t{shape}\t{struct.pack(f'<{len(data)}f', *data).hex()}")
    elif isinstance(value, dict):
        for key, item in value.items():
            rows(item, f"{where}.{key}" if where else str(key), out)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            rows(item, f"{where}.{i}", out)


def write_tar(name):
    """The format before 0.1.10: numbered storages, tensors over them, then a pickle of names."""

    class Named:
        def __init__(self, key):
            self.key = key

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return str(obj.key) if isinstance(obj, Named) else None

    def text(obj):
        out = io.BytesIO()
        Pickler(out, 2).dump(obj)
        return out.getvalue()

    storages = text(2)
    for key, kind, data in (
        (11, torch.FloatStorage, struct.pack("<6f", *range(6))),
        (12, torch.LongStorage, struct.pack("<3q", 7, 8, 9)),
    ):
        count = len(data) // (4 if key == 11 else 8)
        storages += text((key, "cpu", kind)) + struct.pack("<q", count) + data
    storages += text([])  # views
    described = text(3)
    for key, storage, kind, shape, stride, offset in (
        (21, 11, torch.FloatTensor, (2, 3), (3, 1), 0),
        (22, 11, torch.FloatTensor, (2, 2), (1, 3), 1),
        (23, 12, torch.LongTensor, (2,), (1,), 1),
    ):
        described += text((key, storage, kind)) + struct.pack("<ii", len(shape), 0)
        described += struct.pack(f"<{2 * len(shape) + 1}q", *shape, *stride, offset)
    state = collections.OrderedDict(a=Named(21), b=Named(22), c=Named(23))
    with tarfile.open(path(name), "w:", format=tarfile.PAX_FORMAT) as out:
        for part, data in (
            ("sys_info", text({"little_endian": True, "protocol_version": 1000})),
            ("storages", storages),
            ("tensors", described),
            ("pickle", text(state)),
        ):
            info = tarfile.TarInfo(part)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    read = torch.load(path(name), weights_only=False)  # as torch reads it
    assert read["a"].tolist() == [[0, 1, 2], [3, 4, 5]], read
    assert read["b"].tolist() == [[1, 4], [2, 5]] and read["c"].tolist() == [8, 9], read


def content(name):
    """What the files of the archives hold: the tests know it."""
    return (name.encode() + b"\n") * 40


def write_archives():
    long = "folder/" + "l" * 150 + ".txt"
    with zipfile.ZipFile(path("archive.zip"), "w") as out:
        for i, name in enumerate(("stored.txt", "deflated.txt", "folder/", "ä.bin")):
            info = zipfile.ZipInfo(name, (1990, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_STORED if i % 2 == 0 else zipfile.ZIP_DEFLATED
            out.writestr(info, b"" if name.endswith("/") else content(name))
        # Every kind of block: stored, fixed and dynamic codes, long distances.
        noise = bytes((i * i * 31 + (i >> 3) * 7) & 0xFF for i in range(3000))
        for level, data in ((1, noise + noise), (9, b"abc" * 2000), (6, b"x"), (0, noise)):
            info = zipfile.ZipInfo(f"level {level}", (1990, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(info, data, compresslevel=level)
    for name, mode in (("archive.tar", "w:"), ("archive.tar.gz", "w:gz")):
        raw = io.BytesIO()
        kind = tarfile.PAX_FORMAT if mode == "w:" else tarfile.GNU_FORMAT
        with tarfile.open(fileobj=raw, mode="w:", format=kind) as out:
            for member in ("first.txt", "folder", long, "ä.bin", "first.txt", "link"):
                info = tarfile.TarInfo(member)
                data = content(member)
                if member == "folder":
                    info.type, data = tarfile.DIRTYPE, b""
                if member == "link":
                    info.type, info.linkname, data = tarfile.SYMTYPE, "first.txt", b""
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))
        data = raw.getvalue()
        if mode == "w:gz":
            pack = zlib.compressobj(9, zlib.DEFLATED, 31)
            data = pack.compress(data) + pack.flush()
        with open(path(name), "wb") as out:
            out.write(data)


def main():
    state = everything()
    torch.save(state | {"dtypes": typed()}, path("torch.zip.pt"))
    # That format has storages of the first ten dtypes only.
    old = {k: v for k, v in typed().items() if k in DTYPES[:10]}
    legacy = {"_use_new_zipfile_serialization": False}
    torch.save(state | {"dtypes": old}, path("torch.legacy.pt"), **legacy)
    torch.save(numbers(2, 3), path("tensor.pt"))
    lines = []
    rows(state | {"dtypes": typed()}, "", lines)
    with open(path("torch.tsv"), "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    write_tar("torch.tar.pt")
    write_archives()


if __name__ == "__main__":
    main()
