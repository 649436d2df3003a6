"""Sections 15 and 16 of docs/numerics.md: moves by index, and order along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import FLOATS, name_of
from .evaluate import _handles
from .values import cast, from_compute, to_compute, widen


def _positions(op: str, index: np.ndarray, axis: int, size: int) -> Any:
    """(place in index, place it names) for each element of the index, row-major."""
    for at in np.ndindex(*index.shape):
        i = int(index[at])
        if not 0 <= i < size:
            raise IndexError(f"[{op}] index out of range: got {i}, expected 0 <= index < {size}")
        yield at, (*at[:axis], i, *at[axis + 1 :])


@_handles("gather")
def _gather(op, inputs, attributes, shape, dtype):
    x, index = inputs
    axis = attributes["axis"]
    out = np.empty(index.shape, x.dtype)
    for at, place in _positions(op, index, axis, x.shape[axis]):
        out[at] = x[place]
    return out


@_handles("scatter")
def _scatter(op, inputs, attributes, shape, dtype):
    x, index, src = inputs
    axis = attributes["axis"]
    out = x.copy()
    for at, place in _positions(op, index, axis, x.shape[axis]):  # row-major, so of two the one with the larger i comes last
        out[place] = src[at]
    return out


@_handles("scatter_add")
def _scatter_add(op, inputs, attributes, shape, dtype):
    src, index = inputs
    axis, name = attributes["axis"], name_of(src)
    values = to_compute(src) if name in FLOATS else widen(src)
    lists: dict[tuple[int, ...], list[Any]] = {}
    for at, place in _positions(op, index, axis, shape[axis]):
        lists.setdefault(place, []).append(values[at])
    out = np.zeros(shape, values.dtype)
    with np.errstate(all="ignore"):
        for place, contributions in lists.items():
            total = None
            for start in range(0, len(contributions), 512):
                chain = values.dtype.type(0)
                for value in contributions[start : start + 512]:
                    chain = chain + value
                total = chain if total is None else total + chain
            out[place] = total
    return from_compute(out, name) if name in FLOATS else cast(out, name)


@_handles("nonzero")
def _nonzero(op, inputs, attributes, shape, dtype):
    return np.array([k for k, value in enumerate(inputs[0].reshape(-1).tolist()) if value], np.int64)


def _scan(x: np.ndarray) -> np.ndarray:
    """Section 16's scan of a 1-d array; numpy's accumulate is serial."""
    zero = np.zeros(1, x.dtype)
    parts = [np.add.accumulate(np.concatenate([zero, x[k : k + 4096]]))[1:] for k in range(0, len(x), 4096)]
    if len(parts) > 1:
        before = _scan(np.array([p[-1] for p in parts]))
        parts = [parts[0]] + [b + p for b, p in zip(before, parts[1:], strict=False)]
    return np.concatenate(parts) if parts else x


@_handles("cumsum")
def _cumsum(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    if x.ndim == 0:
        return _cumsum(op, [x.reshape(1)], {"axis": 0}, shape, dtype).reshape(())
    name, axis = name_of(x), attributes["axis"]
    wide = to_compute(x) if name in FLOATS else widen(x).astype(np.int64)
    with np.errstate(all="ignore"):
        out = np.apply_along_axis(_scan, axis, wide) if x.size else wide
    return from_compute(np.asarray(out, order="C"), name) if name in FLOATS else out


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Stable; NaN is larger than any number."""
    wide = to_compute(x) if name_of(x) in FLOATS else widen(x)
    if not descending:
        return np.argsort(wide, axis, kind="stable")
    # A stable descending order is the reverse of the stable ascending order of the reverse.
    backwards = np.argsort(np.flip(wide, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


@_handles("sort", "topk")
def _sort(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    axis = attributes["axis"]
    order = _order(x, axis, bool(attributes["largest"] if op == "topk" else attributes["descending"]))
    if op == "topk":
        order = np.take(order, range(attributes["k"]), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)
