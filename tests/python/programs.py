"""Programs as one writes them for tinygrad: each is given the package and returns what it prints.

python programs.py    runs them under tinygrad and writes programs.json, for programs_test.py
"""

import importlib
import json
import pathlib
import sys

import numpy as np

RECORD = pathlib.Path(__file__).with_suffix(".json")


def refusal(f):
    """The built-in exceptions that f's is one of, the nearest first; its value where it has one."""
    try:
        value = f()
    except Exception as error:
        return [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
    return value


def decoder(lib):
    """Rotary attention with a cache, experts by top-k, one recording for all positions."""
    Tensor, nn = lib.Tensor, lib.nn
    Tensor.manual_seed(5)
    vocabulary, width, heads, room, experts = 23, 16, 2, 32, 4

    class Experts:
        def __init__(self):
            self.gate = nn.Linear(width, experts, bias=False)
            self.up = Tensor.normal(experts, 2 * width, width, std=0.1)
            self.down = Tensor.normal(experts, width, 2 * width, std=0.1)

        def __call__(self, x):
            shares, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
            shares = shares / shares.sum(-1, keepdim=True)
            inner = (self.up[chosen] @ x.unsqueeze(-2).unsqueeze(-1)).silu()
            return ((self.down[chosen] @ inner).squeeze(-1) * shares.unsqueeze(-1)).sum(-2)

    class Block:
        def __init__(self):
            self.q, self.k, self.v, self.o = (
                nn.Linear(width, width, bias=False) for _ in range(4)
            )
            self.norm, self.norm2, self.experts = nn.RMSNorm(width), nn.RMSNorm(width), Experts()
            self.cache = None

        def __call__(self, x, pos, cosine, sine):
            b, t, d = x.shape
            y = self.norm(x)
            q, k, v = (f(y).reshape(b, t, heads, d // heads) for f in (self.q, self.k, self.v))

            def rotated(z):
                even, odd = z[..., 0::2], z[..., 1::2]
                pair = even * cosine - odd * sine, even * sine + odd * cosine
                return pair[0].stack(pair[1], dim=-1).flatten(-2)

            q, k = rotated(q), rotated(k)
            if self.cache is None:
                shape = 2, b, room, heads, d // heads
                self.cache = Tensor.zeros(*shape).contiguous().realize()
            place = self.cache.shrink((None, None, (pos, pos + t), None, None))
            place.assign(Tensor.stack(k, v)).realize()
            k, v = self.cache[0, :, : pos + t], self.cache[1, :, : pos + t]
            mask = Tensor.full((1, 1, t, pos + t), float("-inf")).triu(pos + 1) if t > 1 else None
            q, k, v = (z.transpose(1, 2) for z in (q, k, v))
            a = q.scaled_dot_product_attention(k, v, mask).transpose(1, 2).reshape(b, t, d)
            x = x + self.o(a)
            return (x + self.experts(self.norm2(x))).contiguous()

    embedding, blocks = nn.Embedding(vocabulary, width), [Block() for _ in range(2)]
    norm, out = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
    Tensor.realize(*nn.state.get_parameters([embedding, blocks, norm, out]))
    half = width // heads
    inverse = 1.0 / (10000 ** (Tensor.arange(0, half, 2) / half))
    angles = Tensor.arange(room).unsqueeze(1) * inverse.unsqueeze(0)
    cosine, sine = angles.cos().contiguous().realize(), angles.sin().contiguous().realize()

    def forward(tokens, pos):
        t, x = tokens.shape[1], embedding(tokens)
        turn = (f[pos : pos + t].reshape(1, t, 1, -1) for f in (cosine, sine))
        turn = tuple(turn)
        for block in blocks:
            x = block(x, pos, *turn)
        return out(norm(x))[:, -1].realize()

    step, tokens = lib.TinyJit(forward), [1, 5, 9, 2]
    scores = forward(Tensor([tokens]), 0)
    first, pos = scores.tolist(), lib.Variable("pos", 1, room - 1)
    for _ in range(8):
        tokens.append(int(scores.argmax(-1).item()))
        scores = step(Tensor([tokens[-1:]]).realize(), pos.bind(len(tokens) - 1))
    return {
        "prompt": first,
        "tokens": tokens,
        "last": scores.tolist(),
        "refused": [
            refusal(lambda: pos.bind(99)),
            refusal(lambda: step(Tensor([[1, 2]]).realize(), pos.bind(3))),
            refusal(lambda: Tensor([1.0, 2.0]).topk(3)),
        ],
    }


def packed_weights(lib):
    """Weights of 4 bits packed in pairs beside their scales; hashes; promotions."""
    Tensor, dtypes = lib.Tensor, lib.dtypes
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((3, 32)).astype(np.float32))
    w = Tensor(rng.standard_normal((8, 32)).astype(np.float32)).reshape(8, 2, 16)
    scale = (w.abs().max(-1, keepdim=True) / 7).half()
    q = (w / scale.float()).round().clamp(-8, 7).cast(dtypes.int8) + 8
    packed = q[..., :8].cast(dtypes.uint8) | (q[..., 8:].cast(dtypes.uint8) << 4)
    blocks = scale.bitcast(dtypes.uint8).cat(packed, dim=-1).contiguous().realize()
    scales, bits = blocks[..., :2].bitcast(dtypes.half), blocks[..., 2:]
    whole = Tensor.cat(bits & 15, bits >> 4, dim=-1).cast(dtypes.int8) - 8
    back = (whole.half() * scales).contiguous()  # where tinygrad rounds to half
    f = Tensor([1.0, -2.5, 1e-3, 3e38]).bitcast(dtypes.int32)
    h = Tensor(list(range(8)), dtype=dtypes.uint32)
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    kinds = (dtypes.int8, dtypes.uint8, dtypes.bool, dtypes.half, dtypes.int64, dtypes.uint64)
    sums = [Tensor([1], dtype=a) + Tensor([1], dtype=b) for a in kinds for b in kinds]
    each = [
        (v + 1, v + 1.5, v * True, v.sum(), v.mean(), v.exp(), v.cumsum(0), v / 2, v // 2, -v)
        for v in (Tensor([1, 2, 3], dtype=d) for d in kinds)
    ]
    return {
        "blocks": blocks.tolist(),
        "product": (x @ back.reshape(8, 32).float().T).tolist(),
        "parts": [((f >> 23) & 255).tolist(), (f & 0x7FFFFF).tolist()],
        "hashes": (h ^ (h >> 16)).tolist(),
        "promoted": [str(s.dtype) for s in sums],
        "dtypes": [str(v.dtype) for row in each for v in row],
        "signs": [(Tensor([5, -5, 7]) // 2).tolist(), (Tensor([5, -5, 7]) % 3).tolist()],
        "wrapped": [
            Tensor([300, -1, 128]).cast(dtypes.uint8).tolist(),
            Tensor([1.9, -1.9]).cast(dtypes.int8).tolist(),
            Tensor([2**31 - 1]).add(1).tolist(),
        ],
        "refused": [
            refusal(lambda: Tensor([1.0]) << 1),
            refusal(lambda: Tensor([1], dtype="float33")),
            refusal(lambda: Tensor([[1], [1, 2]])),
            refusal(lambda: Tensor(["a"])),
            refusal(lambda: Tensor({})),
        ],
    }


def second_order(lib):
    """Gradients of gradients, and L-BFGS by hand."""
    Tensor = lib.Tensor
    x = Tensor([0.5, -1.0, 2.0])
    (g,) = ((x**3).sum() + x[0] * x[1] * x[2]).gradient(x)
    (g1,) = (x.sin() * x.exp()).sum().gradient(x)
    (g2,) = g1.sum().gradient(x)
    m = Tensor(np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32))
    (gm,) = ((m @ m.T).softmax() * m.tanh().sum(1)).sum().gradient(m)
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])

    def rosenbrock(w):
        return (1 - w[0]).square() + 100 * (w[1] - w[0].square()).square()

    w, pairs, before = Tensor([-1.2, 1.0]).realize(), [], None
    for _ in range(22):
        loss = rosenbrock(w)
        grad = loss.gradient(w)[0].realize()
        if before is not None:
            s, y = (w - before[0]).realize(), (grad - before[1]).realize()
            if (s * y).sum().item() > 1e-10:
                pairs = [*pairs[-4:], (s, y)]
        way, factors = grad, []
        for s, y in reversed(pairs):
            factors.append((s * way).sum() / (s * y).sum())
            way = way - factors[-1] * y
        if pairs:
            way = way * ((s0 := pairs[-1])[0] * s0[1]).sum() / s0[1].square().sum()
        for (s, y), factor in zip(pairs, reversed(factors)):
            way = way + s * (factor - (y * way).sum() / (s * y).sum())
        step, slope, now = 1.0, (grad * way).sum().item(), loss.item()
        while rosenbrock(w - step * way).item() > now - 1e-4 * step * slope and step > 1e-8:
            step *= 0.5
        before = w.clone().realize(), grad
        w.assign(w - step * way).realize()
    return {
        "first": g.tolist(),
        "hessian": [g[k].gradient(x)[0].tolist() for k in range(3)],
        "third": [g2.tolist(), g2.sum().gradient(x)[0].tolist()],
        "penalty": gm.square().sum().gradient(m)[0].tolist(),
        "weighted": [t.tolist() for t in (a * b).gradient(a, b, gradient=Tensor([1.0, 10.0]))],
        "minimum": rosenbrock(w).item() < 1e-3,
        "refused": [
            refusal(lambda: (a * b).gradient(a)),
            refusal(lambda: Tensor([1]).sum().gradient(Tensor([1]))),
            refusal(lambda: (a * b).backward()),
            refusal(lambda: a.sum().gradient(Tensor([1.0]))[0].tolist()),
        ],
    }


def tables(lib):
    """Preparing a table: selections, counts, order, windows, writes in place; draws."""
    Tensor, dtypes = lib.Tensor, lib.dtypes
    Tensor.manual_seed(9)
    rng = np.random.default_rng(4)
    d = Tensor(rng.integers(0, 12, (9, 3)).astype(np.int32))
    f = Tensor(rng.standard_normal((9, 3)).astype(np.float32))
    order = d.flatten().sort()[0]
    new = Tensor([True]).cat(order[1:] != order[:-1])
    x = f.contiguous().clone()
    x[0] = 1
    x[1:3, 1] = Tensor([5.0, 6.0])
    x[:, 2] += 2
    x[Tensor([7, 8])] = 0
    x[-1, -1] = 3.5
    weights = Tensor([[1.0, 2, 3], [3, 2, 1]])
    values = {
        "selected": f.masked_select(f > 0.5),
        "places": (d == 3).nonzero(),
        "unique": order.masked_select(new),
        "order": d.sort(0, descending=True)[1],
        "counts": d.flatten().one_hot(12).sum(0),
        "scaled": (f - f.mean(0)) / f.std(0),
        "maxima": f.cummax(0)[0],
        "running": f.logcumsumexp(0),
        "means": Tensor.zeros(12).scatter_reduce(0, d[:, 0], f[:, 0], "mean", include_self=False),
        "gathered": f.gather(0, d % 9),
        "lists": f[::-2, [2, 0]],
        "pairs": f[Tensor([[0, 1], [2, 3]]), Tensor([0, 1])],
        "written": x,
        "windows": f.unfold(0, 4, 2),
        "moved": f.roll((1, -1), (0, 1)),
        "joined": f.rearrange("(a b) c -> a (c b)", a=3),
        "drawn": weights.multinomial(4, replacement=True),
        "integers": Tensor.randint(5, low=-3, high=9),
        "shuffled": Tensor.randperm(7),
        "uniform": Tensor.uniform(2, low=-1, high=1),
    }
    refused = [
        lambda: f.masked_select(d), lambda: f.sort(5), lambda: f[9], lambda: f[0, 0, 0],
        lambda: f[1.0], lambda: f["a"], lambda: f.one_hot(3), lambda: d.one_hot(-1),
        lambda: f.gather(2, d), lambda: f.scatter(0, d, 1.0, reduce="nope"),
        lambda: f.scatter_reduce(0, d, f, "nope"), lambda: x.__setitem__(20, 1),
        lambda: x.__setitem__((0,), Tensor([1.0, 2.0])), lambda: f.transpose(0, 5),
        lambda: f.permute(0, 0), lambda: f.flip(3), lambda: f.expand(3, 3),
        lambda: f.reshape(5, -1), lambda: f.pad(((1, 0),)), lambda: f.shrink(((0, 20), None)),
        lambda: f.sum(4), lambda: f.unsqueeze(9), lambda: f.cat(f, dim=3), lambda: Tensor.eye(-1),
        lambda: f.unfold(0, 20, 1), lambda: f.repeat(-1, 1), lambda: f.rearrange("a b -> a"),
        lambda: len(Tensor(1)), lambda: f.item(), lambda: f.unflatten(0, (2, 2)),
        lambda: Tensor.rand(-1), lambda: f.dropout(2.0), lambda: f.split([1, 2]),
    ]  # fmt: skip
    out = {name: v.tolist() for name, v in values.items()}
    return {**out, "refused": [refusal(g) for g in refused], "kind": str(dtypes.default_int)}


def recurrent(lib):
    """A GRU by hand and an LSTM, clipped gradients, under TinyJit."""
    Tensor, nn = lib.Tensor, lib.nn
    Tensor.manual_seed(3)
    w, u = Tensor.glorot_uniform(5, 21).realize(), Tensor.glorot_uniform(7, 21).realize()
    lstm, head = nn.LSTMCell(5, 6), nn.Linear(13, 2)
    params = [w, u, *nn.state.get_parameters([lstm, head])]
    Tensor.realize(*params)
    opt = nn.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)

    def gru(x, h):
        gx, gh = (x @ w).chunk(3, dim=1), (h @ u).chunk(3, dim=1)
        z, r = (gx[0] + gh[0]).sigmoid(), (gx[1] + gh[1]).sigmoid()
        return (1 - z) * (gx[2] + r * gh[2]).tanh() + z * h

    def scores(x):
        h, state = Tensor.zeros(x.shape[0], 7), None
        for t in range(x.shape[1]):
            h, state = gru(x[:, t], h), lstm(x[:, t], state)
        return head(h.cat(state[0], dim=-1))

    @lib.TinyJit
    def step(x, y):
        with lib.Context(TRAINING=1):
            opt.zero_grad()
            loss = scores(x).cross_entropy(y, label_smoothing=0.05)
            loss.backward()
            norm = sum((p.grad.square().sum() for p in params), Tensor(0.0)).sqrt()
            for p in params:
                p.grad = p.grad * (1.0 / (norm + 1e-6)).minimum(1.0)
            opt.step()
            return loss.realize(), norm.realize()

    data = np.random.default_rng(1).standard_normal((4, 3, 5)).astype(np.float32)
    x, y = Tensor(data), Tensor([0, 1, 1, 0])
    steps = [[v.item() for v in step(x, y)] for _ in range(5)]
    refused = [lambda: Tensor.stack(x, y), lambda: x.cat(y), lambda: x @ y,
               lambda: gru(x, x), lambda: x.chunk(0), lambda: x.sequential([1])]  # fmt: skip
    return {"steps": steps, "after": scores(x).tolist(), "refused": [refusal(f) for f in refused]}


PROGRAMS = (decoder, packed_weights, second_order, tables, recurrent)


def main():
    lib = importlib.import_module("tinygrad")
    for name in ("nn", "nn.state", "nn.optim"):
        importlib.import_module(f"tinygrad.{name}")
    RECORD.write_text(json.dumps({p.__name__: p(lib) for p in PROGRAMS}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
