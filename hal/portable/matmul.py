"""matmul (section 7 of docs/numerics.md)."""

from __future__ import annotations

from .build import Builder
from .packing import Side, pack, widths
from .panels import Columns, multiply
from .views import broadcast, collapse

CHUNK = 512


def matmul(b: Builder) -> None:
    x, y, out = b.input(0), b.input(1), b.output(0)
    if not (len(x.shape) == len(y.shape) == len(out.shape) >= 2) or x.shape[-1] != y.shape[-2]:
        raise b.unsupported(f"shapes: got {x.shape} and {y.shape}, expected (…, M, K) and (…, K, N) of equal rank")
    lead, (m, k), n = out.shape[:-2], x.shape[-2:], y.shape[-1]
    steps = [broadcast(t.shape[:-2], t.strides[:-2], lead) for t in (x, y)]
    sizes, (xs, ys, outs) = collapse(lead, [*steps, out.strides[:-2]]) if lead else ((1,), [(0,), (0,), (0,)])
    if len(sizes) > 8:
        raise b.unsupported(f"batch dimensions: got {len(sizes)}, expected at most 8 that can't be merged")
    batches = [() if not any(s) else tuple(zip(sizes, s)) for s in (xs, ys)]
    rows_wide, cols_wide = widths(b, out.dtype)
    # step_hw is unused: one place, always inside
    left = Side(x, (m, 1, 1), (k, 1, 1), x.strides[-2], x.strides[-1], block=max(k, 1), batch=batches[0])
    right = Side(y, (n, 1, 1), (k, 1, 1), y.strides[-1], y.strides[-2], block=max(k, 1), batch=batches[1])
    packed = []
    for side, width in ((left, rows_wide), (right, cols_wide)):
        count = 1
        for size, _ in side.batch:
            count *= size
        packed.append((pack(b, side, width), count))
    columns = Columns((n, 1, 1), (out.strides[-1], 0, 0))
    multiply(b, out.dtype, packed[0], packed[1], m, k, columns, out, out.strides[-2], out.offset, list(zip(sizes, outs)), CHUNK)
