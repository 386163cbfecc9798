"""Optimisers, by tinygrad's formulas.

>>> from aster_ml import Context, Tensor, nn
>>> w = Tensor([1.0, 2.0])
>>> opt = nn.optim.SGD([w], lr=0.5)
>>> with Context(TRAINING=1):
...     _ = (w * w).sum().backward()
...     opt.step()
>>> w.tolist()
[0.0, 0.0]
"""

from __future__ import annotations

import itertools
from typing import Any, Sequence

from ..dtype import dtypes, least_upper_dtype, to_dtype
from ..helpers import FUSE_OPTIM, TRAINING, dedup, flatten, getenv, unwrap
from ..tensor import Tensor, capturing


class Optimizer:
    """What all optimisers share: parameters, a learning rate tensor, step and zero_grad.

    With fused, the parameters are updated as one long vector.
    """

    def __init__(
        self, params: list[Tensor], lr: float, device: str | None = None, fused: Any = FUSE_OPTIM
    ):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")

        def trained(x: Tensor) -> bool:
            return x.is_param and x.requires_grad is not False

        self.params: list[Tensor] = dedup([x for x in params if trained(x)])
        assert self.params, "an optimizer needs at least one parameter"
        self.buffers: list[Tensor] = dedup([x for x in params if not trained(x)])
        self.device = device or self.params[0].device
        self.param_dtype = to_dtype(getenv("OPTIM_DTYPE", "float32"))
        self.fused = fused
        rate_dtype = least_upper_dtype(dtypes.default_float, dtypes.float32)
        rate = lr if getenv("CONST_LR") else [lr]
        self.lr = Tensor(rate, device=self.device, dtype=rate_dtype)
        if self.fused:
            sizes = (x.numel() for x in self.params)
            self.pos_params = list(itertools.accumulate(sizes, initial=0))

    def __repr__(self) -> str:
        parts = [f"{len(self.params)} parameters"]
        if self.lr.is_realized and not capturing:
            parts.append(f"lr={self.lr.item():g}")
        settings = vars(self).items()
        parts += [f"{k}={v!r}" for k, v in settings if isinstance(v, (bool, int, float))]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _new_optim_param(self) -> list[Tensor]:
        """Zeros beside every parameter."""
        options = {"dtype": self.param_dtype, "device": self.device}
        if self.fused:
            return [Tensor.zeros(self.pos_params[-1], **options)]
        return [Tensor.zeros(t.shape, **options) for t in self.params]

    def zero_grad(self) -> None:
        """Drops the gradients of the parameters."""
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Updates the parameters by their gradients."""
        Tensor.realize(*self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """The tensors to realise for a step."""
        if not TRAINING:
            raise RuntimeError(
                f"TRAINING={TRAINING.value}: TRAINING must be enabled to use the optimizer; "
                "call step() inside Context(TRAINING=1)"
            )
        grads = [unwrap(t.grad) for t in self.params]
        if self.fused:
            flat = Tensor.cat(*[t.flatten() for t in self.params], dim=0)
            flat_grads = Tensor.cat(*[g.contiguous().flatten() for g in grads], dim=0)
            out, extra = self._step([flat], [flat_grads])
            ends = zip(self.pos_params, self.pos_params[1:])
            updates = [out[0][a:b].reshape(t.shape) for (a, b), t in zip(ends, self.params)]
        else:
            updates, extra = self._step(self.params, grads)
        for t, update in zip(self.params, updates):
            t.assign(self._apply_update(t, update))
        return extra + self.params + self.buffers

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """What to subtract from each parameter, and the state to realise along."""
        raise NotImplementedError

    def _apply_update(self, t: Tensor, up: Tensor) -> Tensor:
        return t.detach() - up.to(t.device)


class OptimizerGroup(Optimizer):
    """Several optimisers as one."""

    def __init__(self, *optimizers: Optimizer):
        self.optimizers = optimizers
        self.params = flatten([o.params for o in optimizers])
        self.buffers = flatten([o.buffers for o in optimizers])

    def __repr__(self) -> str:
        return f"OptimizerGroup({', '.join(map(repr, self.optimizers))})"

    def __getitem__(self, i: int) -> Optimizer:
        return self.optimizers[i]

    def zero_grad(self) -> None:
        for o in self.optimizers:
            o.zero_grad()

    def schedule_step(self) -> list[Tensor]:
        return [x for o in self.optimizers for x in o.schedule_step()]


def SGD(
    params: list[Tensor],
    lr: float = 0.001,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    classic: bool = False,
    device: str | None = None,
    fused: Any = FUSE_OPTIM,
) -> LARS:
    """Gradient descent, with momentum and weight decay; classic: the rate inside the momentum."""
    return LARS(
        params, lr, momentum, weight_decay, 0, None, nesterov, classic=classic, pre_wd=True,
        tcoef=0.0, device=device, fused=fused,
    )  # fmt: skip


def Muon(
    params: list[Tensor],
    lr: float = 0.001,
    momentum: float = 0.95,
    weight_decay: float = 0.1,
    ns_steps: int = 5,
    ns_coefficients: tuple[float, ...] = (3.4445, -4.775, 2.0315),
    nesterov: bool = True,
    device: str | None = None,
    fused: Any = FUSE_OPTIM,
) -> LARS:
    """Momentum orthogonalised by the Newton-Schulz iteration, then decay (arXiv 2502.16982)."""
    assert not fused, "Muon cannot be fused"
    return LARS(
        params, lr, momentum, weight_decay, ns_steps, ns_coefficients, nesterov, classic=False,
        pre_wd=False, tcoef=0.0, device=device, fused=fused,
    )  # fmt: skip


class LARS(Optimizer):
    """SGD with a rate for each layer: tcoef |w| / (|g| + decay |w|) (arXiv 1708.03888)."""

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        ns_steps: int = 0,
        ns_coefficients: Sequence[float] | None = None,
        nesterov: bool = False,
        classic: bool = True,
        pre_wd: bool = True,
        tcoef: float = 0.001,
        device: str | None = None,
        fused: Any = FUSE_OPTIM,
    ):
        if momentum < 0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        super().__init__(params, lr, device, fused)
        self.momentum, self.wd, self.ns_steps = momentum, weight_decay, ns_steps
        self.ns_coefficients, self.nesterov, self.classic = ns_coefficients, nesterov, classic
        self.pre_wd, self.tcoef = pre_wd, tcoef
        self.b = self._new_optim_param() if momentum else []

    def _trust(self, t: Tensor, g: Tensor) -> Any:
        """The rate of a layer."""
        if self.tcoef == 0:
            return 1.0
        w, n = t.detach().square().sum().sqrt(), g.square().sum().sqrt()
        ratio = self.tcoef * w / (n + self.wd * w)
        return (w > 0).where((n > 0).where(ratio, 1.0), 1.0)

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        updates = []
        for i, (t, g) in enumerate(zip(params, grads)):
            trust = self._trust(t, g)
            if self.pre_wd and self.wd > 0:
                g = g + self.wd * t.detach()
            if self.classic:
                g = g * trust * self.lr
            if self.momentum:
                self.b[i].assign(self.momentum * self.b[i] + g)
                g = g + self.momentum * self.b[i] if self.nesterov else self.b[i]
            if self.ns_coefficients:
                flat = g.reshape(g.shape[0], -1)
                g = flat.newton_schulz(self.ns_steps, self.ns_coefficients).reshape(g.shape)
            if not self.classic:
                g = g * trust * self.lr
            if not self.pre_wd and self.wd > 0:
                g = g + self.wd * self.lr * t.detach()
            updates.append(g.cast(t.dtype))
        return updates, self.b


def AdamW(
    params: list[Tensor],
    lr: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    device: str | None = None,
    fused: Any = FUSE_OPTIM,
) -> LAMB:
    """Adam with decoupled weight decay (arXiv 1711.05101)."""
    return LAMB(params, lr, b1, b2, eps, weight_decay, adam=True, device=device, fused=fused)


def Adam(
    params: list[Tensor],
    lr: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    device: str | None = None,
    fused: Any = FUSE_OPTIM,
) -> LAMB:
    """m / (sqrt(v) + eps), m and v running means of g and g^2 (arXiv 1412.6980)."""
    return LAMB(params, lr, b1, b2, eps, 0.0, adam=True, device=device, fused=fused)


class LAMB(Optimizer):
    """Adam with a trust ratio for each layer (arXiv 1904.00962)."""

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
        device: str | None = None,
        fused: Any = FUSE_OPTIM,
    ):
        if weight_decay < 0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, lr, device, fused)
        self.b1, self.b2, self.eps, self.wd, self.adam = b1, b2, eps, weight_decay, adam
        self.b1_t, self.b2_t = (
            Tensor.ones((1,), dtype=dtypes.float32, device=self.device).is_param_(False)
            for _ in range(2)
        )
        self.m = self._new_optim_param()
        self.v = self._new_optim_param()

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        updates = []
        self.b1_t *= self.b1
        self.b2_t *= self.b2
        for i, (t, g) in enumerate(zip(params, grads)):
            m, v = self.m[i], self.v[i]
            if g.device != m.device:
                g = g.contiguous().to(m.device)
            m.assign((self.b1 * m + (1.0 - self.b1) * g).cast(m.dtype))
            v.assign((self.b2 * v + (1.0 - self.b2) * (g * g)).cast(v.dtype))
            m_hat, v_hat = m / (1.0 - self.b1_t), v / (1.0 - self.b2_t)
            up = (m_hat / (v_hat.sqrt() + self.eps)).shard_like(t) + self.wd * t.detach()
            trust: Any = 1.0
            if not self.adam:
                r1, r2 = t.detach().square().sum().sqrt(), up.square().sum().sqrt()
                trust = (r1 > 0).where((r2 > 0).where(r1 / r2, 1.0), 1.0)
            updates.append((self.lr * trust * up).cast(t.dtype))
        return updates, [self.b1_t, self.b2_t] + self.m + self.v
