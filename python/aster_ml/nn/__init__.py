"""Layers, under tinygrad's names, attributes and initial values.

>>> from aster_ml import Tensor, nn
>>> layer = nn.Linear(3, 4)
>>> layer(Tensor.ones(2, 3)).shape
(2, 4)
"""

from __future__ import annotations

import math
from typing import Any

from ..display import Shown
from ..dtype import dtypes
from ..helpers import TRAINING, flatten, make_tuple, prod
from ..tensor import Tensor
from . import datasets, optim, state

__all__ = [
    "BatchNorm", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "ConvTranspose1d",
    "ConvTranspose2d", "Embedding", "GroupNorm", "InstanceNorm", "LSTMCell", "LayerNorm",
    "LayerNorm2d", "Linear", "RMSNorm", "datasets", "optim", "state",
]  # fmt: skip


def _by_channel(t: Tensor, ndim: int) -> Tensor:
    """A vector as [1, c, 1, ...]."""
    return t.reshape(1, -1, *[1] * (ndim - 2))


class BatchNorm(Shown):
    """Normalises each channel (axis 1) over the batch; by running statistics outside TRAINING.

    >>> BatchNorm(3)(Tensor.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float = 0.1,
    ):
        self.num_features = sz
        self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
        self.weight: Tensor | None = Tensor.ones(sz) if affine else None
        self.bias: Tensor | None = Tensor.zeros(sz) if affine else None
        self.num_batches_tracked = Tensor.zeros(dtype="long").is_param_(False)
        if track_running_stats:
            self.running_mean = Tensor.zeros(sz).is_param_(False)
            self.running_var = Tensor.ones(sz).is_param_(False)

    def _call(self) -> Any:
        return (self.num_features,), {
            "eps": self.eps,
            "affine": self.weight is not None,
            "track_running_stats": self.track_running_stats,
            "momentum": self.momentum,
        }

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel."""
        if self.track_running_stats and not TRAINING:
            return self.running_mean, self.running_var.reshape(1, -1, *[1] * (x.ndim - 2))
        others = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean = x.mean(axis=others)
        centred = x - _by_channel(mean.detach(), x.ndim)  # the variance does not move with the mean
        return mean, (centred * centred).mean(axis=others)

    def __call__(self, x: Tensor) -> Tensor:
        mean, var = self.calc_stats(x)
        if self.track_running_stats and TRAINING:
            n, keep = x.numel(), 1 - self.momentum
            self.running_mean.assign(keep * self.running_mean + self.momentum * mean.detach())
            unbiased = self.momentum * n / (n - x.shape[1]) * var.detach()
            self.running_var.assign(keep * self.running_var + unbiased)
            self.num_batches_tracked += 1
        return x.batchnorm(self.weight, self.bias, mean, var.add(self.eps).rsqrt())


BatchNorm2d = BatchNorm3d = BatchNorm


def Conv1d(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int | str = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
) -> Conv2d:
    """A convolution over the last axis of [n, c, w].

    >>> Conv1d(1, 2, 3)(Tensor.ones(1, 1, 4)).shape
    (1, 2, 2)
    """
    return Conv2d(
        in_channels, out_channels, (kernel_size,), stride, padding, dilation, groups, bias
    )


class Conv2d(Shown):
    """A convolution over the last axes of [n, c, ...]; padding may be "same".

    >>> Conv2d(1, 2, 3, padding="same")(Tensor.ones(1, 1, 4, 4)).shape
    (1, 2, 4, 4)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        self.kernel_size = make_tuple(kernel_size, 2)
        if isinstance(padding, str):
            if padding.lower() != "same":
                raise ValueError(f"padding {padding!r} is not 'same' or a number")
            if stride != 1:
                raise ValueError("padding='same' needs stride 1")
            gaps = make_tuple(dilation, len(self.kernel_size))
            extra = [d * (k - 1) for d, k in zip(gaps, self.kernel_size[::-1])]
            padding = tuple(flatten((e // 2, e - e // 2) for e in extra))
        self.stride, self.dilation, self.groups, self.padding = stride, dilation, groups, padding
        scale = 1 / math.sqrt(in_channels * prod(self.kernel_size))
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Tensor.uniform(*shape, low=-scale, high=scale)
        self.bias: Tensor | None = (
            Tensor.uniform(out_channels, low=-scale, high=scale) if bias else None
        )

    def _channels(self) -> tuple[int, int]:
        """In, out."""
        return self.weight.shape[1] * self.groups, self.weight.shape[0]

    def _call(self) -> Any:
        names = ("stride", "padding", "output_padding", "dilation", "groups")
        options = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return (*self._channels(), self.kernel_size), {**options, "bias": self.bias is not None}

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding
        )


def ConvTranspose1d(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
) -> ConvTranspose2d:
    """The transpose of Conv1d.

    >>> ConvTranspose1d(1, 2, 3)(Tensor.ones(1, 1, 4)).shape
    (1, 2, 6)
    """
    return ConvTranspose2d(
        in_channels, out_channels, (kernel_size,), stride, padding, output_padding, dilation,
        groups, bias,
    )  # fmt: skip


class ConvTranspose2d(Conv2d):
    """The transpose of Conv2d.

    >>> ConvTranspose2d(1, 2, 3)(Tensor.ones(1, 1, 4, 4)).shape
    (1, 2, 6, 6)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        scale = 1 / math.sqrt(in_channels * prod(self.kernel_size))
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.weight = Tensor.uniform(*shape, low=-scale, high=scale)
        self.output_padding = output_padding

    def _channels(self) -> tuple[int, int]:
        return self.weight.shape[0], self.weight.shape[1] * self.groups

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv_transpose2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding,
            self.output_padding,
        )  # fmt: skip


class Linear(Shown):
    """x weight^T + bias.

    >>> Linear(3, 4)(Tensor.ones(2, 3)).shape
    (2, 4)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        bound = 1 / math.sqrt(in_features)
        self.weight = Tensor.uniform(out_features, in_features, low=-bound, high=bound)
        self.bias = Tensor.uniform(out_features, low=-bound, high=bound) if bias else None

    def _call(self) -> Any:
        return self.weight.shape[::-1], {"bias": self.bias is not None}

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.transpose(), self.bias)


class _ChannelNorm(Shown):
    """Groups of channels normalised by themselves, then scaled and shifted by channel."""

    weight: Tensor | None
    bias: Tensor | None
    eps: float

    def _normalise(self, x: Tensor, groups: int) -> Tensor:
        y = x.reshape(x.shape[0], groups, -1).layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None or self.bias is None:
            return y
        return y * _by_channel(self.weight, x.ndim) + _by_channel(self.bias, x.ndim)


class GroupNorm(_ChannelNorm):
    """Normalises groups of channels.

    >>> GroupNorm(2, 4)(Tensor.ones(1, 4, 3)).shape
    (1, 4, 3)
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True):
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels) if affine else None
        self.bias = Tensor.zeros(num_channels) if affine else None

    def _call(self) -> Any:
        options = {"eps": self.eps, "affine": self.weight is not None}
        return (self.num_groups, self.num_channels), options

    def __call__(self, x: Tensor) -> Tensor:
        return self._normalise(x, self.num_groups)


class InstanceNorm(_ChannelNorm):
    """Normalises every channel of every sample.

    >>> InstanceNorm(4)(Tensor.ones(1, 4, 3)).shape
    (1, 4, 3)
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True):
        self.num_features, self.eps = num_features, eps
        self.weight = Tensor.ones(num_features) if affine else None
        self.bias = Tensor.zeros(num_features) if affine else None

    def _call(self) -> Any:
        return (self.num_features,), {"eps": self.eps, "affine": self.weight is not None}

    def __call__(self, x: Tensor) -> Tensor:
        return self._normalise(x, self.num_features)


class LayerNorm(Shown):
    """Normalises the last axes.

    >>> LayerNorm(3)(Tensor.ones(2, 3)).shape
    (2, 3)
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
    ):
        self.normalized_shape = make_tuple(normalized_shape, 1)
        self.axis = tuple(-1 - i for i in range(len(self.normalized_shape)))
        self.eps = eps
        self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(*self.normalized_shape) if elementwise_affine else None

    def _call(self) -> Any:
        shape = self.normalized_shape
        options = {"eps": self.eps, "elementwise_affine": self.weight is not None}
        return (shape if len(shape) > 1 else shape[0],), options

    def __call__(self, x: Tensor) -> Tensor:
        last = x.shape[-len(self.normalized_shape) :]
        assert (
            self.normalized_shape == last
        ), f"last dimensions of {x.shape} must match {self.normalized_shape}"
        x = x.layernorm(eps=self.eps, axis=self.axis)
        return x if self.weight is None or self.bias is None else x * self.weight + self.bias


class LayerNorm2d(LayerNorm):
    """LayerNorm over the channels of [n, c, h, w].

    >>> LayerNorm2d(3)(Tensor.ones(1, 3, 2, 2)).shape
    (1, 3, 2, 2)
    """

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(Shown):
    """x / sqrt(mean(x^2) + eps) over the last axis, in float32.

    >>> RMSNorm(4)(Tensor.ones(2, 4)).shape
    (2, 4)
    """

    def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True):
        self.dim, self.eps = dim, eps
        self.weight = Tensor.ones(dim) if elementwise_affine else None

    def _call(self) -> Any:
        return (self.dim,), {"eps": self.eps, "elementwise_affine": self.weight is not None}

    def _norm(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()

    def __call__(self, x: Tensor) -> Tensor:
        x = self._norm(x.float()).cast(x.dtype)
        return x if self.weight is None else x * self.weight


class Embedding(Shown):
    """Rows of a table by index.

    >>> Embedding(10, 3)(Tensor([1, 2, 3, 1])).shape
    (4, 3)
    """

    def __init__(self, vocab_size: int, embed_size: int):
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def _call(self) -> Any:
        return self.weight.shape, {}

    def __call__(self, idx: Tensor) -> Tensor:
        if not dtypes.is_int(idx.dtype):
            raise TypeError(f"Embedding needs integer indices, got {idx.dtype}")
        return self.weight[idx]


class LSTMCell(Shown):
    """One step of a long short-term memory: (x, (h, c)) -> (h, c).

    >>> h, c = LSTMCell(3, 4)(Tensor.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        bound = 1.0 / math.sqrt(hidden_size)
        self.weight_ih = Tensor.uniform(hidden_size * 4, input_size, low=-bound, high=bound)
        self.weight_hh = Tensor.uniform(hidden_size * 4, hidden_size, low=-bound, high=bound)
        self.bias_ih: Tensor | None = Tensor.zeros(hidden_size * 4) if bias else None
        self.bias_hh: Tensor | None = Tensor.zeros(hidden_size * 4) if bias else None

    def _call(self) -> Any:
        sizes = self.weight_ih.shape[1], self.weight_hh.shape[1]
        return sizes, {"bias": self.bias_ih is not None}

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hc is None:
            zeros = Tensor.zeros(x.size(0), self.weight_hh.size(1), dtype=x.dtype, buffer=False)
            hc = (zeros, zeros)
        gates = x.linear(self.weight_ih.T, self.bias_ih)
        gates = gates + hc[0].linear(self.weight_hh.T, self.bias_hh)
        i, f, g, o = gates.chunk(4, dim=1)
        c = f.sigmoid() * hc[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
