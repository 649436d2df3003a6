"""Shapes and strides: what the kernels' loops run over."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The same elements in the same order in as few dimensions as all operands' strides allow; no dimension of size 1, at least one."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(out[-1] == s[d] * size for out, s in zip(steps, strides)):
            sizes[-1] *= size
            for out, s in zip(steps, strides):
                out[-1] = s[d]
        else:
            sizes.append(size)
            for out, s in zip(steps, strides):
                out.append(s[d])
    if not sizes:
        return (1,), [(0,) for _ in strides]
    return tuple(sizes), [tuple(s) for s in steps]


def broadcast(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Strides with which an operand of ``shape`` is read as one of shape ``to`` (numpy's rules). Raises ValueError."""
    lead = len(to) - len(shape)
    out = [0] * lead
    for size, stride, want in zip(shape, strides, to[lead:] if lead >= 0 else to):
        if size != want and size != 1:
            raise ValueError(f"[portable] shapes: got {tuple(shape)}, expected one that broadcasts to {tuple(to)}")
        out.append(stride if size == want and size != 1 else 0)
    return tuple(out)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)
