"""What kernels are told: operands at prepare, tensors at launch; and the decorator that registers a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from .. import _core


class Operand(NamedTuple):
    """An operand of an op as `prepare` sees it: everything but its place in memory."""

    kind: Literal["input", "output", "immediate", "absent"]  #: immediate: a number that comes with each launch
    dtype: str  #: short name; "" if absent
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: in elements; 0 (broadcast) and negative ones occur

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n


class Tensor(NamedTuple):
    """An operand at launch: where its element [0, …, 0] is, and its layout."""

    memory: Any  #: what `Plugin.alloc` returned
    offset: int  #: bytes
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: in elements


@dataclass(frozen=True)
class KernelInfo:
    """A row of the registry, kept on the function that `kernel` marks."""

    op: str
    dtypes: tuple[str, ...]
    layouts: str
    numerics: str


Function = TypeVar("Function", bound=Callable[..., None])

FLOATS = ("f16", "bf16", "f32", "f64")
ALL_DTYPES = ("bool", "u8", "i8", "i16", "i32", "i64", *FLOATS)


def kernel(
    op: str,
    *,
    dtypes: Sequence[str] = ALL_DTYPES,
    layouts: Literal["strided", "contiguous"] = "strided",
    numerics: Literal["reproducible", "fast"] = "reproducible",
) -> Callable[[Function], Function]:
    """Marks a method of a `Plugin` as the device's kernel for an op, before the portable one.

    The method is called as ``method(stream, attributes, operands)``: the stream's object; a dict by the op table's names; and one entry
    per operand, inputs first: a `Tensor`, a Python number (an immediate), or None (an optional operand left out). It computes into the
    outputs' memory and returns nothing. ``dtypes`` are those of the op's primary operand; others run as without this kernel.

    layouts: "contiguous": the runtime copies operands that are not row-major before and after. numerics: "reproducible" promises the
    bits of docs/numerics.md, "fast" is used under ``hal.numerics("fast")`` only. To decline a use, raise `hal.UnsupportedError` from
    ``Plugin.accepts``.

    Raises ValueError for an unknown op, dtype, layout or numerics class.
    """
    import difflib

    def check(what: str, value: str, valid: Sequence[str]) -> None:
        if value not in valid:
            near = difflib.get_close_matches(value, valid, 3) or list(valid)[:6]
            raise ValueError(f"[kernel] unknown {what}: got {value!r}, nearest: {', '.join(near)}")

    if op not in (known := [row["name"] for row in _core.op_table()]):
        check("op", op, known)
    for dtype in dtypes:
        check("dtype", dtype, ALL_DTYPES)
    check("layout", layouts, ("strided", "contiguous"))
    check("numerics class", numerics, ("reproducible", "fast"))

    def mark(function: Function) -> Function:
        rows = list(getattr(function, "__hal_kernels__", ()))
        rows.append(KernelInfo(op, tuple(dtypes), layouts, numerics))
        function.__hal_kernels__ = rows  # type: ignore[attr-defined]
        return function

    return mark


_core.set_plugin_operand_type(Operand)
