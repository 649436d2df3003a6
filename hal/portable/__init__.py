"""The portable kernel library: every op of the table as kernels in one dialect of C, for a plugin that can compile and launch.

>>> target = Target("opencl")
>>> x = Operand("f32", (4, 3))
>>> p = plan("exp", [x, x], {}, target)
>>> module = compile(prelude(target) + p.source)            # once per p.key
>>> for step in p.steps:                                    # in order, on an in-order queue
...     launch(module, step.kernel, step.global_size, step.group_size, step.arguments)

Results are those of docs/numerics.md, bit for bit, under the compiler flags that hal/numerics/prelude.h names. `Plan`, `Step` and the
argument classes say what a launch has to pass; `dialect.py` documents the dialect. With C++ a kernel ``k`` is
``extern "C" void k(int64_t begin, int64_t end, void **arguments)``, which runs groups begin … end - 1; disjoint ranges may run on
several threads.

Shapes, strides, axes, paddings and other numbers are arguments; dtypes and attributes that change code make the key. So keys are few,
and `library` lists them all for a build ahead of time (``python -m hal.portable --target opencl --out DIR`` writes them with a manifest).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import dispatch
from .dialect import prelude
from .interface import Argument, Block, Buffer, Immediate, Operand, Plan, Scalar, Step, Target, UnsupportedError, Workspace
from .pointwise import Instruction, Program

__all__ = [
    "Argument",
    "Block",
    "Buffer",
    "Immediate",
    "Instruction",
    "Operand",
    "Plan",
    "Program",
    "Scalar",
    "Step",
    "Target",
    "UnsupportedError",
    "Workspace",
    "library",
    "plan",
    "plan_program",
    "prelude",
    "supports",
]


def plan(op: str, operands: Sequence[Operand | None], attributes: dict[str, Any] | None, target: Target) -> Plan:
    """How to compute ``op`` on a target.

    ``operands``: inputs, then outputs, as the op table orders them; absent optional ones are None. Outputs have their final shape and may
    be strided; an output may share an input's memory where the op is pointwise or an optimizer step and both have the same strides.
    Raises UnsupportedError.
    """
    return dispatch.plan(op, list(operands), dict(attributes or {}), target)


def plan_program(program: Program, operands: Sequence[Operand], target: Target) -> Plan:
    """The same for a fused program: ``operands`` are its inputs, then its outputs. Raises UnsupportedError."""
    return dispatch.plan_program(program, list(operands), target)


def supports(op: str, operands: Sequence[Operand | None], attributes: dict[str, Any] | None = None, target: Target | None = None) -> bool:
    """Whether `plan` would answer (default target: one with f64)."""
    try:
        plan(op, operands, attributes, target or Target("c++"))
    except UnsupportedError:
        return False
    return True


def library(target: Target) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """Every (key, source, {kernel: argument types}) that `plan` can ask for on a target, for a build ahead of time."""
    from .catalogue import library as entries

    return entries(target)
