"""Sums of products, statistics and small formulas made of ops of the table. Their bits follow from the ops', in the order written here."""

from __future__ import annotations

from typing import Any

from . import _C
from ._arguments import name_wrong_arguments
from ._composites import var

# ----- formulas -------------------------------------------------------------------------------------------------------------------


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value·(tensor1·tensor2)."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else product * value)


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value·(tensor1 / tensor2)."""
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else quotient * value)


def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight·(end − input)."""
    return input + (end - input) * weight


def frac(input: Any) -> Any:
    """input − trunc(input)."""
    return input - _C.trunc(input)


def deg2rad(input: Any) -> Any:
    return input * 0.017453292519943295  # π / 180


def rad2deg(input: Any) -> Any:
    return input * 57.29577951308232  # 180 / π


def signbit(input: Any) -> Any:
    """True for negative numbers and −0."""
    if not input.is_floating_point():
        return input < 0 if input.dtype != _C.bool else _C.logical_not(input | True)
    return _C.logical_or(input < 0, _C.logical_and(input == 0, _C.reciprocal(input) < 0))


def copysign(input: Any, other: Any) -> Any:
    """|input| with the sign of other."""
    other = other if isinstance(other, _C.Tensor) else _C.tensor(float(other), device=input.device)
    size = _C.abs(input if input.is_floating_point() else input.to(_C.get_default_dtype()))
    return _C.where(signbit(other), -size, size)


def isposinf(input: Any) -> Any:
    return input == float("inf") if input.is_floating_point() else _C.isinf(input)


def isneginf(input: Any) -> Any:
    return input == float("-inf") if input.is_floating_point() else _C.isinf(input)


def nan_to_num(input: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """NaN becomes ``nan``, the infinities ``posinf`` and ``neginf`` (default: the dtype's largest and smallest number)."""
    if not input.is_floating_point():
        return input.clone()
    from ._type_info import finfo

    limits = finfo(input.dtype)
    out = _C.where(_C.isnan(input), 0.0 if nan is None else float(nan), input)
    out = _C.where(input == float("inf"), float(limits.max if posinf is None else posinf), out)
    return _C.where(input == float("-inf"), float(limits.min if neginf is None else neginf), out)


def hypot(input: Any, other: Any) -> Any:
    """√(a² + b²) as larger·√(1 + (smaller / larger)²), so that no square overflows; an infinity wins over NaN."""
    a, b = _C.abs(input), _C.abs(other)
    large, small = _C.maximum(a, b), _C.minimum(a, b)
    plain = _C.logical_or(large == 0, _C.isinf(large))
    ratio = _C.where(plain, 0.0, small / _C.where(plain, 1.0, large))
    out = large * _C.sqrt(ratio * ratio + 1.0)
    return _C.where(_C.logical_or(_C.isinf(a), _C.isinf(b)), float("inf"), out)


def logaddexp(input: Any, other: Any) -> Any:
    """log(exp(a) + exp(b)) = max + softplus(−|a − b|)."""
    large = _C.maximum(input, other)
    gap = _C.where(input == other, 0.0, _C.abs(input - other))  # equal infinities have no difference
    return large + _C.softplus(-gap)


def xlogy(input: Any, other: Any) -> Any:
    """input·log(other), 0 where input is 0 and other isn't NaN."""
    nothing = _C.logical_and(input == 0, _C.logical_not(_C.isnan(other)))
    return _C.where(nothing, 0.0, input * _C.log(_C.where(nothing, 1.0, other)))


def heaviside(input: Any, values: Any) -> Any:
    """0 below 0, ``values`` at 0, 1 above."""
    out = _C.where(input == 0, values, (input > 0).to(input.dtype))
    return _C.where(_C.isnan(input), input, out) if input.is_floating_point() else out


def clamp_min(input: Any, min: Any) -> Any:
    return _C.clamp(input, min=min)


def clamp_max(input: Any, max: Any) -> Any:
    return _C.clamp(input, max=max)


# ----- products -------------------------------------------------------------------------------------------------------------------


def _of_rank(op: str, name: str, tensor: Any, rank: int) -> None:
    if tensor.ndim != rank:
        raise ValueError(f"[{op}] {name}: got shape {tuple(tensor.shape)}, expected {rank} dimension{'s' * (rank > 1)}")


def dot(input: Any, tensor: Any) -> Any:
    """Of two vectors, as a matmul's chain."""
    _of_rank("dot", "input", input, 1)
    _of_rank("dot", "tensor", tensor, 1)
    return _C.matmul(input, tensor)


def mv(input: Any, vec: Any) -> Any:
    _of_rank("mv", "input", input, 2)
    _of_rank("mv", "vec", vec, 1)
    return _C.matmul(input, vec)


def outer(input: Any, vec2: Any) -> Any:
    _of_rank("outer", "input", input, 1)
    _of_rank("outer", "vec2", vec2, 1)
    return input.unsqueeze(1) * vec2


def inner(input: Any, other: Any) -> Any:
    """Products along the last dimensions."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, dims=([-1], [-1]))


def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sums of products over the last ``dims`` dimensions of a and the first of b, or over two lists of dimensions."""
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ValueError(f"[tensordot] dims: got {dims}, expected 0 to {min(a.ndim, b.ndim)}")
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = [d % a.ndim for d in dims[0]], [d % b.ndim for d in dims[1]]
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise ValueError(f"[tensordot] dims: got sizes {[a.shape[d] for d in left]} and {[b.shape[d] for d in right]}, expected equal ones")
    free_a, free_b = [d for d in range(a.ndim) if d not in left], [d for d in range(b.ndim) if d not in right]
    k = 1
    for d in left:
        k *= a.shape[d]
    rows, columns = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    m, n = _product(rows), _product(columns)
    out = _C.matmul(a.permute(*free_a, *left).reshape(m, k), b.permute(*right, *free_b).reshape(k, n))
    return out.reshape(*rows, *columns) if rows or columns else out.reshape(())


def _product(sizes: Any) -> int:
    n = 1
    for s in sizes:
        n *= s
    return n


def _plus_input(input: Any, product: Any, beta: float, alpha: float) -> Any:
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # NaN of an input that doesn't count must not show
        return product
    return (input if beta == 1 else input * beta) + product


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta·input + alpha·(mat1 mat2)."""
    return _plus_input(input, _C.mm(mat1, mat2), beta, alpha)


def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return _plus_input(input, mv(mat, vec), beta, alpha)


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return _plus_input(input, _C.sum(_C.bmm(batch1, batch2), 0), beta, alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return _plus_input(input, _C.bmm(batch1, batch2), beta, alpha)


def cross(input: Any, other: Any, dim: int = -1) -> Any:
    """Of vectors of three along ``dim``."""
    input, other = _C.broadcast_to(input, _shape_of(input, other)), _C.broadcast_to(other, _shape_of(input, other))
    if input.shape[dim] != 3:
        raise ValueError(f"[cross] input: got size {input.shape[dim]} in dimension {dim}, expected 3")
    a, b = [input.select(dim, i) for i in range(3)], [other.select(dim, i) for i in range(3)]
    return _C.stack([a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)], dim)


def _shape_of(*tensors: Any) -> tuple[int, ...]:
    """The shape to which they broadcast."""
    rank = max(t.ndim for t in tensors)
    out = [1] * rank
    for t in tensors:
        for i, s in enumerate(t.shape, rank - t.ndim):
            if s != 1 and out[i] not in (1, s):
                raise ValueError(f"[broadcast] shapes: got {[tuple(t.shape) for t in tensors]}, expected sizes equal or 1")
            out[i] = s if out[i] == 1 else out[i]
    return tuple(out)


# ----- statistics -----------------------------------------------------------------------------------------------------------------


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """m + log(sum(exp(x − m))) with m the largest, or 0 where that is infinite. ``dim``: an int or several."""
    x = input if input.is_floating_point() else input.to(_C.get_default_dtype())
    wide = x.to(_C.float32) if x.dtype in (_C.float16, _C.bfloat16) else x
    if 0 in wide.shape:
        return _C.log(_C.sum(_C.exp(wide), dim, keepdim)).to(x.dtype)
    largest = _C.amax(wide.detach(), dim, True)
    largest = _C.where(_C.isinf(largest), 0.0, largest)
    total = _C.log(_C.sum(_C.exp(wide - largest), dim, True)) + largest
    if not keepdim:
        total = total.reshape(_C.sum(wide.detach(), dim, False).shape)
    return total.to(x.dtype)


def var_mean(input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Any:
    return var(input, dim, unbiased, keepdim, correction=correction), _C.mean(input, dim, keepdim)


def std_mean(input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Any:
    return _C.sqrt(var(input, dim, unbiased, keepdim, correction=correction)), _C.mean(input, dim, keepdim)


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    return _C.amin(input, dim, keepdim), _C.amax(input, dim, keepdim)


def count_nonzero(input: Any, dim: Any = None) -> Any:
    return _C.sum(input != 0 if input.dtype != _C.bool else input, dim)


def nansum(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _C.sum(_C.where(_C.isnan(input), 0.0, input) if input.is_floating_point() else input, dim, keepdim)


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest (k = 1: the smallest) and its index; the first of equal ones."""
    size = input.shape[dim] if input.ndim else 1
    if not 1 <= k <= size:
        raise IndexError(f"[kthvalue] k: got {k}, expected 1 to {size}")
    return _pick(input, _C.argsort(input, dim), k - 1, dim, keepdim)


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the middle values (and its index, with ``dim``); NaN if there is one."""
    if dim is None:
        flat = input.reshape(-1)
        if flat.numel() == 0:
            raise ValueError("[median] input: got no elements, expected at least one")
        return median(flat, 0)[0]
    order = _C.argsort(input, dim)
    size = input.shape[dim] if input.ndim else 1
    values, index = _pick(input, order, (size - 1) // 2, dim, True)
    if input.is_floating_point():
        worst, last = _pick(input, order, size - 1, dim, True)  # NaN sorts last
        first_nan = _C.argmax(_C.isnan(input), dim, True) if input.ndim else last
        bad = _C.isnan(worst)
        values, index = _C.where(bad, worst, values), _C.where(bad, first_nan, index)
    return (values, index) if keepdim or not input.ndim else (values.squeeze(dim), index.squeeze(dim))


def _pick(input: Any, order: Any, place: int, dim: int, keepdim: bool) -> Any:
    index = order.narrow(dim, place, 1) if input.ndim else order
    values = _C.gather(input, dim, index) if input.ndim else input
    return (values, index) if keepdim or not input.ndim else (values.squeeze(dim), index.squeeze(dim))


def dist(input: Any, other: Any, p: float = 2) -> Any:
    return (input - other).norm(p)


def trace(input: Any) -> Any:
    _of_rank("trace", "input", input, 2)
    n = min(input.shape)
    return _C.sum(input.as_strided((n,), (sum(input.stride()),), input.storage_offset()))


#: functions that are also methods of Tensor
METHODS = (
    "addcmul", "addcdiv", "lerp", "frac", "deg2rad", "rad2deg", "signbit", "copysign", "isposinf", "isneginf", "nan_to_num", "hypot",
    "logaddexp", "xlogy", "heaviside", "clamp_min", "clamp_max", "dot", "mv", "outer", "inner", "addmm", "addmv", "addbmm", "baddbmm",
    "cross", "logsumexp", "aminmax", "count_nonzero", "nansum", "kthvalue", "median", "dist", "trace",
)  # fmt: skip
__all__ = [*METHODS, "tensordot", "var_mean", "std_mean"]

name_wrong_arguments(globals(), [n for n in __all__ if n != "tensordot"])
