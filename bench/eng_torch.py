"""PyTorch, eager."""

import numpy as np
import torch
import torch.nn.functional as F


def perceptron(p, x):
    for i in range(3):
        x = x @ p[f"w{i}"] + p[f"b{i}"]
        x = torch.relu(x) if i < 2 else x
    return x


def digits_loss(p, x, t):
    x = F.max_pool2d(torch.relu(F.conv2d(x, p["c0_w"], p["c0_b"], padding=1)), 2)
    x = F.max_pool2d(torch.relu(F.conv2d(x, p["c1_w"], p["c1_b"], padding=1)), 2)
    return F.cross_entropy(F.linear(x.flatten(1), p["fc_w"], p["fc_b"]), t)


def conv_net_loss(p, x, t):
    x = F.max_pool2d(torch.relu(F.conv2d(x, p["c0_w"], p["c0_b"], padding=1)), 2)
    x = F.max_pool2d(torch.relu(F.conv2d(x, p["c1_w"], p["c1_b"], padding=1)), 2)
    return F.cross_entropy(x.flatten(1) @ p["fc_w"] + p["fc_b"], t)


def resnet18(p, x):
    def layer(x, name, stride, padding):
        return F.conv2d(x, p[name + "_w"], p[name + "_b"], stride=stride, padding=padding)

    x = F.max_pool2d(torch.relu(layer(x, "stem", 2, 3)), 3, 2, 1)
    for stage in range(4):
        for block in range(2):
            stride, name = (2 if stage > 0 and block == 0 else 1), f"s{stage}b{block}"
            y = layer(torch.relu(layer(x, name + "c1", stride, 1)), name + "c2", 1, 1)
            x = torch.relu(y + (layer(x, name + "d", stride, 0) if stride == 2 else x))
    return x.mean((2, 3)) @ p["fc_w"] + p["fc_b"]


def gpt2(p, x, attend):
    length = x.shape[1]

    def norm(x, name):
        return F.layer_norm(x, (768,), p[name + "_g"], p[name + "_b"], 1e-5)

    def linear(x, name):
        return x @ p[name + "_w"] + p[name + "_b"]

    for k in range(12):
        heads = linear(norm(x, f"{k}ln1"), f"{k}qkv").split(768, -1)
        y = attend(k, *(h.view(1, length, 12, 64).transpose(1, 2) for h in heads))
        x = x + linear(y.transpose(1, 2).reshape(1, length, 768), f"{k}o")
        up = F.gelu(linear(norm(x, f"{k}ln2"), f"{k}up"), approximate="tanh")
        x = x + linear(up, f"{k}down")
    return norm(x[:, -1], "lnf") @ p["wte"].t()


def prefill(p, words):
    x = p["wte"][words] + p["wpe"][: words.shape[1]]
    return gpt2(p, x, lambda k, q, key, value: F.scaled_dot_product_attention(
        q, key, value, is_causal=True))


def decode(p, words, keys, values):
    def attend(k, q, key, value):
        keys[k, :, 127:128] = key[0]
        values[k, :, 127:128] = value[0]
        return F.scaled_dot_product_attention(q, keys[k][None], values[k][None])

    return gpt2(p, p["wte"][words] + p["wpe"][127:128], attend)


def characters_loss(p, x, t):
    def norm(x, name):
        return F.layer_norm(x, (64,), p[name + "_w"], p[name + "_b"], 1e-5)

    def linear(x, name):
        return F.linear(x, p[name + "_w"], p[name + "_b"])

    x = F.embedding(x, p["tok"]) + p["pos"]
    for k in range(2):
        heads = linear(norm(x, f"{k}ln1"), f"{k}qkv").reshape(16, 64, 3, 4, 16)
        q, k_, v = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k_, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(16, 64, 64), f"{k}proj")
        y = F.gelu(linear(norm(x, f"{k}ln2"), f"{k}up"), approximate="tanh")
        x = x + linear(y, f"{k}down")
    return F.cross_entropy(linear(norm(x, "ln"), "head").reshape(-1, 96), t.reshape(-1))


# Training steps: the loss, and the optimiser of the weights.
TRAINED = {
    "train_digits": (digits_loss, lambda p: torch.optim.Adam(p, lr=0.003, fused=True)),
    "train_conv": (conv_net_loss, lambda p: torch.optim.Adam(p, lr=0.001, fused=True)),
    "train_char": (
        characters_loss,
        lambda p: torch.optim.AdamW(p, lr=0.003, weight_decay=0.01, fused=True),
    ),
}


def conv(p, x):
    return F.conv2d(x, p["w"], p["b"], padding=1)


PRODUCTS = "gemm_64 gemm_256 gemm_1024 gemm_4096 dgemm_1024 gemv_4096 bmm_64x128".split()
FUNCTIONS = {
    "add_16M": lambda p, x, y: x + y,
    "sum_16M": lambda p, x: x.sum(),
    "gelu_fma_16M": lambda p, x, a, b, c: F.gelu(x * a + b, approximate="tanh") * c,
    "softmax_4096": lambda p, x: torch.softmax(x, 1),
    "layernorm_4096x1024": lambda p, x, g, b: F.layer_norm(x, (1024,), g, b, 1e-5),
    **{name: (lambda p, x, y: x @ y) for name in PRODUCTS},
    "conv3x3_n1c64": conv,
    "conv3x3_n8c128": conv,
    "maxpool3s2": lambda p, x: F.max_pool2d(x, 3, 2, 1),
    "argmax_4096": lambda p, x: x.argmax(1),
    "transpose_4096": lambda p, x: x.t().contiguous(),
    "strided_sum": lambda p, x: x[:, ::2].sum(),
    "permute_0213": lambda p, x: x.permute(0, 2, 1, 3).contiguous(),
    "attention": lambda p, q, k, v: F.scaled_dot_product_attention(q, k, v),
    "attn_causal": lambda p, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "dwconv3x3": lambda p, x: F.conv2d(x, p["w"], p["b"], padding=1, groups=128),
    "cumsum_4096": lambda p, x: x.cumsum(1),
    "gather_rows": lambda p, x, i: x[i],
    "resnet18_b1": resnet18,
    "gpt2_prefill128": prefill,
    "gpt2_decode": decode,
    "mlp_b1": perceptron,
    "mlp_b128": perceptron,
    "call": lambda p, x, y: x + y,
}


class Engine:
    def __init__(self, threads):
        torch.set_num_threads(threads)

    def version(self):
        return "torch " + torch.__version__

    def compiled(self, function):
        return function

    def build(self, name, inputs, parameters):
        arguments = [torch.from_numpy(np.ascontiguousarray(v)) for v in inputs.values()]
        p = {k: torch.from_numpy(v.copy()) for k, v in parameters.items()}
        if name in TRAINED:
            loss_of, optimiser = TRAINED[name]
            for value in p.values():
                value.requires_grad_(True)
            adam, loss_of = optimiser(list(p.values())), self.compiled(loss_of)

            def step():
                adam.zero_grad(set_to_none=True)
                loss = loss_of(p, *arguments)
                loss.backward()
                adam.step()
                return loss.detach()

            return step
        if name not in FUNCTIONS:
            raise NotImplementedError("no row")
        function = self.compiled(FUNCTIONS[name])

        def run():
            with torch.inference_mode():
                return function(p, *arguments)

        return run

    def to_np(self, result):
        return result.detach().numpy()
