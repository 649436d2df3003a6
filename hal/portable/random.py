"""Random numbers (section 10 of docs/numerics.md): element i is a function of the seed, the offset and i."""

from __future__ import annotations

from .build import Builder
from .elementwise import elementwise
from .interface import Immediate
from .types import cast, compute, rounded

_UNIFORM = {
    "f32": "hal_uniform_f32(hal_philox_word((hal_u64)seed, (hal_u64)(offset + i)))",
    "f16": "hal_uniform_f16(hal_philox_word((hal_u64)seed, (hal_u64)(offset + i)))",
    "bf16": "hal_uniform_bf16(hal_philox_word((hal_u64)seed, (hal_u64)(offset + i)))",
    "f64": "hal_uniform_f64(hal_philox_word((hal_u64)seed, (hal_u64)(offset + 2 * i)),"
    " hal_philox_word((hal_u64)seed, (hal_u64)(offset + 2 * i + 1)))",
}

_NORMAL_F32 = """
        const hal_u64 word = (hal_u64)(offset + (i & ~(hal_i64)1));
        const hal_philox4 w = hal_philox_block((hal_u64)seed, word >> 2);
        const hal_pair_f32 pair = (word & 2u) ? hal_normal_pair_f32(w.v2, w.v3) : hal_normal_pair_f32(w.v0, w.v1);"""

_NORMAL_F64 = """
        const hal_philox4 w = hal_philox_block((hal_u64)seed, (hal_u64)(offset + 4 * (i >> 1)) >> 2);
        const hal_pair_f64 pair = hal_normal_pair_f64(w.v0, w.v1, w.v2, w.v3);"""


def _random(b: Builder, body: str, names: list[tuple[str, str]]) -> None:
    b.require_immediate(*range(2 + len(names)))
    out = b.output(0)
    immediates = [(n, d, Immediate(k)) for k, (n, d) in enumerate([("seed", "i64"), ("offset", "i64"), *names])]
    elementwise(b, f"{b.op}_{out.dtype}", out.shape, [], [("out", out)], body, immediates=immediates, work=4)


def uniform(b: Builder) -> None:
    dtype = b.output(0).dtype
    c = compute(dtype)
    _random(b, f"        out = {rounded(dtype, f'low + {_UNIFORM[dtype]} * (high - low)')};", [("low", c), ("high", c)])


def normal(b: Builder) -> None:
    dtype = b.output(0).dtype
    c = compute(dtype)
    pair = _NORMAL_F64 if c == "f64" else _NORMAL_F32
    _random(b, f"{pair}\n        out = {rounded(dtype, 'mean + std * ((i & 1) ? pair.lo : pair.hi)')};", [("mean", c), ("std", c)])


def bernoulli(b: Builder) -> None:
    _random(b, f"        out = (hal_u8)({_UNIFORM['f32']} < p);", [("p", "f32")])


def integer(b: Builder) -> None:
    """low + floor(w · (high - low) / 2^32): the product of a 32-bit word and at most 2^32 fits 64 bits."""
    dtype = b.output(0).dtype
    body = f"""        const hal_u64 w = hal_philox_word((hal_u64)seed, (hal_u64)(offset + i));
        const hal_i64 value = low + (hal_i64)((w * (hal_u64)(high - low)) >> 32);
        out = {cast("i64", dtype, "value")};"""
    _random(b, body, [("low", "i64"), ("high", "i64")])
