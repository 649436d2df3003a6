"""`Builder`: collects the kernels, launches and workspace of one plan."""

from __future__ import annotations

import hashlib
from string import Template
from typing import Any

from ..ops.spec import Op
from ..ops.table import BY_NAME
from .interface import Argument, Buffer, Operand, Plan, Step, Target, UnsupportedError, Workspace
from .types import ITEMSIZE
from .views import contiguous


def render(template: str, **names: Any) -> str:
    """``$name`` replaced; a name that is missing raises KeyError."""
    return Template(template).substitute(names)


def guarded(name: str, text: str) -> str:
    """Text that may stand several times in one translation unit."""
    macro = f"HAL_HAS_{name}"
    return f"#ifndef {macro}\n#define {macro}\n{text.strip()}\n#endif\n"


class Tensor:
    """A tensor that kernels of a plan read or write: an operand, or a piece of the workspace."""

    def __init__(self, argument: Argument, operand: Operand) -> None:
        self.argument = argument
        self.operand = operand
        self.dtype, self.shape, self.strides, self.offset = operand.dtype, operand.shape, operand.strides or (), operand.offset
        self.immediate = operand.immediate

    def view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None) -> Tensor:
        return Tensor(self.argument, Operand(self.dtype, shape, strides, self.offset if offset is None else offset, self.immediate))

    def transposed(self, order: list[int]) -> Tensor:
        return self.view(tuple(self.shape[d] for d in order), tuple(self.strides[d] for d in order))

    def as_bits(self) -> Tensor:
        """The same memory with values that are moved and not computed with."""
        return Tensor(self.argument, Operand(f"bits{8 * ITEMSIZE[self.dtype]}", self.shape, self.strides, self.offset, self.immediate))


_CLEAR = """
HAL_KERNEL(hal_clear_status, 1, (GLOBAL void *p, hal_i64 o)) {
  GLOBAL hal_i64 *status = HAL_PTR(hal_i64, p, o);
  HAL_ONE_LANE {
    status[0] = 0;
    status[1] = 0;
  }
}
"""


class Builder:
    def __init__(self, op: str, operands: list[Operand | None], attributes: dict[str, Any], target: Target) -> None:
        self.op = op
        self.operands = operands
        self.attributes = attributes
        self.target = target
        self.sources: dict[str, None] = {}
        self.steps: list[Step] = []
        self.workspace_bytes = 0
        self.workspace_peak = 0
        self.status: int | None = None
        self.status_text = ""

    def _tensor(self, k: int) -> Tensor:
        operand = self.operands[k]
        if operand is None:
            raise self.unsupported(f"operand {k}: got none, expected a tensor")
        return Tensor(Buffer(k), operand)

    @property
    def entry(self) -> Op:
        return BY_NAME[self.op]

    def input(self, k: int) -> Tensor:
        """Input number k. Raises UnsupportedError if it is absent."""
        return self._tensor(k)

    def require_immediate(self, *numbers: int) -> None:
        """Raises UnsupportedError unless these operands are immediate, as the op table says."""
        for k in numbers:
            operand = self.operands[k]
            if operand is None or not operand.immediate:
                raise self.unsupported(f"operand {k} ({self.entry.inputs[k].name}): got {operand}, expected an immediate")

    def optional(self, k: int) -> Tensor | None:
        return None if self.operands[k] is None else self._tensor(k)

    def output(self, k: int) -> Tensor:
        """Output number k."""
        return self._tensor(len(self.entry.inputs) + k)

    def attribute(self, name: str) -> Any:
        """An attribute, or its default: an int, a float, or a tuple of them."""
        declared = next(a for a in self.entry.attributes if a.name == name)
        value = self.attributes.get(name, declared.default)
        if declared.count > 1:
            return tuple(value) if isinstance(value, (tuple, list)) else (value,) * declared.count
        return value

    def source(self, text: str) -> None:
        """Adds a kernel's text once."""
        self.sources.setdefault(text)

    def step(self, kernel: str, groups: int, lanes: int, arguments: list[Argument]) -> None:
        """Appends a launch; none if there are no groups."""
        if groups > 0:
            self.steps.append(Step(kernel, groups, lanes if self.target.threads else 1, tuple(arguments)))

    def reserve(self, count: int) -> int:
        """Byte offset of ``count`` more bytes of workspace."""
        offset = self.workspace_bytes
        self.workspace_bytes = -(-(offset + count) // 256) * 256
        return offset

    def rewind(self, offset: int) -> None:
        """Gives back the workspace from ``offset`` on to steps yet to come: the queue runs in order."""
        self.workspace_peak = max(self.workspace_peak, self.workspace_bytes)
        self.workspace_bytes = offset

    def scratch(self, dtype: str, shape: tuple[int, ...]) -> Tensor:
        """A row-major tensor in the workspace."""
        count = 1
        for size in shape:
            count *= size
        return Tensor(Workspace(self.reserve(max(count, 1) * ITEMSIZE[dtype])), Operand(dtype, shape, contiguous(shape)))

    def raises(self, what: str, limit: int) -> Workspace:
        """Argument of the status words (see `Plan.status`), which the plan sets to 0 first. ``what`` isn't in [0, limit): the message."""
        if self.status is None:
            self.status = self.reserve(16)
            self.source(guarded("hal_clear_status", _CLEAR))
            self.steps.insert(0, Step("hal_clear_status", 1, 1, (Workspace(self.status),)))
        self.status_text = f"{what} out of range, expected 0 <= {what} < {limit}"
        return Workspace(self.status)

    def plan(self) -> Plan:
        return Plan(
            "\n".join(self.sources), tuple(self.steps), max(self.workspace_bytes, self.workspace_peak), self.status, self.status_text
        )

    def unsupported(self, text: str) -> UnsupportedError:
        return UnsupportedError(f"[{self.op}] {text}")


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
