"""How an entry of the op table is written.

An `Op` says everything that the layers derive from it: the attribute structs of ``<hal/ops.h>``, the scalar
functions of ``<hal/pointwise.h>``, the dispatcher's table, the docs' support matrix and the conformance cases.
The reference that judges the devices (``conformance.reference``) evaluates nothing from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BOOL = ("bool",)
INTS = ("u8", "i8", "i16", "i32", "i64")
HALVES = ("f16", "bf16")
FLOATS = ("f16", "bf16", "f32", "f64")
NUMBERS = INTS + FLOATS
ALL = BOOL + INTS + FLOATS

#: Name -> value of HAL_<NAME> in <hal/base.h>.
DTYPE_CODES = {"bool": 1, "u8": 2, "i8": 3, "i16": 4, "i32": 5, "i64": 6, "f16": 7, "bf16": 8, "f32": 9, "f64": 10}

#: The type in which a dtype is computed: halves compute in f32 and round once at the end of each op.
COMPUTE_TYPE = {name: "f32" if name in HALVES else name for name in DTYPE_CODES}

#: The type in which a dtype is summed.
ACCUMULATOR = {name: "i64" if name in BOOL + INTS else "f64" if name == "f64" else "f32" for name in DTYPE_CODES}


@dataclass(frozen=True)
class Operand:
    """One operand.

    ``dtype``: "T" is the op's own dtype (that of the primary operand), "C" its compute type, "A" its accumulator type,
    "any" is free, else a fixed dtype name.
    ``kind``: "tensor"; "scalar" (always immediate); "either" (a tensor of dtype T, or an immediate of the compute type).
    """

    name: str
    dtype: str = "T"
    kind: str = "tensor"
    optional: bool = False


@dataclass(frozen=True)
class Attribute:
    """One field of the op's attribute struct. ``type`` is "i64" or "f64"; ``count`` > 1 makes an array."""

    name: str
    type: str = "i64"
    count: int = 1
    default: int | float = 0


@dataclass(frozen=True)
class Op:
    """One op. See the fields' comments; ``docs/numerics.md`` defines the bits."""

    name: str
    category: str  #: pointwise, cast, creation, reduction, normalization, matmul, convolution, pooling, loss, random, optimizer
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    dtypes: tuple[str, ...]  #: dtypes that the primary operand may have
    shape: str  #: name of the shape rule in hal/runtime/shape_rules.cpp
    primary: str  #: the operand whose dtype is the op's
    numerics: str  #: arithmetic (correctly rounded), function (fixed algorithm), chain, reduction, exact (no rounding), random
    attributes: tuple[Attribute, ...] = ()
    expr: dict[str, str] = field(default_factory=dict)  #: pointwise: dtype class ("float", "int", "bool") -> C expression
    backward_of: str | None = None
    doc: str = ""

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.inputs + self.outputs


def dtype_class(dtype: str) -> str:
    """The key into ``Op.expr`` for a dtype."""
    return "bool" if dtype in BOOL else "int" if dtype in INTS else "float"
