"""The generated cases: all_cases() gives the same list everywhere."""

import functools
import itertools

import numpy as np

import composites
from case import Case, operand
from operations import BINARY, REDUCE, UNARY, wide
from aster_conformance.values import ALL, FLOATS, INTS, NARROW, VIEWS, generator

SHAPE = (5, 13)
SHAPES = [(), (1,), (0, 3), (2, 3, 4), (67,)]
PAIRS = [((4, 5), (5,)), ((3, 1, 4), (2, 1)), ((), (6,)), ((0, 3), (1, 3)), ((2, 3), (2, 3))]
MIXED = [
    ("int8", "uint8"),
    ("int32", "float32"),
    ("bool", "int16"),
    ("float16", "bfloat16"),
    ("uint64", "int8"),
    ("fp8e4m3", "fp8e5m2"),
    ("int64", "float16"),
    ("float32", "float64"),
    ("uint8", "float32"),
    ("bool", "bool"),
]
SCALARS = [2, -3, 2.5, True]


def rotate(items, counter):
    return items[next(counter) % len(items)]


def unary_case(name, op, dtype, shape, view):
    case = f"unary/{name}/{dtype}/{'x'.join(map(str, shape)) or '0d'}/{view}"
    x = operand(generator(case), dtype, shape, op.kind, view)
    return Case(
        case,
        op.call,
        [x],
        lambda x: op.reference(wide(x, op.real)),
        None,
        op.ulps,
        op.parity,
        op.slack,
    )


def unary():
    count = 0
    for name, op in UNARY.items():
        for dtype in ALL:
            count += 1
            yield unary_case(name, op, dtype, SHAPE, VIEWS[count % len(VIEWS)])
        count += 1
        for shape in SHAPES[:3] if count % 2 else SHAPES[1:]:
            count += 1
            yield unary_case(name, op, ALL[count % len(ALL)], shape, VIEWS[count // 7 % len(VIEWS)])
    for view in VIEWS:
        for name in ("exp", "neg", "relu"):
            yield unary_case(name, UNARY[name], "float32", (17, 33), view)


def shift_amount(name, y, dtype):
    """Shifts below the width; past it C leaves tinygrad undefined."""
    if name in ("shl", "shr") and dtype in INTS:
        y.base = y.base % np.array(8 * y.base.dtype.itemsize, y.base.dtype)
        y.array = y.array % np.array(8 * y.array.dtype.itemsize, y.array.dtype)


def without_zero(y):
    """Divisors on which tinygrad does not trap."""
    for name in ("array", "base"):
        array = getattr(y, name)
        bad = (array == 0) | (array == (-1 if array.dtype.kind == "i" else 0))
        setattr(y, name, np.where(bad, 3, array).astype(array.dtype))


DIVISIONS = ("truncdiv", "floordiv", "mod", "fmod")


def binary_case(name, op, dtypes, shapes, views, ask=True, suffix=""):
    what = dtypes[0] if dtypes[0] == dtypes[1] else "+".join(dtypes)
    place = "_".join("x".join(map(str, s)) or "0d" for s in shapes)
    case = f"binary/{name}/{what}/{place}/{'+'.join(views)}{suffix}"
    rng = generator(case)
    kind = "all" if dtypes[0] in INTS and name != "pow" else op.kind
    if name == "pow":
        kind = "positive" if dtypes[0] in INTS else "all"
    x = operand(rng, dtypes[0], shapes[0], kind, views[0])
    y = operand(rng, dtypes[1], shapes[1], kind, views[1])
    if ask:
        shift_amount(name, y, dtypes[1])
        if name in DIVISIONS and dtypes[1] in INTS:
            without_zero(y)
    elif name in ("shl", "shr"):  # past the width, but not back
        y.base = y.array = np.where(y.array < 0, ~y.array, y.array)
    same = dtypes[0] == dtypes[1]
    reference = (
        (lambda a, b: op.reference(*np.broadcast_arrays(wide(a, op.real), wide(b, op.real))))
        if same
        else None
    )
    return Case(case, op.call, [x, y], reference, None, op.ulps, op.parity, op.slack, ask=ask)


def binary():
    count = 0
    for name, op in BINARY.items():
        for dtype in ALL:
            count += 1
            if name in DIVISIONS and dtype == "bool":
                continue  # tinygrad divides by False: a trap
            views = (VIEWS[count % len(VIEWS)], VIEWS[count // 6 % len(VIEWS)])
            yield binary_case(name, op, (dtype, dtype), (SHAPE, SHAPE), views)
        for k, shapes in enumerate(PAIRS):
            count += 1
            dtype = ("float32", "int32", "float16", "uint8", "int64")[(count + k) % 5]
            yield binary_case(name, op, (dtype, dtype), shapes, (VIEWS[count % 4], "plain"))
    for name in ("add", "mul", "div", "maximum", "lt", "eq"):
        for dtypes in MIXED:
            yield binary_case(name, BINARY[name], dtypes, ((3, 4), (4,)), ("plain", "flipped"))
    for name in ("truncdiv", "floordiv", "mod", "fmod", "shl", "shr"):  # where tinygrad traps
        for dtype in INTS:
            yield binary_case(
                name,
                BINARY[name],
                (dtype, dtype),
                (SHAPE, SHAPE),
                ("plain", "plain"),
                False,
                "/undefined",
            )


def scalars():
    """Python numbers as operands: weak dtypes."""
    counter = itertools.count()
    operations = {
        "add": lambda s: lambda f, x: x + s,
        "radd": lambda s: lambda f, x: s + x,
        "rsub": lambda s: lambda f, x: s - x,
        "mul": lambda s: lambda f, x: x * s,
        "div": lambda s: lambda f, x: x / s,
        "rdiv": lambda s: lambda f, x: s / x,
        "maximum": lambda s: lambda f, x: x.maximum(s),
        "lt": lambda s: lambda f, x: x < s,
        "eq": lambda s: lambda f, x: x == s,
        "pow": lambda s: lambda f, x: x**s,
        "where": lambda s: lambda f, x: (x > 0).where(x, s),
        "chain": lambda s: lambda f, x: (x + s) * 3 + 0.5,
    }
    for (name, make), dtype in itertools.product(
        operations.items(), ("bool", "int8", "uint32", "int64", "float16", "float32", "fp8e5m2")
    ):
        scalar = rotate(SCALARS, counter)
        if name == "pow" and (not isinstance(scalar, int) or dtype not in FLOATS):
            scalar = 2
        case = f"scalar/{name}/{dtype}/{scalar}"
        x = operand(generator(case), dtype, (3, 5), "plain")
        yield Case(case, make(scalar), [x], parity=4)


def cast(target):
    return lambda f, x: x.cast(getattr(f.dtypes, target))


def to_int(x, target):
    """Truncated and wrapped; NaN and what lies beyond 2^63 give 0."""
    from operations import wrap

    x = x.astype(np.float64)
    fits = np.abs(x) < 2.0**63
    return np.where(fits, wrap(np.trunc(np.where(fits, x, 0)), target), 0).astype(target)


def casts():
    counter = itertools.count()
    for source, target in itertools.product(ALL, ALL):
        if source == target:
            continue
        view = rotate(VIEWS, counter)
        case = f"cast/{source}/{target}/{view}"
        x = operand(generator(case), source, SHAPE, "all", view)
        reference = None
        if target == "bool":
            reference = lambda x: x != 0
        elif target in INTS and source in FLOATS:
            reference = functools.partial(to_int, target=target)
        elif target in INTS:
            reference = lambda x, target=target: x.astype(target)
        yield Case(case, cast(target), [x], reference, parity=0 if target in NARROW else 0.5)
    for source, target in (
        ("float32", "int32"),
        ("int32", "float32"),
        ("float16", "uint16"),
        ("uint64", "float64"),
        ("float64", "int64"),
        ("uint8", "int8"),
        ("int8", "uint8"),
        ("bool", "uint8"),
        ("uint32", "int32"),
    ):
        case = f"cast/bitcast/{source}+{target}"
        x = operand(generator(case), source, SHAPE, "all", "flipped")
        yield Case(
            case,
            lambda f, x, t=target: x.bitcast(getattr(f.dtypes, t)),
            [x],
            lambda x, t=target: x.view(t),
            ulps=0,
        )


AXES = [(None, False), (0, False), ((0, 2), True), (-1, True), (1, False), ((0, 1, 2), False)]


def reduce_case(name, op, dtype, shape, axis, keepdim, view, kind=None, suffix=""):
    place = "x".join(map(str, shape)) or "0d"
    axes = "all" if axis is None else str(axis).replace(" ", "").strip("()")
    case = f"reduce/{name}/{dtype}/{place}/{axes}{'k' if keepdim else ''}/{view}{suffix}"
    x = operand(generator(case), dtype, shape, kind or op.kind, view)
    where = {"axis": axis, "keepdims": keepdim}
    scale = None
    if name in ("sum", "mean", "var", "logsumexp"):
        scale = lambda x: (np.mean if name != "sum" else np.sum)(
            np.abs(wide(x, True)) ** (2 if name == "var" else 1), **where
        )
    return Case(
        case,
        lambda f, x: getattr(x, name)(axis=axis, keepdim=keepdim),
        [x],
        lambda x: op.reference(wide(x, op.real), **where) if x.size else None,
        scale,
        op.ulps,
        op.parity,
        op.slack,
    )


def reductions():
    count = 0
    for name, op in REDUCE.items():
        for dtype in ALL:
            count += 1
            axis, keepdim = AXES[count % len(AXES)]
            yield reduce_case(name, op, dtype, (4, 5, 6), axis, keepdim, VIEWS[count % len(VIEWS)])
        for axis, shape in ((None, ()), (0, (0, 3)), (1, (0, 3)), (None, (0,)), (0, (1, 4))):
            count += 1
            yield reduce_case(
                name, op, ("float32", "int32")[count % 2], shape, axis, False, "plain"
            )
        for shape, axis in (((33, 129), 1), ((129, 33), 0), ((3, 1031), None)):
            count += 1
            yield reduce_case(
                name,
                op,
                ("float32", "float16", "int32", "uint8")[count % 4],
                shape,
                axis,
                False,
                VIEWS[count % 3],
            )
        for dtype in ("float32", "float16", "float64") if name != "prod" else ():  # NaN, infinities
            yield reduce_case(name, op, dtype, (6, 17), 1, False, "plain", "all", "/corners")
    for name, dtype in itertools.product(("argmax", "argmin"), ALL):
        count += 1
        axis = (None, 0, -1, 1)[count % 4]
        case = f"reduce/{name}/{dtype}/{axis}"
        x = operand(generator(case), dtype, (4, 5, 6), "plain", VIEWS[count % len(VIEWS)])
        yield Case(
            case,
            lambda f, x, n=name, a=axis: getattr(x, n)(axis=a, keepdim=a == -1),
            [x],
            lambda x, n=name, a=axis: getattr(np, n)(x, axis=a, keepdims=a == -1).astype(np.int32),
        )
    for shape, axis in (((), None), ((0, 3), 1), ((3, 0), 1), ((5,), 0), ((2, 257), 1)):
        case = f"reduce/argmax/shapes/{'x'.join(map(str, shape)) or '0d'}"
        x = operand(generator(case), "float32", shape, "plain")
        yield Case(case, lambda f, x, a=axis: x.argmax(axis=a), [x])


def gradients():
    """Gradients of every operation with one, on each float dtype; then those of the composites."""
    count = 0
    for (name, op), dtype in itertools.product(UNARY.items(), ("float32", "float16", "float64")):
        if op.gradient:
            count += 1
            case = f"gradient/{name}/{dtype}"
            x = operand(generator(case), dtype, (3, 7), op.gradient, VIEWS[count % len(VIEWS)])
            yield Case(case, op.call, [x], lambda x, op=op: op.reference(wide(x)), gradient=True)
    for (name, op), dtype in itertools.product(BINARY.items(), ("float32", "bfloat16", "float64")):
        if op.gradient:
            count += 1
            case, rng = f"gradient/{name}/{dtype}", generator(f"gradient/{name}/{dtype}")
            x = operand(rng, dtype, (3, 4), op.gradient, VIEWS[count % len(VIEWS)])
            y = operand(rng, dtype, (4,), op.gradient)
            yield Case(
                case,
                op.call,
                [x, y],
                lambda a, b, op=op: op.reference(wide(a), wide(b)),
                gradient=True,
            )
    for (name, op), (axis, keepdim) in itertools.product(REDUCE.items(), AXES[:4]):
        if op.gradient:
            count += 1
            dtype = ("float32", "float64", "float16")[count % 3]
            case = f"gradient/{name}/{dtype}/{axis}"
            x = operand(generator(case), dtype, (2, 3, 4), op.gradient, VIEWS[count % len(VIEWS)])
            yield Case(
                case,
                lambda f, x, n=name, a=axis, k=keepdim: getattr(x, n)(axis=a, keepdim=k),
                [x],
                lambda x, op=op, a=axis, k=keepdim: op.reference(wide(x), axis=a, keepdims=k),
                gradient=True,
            )


GROUPS = {
    "unary": unary,
    "binary": binary,
    "scalar": scalars,
    "cast": casts,
    "reduce": reductions,
    "gradient": gradients,
    **composites.GROUPS,
}


@functools.lru_cache(maxsize=None)
def all_cases():
    cases = [case for group in GROUPS.values() for case in group()]
    names = [case.name for case in cases]
    twice = {n for n in names if names.count(n) > 1} if len(set(names)) < len(names) else ()
    assert not twice, f"cases of one name: {sorted(twice)[:5]}"
    return cases
