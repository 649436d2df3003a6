"""Activations made of ops of the table; the formula stands at each."""

from __future__ import annotations

from typing import Any

from .. import _C


def relu_(input: Any) -> Any:
    return input.relu_()


def prelu(input: Any, weight: Any) -> Any:
    """x > 0 ? x : weight·x, with one weight, or one per channel (dimension 1)."""
    if weight.numel() != 1:
        if input.ndim < 2 or weight.numel() != input.shape[1]:
            raise ValueError(
                f"[prelu] weight: got {weight.numel()} numbers for input of shape {tuple(input.shape)}, expected 1 or one per channel"
            )
        weight = weight.reshape(1, -1, *(1,) * (input.ndim - 2))
    return _C.where(input > 0, input, input * weight)


def selu(input: Any, inplace: bool = False) -> Any:
    """scale·(x > 0 ? x : alpha·expm1(x)) (Klambauer et al. 2017)."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    out = _C.where(input > 0, input, _C.expm1(_C.clamp(input, max=0.0)) * alpha) * scale
    return input.copy_(out) if inplace else out


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x > 0 ? x : alpha·expm1(x / alpha)."""
    if alpha == 0:
        raise ZeroDivisionError("[celu] alpha: got 0, expected another number")
    out = _C.where(input > 0, input, _C.expm1(_C.clamp(input, max=0.0) / alpha) * alpha)
    return input.copy_(out) if inplace else out


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """clamp(x + 3, 0, 6) / 6."""
    out = _C.clamp(input + 3.0, 0.0, 6.0) / 6.0
    return input.copy_(out) if inplace else out


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x·(clamp(x + 3, 0, 6) / 6)."""
    out = input * hardsigmoid(input)
    return input.copy_(out) if inplace else out


def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return input / (_C.abs(input) + 1.0)


def tanhshrink(input: Any) -> Any:
    return input - _C.tanh(input)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by lambd, 0 where it would pass it."""
    if lambd < 0:
        raise ValueError(f"[softshrink] lambd: got {lambd}, expected ≥ 0")
    return _C.where(input > lambd, input - lambd, _C.where(input < -lambd, input + lambd, input * 0.0))


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x where |x| > lambd, else 0."""
    return _C.where(_C.logical_and(input >= -lambd, input <= lambd), 0.0, input)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x > threshold ? x : value."""
    out = _C.where(input > threshold, input, value)
    return input.copy_(out) if inplace else out


def glu(input: Any, dim: int = -1) -> Any:
    """a·sigmoid(b) of the halves along ``dim``."""
    if input.ndim == 0 or input.shape[dim] % 2:
        raise ValueError(f"[glu] input: got shape {tuple(input.shape)}, expected an even size in dimension {dim}")
    a, b = _C.chunk(input, 2, dim)
    return a * _C.sigmoid(b)


def softmin(input: Any, dim: int, dtype: Any = None) -> Any:
    x = input if dtype is None else input.to(dtype)
    return _C.softmax(-x, dim)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """softmax((logits + g) / tau) with Gumbel noise g = −log(−log(u)); ``hard``: one-hot forwards, the same gradient backwards."""
    uniform = _C.clamp(_C.rand(*logits.shape, device=logits.device, dtype=logits.dtype), min=1e-30)
    soft = _C.softmax((logits - _C.log(-_C.log(uniform))) / tau, dim)
    if not hard:
        return soft
    index = _C.argmax(soft.detach(), dim, True)
    return _C.scatter(_C.zeros_like(soft), dim, index, 1.0) - soft.detach() + soft


def _dropout_of_whole(op: str, input: Any, p: float, training: bool, inplace: bool, dims: int) -> Any:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if input.ndim not in (dims, dims + 1):
        raise ValueError(f"[{op}] input: got {input.ndim} dimensions, expected {dims} or {dims + 1}")
    if not training or p == 0:
        return input
    shape = (*input.shape[: input.ndim - dims + 1], *(1,) * (dims - 1))
    out = input * _C.dropout(_C.ones(*shape, dtype=input.dtype, device=input.device), p, True)
    return input.copy_(out) if inplace else out


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeroes whole channels of (N, C, L) or (C, L)."""
    return _dropout_of_whole("dropout1d", input, p, training, inplace, 2)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeroes whole channels of (N, C, H, W) or (C, H, W)."""
    return _dropout_of_whole("dropout2d", input, p, training, inplace, 3)


__all__ = [
    "celu", "dropout1d", "dropout2d", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "prelu", "relu_", "selu",
    "softmin", "softshrink", "softsign", "tanhshrink", "threshold",
]  # fmt: skip
