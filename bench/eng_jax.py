"""JAX, jitted."""

import functools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402


def conv(x, w, b):
    numbers = ("NCHW", "OIHW", "NCHW")
    y = lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2, dimension_numbers=numbers)
    return y + b[:, None, None]


def max_pool(x, size, stride, padding):
    around = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    strides = (1, 1, stride, stride)
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, size, size), strides, around)


def layernorm(x, g, b):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * g + b


def perceptron(p, x):
    for i in range(3):
        x = x @ p[f"w{i}"] + p[f"b{i}"]
        x = jax.nn.relu(x) if i < 2 else x
    return x


def digits_loss(p, x, t):
    x = max_pool(jax.nn.relu(conv(x, p["c0_w"], p["c0_b"])), 2, 2, 0)
    x = max_pool(jax.nn.relu(conv(x, p["c1_w"], p["c1_b"])), 2, 2, 0)
    logits = jax.nn.log_softmax(x.reshape(x.shape[0], -1) @ p["fc_w"].T + p["fc_b"])
    return -jnp.take_along_axis(logits, t[:, None], 1).mean()


def characters_loss(p, x, t):
    def linear(x, name):
        return x @ p[name + "_w"].T + p[name + "_b"]

    def norm(x, name):
        return layernorm(x, p[name + "_w"], p[name + "_b"])

    x = p["tok"][x] + p["pos"]
    for k in range(2):
        heads = linear(norm(x, f"{k}ln1"), f"{k}qkv").reshape(16, 64, 3, 4, 16)
        q, k_, v = heads.transpose(2, 0, 3, 1, 4)
        scores = jnp.where(jnp.tri(64, dtype=bool), q @ k_.swapaxes(-1, -2) * 0.25, -jnp.inf)
        y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(16, 64, 64)
        x = x + linear(y, f"{k}proj")
        x = x + linear(jax.nn.gelu(linear(norm(x, f"{k}ln2"), f"{k}up")), f"{k}down")
    logits = jax.nn.log_softmax(linear(norm(x, "ln"), "head"))
    return -jnp.take_along_axis(logits, t[:, :, None], 2).mean()


# Training steps: the loss, and the decay of the weights.
TRAINED = {"train_digits": (digits_loss, 0), "train_char": (characters_loss, 0.01)}


def adam_step(loss_of, decay, state, x, t):
    p, m, v, n = state
    loss, g = jax.value_and_grad(loss_of)(p, x, t)
    n = n + 1
    over = jax.tree.map
    m = over(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = over(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    c1, c2 = 1 - 0.9**n, 1 - 0.999**n

    def moved(w, a, b):
        return w * (1 - 0.003 * decay) - 0.003 * (a / c1) / (jnp.sqrt(b / c2) + 1e-8)

    return (over(moved, p, m, v), m, v, n), loss


PRODUCTS = "gemm_64 gemm_256 gemm_1024 gemm_4096 gemv_4096 bmm_64x128".split()
FUNCTIONS = {
    "add_16M": lambda p, x, y: x + y,
    "sum_16M": lambda p, x: x.sum(),
    "gelu_fma_16M": lambda p, x, a, b, c: jax.nn.gelu(x * a + b, approximate=True) * c,
    "softmax_4096": lambda p, x: jax.nn.softmax(x, 1),
    "layernorm_4096x1024": lambda p, x, g, b: layernorm(x, g, b),
    **{name: (lambda p, x, y: x @ y) for name in PRODUCTS},
    "conv3x3_n1c64": lambda p, x: conv(x, p["w"], p["b"]),
    "conv3x3_n8c128": lambda p, x: conv(x, p["w"], p["b"]),
    "maxpool3s2": lambda p, x: max_pool(x, 3, 2, 1),
    "argmax_4096": lambda p, x: x.argmax(1),
    "transpose_4096": lambda p, x: lax.optimization_barrier(x.T) + 0,
    "strided_sum": lambda p, x: x[:, ::2].sum(),
    "permute_0213": lambda p, x: x.transpose(0, 2, 1, 3) + 0,
    "attention": lambda p, q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2) * 0.125, -1) @ v,
    "cumsum_4096": lambda p, x: x.cumsum(1),
    "gather_rows": lambda p, x, i: x[i],
    "mlp_b1": perceptron,
    "mlp_b128": perceptron,
    "call": lambda p, x, y: x + y,
}


class Engine:
    def __init__(self, threads):
        pass

    def version(self):
        return "jax " + jax.__version__

    def build(self, name, inputs, parameters):
        narrow = [v.astype(np.int32) if v.dtype == np.int64 else v for v in inputs.values()]
        arguments = [jnp.asarray(v) for v in narrow]
        p = {k: jnp.asarray(v) for k, v in parameters.items()}
        if name in TRAINED:
            step = jax.jit(functools.partial(adam_step, *TRAINED[name]), donate_argnums=0)
            zeros = [{k: jnp.zeros_like(v) for k, v in p.items()} for _ in range(2)]
            state = [(p, *zeros, jnp.float32(0))]

            def run():
                state[0], loss = step(state[0], *arguments)
                return loss.block_until_ready()

            return run
        if name not in FUNCTIONS:
            raise NotImplementedError("no row")
        function = jax.jit(FUNCTIONS[name])
        return lambda: function(p, *arguments).block_until_ready()

    def to_np(self, result):
        return np.asarray(result)
