"""Optimizer: parameter groups, state, and what SGD and Adam share."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from .. import _C

Tensor: Any = _C.Tensor


class Optimizer:
    """``params``: tensors, (name, tensor) pairs, or dicts with "params" and own options. Options not given come from ``defaults``."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: Any = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._steps = 0  # lr schedulers warn when they run before the first step
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _check(self, group: dict[str, Any]) -> None:
        """Raises ValueError if an option of the group is out of range."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of sets changes between runs"
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        params = [p[1] if isinstance(p, tuple) and len(p) == 2 else p for p in params]
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(p) in known:
                raise ValueError("some parameters appear in more than one parameter group")
        if len({id(p) for p in params}) != len(params):
            raise ValueError("some parameters appear twice in one parameter group")
        for name in param_group:
            if name != "params" and name not in self.defaults and name != "initial_lr":
                raise ValueError(f"[{type(self).__name__}] option {name!r}: unknown; known are {', '.join(sorted(self.defaults))}")
        group = {"params": params, **{k: v for k, v in param_group.items() if k != "params"}}
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self._check(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = _C.zeros_like(p.grad)

    def step(self, closure: Any = None) -> Any:
        """One update from the gradients. ``closure`` recomputes them and returns the loss, which step returns."""
        raise NotImplementedError(f"[{type(self).__name__}] step: not defined")

    def _closure(self, closure: Any) -> Any:
        self._steps += 1
        if closure is None:
            return None
        with _C.grad_mode(True):
            return closure()

    # ----- state ------------------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: …}, "param_groups": […]}; parameters stand as their index over all groups. Tensors are shared, not copied."""
        index: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                index[id(p)] = len(index)
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": [index[id(p)] for p in group["params"]]})
        state = {index[id(p)]: dict(s) for p, s in self.state.items() if id(p) in index}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Any) -> None:
        """Takes copies of the state; floating tensors of it become the parameter's dtype and device."""
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
            raise TypeError("[load_state_dict] state_dict: expected a dict with 'state' and 'param_groups'")
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(self.param_groups, saved, strict=False)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        by_index = {i: p for g, s in zip(self.param_groups, saved, strict=False) for i, p in zip(s["params"], g["params"], strict=False)}
        state: Any = defaultdict(dict)
        for i, values in state_dict["state"].items():
            if i not in by_index:
                raise ValueError(f"[load_state_dict] state: parameter {i!r} stands in no parameter group")
            p = by_index[i]
            state[p] = {k: self._take(k, v, p) for k, v in values.items()}
        groups = [
            {**copy.deepcopy({k: v for k, v in s.items() if k != "params"}), "params": g["params"]}
            for g, s in zip(self.param_groups, saved, strict=False)
        ]
        for g in groups:
            for name, value in self.defaults.items():
                g.setdefault(name, value)
            self._check(g)
        self.state, self.param_groups = state, groups

    @staticmethod
    def _take(name: str, value: Any, param: Any) -> Any:
        if not isinstance(value, Tensor):
            return copy.deepcopy(value)
        if name != "step" and tuple(value.shape) != tuple(param.shape):
            raise ValueError(f"[load_state_dict] {name}: got shape {tuple(value.shape)}, expected the parameter's {tuple(param.shape)}")
        if name == "step":
            return int(value.item())
        value = value.detach().to(param.device)
        return (value.to(param.dtype) if value.is_floating_point() else value).clone()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups, "_steps": self._steps}

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join(lines) + "\n)"


def require_range(op: str, name: str, value: Any, low: float = 0.0, high: float = float("inf"), *, open_end: bool = False) -> None:
    """ValueError unless low ≤ value ≤ high (< high with open_end); TypeError if it is no number. NaN is out of range."""
    if isinstance(value, Tensor):
        raise TypeError(f"[{op}] {name}: got a Tensor, expected a number")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"[{op}] {name}: got {type(value).__name__}, expected a number")
    if not (low <= value and (value < high if open_end else value <= high)):
        raise ValueError(f"[{op}] Invalid {name} value: {value}; expected {low} ≤ {name} {'<' if open_end else '≤'} {high}")


def refuse(op: str, **options: Any) -> None:
    """NotImplementedError for options of PyTorch's that would change what a step means and aren't supported."""
    for name, value in options.items():
        if value:
            raise NotImplementedError(f"[{op}] {name}={value!r} is not supported")
