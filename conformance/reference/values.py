"""What the parts of the reference share: casts, compute types, immediates, rows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .. import _reference
from ..dtypes import HALVES, INTS, NUMPY, compute_type, name_of

Operand = Any  # a numpy array (logical content), a Python scalar (immediate) or None (absent)


def cast(array: np.ndarray, to: str) -> np.ndarray:
    """Section 2. Every element cast once to the dtype named ``to``."""
    raw = np.asarray(array, order="C").reshape(-1).view(np.uint8)
    return _reference.cast(raw, name_of(array), to).view(NUMPY[to]).reshape(array.shape)


def immediate(value: Operand, dtype: str) -> np.ndarray:
    """A Python scalar as a 0-d array of ``dtype``, rounded once."""
    if isinstance(value, bool | np.bool_):
        return cast(np.array(value, np.bool_), dtype)
    if isinstance(value, int):
        return cast(np.array(value, np.int64), dtype)
    return cast(np.array(value, np.float64), dtype)


def scalar(value: Operand, dtype: str) -> Any:
    """The same as a Python number."""
    return immediate(value, dtype).item()


def to_compute(array: np.ndarray) -> np.ndarray:
    """Exactly, into C(T), contiguous."""
    name = name_of(array)
    return cast(array, "f32") if name in HALVES else np.asarray(array, order="C")


def from_compute(array: np.ndarray, dtype: str) -> np.ndarray:
    """The one rounding from C(T) to T at an op's end."""
    if name_of(array) == dtype:
        return array
    if compute_type(dtype) != name_of(array):
        raise TypeError(f"[reference] {name_of(array)} is not the compute type of {dtype}")
    return cast(array, dtype)


def rows(array: np.ndarray, axes: list[int]) -> tuple[np.ndarray, tuple[int, ...]]:
    """(kept, reduced) with the reduced axes flattened row-major last; and the result's shape: reduced axes have size 1."""
    kept = [k for k in range(array.ndim) if k not in axes]
    count = prod(array.shape[k] for k in kept)
    length = prod(array.shape[k] for k in axes)
    shape = tuple(1 if k in axes else size for k, size in enumerate(array.shape))
    return np.asarray(array.transpose([*kept, *axes]), order="C").reshape(count, length), shape


def widen(array: np.ndarray) -> np.ndarray:
    """Into a type that the row functions have: i64 for integers and bool (exact), C(T) for floats."""
    name = name_of(array)
    return cast(array, "i64") if name in (*INTS, "bool") else to_compute(array)
