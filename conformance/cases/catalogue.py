"""Which drafts an op has: by name, else by its category in the op table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hal.ops.spec import Op
from hal.ops.table import BY_NAME, OPS

from .case import Case, Draft
from .chains import convolution, matmul, pooling, random_numbers
from .indexing import indexing, nonzero, order
from .normalization import averages, batch_norm, layer_norm
from .pointwise import aranges, casts, copies, fills, optimizer, pointwise
from .rows import along_axis, nll_loss, reductions

Maker = Callable[[Op, str], Iterator[Draft]]

_BY_NAME: dict[str, Maker] = {"copy": copies, "cast": casts, "fill": fills, "arange": aranges, "nonzero": nonzero}
_BY_CATEGORY: dict[str, Maker] = {
    "pointwise": pointwise,
    "reduction": reductions,
    "normalization": along_axis,
    "layer_norm": layer_norm,
    "batch_norm": batch_norm,
    "average_pooling": averages,
    "loss": nll_loss,
    "matmul": matmul,
    "convolution": convolution,
    "pooling": pooling,
    "random": random_numbers,
    "optimizer": optimizer,
    "indexing": indexing,
    "order": order,
}


def supported() -> list[tuple[str, str]]:
    """Every (op, dtype) of the op table."""
    return [(op.name, dtype) for op in OPS for dtype in op.dtypes]


def drafts(op: str, dtype: str) -> Iterator[Draft]:
    """What cases an op has in a dtype; none if nobody wrote any (a test forbids that)."""
    entry = BY_NAME[op]
    maker = _BY_NAME.get(op) or _BY_CATEGORY.get(entry.category)
    yield from maker(entry, dtype) if maker else ()


def cases(op: str, dtype: str) -> Iterator[Case]:
    """The cases of an op in one dtype, built one after another."""
    for draft in drafts(op, dtype):
        yield draft.case(op, dtype)


def find(case_id: str) -> Case:
    """The case of an id like ``add-f16-broadcast-3``. Raises KeyError."""
    op, dtype, label = case_id.split("-", 2)
    for draft in drafts(op, dtype):
        if draft.label == label:
            return draft.case(op, dtype)
    raise KeyError(f"[conformance] no such case: got {case_id}")
