"""conv2d and its gradients (section 8 of docs/numerics.md), as tiles over packed panels: k runs in the contract's order in the panels."""

from __future__ import annotations

from collections.abc import Sequence

from .build import Builder, Tensor
from .packing import Side, pack, widths
from .panels import Columns, multiply
from .reduce import kind, reduce
from .types import ITEMSIZE, compute

#: Bytes of panels that one pass may pack; longer work goes in passes over images (or channels).
PANEL_BYTES = 64 << 20


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return int(first), int(second)


class _Geometry:
    def __init__(self, b: Builder, x: Tensor, w: Tensor, y: Tensor) -> None:
        self.stride, self.padding, self.dilation = (_pair(b.attribute(n)) for n in ("stride", "padding", "dilation"))
        self.groups = int(b.attribute("groups"))
        if min(*self.stride, *self.dilation, self.groups) < 1 or min(self.padding) < 0:
            raise b.unsupported("stride, dilation and groups: expected at least 1, padding at least 0")
        self.images = x.shape[0]
        self.size, self.kernel, self.out = _pair(x.shape[2:]), _pair(w.shape[2:]), _pair(y.shape[2:])
        self.c, self.o = w.shape[1], w.shape[0] // self.groups
        if x.shape[1] != self.c * self.groups or y.shape[1] != w.shape[0] or y.shape[0] != x.shape[0] or w.shape[0] % self.groups:
            raise b.unsupported(
                f"shapes: got x {x.shape}, weight {w.shape}, output {y.shape}, {self.groups} groups, which don't belong together"
            )
        self.taps = self.kernel[0] * self.kernel[1]
        self.back = (-self.padding[0], -self.padding[1])

    @property
    def chunk(self) -> int:
        """k per chunk: whole blocks of 16 channels."""
        return max(1, 512 // max(16 * self.taps, 1)) * 16 * self.taps

    def passes(self, count: int, each: int) -> list[tuple[int, int]]:
        """(first, number) of images, as many at once as the panels may hold; ``each``: bytes of one."""
        step = max(1, min(count, PANEL_BYTES // max(each, 1)))
        return [(first, min(step, count - first)) for first in range(0, count, step)] or [(0, 0)]


def _weight(g: _Geometry, w: Tensor, rows: int, depth: int, step_row: int, step_k: int) -> Side:
    return Side(
        w,
        (rows, 1, 1),
        (depth, *g.kernel),
        step_row,
        step_k,
        (w.strides[2], w.strides[3]),
        k_hw=(1, 1),
        size_hw=(g.kernel[0], g.kernel[1]),
        block=16,
        batch=((g.groups, g.o * w.strides[0]),),
    )


def conv2d(b: Builder) -> None:
    x, w, out = b.input(0), b.input(1), b.output(0)
    g = _Geometry(b, x, w, out)
    rows_wide, cols_wide = widths(b, out.dtype)
    a = pack(b, _weight(g, w, g.o, g.c, w.strides[0], w.strides[1]), rows_wide)
    depth = g.c * g.taps
    start = b.workspace_bytes
    for first, count in g.passes(g.images, depth * g.groups * g.out[0] * g.out[1] * ITEMSIZE[compute(out.dtype)]):
        b.rewind(start)
        part = x.view(x.shape, x.strides, x.offset + first * x.strides[0])
        columns = Side(
            part,
            (count, g.out[0], g.out[1]),
            (g.c, *g.kernel),
            x.strides[0],
            x.strides[1],
            (x.strides[2], x.strides[3]),
            g.stride,
            g.dilation,
            g.back,
            (g.size[0], g.size[1]),
            block=16,
            batch=((g.groups, g.c * x.strides[1]),),
        )
        packed = pack(b, columns, cols_wide)
        where = Columns(columns.lanes, (out.strides[0], out.strides[2], out.strides[3]))
        offset, batch = out.offset + first * out.strides[0], [(g.groups, g.o * out.strides[1])]
        multiply(b, out.dtype, (a, g.groups), (packed, g.groups), g.o, depth, where, out, out.strides[1], offset, batch, g.chunk)


def conv2d_input_grad(b: Builder) -> None:
    """Taps outside the output are left out, not zero: they count only where a weight isn't finite (0·inf), which a pass over w finds."""
    grad, w, out = b.input(0), b.input(1), b.output(0)
    g = _Geometry(b, out, w, grad)
    c = compute(out.dtype)
    rows_wide, cols_wide = widths(b, out.dtype)
    flag = b.scratch("bool", ())
    reduce(b, kind("all", "bool"), w.shape, range(4), [("w", w)], flag, f"hal_isfinite_{c}(w)")
    a = pack(b, _weight(g, w, g.c, g.o, w.strides[1], w.strides[0]), rows_wide)
    depth = g.o * g.taps
    start = b.workspace_bytes
    for first, count in g.passes(g.images, depth * g.groups * g.size[0] * g.size[1] * ITEMSIZE[c]):
        b.rewind(start)
        part = grad.view(grad.shape, grad.strides, grad.offset + first * grad.strides[0])
        columns = Side(
            part,
            (count, g.size[0], g.size[1]),
            (g.o, *g.kernel),
            grad.strides[0],
            grad.strides[1],
            (grad.strides[2], grad.strides[3]),
            (1, 1),
            (-g.dilation[0], -g.dilation[1]),
            g.padding,
            (g.out[0], g.out[1]),
            g.stride,
            16,
            ((g.groups, g.o * grad.strides[1]),),
        )
        packed = pack(b, columns, cols_wide, flag)
        where = Columns(columns.lanes, (out.strides[0], out.strides[2], out.strides[3]))
        offset, batch = out.offset + first * out.strides[0], [(g.groups, g.c * out.strides[1])]
        multiply(b, out.dtype, (a, g.groups), (packed, g.groups), g.c, depth, where, out, out.strides[1], offset, batch, g.chunk, flag=flag)


def conv2d_weight_grad(b: Builder) -> None:
    grad, x, out = b.input(0), b.input(1), b.output(0)
    g = _Geometry(b, x, out, grad)
    rows_wide, cols_wide = widths(b, out.dtype)
    k = (g.images, g.out[0], g.out[1])
    depth = k[0] * k[1] * k[2]
    rows = Side(
        grad,
        (g.o, 1, 1),
        k,
        grad.strides[1],
        grad.strides[0],
        (grad.strides[2], grad.strides[3]),
        k_hw=(1, 1),
        size_hw=(g.out[0], g.out[1]),
        batch=((g.groups, g.o * grad.strides[1]),),
    )
    a = pack(b, rows, rows_wide)
    chunk = max(1, 512 // max(g.out[1], 1)) * max(g.out[1], 1)
    start = b.workspace_bytes
    for first, count in g.passes(g.c, depth * g.groups * g.taps * ITEMSIZE[compute(out.dtype)]):
        b.rewind(start)
        part = x.view(x.shape, x.strides, x.offset + first * x.strides[1])
        columns = Side(
            part,
            (count, *g.kernel),
            k,
            x.strides[1],
            x.strides[0],
            (x.strides[2], x.strides[3]),
            g.dilation,
            g.stride,
            g.back,
            (g.size[0], g.size[1]),
            batch=((g.groups, g.c * x.strides[1]),),
        )
        packed = pack(b, columns, cols_wide)
        where = Columns(columns.lanes, (out.strides[1], out.strides[2], out.strides[3]))
        offset, batch = out.offset + first * out.strides[1], [(g.groups, g.o * out.strides[0])]
        multiply(
            b, out.dtype, (a, g.groups), (packed, g.groups), g.o, depth, where, out, out.strides[0], offset, batch, chunk, grouped=True
        )
