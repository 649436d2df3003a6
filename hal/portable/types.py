"""Dtypes in the dialect: C types, and how values go between memory and registers."""

from __future__ import annotations

from ..ops.spec import ACCUMULATOR, COMPUTE_TYPE

ITEMSIZE = {
    "bool": 1,
    "u8": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "bits8": 1,
    "bits16": 2,
    "bits32": 4,
    "bits64": 8,
}

#: What lies in memory.
STORAGE = {
    "bool": "hal_u8", "u8": "hal_u8", "i8": "hal_i8", "i16": "hal_i16", "i32": "hal_i32", "i64": "hal_i64", "f16": "hal_u16",
    "bf16": "hal_u16", "f32": "hal_f32", "f64": "hal_f64", "bits8": "hal_u8", "bits16": "hal_u16", "bits32": "hal_u32", "bits64": "hal_u64",
}  # fmt: skip


def compute(dtype: str) -> str:
    """C(T); bits stay bits."""
    return COMPUTE_TYPE.get(dtype, dtype)


def accumulator(dtype: str) -> str:
    """A(T)."""
    return ACCUMULATOR[dtype]


def register(dtype: str) -> str:
    """C type in which a value of a dtype is computed."""
    return STORAGE[compute(dtype)]


def bits(dtype: str) -> str:
    """The pseudo dtype under which a value is moved unchanged."""
    return f"bits{8 * ITEMSIZE[dtype]}"


def load(dtype: str, expr: str) -> str:
    """From memory to C(T)."""
    return f"hal_{dtype}_to_f32({expr})" if dtype in ("f16", "bf16") else expr


def store(dtype: str, expr: str) -> str:
    """From C(T) to memory, rounded once."""
    return f"hal_f32_to_{dtype}({expr})" if dtype in ("f16", "bf16") else expr


def rounded(dtype: str, expr: str) -> str:
    """A value of C(T) as it is after having been stored and loaded."""
    return load(dtype, store(dtype, expr))


def immediate(dtype: str, expr: str) -> str:
    """From the bits in a hal_i64 to C(T). ``dtype``: that of the tensor that the immediate stands for."""
    c = compute(dtype)
    if c == "f32":
        return f"hal_f32_from_bits((hal_u32)({expr}))"
    if c == "f64":
        return f"hal_f64_from_bits((hal_u64)({expr}))"
    if c == "bool":
        return f"(hal_u8)((({expr}) & 255) != 0)"
    return f"({STORAGE[c]})({expr})"


def cast(source: str, to: str, expr: str) -> str:
    """Section 2 of docs/numerics.md: from a value of C(source) to one of C(to), rounded once to ``to``."""
    c, floats = compute(source), ("f32", "f64")
    if to == "bool":
        return f"(hal_u8)(({expr}) != 0)"
    if to in ("f16", "bf16"):
        wide = c if c in ("f32", "f64", "i64") else "f32" if c in ("bool", "u8", "i8", "i16") else "i64"
        value = expr if wide == c else f"({STORAGE[wide]})({expr})"
        return f"hal_{to}_to_f32(hal_{wide}_to_{to}({value}))"
    if c in floats and to not in floats:
        return f"hal_{c}_to_{to}({expr})"
    return f"({STORAGE[to]})({expr})"
