"""``finfo`` and ``iinfo``: limits of the dtypes."""

from __future__ import annotations

from typing import Any

from . import _C

#: name: (bits, significand bits with the hidden one, smallest normal exponent, largest exponent)
_FLOATS = {"float16": (16, 11, -14, 15), "bfloat16": (16, 8, -126, 127), "float32": (32, 24, -126, 127), "float64": (64, 53, -1022, 1023)}
_INTS = {"uint8": (8, False), "int8": (8, True), "int16": (16, True), "int32": (32, True), "int64": (64, True)}
_RESOLUTION = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}


def _scale(e: int) -> float:
    return float.fromhex(f"0x1p{e}")


class finfo:
    """Limits of a floating dtype: bits, eps, max, min, tiny = smallest_normal, resolution. Default: the default dtype."""

    def __init__(self, dtype: Any = None) -> None:
        dtype = _C.get_default_dtype() if dtype is None else dtype
        name = getattr(dtype, "name", None)
        if name not in _FLOATS:
            raise TypeError(f"[finfo] dtype: got {dtype!r}, expected one of {', '.join(_FLOATS)} (for integers there is iinfo)")
        self.bits, digits, low, high = _FLOATS[name]
        self.dtype = name
        self.eps = _scale(1 - digits)
        self.max = (2.0 - self.eps) * _scale(high)
        self.min = -self.max
        self.tiny = self.smallest_normal = _scale(low)
        self.resolution = _RESOLUTION[name]

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")  # fmt: skip


class iinfo:
    """Limits of an integer dtype: bits, min, max."""

    def __init__(self, dtype: Any) -> None:
        name = getattr(dtype, "name", None)
        if name not in _INTS:
            raise TypeError(f"[iinfo] dtype: got {dtype!r}, expected one of {', '.join(_INTS)} (for floats there is finfo)")
        self.bits, signed = _INTS[name]
        self.dtype = name
        self.min = -(1 << (self.bits - 1)) if signed else 0
        self.max = (1 << (self.bits - signed)) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
