"""Collecting and loading a module's state."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from ... import _C
from ..parameter import Parameter

Tensor: Any = _C.Tensor


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


def _own(module: Any) -> dict[str, Any]:
    members = {n: p for n, p in module._parameters.items() if p is not None}
    members.update((n, b) for n, b in module._buffers.items() if b is not None and n not in module._non_persistent_buffers)
    return members


def collect(module: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    for name, value in _own(module).items():
        destination[prefix + name] = value if keep_vars else value.detach()
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
    return destination


def _places(module: Any, prefix: str, found: dict[str, tuple[Any, str]]) -> dict[str, tuple[Any, str]]:
    for name in _own(module):
        found[prefix + name] = (module, name)
    for name, child in module._modules.items():
        if child is not None:
            _places(child, prefix + name + ".", found)
    return found


def load(module: Any, state_dict: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    places = _places(module, "", {})
    missing = [k for k in places if k not in state_dict]
    unexpected = [k for k in state_dict if k not in places]
    errors: list[str] = []
    if strict and unexpected:
        errors.append("Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
    if strict and missing:
        errors.append("Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
    for key, (owner, name) in places.items():
        if key not in state_dict:
            continue
        value, own = state_dict[key], _own(owner)[name]
        if not isinstance(value, Tensor):
            errors.append(f'While copying the parameter named "{key}", expected oneflow_mini.Tensor or Tensor-like object from checkpoint '
                          f"but received {type(value)}")  # fmt: skip
        elif tuple(value.shape) != tuple(own.shape):
            errors.append(f"size mismatch for {key}: copying a param with shape {tuple(value.shape)} from checkpoint, "
                          f"the shape in current model is {tuple(own.shape)}.")  # fmt: skip
    if errors:
        raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(type(module).__name__, "\n\t".join(errors)))
    with _C.grad_mode(False):
        for key, (owner, name) in places.items():
            if key in state_dict:
                _put(owner, name, state_dict[key], assign)
    return IncompatibleKeys(missing, unexpected)


def _put(owner: Any, name: str, value: Any, assign: bool) -> None:
    parameter = owner._parameters.get(name)
    if not assign:
        (owner._buffers[name] if parameter is None else parameter).copy_(value)
    elif parameter is None:
        owner._buffers[name] = value
    else:
        owner._parameters[name] = value if isinstance(value, Parameter) else Parameter(value, parameter.requires_grad)
