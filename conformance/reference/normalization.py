"""Section 6, layer_norm and batch_norm, and section 9, averages: handlers of ``evaluate``."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .. import _reference
from ..dtypes import compute_type, name_of
from .evaluate import _handles, _planes, _window_count
from .values import from_compute, scalar, to_compute


def _spread(vector: np.ndarray | None, rows: bool, shape: tuple[int, int]) -> np.ndarray | None:
    """A parameter in C on every element of the (rows, n) matrix: one per row, or one per column."""
    if vector is None:
        return None
    flat = to_compute(np.asarray(vector, order="C")).reshape(-1)
    return np.asarray(np.broadcast_to(flat[:, None] if rows else flat[None, :], shape), order="C")


def _affine(xhat: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None) -> np.ndarray:
    out = xhat if weight is None else _reference.norm_times(xhat, weight)
    return out if bias is None else _reference.norm_plus(out, bias)


def _flat(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, order="C").reshape(-1)


def _split(attributes: dict[str, Any], x: np.ndarray) -> tuple[int, tuple[int, int], tuple[int, ...]]:
    """The first normalized axis, (rows, n), and the shape of the statistics."""
    axis = attributes.get("axis", -1) % x.ndim
    return axis, (prod(x.shape[:axis]), prod(x.shape[axis:])), (*x.shape[:axis], *(1,) * (x.ndim - axis))


@_handles("layer_norm")
def _layer_norm(op, inputs, attributes, shape, dtype):
    x, weight, bias, eps = inputs
    name = name_of(x)
    _, matrix, statistics = _split(attributes, x)
    flat = to_compute(x).reshape(matrix)
    mean, _, rstd = _reference.norm_statistics(flat, scalar(eps, compute_type(name)))
    out = _affine(_reference.norm_normalized(flat, mean, rstd), _spread(weight, False, matrix), _spread(bias, False, matrix))
    return from_compute(out, name).reshape(x.shape), mean.reshape(statistics), rstd.reshape(statistics)


@_handles("layer_norm_backward")
def _layer_norm_backward(op, inputs, attributes, shape, dtype):
    grad, x, mean, rstd, weight = inputs
    _, matrix, _ = _split(attributes, x)
    mean, rstd = _flat(mean), _flat(rstd)
    h = to_compute(grad).reshape(matrix)
    if weight is not None:
        h = _reference.norm_times(h, _spread(weight, False, matrix))
    xhat = _reference.norm_normalized(to_compute(x).reshape(matrix), mean, rstd)
    s1, s2 = _reference.norm_sums(h), _reference.norm_sums(_reference.norm_times(h, xhat))
    return from_compute(_reference.norm_input_gradient(h, xhat, s1, s2, rstd), name_of(x)).reshape(x.shape)


@_handles("layer_norm_param_grad")
def _layer_norm_param_grad(op, inputs, attributes, shape, dtype):
    grad, x, mean, rstd = inputs
    axis, matrix, _ = _split(attributes, x)
    g = to_compute(grad).reshape(matrix)
    xhat = _reference.norm_normalized(to_compute(x).reshape(matrix), _flat(mean), _flat(rstd))
    sums = (_reference.norm_sums(np.asarray(m.T, order="C")) for m in (_reference.norm_times(g, xhat), g))
    return tuple(from_compute(s, name_of(x)).reshape(x.shape[axis:]) for s in sums)


def _channels(x: np.ndarray) -> np.ndarray:
    """(C, N · rest), in C."""
    return np.asarray(np.moveaxis(to_compute(x), 1, 0), order="C").reshape(x.shape[1], x.size // x.shape[1] if x.shape[1] else 0)


def _unchannels(flat: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.moveaxis(flat.reshape(like.shape[1], like.shape[0], *like.shape[2:]), 0, 1)


@_handles("batch_norm", "batch_norm_eval")
def _batch_norm(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    name, flat = name_of(x), _channels(x)
    if op == "batch_norm":
        _, weight, bias, eps = inputs
        mean, var, rstd = _reference.norm_statistics(flat, scalar(eps, compute_type(name)))
    else:
        _, mean, rstd, weight, bias = inputs
        mean, rstd = _flat(mean), _flat(rstd)
    out = _affine(_reference.norm_normalized(flat, mean, rstd), _spread(weight, True, flat.shape), _spread(bias, True, flat.shape))
    result = from_compute(_unchannels(out, x), name)
    return (result, mean, var, rstd) if op == "batch_norm" else result


@_handles("batch_norm_backward")
def _batch_norm_backward(op, inputs, attributes, shape, dtype):
    grad, x, mean, rstd, weight = inputs
    name, g, mean, rstd = name_of(x), _channels(grad), _flat(mean), _flat(rstd)
    xhat = _reference.norm_normalized(_channels(x), mean, rstd)
    s1, s2 = _reference.norm_sums(g), _reference.norm_sums(_reference.norm_times(g, xhat))
    scale = rstd
    if weight is not None:
        scale = _reference.norm_times(rstd[:, None], to_compute(_flat(weight))[:, None]).reshape(-1)
    out = _reference.norm_input_gradient(g, xhat, s1, s2, scale)
    return from_compute(_unchannels(out, x), name), from_compute(s2, name), from_compute(s1, name)


def _windows(op: str, attributes: dict[str, Any], size: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Begin and end of each output row's and column's window, and the divisors (OH, OW)."""
    if op.startswith("adaptive"):
        sides = [
            np.array([(o * n // out, -(-(o + 1) * n // out)) for o in range(out)], np.int64).reshape(-1, 2)
            for n, out in zip(size, attributes["size"], strict=True)
        ]
        return sides[0], sides[1], (sides[0][:, 1] - sides[0][:, 0])[:, None] * (sides[1][:, 1] - sides[1][:, 0])[None, :]
    kernel, stride, padding = (tuple(attributes.get(k, d)) for k, d in (("kernel", (1, 1)), ("stride", (1, 1)), ("padding", (0, 0))))
    inside, padded = [], []
    for n, k, s, p in zip(size, kernel, stride, padding, strict=True):
        out = _window_count(n, k, s, p, 1, bool(attributes.get("ceil_mode", 0)))
        first = np.arange(out, dtype=np.int64) * s - p
        last = np.minimum(first + k, n + p)
        inside.append(np.stack([np.maximum(first, 0), np.minimum(last, n)], 1))
        padded.append(last - first)
    counts = padded if attributes.get("count_include_pad", 1) else [i[:, 1] - i[:, 0] for i in inside]
    counts = counts[0][:, None] * counts[1][None, :]
    return inside[0], inside[1], np.full_like(counts, attributes["divisor"]) if attributes.get("divisor", 0) else counts


@_handles("avg_pool2d", "adaptive_avg_pool2d")
def _average(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    rows, columns, counts = _windows(op, attributes, x.shape[2:])
    out = _reference.average(_planes(to_compute(x)), rows, columns, counts, op.startswith("adaptive"))
    return from_compute(out, name_of(x)).reshape(*x.shape[:2], *counts.shape)


@_handles("avg_pool2d_backward", "adaptive_avg_pool2d_backward")
def _average_backward(op, inputs, attributes, shape, dtype):
    grad = inputs[0]
    rows, columns, counts = _windows(op, attributes, shape[2:])
    return from_compute(_reference.average_backward(_planes(to_compute(grad)), rows, columns, counts, *shape[2:]), name_of(grad)).reshape(
        shape
    )
