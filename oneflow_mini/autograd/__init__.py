"""Gradients: ``grad``, ``backward``, custom functions, checks against finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C
from .function import Function, once_differentiable
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function", "GradcheckError", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "no_grad",
    "once_differentiable", "set_grad_enabled",
]  # fmt: skip

Tensor = _C.Tensor


def _as_list(what: str, op: str, value: Any) -> list[Any]:
    items = [value] if isinstance(value, Tensor) else list(value)
    for i, t in enumerate(items):
        if not isinstance(t, Tensor):
            raise TypeError(f"[{op}] {what}[{i}]: got {type(t).__name__}, expected a Tensor")
    return items


def _as_gradients(op: str, value: Any, outputs: Sequence[Any]) -> list[Any]:
    grads = [None] * len(outputs) if value is None else [value] if isinstance(value, Tensor) else list(value)
    if len(grads) != len(outputs):
        raise RuntimeError(f"[{op}] gradients: got {len(grads)}, expected {len(outputs)}, one for each output")
    for i, (g, t) in enumerate(zip(grads, outputs, strict=False)):
        if g is not None and tuple(g.shape) != tuple(t.shape):
            raise RuntimeError(
                f"[{op}] gradients[{i}]: Mismatch in shape: got {tuple(g.shape)}, expected the output's shape {tuple(t.shape)}"
            )
    return grads


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Adds the gradients of ``tensors`` to ``.grad`` of the leaves (or only of ``inputs``).

    ``grad_tensors``: one per tensor, None for a one-element tensor. ``retain_graph`` defaults to ``create_graph``.
    """
    outputs = _as_list("tensors", "backward", tensors)
    wanted = [] if inputs is None else _as_list("inputs", "backward", inputs)
    if inputs is not None and not wanted:
        raise RuntimeError("[backward] inputs: got an empty list, expected at least one Tensor or None")
    grads = _as_gradients("backward", grad_tensors, outputs)
    _C.run_backward(outputs, grads, create_graph if retain_graph is None else retain_graph, create_graph, wanted, True, True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The sum over ``outputs`` of the gradients with respect to each of ``inputs``; ``.grad`` stays as it is.

    An input that the outputs don't depend on is an error, or None with ``allow_unused``, or zeros with ``materialize_grads``.
    """
    if not only_inputs or is_grads_batched:
        raise NotImplementedError("[grad] only_inputs=False and is_grads_batched=True are not supported")
    if materialize_grads and allow_unused is False:
        raise ValueError("[grad] allow_unused: got False, expected True or None together with materialize_grads")
    outs = _as_list("outputs", "grad", outputs)
    ins = _as_list("inputs", "grad", inputs)
    result = _C.run_backward(
        outs,
        _as_gradients("grad", grad_outputs, outs),
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        ins,
        bool(allow_unused) or materialize_grads,
        False,
    )
    if materialize_grads:
        return tuple(_C.zeros_like(i) if g is None else g for g, i in zip(result, ins, strict=False))
    return tuple(result)
