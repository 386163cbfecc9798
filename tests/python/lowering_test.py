"""aster_ml.lowering: kernels of tensors, plans from outside, targets; and kernels that are built at
random, most of which mean nothing: they get a plan and a program, or a status."""

import random

import pytest
from aster_ml import Tensor, _native, lowering
from aster_ml.errors import Error

TARGETS = [
    lowering.Target("c", 0), lowering.Target("c", 16), lowering.Target("c", 32, {"fma", "f16c"}),
    lowering.Target("c", 64, {"fma", "f16c", "avx512", "streaming"}),
    lowering.Target("opencl", 32, {"fma"}), lowering.Target("program", 64, {"fma"}),
    lowering.Target("opencl", 16, {"fma", "fp64"}, 64, 256, 32768),
]  # fmt: skip


def test_kernels_of_tensors_by_any_plan():
    x = Tensor.rand(64, 512).realize()
    [kernel] = lowering.kernels((x * 2).sum(1))
    for target in TARGETS:
        assert kernel.program(target) == kernel.program(target, kernel.plan(target))
        assert kernel.source(target)
    mine = "plan\n0: order r0; tasks r0/64\n0.0: vector r1 4; tile r1 2; order r1\n"
    assert "f32x4" in kernel.program(TARGETS[1], mine)
    with pytest.raises(Error, match="plan 0.0"):
        kernel.program(TARGETS[1], mine.replace("vector r1 4", "vector r1 64"))
    with pytest.raises(Error, match="line 2"):
        kernel.program(TARGETS[1], mine.replace("order r0", "orders r0"))


def test_targets_that_are_none():
    with pytest.raises(ValueError, match="cuda"):
        lowering.Target("cuda")
    with pytest.raises(ValueError, match="amx"):
        lowering.Target("c", 64, {"amx"})
    [kernel] = lowering.kernels(Tensor.ones(8).contiguous() + 1)
    with pytest.raises(Error, match="24 bytes"):
        kernel.plan(lowering.Target("c", 24))
    with pytest.raises(Error, match="groups of 48"):
        kernel.plan(lowering.Target("opencl", 16, group=48))
    assert lowering.Target.of("CPU").form == "c"
    assert lowering.Target.of("CPU").group == 0


def test_targets_of_gpus():
    x = Tensor.rand(256, 512).realize()
    [kernel] = lowering.kernels(x.T.contiguous())
    target = lowering.Target("opencl", 16, {"fma"}, group=64)
    assert "pack p0; items 64" in kernel.plan(target)
    assert "__local float" in kernel.source(target)
    assert "barrier" in kernel.source(target)
    small = lowering.Target("opencl", 16, {"fma"}, group=64, local_bytes=1000)
    assert "pack" not in kernel.plan(small)
    with pytest.raises(Error, match="local memory, the target has 1000"):
        kernel.program(small, kernel.plan(target))


DTYPES = [1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14]
UNARY = ["Exp2", "Sin", "Sqrt", "Neg", "Recip", "Trunc"]
BINARY = ["Add", "Mul", "Sub", "Max", "CmpLt"]


def node(op, dtype=0, sources=(), arguments=(), shape=()):
    return _native.uop_init({
        "op": op, "dtype": dtype, "sources": list(sources), "arguments": list(arguments),
        "shape": list(shape),
    })  # fmt: skip


def random_kernel(draw):
    size = draw.choice([1, 7, 64, 1000, 1 << 20, 1 << 40])
    ranges = [
        node("Range", 0, (), (draw.choice([i] * 8 + [0, 63]), draw.choice([1, 2, 3, 7, 64, size])))
        for i in range(draw.choice([1, 2, 3, 5]))
    ]
    params = [
        node("Param", draw.choice(DTYPES), (), (slot,), (draw.choice([1, 8, size]),))
        for slot in draw.sample(range(6), draw.choice([1, 2, 3]))
    ]
    places = []
    for _ in range(4):
        at = draw.choice(ranges)
        for _ in range(draw.randrange(4)):
            number = draw.choice([0, 1, 2, -1, 7, 1000, size])
            other = node("Const", _native.uop_dtype(ranges[0]), (), (number,))
            op = draw.choice(["Add", "Mul", "Max", "FloorMod", "CDiv"])
            at = node(op, 0, (at, draw.choice([*ranges, other])))
        places.append(at)
    values = [node("Load", 0, (p, draw.choice(places))) for p in params]
    for _ in range(draw.choice([0, 1, 3, 6])):
        op = draw.choice([*UNARY, *BINARY, "Cast", "Fold:Add", "Fold:Max", "Carry:Add"])
        sources = [draw.choice(values)]
        if ":" in op:
            sources += draw.sample(ranges, 1)
        elif op in BINARY:
            sources.append(draw.choice(values))
        try:
            values.append(node(op, draw.choice(DTYPES) if op == "Cast" else 0, sources,
                               [draw.randrange(2)] if op == "Carry:Add" else []))  # fmt: skip
        except Error:
            pass  # another dtype, or no loop to fold
    stores = []
    for _ in range(draw.choice([1, 1, 2])):
        param = draw.choice(params)
        value = node("Cast", _native.uop_dtype(param), [draw.choice(values)])
        loops = ranges if draw.randrange(5) else ranges[:1]
        stores.append(node("Store", 0, [param, draw.choice(places), value, *loops]))
    return lowering.KernelNode(node("Sink", 0, stores))


def test_random_kernels_are_made_or_refused():
    draw = random.Random(7)
    planned = lowered = 0
    for _ in range(1500):
        target = draw.choice(TARGETS)
        try:
            kernel = random_kernel(draw)
            plan = kernel.plan(target)
            planned += 1
            assert kernel.program(target, plan) == kernel.program(target)
            lowered += 1
            assert kernel.source(target)
        except Error:
            pass  # a status is as good; what is not is anything else
    assert planned > 300 and lowered > 100
