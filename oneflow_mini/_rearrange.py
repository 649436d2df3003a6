"""Functions that move, repeat and pick elements: views where the strides allow, copies and gathers elsewhere."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from . import _C
from ._algebra import _product, _shape_of
from ._arguments import name_wrong_arguments

Tensor: Any = _C.Tensor


def _dim(op: str, dim: int, rank: int) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"[{op}] dim: got {dim!r}, expected an int")
    if not -max(1, rank) <= dim < max(1, rank):
        raise IndexError(f"[{op}] dim: got {dim}, expected {-max(1, rank)} to {max(1, rank) - 1}")
    return dim % max(1, rank)


def _ints(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of (2, 3) or ((2, 3),)."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


# ----- order of dimensions and elements ---------------------------------------------------------------------------------------------


def movedim(input: Any, source: Any, destination: Any) -> Any:
    """A view whose dimensions ``source`` stand at ``destination``; the others keep their order."""
    source, destination = ([d] if isinstance(d, int) else list(d) for d in (source, destination))
    if len(source) != len(destination):
        raise ValueError(f"[movedim] source and destination: got {len(source)} and {len(destination)} dimensions, expected as many")
    source, destination = ([_dim("movedim", d, input.ndim) for d in dims] for dims in (source, destination))
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise ValueError(f"[movedim] got source {source} and destination {destination}, expected no dimension twice")
    rest = iter([d for d in range(input.ndim) if d not in source])
    moved = dict(zip(destination, source, strict=True))
    return input.permute(*[moved[d] if d in moved else next(rest) for d in range(input.ndim)])


def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Dimension ``dim`` as several, one of which may be −1."""
    dim = _dim("unflatten", dim, input.ndim)
    sizes = list(sizes)
    if sizes.count(-1) == 1:
        known = -_product(sizes)
        sizes[sizes.index(-1)] = input.shape[dim] // known if known else 0
    if _product(sizes) != input.shape[dim]:
        raise ValueError(f"[unflatten] sizes: got {tuple(sizes)}, expected a product of {input.shape[dim]}")
    return input.view(*input.shape[:dim], *sizes, *input.shape[dim + 1 :])


def ravel(input: Any) -> Any:
    return input.reshape(-1)


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved by ``shifts`` places, those that leave come in at the other end; without ``dims`` in the flattened tensor."""
    if dims is None or dims == ():
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    shifts, dims = ([v] if isinstance(v, int) else list(v) for v in (shifts, dims))
    if len(shifts) != len(dims):
        raise ValueError(f"[roll] shifts and dims: got {len(shifts)} and {len(dims)}, expected as many")
    out = input
    for shift, dim in zip(shifts, dims, strict=True):
        size = out.shape[_dim("roll", dim, input.ndim)]
        if size and shift % size:
            cut = size - shift % size
            out = _C.cat((out.narrow(dim, cut, size - cut), out.narrow(dim, 0, cut)), dim)
    return out.clone() if out is input else out


def fliplr(input: Any) -> Any:
    return _C.flip(input, (1,))


def flipud(input: Any) -> Any:
    return _C.flip(input, (0,))


def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turned by k quarter turns from the first of ``dims`` to the second."""
    a, b = dims
    if k % 4 == 0:
        return input.clone()
    if k % 4 == 2:
        return _C.flip(input, (a, b))
    turned = input.transpose(a, b)
    return _C.flip(turned, (a,)) if k % 4 == 1 else _C.flip(turned, (b,))


# ----- repeating --------------------------------------------------------------------------------------------------------------------


def repeat(input: Any, *repeats: Any) -> Any:
    """The whole tensor ``repeats[d]`` times along dimension d."""
    times = _ints(repeats)
    if len(times) < input.ndim:
        raise ValueError(f"[repeat] repeats: got {len(times)} numbers for {input.ndim} dimensions, expected at least as many")
    shape = (1,) * (len(times) - input.ndim) + tuple(input.shape)
    pairs = [p for t, s in zip(times, shape, strict=True) for p in (t, s)]
    seen = input.reshape(*[p for s in shape for p in (1, s)]).expand(*pairs)
    return seen.clone().reshape(*[t * s for t, s in zip(times, shape, strict=True)])


def tile(input: Any, *dims: Any) -> Any:
    times = _ints(dims)
    return repeat(input, *((1,) * (input.ndim - len(times)) + tuple(times)))


def repeat_interleave(input: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Any:
    """Each element (or slice along ``dim``) ``repeats`` times in a row; repeats may be a tensor with a number for each."""
    if dim is None:
        input, dim = input.reshape(-1), 0
    dim = _dim("repeat_interleave", dim, input.ndim)
    size = input.shape[dim]
    if not isinstance(repeats, Tensor):
        index = _C.arange(size, device=input.device).unsqueeze(1).expand(size, repeats).reshape(-1)
        return _C.index_select(input, dim, index)
    if repeats.numel() not in (1, size) or repeats.ndim > 1:
        raise ValueError(f"[repeat_interleave] repeats: got shape {tuple(repeats.shape)}, expected ({size},)")
    counts = repeats.expand(size).tolist()
    if any(c < 0 for c in counts):
        raise ValueError("[repeat_interleave] repeats: got a negative number")
    index = _C.tensor([i for i, c in enumerate(counts) for _ in range(c)], dtype=_C.int64, device=input.device)
    return _C.index_select(input, dim, index)


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    shape = _shape_of(*tensors)
    return tuple(t.expand(*shape) if shape else t for t in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Coordinates of the grid spanned by vectors; "xy" has the first two dimensions exchanged."""
    given = _ints(tensors)
    if indexing not in ("ij", "xy"):
        raise ValueError(f"[meshgrid] indexing: got {indexing!r}, expected 'ij' or 'xy'")
    rank = len(given)
    sizes = [t.numel() for t in given]
    out = []
    for d, t in enumerate(given):
        shape = [1] * rank
        shape[d] = sizes[d]
        out.append(t.reshape(*shape).expand(*sizes))
    return tuple(g.transpose(0, 1) for g in out) if indexing == "xy" and rank > 1 else tuple(out)


# ----- joining and cutting ----------------------------------------------------------------------------------------------------------


def _at_least(t: Any, rank: int) -> Any:
    if t.ndim == 0:
        t = t.reshape(1)
    if rank >= 2 and t.ndim == 1:
        t = t.unsqueeze(0)
    return t.unsqueeze(-1) if rank == 3 and t.ndim == 2 else t


def hstack(tensors: Any) -> Any:
    given = [_at_least(t, 1) for t in tensors]
    return _C.cat(given, 0 if given[0].ndim == 1 else 1)


def vstack(tensors: Any) -> Any:
    return _C.cat([_at_least(t, 2) for t in tensors], 0)


def dstack(tensors: Any) -> Any:
    return _C.cat([_at_least(t, 3) for t in tensors], 2)


def column_stack(tensors: Any) -> Any:
    return _C.cat([t.reshape(-1, 1) if t.ndim <= 1 else t for t in tensors], 1)


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """In as many parts, the first ones one longer where it doesn't come out even; or before each of the indices."""
    dim = _dim("tensor_split", dim, input.ndim)
    size = input.shape[dim]
    if isinstance(indices_or_sections, int):
        n = indices_or_sections
        if n < 1:
            raise ValueError(f"[tensor_split] sections: got {n}, expected at least 1")
        cuts = [size // n * i + min(i, size % n) for i in range(n + 1)]
    else:
        given = indices_or_sections.tolist() if isinstance(indices_or_sections, Tensor) else list(indices_or_sections)
        cuts = [0, *(min(max(c + size if c < 0 else c, 0), size) for c in given), size]
    return tuple(input.narrow(dim, a, max(0, b - a)) for a, b in pairwise(cuts))


# ----- diagonals --------------------------------------------------------------------------------------------------------------------


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A view of a diagonal of two dimensions, which becomes the last one."""
    a, b = _dim("diagonal", dim1, input.ndim), _dim("diagonal", dim2, input.ndim)
    if a == b:
        raise ValueError(f"[diagonal] dim1 and dim2: got {dim1} and {dim2}, expected different dimensions")
    n = max(0, min(input.shape[a] + min(offset, 0), input.shape[b] - max(offset, 0)))
    strides, rest = input.stride(), [d for d in range(input.ndim) if d not in (a, b)]
    start = input.storage_offset() + (0 if n == 0 else strides[b] * offset if offset >= 0 else -strides[a] * offset)
    return input.as_strided((*[input.shape[d] for d in rest], n), (*[strides[d] for d in rest], strides[a] + strides[b]), start)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension on a diagonal, else 0."""
    rank = input.ndim + 1
    a, b = _dim("diag_embed", dim1, rank), _dim("diag_embed", dim2, rank)
    n = input.shape[-1] + abs(offset)
    square = _C.zeros(*input.shape[:-1], n, n, dtype=input.dtype, device=input.device)
    column = _C.arange(n, device=input.device)
    source = (column.unsqueeze(0) - max(offset, 0)).clamp(0, max(0, input.shape[-1] - 1)) if input.shape[-1] else None
    if source is not None:
        on = column.unsqueeze(1) + offset == column.unsqueeze(0)
        index = source.expand(n, n).reshape(-1)
        spread = _C.index_select(input, -1, index).reshape(*input.shape[:-1], n, n)
        square = _C.where(on, spread, square)
    return movedim(square, (-2, -1), (a, b))


def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with a vector on its diagonal, or a copy of a matrix's diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise ValueError(f"[diag] input: got {input.ndim} dimensions, expected 1 or 2")
    return _DIAGONAL(input, diagonal).clone()


_DIAGONAL = diagonal


def block_diag(*tensors: Any) -> Any:
    blocks = [_at_least(t, 2) for t in _ints(tensors)]
    width, rows, at = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        left, right = (_C.zeros(b.shape[0], n, dtype=b.dtype, device=b.device) for n in (at, width - at - b.shape[1]))
        rows.append(_C.cat((left, b, right), 1))
        at += b.shape[1]
    return _C.cat(rows, 0)


def _triangle_indices(row: int, col: int, device: Any, keep: Any) -> Any:
    grid = _C.arange(col, device=device) - _C.arange(row, device=device).unsqueeze(1)
    return _C.stack(_C.nonzero(keep(grid), as_tuple=True), 0)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """(2, n) rows and columns of the elements on and below a diagonal."""
    out = _triangle_indices(row, col, device, lambda d: d <= offset)
    return out if dtype is None else out.to(dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    out = _triangle_indices(row, col, device, lambda d: d >= offset)
    return out if dtype is None else out.to(dtype)


# ----- writing by index -------------------------------------------------------------------------------------------------------------


def _spread(op: str, input: Any, dim: int, index: Any) -> Any:
    dim = _dim(op, dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"[{op}] index: got shape {tuple(index.shape)}, expected a vector")
    shape = list(input.shape)
    shape[dim] = index.numel()
    return index.reshape(*[-1 if d == dim else 1 for d in range(input.ndim)]).expand(*shape)


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """``value`` in the slices that a vector of indices names."""
    number = value.item() if isinstance(value, Tensor) else value
    return _C.scatter(input, dim, _spread("index_fill", input, dim, index), number)


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Slices of ``source`` in the places that a vector of indices names."""
    return _C.scatter(input, dim, _spread("index_copy", input, dim, index), source)


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """The first elements of ``source``, in order, where ``mask`` is True."""
    if mask.dtype != _C.bool:
        raise TypeError(f"[masked_scatter] mask: got {mask.dtype!r}, expected bool")
    if input.dtype != source.dtype:
        raise TypeError(f"[masked_scatter] source: got {source.dtype!r}, expected {input.dtype!r}")
    mask, input = broadcast_tensors(mask, input)
    flat, values = mask.reshape(-1), source.reshape(-1)
    if flat.numel() == 0:
        return input.clone()
    place = _C.cumsum(flat.to(_C.int64), 0) - 1
    needed = place[-1].item() + 1
    if needed > values.numel():
        raise ValueError(f"[masked_scatter] source: got {values.numel()} elements, expected at least {needed}")
    if needed == 0:
        return input.clone()
    picked = _C.index_select(values, 0, _C.clamp(place, min=0)).reshape(input.shape)
    return _C.where(mask, picked, input)


# ----- counting ---------------------------------------------------------------------------------------------------------------------


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of 0, 1, … occurs in a vector of integers ≥ 0, or the sums of their weights."""
    if input.ndim != 1 or input.is_floating_point() or input.dtype == _C.bool:
        raise ValueError(f"[bincount] input: got {input.dtype!r} of shape {tuple(input.shape)}, expected a vector of integers")
    index = input.to(_C.int64)
    if index.numel() and index.min().item() < 0:
        raise ValueError("[bincount] input: got negative numbers")
    size = max(minlength, index.max().item() + 1 if index.numel() else 0)
    given = _C.ones(index.numel(), dtype=_C.int64, device=input.device) if weights is None else weights
    given = given if given.dtype in (_C.float32, _C.int64) else given.to(_C.float64)
    return _C.scatter_add(_C.zeros(size, dtype=given.dtype, device=input.device), 0, index, given)


def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The values that occur, ascending (NaNs each by itself); where each element went; how often each occurs."""
    if dim is not None:
        raise NotImplementedError("[unique] dim is not supported")
    values, order = _C.sort(input.reshape(-1), 0)
    n = values.numel()
    new = _C.cat((_C.ones(min(n, 1), dtype=_C.bool, device=input.device), values.narrow(0, 1, n - 1) != values.narrow(0, 0, n - 1))) \
        if n else _C.zeros(0, dtype=_C.bool, device=input.device)  # fmt: skip
    starts = _C.nonzero(new, as_tuple=True)[0]
    out = [_C.index_select(values, 0, starts)]
    if return_inverse:
        number = _C.cumsum(new.to(_C.int64), 0) - 1 if n else _C.zeros(0, dtype=_C.int64, device=input.device)
        out.append(_C.scatter(_C.zeros(n, dtype=_C.int64, device=input.device), 0, order, number).reshape(input.shape))
    if return_counts:
        ends = _C.cat((starts.narrow(0, 1, starts.numel() - 1), _C.tensor([n], device=input.device))) if n else starts
        out.append(ends - starts)
    return out[0] if len(out) == 1 else tuple(out)


def diff(input: Any, n: int = 1, dim: int = -1) -> Any:
    """Differences of neighbours along ``dim``, n times."""
    for _ in range(n):
        size = input.shape[_dim("diff", dim, input.ndim)]
        later, earlier = input.narrow(dim, min(1, size), max(0, size - 1)), input.narrow(dim, 0, max(0, size - 1))
        input = _C.logical_xor(later, earlier) if input.dtype == _C.bool else later - earlier
    return input


def searchsorted(sorted_sequence: Any, input: Any, *, right: bool = False) -> Any:
    """Where the values would have to be put into an ascending vector: before (or with ``right`` behind) equal ones."""
    if sorted_sequence.ndim != 1:
        raise NotImplementedError(f"[searchsorted] sorted_sequence: got {sorted_sequence.ndim} dimensions, expected 1")
    given = input if isinstance(input, Tensor) else _C.tensor(input, device=sorted_sequence.device)
    edges = sorted_sequence
    low = _C.zeros(*given.shape, dtype=_C.int64, device=edges.device)
    high = low + edges.numel()
    for _ in range(edges.numel().bit_length()):  # bisection of all at once
        open_, middle = low < high, (low + high) // 2
        edge = _C.index_select(edges, 0, _C.clamp(middle, max=max(0, edges.numel() - 1)).reshape(-1)).reshape(given.shape)
        above = _C.logical_not(given < edge) if right else _C.logical_not(edge >= given)
        low = _C.where(_C.logical_and(open_, above), middle + 1, low)
        high = _C.where(_C.logical_and(open_, _C.logical_not(above)), middle, high)
    return low


def bucketize(input: Any, boundaries: Any, *, right: bool = False) -> Any:
    return searchsorted(boundaries, input, right=right)


METHODS = (
    "movedim", "unflatten", "ravel", "roll", "fliplr", "flipud", "rot90", "repeat", "tile", "repeat_interleave", "tensor_split", "diagonal",
    "diag", "diag_embed", "index_fill", "index_copy", "masked_scatter", "bincount", "unique", "diff",
)  # fmt: skip
__all__ = [
    *(n for n in METHODS if n != "repeat"), "broadcast_tensors", "meshgrid", "hstack", "vstack", "dstack", "column_stack", "block_diag",
    "tril_indices", "triu_indices", "searchsorted", "bucketize",
]  # fmt: skip

name_wrong_arguments(globals(), [n for n in METHODS if n not in ("repeat", "tile")])
