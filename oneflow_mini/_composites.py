"""Functions made of ops of the table. Their bits follow from the ops', in the order written here."""

from __future__ import annotations

from typing import Any

from . import _C
from ._arguments import name_wrong_arguments

Tensor = _C.Tensor
_HALVES = (_C.float16, _C.bfloat16)


def is_tensor(obj: object) -> bool:
    return isinstance(obj, Tensor)


def is_floating_point(input: Any) -> bool:
    return input.is_floating_point()


def numel(input: Any) -> int:
    return input.numel()


def linspace(start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """``steps`` values from start to end: start + i·((end − start) / (steps − 1)); the upper half counts
    down from end, so both ends are exact."""
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
        raise ValueError(f"[linspace] steps: got {steps!r}, expected an int ≥ 0")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    start, end = float(start), float(end)
    work = dtype if dtype.is_floating_point and dtype not in _HALVES else _C.float32 if dtype in _HALVES else _C.float64
    if steps <= 1:
        out = _C.full((steps,), start, dtype=work, device=device)
    else:
        step, half = (end - start) / (steps - 1), steps // 2
        low = _C.arange(half, dtype=work, device=device) * step + start
        down = _C.arange(steps - half - 1, -1, -1, dtype=work, device=device) * -step + end
        out = _C.cat([low, down])
    out = out.to(dtype)
    return out.requires_grad_() if requires_grad else out


def randperm(n: int, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
    """A random permutation of 0 … n − 1: the stable order of n f64 uniforms of the generator (so the same on every device)."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f"[randperm] n: got {n!r}, expected an int ≥ 0")
    order = _C.argsort(_C.rand(n, generator=generator, dtype=_C.float64, device=device))
    return order if dtype is None else order.to(dtype)


def _triangle(op: str, input: Any, keep: Any) -> Any:
    if input.ndim < 2:
        raise ValueError(f"[{op}] input: got shape {tuple(input.shape)}, expected at least 2 dimensions")
    rows = _C.arange(input.shape[-2], device=input.device).unsqueeze(1)
    zero = False if input.dtype == _C.bool else 0
    return _C.where(keep(_C.arange(input.shape[-1], device=input.device) - rows), input, zero)


def tril(input: Any, diagonal: int = 0) -> Any:
    """``input`` on and below the diagonal of its last two dimensions, 0 above."""
    return _triangle("tril", input, lambda offset: offset <= diagonal)


def triu(input: Any, diagonal: int = 0) -> Any:
    """``input`` on and above the diagonal of its last two dimensions, 0 below."""
    return _triangle("triu", input, lambda offset: offset >= diagonal)


def bernoulli(input: Any, *, generator: Any = None) -> Any:
    """1 with the probability that stands in ``input`` (floats in [0, 1]), else 0, in input's dtype and shape."""
    if not input.is_floating_point():
        raise TypeError(f"[bernoulli] input: got {input.dtype!r}, expected a floating dtype of probabilities")
    if input.numel() and not (_C.amin(input).item() >= 0 and _C.amax(input).item() <= 1):
        raise ValueError("[bernoulli] input: expected probabilities in [0, 1]")
    uniform = _C.rand(*input.shape, generator=generator, dtype=_C.float32, device=input.device)
    return (uniform < input.detach().to(_C.float32)).to(input.dtype)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """``value`` where ``mask`` (bool, broadcastable), else ``input``."""
    if mask.dtype != _C.bool:
        raise TypeError(f"[masked_fill] mask: got {mask.dtype!r}, expected bool")
    if isinstance(value, Tensor):
        if value.ndim:
            raise ValueError(f"[masked_fill] value: got a tensor of shape {tuple(value.shape)}, expected a number or a 0-d tensor")
        return _C.where(mask, value.to(input.dtype), input)
    return _C.where(mask, value, input)


def _count(input: Any, dim: Any) -> int:
    shape = tuple(input.shape)
    n = 1
    for d in range(len(shape)) if dim is None or dim == () else (dim,) if isinstance(dim, int) else dim:
        n *= shape[d]
    return n


def var(input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Any:
    """Variance in two passes: sum((x − mean)²) / max(0, n − correction). ``unbiased`` is correction 1. Floats only;
    halves compute in f32 and round once."""
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if not input.is_floating_point():
        raise TypeError(f"[var] input: got {input.dtype!r}, expected a floating dtype")
    correction = int(unbiased) if correction is None else correction
    if dim is None or dim == ():
        dim = tuple(range(input.ndim))
    x = input.to(_C.float32) if input.dtype in _HALVES else input
    deviation = x - _C.mean(x, dim, True)
    return (_C.sum(deviation * deviation, dim, keepdim) / float(max(0, _count(input, dim) - correction))).to(input.dtype)


def std(input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Any:
    return _C.sqrt(var(input, dim, unbiased, keepdim, correction=correction))


def norm(input: Any, p: float | str = "fro", dim: Any = None, keepdim: bool = False) -> Any:
    """The p-norm of the elements over ``dim`` (default: all); p = 1, 2 ("fro"), ±inf, 0 or any other number."""
    if dim is None:
        dim = tuple(range(input.ndim))
    p = 2.0 if p == "fro" else p
    if isinstance(p, str):
        raise ValueError(f"[norm] p: got {p!r}, expected a number or 'fro'")
    if p == 2:
        return _C.sqrt(_C.sum(_C.square(input), dim, keepdim))
    if p == 1:
        return _C.sum(_C.abs(input), dim, keepdim)
    if p == float("inf"):
        return _C.amax(_C.abs(input), dim, keepdim)
    if p == float("-inf"):
        return _C.amin(_C.abs(input), dim, keepdim)
    if p == 0:
        return _C.sum((input != 0).to(input.dtype), dim, keepdim)
    return _C.pow(_C.sum(_C.pow(_C.abs(input), p), dim, keepdim), 1.0 / p)


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """|input − other| ≤ atol + rtol·|other|, infinities equal to themselves."""
    close = input == other
    if input.is_floating_point():
        close = _C.logical_or(close, _C.logical_and(_C.isfinite(input - other), _C.abs(input - other) <= _C.abs(other) * rtol + atol))
        if equal_nan:
            close = _C.logical_or(close, _C.logical_and(_C.isnan(input), _C.isnan(other)))
    elif rtol or atol:
        a, b = input.to(_C.float64), other.to(_C.float64)
        close = _C.logical_or(close, _C.abs(a - b) <= _C.abs(b) * rtol + atol)
    return close


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(_C.all(isclose(input, other, rtol, atol, equal_nan)).item())


def equal(input: Any, other: Any) -> bool:
    """Same shape and equal elements (as ==: NaN differs from itself, −0 equals +0)."""
    return tuple(input.shape) == tuple(other.shape) and bool(_C.all(input == other).item())


name_wrong_arguments(
    globals(), ("is_floating_point", "numel", "bernoulli", "masked_fill", "var", "std", "norm", "isclose", "allclose", "equal")
)
