"""Cases of movement, composites, creation, random numbers and bad arguments."""

import itertools

import numpy as np

from case import Case, Input, operand
from operations import wide
from aster_conformance.values import ALL, VIEWS, generator

FLOAT = ("float32", "float64", "float16", "bfloat16")


def pools(x, kernel, stride, padding=0, fill=0.0, dilation=1):
    """[..., oh, ow, kh, kw]: the windows of the last two axes."""
    pad = [(0, 0)] * (x.ndim - 2) + [(padding, padding)] * 2
    x = np.pad(x, pad, constant_values=fill)
    reach = [dilation * (k - 1) + 1 for k in kernel]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(-2, -1))
    return windows[..., ::stride, ::stride, ::dilation, ::dilation]


def conv2d(x, w, b=None, groups=1, stride=1, padding=0, dilation=1):
    windows = pools(x, w.shape[2:], stride, padding, 0, dilation)
    n, c, oh, ow = windows.shape[:4]
    windows = windows.reshape(n, groups, c // groups, oh, ow, *w.shape[2:])
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    out = np.einsum("ngchwij,gocij->ngohw", windows, w).reshape(n, -1, oh, ow)
    return out if b is None else out + b[None, :, None, None]


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def normalized(x, axes, eps):
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=axes, keepdims=True) + eps)


def entropy(x, labels, reduction="mean", ignore=None, smoothing=0.0):
    log = x - np.max(x, axis=-1, keepdims=True)
    log = log - np.log(np.sum(np.exp(log), axis=-1, keepdims=True))
    mask = np.ones(labels.shape, bool) if ignore is None else labels != ignore
    picked = np.take_along_axis(log, np.maximum(labels, 0)[..., None].astype(int), -1)[..., 0]
    loss = -((1 - smoothing) * picked + smoothing * log.mean(-1)) * mask
    return {"mean": loss.sum() / mask.sum(), "sum": loss.sum(), "none": loss}[reduction]


# name: (shape of each input, call, reference); the dtype and the view rotate.
MOVEMENT = {
    "reshape": ([(4, 6)], lambda f, x: x.reshape(3, 8), lambda x: x.reshape(3, 8)),
    "reshape_infer": ([(4, 6)], lambda f, x: x.reshape(2, -1, 3), lambda x: x.reshape(2, -1, 3)),
    "reshape_0d": ([(1, 1)], lambda f, x: x.reshape(()), lambda x: x.reshape(())),
    "reshape_empty": ([(0, 3)], lambda f, x: x.reshape(3, 0, 2), lambda x: x.reshape(3, 0, 2)),
    "expand": ([(3, 1)], lambda f, x: x.expand(2, 3, 4), lambda x: np.broadcast_to(x, (2, 3, 4))),
    "expand_keep": ([(3, 1)], lambda f, x: x.expand(-1, 5), lambda x: np.broadcast_to(x, (3, 5))),
    "permute": ([(2, 3, 4)], lambda f, x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "transpose": ([(2, 3, 4)], lambda f, x: x.transpose(0, -1), lambda x: x.swapaxes(0, -1)),
    "flip": ([(3, 4)], lambda f, x: x.flip(-1), lambda x: np.flip(x, -1)),
    "flip_all": ([(3, 4, 2)], lambda f, x: x.flip(0, 2), lambda x: np.flip(x, (0, 2))),
    "pad": ([(3, 4)], lambda f, x: x.pad(((1, 2), (0, 3))), lambda x: np.pad(x, ((1, 2), (0, 3)))),
    "pad_value": (
        [(3, 4)],
        lambda f, x: x.pad(((1, 0), (2, 0)), value=1),
        lambda x: np.pad(x, ((1, 0), (2, 0)), constant_values=1),
    ),
    "pad_cut": (
        [(3, 4)],
        lambda f, x: x.pad(((-1, 2), (1, -2))),
        lambda x: np.pad(x[1:, :-2], ((0, 2), (1, 0))),
    ),
    "pad_flat": (
        [(2, 3, 4)],
        lambda f, x: x.pad((1, 0, 0, 2)),
        lambda x: np.pad(x, ((0, 0), (0, 2), (1, 0))),
    ),
    "shrink": ([(5, 6)], lambda f, x: x.shrink(((1, 3), (2, 6))), lambda x: x[1:3, 2:6]),
    "slice": ([(7, 6)], lambda f, x: x[1:-1, ::2], lambda x: x[1:-1, ::2]),
    "slice_back": ([(7, 6)], lambda f, x: x[::-1, 5:0:-2], lambda x: x[::-1, 5:0:-2]),
    "slice_beyond": ([(4,)], lambda f, x: x[2:99], lambda x: x[2:99]),
    "slice_nothing": ([(4, 2)], lambda f, x: x[3:1], lambda x: x[3:1]),
    "slice_step": ([(11,)], lambda f, x: x[-2:1:-3], lambda x: x[-2:1:-3]),
    "select": ([(3, 4, 5)], lambda f, x: x[1, :, -1], lambda x: x[1, :, -1]),
    "select_new": ([(3, 4)], lambda f, x: x[..., None, 2], lambda x: x[..., None, 2]),
    "squeeze": ([(3, 1, 4)], lambda f, x: x.squeeze(1), lambda x: x.squeeze(1)),
    "squeeze_all": ([(1, 3, 1)], lambda f, x: x.squeeze(), lambda x: x.squeeze()),
    "unsqueeze": ([(3, 4)], lambda f, x: x.unsqueeze(-1), lambda x: x[..., None]),
    "flatten": ([(2, 3, 4)], lambda f, x: x.flatten(1), lambda x: x.reshape(2, 12)),
    "cat": ([(2, 3), (4, 3)], lambda f, a, b: a.cat(b, dim=0), lambda a, b: np.concatenate([a, b])),
    "cat_last": (
        [(2, 3), (2, 1)],
        lambda f, a, b: a.cat(b, a, dim=-1),
        lambda a, b: np.concatenate([a, b, a], -1),
    ),
    "cat_empty": ([(2, 3), (0, 3)], lambda f, a, b: a.cat(b), lambda a, b: np.concatenate([a, b])),
    "stack": ([(2, 3), (2, 3)], lambda f, a, b: a.stack(b), lambda a, b: np.stack([a, b])),
    "stack_last": (
        [(2, 3), (2, 3)],
        lambda f, a, b: a.stack(b, dim=-1),
        lambda a, b: np.stack([a, b], -1),
    ),
    "chain": (
        [(4, 6)],
        lambda f, x: x.permute(1, 0)[::2].reshape(2, 6).pad(((0, 1), (1, 0))).flip(1),
        lambda x: np.flip(np.pad(x.T[::2].reshape(2, 6), ((0, 1), (1, 0))), 1),
    ),
    "where": (
        [(3, 4), (4,)],
        lambda f, a, b: (a < b).where(a, b),
        lambda a, b: np.where(a < b, a, b),
    ),
    "clamp": ([(5, 6)], lambda f, x: x.clamp(1, 3), lambda x: None),
    "contiguous": ([(3, 4)], lambda f, x: x.permute(1, 0).contiguous(), lambda x: x.T),
    "clone": ([(3, 4)], lambda f, x: x.flip(0).clone(), lambda x: x[::-1]),
    "detach": ([(3, 4)], lambda f, x: x.detach(), lambda x: x),
}


def movement():
    count = 0
    for k, (name, (shapes, call, reference)) in enumerate(MOVEMENT.items()):
        for step in range(4):
            count += 1
            dtype = ALL[(k * 5 + step * 4 + 1) % len(ALL)]
            view = VIEWS[count % len(VIEWS)]
            case = f"movement/{name}/{dtype}/{view}"
            rng = generator(case)
            inputs = [
                operand(
                    rng, dtype, s, "all" if len(shapes) == 1 and name != "clamp" else "plain", view
                )
                for s in shapes
            ]
            yield Case(case, call, inputs, reference)
    for name in ("reshape", "permute", "flip", "pad", "slice_back", "cat_last", "stack", "expand"):
        shapes, call, _ = MOVEMENT[name]
        case = f"movement/gradient/{name}"
        rng = generator(case)
        yield Case(case, call, [operand(rng, "float32", s, "plain") for s in shapes], gradient=True)


PRODUCTS = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((4,), (4,)),
    ((4,), (4, 3)),
    ((3, 4), (4,)),
    ((0, 3), (3, 2)),
    ((3, 0), (0, 2)),
    ((37, 70), (70, 41)),
]
CONVS = [
    ((2, 3, 7, 8), (4, 3, 3, 3), {}),
    ((1, 4, 6, 5), (4, 2, 3, 2), {"groups": 2}),
    ((1, 2, 9, 9), (3, 2, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 2, 9, 8), (2, 2, 2, 3), {"dilation": 2, "padding": 2}),
    ((1, 6, 5, 5), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
]
POOLS = [
    ((2, 3, 6, 8), {}, {}),
    ((1, 2, 7, 7), {"kernel_size": (3, 3), "stride": 2}, {}),
    ((1, 2, 6, 6), {"kernel_size": (3, 3), "stride": 1, "padding": 1}, {}),
]


def product_case(dtypes, shapes, view, gradient=False):
    place = "_".join("x".join(map(str, s)) for s in shapes)
    case = f"matmul/{'gradient' if gradient else 'matmul'}/{'+'.join(dtypes)}/{place}/{view}"
    rng = generator(case)
    inputs = [
        operand(rng, dtypes[0], shapes[0], "plain", view),
        operand(rng, dtypes[1], shapes[1], "plain"),
    ]
    same = dtypes[0] == dtypes[1] and dtypes[0] != "bool"
    return Case(
        case,
        lambda f, a, b: a @ b,
        inputs,
        (lambda a, b: np.matmul(wide(a), wide(b))) if same else None,
        lambda a, b: np.matmul(abs(wide(a, True)), abs(wide(b, True))),
        4,
        6,
        gradient=gradient,
    )


def products():
    for k, dtype in enumerate(ALL):
        yield product_case((dtype, dtype), PRODUCTS[k % 3], VIEWS[k % len(VIEWS)])
    for k, shapes in enumerate(PRODUCTS[3:]):
        yield product_case(("float32",) * 2, shapes, "permuted" if k % 2 else "plain")
        yield product_case((("int32", "float16", "float64")[k % 3],) * 2, shapes, "plain")
    for dtypes in (("int8", "float16"), ("float16", "bfloat16"), ("uint8", "int32")):
        yield product_case(dtypes, PRODUCTS[0], "plain")
    for k, dtype in enumerate(FLOAT):
        for shapes in (PRODUCTS[k], PRODUCTS[k + 1]):
            yield product_case((dtype, dtype), shapes, VIEWS[k], True)


def convolutions():
    for (k, (x, w, options)), gradient in itertools.product(enumerate(CONVS), (False, True)):
        for dtype in (
            ("float32",) if gradient else ("float32", ("float64", "float16", "int32")[k % 3])
        ):
            case = f"conv/{'gradient' if gradient else 'conv2d'}/{dtype}/{k}"
            rng = generator(case)
            shapes = [x, w] + [(w[0],)] * (k % 2)
            view = VIEWS[k % len(VIEWS)]
            inputs = [operand(rng, dtype, s, "plain", view if s == x else "plain") for s in shapes]
            magnitude = lambda *a, o=options: conv2d(*[abs(wide(v, True)) for v in a], **o)
            yield Case(
                case,
                lambda f, *t, o=options: t[0].conv2d(*t[1:], **o),
                inputs,
                lambda *a, o=options: conv2d(*map(wide, a), **o),
                magnitude,
                4,
                6,
                gradient=gradient,
            )
    for (k, (x, options, _)), name in itertools.product(enumerate(POOLS), ("max", "avg")):
        for dtype, gradient in (
            ("float32", False),
            (("float16", "int32", "uint8")[k], False),
            ("float32", True),
        ):
            case = f"conv/{'gradient_' if gradient else ''}{name}_pool2d/{dtype}/{k}"
            inputs = [operand(generator(case), dtype, x, "plain", VIEWS[(k + 2) % len(VIEWS)])]
            yield Case(
                case,
                lambda f, x, n=name, o=options: getattr(x, n + "_pool2d")(**o),
                inputs,
                lambda x, n=name, o=options: pooled(x, n, **o),
                (
                    (lambda x, o=options: pooled(abs(wide(x, True)), "avg", **o))
                    if name == "avg"
                    else None
                ),
                4,
                6,
                gradient=gradient,
            )


def pooled(x, name, kernel_size=(2, 2), stride=None, padding=0):
    x = wide(x, name == "avg")
    lowest = 0 if name == "avg" else -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    windows = pools(x, kernel_size, stride or kernel_size[0], padding, lowest)
    return windows.mean((-2, -1)) if name == "avg" else windows.max((-2, -1))


LABELS = np.array([[2, 0, 3, 1], [4, 1, 1, 0]], np.int32)


def norms():
    plans = {
        "softmax": (lambda f, x: x.softmax(-1), lambda x: softmax(x, -1), [(3, 5)]),
        "softmax_0": (lambda f, x: x.softmax(0), lambda x: softmax(x, 0), [(4, 3, 5)]),
        "log_softmax": (lambda f, x: x.log_softmax(1), lambda x: np.log(softmax(x, 1)), [(3, 7)]),
        "layernorm": (lambda f, x: x.layernorm(), lambda x: normalized(x, (-1,), 1e-5), [(4, 9)]),
        "layernorm_2": (
            lambda f, x: x.layernorm(axis=(1, 2), eps=1e-3),
            lambda x: normalized(x, (1, 2), 1e-3),
            [(2, 3, 5)],
        ),
        "batchnorm": (
            lambda f, x, w, b, m, i: x.batchnorm(w, b, m, i),
            lambda x, w, b, m, i: (
                (x - m[:, None, None]) * (w * i)[:, None, None] + b[:, None, None]
            ),
            [(2, 3, 4, 5)] + [(3,)] * 4,
        ),
        "lerp": (
            lambda f, a, b, w: a.lerp(b, w),
            lambda a, b, w: a + (b - a) * w,
            [(3, 4), (4,), (3, 1)],
        ),
    }
    for (k, (name, (call, reference, shapes))), dtype in itertools.product(
        enumerate(plans.items()), FLOAT
    ):
        for gradient in (False, True):
            if gradient and dtype in ("bfloat16",):
                continue
            case = f"norm/{'gradient_' if gradient else ''}{name}/{dtype}"
            rng = generator(case)
            view = VIEWS[(k + len(dtype)) % len(VIEWS)]
            inputs = [
                operand(rng, dtype, s, "plain", view if n == 0 else "plain")
                for n, s in enumerate(shapes)
            ]
            yield Case(
                case,
                call,
                inputs,
                lambda *a, r=reference: r(*map(wide, a)),
                None,
                16,
                24,
                8,
                gradient=gradient,
            )
    for dtype in ("int32", "uint8", "bool"):
        case = f"norm/softmax/{dtype}"
        yield Case(
            case,
            lambda f, x: x.softmax(-1),
            [operand(generator(case), dtype, (3, 5), "plain")],
            lambda x: softmax(wide(x, True), -1),
            None,
            16,
            24,
            8,
        )
    losses = [
        {},
        {"reduction": "sum"},
        {"reduction": "none"},
        {"label_smoothing": 0.25},
        {"ignore_index": 1},
    ]
    for options, gradient in itertools.product(losses, (False, True)):
        what = "_".join(f"{k}={v}" for k, v in options.items()) or "plain"
        case = f"norm/{'gradient_' if gradient else ''}cross_entropy/{what}"
        x = operand(generator(case), "float32", (2, 4, 5), "plain")

        def call(f, x, o=options):
            return x.sparse_categorical_crossentropy(f.tensor(LABELS, "int32"), **o)

        def reference(x, o=options):
            return entropy(
                wide(x),
                LABELS,
                o.get("reduction", "mean"),
                o.get("ignore_index"),
                o.get("label_smoothing", 0.0),
            )

        yield Case(case, call, [x], reference, None, 16, 24, 8, gradient=gradient)
    yield Case(
        "norm/one_hot/int32",
        lambda f, x: x.one_hot(4),
        [
            Input(
                "int32",
                np.array([0, 3, 1, 2], np.int32),
                np.array([0, 3, 1, 2], np.int32),
                lambda t: t,
            )
        ],
        lambda x: np.eye(4, dtype=np.int32)[x],
    )


def of(f, name):
    return None if name is None else getattr(f.dtypes, name)


def creation():
    plans = {}
    for dtype in [None, *ALL]:
        plans[f"full/{dtype}"] = lambda f, d=dtype: f.Tensor.full((2, 3), 3, dtype=of(f, d))
        plans[f"ones/{dtype}"] = lambda f, d=dtype: f.Tensor.ones(2, 0, 3, dtype=of(f, d))
        if dtype != "bool":
            plans[f"arange/{dtype}"] = lambda f, d=dtype: f.Tensor.arange(1, 9, 2, dtype=of(f, d))
            plans[f"eye/{dtype}"] = lambda f, d=dtype: f.Tensor.eye(3, 4, dtype=of(f, d))
    for k, bounds in enumerate([(5,), (3, 3), (5, 0, -2), (0, 10, 3), (7, 2), (-4, 4)]):
        plans[f"arange/int/{k}"] = lambda f, b=bounds: f.Tensor.arange(*b)
    for k, bounds in enumerate([(0.0, 2.0, 0.25), (1.0, 0.0, -0.3), (0.5,)]):
        plans[f"arange/float/{k}"] = lambda f, b=bounds: f.Tensor.arange(*b)
    for k, (a, b, n) in enumerate([(0.0, 1.0, 5), (-2, 3, 1), (1.0, 2.0, 0), (0.0, 10.0, 33)]):
        plans[f"linspace/{k}"] = lambda f, a=a, b=b, n=n: f.Tensor.linspace(a, b, n)
    plans["full/float"] = lambda f: f.Tensor.full((2,), 2.5)
    plans["full/bool"] = lambda f: f.Tensor.full((2,), True)
    plans["full/0d"] = lambda f: f.Tensor.full((), -7)
    plans["zeros/many"] = lambda f: f.Tensor.zeros(3, 4)
    plans["eye/square"] = lambda f: f.Tensor.eye(4)
    for what, value in (("int", 3), ("float", 2.5), ("bool", True)):
        plans[f"number/{what}"] = lambda f, v=value: f.Tensor(v)
        plans[f"number/{what}_sum"] = lambda f, v=value: f.Tensor(v) + f.Tensor(1)
    for what, value in (
        ("ints", [1, 2]),
        ("floats", [1, 2.5]),
        ("bools", [[True], [False]]),
        ("empty", []),
    ):
        plans[f"list/{what}"] = lambda f, v=value: f.Tensor(v)
    for name, call in plans.items():
        yield Case(
            f"creation/{name}",
            call,
            parity=1,
            slack=1 if name.startswith(("linspace", "arange/float")) else 0,
        )


def random():
    draws = {
        "rand": lambda t, n, d: t.rand(n, dtype=d),
        "randn": lambda t, n, d: t.randn(n, dtype=d),
        "uniform": lambda t, n, d: t.uniform(n, low=-2.0, high=6.0, dtype=d),
        "normal": lambda t, n, d: t.normal(n, mean=1.0, std=2.0, dtype=d),
        "randint": lambda t, n, d: t.randint(n, low=-3, high=20, dtype=d),
    }
    for (name, call), dtype, count in itertools.product(
        draws.items(), ("float32", "float16", "float64", "bfloat16"), (1, 5, 64)
    ):
        dtype = (
            {"float32": "int32", "float16": "int8", "float64": "int64"}.get(dtype, "uint8")
            if name == "randint"
            else dtype
        )

        def seeded(f, call=call, dtype=dtype, count=count):
            f.Tensor.manual_seed(count * 7 + 1)
            return [call(f.Tensor, count, of(f, dtype)), call(f.Tensor, 3, of(f, dtype))]

        normal = name in ("randn", "normal")
        slack = {"float64": 2.0**29}.get(dtype, 1) * 8 if normal else 0  # drawn in float32
        if (name, dtype) == ("uniform", "bfloat16"):
            slack = 4  # tinygrad's emulation does not round between the product and the sum
        yield Case(f"random/{name}/{dtype}/{count}", seeded, parity=4 if normal else 0, slack=slack)


def assign():
    """Writes to storage: through views, from themselves, seen by what was built before."""

    def vector(f, dtype, count=6):
        return f.tensor(np.arange(1, count + 1).astype(dtype), dtype).realize()

    def whole(f, dtype):
        x = vector(f, dtype)
        x.assign(x * 2 + 1)
        return [x]

    def twice(f, dtype):
        x = vector(f, dtype)
        x.assign(x * 2)
        x.assign(x + 1)
        return [x]

    def seen(f, dtype):
        x = vector(f, dtype)
        before = x + 1
        x.assign(x * 0)
        return [x, before]

    def reversed_(f, dtype):
        x = vector(f, dtype)
        x.assign(x.flip(0))
        return [x]

    def part(f, dtype):
        x = vector(f, dtype)
        x.shrink(((1, 4),)).assign(f.tensor(np.array([7, 8, 9], dtype), dtype))
        return [x]

    def shifted(f, dtype):
        x = vector(f, dtype)
        x.shrink(((1, 6),)).assign(x.shrink(((0, 5),)))
        return [x]

    def row(f, dtype):
        x = f.tensor(np.arange(12).reshape(3, 4).astype(dtype), dtype).realize()
        x.shrink(((1, 2), (0, 4))).assign(x.shrink(((0, 1), (0, 4))) + 50)
        return [x, x.sum(0)]

    def broadcast(f, dtype):
        x = f.tensor(np.arange(12).reshape(3, 4).astype(dtype), dtype).realize()
        x.assign(vector(f, dtype, 4))
        return [x]

    for call in (whole, twice, seen, reversed_, part, shifted, row, broadcast):
        for dtype in ("float32", "int32", "uint8"):
            yield Case(
                f"assign/{call.__name__.strip('_')}/{dtype}", lambda f, c=call, d=dtype: c(f, d)
            )
    for dtype in ("float32", "float64"):
        case = f"elementwise/fma/{dtype}"
        rng = generator(case)
        inputs = [operand(rng, dtype, s, "all", "flipped") for s in ((5, 13), (13,), (5, 1))]
        yield Case(
            case,
            lambda f, a, b, c: f.native.lazy_fma(a, b, c),
            inputs,
            lambda a, b, c: wide(a) * wide(b) + wide(c),
            ulps=0.5 if dtype == "float32" else 1,
            ask=False,
        )


def large():
    """Sizes at which kernels are split over threads, tiled, or left to BLAS; too large to keep
    answers of, the reference alone judges."""
    total = {"axis": None, "keepdims": False}
    plans = {
        "elementwise": ([(513, 1025), (1025,)], lambda f, a, b: a * b + a, lambda a, b: a * b + a),
        "composite": ([(513, 1025)], lambda f, x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
        "sum_rows": ([(1025, 513)], lambda f, x: x.sum(1), lambda x: x.sum(1)),
        "sum_columns": ([(1025, 513)], lambda f, x: x.sum(0), lambda x: x.sum(0)),
        "sum": ([(1025, 513)], lambda f, x: x.sum(), lambda x: x.sum(**total)),
        "max_columns": ([(1025, 513)], lambda f, x: x.max(0), lambda x: x.max(0)),
        "softmax": ([(257, 1031)], lambda f, x: x.softmax(-1), lambda x: softmax(x, -1)),
        "layernorm": ([(257, 515)], lambda f, x: x.layernorm(), lambda x: normalized(x, -1, 1e-5)),
        "slices": (
            [(301, 402), (301, 402)],
            lambda f, a, b: a[::-1, ::3].cat(b[:, 2::3], dim=1),
            lambda a, b: np.concatenate([a[::-1, ::3], b[:, 2::3]], 1),
        ),
        "matmul": ([(256, 256), (256, 256)], lambda f, a, b: a @ b, np.matmul),
        "matmul_odd": ([(129, 257), (257, 191)], lambda f, a, b: a @ b, np.matmul),
        "matmul_batch": ([(4, 65, 130), (130, 67)], lambda f, a, b: a @ b, np.matmul),
        "matmul_epilogue": (
            [(130, 140), (140, 150), (150,)],
            lambda f, a, b, c: (a @ b + c).relu(),
            lambda a, b, c: np.maximum(a @ b + c, 0),
        ),
        "conv2d": (
            [(4, 8, 20, 20), (16, 8, 3, 3), (16,)],
            lambda f, x, w, b: x.conv2d(w, b, padding=1),
            lambda x, w, b: conv2d(x, w, b, padding=1),
        ),
        "max_pool2d": (
            [(4, 16, 32, 32)],
            lambda f, x: x.max_pool2d(),
            lambda x: pools(x, (2, 2), 2).max((-2, -1)),
        ),
    }
    for (k, (name, (shapes, call, reference))), dtype in itertools.product(
        enumerate(plans.items()), ("float32", "float64", "float16", "int32")
    ):
        if dtype == "int32" and name in ("composite", "softmax", "layernorm"):
            continue
        view = VIEWS[k % 5] if dtype != "float64" else "permuted"
        case = f"large/{name}/{dtype}/{view}"
        rng = generator(case)
        inputs = [
            operand(rng, dtype, s, "plain", view if n == 0 else "plain")
            for n, s in enumerate(shapes)
        ]
        magnitude = None
        if name.startswith(("sum", "matmul", "conv2d", "elementwise")):
            magnitude = lambda *a, r=reference: r(*[abs(wide(v, True)) for v in a])
        yield Case(
            case,
            call,
            inputs,
            lambda *a, r=reference: integral(r, a),
            magnitude,
            16,
            slack=8,
            ask=False,
        )


def integral(reference, arrays):
    """A reference on wide arrays; int32 wraps."""
    arrays = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    arrays = [a.astype(np.float64) if a.dtype == np.float16 else a for a in arrays]
    out = reference(*arrays)
    return out.astype(np.int32) if arrays[0].dtype == np.int32 else out


def errors():
    """Bad arguments: the status that the headers promise (or the binding's exception)."""

    def zeros(f, *shape, dtype="float32"):
        return f.tensor(np.zeros(shape, np.float32), dtype)

    plans = {
        "add/shape": ("SHAPE", lambda f: zeros(f, 2, 3) + zeros(f, 2)),
        "where/shape": ("SHAPE", lambda f: (zeros(f, 2) > 0).where(zeros(f, 3), zeros(f, 2))),
        "where/dtype": ("DTYPE", lambda f: zeros(f, 2).where(zeros(f, 2), zeros(f, 2))),
        "reshape/count": ("SHAPE", lambda f: zeros(f, 2, 3).reshape(4, 2)),
        "reshape/infer_two": ("RANGE", lambda f: zeros(f, 2, 3).reshape(-1, -1)),
        "reshape/infer_not": ("SHAPE", lambda f: zeros(f, 2, 3).reshape(-1, 4)),
        "expand/size": ("SHAPE", lambda f: zeros(f, 2, 3).expand(4, 3)),
        "expand/ndim": ("SHAPE", lambda f: zeros(f, 2, 3).expand(3)),
        "permute/twice": ("RANGE", lambda f: zeros(f, 2, 3).permute(0, 0)),
        "permute/count": ("SHAPE", lambda f: zeros(f, 2, 3).permute(0)),
        "permute/range": ("RANGE", lambda f: zeros(f, 2, 3).permute(0, 2)),
        "transpose/range": ("RANGE", lambda f: zeros(f, 2, 3).transpose(0, 3)),
        "flip/range": ("RANGE", lambda f: zeros(f, 2, 3).flip(2)),
        "flip/twice": ("RANGE", lambda f: zeros(f, 2, 3).flip(0, 0)),
        "pad/count": ("SHAPE", lambda f: zeros(f, 2, 3).pad(((1, 1),))),
        "shrink/range": ("RANGE", lambda f: zeros(f, 2, 3).shrink(((0, 3), (0, 3)))),
        "shrink/order": ("RANGE", lambda f: zeros(f, 2, 3).shrink(((2, 1), (0, 3)))),
        "select/range": ("RANGE", lambda f: zeros(f, 2, 3)[2]),
        "select/range_negative": ("RANGE", lambda f: zeros(f, 2, 3)[-3]),
        "select/count": ("IndexError", lambda f: zeros(f, 2, 3)[0, 0, 0]),
        "slice/step": ("RANGE", lambda f: zeros(f, 2, 3)[::0]),
        "squeeze/range": ("RANGE", lambda f: zeros(f, 2, 3).squeeze(2)),
        "unsqueeze/range": ("RANGE", lambda f: zeros(f, 2, 3).unsqueeze(4)),
        "flatten/range": ("RANGE", lambda f: zeros(f, 2, 3).flatten(3)),
        "cat/shape": ("SHAPE", lambda f: zeros(f, 2, 3).cat(zeros(f, 2, 4), dim=0)),
        "cat/ndim": ("SHAPE", lambda f: zeros(f, 2, 3).cat(zeros(f, 3), dim=0)),
        "cat/range": ("RANGE", lambda f: zeros(f, 2, 3).cat(zeros(f, 2, 3), dim=2)),
        "stack/shape": ("SHAPE", lambda f: zeros(f, 2, 3).stack(zeros(f, 3, 2))),
        "sum/range": ("RANGE", lambda f: zeros(f, 2, 3).sum(2)),
        "sum/twice": ("RANGE", lambda f: zeros(f, 2, 3).sum((0, 0))),
        "argmax/range": ("RANGE", lambda f: zeros(f, 2, 3).argmax(2)),
        "softmax/range": ("RANGE", lambda f: zeros(f, 2, 3).softmax(2)),
        "matmul/shape": ("SHAPE", lambda f: zeros(f, 2, 3) @ zeros(f, 2, 3)),
        "matmul/0d": ("SHAPE", lambda f: zeros(f) @ zeros(f, 2)),
        "matmul/batch": ("SHAPE", lambda f: zeros(f, 2, 3, 4) @ zeros(f, 3, 4, 5)),
        "conv2d/channels": ("SHAPE", lambda f: zeros(f, 1, 3, 5, 5).conv2d(zeros(f, 2, 2, 3, 3))),
        "conv2d/groups": (
            "SHAPE",
            lambda f: zeros(f, 1, 3, 5, 5).conv2d(zeros(f, 2, 1, 3, 3), groups=2),
        ),
        "layernorm/range": ("RANGE", lambda f: zeros(f, 3).layernorm(axis=(0, 1))),
        "bitwise_and/float": ("DTYPE", lambda f: zeros(f, 2) & zeros(f, 2)),
        "bitwise_not/float": ("DTYPE", lambda f: ~zeros(f, 2)),
        "shl/float": ("DTYPE", lambda f: zeros(f, 2) << 1),
        "bitcast/size": (
            "SHAPE",
            lambda f: zeros(f, 3).bitcast(f.dtypes.float16)[..., None].bitcast(f.dtypes.float64),
        ),
        "randint/order": ("RANGE", lambda f: f.Tensor.randint(2, low=3, high=3)),
        "randint/dtype": (
            "DTYPE",
            lambda f: f.Tensor.randint(2, low=0, high=3, dtype=f.dtypes.float32),
        ),
        "arange/step": ("RANGE", lambda f: f.Tensor.arange(0, 4, 0)),
        "one_hot/dtype": ("DTYPE", lambda f: zeros(f, 2).one_hot(3)),
        "assign/dtype": (
            "DTYPE",
            lambda f: zeros(f, 2).realize().assign(zeros(f, 2, dtype="int32")),
        ),
        "assign/shape": ("SHAPE", lambda f: zeros(f, 2).realize().assign(zeros(f, 3))),
        "zeros/negative": ("RANGE", lambda f: f.Tensor.zeros(2, -3)),
        "linspace/count": ("RANGE", lambda f: f.Tensor.linspace(0.0, 1.0, -2)),
        "linspace/bool": ("DTYPE", lambda f: f.Tensor.linspace(0.0, 1.0, 3, dtype=f.dtypes.bool)),
    }
    for name, (status, call) in plans.items():
        yield Case(f"error/{name}", call, status=status)


GROUPS = {
    "movement": movement,
    "matmul": products,
    "conv": convolutions,
    "norm": norms,
    "creation": creation,
    "random": random,
    "error": errors,
    "assign": assign,
    "large": large,
}
