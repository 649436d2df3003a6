"""Cases of matmul, the convolutions, pooling and random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hal.ops.spec import Op

from ..dtypes import FLOATS
from .case import Draft, View
from .values import LAYOUTS, empty_output, mixture, place, small_integers, wide

#: (M, K, N) around register tiles, chunks of 512 and empty.
MATMULS = (
    (0, 3, 2),
    (2, 0, 3),
    (2, 3, 0),
    (1, 1, 1),
    (1, 5, 1),
    (2, 3, 4),
    (5, 7, 15),
    (6, 8, 16),
    (7, 9, 17),
    (11, 33, 31),
    (12, 64, 32),
    (13, 65, 33),
    (6, 511, 16),
    (6, 512, 16),
    (6, 513, 16),
    (7, 1024, 17),
    (5, 1025, 9),
    (13, 1100, 31),
    (1, 1100, 1),
    (1, 513, 40),
    (40, 513, 1),
    (64, 64, 64),
    (97, 33, 50),
    (48, 600, 48),
    (3, 2100, 5),
    (6, 4097, 3),
    (130, 20, 7),
    (7, 20, 130),
)


def matmul(op: Op, dtype: str) -> Iterator[Draft]:
    def build(rng, a_shape, b_shape, a_layout="contiguous", b_layout="contiguous", values=wide, out=None):
        fields = {"inputs": (place(values(rng, dtype, a_shape), a_layout, rng), place(values(rng, dtype, b_shape), b_layout, rng))}
        if out is not None:
            shape = (*np.broadcast_shapes(a_shape[:-2], b_shape[:-2]), a_shape[-2], b_shape[-1])
            fields["outputs"] = (empty_output(rng, dtype, shape, out),)
        return fields

    def draft(label, *arguments, **options):
        return Draft(label, lambda rng: build(rng, *arguments, **options))

    for m, k, n in MATMULS:
        yield draft(f"{m}x{k}x{n}", (m, k), (k, n))
    for a in LAYOUTS:
        for b in LAYOUTS:
            yield draft(f"layout-{a}-{b}", (7, 40), (40, 19), a, b)
    for a, b in (
        ("transposed", "contiguous"),
        ("contiguous", "transposed"),
        ("transposed", "transposed"),
        ("reversed", "mixed"),
        ("stepped", "padded"),
    ):
        yield draft(f"deep-{a}-{b}", (14, 600), (600, 35), a, b)
        yield draft(f"vector-{a}-{b}", (1, 600), (600, 35), a, b)
        yield draft(f"column-{a}-{b}", (35, 600), (600, 1), a, b)
    for out in LAYOUTS[1:]:
        yield draft(f"out-{out}", (7, 40), (40, 19), out=out)
    for k, (a, b) in enumerate(
        (
            ((3, 7, 20), (3, 20, 17)),
            ((1, 7, 20), (3, 20, 17)),
            ((2, 1, 5, 9), (1, 3, 9, 4)),
            ((2, 3, 0, 9), (2, 3, 9, 4)),
            ((0, 3, 4), (0, 4, 5)),
            ((2, 3, 4, 0), (2, 3, 0, 5)),
            ((5, 6, 600), (1, 600, 7)),
            ((2, 2, 2, 3, 4), (2, 2, 2, 4, 5)),
        )
    ):
        yield draft(f"batch-{k}", a, b)
        yield draft(f"batch-{k}-transposed", a, b, "transposed", "transposed")
    yield Draft(
        "batch-stride-0",
        lambda rng: {
            "inputs": (View(wide(rng, dtype, (6 * 9,)), (4, 6, 9), (0, 9, 1)), place(wide(rng, dtype, (4, 9, 5)), "contiguous", rng))
        },
    )
    yield draft("small-integers", (20, 30), (30, 20), values=small_integers)
    if dtype in FLOATS:
        yield draft("mixture", (9, 3), (3, 9), values=mixture)
        yield draft(
            "mixture-deep",
            (9, 515),
            (515, 9),
            values=lambda rng, d, s: np.where(rng.random(s) < 0.002, mixture(rng, d, s), wide(rng, d, s)),
        )
        yield draft("minus-zeros", (3, 515), (515, 2), values=lambda rng, d, s: np.full(s, -0.0, np.float64).astype(wide(rng, d, ()).dtype))
        yield draft(
            "minus-zero-products",
            (3, 4),
            (4, 18),
            values=lambda rng, d, s: np.full(s, -0.0 if s == (3, 4) else 1.0, np.float64).astype(wide(rng, d, ()).dtype),
        )


class Conv(NamedTuple):
    n: int
    c: int
    h: int
    w: int
    o: int
    kh: int
    kw: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def output(self) -> tuple[int, int]:
        return (
            (self.h + 2 * self.padding[0] - self.dilation[0] * (self.kh - 1) - 1) // self.stride[0] + 1,
            (self.w + 2 * self.padding[1] - self.dilation[1] * (self.kw - 1) - 1) // self.stride[1] + 1,
        )

    def label(self) -> str:
        return (
            f"{self.n}x{self.c}x{self.h}x{self.w}-o{self.o}-k{self.kh}x{self.kw}-s{self.stride[0]}x{self.stride[1]}-p{self.padding[0]}x{self.padding[1]}"
            f"-d{self.dilation[0]}x{self.dilation[1]}-g{self.groups}"
        )


#: Channels around blocks of 16, chunks of each kernel size, and every parameter.
CONVS = (
    Conv(1, 1, 1, 1, 1, 1, 1),
    Conv(1, 1, 5, 5, 1, 3, 3),
    Conv(2, 1, 8, 8, 16, 3, 3, padding=(1, 1)),
    Conv(1, 3, 9, 11, 5, 3, 3, padding=(1, 1)),
    Conv(1, 15, 6, 7, 16, 3, 3, padding=(1, 1)),
    Conv(2, 16, 6, 7, 17, 3, 3, padding=(1, 1)),
    Conv(1, 17, 6, 20, 15, 3, 3, padding=(1, 1)),
    Conv(1, 33, 5, 6, 33, 3, 3, padding=(1, 1)),
    Conv(1, 49, 4, 4, 3, 3, 3, padding=(1, 1)),
    Conv(1, 65, 4, 5, 6, 3, 3, padding=(1, 1)),
    Conv(1, 3, 4, 5, 65, 3, 3, padding=(1, 1)),
    Conv(2, 16, 9, 9, 8, 3, 3, (2, 2), (1, 1)),
    Conv(1, 5, 9, 12, 7, 3, 2, (2, 3), (1, 0)),
    Conv(1, 4, 12, 11, 3, 3, 3, (1, 1), (2, 2), (2, 2)),
    Conv(1, 4, 12, 11, 3, 2, 3, (2, 1), (1, 3), (3, 2)),
    Conv(1, 33, 7, 7, 4, 5, 5, padding=(2, 2)),
    Conv(1, 17, 9, 9, 3, 7, 7, padding=(3, 3)),
    Conv(1, 3, 16, 16, 8, 7, 7, (2, 2), (3, 3)),
    Conv(2, 8, 6, 6, 8, 1, 1),
    Conv(1, 530, 3, 3, 4, 1, 1),
    Conv(1, 4, 3, 3, 530, 1, 1),
    Conv(1, 20, 5, 5, 9, 1, 1, (2, 2)),
    Conv(2, 17, 6, 6, 17, 3, 3, padding=(1, 1), groups=17),
    Conv(1, 66, 4, 4, 4, 3, 3, padding=(1, 1), groups=2),
    Conv(1, 6, 5, 5, 40, 3, 3, groups=2),
    Conv(1, 8, 5, 5, 12, 2, 2, groups=4),
    Conv(0, 3, 5, 5, 4, 3, 3),
    Conv(1, 2, 3, 40, 3, 3, 1, padding=(4, 0)),
    Conv(20, 2, 21, 20, 2, 1, 1),
    Conv(1, 1, 18, 600, 2, 1, 1),
    Conv(3, 2, 70, 9, 2, 3, 3, padding=(1, 1)),
    Conv(1, 2, 5, 6, 2, 3, 3, (3, 3), (1, 1)),
    Conv(1, 2, 5, 6, 2, 2, 2, (4, 4)),
    Conv(1, 16, 14, 14, 32, 3, 3, padding=(1, 1)),
    Conv(1, 2, 4, 4, 3, 4, 4),
    Conv(2, 6, 19, 37, 6, 3, 3, (2, 2), (1, 1), groups=6),
    Conv(1, 8, 9, 40, 16, 5, 5, (1, 1), (2, 2), (2, 2), groups=4),
    Conv(1, 3, 20, 41, 8, 5, 5, (2, 2), (2, 2)),
    Conv(2, 20, 6, 40, 7, 1, 1, (2, 2)),
)


def convolution(op: Op, dtype: str) -> Iterator[Draft]:
    def build(rng, c: Conv, layouts=("contiguous", "contiguous"), values=wide, out=None):
        x, w, g = (c.n, c.c, c.h, c.w), (c.o, c.c // c.groups, c.kh, c.kw), (c.n, c.o, *c.output())
        operands, result = {"conv2d": ((x, w), g), "conv2d_input_grad": ((g, w), x), "conv2d_weight_grad": ((g, x), w)}[op.name]
        fields = {
            "inputs": tuple(place(values(rng, dtype, s), how, rng) for s, how in zip(operands, layouts, strict=True)),
            "attributes": {"stride": c.stride, "padding": c.padding, "dilation": c.dilation, "groups": c.groups},
        }
        if out is not None:
            fields["outputs"] = (empty_output(rng, dtype, result, out),)
        elif op.name != "conv2d":
            fields["shape"] = result
        return fields

    for c in CONVS:
        yield Draft(c.label(), lambda rng, c=c: build(rng, c))
    for c in (CONVS[3], CONVS[13], CONVS[18], CONVS[22], CONVS[25], CONVS[37]):
        for layout in LAYOUTS[1:]:
            yield Draft(f"layout-{layout}-{c.label()}", lambda rng, c=c, layout=layout: build(rng, c, (layout, layout)))
            yield Draft(f"out-{layout}-{c.label()}", lambda rng, c=c, layout=layout: build(rng, c, out=layout))
        yield Draft(
            f"mixture-{c.label()}",
            lambda rng, c=c: build(rng, c, values=lambda r, d, s: np.where(r.random(s) < 0.02, mixture(r, d, s), wide(r, d, s))),
        )
        yield Draft(f"ties-{c.label()}", lambda rng, c=c: build(rng, c, values=small_integers))


class Pool(NamedTuple):
    n: int
    c: int
    h: int
    w: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    ceil_mode: int = 0

    def output(self) -> tuple[int, ...]:
        out = []
        for size, k, s, p, d in zip((self.h, self.w), self.kernel, self.stride, self.padding, self.dilation, strict=True):
            span = size + 2 * p - d * (k - 1) - 1
            count = (span + (s - 1) * self.ceil_mode) // s + 1
            out.append(count - 1 if self.ceil_mode and (count - 1) * s >= size + p else count)
        return tuple(out)

    def attributes(self) -> dict:
        return {
            "kernel": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "ceil_mode": self.ceil_mode,
        }


POOLS = (
    Pool(1, 1, 1, 1, (1, 1), (1, 1)),
    Pool(2, 3, 8, 8, (2, 2), (2, 2)),
    Pool(2, 3, 9, 7, (2, 2), (2, 2)),
    Pool(2, 3, 9, 7, (2, 2), (2, 2), ceil_mode=1),
    Pool(1, 2, 10, 11, (3, 3), (2, 2), (1, 1)),
    Pool(1, 2, 10, 11, (3, 3), (2, 2), (1, 1), ceil_mode=1),
    Pool(1, 2, 10, 11, (3, 3), (1, 1), (1, 1)),
    Pool(1, 2, 12, 9, (3, 2), (1, 2), (1, 0), (2, 3)),
    Pool(1, 2, 12, 40, (2, 3), (3, 1), (0, 1), (1, 2), 1),
    Pool(0, 2, 4, 4, (2, 2), (2, 2)),
    Pool(1, 2, 6, 6, (2, 2), (4, 4)),
    Pool(1, 1, 40, 33, (5, 5), (1, 1), (2, 2)),
    Pool(1, 2, 1, 5, (2, 2), (1, 1), (1, 1), (2, 2)),
)


def pooling(op: Op, dtype: str) -> Iterator[Draft]:
    def build(rng, p: Pool, layout="contiguous", values=small_integers, out=None):
        x, y = (p.n, p.c, p.h, p.w), (p.n, p.c, *p.output())
        if op.name == "max_pool2d":
            fields = {"inputs": (place(values(rng, dtype, x), layout, rng),), "attributes": p.attributes()}
            outputs = [(dtype, y), ("i64", y)]
        else:
            indices = place(_reachable(rng, p), layout if layout != "padded" else "contiguous", rng)
            backward = op.name == "max_pool2d_backward"
            fields = {
                "inputs": (place((wide if backward else values)(rng, dtype, y if backward else x), layout, rng), indices),
                "attributes": p.attributes() if op.attributes else {},
            }
            outputs = [(dtype, x if backward else y)]
            if backward and out is None:
                fields["shape"] = x
        if out is not None:
            fields["outputs"] = tuple(empty_output(rng, d, s, out) for d, s in outputs)
        return fields

    for k, p in enumerate(POOLS):
        yield Draft(f"{k}-ties", lambda rng, p=p: build(rng, p))
        yield Draft(f"{k}-wide", lambda rng, p=p: build(rng, p, values=wide))
        yield Draft(f"{k}-mixture", lambda rng, p=p: build(rng, p, values=mixture))
    for k in (1, 4, 6, 7):
        for layout in LAYOUTS[1:]:
            yield Draft(f"{k}-{layout}", lambda rng, k=k, layout=layout: build(rng, POOLS[k], layout))
            yield Draft(f"{k}-out-{layout}", lambda rng, k=k, layout=layout: build(rng, POOLS[k], out=layout))
    yield Draft(
        "all-minus-infinity", lambda rng: build(rng, POOLS[4], values=lambda r, d, s: np.full(s, -np.inf).astype(wide(r, d, ()).dtype))
    )


def _reachable(rng, p: Pool) -> np.ndarray:
    """Indices that a pooling could give: for each output any position of its window."""
    out = np.empty((p.n, p.c, *p.output()), np.int64)
    for n, c, oh, ow in np.ndindex(*out.shape):
        rows = [i for k in range(p.kernel[0]) if 0 <= (i := oh * p.stride[0] - p.padding[0] + k * p.dilation[0]) < p.h]
        columns = [i for k in range(p.kernel[1]) if 0 <= (i := ow * p.stride[1] - p.padding[1] + k * p.dilation[1]) < p.w]
        inside = rows and columns  # else the window is empty: index 0
        out[n, c, oh, ow] = rows[rng.integers(len(rows))] * p.w + columns[rng.integers(len(columns))] if inside else 0
    return out


SEEDS = (0, 1, 42, 2**32 - 1, 2**32, 2**63 - 1, 0x123456789ABCDEF, -1)
OFFSETS = (0, 4, 8, 4096, 2**32 - 4, 2**34 - 8, 2**34, 2**40)


def random_numbers(op: Op, dtype: str) -> Iterator[Draft]:
    parameters: list[tuple] = {
        "random_uniform": [(0.0, 1.0), (-1.5, 2.25), (0.1, 0.3), (3.0, 3.0)],
        "random_normal": [(0.0, 1.0), (0.5, 2.0), (-3.0, 0.1)],
        "random_bernoulli": [(0.5,), (0.0,), (1.0,), (0.1,)],
        "random_integer": [(0, 10), (0, 1), (5, 100), (0, 2**32)]
        + ([(-100, 100), (-(2**31), 2**31), (2**40, 2**40 + 7)] if dtype != "u8" else []),
    }[op.name]
    for k, values in enumerate(parameters):
        for n in (0, 1, 2, 3, 4, 5, 31, 33, 4097, 10001):

            def build(rng, n=n, values=values):
                return {
                    "inputs": (int(rng.integers(-(2**63), 2**63 - 1)), 4 * int(rng.integers(0, 1000)), *values),
                    "shape": (n,),
                    "out_dtype": dtype,
                }

            yield Draft(f"{k}-size-{n}", build)
    for j, seed in enumerate(SEEDS):
        for k, offset in enumerate(OFFSETS):
            yield Draft(
                f"seed-{j}-offset-{k}",
                lambda rng, seed=seed, offset=offset: {"inputs": (seed, offset, *parameters[0]), "shape": (3, 7), "out_dtype": dtype},
            )
    yield Draft("scalar", lambda rng: {"inputs": (3, 0, *parameters[0]), "shape": (), "out_dtype": dtype})
    for layout in LAYOUTS[1:]:
        yield Draft(
            f"out-{layout}",
            lambda rng, layout=layout: {"inputs": (7, 12, *parameters[0]), "outputs": (empty_output(rng, dtype, (6, 35), layout),)},
        )
