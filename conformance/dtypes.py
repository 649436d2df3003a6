"""Short dtype names and the numpy types that hold them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

NUMPY: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "u8": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
NAMES: dict[np.dtype, str] = {dtype: name for name, dtype in NUMPY.items()}
INTS = ("u8", "i8", "i16", "i32", "i64")
HALVES = ("f16", "bf16")
FLOATS = ("f16", "bf16", "f32", "f64")


def name_of(array: np.ndarray) -> str:
    """``"f32"`` of a float32 array, and so on. Raises TypeError for a type that isn't in the contract."""
    try:
        return NAMES[array.dtype]
    except KeyError:
        raise TypeError(f"[conformance] unknown dtype: got {array.dtype}, expected one of {', '.join(NUMPY)}") from None


def compute_type(dtype: str) -> str:
    """C(T) of section 1."""
    return "f32" if dtype in HALVES else dtype


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer dtype."""
    info = np.iinfo(NUMPY[dtype])
    return int(info.min), int(info.max)
