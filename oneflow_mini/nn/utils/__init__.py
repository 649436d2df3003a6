"""Helpers for parameters: gradient clipping and flat vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import _C

__all__ = ["clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "vector_to_parameters"]


def _gradients(parameters: Any) -> list[Any]:
    return [p.grad for p in ([parameters] if isinstance(parameters, _C.Tensor) else parameters) if p.grad is not None]


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """The norm of the tensors' norms, a 0-d tensor; of no tensors: 0."""
    tensors = [tensors] if isinstance(tensors, _C.Tensor) else list(tensors)
    if not tensors:
        return _C.tensor(0.0)
    first = tensors[0]
    norms = _C.stack([t.detach().norm(float(norm_type)).to(first.dtype).to(first.device) for t in tensors])
    total = norms.norm(float(norm_type))
    if error_if_nonfinite and not _C.isfinite(total).item():
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped.")
    return total


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """Multiplies the gradients by min(1, max_norm / (norm + 1e-6)), in place; returns the norm before, a 0-d tensor."""
    grads = _gradients(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    if grads:
        with _C.grad_mode(False):
            factor = _C.clamp(float(max_norm) / (total + 1e-6), max=1.0)
            for g in grads:
                g.mul_(factor.to(g.dtype).to(g.device))
    return total


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clamps the gradients to [−clip_value, clip_value], in place."""
    with _C.grad_mode(False):
        for g in _gradients(parameters):
            g.copy_(_C.clamp(g, -float(clip_value), float(clip_value)))


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All parameters in one 1-d tensor, in order."""
    return _C.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Copies the pieces of ``vec`` into the parameters."""
    parameters = list(parameters)
    needed = sum(p.numel() for p in parameters)
    if vec.ndim != 1 or vec.numel() != needed:
        raise ValueError(f"[vector_to_parameters] vec: got shape {tuple(vec.shape)}, expected ({needed},)")
    at = 0
    for p in parameters:
        p.data.copy_(vec.detach()[at : at + p.numel()].reshape(tuple(p.shape)))
        at += p.numel()
