"""Convolutions, pooling, resampling, products, decompositions, attention, losses, hashing."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from ..row import REAL, Draw, row
from .reduce import softmax

GROUP = "spatial"
FEW = ("float32", "float64", "float16")


def convolved(draw: Draw, ranks=(2, 1, 3)):
    rank = draw.pick(*ranks)
    side = 6 if rank < 3 else 4
    groups = draw.pick(1, 1, 2)
    kernel = [draw.size(1, 3) for _ in range(rank)]
    dilation = draw.pick(1, 2) if rank < 3 else 1
    reach = [dilation * (k - 1) + 1 for k in kernel]
    padding = draw.integer(0, 2)
    space = [draw.size(max(1, r - 2 * padding), side + 2) for r in reach]
    channels, out = groups * draw.size(1, 2), groups * draw.size(1, 3)
    draw.tensor((draw.size(1, 2), channels, *space))
    return (
        rank,
        groups,
        kernel,
        {"groups": groups, "stride": draw.pick(1, 2), "dilation": dilation, "padding": padding},
        channels,
        out,
    )


def conv(draw: Draw):
    _, groups, kernel, arguments, channels, out = convolved(draw)
    draw.tensor((out, channels // groups, *kernel), view=False)
    if draw.maybe():
        draw.tensor((out,), view=False)
    return arguments


def torch_conv(T, x, w, b=None, *, groups, stride, dilation, padding):
    function = getattr(T.nn.functional, f"conv{x.ndim - 2}d")
    return function(x, w, b, stride, padding, dilation, groups)


def numpy_conv(x, w, b=None, *, groups, stride, dilation, padding):
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0)] * 2 + [(padding, padding)] * rank)
    reach = tuple(dilation * (k - 1) + 1 for k in w.shape[2:])
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    keep = (slice(None),) * 2 + (slice(None, None, stride),) * rank
    windows = windows[keep + (slice(None, None, dilation),) * rank]
    batch, channels, *space = windows.shape[: 2 + rank]
    windows = windows.reshape(batch, groups, channels // groups, *space, -1)
    weights = w.reshape(groups, w.shape[0] // groups, channels // groups, -1)
    out = np.einsum("ngc...k,gock->ngo...", windows, weights).reshape(batch, -1, *space)
    return out if b is None else out + b.reshape(-1, *[1] * rank)


row(
    "conv2d",
    GROUP,
    conv,
    torch=torch_conv,
    numpy=numpy_conv,
    dtypes=(*REAL, "int32"),
    ulps=12,
    slack=8,
    norm=True,
)


def asymmetric(draw: Draw):
    _, groups, kernel, arguments, channels, out = convolved(draw, (2,))
    arguments["padding"] = [draw.integer(0, 2) + arguments["padding"] for _ in range(4)]
    draw.tensor((out, channels // groups, *kernel), view=False)
    return arguments


def torch_asymmetric(T, x, w, padding, **more):
    return torch_conv(T, T.nn.functional.pad(x, padding), w, padding=0, **more)


row(
    "conv2d.padding",
    GROUP,
    asymmetric,
    torch=torch_asymmetric,
    dtypes=FEW,
    ulps=12,
    slack=8,
    norm=True,
    call=lambda f, x, w, **k: x.conv2d(w, **k),
)


def transposed(draw: Draw):
    rank = draw.pick(2, 1, 3)
    groups, stride, dilation = draw.pick(1, 2), draw.pick(1, 2, 3), draw.pick(1, 2)
    channels, out = groups * draw.size(1, 2), draw.size(1, 2)
    kernel = [draw.size(1, 3) for _ in range(rank)]
    draw.tensor((draw.size(1, 2), channels, *(draw.size(2, 4) for _ in range(rank))))
    draw.tensor((channels, out, *kernel), view=False)
    if draw.maybe():
        draw.tensor((groups * out,), view=False)
    extra = draw.integer(0, max(stride, dilation) - 1) if max(stride, dilation) > 1 else 0
    padding = draw.integer(0, dilation * (min(kernel) - 1))
    return {
        "groups": groups,
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "output_padding": extra,
    }


def torch_transposed(T, x, w, b=None, *, groups, stride, dilation, padding, output_padding):
    function = getattr(T.nn.functional, f"conv_transpose{x.ndim - 2}d")
    return function(x, w, b, stride, padding, output_padding, groups, dilation)


row(
    "conv_transpose2d",
    GROUP,
    transposed,
    torch=torch_transposed,
    dtypes=FEW,
    ulps=12,
    slack=8,
    norm=True,
)


def pooled(draw: Draw):
    rank = draw.pick(2, 1, 3)
    kernel = [draw.size(1, 3) for _ in range(rank)]
    draw.tensor(
        (draw.size(1, 2), draw.size(1, 2), *(draw.size(k + 2, 7) for k in kernel)), "distinct"
    )
    padding = draw.integer(0, min(kernel) // 2)
    stride = draw.pick(None, 1, 2)
    return {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": draw.maybe()}


def max_pooled(draw: Draw):
    arguments = pooled(draw)
    return {**arguments, "dilation": draw.pick(1, 1, 2) if min(arguments["kernel_size"]) < 3 else 1}


def torch_pool(name, indices=False):
    def call(T, x, kernel_size, stride=None, **more):
        function = getattr(T.nn.functional, f"{name}_pool{x.ndim - 2}d")
        if indices:
            more["return_indices"] = True
        out = function(
            x, list(kernel_size), list(kernel_size) if stride is None else stride, **more
        )
        return list(out) if indices else out

    return call


row("max_pool2d", GROUP, max_pooled, torch=torch_pool("max"), dtypes=(*FEW, "int32", "uint8"))
row(
    "max_pool2d.indices",
    GROUP,
    max_pooled,
    torch=torch_pool("max", True),
    dtypes=("float32", "float64"),
    call=lambda f, x, **k: list(x.max_pool2d(return_indices=True, **k)),
)
row(
    "avg_pool2d",
    GROUP,
    lambda d: {**pooled(d), "count_include_pad": d.maybe()},
    torch=torch_pool("avg"),
    dtypes=FEW,
    ulps=12,
    slack=4,
    norm=True,
)


def unpooled(draw: Draw):
    size = draw.size(2, 3)
    sides = [size * draw.size(1, 3) for _ in range(2)]
    draw.tensor((draw.size(1, 2), draw.size(1, 2), *sides), "distinct")
    return {"kernel_size": [size, size]}


def unpool(f, x, kernel_size):
    values, indices = x.max_pool2d(kernel_size, return_indices=True)
    return values.max_unpool2d(indices, kernel_size)


def torch_unpool(T, x, kernel_size):
    values, indices = T.nn.functional.max_pool2d(x, list(kernel_size), return_indices=True)
    return T.nn.functional.max_unpool2d(values, indices, list(kernel_size))


row("max_unpool2d", GROUP, unpooled, call=unpool, torch=torch_unpool, dtypes=("float32", "float64"))


def resized(draw: Draw):
    rank = draw.pick(2, 1, 3)
    draw.tensor((draw.size(1, 2), draw.size(1, 2), *(draw.size(1, 5) for _ in range(rank))))
    mode = draw.pick("linear", "nearest", "nearest-exact")
    size = [draw.size(1, 9) for _ in range(rank)]
    return {"size": size, "mode": mode, "align_corners": mode == "linear" and draw.maybe()}


def torch_resize(T, x, size, mode, align_corners):
    names = {3: "linear", 4: "bilinear", 5: "trilinear"}
    more = {"align_corners": align_corners} if mode == "linear" else {}
    mode = names[x.ndim] if mode == "linear" else mode
    return T.nn.functional.interpolate(x, list(size), mode=mode, **more)


row("interpolate", GROUP, resized, torch=torch_resize, dtypes=FEW, ulps=32, slack=32, norm=True)


def multiplied(draw: Draw):
    k = draw.size(1, 9)
    left = (*draw.shape(0, 1, 3), *((draw.size(),) if draw.maybe() else ()), k)
    batch = left[:-2] if draw.maybe() else ()
    draw.tensor(left)
    draw.tensor((*batch, k, draw.size()) if len(left) > 1 and draw.integer(0, 3) else (k,))


for name in ("matmul", "dot"):
    row(
        name,
        GROUP,
        multiplied,
        torch="matmul",
        numpy="matmul",
        dtypes=(*REAL, "int32", "uint8"),
        ulps=12,
        slack=8,
        norm=True,
    )


def widened(draw: Draw):
    draw.tensor((draw.size(), 5))
    draw.tensor((5, draw.size()))
    return {"dtype": draw.pick("float32", "float64")}


row(
    "matmul.dtype",
    GROUP,
    widened,
    call=lambda f, a, b, dtype: a.matmul(b, dtype=dtype),
    dtypes=("float16", "bfloat16", "float32"),
    ulps=12,
    slack=8,
    norm=True,
    gradient=False,
)


def affine(draw: Draw):
    k, n = draw.size(1, 9), draw.size()
    draw.tensor((*draw.shape(0, 2, 4), k))
    draw.tensor((k, n), view=False)
    if draw.maybe():
        draw.tensor((n,), view=False)


row(
    "linear",
    GROUP,
    affine,
    numpy=lambda x, w, b=0: x @ w + b,
    ulps=12,
    slack=8,
    norm=True,
    torch=lambda T, x, w, b=0: x @ w + b,
)

EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 2)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i", (4,), (4,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
    ("i,ij,j->", (3,), (3, 4), (4,)),
    ("ij,kl->ijkl", (2, 3), (2, 2)),
    ("ij, jk", (2, 3), (3, 2)),
    ("a...->...", (2, 3, 4)),
]


def einsum(draw: Draw):
    formula, *shapes = draw.pick(*EINSUMS)
    for shape in shapes:
        draw.tensor(shape)
    return {"formula": formula}


row(
    "einsum",
    GROUP,
    einsum,
    call=lambda f, *a, formula: f.Tensor.einsum(formula, *a),
    ulps=24,
    slack=8,
    norm=True,
    torch=lambda T, *a, formula: T.einsum(formula, *a),
    dtypes=(*FEW, "int32"),
    numpy=lambda *a, formula: np.einsum(formula.replace(" ", ""), *a),
)


def tall(draw: Draw):
    n = draw.size(1, 4)
    draw.tensor((*draw.shape(0, 1, 2), n + draw.integer(0, 2), n), "plain")


def rebuilt_qr(f, x):
    q, r = x.qr()
    return [q @ r, q.transpose(-1, -2) @ q, r]


row(
    "qr",
    "linalg",
    tall,
    call=rebuilt_qr,
    dtypes=("float32", "float64"),
    ulps=4096,
    slack=4096,
    norm=True,
    gradient=False,
)


def decomposed(draw: Draw):
    draw.tensor((*draw.shape(0, 1, 2), draw.size(1, 4), draw.size(1, 4)), "plain")
    return {"full_matrices": draw.maybe()}


def singular_values(f, x, full_matrices):
    u, s, v = x.svd(full_matrices=full_matrices)
    k = min(x.shape[-2:])
    part = [slice(None)] * (len(x.shape) - 2)
    u, v = u[(*part, slice(None), slice(0, k))], v[(*part, slice(0, k), slice(None))]
    return [s, u * s.unsqueeze(-2) @ v]


def numpy_values(x, full_matrices):
    return [np.linalg.svd(np.asarray(x, np.float64), compute_uv=False), np.asarray(x)]


row(
    "svd",
    "linalg",
    decomposed,
    call=singular_values,
    numpy=numpy_values,
    dtypes=("float32", "float64"),
    ulps=16384,
    slack=16384,
    norm=True,
    gradient=False,
)


def schulz(draw: Draw):
    draw.tensor((draw.size(2, 5), draw.size(2, 5)))
    return {"steps": draw.size(1, 5), "params": (3.4445, -4.775, 2.0315)}


def numpy_schulz(x, steps, params, eps=1e-7):
    g = x / (np.sqrt((x * x).sum()) + eps)
    g = g.T if x.shape[0] > x.shape[1] else g
    for _ in range(steps):
        a = g @ g.T
        g = params[0] * g + (params[1] * a + params[2] * a @ a) @ g
    return g.T if x.shape[0] > x.shape[1] else g


row(
    "newton_schulz",
    "linalg",
    schulz,
    numpy=numpy_schulz,
    dtypes=("float32",),
    ulps=4096,
    slack=1024,
    norm=True,
    gradient=False,
)


def attended(draw: Draw):
    batch, heads, size = draw.size(1, 2), draw.pick(1, 2, 4), draw.pick(2, 4, 8)
    queries, keys = draw.size(1, 5), draw.size(1, 5)
    causal = draw.integer(0, 2) == 2
    keys = queries if causal else keys
    gqa = heads > 1 and draw.integer(0, 3) == 3
    draw.tensor((batch, heads, queries, size), view=False)
    for _ in range(2):
        draw.tensor((batch, heads // 2 if gqa else heads, keys, size), view=False)
    mask = draw.pick(None, "bool", "float") if not causal else None
    if mask:
        draw.tensor(
            (queries, keys),
            "attend" if mask == "bool" else "plain",
            "bool" if mask == "bool" else None,
            view=False,
        )
    return {"is_causal": causal, "enable_gqa": gqa}


def numpy_attention(q, k, v, mask=None, *, is_causal, enable_gqa):
    if enable_gqa:
        k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if is_causal:
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return softmax(scores, -1) @ v


row(
    "scaled_dot_product_attention",
    GROUP,
    attended,
    numpy=numpy_attention,
    dtypes=(*REAL,),
    ulps=48,
    slack=16,
    norm=True,
    torch=lambda T, q, k, v, m=None, **a: T.nn.functional.scaled_dot_product_attention(
        q, k, v, m, **a
    ),
)

# ---- losses
LOSS = "loss"


def labelled(draw: Draw, smoothing=True):
    classes = draw.size(2, 6)
    batch = draw.shape(1, 1)
    space = draw.shape(0, 1, 4)
    draw.tensor((*batch, classes, *space))
    draw.index((*batch, *space), classes)
    more = {"label_smoothing": draw.pick(0.0, 0.1)} if smoothing else {}
    return {"reduction": draw.pick("mean", "sum", "none"), **more}


row(
    "cross_entropy",
    LOSS,
    labelled,
    ulps=48,
    slack=16,
    norm=True,
    dtypes=FEW,
    torch=lambda T, x, y, **k: T.nn.functional.cross_entropy(x, y.long(), **k),
)


def probable(draw: Draw):
    shape = draw.tensor((draw.size(), draw.size(2, 6)))
    draw.tensor(shape, "probability")
    return {"reduction": draw.pick("mean", "sum", "none"), "label_smoothing": draw.pick(0.0, 0.1)}


row(
    "cross_entropy.probabilities",
    LOSS,
    probable,
    torch="nn.functional.cross_entropy",
    ulps=48,
    slack=16,
    norm=True,
    call=lambda f, x, y, **k: x.cross_entropy(y, **k),
    dtypes=FEW,
)


def sparse(draw: Draw):
    classes = draw.size(2, 6)
    batch = draw.shape(1, 2, 4)
    draw.tensor((*batch, classes))
    draw.index(batch, classes)
    return {
        "ignore_index": draw.pick(-1, 1),
        "label_smoothing": draw.pick(0.0, 0.2),
        "reduction": draw.pick("mean", "sum", "none"),
    }


row("sparse_categorical_crossentropy", LOSS, sparse, ulps=48, slack=16, norm=True, dtypes=FEW)


def negative_log(draw: Draw):
    arguments = labelled(draw, False)
    if draw.maybe():
        draw.tensor((draw.inputs[0]["shape"][1],), "positive", view=False)
    return {**arguments, "ignore_index": draw.pick(None, 1)}


def nll(f, x, y, w=None, **arguments):
    return x.log_softmax(1).nll_loss(y, w, **arguments)


def torch_nll(T, x, y, w=None, ignore_index=None, reduction="mean"):
    """Written out: torch's own has no gradient of the weights."""
    weights = T.ones(x.shape[1], dtype=x.dtype) if w is None else w
    used = weights[y.long()] * (1 if ignore_index is None else (y != ignore_index).to(x.dtype))
    loss = -T.log_softmax(x, 1).gather(1, y.long().unsqueeze(1)).squeeze(1) * used
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / used.sum()}[reduction]


row(
    "nll_loss",
    LOSS,
    negative_log,
    call=nll,
    torch=torch_nll,
    ulps=48,
    slack=16,
    norm=True,
    dtypes=FEW,
)


def binary(draw: Draw, kind="plain"):
    shape = draw.tensor(draw.shape(1, 2), kind)
    draw.tensor(shape, "probability")
    return {"reduction": draw.pick("mean", "sum", "none")}


row(
    "binary_crossentropy",
    LOSS,
    lambda d: binary(d, "probability"),
    ulps=48,
    slack=16,
    norm=True,
    dtypes=FEW,
    torch="nn.functional.binary_cross_entropy",
)


def weighted(draw: Draw):
    arguments = binary(draw)
    if draw.maybe():
        draw.tensor((draw.inputs[0]["shape"][-1],), "positive", view=False)
    return arguments


row(
    "binary_crossentropy_logits",
    LOSS,
    weighted,
    ulps=48,
    slack=16,
    norm=True,
    dtypes=FEW,
    call=lambda f, x, y, w=None, **k: x.binary_crossentropy_logits(y, pos_weight=w, **k),
    torch=lambda T, x, y, w=None, **k: T.nn.functional.binary_cross_entropy_with_logits(
        x, y, pos_weight=w, **k
    ),
)


# ---- hashing
def bytes_(draw: Draw):
    draw.tensor((draw.pick(1, 8, 64, 200),), "range", "uint8", low=0, high=256, view=False)
    return {"cfg": draw.pick("sha3_256", "sha3_224", "shake_128")}


def digest(x, cfg):
    text = np.asarray(x).astype(np.uint8).tobytes()
    if cfg == "shake_128":
        return np.frombuffer(hashlib.shake_128(text).digest(16), np.uint8)
    return np.frombuffer(hashlib.new(cfg, text).digest(), np.uint8)


row("keccak", "hash", bytes_, numpy=digest, dtypes=("uint8",), gradient=False, alone=True)
row(
    "hash",
    "hash",
    lambda d: d.tensor((d.pick(64, 5000),), "range", "uint8", low=0, high=256, view=False) and {},
    dtypes=("uint8",),
    gradient=False,
    alone=True,
)
