"""Adam and AdamW, by the fused op ``adam_step`` (docs/numerics.md section 11)."""

from __future__ import annotations

import math  # only sqrt, which is correctly rounded
from typing import Any

from .. import _C
from .optimizer import Optimizer, refuse, require_range

_adam_step = _C.adam_step_


def beta_power(beta: float, t: int) -> float:
    """βᵗ in f64 by repeated squaring from the lowest bit of t: no host libm, so the same bits on every machine."""
    result, base = 1.0, float(beta)
    while t:
        if t & 1:
            result *= base
        base *= base
        t >>= 1
    return result


class Adam(Optimizer):
    """Kingma & Ba 2015. ``weight_decay`` is added to the gradient (L2); AdamW decouples it.

    ``foreach`` and ``fused`` are accepted and change nothing: each parameter's update is one op.
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        refuse(type(self).__name__, capturable=capturable, differentiable=differentiable)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
                        "decoupled_weight_decay": decoupled_weight_decay}  # fmt: skip
        super().__init__(params, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        name = type(self).__name__
        for option in ("lr", "eps", "weight_decay"):
            require_range(name, option, group[option])
        if len(group["betas"]) != 2:
            raise ValueError(f"[{name}] betas: got {group['betas']!r}, expected two numbers")
        for i, beta in enumerate(group["betas"]):
            require_range(name, f"beta parameter at index {i}", beta, high=1.0, open_end=True)

    def step(self, closure: Any = None) -> Any:
        loss = self._closure(closure)
        state = self.state
        for group in self.param_groups:
            lr, (beta1, beta2), eps, weight_decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
            amsgrad, maximize, decoupled = group["amsgrad"], group["maximize"], group["decoupled_weight_decay"]
            last, correction1, correction2_sqrt = 0, 1.0, 1.0
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                own = state[p]
                if not own:
                    own["step"] = 0
                    own["exp_avg"] = _C.zeros_like(p.detach())
                    own["exp_avg_sq"] = _C.zeros_like(p.detach())
                if amsgrad and "max_exp_avg_sq" not in own:
                    own["max_exp_avg_sq"] = _C.zeros_like(p.detach())
                t = own["step"] = own["step"] + 1
                if t != last:  # the same for all parameters of a group, as a rule
                    last, correction1 = t, 1.0 - beta_power(beta1, t)
                    correction2_sqrt = math.sqrt(1.0 - beta_power(beta2, t))
                _adam_step(p, grad, own["exp_avg"], own["exp_avg_sq"], own["max_exp_avg_sq"] if amsgrad else None, lr, beta1, beta2, eps,
                           weight_decay, correction1, correction2_sqrt, decoupled, amsgrad, maximize)  # fmt: skip
        return loss


class AdamW(Adam):
    """Loshchilov & Hutter 2019: p = p·(1 − lr·weight_decay) before Adam's update."""

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, decoupled_weight_decay=True)  # fmt: skip
