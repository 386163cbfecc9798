"""The training step of workloads.characters, for tinygrad and what has its interface."""


def logits(f, p, x):
    batch, length = x.shape

    def norm(x, name):
        return x.layernorm() * p[name + "_w"] + p[name + "_b"]

    def linear(x, name):
        return x.linear(p[name + "_w"].transpose(), p[name + "_b"])

    x = p["tok"][x] + p["pos"]
    for k in range(2):
        heads = linear(norm(x, f"{k}ln1"), f"{k}qkv").reshape(batch, length, 3, 4, 16)
        q, k_, v = (heads[:, :, i].transpose(1, 2) for i in range(3))
        y = q.scaled_dot_product_attention(k_, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(batch, length, 64), f"{k}proj")
        x = x + linear(linear(norm(x, f"{k}ln2"), f"{k}up").gelu(), f"{k}down")
    return linear(norm(x, "ln"), "head")


def training(library, nn, p, arguments):
    """A captured step of AdamW: gives the loss."""
    p = {name: library.Tensor(value).realize() for name, value in p.items()}
    adam = nn.optim.AdamW(list(p.values()), lr=0.003, weight_decay=0.01)

    @library.TinyJit
    def step(x, y):
        with library.Context(TRAINING=1):
            adam.zero_grad()
            out = logits(library, p, x).reshape(-1, 96)
            loss = out.sparse_categorical_crossentropy(y.reshape(-1)).backward()
            return loss.realize(*adam.schedule_step())

    return lambda: step(*arguments)
