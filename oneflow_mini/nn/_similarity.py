"""Similarities of vectors, and losses on pairs and triples of them."""

from __future__ import annotations

from typing import Any

from .. import _C
from ._losses import _reduce


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """sum(a·b) / (max(‖a‖, eps)·max(‖b‖, eps)) along ``dim``, as sum of the products of the normalized vectors."""
    a = x1 / _C.clamp(_C.sqrt(_C.sum(x1 * x1, dim, True)), min=eps)
    b = x2 / _C.clamp(_C.sqrt(_C.sum(x2 * x2, dim, True)), min=eps)
    return _C.sum(a * b, dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of x1 − x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0, reduction: str = "mean") -> Any:
    """max(0, −t·(x1 − x2) + margin)."""
    return _reduce("margin_ranking_loss", _C.clamp(-target * (input1 - input2) + margin, min=0.0), reduction)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """x where t = 1, max(0, margin − x) where t = −1."""
    loss = _C.where(target == 1, input, 0.0) + _C.where(target == -1, _C.clamp(margin - input, min=0.0), 0.0)
    return _reduce("hinge_embedding_loss", loss, reduction)


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """log(1 + exp(−t·x))."""
    return _reduce("soft_margin_loss", _C.softplus(-target * input), reduction)


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0, reduction: str = "mean") -> Any:
    """1 − cos where t = 1, max(0, cos − margin) where t = −1."""
    cos = cosine_similarity(input1, input2, -1)
    loss = _C.where(target == 1, 1.0 - cos, _C.clamp(cos - margin, min=0.0))
    return _reduce("cosine_embedding_loss", loss, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """max(0, d(anchor, positive) − d(anchor, negative) + margin); with ``swap`` the nearer of the negative's two distances."""
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = _C.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce("triplet_margin_loss", _C.clamp(near - far + margin, min=0.0), reduction)


__all__ = [
    "cosine_embedding_loss", "cosine_similarity", "hinge_embedding_loss", "margin_ranking_loss", "pairwise_distance", "soft_margin_loss",
    "triplet_margin_loss",
]  # fmt: skip
