"""Random numbers: equal seeds give equal bits."""

from __future__ import annotations

from ..row import REAL, Draw, row

GROUP = "random"


def shaped(draw: Draw, **more):
    return {"seed": draw.integer(0, 99999), "shape": draw.shape(0, 3, 5), **more}


def drawn(name, dtypes=REAL, make=None, call=None, **more):
    def default(draw: Draw):
        return shaped(draw, dtype=draw.dtype)

    def program(f, seed, shape, **arguments):
        f.Tensor.manual_seed(seed)
        method = getattr(f.Tensor, name)
        return [method(*shape, **arguments), method(3, **arguments)]  # the counter moves on

    row(
        f"Tensor.{name}",
        GROUP,
        make or default,
        call=call or program,
        dtypes=dtypes,
        gradient=False,
        alone=True,
        **more,
    )


drawn("rand")
drawn("randn", ulps=4, slack=8)
drawn(
    "randint",
    ("int32", "int8", "int64", "uint8"),
    lambda d: (
        shaped(d, low=d.integer(-9, 2), high=d.integer(3, 99), dtype=d.dtype)
        if d.dtype[0] == "i"
        else shaped(d, low=d.integer(0, 2), high=d.integer(3, 99), dtype=d.dtype)
    ),
)
drawn(
    "uniform",
    make=lambda d: shaped(d, low=d.integer(-3, 0) / 2, high=d.integer(1, 9) / 2, dtype=d.dtype),
    ulps=1,
    slack=4,
)
drawn(
    "normal",
    ("float32",),
    lambda d: shaped(d, mean=d.integer(-2, 2), std=d.pick(1.0, 0.5)),
    ulps=4,
    slack=8,
)
drawn(
    "scaled_uniform", ("float32",), lambda d: {**shaped(d), "shape": d.shape(1, 3)}, ulps=1, slack=1
)
drawn(
    "glorot_uniform",
    ("float32",),
    lambda d: {**shaped(d), "shape": (d.size(), *d.shape(0, 2))},
    call=lambda f, seed, shape: (f.Tensor.manual_seed(seed), f.Tensor.glorot_uniform(*shape))[1],
    ulps=1,
    slack=1,
)
for name in ("kaiming_uniform", "kaiming_normal"):
    drawn(
        name,
        ("float32",),
        lambda d: {**shaped(d), "shape": d.shape(2, 3)},
        ulps=4,
        slack=8,
        call=lambda f, seed, shape, n=name: (
            f.Tensor.manual_seed(seed),
            getattr(f.Tensor, n)(*shape),
        )[1],
    )


def seeded(function):
    def call(f, *tensors, seed, **arguments):
        f.Tensor.manual_seed(seed)
        return function(f, *tensors, **arguments)

    return call


def with_seed(draw: Draw):
    draw.tensor(draw.shape(1, 3))
    return {"seed": draw.integer(0, 99999)}


row(
    "randperm",
    GROUP,
    lambda d: {"n": d.size(1, 40), "seed": d.integer(0, 999)},
    gradient=False,
    alone=True,
    call=seeded(lambda f, n: f.Tensor.randperm(n)),
    dtypes=("int32",),
)
row(
    "rand_like",
    GROUP,
    with_seed,
    gradient=False,
    alone=True,
    call=seeded(lambda f, x: x.rand_like()),
)
row(
    "randn_like",
    GROUP,
    with_seed,
    gradient=False,
    alone=True,
    call=seeded(lambda f, x: x.randn_like()),
    ulps=4,
    slack=8,
)


def sampled(draw: Draw):
    shape = draw.tensor(draw.shape(1, 2, 6), "positive")
    replacement = draw.maybe()
    count = draw.size(1, 6) if replacement else draw.size(1, shape[-1])
    return {"seed": draw.integer(0, 999), "num_samples": count, "replacement": replacement}


row(
    "multinomial",
    GROUP,
    sampled,
    gradient=False,
    alone=True,
    dtypes=("float32",),
    call=seeded(lambda f, x, **k: x.multinomial(**k)),
)


def dropped(draw: Draw):
    draw.tensor(draw.shape(1, 3))
    return {
        "seed": draw.integer(0, 999),
        "p": draw.pick(0.5, 0.1, 0.9, 0.0),
        "training": draw.maybe(),
    }


def dropout(f, x, p, training):
    with f.Context(TRAINING=int(training)):
        return x.dropout(p)


row("dropout", GROUP, dropped, gradient=True, alone=True, call=seeded(dropout), ulps=2)


def several(draw: Draw):
    return {
        "seed": draw.integer(0, 999),
        "calls": [
            [draw.pick("rand", "randn", "randint", "uniform"), draw.size(1, 9)]
            for _ in range(draw.size(1, 5))
        ],
    }


row(
    "random.sequence",
    GROUP,
    several,
    gradient=False,
    alone=True,
    dtypes=("float32",),
    ulps=4,
    slack=8,
    call=seeded(lambda f, calls: [getattr(f.Tensor, name)(count) for name, count in calls]),
)
