"""Views as inputs: name → the view of a (5, 6, 8) tensor, written so that numpy and tensors both understand it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SHAPE = (5, 6, 8)


def permuted(a: Any, *order: int) -> Any:
    return a.transpose(order) if isinstance(a, np.ndarray) else a.permute(*order)


def expanded(a: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(a, shape) if isinstance(a, np.ndarray) else a.expand(*shape)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda a: a,
    "offset": lambda a: a[1:, 2:, 3:],
    "every second column": lambda a: a[:, :, 1::2],
    "every third row": lambda a: a[:, ::3],
    "rows and columns": lambda a: a[::2, 1::2, ::3],
    "permuted": lambda a: permuted(a, 2, 0, 1),
    "transposed": lambda a: permuted(a, 0, 2, 1),
    "permuted slice": lambda a: permuted(a[1:, ::2, 1::3], 1, 2, 0),
    "one row expanded": lambda a: expanded(a[:, :1], SHAPE),
    "one column expanded": lambda a: expanded(a[:, :, 3:4], SHAPE),
    "one number expanded": lambda a: expanded(a[2:3, 3:4, 4:5], (3, 4, 2)),
    "selected": lambda a: a[:, 2],
    "nothing": lambda a: a[:, 3:3],
}
#: in which no two elements share memory
WRITABLE = [name for name in VIEWS if "expanded" not in name]


def integers(dtype: str, shape: tuple[int, ...] = SHAPE, low: int = -50, high: int = 50, seed: int = 0) -> np.ndarray:
    """Small whole numbers that each dtype has, in numpy's int64 (bool: 0 and 1)."""
    low, high = (0, 2) if dtype == "bool" else (max(0, low), high) if dtype == "uint8" else (low, high)
    return np.random.default_rng(seed).integers(low, high, shape)
