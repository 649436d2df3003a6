"""Equality of bits: NaNs are equal as a class, all else byte by byte."""

from __future__ import annotations

import numpy as np

from .dtypes import FLOATS, name_of

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def canonical(array: np.ndarray) -> np.ndarray:
    """The bits of each element as unsigned integers, every NaN as the same quiet one."""
    bits = np.asarray(array, order="C").reshape(-1).view(_BITS[array.itemsize]).reshape(array.shape)
    if name_of(array) in FLOATS:
        nan = np.array(float("nan"), array.dtype).reshape(1).view(bits.dtype)[0]
        with np.errstate(invalid="ignore"):
            is_nan = array != array
        bits = np.where(is_nan, nan & ~bits.dtype.type(1 << (8 * array.itemsize - 1)), bits)
    return bits


def difference(expected: np.ndarray, got: np.ndarray, *, payload: bool = False) -> str | None:
    """None if equal, else where and how they first differ. ``payload``: NaNs too must be equal bit for bit."""
    if expected.dtype != got.dtype:
        return f"dtype: got {got.dtype}, expected {expected.dtype}"
    if expected.shape != got.shape:
        return f"shape: got {got.shape}, expected {expected.shape}"
    if expected.size == 0:
        return None
    if payload:
        a, b = (np.asarray(x, order="C").reshape(-1).view(_BITS[x.itemsize]).reshape(x.shape) for x in (expected, got))
    else:
        a, b = canonical(expected), canonical(got)
    wrong = a != b
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    digits = 2 * expected.itemsize
    return (
        f"{count} of {expected.size} elements differ, the first at {index}: got 0x{int(b[index]):0{digits}x} ({got[index]}), "
        f"expected 0x{int(a[index]):0{digits}x} ({expected[index]})"
    )
