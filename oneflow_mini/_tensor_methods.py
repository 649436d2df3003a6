"""Methods of Tensor that are written in Python: composites, copying and pickling by value."""

from __future__ import annotations

from typing import Any

from . import _C, _algebra, _composites, _rearrange, _tensor_aliases

Tensor: Any = _C.Tensor

for _name in ("masked_fill", "var", "std", "norm", "isclose", "allclose", "equal", "tril", "triu"):
    setattr(Tensor, _name, getattr(_composites, _name))


for _module in (_algebra, _rearrange):
    for _name in _module.METHODS:
        setattr(Tensor, _name, getattr(_module, _name))
for _name, _known in {**_tensor_aliases.ALIASES, "moveaxis": "movedim", "ger": "outer"}.items():
    setattr(Tensor, _name, getattr(Tensor, _known))


def _in_place(function: Any) -> Any:
    """The method that writes the function's result into its first argument."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        saved = self.clone() if _C.is_grad_enabled() and self.requires_grad else self  # the graph may keep what is overwritten here
        return self.copy_(function(saved, *args, **kwargs))

    method.__name__, method.__doc__ = f"{function.__name__}_", f"In place: {function.__doc__ or function.__name__}"
    return method


_WITH_IN_PLACE = "addcmul addcdiv lerp addmm addmv baddbmm clamp_min clamp_max nan_to_num frac hypot copysign"
for _name in _WITH_IN_PLACE.split():
    setattr(Tensor, f"{_name}_", _in_place(getattr(_algebra, _name)))
for _name in ("index_fill", "index_copy", "masked_scatter"):
    setattr(Tensor, f"{_name}_", _in_place(getattr(_rearrange, _name)))
Tensor.cumsum_ = _in_place(_C.cumsum)
Tensor.clip_ = Tensor.clamp_


def _fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Writes a number on the diagonal of a matrix; ``wrap`` isn't supported."""
    if wrap or self.ndim != 2:
        raise NotImplementedError(f"[fill_diagonal_] got shape {tuple(self.shape)} and wrap={wrap}, expected a matrix and wrap=False")
    n = min(self.shape)
    self.as_strided((n,), (sum(self.stride()),), self.storage_offset()).fill_(fill_value)
    return self


def _unfold(self: Any, dimension: int, size: int, step: int) -> Any:
    """A view of the windows of ``size`` elements along a dimension, ``step`` apart; they become the last dimension."""
    dim = _rearrange._dim("unfold", dimension, self.ndim)
    if size > self.shape[dim] or size < 0 or step < 1:
        raise ValueError(f"[unfold] size and step: got {size} and {step} for {self.shape[dim]} elements, expected size ≤ them, step ≥ 1")
    count, strides = (self.shape[dim] - size) // step + 1, self.stride()
    shape = [count if d == dim else s for d, s in enumerate(self.shape)]
    steps = [s * step if d == dim else s for d, s in enumerate(strides)]
    return self.as_strided((*shape, size), (*steps, strides[dim]), self.storage_offset())


def _exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    """−log(1 − u) / lambd of uniforms u in [0, 1)."""
    if lambd <= 0:
        raise ValueError(f"[exponential_] lambd: got {lambd}, expected > 0")
    return self.copy_(-_C.log1p(-_C.empty_like(self).uniform_(generator=generator)) / lambd)


def _random_(self: Any, from_: int = 0, to: int | None = None, *, generator: Any = None) -> Any:
    """Integers of [from, to), or of [0, from) with one argument. Without any: below what a float dtype counts exactly, 2³¹ or the
    integer dtype's limit."""
    if to is None and from_ != 0:
        from_, to = 0, from_
    if to is None:
        small = {_C.float16: 2**11, _C.bfloat16: 2**8, _C.float32: 2**24, _C.bool: 2}
        limit = {1: 2**7, 2: 2**15}.get(self.element_size(), 2**31)
        to = small.get(self.dtype, limit)
    drawn = _C.randint(from_, to, tuple(self.shape), generator=generator, device=self.device)
    return self.copy_(drawn)


Tensor.fill_diagonal_ = _fill_diagonal_
Tensor.unfold = _unfold
Tensor.exponential_ = _exponential_
Tensor.random_ = _random_
Tensor.argwhere = lambda self: _C.nonzero(self)
Tensor.is_same_size = lambda self, other: self.shape == other.shape
Tensor.__contains__ = lambda self, element: bool(_C.any(self == element).item())


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
