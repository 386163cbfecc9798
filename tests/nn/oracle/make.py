#!/usr/bin/env python3
"""Asks tinygrad 0.14.0 and safetensors what the tests of nn expect; writes it beside this script.

  make.py    writes nn.tsv (a name, then float32 values as hexadecimal of their little-endian bytes)
             and python.safetensors (every dtype, metadata, names that need escapes)

Needs tinygrad, numpy, ml_dtypes and safetensors.
"""

import os

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file
from tinygrad import Tensor, nn
from tinygrad.helpers import Context

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = []


def values(count, seed):
    """Numbers that the tests make by the same formula."""
    return np.array([((i * 37 + seed * 11) % 41 - 20) / 16 for i in range(count)], np.float32)


def tensor(shape, seed):
    return Tensor(values(int(np.prod(shape)), seed).reshape(shape))


def row(name, *tensors):
    data = b"".join(t.numpy().astype(np.float32).tobytes() for t in tensors)
    ROWS.append(f"{name}\t{data.hex()}")


OPTIMIZERS = {
    "sgd": lambda w: nn.optim.SGD(w, lr=0.05),
    "sgd_momentum": lambda w: nn.optim.SGD(w, lr=0.05, momentum=0.9),
    "sgd_nesterov_decay": lambda w: nn.optim.SGD(
        w, lr=0.05, momentum=0.8, weight_decay=0.1, nesterov=True
    ),
    "sgd_decay": lambda w: nn.optim.SGD(w, lr=0.05, weight_decay=0.1),
    "adam": lambda w: nn.optim.Adam(w, lr=0.02),
    "adam_betas": lambda w: nn.optim.Adam(w, lr=0.02, b1=0.7, b2=0.9, eps=1e-3),
    "adamw": lambda w: nn.optim.AdamW(w, lr=0.02, weight_decay=0.05),
    "sgd_classic": lambda w: nn.optim.SGD(w, lr=0.05, momentum=0.9, classic=True),
    "lars": lambda w: nn.optim.LARS(w, lr=0.5),
    "lars_other": lambda w: nn.optim.LARS(
        w, lr=0.5, momentum=0.5, weight_decay=0.0, nesterov=True, classic=False, tcoef=0.1
    ),
    "lamb": lambda w: nn.optim.LAMB(w, lr=0.02, weight_decay=0.1),
    "adam_no_beta1": lambda w: nn.optim.Adam(w, lr=0.02, b1=0.0),
    "muon": lambda w: nn.optim.Muon(w, lr=0.02),
    "muon_other": lambda w: nn.optim.Muon(
        w, lr=0.02, momentum=0.5, weight_decay=0.0, ns_steps=2, ns_coefficients=(2.0, -1.5, 0.5),
        nesterov=False,
    ),
}


def optimizers():
    """Both weights after each of five steps of a least-squares loss."""
    for name, make in OPTIMIZERS.items():
        a, b, c = tensor((4, 3), 1), tensor((3, 2), 2), tensor((4, 2), 3)
        a, b = a.is_param_(True), b.is_param_(True)
        optimizer = make([a, b])
        for step in range(5):
            loss = (a.matmul(b) - c).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            row(f"{name}.{step}", a, b)


def layers():
    Tensor.manual_seed(7)
    linear, conv = nn.Linear(5, 3), nn.Conv2d(4, 6, (3, 2), padding=1, groups=2, bias=True)
    row("linear.init", linear.weight, linear.bias)
    row("conv2d.init", conv.weight, conv.bias)
    row("linear.run", linear(tensor((2, 4, 5), 4)))
    row("conv2d.run", conv(tensor((2, 4, 5, 5), 5)))
    Tensor.manual_seed(8)
    embedding, cell = nn.Embedding(6, 5), nn.LSTMCell(5, 3)
    row("embedding.init", embedding.weight)
    row("lstm_cell.init", cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
    row("embedding.run", embedding(Tensor([[0, 5, 2], [2, 7, -1]])))
    cell.bias_ih, cell.bias_hh = tensor((12,), 20), tensor((12,), 21)
    row("lstm_cell.begin", *cell(tensor((2, 5), 22)))
    row("lstm_cell.run", *cell(tensor((2, 5), 22), (tensor((2, 3), 23), tensor((2, 3), 24))))
    Tensor.manual_seed(9)
    conv1d = nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)
    conv3d = nn.Conv2d(2, 3, (2, 3, 2), padding=(1, 0, 2, 1, 0, 1), dilation=2, bias=False)
    back = nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    back2d = nn.ConvTranspose2d(2, 3, (3, 2), dilation=2)
    # One by one, in another order than they were drawn in, they would be others.
    drawn = [conv1d, conv3d, back, back2d]
    Tensor.realize(*(x for c in drawn for x in (c.weight, c.bias) if x is not None))
    row("conv1d.init", conv1d.weight, conv1d.bias)
    row("conv3d.init", conv3d.weight)
    row("conv_transpose1d.init", back.weight, back.bias)
    row("conv_transpose2d.init", back2d.weight, back2d.bias)
    row("conv1d.run", conv1d(tensor((2, 4, 9), 40)))
    row("conv3d.run", conv3d(tensor((1, 2, 4, 5, 5), 41)))
    row("conv_transpose1d.run", back(tensor((2, 4, 5), 42)))
    row("conv_transpose2d.run", back2d(tensor((1, 2, 3, 4), 43)))
    norms = {
        "group_norm": (nn.GroupNorm(2, 4, eps=1e-3), (2, 4, 3, 2)),
        "instance_norm": (nn.InstanceNorm(4), (2, 4, 3)),
        "layer_norm": (nn.LayerNorm((3, 2)), (4, 3, 2)),
        "layer_norm2d": (nn.LayerNorm2d(4), (2, 4, 3, 2)),
        "rms_norm": (nn.RMSNorm(6, eps=1e-2), (3, 6)),
        "group_norm.plain": (nn.GroupNorm(1, 4, affine=False), (2, 4)),
        "layer_norm.plain": (nn.LayerNorm(6, elementwise_affine=False), (3, 6)),
        "rms_norm.plain": (nn.RMSNorm(6, elementwise_affine=False), (3, 6)),
    }
    for name, (norm, shape) in norms.items():
        if norm.weight is not None:
            norm.weight = tensor(norm.weight.shape, 30)
            if hasattr(norm, "bias"):
                norm.bias = tensor(norm.bias.shape, 31)
        row(name, norm(tensor(shape, 32)))
    norm = nn.BatchNorm(3, eps=1e-3, momentum=0.2)
    norm.weight, norm.bias = tensor((3,), 6), tensor((3,), 7)
    for step in range(2):
        with Context(TRAINING=1):
            y = norm(tensor((4, 3, 2, 2), 8 + step))
            Tensor.realize(y, norm.running_mean, norm.running_var, norm.num_batches_tracked)
        row(f"batch_norm.{step}", y, norm.running_mean, norm.running_var)
    row("batch_norm.run", norm(tensor((4, 3, 2, 2), 10)))
    with Context(TRAINING=1):
        plain = nn.BatchNorm(3, affine=False)
        row("batch_norm.plain", plain(tensor((4, 3, 2, 2), 11)))


FORMAT_DTYPES = {
    "bool": np.bool_,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
    "fp8e4m3": ml_dtypes.float8_e4m3fn,
    "fp8e5m2": ml_dtypes.float8_e5m2,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}


def file():
    """Every dtype holds 0, 1, 0, 1, 0, 1 as [2, 3]."""
    arrays = {n: np.array([[0, 1, 0], [1, 0, 1]]).astype(d) for n, d in FORMAT_DTYPES.items()}
    arrays['a "quoted" \\ naïve\nname'] = np.array([2.5], np.float32)
    arrays["scalar"] = np.array(7, np.int64)
    arrays["empty"] = np.zeros((0, 3), np.float32)
    metadata = {"made by": "python", "text": 'tab\t, quote " and ü'}
    save_file(arrays, os.path.join(HERE, "python.safetensors"), metadata=metadata)


def main():
    with Context(TRAINING=1):
        optimizers()
    layers()
    file()
    with open(os.path.join(HERE, "nn.tsv"), "w", encoding="utf-8") as out:
        out.write("\n".join(ROWS) + "\n")
    print(f"{len(ROWS)} rows")


if __name__ == "__main__":
    main()
