"""Operands for the kernel tests: seeded values, special values, and one array in many memory layouts."""

from __future__ import annotations

import zlib

import numpy as np
from chain_reference import DTYPES

import hal

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("u8", "i8", "i16", "i32", "i64")
LAYOUTS = ("contiguous", "swapped", "stepped", "negative", "offset")


def rng(*key: object) -> np.random.Generator:
    """Seeded by the case itself."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def values(shape: tuple[int, ...], dtype: str, random: np.random.Generator, special: float = 0.0) -> np.ndarray:
    """Normal floats or full-range integers; a share `special` of inf, NaN, ±0, subnormals and huge values."""
    kind = DTYPES[dtype]
    if dtype in INTEGERS:
        info = np.iinfo(kind)
        return random.integers(info.min, info.max, shape, kind, endpoint=True)
    out = random.standard_normal(shape).astype(kind)
    if special:
        tiny, huge = {"f16": (6e-8, 6e4), "bf16": (1e-40, 3e38), "f32": (1e-40, 3e38), "f64": (1e-310, 1e308)}[dtype]
        pool = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, tiny, -tiny, huge, -huge]).astype(kind)
        mask = random.random(shape) < special
        out[mask] = random.choice(pool, int(mask.sum()))
    return out


def placed(a: np.ndarray, layout: str) -> hal.Array:
    """`a` on the device, its elements laid out in memory as `layout` says."""
    if layout == "contiguous" or a.ndim == 0:
        return hal.array(a)
    if layout == "swapped":  # the last two axes
        base = np.ascontiguousarray(a.swapaxes(-1, -2))
        view = base.swapaxes(-1, -2)
    elif layout == "stepped":
        base = np.zeros(tuple(2 * d for d in a.shape), a.dtype)
        view = base[tuple(slice(None, None, 2) for _ in a.shape)]
        view[...] = a
    elif layout == "negative":
        base = np.ascontiguousarray(a[tuple(slice(None, None, -1) for _ in a.shape)])
        view = base[tuple(slice(None, None, -1) for _ in a.shape)]
    else:
        base = np.zeros(tuple(d + 3 for d in a.shape), a.dtype)
        view = base[tuple(slice(1, d + 1) for d in a.shape)]
        view[...] = a
    if a.size == 0:
        return hal.array(a)
    offset = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // a.itemsize
    return hal.array(base.reshape(-1)).as_strided(a.shape, tuple(s // a.itemsize for s in view.strides), offset)


def run(
    op: str, inputs: list[hal.Array], out_shape: tuple[int, ...], dtype: str, layout: str = "contiguous", **attributes: object
) -> np.ndarray:
    """Runs `op` into an output of the given layout that held other values before."""
    out = placed(np.full(out_shape, 77, DTYPES[dtype]), layout)
    hal.run(op, inputs, attributes, [out])
    return out.numpy()
