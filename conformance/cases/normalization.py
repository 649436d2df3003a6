"""Cases of layer_norm, batch_norm and the averaging pools."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from hal.ops.spec import Op

from ..dtypes import NUMPY, compute_type
from .case import Draft
from .values import LAYOUTS, empty_output, mixture, moderate, place, wide

#: (shape, first normalized axis): around lanes and blocks, tiles of columns and blocks of rows.
ROWS = (
    ((1,), 0),
    ((5, 1), 1),
    ((4, 31), 1),
    ((3, 33), -1),
    ((2, 256), 1),
    ((2, 4096), 1),
    ((2, 4097), 1),
    ((2, 8200), 1),
    ((4, 3, 5, 7), 2),
    ((5, 6, 7), 0),
    ((40, 65), 1),
    ((2, 3, 70), -1),
    ((4100, 3), 1),
    ((8300, 2), 1),
    ((0, 5), 1),
    ((5, 0), 1),
    ((2, 0, 3), 1),
)

CHANNELS = (
    (4, 3),
    (33, 5),
    (4097, 2),
    (2, 3, 7),
    (2, 3, 5, 7),
    (3, 2, 64, 65),
    (9, 4, 7, 7),
    (1, 3, 4100),
    (2, 2, 2, 3, 5),
    (0, 3, 4),
    (2, 0, 4),
    (2, 3, 0),
)


def _statistics(rng, x: np.ndarray, dtype: str, axes: tuple[int, ...], keep: bool) -> list[np.ndarray]:
    """Means and reciprocal deviations near the true ones: what a backward op gets."""
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    if not keep:
        shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    c = NUMPY[compute_type(dtype)]
    return [(rng.random(shape) - 0.5).astype(c), (0.2 + rng.random(shape)).astype(c)]


def layer_norm(op: Op, dtype: str) -> Iterator[Draft]:
    def build(rng, shape, axis, parameters=(1, 1), layout="contiguous", values=moderate, out=None):
        axis = axis % len(shape)
        inner, axes = shape[axis:], tuple(range(axis, len(shape)))
        x = values(rng, dtype, shape)
        given = [place(moderate(rng, dtype, inner), layout, rng) if p else None for p in parameters]
        statistics = [place(s, layout, rng) for s in _statistics(rng, x, dtype, axes, True)]
        grad = place(wide(rng, dtype, shape), layout, rng)
        inputs = {
            "layer_norm": (place(x, layout, rng), *given, 1e-5),
            "layer_norm_backward": (grad, place(x, layout, rng), *statistics, given[0]),
            "layer_norm_param_grad": (grad, place(x, layout, rng), *statistics),
        }[op.name]
        fields = {"inputs": inputs, "attributes": {"axis": axis}}
        if out is not None:
            c, keep = compute_type(dtype), (*shape[:axis], *(1,) * len(inner))
            outputs = {
                "layer_norm": [(dtype, shape), (c, keep), (c, keep)],
                "layer_norm_backward": [(dtype, shape)],
                "layer_norm_param_grad": [(dtype, inner)] * 2,
            }[op.name]
            fields["outputs"] = tuple(empty_output(rng, d, s, out) for d, s in outputs)
        return fields

    def draft(label, *arguments, **options):
        return Draft(label, lambda rng: build(rng, *arguments, **options))

    for k, (shape, axis) in enumerate(ROWS):
        yield draft(f"{k}", shape, axis)
        yield draft(f"{k}-wide", shape, axis, values=wide)
    for parameters in ((0, 0), (1, 0), (0, 1)):
        for shape, axis in (((3, 40), 1), ((2, 3, 5, 7), 2)):
            yield draft(f"parameters-{parameters[0]}{parameters[1]}-{len(shape)}", shape, axis, parameters)
    for layout in LAYOUTS[1:]:
        yield draft(f"{layout}", (4, 5, 6, 7), 2, layout=layout)
        yield draft(f"{layout}-long", (2, 4100), 1, layout=layout)
        yield draft(f"out-{layout}", (4, 5, 33), 1, out=layout)
    yield draft("mixture", (200, 9), 1, values=mixture)
    yield draft("constant", (3, 40), 1, values=lambda r, d, s: np.full(s, 1.5).astype(NUMPY[d]))


def batch_norm(op: Op, dtype: str) -> Iterator[Draft]:
    def build(rng, shape, parameters=(1, 1), layout="contiguous", values=moderate, out=None):
        channels = (shape[1],)
        x = values(rng, dtype, shape)
        given = [place(moderate(rng, dtype, channels), layout, rng) if p else None for p in parameters]
        axes = tuple(k for k in range(len(shape)) if k != 1)
        statistics = [place(s, layout, rng) for s in _statistics(rng, x, dtype, axes, False)]
        inputs = {
            "batch_norm": (place(x, layout, rng), *given, 1e-5),
            "batch_norm_eval": (place(x, layout, rng), *statistics, *given),
            "batch_norm_backward": (place(wide(rng, dtype, shape), layout, rng), place(x, layout, rng), *statistics, given[0]),
        }[op.name]
        fields = {"inputs": inputs}
        if out is not None:
            c = compute_type(dtype)
            outputs = {
                "batch_norm": [(dtype, shape), *[(c, channels)] * 3],
                "batch_norm_eval": [(dtype, shape)],
                "batch_norm_backward": [(dtype, shape), *[(dtype, channels)] * 2],
            }[op.name]
            fields["outputs"] = tuple(empty_output(rng, d, s, out) for d, s in outputs)
        return fields

    def draft(label, *arguments, **options):
        return Draft(label, lambda rng: build(rng, *arguments, **options))

    for k, shape in enumerate(CHANNELS):
        yield draft(f"{k}", shape)
        yield draft(f"{k}-wide", shape, values=wide)
    for parameters in ((0, 0), (1, 0), (0, 1)):
        yield draft(f"parameters-{parameters[0]}{parameters[1]}", (3, 4, 5, 6), parameters)
    for layout in LAYOUTS[1:]:
        yield draft(f"{layout}", (4, 5, 6, 7), layout=layout)
        yield draft(f"{layout}-long", (3, 2, 1500), layout=layout)
        yield draft(f"out-{layout}", (4, 5, 33), out=layout)
    yield draft("mixture", (20, 9, 4), values=mixture)


#: (input, attributes)
AVERAGES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 1, 1, 1), {}),
    ((2, 3, 8, 8), {"kernel": (2, 2), "stride": (2, 2)}),
    ((1, 2, 7, 9), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}),
    ((1, 2, 7, 9), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "count_include_pad": 0}),
    ((2, 1, 7, 10), {"kernel": (3, 2), "stride": (2, 3), "padding": (1, 0), "ceil_mode": 1}),
    ((2, 1, 7, 10), {"kernel": (3, 4), "stride": (2, 3), "padding": (1, 2), "ceil_mode": 1, "count_include_pad": 0}),
    ((1, 3, 6, 6), {"kernel": (3, 3), "stride": (1, 1), "divisor": 5}),
    ((1, 2, 5, 600), {"kernel": (5, 2), "stride": (1, 1), "padding": (0, 1)}),
    ((0, 3, 4, 4), {"kernel": (2, 2)}),
    ((2, 0, 4, 4), {"kernel": (2, 2)}),
    ((1, 1, 70, 70), {"kernel": (70, 70)}),
)
ADAPTIVE = (
    ((1, 1, 1, 1), (1, 1)),
    ((2, 3, 7, 7), (1, 1)),
    ((2, 3, 8, 6), (4, 3)),
    ((1, 2, 7, 10), (3, 4)),
    ((1, 2, 3, 2), (5, 7)),
    ((1, 1, 70, 70), (1, 1)),
    ((0, 2, 3, 3), (2, 2)),
)


def averages(op: Op, dtype: str) -> Iterator[Draft]:
    adaptive, backward = op.name.startswith("adaptive"), op.name.endswith("backward")

    def build(rng, shape, attributes, layout="contiguous", values=wide, out=None):
        from ..reference.normalization import _windows  # sizes only

        counts = _windows(op.name, attributes, shape[2:])[2]
        small = (*shape[:2], *counts.shape)
        source, result = (small, shape) if backward else (shape, small)
        fields = {"inputs": (place(values(rng, dtype, source), layout, rng),), "attributes": attributes}
        if out is not None:
            fields["outputs"] = (empty_output(rng, dtype, result, out),)
        elif backward:
            fields["shape"] = result
        return fields

    def draft(label, *arguments, **options):
        return Draft(label, lambda rng: build(rng, *arguments, **options))

    entries = [(s, {"size": a}) for s, a in ADAPTIVE] if adaptive else list(AVERAGES)
    for k, (shape, attributes) in enumerate(entries):
        yield draft(f"{k}", shape, attributes)
        yield draft(f"{k}-mixture", shape, attributes, values=mixture)
        if 0 < prod(shape) < 300:
            for layout in LAYOUTS[1:]:
                yield draft(f"{k}-{layout}", shape, attributes, layout)
                yield draft(f"{k}-out-{layout}", shape, attributes, out=layout)
