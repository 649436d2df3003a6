"""Which function plans an op. To add an op: its family's file gets a function of a `Builder`, and this table a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.table import BY_NAME
from . import convolution, data, indexing, loss, matmul, norms, optimizer, order, pointwise, pooling, random, reduce
from .build import Builder
from .interface import Operand, Plan, Target, UnsupportedError

Planner = Callable[[Builder], None]

_BY_CATEGORY: dict[str, Planner] = {
    "pointwise": pointwise.pointwise,
    "reduction": reduce.reduction,
    "normalization": norms.along_axis,
}

_BY_NAME: dict[str, Planner] = {
    "copy": data.copy,
    "cast": data.cast,
    "fill": data.fill,
    "arange": data.arange,
    "layer_norm": norms.layer_norm,
    "layer_norm_backward": norms.layer_norm_backward,
    "layer_norm_param_grad": norms.layer_norm_param_grad,
    "batch_norm": norms.batch_norm,
    "batch_norm_eval": norms.batch_norm_eval,
    "batch_norm_backward": norms.batch_norm_backward,
    "nll_loss": loss.nll_loss,
    "nll_loss_backward": loss.nll_loss_backward,
    "gather": indexing.gather,
    "scatter": indexing.scatter,
    "scatter_add": indexing.scatter_add,
    "nonzero": indexing.nonzero,
    "matmul": matmul.matmul,
    "conv2d": convolution.conv2d,
    "conv2d_input_grad": convolution.conv2d_input_grad,
    "conv2d_weight_grad": convolution.conv2d_weight_grad,
    "max_pool2d": pooling.max_pool2d,
    "max_pool2d_backward": pooling.max_pool2d_backward,
    "max_pool2d_gather": pooling.max_pool2d_gather,
    "avg_pool2d": pooling.avg_pool2d,
    "avg_pool2d_backward": pooling.avg_pool2d_backward,
    "adaptive_avg_pool2d": pooling.adaptive_avg_pool2d,
    "adaptive_avg_pool2d_backward": pooling.adaptive_avg_pool2d_backward,
    "cumsum": order.cumsum,
    "sort": order.sort,
    "topk": order.sort,
    "random_uniform": random.uniform,
    "random_normal": random.normal,
    "random_bernoulli": random.bernoulli,
    "random_integer": random.integer,
    "sgd_step": optimizer.sgd_step,
    "adam_step": optimizer.adam_step,
}


def planner(op: str) -> Planner | None:
    """The function that plans an op of the table, or None."""
    entry = BY_NAME.get(op)
    return None if entry is None else _BY_NAME.get(op) or _BY_CATEGORY.get(entry.category)


def check(op: str, operands: list[Operand | None], target: Target) -> None:
    """Raises UnsupportedError for what no kernel is generated for."""
    if op not in BY_NAME:
        raise UnsupportedError(f"[{op}] op: not in the op table")
    entry = BY_NAME[op]
    if len(operands) != len(entry.operands):
        raise UnsupportedError(f"[{op}] operands: got {len(operands)}, expected {len(entry.operands)} (absent ones as None)")
    names = [o.name for o in entry.operands]
    primary = operands[names.index(entry.primary)]
    if primary is None or primary.dtype not in entry.dtypes:
        got = None if primary is None else primary.dtype
        raise UnsupportedError(f"[{op}] dtype of {entry.primary}: got {got}, expected one of {', '.join(entry.dtypes)}")
    for operand, declared in zip(operands, entry.operands):
        if operand is None:
            if not declared.optional:
                raise UnsupportedError(f"[{op}] {declared.name}: got none, expected an operand")
        elif operand.dtype == "f64" and not target.f64:
            raise UnsupportedError(f"[{op}] {declared.name}: got f64, but the target has no double precision")


def plan(op: str, operands: list[Operand | None], attributes: dict[str, Any], target: Target) -> Plan:
    """See `hal.portable.plan`."""
    check(op, operands, target)
    make = planner(op)
    if make is None:
        raise UnsupportedError(f"[{op}] no portable kernel")
    b = Builder(op, list(operands), attributes, target)
    make(b)
    return b.plan()


def plan_program(program: pointwise.Program, operands: list[Operand], target: Target) -> Plan:
    """See `hal.portable.plan_program`."""
    count = len(program.inputs)
    if len(operands) != count + len(program.outputs):
        raise UnsupportedError(f"[program] operands: got {len(operands)}, expected {count + len(program.outputs)}")
    if not target.f64 and "f64" in program.dtypes():
        raise UnsupportedError("[program] got f64, but the target has no double precision")
    b = Builder("program", list(operands), {}, target)
    tensors = [b.input(k) for k in range(len(operands))]
    pointwise.program(b, program, tensors[:count], tensors[count:])
    return b.plan()
