"""Layers with given weights, their initial weights, and steps of the optimisers."""

from __future__ import annotations


from ..row import Draw, row

GROUP = "nn"
FEW = ("float32", "float16")


def layer(name, make, call, torch=None, dtypes=FEW, **more):
    more = {"ulps": 64, "slack": 16, "norm": True, **more}
    row(f"nn.{name}", GROUP, make, call=call, torch=torch, dtypes=dtypes, **more)


def given(module, **weights):
    """The layer with these weights instead of its own."""
    for name, value in weights.items():
        if value is not None:
            setattr(module, name, value)
    return module


def affine(draw: Draw):
    inner, outer = draw.size(1, 8), draw.size()
    draw.tensor((*draw.shape(1, 2, 4), inner))
    draw.tensor((outer, inner), view=False)
    draw.tensor((outer,), view=False)


layer(
    "Linear",
    affine,
    lambda f, x, w, b: given(f.nn.Linear(*w.shape[::-1]), weight=w, bias=b)(x),
    lambda T, x, w, b: T.nn.functional.linear(x, w, b),
)


def convolution(rank, transposed=False):
    def make(draw: Draw):
        groups = draw.pick(1, 2)
        inner, outer = groups * draw.size(1, 2), groups * draw.size(1, 2)
        size = draw.size(1, 3)
        draw.tensor((draw.size(1, 2), inner, *(draw.size(3, 6) for _ in range(rank))))
        shape = (inner, outer // groups) if transposed else (outer, inner // groups)
        draw.tensor((*shape, *[size] * rank), view=False)
        draw.tensor((outer,), view=False)
        return {"stride": draw.pick(1, 2), "padding": draw.integer(0, size // 2), "groups": groups}

    return make


for rank in (1, 2):
    layer(
        f"Conv{rank}d",
        convolution(rank),
        lambda f, x, w, b, r=rank, **k: given(
            getattr(f.nn, f"Conv{r}d")(x.shape[1], b.shape[0], w.shape[2], **k), weight=w, bias=b
        )(x),
        lambda T, x, w, b, r=rank, **k: getattr(T.nn.functional, f"conv{r}d")(x, w, b, **k),
    )
    layer(
        f"ConvTranspose{rank}d",
        convolution(rank, True),
        lambda f, x, w, b, r=rank, **k: given(
            getattr(f.nn, f"ConvTranspose{r}d")(x.shape[1], b.shape[0], w.shape[2], **k),
            weight=w,
            bias=b,
        )(x),
        lambda T, x, w, b, r=rank, **k: getattr(T.nn.functional, f"conv_transpose{r}d")(
            x, w, b, **k
        ),
    )


def batch(draw: Draw):
    channels = draw.size(1, 4)
    draw.tensor((draw.size(2, 4), channels, draw.size(2, 4), draw.size(2, 4)))
    draw.tensor((channels,), view=False)
    draw.tensor((channels,), view=False)
    draw.tensor((channels,), view=False)
    draw.tensor((channels,), "positive", view=False)
    return {"training": draw.maybe(), "eps": draw.pick(1e-5, 1e-3)}


def batch_norm(f, x, w, b, mean, var, training, eps):
    norm = given(f.nn.BatchNorm(x.shape[1], eps=eps), weight=w, bias=b)
    norm.running_mean.assign(mean.detach())
    norm.running_var.assign(var.detach())
    with f.Context(TRAINING=int(training)):
        out = norm(x)
    return [out, norm.running_mean, norm.running_var]


def torch_batch_norm(T, x, w, b, mean, var, training, eps):
    mean, var = mean.detach().clone(), var.detach().clone()
    return [T.nn.functional.batch_norm(x, mean, var, w, b, training, 0.1, eps), mean, var]


layer("BatchNorm", batch, batch_norm, torch_batch_norm, dtypes=("float32",), alone=True)


def channelled(draw: Draw):
    groups = draw.size(1, 3)
    channels = groups * draw.size(1, 2)
    draw.tensor((draw.size(1, 3), channels, draw.size(2, 4), draw.size(2, 4)))
    draw.tensor((channels,), view=False)
    draw.tensor((channels,), view=False)
    return {"groups": groups}


layer(
    "GroupNorm",
    channelled,
    lambda f, x, w, b, groups: given(f.nn.GroupNorm(groups, x.shape[1]), weight=w, bias=b)(x),
    lambda T, x, w, b, groups: T.nn.functional.group_norm(x, groups, w, b),
)
layer(
    "InstanceNorm",
    channelled,
    lambda f, x, w, b, groups: given(f.nn.InstanceNorm(x.shape[1]), weight=w, bias=b)(x),
    lambda T, x, w, b, groups: T.nn.functional.instance_norm(x, weight=w, bias=b),
)
layer(
    "LayerNorm2d",
    channelled,
    lambda f, x, w, b, groups: given(f.nn.LayerNorm2d(x.shape[1]), weight=w, bias=b)(x),
)


def normalised(draw: Draw):
    size = draw.size(2, 8)
    draw.tensor((*draw.shape(1, 2, 4), size))
    draw.tensor((size,), view=False)
    draw.tensor((size,), view=False)


layer(
    "LayerNorm",
    normalised,
    lambda f, x, w, b: given(f.nn.LayerNorm(x.shape[-1]), weight=w, bias=b)(x),
    lambda T, x, w, b: T.nn.functional.layer_norm(x, x.shape[-1:], w, b),
)
layer(
    "RMSNorm",
    normalised,
    lambda f, x, w, b: given(f.nn.RMSNorm(x.shape[-1]), weight=w)(x) + b,
    lambda T, x, w, b: T.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-6) + b,
)


def embedded(draw: Draw):
    words, size = draw.size(2, 9), draw.size()
    draw.tensor((words, size), view=False)
    draw.index(draw.shape(1, 2, 4), words)


layer(
    "Embedding",
    embedded,
    lambda f, w, x: given(f.nn.Embedding(*w.shape), weight=w)(x),
    lambda T, w, x: T.nn.functional.embedding(x.long(), w),
)


def recurrent(draw: Draw):
    batch, inner, hidden = draw.size(1, 3), draw.size(1, 4), draw.size(1, 4)
    for shape in (
        (batch, inner),
        (batch, hidden),
        (batch, hidden),
        (4 * hidden, inner),
        (4 * hidden, hidden),
        (4 * hidden,),
        (4 * hidden,),
    ):
        draw.tensor(shape, view=False)


def lstm(f, x, h, c, wi, wh, bi, bh):
    cell = given(
        f.nn.LSTMCell(wi.shape[1], wh.shape[1]), weight_ih=wi, weight_hh=wh, bias_ih=bi, bias_hh=bh
    )
    return list(cell(x, (h, c)))


layer("LSTMCell", recurrent, lstm, lambda T, x, h, c, *w: list(T.lstm_cell(x, (h, c), *w)))

# ---- initial weights
INITIAL = [
    ("Linear", (5, 3), ("weight", "bias")),
    ("Conv1d", (2, 4, 3), ("weight", "bias")),
    ("Conv2d", (2, 4, 3), ("weight", "bias")),
    ("ConvTranspose1d", (2, 4, 3), ("weight", "bias")),
    ("ConvTranspose2d", (2, 4, 3), ("weight", "bias")),
    ("Embedding", (7, 3), ("weight",)),
    ("LSTMCell", (3, 4), ("weight_ih", "weight_hh", "bias_ih", "bias_hh")),
    ("BatchNorm", (3,), ("weight", "bias", "running_mean", "running_var")),
    ("GroupNorm", (2, 4), ("weight", "bias")),
    ("InstanceNorm", (4,), ("weight", "bias")),
    ("LayerNorm", (4,), ("weight", "bias")),
    ("RMSNorm", (4,), ("weight",)),
]


def initial(draw: Draw):
    name, sizes, weights = draw.pick(*INITIAL)
    return {"name": name, "sizes": sizes, "weights": weights, "seed": draw.integer(0, 9999)}


def initialised(f, name, sizes, weights, seed):
    f.Tensor.manual_seed(seed)
    module = getattr(f.nn, name)(*sizes)
    return [getattr(module, weight) * 1 for weight in weights]


row(
    "nn.initial",
    GROUP,
    initial,
    call=initialised,
    dtypes=("float32",),
    ulps=1,
    slack=1,
    gradient=False,
    alone=True,
)

# ---- optimisers
OPTIMISERS = {
    "SGD": {
        "momentum": (0.0, 0.9),
        "weight_decay": (0.0, 0.1),
        "nesterov": (False, True),
        "classic": (False, True),
    },
    "Adam": {"b1": (0.9, 0.8), "eps": (1e-8, 1e-6)},
    "AdamW": {"weight_decay": (0.01, 0.1)},
    "LAMB": {"weight_decay": (0.0, 0.1)},
    "LARS": {"momentum": (0.9, 0.0), "weight_decay": (1e-4, 0.1), "nesterov": (False, True)},
    "Muon": {"momentum": (0.95, 0.5), "weight_decay": (0.1, 0.0), "nesterov": (True, False)},
}


def steps(options):
    def make(draw: Draw):
        shapes = [(draw.size(2, 4), draw.size(2, 4)), (draw.size(2, 4), draw.size(1, 3))]
        for shape in shapes[: draw.size(1, 2)]:
            draw.tensor(shape, view=False)
            draw.tensor(shape, view=False)
        chosen = {name: draw.pick(*values) for name, values in options.items()}
        if chosen.get("nesterov") and not chosen.get("momentum"):
            chosen["nesterov"] = False
        return {"lr": draw.pick(0.01, 0.1), "count": draw.size(1, 3), **chosen}

    return make


def stepped(name):
    def call(f, *tensors, lr, count, **options):
        parameters = [t.clone().realize() for t in tensors[::2]]
        optimiser = getattr(f.nn.optim, name)(parameters, lr=lr, **options)
        with f.Context(TRAINING=1):
            for k in range(count):
                for parameter, gradient in zip(parameters, tensors[1::2]):
                    parameter.grad = gradient * (k + 1)
                optimiser.step()
        return parameters

    return call


TORCH = {
    "SGD": lambda T, p, lr, momentum, weight_decay, nesterov, classic: (
        T.optim.SGD(p, lr, momentum, weight_decay=weight_decay, nesterov=nesterov)
        if not classic
        else None
    ),
    "Adam": lambda T, p, lr, b1, eps: T.optim.Adam(p, lr, (b1, 0.999), eps),
    "AdamW": lambda T, p, lr, weight_decay: T.optim.AdamW(p, lr, weight_decay=weight_decay),
}


def torch_stepped(name):
    def call(T, *tensors, lr, count, **options):
        parameters = [t.detach().clone().requires_grad_() for t in tensors[::2]]
        optimiser = TORCH[name](T, parameters, lr, **options)
        if optimiser is None:
            raise NotImplementedError("classic momentum")
        for k in range(count):
            for parameter, gradient in zip(parameters, tensors[1::2]):
                parameter.grad = gradient.detach() * (k + 1)
            optimiser.step()
        return parameters

    return call


for name, options in OPTIMISERS.items():
    loose = 65536 if name == "Muon" else 64
    layer(
        f"optim.{name}",
        steps(options),
        stepped(name),
        torch_stepped(name) if name in TORCH else None,
        dtypes=("float32",),
        gradient=False,
        alone=True,
        ulps=loose,
        slack=loose,
    )
