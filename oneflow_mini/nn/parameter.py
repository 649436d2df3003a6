"""Parameter: a tensor that a Module registers when it is assigned to an attribute."""

from __future__ import annotations

from typing import Any

from .. import _C

Tensor: Any = _C.Tensor


class Parameter(Tensor):
    """A leaf that shares ``data``'s storage. ``requires_grad`` only for floating dtypes."""

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = _C.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"[Parameter] data: got {type(data).__name__}, expected a Tensor")
        return Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass  # made in __new__

    def __repr__(self) -> str:
        from .._tensor_str import tensor_str

        return "Parameter containing:\n" + tensor_str(self)


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer when it is assigned to an attribute."""

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if not isinstance(data, Tensor):
            raise TypeError(f"[Buffer] data: got {type(data).__name__}, expected a Tensor")
        self = Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        self.persistent = persistent
        return self

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        pass
