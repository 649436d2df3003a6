"""``Function``: an operation with a backward of one's own, on top of ``_C.make_function_node``."""

from __future__ import annotations

import functools
from typing import Any

from .. import _C

Tensor = _C.Tensor


class _Saved:
    """A tensor kept for backward, with the version that it had.

    An output is kept as a detached alias: the tensor itself would own its node, which owns this. Unpacking gives it its history back.
    """

    __slots__ = ("output_nr", "tensor", "version")

    def __init__(self, tensor: Any, output_nr: int | None) -> None:
        self.tensor = tensor if output_nr is None else tensor.detach()
        self.version = tensor._version
        self.output_nr = output_nr

    def unpack(self) -> Any:
        t = self.tensor
        if t._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{t.dtype!r} {list(t.shape)}] is at version {t._version}; expected version {self.version} instead."
            )
        if self.output_nr is None:
            return t
        alias, node = t.detach(), _C.current_node()
        if node is not None:
            _C.set_history(alias, node, self.output_nr)
        return alias


class FunctionCtx:
    """What forward leaves for backward."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._saved: list[_Saved | None] | None = None
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors (or None); backward finds them in ``saved_tensors``, checked for changes in place since."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"[save_for_backward] tensors[{i}]: got {type(t).__name__}, expected a Tensor or None; set others on ctx")
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._saved is None:
            return self._to_save
        return tuple(None if s is None else s.unpack() for s in self._saved)

    def mark_dirty(self, *tensors: Any) -> None:
        """Inputs that forward changed in place; they must be among its outputs."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Outputs that get no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: an undefined gradient reaches backward as None, not as zeros."""
        self._materialize = bool(value)


def _among(t: Any, tensors: tuple[Any, ...]) -> bool:
    return any(t is other for other in tensors)


class Function:
    """Subclass it with static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, call ``apply``.

    ``forward(*args)`` with ``setup_context(ctx, inputs, output)`` works too. backward gives one gradient per argument of forward, None for
    what has none. For second derivatives, write backward with differentiable ops.
    """

    def __init__(self) -> None:
        raise RuntimeError(f"[{type(self).__name__}] a Function isn't instantiated: call {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("[Function] forward: not defined; expected a static method forward(ctx, *args)")

    setup_context: Any = None

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("[Function] backward: not defined; expected a static method backward(ctx, *grad_outputs)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        previous = _C.is_grad_enabled()
        with _C.grad_mode(False):
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        for i, t in enumerate(ctx._dirty):
            if not _among(t, args):
                raise RuntimeError(f"[{cls.__name__}] mark_dirty: tensor {i} is no input of forward")
        if not (previous and any(ctx.needs_input_grad)):
            return result
        is_tuple = isinstance(result, (tuple, list))
        outputs = _record(cls, ctx, args, tuple(result) if is_tuple else (result,))
        return type(result)(outputs) if type(result) in (tuple, list) else tuple(outputs) if is_tuple else outputs[0]


def _record(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], results: tuple[Any, ...]) -> list[Any]:
    """Makes the node; an output that is an input (or has a history) is aliased first, unless it was changed in place."""
    outputs: list[Any] = []
    differentiable: list[int] = []
    for i, out in enumerate(results):
        if not isinstance(out, Tensor):
            outputs.append(out)
            continue
        stopped = _among(out, ctx._non_differentiable) or not out.is_floating_point()
        if not _among(out, ctx._dirty) and (out.requires_grad or _among(out, args)):
            out = out.detach()
        outputs.append(out)
        if not stopped:
            differentiable.append(i)
    numbers = {i: nr for nr, i in enumerate(differentiable)}
    saved: list[_Saved | None] = []
    for t in ctx._to_save:
        place = next((i for i, r in enumerate(results) if r is t and (not _among(t, args) or _among(t, ctx._dirty))), None)
        saved.append(None if t is None else _Saved(t, None if place is None else numbers.get(place)))
    ctx._saved, ctx._to_save, ctx._dirty, ctx._non_differentiable = saved, (), (), ()
    if differentiable:
        blanks = [(tuple(o.shape), o.dtype, o.device) if isinstance(o, Tensor) else None for o in outputs]
        _C.make_function_node(
            [outputs[i] for i in differentiable],
            [a for a in args if isinstance(a, Tensor)],
            functools.partial(_run_backward, cls, ctx, tuple(isinstance(a, Tensor) for a in args), blanks, differentiable),
            cls.__name__ + "Backward",
        )
    return outputs


def _run_backward(
    cls: type[Function], ctx: Any, is_tensor: tuple[bool, ...], blanks: list[Any], differentiable: list[int], grads: Any
) -> Any:
    """One gradient per differentiable output in, one per tensor argument out."""
    full: list[Any] = [None] * len(blanks)
    for i, g in zip(differentiable, grads, strict=False):
        full[i] = g
    if ctx._materialize:
        for i, blank in enumerate(blanks):
            if full[i] is None and blank is not None:
                shape, dtype, device = blank
                full[i] = _C.zeros(shape, dtype=dtype, device=device)
    result = cls.backward(ctx, *full)
    result = list(result) if isinstance(result, (tuple, list)) else [result]
    while len(result) > len(is_tensor) and result[-1] is None:
        result.pop()
    if len(result) != len(is_tensor):
        raise RuntimeError(
            f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {len(is_tensor)}, got {len(result)})"
        )
    for i, (g, tensor) in enumerate(zip(result, is_tensor, strict=False)):
        if g is not None and not tensor:
            raise RuntimeError(f"function {cls.__name__}Backward returned a gradient different from None at position {i + 1}, "
                               "but the corresponding forward input was not a Variable")  # fmt: skip
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"[{cls.__name__}] backward: got {type(g).__name__} at position {i + 1}, expected a Tensor or None")
    return tuple(g for g, tensor in zip(result, is_tensor, strict=False) if tensor)


def _no_second_derivative(name: str, grads: Any) -> Any:
    raise RuntimeError(f"trying to differentiate twice a function that was marked with @once_differentiable ({name})")


def once_differentiable(backward: Any) -> Any:
    """Decorates a backward that isn't made of differentiable ops: a second derivative through it raises instead of being wrong."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        recording = _C.is_grad_enabled()
        with _C.grad_mode(False):
            result = backward(ctx, *grads)
        sources = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not recording or not sources:
            return result
        results = result if isinstance(result, (tuple, list)) else (result,)
        marked = tuple(r.detach() if isinstance(r, Tensor) else r for r in results)
        outputs = [r for r in marked if isinstance(r, Tensor)]
        if outputs:
            _C.make_function_node(outputs, sources, functools.partial(_no_second_derivative, backward.__qualname__), "OnceDifferentiable")
        return marked

    return wrapper
