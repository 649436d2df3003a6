"""`library`: every kernel that plans of a target can ask for, found by planning each op on representative operands.

What makes a key: the op, the dtypes, which optional operands are there, and the attributes named in ``_IN_KEY``. Everything else is an
argument, so one set of small shapes finds all; tensors of more than 8 dimensions that can't be merged have kernels of their own
and are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from ..ops.spec import ACCUMULATOR, COMPUTE_TYPE, DTYPE_CODES, Op
from ..ops.table import OPS
from .dispatch import plan
from .interface import Operand, Plan, Target
from .signatures import signatures

#: Attributes that change code (their values), by op.
_IN_KEY: dict[str, dict[str, tuple[int, ...]]] = {
    "sgd_step": {"nesterov": (0, 1), "maximize": (0, 1), "first_step": (0, 1)},
    "adam_step": {"decoupled_weight_decay": (0, 1), "amsgrad": (0, 1), "maximize": (0, 1)},
    "sort": {"descending": (0, 1)},
    "topk": {"largest": (0, 1)},
}

#: Shapes of the operands (inputs, outputs) that reach all kernels; others get one of (3,).
_SHAPES: dict[str, tuple[tuple[tuple[int, ...], ...], ...]] = {
    "matmul": (((2, 3), (3, 4), (2, 4)),),
    "conv2d": (((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 3, 3)),),
    "conv2d_input_grad": (((1, 3, 3, 3), (3, 2, 3, 3), (1, 2, 5, 5)),),
    "conv2d_weight_grad": (((1, 3, 3, 3), (1, 2, 5, 5), (3, 2, 3, 3)),),
    "adaptive_avg_pool2d": (((1, 2, 5, 5), (1, 2, 2, 2)), ((1, 2, 4, 4), (1, 2, 2, 2))),
    "nll_loss": (((3, 4), (3,), (3,)),),
    "nll_loss_backward": (((3,), (3,), (3, 4)),),
    "cumsum": (((5000,), (5000,)),),
    "nonzero": (((5,), (3,)),),
    "max_pool2d_backward": (((1, 1, 4, 4), (1, 1, 4, 4), (1, 1, 4, 4)),),
}
_PLANES = ("pooling", "average_pooling")


def _shapes(op: Op) -> tuple[tuple[tuple[int, ...], ...], ...]:
    count = len(op.operands)
    if op.name in _SHAPES:
        return _SHAPES[op.name]
    if op.category in _PLANES:
        return (((1, 1, 4, 4),) * count,)
    if op.category == "layer_norm":
        inner, rows = (5000,), (2, 1)
        matrix = (2, 5000)
        named = {"weight": inner, "bias": inner, "weight_grad": inner, "bias_grad": inner, "mean": rows, "rstd": rows}
        return (tuple(named.get(o.name, matrix) for o in op.operands),)
    if op.category == "batch_norm":
        whole = (2, 3, 5000)
        return (tuple(whole if o.name in ("x", "grad", "out") else (3,) for o in op.operands),)
    if op.category == "reduction":
        return (((5000,), (1,)),)
    if op.category == "normalization":
        return (((5000,),) * count,)
    return (((3,),) * count,)


def _dtype(op: Op, k: int, dtype: str, to: str) -> str:
    rule = op.operands[k].dtype
    return {"T": dtype, "C": COMPUTE_TYPE[dtype], "A": ACCUMULATOR[dtype], "any": to}.get(rule) or (
        (ACCUMULATOR[dtype] if ACCUMULATOR[dtype] == "i64" else dtype) if rule == "A_or_T" else rule
    )


def representatives(op: Op, dtype: str) -> Iterator[tuple[list[Operand | None], dict[str, Any]]]:
    """Operands and attributes whose plans hold every kernel of an op in a dtype."""
    options = _IN_KEY.get(op.name, {})
    optional = [k for k, o in enumerate(op.operands) if o.optional]
    targets = tuple(DTYPE_CODES) if op.name == "cast" else ("",)
    for shapes, to, values, present in product(
        _shapes(op), targets, product(*options.values()), product((True, False), repeat=len(optional))
    ):
        attributes: dict[str, Any] = dict(zip(options, values))
        here = dict(zip(optional, present))
        operands: list[Operand | None] = []
        for k, declared in enumerate(op.operands):
            if not here.get(k, True):
                operands.append(None)
            elif declared.kind == "scalar":
                operands.append(Operand(_dtype(op, k, dtype, to), immediate=True))
            else:
                operands.append(Operand(_dtype(op, k, dtype, to), shapes[k]))
        if op.category == "optimizer" and not _belong(op, attributes, here):
            continue
        if op.name in ("topk",):
            attributes["k"] = 3
        if op.category == "reduction":
            attributes["axes"] = 1
        yield operands, attributes


def _belong(op: Op, attributes: dict[str, Any], here: dict[int, bool]) -> bool:
    """Whether optional operands of an optimizer step go together: state in, state out, and the attribute that asks for it."""
    if len(set(here.values())) > 1:
        return False
    return op.name != "adam_step" or bool(attributes["amsgrad"]) == all(here.values())


def plans(target: Target) -> Iterator[Plan]:
    """One plan per key."""
    seen: set[str] = set()
    for op in OPS:
        for dtype in op.dtypes:
            for operands, attributes in representatives(op, dtype):
                if not target.f64 and any(o is not None and o.dtype == "f64" for o in operands):
                    continue
                found = plan(op.name, operands, attributes, target)
                if found.key not in seen:
                    seen.add(found.key)
                    yield found


def library(target: Target) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """See `hal.portable.library`."""
    for found in plans(target):
        yield found.key, found.source, signatures(found.source)
