"""copy, cast, fill and arange."""

from __future__ import annotations

from .build import Builder, Tensor
from .elementwise import elementwise
from .interface import Immediate
from .pointwise import Instruction, Program, program
from .types import ITEMSIZE, bits, compute, rounded


def copy_tensor(b: Builder, x: Tensor, out: Tensor) -> None:
    """Moves values unchanged between any two strided operands of one shape."""
    elementwise(b, f"copy_{8 * ITEMSIZE[x.dtype]}", out.shape, [("x", x.as_bits())], [("out", out.as_bits())], "        out = x;")


def copy(b: Builder) -> None:
    copy_tensor(b, b.input(0), b.output(0))


def cast(b: Builder) -> None:
    x, out = b.input(0), b.output(0)
    program(b, Program((x.dtype,), (Instruction("cast", x.dtype, (0,), out.dtype),), (1,)), [x], [out], f"cast_{x.dtype}_{out.dtype}")


def fill(b: Builder) -> None:
    out = b.output(0)
    b.require_immediate(0)
    kind = bits(out.dtype)
    elementwise(
        b,
        f"fill_{8 * ITEMSIZE[out.dtype]}",
        out.shape,
        [],
        [("out", out.as_bits())],
        "        out = value;",
        immediates=[("value", kind, Immediate(0))],
    )


def arange(b: Builder) -> None:
    out = b.output(0)
    c = compute(out.dtype)
    if c in ("f32", "f64"):
        body = f"        out = {rounded(out.dtype, f'start + (hal_{c})i * step')};"
    else:
        body = f"        out = (hal_{c})((hal_u64)(hal_i64)start + (hal_u64)i * (hal_u64)(hal_i64)step);"
    named = [("start", c, Immediate(0)), ("step", c, Immediate(1))]
    elementwise(b, f"arange_{out.dtype}", out.shape, [], [("out", out)], body, immediates=named)
