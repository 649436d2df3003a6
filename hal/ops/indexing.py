"""Ops that move elements by index, and ops on the order of elements along one axis."""

from __future__ import annotations

from .spec import ALL, NUMBERS, Attribute, Op, Operand

_AXIS = (Attribute("axis"),)
_X = Operand("x")
_OUT = Operand("out")
_INDEX = Operand("index", "i64")

INDEXING = [
    Op("gather", "indexing", (_X, _INDEX), (_OUT,), ALL, "gather", "x", "exact", _AXIS,
       doc="out[…, i, …] = x[…, index[…, i, …], …] along the axis; equal ranks ≥ 1, index no larger than x in the other dimensions."),
    Op("scatter", "indexing", (_X, _INDEX, Operand("src")), (_OUT,), ALL, "scatter", "x", "exact", _AXIS,
       doc="x with out[…, index[…, i, …], …] = src[…, i, …]; of equal destinations the last i wins. index and src have one shape."),
    Op("scatter_add", "indexing", (Operand("src"), _INDEX), (_OUT,), NUMBERS, "given", "src", "chain", _AXIS, backward_of="gather",
       doc="Sums of src per destination, ascending i, in chains of 512; +0 where nothing goes. index and src have one shape."),
    Op("nonzero", "indexing", (Operand("x"),), (Operand("out", "i64"),), ("bool",), "given", "x", "exact",
       doc="Row-major numbers of the true elements, ascending; the caller gives out's size, which must be their count."),
]

ORDER = [
    Op("cumsum", "order", (_X,), (Operand("out", "A_or_T"),), ALL, "along_axis", "x", "reduction", _AXIS,
       doc="Running sums: serial in blocks of 4096, the block totals scanned by the same rule."),
    Op("sort", "order", (_X,), (_OUT, Operand("indices", "i64")), ALL, "along_axis", "x", "exact",
       (Attribute("axis"), Attribute("descending")),
       doc="Stable in both directions; NaN counts as larger than any number, −0 equals +0."),
    Op("topk", "order", (_X,), (_OUT, Operand("indices", "i64")), ALL, "along_axis", "x", "exact",
       (Attribute("axis"), Attribute("k"), Attribute("largest", default=1)), doc="The first k of sort(descending = largest)."),
]  # fmt: skip
