"""Initial values, in place, on the tensor's device, from the Philox stream of ``generator`` (default: the default generator)."""

from __future__ import annotations

import math  # only sqrt, which is correctly rounded
from typing import Any

from .. import _C
from ..autograd.grad_mode import no_grad

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "trunc_normal_", "uniform_",
    "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps a signal's variance through a nonlinearity."""
    linear = ("linear", "conv1d", "conv2d", "conv3d", "sigmoid")
    if nonlinearity in linear:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope * slope))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}; expected one of {', '.join(linear)}, tanh, relu, leaky_relu, selu")


def _fans(tensor: Any) -> tuple[int, int]:
    """(fan_in, fan_out): what one output reads, what one input feeds."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive = 1
    for n in tensor.shape[2:]:
        receptive *= n
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _fan(tensor: Any, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _fans(tensor)[mode == "fan_out"]


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Any) -> Any:
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(_C.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """U(−a, a) with a = gain·√(6 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    fan_in, fan_out = _fans(tensor)
    bound = gain * math.sqrt(6.0 / float(fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """N(0, gain²·2 / (fan_in + fan_out))."""
    fan_in, fan_out = _fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def kaiming_uniform_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """U(−b, b) with b = gain·√(3 / fan) (He et al. 2015)."""
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * (calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """N(0, gain² / fan)."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


@no_grad()
def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Any:
    """N(mean, std²) within [a, b]: what falls outside is drawn again, at most 64 times, and then clamped."""
    tensor.normal_(mean, std, generator=generator)
    for _ in range(64):
        outside = _C.logical_or(tensor < a, tensor > b)
        if not _C.any(outside).item():
            return tensor
        tensor.copy_(_C.where(outside, _C.empty_like(tensor).normal_(mean, std, generator=generator), tensor))
    return tensor.copy_(_C.clamp(tensor, a, b))


@no_grad()
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Convolution weights that pass channel i of each group on to output i: 1 in the middle of the kernel, else 0."""
    if not 3 <= tensor.ndim <= 5:
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    middle, rows = tuple(n // 2 for n in tensor.shape[2:]), tensor.shape[0] // groups
    for g in range(groups):
        for d in range(min(rows, tensor.shape[1])):
            place = (g * rows + d, d, *middle)
            tensor[place] = 1
    return tensor
