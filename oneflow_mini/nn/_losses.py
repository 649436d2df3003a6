"""Loss functions."""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C


def _reduce(op: str, loss: Any, reduction: str) -> Any:
    if reduction == "mean":
        return _C.mean(loss)
    if reduction == "sum":
        return _C.sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(f"[{op}] reduction: {reduction} is not a valid value; expected 'mean', 'sum' or 'none'")


def _tensor_target(op: str, target: Any) -> None:
    if not isinstance(target, _C.Tensor):  # an array would do, next to a tensor: its gradient and device wouldn't
        raise TypeError(f"[{op}] target: got {type(target).__name__}, expected a Tensor")


def _same_shape(op: str, input: Any, target: Any) -> None:
    _tensor_target(op, target)
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"[{op}] target has shape {tuple(target.shape)}, input {tuple(input.shape)}: they will be broadcast, which is likely a mistake",
            stacklevel=4,
        )


def _rows(op: str, input: Any, target: Any) -> tuple[Any, Any, Any]:
    """(N, C) rows, flat targets and target's shape, of (C), (N, C) or (N, C, d1, …)."""
    if (
        input.ndim == 0
        or (input.ndim == 1) != (target.ndim == 0)
        or tuple(target.shape) != (*input.shape[:1], *input.shape[2:])[: target.ndim]
    ):
        raise ValueError(f"[{op}] target: got shape {tuple(target.shape)} for input of shape {tuple(input.shape)}, "
                         "expected (N, d1, …) for input (N, C, d1, …), or () for (C)")  # fmt: skip
    if input.ndim == 1:
        return input.unsqueeze(0), target.reshape(1), ()
    if input.ndim == 2:
        return input, target, tuple(target.shape)
    rows = input.permute(0, *range(2, input.ndim), 1)
    return rows.reshape(-1, input.shape[1]), target.reshape(-1), tuple(target.shape)


def _target_weights(weight: Any, rows: Any, target: Any, ignore_index: int) -> Any:
    """weight[target], 0 where ignored: nll_loss picks it out of the negated weights."""
    if tuple(weight.shape) != (rows.shape[1],):
        raise ValueError(
            f"weight tensor should be defined either for all {rows.shape[1]} classes or no classes, got shape {tuple(weight.shape)}"
        )
    return _C.nll_loss((-weight).to(rows.dtype).expand(rows.shape[0], rows.shape[1]).contiguous(), target, ignore_index)


def _reduce_nll(op: str, losses: Any, rows: Any, target: Any, shape: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    if weight is not None:
        weights = _target_weights(weight, rows, target, ignore_index)
        losses = losses * weights
    if reduction == "mean":
        count = _C.sum(target != ignore_index).to(losses.dtype) if weight is None else _C.sum(weights)
        return _C.sum(losses) / count
    return _reduce(op, losses if reduction == "sum" else losses.reshape(shape), reduction)


def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """−weight[t]·input[n, t] of log-probabilities (N, C, …); the mean divides by the sum of the weights of the targets not ignored."""
    rows, flat, shape = _rows("nll_loss", input, target)
    losses = _C.nll_loss(rows, flat, ignore_index)
    return _reduce_nll("nll_loss", losses, rows, flat, shape, weight, ignore_index, reduction)


def cross_entropy(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
) -> Any:
    """log_softmax over the classes, then nll_loss. Targets: class indices (int64), or probabilities of input's shape."""
    if input.ndim == 2 and weight is None and label_smoothing == 0.0 and not target.is_floating_point():
        return _C.cross_entropy(input, target, ignore_index, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"[cross_entropy] label_smoothing: must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target.is_floating_point():
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    rows, flat, shape = _rows("cross_entropy", input, target)
    logp = _C.log_softmax(rows, 1)
    loss = _reduce_nll("cross_entropy", _C.nll_loss(logp, flat, ignore_index), rows, flat, shape, weight, ignore_index, reduction)
    if label_smoothing == 0.0:
        return loss
    kept = flat != ignore_index
    smooth = -_C.sum(logp if weight is None else logp * weight, 1)
    smooth = _C.where(kept, smooth, 0.0)
    if reduction == "mean":
        count = _C.sum(kept).to(smooth.dtype) if weight is None else _C.sum(_target_weights(weight, rows, flat, ignore_index))
        smooth = _C.sum(smooth) / count
    else:
        smooth = _reduce("cross_entropy", smooth if reduction == "sum" else smooth.reshape(shape), reduction)
    return loss * (1.0 - label_smoothing) + smooth * (label_smoothing / rows.shape[1])


def _soft_cross_entropy(input: Any, target: Any, weight: Any, reduction: str, label_smoothing: float) -> Any:
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"[cross_entropy] target: got probabilities of shape {tuple(target.shape)}, expected input's shape {tuple(input.shape)}"
        )
    dim = 0 if input.ndim == 1 else 1
    classes = input.shape[dim]
    if label_smoothing > 0.0:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    logp = _C.log_softmax(input, dim)
    if weight is not None:
        logp = logp * weight.reshape((-1,) + (1,) * (input.ndim - dim - 1))
    losses = -_C.sum(logp * target, dim)
    if reduction == "mean":
        return _C.sum(losses) / float(max(1, input.numel() // classes))
    return _reduce("cross_entropy", losses, reduction)


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    _same_shape("mse_loss", input, target)
    return _reduce("mse_loss", _C.square(input - target), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    _same_shape("l1_loss", input, target)
    return _reduce("l1_loss", _C.abs(input - target), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """|d| < beta ? 0.5·d² / beta : |d| − 0.5·beta."""
    if beta < 0:
        raise ValueError(f"[smooth_l1_loss] beta: got {beta}, expected ≥ 0")
    if beta == 0:
        return l1_loss(input, target, reduction)
    _same_shape("smooth_l1_loss", input, target)
    d = input - target
    size = _C.abs(d)
    return _reduce("smooth_l1_loss", _C.where(size < beta, d * d * 0.5 / beta, size - 0.5 * beta), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """|d| ≤ delta ? 0.5·d² : delta·(|d| − 0.5·delta)."""
    if delta <= 0:
        raise ValueError(f"[huber_loss] delta: got {delta}, expected > 0")
    _same_shape("huber_loss", input, target)
    d = input - target
    size = _C.abs(d)
    return _reduce("huber_loss", _C.where(size <= delta, d * d * 0.5, (size - 0.5 * delta) * delta), reduction)


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """−(t·log(x) + (1 − t)·log1p(−x)) of probabilities x, the logarithms clamped at −100."""
    _tensor_target("binary_cross_entropy", target)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"[binary_cross_entropy] target: got size {tuple(target.shape)}, expected input's {tuple(input.shape)}")
    loss = -(target * _C.clamp(_C.log(input), min=-100.0) + (1.0 - target) * _C.clamp(_C.log1p(-input), min=-100.0))
    return _reduce("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> Any:
    """(1 − t)·x + (1 + (pos_weight − 1)·t)·softplus(−x): no overflow for any logit x."""
    _tensor_target("binary_cross_entropy_with_logits", target)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({tuple(target.shape)}) must be the same as input size ({tuple(input.shape)})")
    tail = _C.softplus(-input)
    loss = (1.0 - target) * input + (tail if pos_weight is None else ((pos_weight - 1.0) * target + 1.0) * tail)
    return _reduce("binary_cross_entropy_with_logits", loss if weight is None else loss * weight, reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """target·(log(target) − input) of log-probabilities ``input``; 0 where target is 0. 'batchmean' divides the sum by the batch size."""
    if log_target:
        loss = _C.exp(target) * (target - input)
    else:
        positive = target > 0
        loss = _C.where(positive, target * (_C.log(_C.where(positive, target, 1.0)) - input), 0.0)
    if reduction == "batchmean":
        return _C.sum(loss) / float(max(1, input.shape[0]))
    return _reduce("kl_div", loss, reduction)
