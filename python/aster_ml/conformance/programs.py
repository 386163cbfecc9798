"""Programs whose kernels are counted: ours are at most tinygrad's.

Each is written once for both. It makes its inputs, realised, and returns what is counted: a
function that builds, and gives the tensors to realise. The function runs once before the count.
"""

from __future__ import annotations

import typing

PROGRAMS: dict[str, typing.Callable[..., typing.Any]] = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def data(f, *shape, seed=1):
    f.Tensor.manual_seed(seed)
    return f.Tensor.rand(*shape).clone().realize()


def whole(f, count, bound, *shape):
    """Numbers 0 to bound - 1, over and over."""
    return f.Tensor([(7 * i + 3) % bound for i in range(count)]).reshape(*shape).clone().realize()


def one(name, make, *shapes):
    """A program of one expression of inputs of these shapes."""

    def program_(f):
        tensors = [data(f, *shape, seed=k + 1) for k, shape in enumerate(shapes)]

        def run():
            out = make(f, *tensors)
            return list(out) if isinstance(out, (list, tuple)) else [out]

        return run

    PROGRAMS[name] = program_


SQUARE = (64, 64)
for name, make, *shapes in [
    ("elementwise_chain", lambda f, a, b: ((a + b) * a - b) / (a + 2), SQUARE, SQUARE),
    ("softmax", lambda f, x: x.softmax(-1), SQUARE),
    ("softmax_masked", lambda f, x, m: (m > 0.5).where(x, -1e9).softmax(-1), SQUARE, SQUARE),
    ("layer_norm", lambda f, x: x.layernorm(), SQUARE),
    ("standard_deviation", lambda f, x: x.std(1), SQUARE),
    ("normalize", lambda f, x: x.normalize(), SQUARE),
    ("cumsum", lambda f, x: x.cumsum(1), SQUARE),
    ("cumsum_long", lambda f, x: x.cumsum(0), (4096,)),
    ("cumprod", lambda f, x: x.cumprod(1), SQUARE),
    ("cummax", lambda f, x: x.cummax(1), SQUARE),
    ("logcumsumexp", lambda f, x: x.logcumsumexp(1), (16, 32)),
    ("sort", lambda f, x: x.sort(1), (8, 64)),
    ("argsort", lambda f, x: x.argsort(1), (8, 64)),
    ("topk", lambda f, x: x.topk(5), (8, 64)),
    ("argmax", lambda f, x: x.argmax(1), SQUARE),
    (
        "scaled_dot_product_attention",
        lambda f, q, k, v: q.scaled_dot_product_attention(k, v),
        *[(2, 4, 16, 8)] * 3,
    ),
    (
        "attention_causal",
        lambda f, q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        *[(2, 4, 16, 8)] * 3,
    ),
    (
        "einsum_attention_scores",
        lambda f, q, k: f.Tensor.einsum("bhqd,bhkd->bhqk", q, k),
        *[(2, 4, 16, 8)] * 2,
    ),
    ("conv1d", lambda f, x, w: x.conv2d(w), (2, 3, 32), (4, 3, 3)),
    ("conv3d", lambda f, x, w: x.conv2d(w), (1, 2, 8, 8, 8), (3, 2, 3, 3, 3)),
    ("conv_transpose", lambda f, x, w: x.conv_transpose2d(w, stride=2), (2, 4, 8, 8), (4, 3, 3, 3)),
    ("interpolate_linear", lambda f, x: x.interpolate((16, 16)), (1, 3, 8, 8)),
    ("interpolate_nearest", lambda f, x: x.interpolate((16, 16), mode="nearest"), (1, 3, 8, 8)),
    (
        "average_pool_padded",
        lambda f, x: x.avg_pool2d((3, 3), padding=1, count_include_pad=False),
        (2, 3, 12, 12),
    ),
    ("max_pool_padded", lambda f, x: x.max_pool2d((3, 3), stride=2, padding=1), (2, 8, 48, 48)),
    ("max_pool_indices", lambda f, x: x.max_pool2d((2, 2), return_indices=True), (2, 3, 12, 12)),
    ("pad_reflect", lambda f, x: x.pad((2, 2, 2, 2), mode="reflect"), (1, 2, 8, 8)),
    ("roll", lambda f, x: x.roll(3, 1) * 2, SQUARE),
    ("diagonal", lambda f, x: x.diagonal() * 2, SQUARE),
    ("unfold", lambda f, x: x.unfold(0, 8, 4).sum(1), (64,)),
    ("rearrange", lambda f, x: x.rearrange("b (h d) -> h b d", h=4) * 2, SQUARE),
    ("triangle", lambda f, x: x.tril() + x.triu(), SQUARE),
    ("binary_crossentropy_logits", lambda f, x, y: x.binary_crossentropy_logits(y), SQUARE, SQUARE),
    ("gelu_gradient", lambda f, x: x.gelu().sum().gradient(x), SQUARE),
    ("cumsum_gradient", lambda f, x: x.cumsum(1).square().sum().gradient(x), (16, 32)),
    ("sort_gradient", lambda f, x: (x.sort(1)[0] * x).sum().gradient(x), (8, 32)),
    (
        "attention_gradients",
        lambda f, q, k, v: q.scaled_dot_product_attention(k, v).sum().gradient(q, k, v),
        *[(2, 2, 8, 8)] * 3,
    ),
]:
    one(name, make, *shapes)


@program
def gather(f):
    x, index = data(f, 64, 32), whole(f, 320, 64, 10, 32)
    return lambda: [x.gather(0, index)]


@program
def take_rows(f):
    x, index = data(f, 64, 32), whole(f, 20, 64, 20)
    return lambda: [x[index] * 2]


@program
def embedding(f):
    layer, index = f.nn.Embedding(100, 16), whole(f, 24, 100, 4, 6)
    layer.weight.realize()
    return lambda: [layer(index)]


@program
def embedding_gradient(f):
    weight, index = data(f, 100, 16), whole(f, 24, 100, 4, 6)

    def run():
        layer = f.nn.Embedding(100, 16)
        layer.weight = weight
        return layer(index).square().sum().gradient(weight)

    return run


@program
def cross_entropy(f):
    x, y = data(f, 32, 10), whole(f, 32, 10, 32)
    return lambda: [x.cross_entropy(y)]


@program
def scatter(f):
    x, source, index = data(f, 16, 16), data(f, 8, 16, seed=2), whole(f, 128, 16, 8, 16)
    return lambda: [x.scatter(0, index, source)]


@program
def scatter_add(f):
    x, source, index = data(f, 16, 16), data(f, 32, 16, seed=2), whole(f, 512, 16, 32, 16)
    return lambda: [x.scatter_reduce(0, index, source, "sum")]


@program
def scatter_mean(f):
    x, source, index = data(f, 16, 16), data(f, 32, 16, seed=2), whole(f, 512, 16, 32, 16)
    return lambda: [x.scatter_reduce(0, index, source, "mean", include_self=False)]


@program
def scatter_largest(f):
    x, source, index = data(f, 16, 16), data(f, 32, 16, seed=2), whole(f, 512, 16, 32, 16)
    return lambda: [x.scatter_reduce(0, index, source, "amax", include_self=False)]


def written(name, *items, shape=()):
    """Writes to what indices name; None in items is a tensor of them."""

    def program_(f):
        x, value, index = data(f, 64, 32), data(f, *shape, seed=2), whole(f, 20, 32, 20) - 16
        at = tuple(index.realize() if i is None else i for i in items)

        def run():
            x[at] = value if shape else 1.5
            return [x]

        return run

    PROGRAMS[name] = program_


written("write_rows", None, shape=(20, 32))
written("write_one_row", None, shape=(32,))
written("write_number", None)
written("write_points", None, None, shape=(20,))
written("write_part_of_rows", None, slice(4, 12), shape=(20, 8))
written("write_part_of_columns", slice(1, 60, 3), None, shape=(20, 20))
written("write_in_one_row", 3, None, shape=(20,))


@program
def one_hot(f):
    x = whole(f, 32, 10, 32)
    return lambda: [x.one_hot(10).float()]


@program
def dropout(f):
    x = data(f, 64, 64)

    def run():
        with f.Context(TRAINING=1):
            return [x.dropout(0.5)]

    return run


@program
def assign_row(f):
    x, row = data(f, 16, 16), data(f, 16, seed=2)

    def run():
        x[3] = row + 1
        return [x]

    return run


@program
def assign_block(f):
    x, block = data(f, 16, 16), data(f, 4, 4, seed=2)

    def run():
        x[2:6, 4:8] = block
        return [x]

    return run


@program
def cache_update(f):
    cache, key = data(f, 2, 32, 8), data(f, 2, 1, 8, seed=2)

    def run():
        cache[:, 5:6] = key
        return [cache]

    return run


@program
def batch_norm_training(f):
    layer, x = f.nn.BatchNorm(8), data(f, 16, 8, 4, 4)

    def run():
        with f.Context(TRAINING=1):
            return [layer(x), layer.running_mean, layer.running_var]

    return run


@program
def lstm_cell(f):
    cell, x = f.nn.LSTMCell(8, 16), data(f, 4, 8)
    h, c = data(f, 4, 16, seed=2), data(f, 4, 16, seed=3)
    f.Tensor.realize(cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
    return lambda: list(cell(x, (h, c)))


def optimiser(name, **options):
    """A step on one matrix whose gradient is there."""

    def make(f):
        parameter, gradient = data(f, 64, 32), data(f, 64, 32, seed=2)
        stepping = getattr(f.nn.optim, name)([parameter], lr=0.01, **options)

        def run():
            with f.Context(TRAINING=1):
                parameter.grad = gradient
                return stepping.schedule_step()

        return run

    PROGRAMS["_".join(["step", name.lower(), *options])] = make


optimiser("SGD")
optimiser("SGD", momentum=0.9)
optimiser("SGD", momentum=0.9, nesterov=True, weight_decay=0.1)
optimiser("Adam")
optimiser("AdamW")
optimiser("LAMB")
optimiser("LARS")
optimiser("Muon")


@program
def training_step(f):
    """Convolution, pooling, a linear layer, cross entropy, Adam."""
    w, b, v = data(f, 8, 1, 3, 3), data(f, 8, seed=2), data(f, 128, 10, seed=3)
    x, y = data(f, 16, 1, 8, 8, seed=4), whole(f, 16, 10, 16)
    stepping = f.nn.optim.Adam([w, b, v], lr=0.01)

    def run():
        with f.Context(TRAINING=1):
            h = x.conv2d(w, b, padding=1).relu().max_pool2d((2, 2)).flatten(1)
            loss = (h @ v).sparse_categorical_crossentropy(y)
            stepping.zero_grad()
            loss.backward()
            return [loss, *stepping.schedule_step()]

    return run
