"""Pointwise ops, and programs of them: a chain of ops as one kernel, with the bits of the ops run one by one."""

from __future__ import annotations

from dataclasses import dataclass

from ..ops.generate import scalar_function
from ..ops.spec import Op
from ..ops.table import BY_NAME
from .build import Builder, Tensor, guarded
from .elementwise import elementwise
from .interface import Operand, UnsupportedError
from .types import cast, compute, register, rounded

#: Ops of one operand whose result is a value of T whenever the operand is: nothing to round.
_CLOSED = frozenset({"neg", "abs", "sign", "relu", "floor", "ceil", "trunc", "round"})


@dataclass(frozen=True)
class Instruction:
    """One op of a program. ``dtype``: the op's T; ``arguments``: numbers of values; ``to``: of a cast, the dtype it gives."""

    op: str
    dtype: str
    arguments: tuple[int, ...]
    to: str = ""


@dataclass(frozen=True)
class Program:
    """A chain (any acyclic graph) of pointwise ops over one broadcast shape.

    Values are numbered: first the inputs, then one per instruction, in order. ``inputs``: dtype of each input (of an immediate too: its
    tensor's T, not the compute type). ``outputs``: numbers of the values that are written. The proposal for the ABI's encoding of this
    stands in docs/decisions/.
    """

    inputs: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    def dtypes(self) -> tuple[str, ...]:
        """Dtype of every value. Raises UnsupportedError for an instruction that isn't well formed."""
        known = list(self.inputs)
        for instruction in self.instructions:
            known.append(_result(instruction, known))
        return tuple(known)


def _result(instruction: Instruction, known: list[str]) -> str:
    if instruction.op == "cast":
        return instruction.to
    op = BY_NAME.get(instruction.op)
    if op is None or op.category != "pointwise":
        raise UnsupportedError(f"[program] op: got {instruction.op!r}, expected a pointwise op or cast")
    if instruction.dtype not in op.dtypes:
        raise UnsupportedError(f"[program] {op.name}: got dtype {instruction.dtype}, expected one of {', '.join(op.dtypes)}")
    expected = tuple("bool" if i.dtype == "bool" else instruction.dtype for i in op.inputs)
    if not all(0 <= a < len(known) for a in instruction.arguments):
        raise UnsupportedError(f"[program] {op.name}: got arguments {instruction.arguments}, expected numbers of earlier values")
    got = tuple(known[a] for a in instruction.arguments)
    if got != expected:
        raise UnsupportedError(f"[program] {op.name}: got operands of {', '.join(got)}, expected {', '.join(expected)}")
    return "bool" if op.outputs[0].dtype == "bool" else instruction.dtype


def scalar_source(op: Op, compute_type: str) -> str:
    """The op on one element, as hal_op_<name>_<compute type>."""
    return guarded(f"op_{op.name}_{compute_type}", scalar_function(op, compute_type))


def _statement(instruction: Instruction, known: list[str], result: str) -> str:
    arguments = [f"v{a}" for a in instruction.arguments]
    if instruction.op == "cast":
        return cast(known[instruction.arguments[0]], instruction.to, arguments[0])
    call = f"hal_op_{instruction.op}_{compute(instruction.dtype)}({', '.join(arguments)})"
    return call if result == "bool" or instruction.op in _CLOSED else rounded(instruction.dtype, call)


def program(b: Builder, p: Program, inputs: list[Tensor], outputs: list[Tensor], label: str = "program") -> None:
    """Adds the program's kernel over the outputs' shape."""
    known = list(p.dtypes())
    body, preamble = [], []
    for k, instruction in enumerate(p.instructions):
        n = len(p.inputs) + k
        if instruction.op != "cast":
            preamble.append(scalar_source(BY_NAME[instruction.op], compute(instruction.dtype)))
        body.append(f"        const {register(known[n])} v{n} = {_statement(instruction, known, known[n])};")
    body += [f"        out{j} = v{n};" for j, n in enumerate(p.outputs)]
    shape = outputs[0].shape
    named = [(f"v{k}", typed(t, dtype)) for k, (t, dtype) in enumerate(zip(inputs, p.inputs))]
    elementwise(b, label, shape, named, [(f"out{j}", t) for j, t in enumerate(outputs)], "\n".join(body), preamble=preamble)


def typed(t: Tensor, dtype: str) -> Tensor:
    """An immediate under the dtype of the tensor that it stands for (its bits are of the compute type)."""
    if not t.immediate or t.dtype == dtype:
        return t
    return Tensor(t.argument, Operand(dtype, immediate=True))


def pointwise(b: Builder) -> None:
    """Any op of the table's category pointwise."""
    op = BY_NAME[b.op]
    out = b.output(0)
    tensors = [b.input(k) for k in range(len(op.inputs))]
    dtype = next((t.dtype for t, i in zip(tensors, op.inputs) if i.dtype == "T" and not t.immediate), out.dtype)
    dtypes = tuple("bool" if i.dtype == "bool" else dtype for i in op.inputs)
    chain = Program(dtypes, (Instruction(op.name, dtype, tuple(range(len(dtypes)))),), (len(dtypes),))
    program(b, chain, tensors, [out], f"{op.name}_{dtype}")
