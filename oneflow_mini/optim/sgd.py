"""SGD with momentum, by the fused op ``sgd_step`` (docs/numerics.md section 11)."""

from __future__ import annotations

from typing import Any

from .. import _C
from .optimizer import Optimizer, refuse, require_range

_sgd_step = _C.sgd_step_
_empty_like = _C.empty_like


class SGD(Optimizer):
    """d = g + weight_decay·p; b = momentum·b + (1 − dampening)·d; p = p − lr·(nesterov ? d + momentum·b : b). The first b is d.

    ``foreach`` and ``fused`` are accepted and change nothing: each parameter's update is one op.
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        refuse("SGD", differentiable=differentiable)
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                    "nesterov": nesterov, "maximize": maximize}  # fmt: skip
        super().__init__(params, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            require_range("SGD", name, group[name])
        require_range("SGD", "dampening", group["dampening"], low=float("-inf"))
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def step(self, closure: Any = None) -> Any:
        loss = self._closure(closure)
        state = self.state
        for group in self.param_groups:
            lr, momentum, dampening, weight_decay = group["lr"], group["momentum"], group["dampening"], group["weight_decay"]
            nesterov, maximize = group["nesterov"], group["maximize"]
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                buffer, first = None, False
                if momentum != 0:
                    own = state[p]
                    buffer = own.get("momentum_buffer")
                    if buffer is None:
                        first = True
                        buffer = own["momentum_buffer"] = _empty_like(p.detach())  # the op writes it whole
                _sgd_step(p, grad, buffer, lr, momentum, dampening, weight_decay, nesterov, maximize, first)
        return loss
