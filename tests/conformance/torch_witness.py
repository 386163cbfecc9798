"""torch as one more witness: values and gradients of the operations that both have.

  python tests/conformance/torch_witness.py       with a Python that has torch and numpy

Part of the full conformance run, where torch is installed; exits with 77 where it is not.
"""

import sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F

    from aster_ml import Tensor
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

RANDOM = np.random.default_rng(7)


def noise(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def positive(*shape):
    return (RANDOM.random(shape) + 0.1).astype(np.float32)


LABELS = RANDOM.integers(0, 10, 12).astype(np.int32)
STATISTICS = (positive(6), positive(6))  # mean, variance

# name: (inputs, ours, torch's). Both get the inputs; gradients flow to all of them.
CASES = {
    **{
        name: ([draw(4, 7)], *[lambda x, n=name: getattr(x, n)()] * 2)
        for draw, names in (
            (noise, "exp exp2 sin cos tanh erf sigmoid relu abs square"),
            (positive, "sqrt rsqrt log log2 reciprocal"),
        )
        for name in names.split()
    },
    "gelu": ([noise(4, 7)], lambda x: x.gelu(), lambda x: F.gelu(x, approximate="tanh")),
    "silu": ([noise(4, 7)], lambda x: x.silu(), F.silu),
    "add": ([noise(4, 7), noise(7)], *[lambda a, b: a + b] * 2),
    "sub": ([noise(4, 1), noise(7)], *[lambda a, b: a - b] * 2),
    "mul": ([noise(4, 7), noise(4, 1)], *[lambda a, b: a * b] * 2),
    "div": ([noise(4, 7), positive(7)], *[lambda a, b: a / b] * 2),
    "pow": ([positive(4, 7), noise(7)], *[lambda a, b: a**b] * 2),
    "maximum": ([noise(4, 7), noise(4, 7)], *[lambda a, b: a.maximum(b)] * 2),
    "max": ([noise(3, 4, 5)], lambda x: x.max(1), lambda x: x.amax(1)),
    **{
        name: ([noise(3, 4, 5)], *[lambda x, n=name: getattr(x, n)(1)] * 2)
        for name in ("sum", "prod", "mean", "var", "softmax", "log_softmax", "logsumexp")
    },
    "layernorm": ([noise(6, 9)], lambda x: x.layernorm(), lambda x: F.layer_norm(x, (9,))),
    "batchnorm": (
        [noise(3, 6, 2, 2), noise(6), noise(6)],
        lambda x, w, b: x.batchnorm(
            w, b, Tensor(STATISTICS[0]), Tensor((STATISTICS[1] + 1e-5) ** -0.5)
        ),
        lambda x, w, b: F.batch_norm(x, *map(torch.from_numpy, STATISTICS), w, b),
    ),
    "cross_entropy": (
        [noise(12, 10)],
        lambda x: x.sparse_categorical_crossentropy(Tensor(LABELS)),
        lambda x: F.cross_entropy(x, torch.from_numpy(LABELS).long()),
    ),
    "matmul": ([noise(2, 5, 8), noise(8, 6)], *[lambda a, b: a @ b] * 2),
    "transposed matmul": ([noise(5, 8), noise(6, 8)], *[lambda a, b: a @ b.T] * 2),
    **{
        f"conv2d {options}": (
            [noise(2, 4, 9, 8), noise(6, 4 // options.get("groups", 1), 3, 3), noise(6)],
            lambda x, w, b, o=options: x.conv2d(w, b, **o),
            lambda x, w, b, o=options: F.conv2d(x, w, b, **o),
        )
        for options in (
            {},
            {"padding": 1},
            {"stride": 2, "padding": 1},
            {"dilation": 2, "padding": 2},
            {"groups": 2, "padding": 1},
        )
    },
    "max_pool2d": ([noise(2, 3, 8, 8)], lambda x: x.max_pool2d(), lambda x: F.max_pool2d(x, 2)),
    "overlapping max_pool2d": (
        [noise(2, 3, 9, 9)],
        lambda x: x.max_pool2d((3, 3), stride=2, padding=1),
        lambda x: F.max_pool2d(x, 3, 2, 1),
    ),
    "avg_pool2d": ([noise(2, 3, 8, 8)], lambda x: x.avg_pool2d(), lambda x: F.avg_pool2d(x, 2)),
}


def compare(name, inputs, ours, theirs):
    """What differs, as text."""
    mine = [Tensor(x) for x in inputs]
    other = [torch.from_numpy(x.copy()).requires_grad_() for x in inputs]
    result, expected = ours(*mine), theirs(*other)
    seed = noise(*expected.shape)
    gradients = result.gradient(*mine, gradient=Tensor(seed))
    expected.backward(torch.from_numpy(np.asarray(seed)))
    pairs = [("value", result, expected.detach())]
    pairs += [(f"gradient {i}", g, t.grad) for i, (g, t) in enumerate(zip(gradients, other))]
    for what, got, want in pairs:
        got, want = got.numpy(), want.numpy()
        if got.shape != want.shape:
            yield f"{name}: {what}: shape {got.shape}, torch {want.shape}"
        elif not np.allclose(got, want, rtol=3e-5, atol=3e-5):
            yield f"{name}: {what}: off by {np.abs(got - want).max()}"


def main():
    failed = 0
    for name, case in CASES.items():
        messages = list(compare(name, *case))
        failed += bool(messages)
        for message in messages:
            print(message)
    print(f"torch {torch.__version__}: {len(CASES)} operations, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
