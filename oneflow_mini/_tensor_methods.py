"""Methods of Tensor that are written in Python: composites, copying and pickling by value."""

from __future__ import annotations

from typing import Any

from . import _C, _composites

Tensor: Any = _C.Tensor

for _name in ("masked_fill", "var", "std", "norm", "isclose", "allclose", "equal", "tril", "triu"):
    setattr(Tensor, _name, getattr(_composites, _name))


def _masked_fill_(self: Any, mask: Any, value: Any) -> Any:
    return self.copy_(_composites.masked_fill(self, mask, value))


def _tril_(self: Any, diagonal: int = 0) -> Any:
    return self.copy_(_composites.tril(self, diagonal))


def _triu_(self: Any, diagonal: int = 0) -> Any:
    return self.copy_(_composites.triu(self, diagonal))


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A leaf of the same values, class and attributes; its gradient is copied too. Non-leaves have no copy of their own: detach() them."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError("[deepcopy] tensor: got a non-leaf (it has a grad_fn), expected a leaf; use detach() or clone()")
    data = self.detach().clone()
    new = data.requires_grad_(self.requires_grad) if type(self) is Tensor else Tensor._make_subclass(type(self), data, self.requires_grad)
    memo[id(self)] = new
    if self.grad is not None:
        new.grad = self.grad.detach().clone()
    return new


def _rebuild(cls: type, raw: bytes, dtype_name: str, shape: tuple[int, ...], device: str, requires_grad: bool) -> Any:
    data = _C.tensor_from_bytes(raw, getattr(_C, dtype_name), shape, device)
    return data.requires_grad_(requires_grad) if cls is Tensor else Tensor._make_subclass(cls, data, requires_grad)


def _reduce_ex(self: Any, protocol: int) -> Any:
    if not self.is_leaf:
        raise RuntimeError("[pickle] tensor: got a non-leaf (it has a grad_fn), expected a leaf; use detach()")
    detached = self.detach()
    return _rebuild, (type(self), _C.tensor_to_bytes(detached), self.dtype.name, tuple(self.shape), self.device.name, self.requires_grad)


def _format(self: Any, spec: str) -> str:
    return format(self.item(), spec) if self.ndim == 0 and spec else object.__format__(self, spec) if spec else str(self)


Tensor.masked_fill_ = _masked_fill_
Tensor.tril_ = _tril_
Tensor.triu_ = _triu_
Tensor.__deepcopy__ = _deepcopy
Tensor.__reduce_ex__ = _reduce_ex
Tensor.__format__ = _format
Tensor.__array_priority__ = 1000  # numpy's numbers leave `np.float32(3) * t` to the tensor
