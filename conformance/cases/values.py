"""Values and layouts that cases are made of."""

from __future__ import annotations

from math import prod

import numpy as np

from ..dtypes import FLOATS, HALVES, NUMPY, limits
from .case import View

Rng = np.random.Generator

#: Layouts of one operand; ``place`` says what they are.
LAYOUTS = ("contiguous", "offset", "padded", "transposed", "stepped", "reversed", "mixed")

_FRACTION_BITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def special_values(dtype: str) -> np.ndarray:
    """Zeros, subnormals, infinities, NaN, extremes, ties and integer limits of a dtype, each once."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype not in FLOATS:
        low, high = limits(dtype)
        values = {low, low + 1, high, high - 1, high // 2, 0, 1, 2, 3, 5, 7, 10, 100}
        values |= {-v for v in (1, 2, 3, 5, 7, 10, 100)} if low < 0 else set()
        return np.array(sorted(values), NUMPY[dtype])
    fraction, width = _FRACTION_BITS[dtype], _WIDTH[dtype]
    one_exponent = (1 << (width - 2 - fraction)) - 1
    one, infinity = one_exponent << fraction, ((1 << (width - 1 - fraction)) - 1) << fraction
    bits = [0, 1, 2, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1]  # zero, subnormals, least normals
    bits += [one - 1, one, one + 1, one + (1 << (fraction - 1)), one + (1 << fraction), one - (1 << fraction)]  # around 1, 1.5, 2, 0.5
    bits += [
        one + (1 << fraction) + (1 << (fraction - 2)),
        one + fraction * (1 << fraction),
        one + fraction * (1 << fraction) + 1,
    ]  # 2.5, 2^p
    bits += [
        infinity - 1,
        infinity,
        infinity | (1 << (fraction - 1)),
        infinity - (2 << fraction),
        one + (4 << fraction) + 12345 % (1 << fraction),
    ]
    values = np.array(bits + [b | 1 << (width - 1) for b in bits], _UNSIGNED[width]).view(NUMPY[dtype])
    return np.concatenate([values, np.array([0.1, -3.0, 3.0, 10.0, 88.0, -104.0, 0.3, 2.7182817], NUMPY[dtype])])


def random_bits(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Every bit pattern equally likely."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    itemsize = NUMPY[dtype].itemsize
    return np.frombuffer(rng.bytes(prod(shape) * itemsize), NUMPY[dtype]).reshape(shape).copy()


def bell(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """f64 around 0, of deviation 1: the sum of three uniforms. Only + − ×, so the same bits on every machine, unlike a libm's."""
    return 2 * (rng.random(shape) + rng.random(shape) + rng.random(shape) - 1.5)


def moderate(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Floats of magnitude around 1, integers of the whole range."""
    if dtype in FLOATS:
        return (bell(rng, shape) * rng.choice([0.25, 1.0, 4.0])).astype(NUMPY[dtype])
    return random_bits(rng, dtype, shape)


def small_integers(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Few different values, so that there are ties; −0 among them for floats."""
    if dtype == "bool":
        return random_bits(rng, dtype, shape)
    low = 0 if dtype == "u8" else -3
    values = rng.integers(low, 4, shape).astype(NUMPY[dtype])
    return np.where(rng.random(shape) < 0.5, values, -values) if dtype in FLOATS else values


def specials(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice(special_values(dtype), shape)


def wide(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Finite floats whose exponents differ much, so that the order of a sum shows; integers of the whole range."""
    if dtype not in FLOATS:
        return random_bits(rng, dtype, shape)
    scale = 3 if dtype in HALVES else 6
    return np.ldexp(bell(rng, shape), rng.integers(-scale, scale + 1, shape)).astype(NUMPY[dtype])


def mixture(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Mostly moderate values, some of any bits, some special."""
    choice = rng.random(shape)
    out = np.where(choice < 0.6, moderate(rng, dtype, shape), random_bits(rng, dtype, shape))
    return np.where(choice > 0.8, specials(rng, dtype, shape), out)


def place(array: np.ndarray, layout: str, rng: Rng) -> View:
    """Storage with `array` as its strided content; what lies between is random.

    offset: some elements before; padded: rows with a gap after; transposed: last axis outermost; stepped: every second element;
    reversed: negative strides; mixed: axes permuted, first reversed, last stepped by 3.
    """
    shape = array.shape
    if layout == "contiguous" or array.size == 0:
        index = np.arange(array.size).reshape(shape)
        total = array.size
    elif layout == "offset":
        total = array.size + 8
        index = np.arange(total)[3 : 3 + array.size].reshape(shape)
    elif array.ndim == 0:
        total = 5
        index = np.arange(total)[2:3].reshape(())
    elif layout == "padded":
        storage = (*shape[:-1], shape[-1] + 3)
        total = prod(storage)
        index = np.arange(total).reshape(storage)[..., 1 : 1 + shape[-1]]
    elif layout == "transposed":
        total = array.size
        index = np.arange(total).reshape(shape[::-1]).T
    elif layout == "stepped":
        storage = (*shape[:-1], 2 * shape[-1])
        total = prod(storage)
        index = np.arange(total).reshape(storage)[..., ::2]
    elif layout == "reversed":
        total = array.size
        index = np.arange(total).reshape(shape)[(slice(None, None, -1),) * array.ndim]
    elif layout == "mixed":
        rotated = (*shape[1:], 3 * shape[0])
        total = prod(rotated)
        index = np.moveaxis(np.arange(total).reshape(rotated)[..., ::3], -1, 0)[::-1]
    else:
        raise ValueError(f"[cases] no such layout: got {layout}, expected one of {', '.join(LAYOUTS)}")
    base = garbage(rng, array.dtype, total)
    base[index] = array
    strides = tuple(s // index.itemsize for s in index.strides)
    return View(base, shape, strides, int(index.reshape(-1)[0]) if array.size else 0)


def garbage(rng: Rng, dtype: np.dtype, count: int) -> np.ndarray:
    """Storage before anything is written: valid but arbitrary."""
    if dtype == np.bool_:
        return rng.integers(0, 2, count).astype(bool)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()


def empty_output(rng: Rng, dtype: str, shape: tuple[int, ...], layout: str) -> View:
    """A view to be written."""
    return place(garbage(rng, NUMPY[dtype], prod(shape)).reshape(shape), layout, rng)
