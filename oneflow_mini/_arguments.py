"""A wrong type given to a function written in Python becomes a TypeError that names the argument; a right one pays nothing for that."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any

from . import _C

#: parameters that are tensors wherever they occur
_TENSORS = {"input", "target", "weight", "bias", "running_mean", "running_var", "tensor", "mask", "other"}


def _complaint(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    signature = inspect.signature(function)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        optional = value is None and (signature.parameters[name].default is None or name.startswith("running_"))
        if name in _TENSORS and not optional and not isinstance(value, _C.Tensor):
            return f"[{function.__name__}] {name}: got {type(value).__name__}, expected a Tensor"
    return None


def _checked(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            complaint = _complaint(function, args, kwargs)
            if complaint is None:
                raise
            raise TypeError(complaint) from error

    return call


def name_wrong_arguments(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Wraps the Python functions among ``names`` in ``namespace``."""
    for name in names:
        if inspect.isfunction(namespace[name]):
            namespace[name] = _checked(namespace[name])
