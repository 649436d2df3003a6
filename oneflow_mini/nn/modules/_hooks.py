"""Hooks of modules: their handles, and the slow path of ``Module.__call__``."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from ... import _C
from ...autograd.function import Function

Tensor: Any = _C.Tensor
_ids = itertools.count()


class Handle:
    """Removes its hook: ``remove()``, or the end of a ``with`` block."""

    def __init__(self, hooks: Any, hook: Any, with_kwargs: bool = False, prepend: bool = False) -> None:
        self.id = next(_ids)
        self._hooks = weakref.ref(hooks)
        hooks[self.id] = (hook, with_kwargs)
        if prepend:
            hooks.move_to_end(self.id, last=False)

    def remove(self) -> None:
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()


class _Watch(Function):
    """Identity whose backward passes all gradients through ``callback``."""

    @staticmethod
    def forward(ctx: Any, callback: Any, *tensors: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.callback = callback
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.callback(grads))


def _watch(values: Any, callback: Any) -> Any:
    """``values`` (a tensor or a tuple with tensors) with callback on the gradients of those that require grad."""
    items = values if isinstance(values, tuple) else (values,)
    places = [i for i, v in enumerate(items) if isinstance(v, Tensor) and v.requires_grad]
    if not places:
        return values
    watched = _Watch.apply(lambda grads: callback(grads, places, len(items)), *(items[i] for i in places))
    new = list(items)
    for i, t in zip(places, watched, strict=False):
        new[i] = t
    return tuple(new) if isinstance(values, tuple) else new[0]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class _BackwardHooks:
    """Carries the output gradients from the watch behind the module to the hooks at the watch before it."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_output: tuple[Any, ...] | None = None
        self.has_inputs = False

    def on_output(self, grads: Any, places: list[int], count: int) -> Any:
        full: list[Any] = [None] * count
        for i, g in zip(places, grads, strict=False):
            full[i] = g
        for hook, _ in list(self.module._backward_pre_hooks.values()):
            replaced = hook(self.module, tuple(full))
            if replaced is not None:
                full = list(_as_tuple(replaced))
        self.grad_output = tuple(full)
        if not self.has_inputs:  # no input requires grad: the hooks see no input gradients
            for hook, _ in list(self.module._backward_hooks.values()):
                hook(self.module, (), self.grad_output)
        return [full[i] for i in places]

    def on_input(self, grads: Any, places: list[int], count: int) -> Any:
        full: list[Any] = [None] * count
        for i, g in zip(places, grads, strict=False):
            full[i] = g
        for hook, _ in list(self.module._backward_hooks.values()):
            replaced = hook(self.module, tuple(full), self.grad_output)
            if replaced is not None:
                replaced = _as_tuple(replaced)
                if len(replaced) != count:
                    raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, but expected {count}")
                full = list(replaced)
        return [full[i] for i in places]


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for hook, with_kwargs in list(module._forward_pre_hooks.values()):
        if with_kwargs:
            result = hook(module, args, kwargs)
            if result is not None:
                args, kwargs = result
        else:
            result = hook(module, args)
            if result is not None:
                args = _as_tuple(result)
    watcher = _BackwardHooks(module) if module._backward_hooks or module._backward_pre_hooks else None
    if watcher is not None:
        watcher.has_inputs = any(isinstance(a, Tensor) and a.requires_grad for a in args) and _C.is_grad_enabled()
        args = _watch(args, watcher.on_input)
    output = module.forward(*args, **kwargs)
    for hook, with_kwargs in list(module._forward_hooks.values()):
        result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        if result is not None:
            output = result
    return output if watcher is None else _watch(output, watcher.on_output)
