"""Cases of reductions, softmax and its kin, and losses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np

from hal.ops.spec import Op

from ..dtypes import FLOATS, NUMPY
from .case import Draft, View
from .values import LAYOUTS, bell, empty_output, mixture, moderate, place, small_integers, wide

#: Around lanes (32) and blocks (4096); several blocks; more blocks than lanes.
LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097, 4129, 8192, 8200, 12289, 4096 * 33 + 5)
NO_RESULT_OF_NOTHING = ("amax", "amin", "argmax", "argmin")


def _mask(axes) -> int:
    return sum(1 << k for k in axes)


def reductions(op: Op, dtype: str) -> Iterator[Draft]:
    def build(rng, shape, axes, values=wide, layout="contiguous"):
        x = values(rng, dtype, shape)
        if op.name == "prod" and values is wide and dtype in FLOATS:
            x = (1 + bell(rng, shape) / 64).astype(NUMPY[dtype])
        return {"inputs": (place(x, layout, rng),), "attributes": {"axes": _mask(axes)}}

    def draft(label, *arguments, **options):
        return Draft(label, lambda rng: build(rng, *arguments, **options))

    for n in LENGTHS:
        yield draft(f"length-{n}", (n,), (0,))
    for values in (small_integers, mixture, moderate):
        for n in (1, 40, 4097):
            yield draft(f"{values.__name__}-{n}", (n,), (0,), values)
        yield draft(f"{values.__name__}-rows", (50, 37), (1,), values)
        yield draft(f"{values.__name__}-columns", (37, 50), (0,), values)
    yield draft("zeros", (40, 3), (1,), lambda rng, d, s: np.zeros(s, NUMPY[d]))
    if dtype in FLOATS:
        yield draft("minus-zeros", (40, 3), (1,), lambda rng, d, s: np.full(s, -0.0).astype(NUMPY[d]))
        yield draft("minus-zero", (1,), (0,), lambda rng, d, s: np.full(s, -0.0).astype(NUMPY[d]))
    for axes in chain.from_iterable(combinations(range(3), r) for r in (1, 2, 3)):
        for layout in LAYOUTS:
            yield draft(f"axes-{''.join(map(str, axes))}-{layout}", (5, 7, 33), axes, layout=layout)
    for shape, axes in (
        ((3, 4097), (1,)),
        ((4097, 3), (0,)),
        ((40, 33, 70), (0, 2)),
        ((40, 33, 70), (1,)),
        ((2, 3, 4, 5, 6), (1, 3)),
        ((70, 65), (0,)),
        ((4100, 17), (0,)),
        ((3, 2, 4100), (0, 2)),
        ((100, 90), (0, 1)),
        ((1, 1), (0,)),
        ((1, 5), (0,)),
        ((64, 1, 1), (1, 2)),
    ):
        for layout in ("contiguous", "transposed", "reversed"):
            yield draft(f"{'x'.join(map(str, shape))}-axes-{''.join(map(str, axes))}-{layout}", shape, axes, layout=layout)
    yield draft("no-rows", (0, 5), (1,))
    yield draft("no-axes", (5, 33), (), mixture)
    yield draft("scalar", (), (), mixture)
    if op.name not in NO_RESULT_OF_NOTHING:
        yield draft("empty", (0,), (0,))
        yield draft("empty-rows", (5, 0), (1,))
        yield draft("empty-columns", (0, 4), (0,))
    yield Draft("stride-0", lambda rng: {"inputs": (View(wide(rng, dtype, (37,)), (9, 37), (0, 1)),), "attributes": {"axes": 1}})
    yield Draft("stride-0-all", lambda rng: {"inputs": (View(wide(rng, dtype, (1,)), (300, 37), (0, 0)),), "attributes": {"axes": 3}})
    if dtype in FLOATS:
        for n in (5, 40, 4097):
            for k, special in enumerate((np.nan, np.inf, -np.inf)):

                def with_special(rng, d, s, special=special):
                    x = moderate(rng, d, s)
                    x[rng.integers(0, s[0], 2)] = special
                    return x

                yield draft(f"special-{k}-{n}", (n,), (0,), with_special)
        yield draft("overflow", (300,), (0,), lambda rng, d, s: np.full(s, 60000.0 if d == "f16" else 3e38).astype(NUMPY[d]))


def along_axis(op: Op, dtype: str) -> Iterator[Draft]:
    backward = op.name.endswith("backward")

    def build(rng, shape, axis, layout="contiguous", values=moderate, out=None):
        x = values(rng, dtype, shape)
        inputs = (place(x, layout, rng),)
        if backward:
            y = -8 * rng.random(shape) if op.name.startswith("log") else rng.random(shape)
            inputs = (*inputs, place(y.astype(NUMPY[dtype]), layout, rng))
        fields = {"inputs": inputs, "attributes": {"axis": axis}}
        if out is not None:
            fields["outputs"] = (empty_output(rng, dtype, shape, out),)
        return fields

    def draft(label, *arguments, **options):
        return Draft(label, lambda rng: build(rng, *arguments, **options))

    for n in (1, 2, 10, 31, 32, 33, 1000, 4095, 4096, 4097, 8200):
        yield draft(f"length-{n}", (n,), 0)
        yield draft(f"rows-{n}", (3, n), 1)
    for n in (1, 33, 4097):
        yield draft(f"columns-{n}", (n, 5), 0)
    for axis in range(3):
        for layout in LAYOUTS:
            yield draft(f"axis-{axis}-{layout}", (5, 7, 33), axis, layout)
        yield draft(f"axis-{axis}-out-transposed", (5, 7, 33), axis, out="transposed")
        yield draft(f"axis-{axis}-out-stepped", (5, 7, 33), axis, "reversed", out="stepped")
    yield draft("scalar", (), 0)
    yield draft("many-rows", (200, 10), 1)
    yield draft("no-rows", (0, 5), 1)
    yield draft("empty-rows", (5, 0), 1)
    yield draft("wide", (20, 40), 1, values=wide)
    yield draft("mixture", (200, 9), 1, values=mixture)
    for value in ("inf", "-inf", "nan"):

        def with_special(rng, d, s, value=value):
            x = moderate(rng, d, s)
            x[0] = float(value)
            x[1, 0] = float(value)
            return x

        yield draft(f"special-{value}", (3, 40), 1, values=with_special)


def nll_loss(op: Op, dtype: str) -> Iterator[Draft]:
    backward = op.name.endswith("backward")
    for n in (0, 1, 33, 300):
        for c in (1, 10, 33):
            for layout in ("contiguous", "transposed", "stepped", "reversed"):
                for ignore in (-100, 0, 3):

                    def build(rng, n=n, c=c, layout=layout, ignore=ignore):
                        target = rng.integers(0, c, n)
                        target[rng.random(n) < 0.2] = ignore if ignore < 0 or ignore >= c else 0
                        x = place(mixture(rng, dtype, (n,) if backward else (n, c)), layout, rng)
                        fields = {
                            "inputs": (x, place(target, "stepped" if layout == "stepped" else "contiguous", rng)),
                            "attributes": {"ignore_index": ignore},
                        }
                        return {**fields, "shape": (n, c)} if backward else fields

                    yield Draft(f"{n}x{c}-{layout}-ignore{ignore}", build)
    if backward:
        yield Draft(
            "out-transposed",
            lambda rng: {
                "inputs": (place(mixture(rng, dtype, (9,)), "contiguous", rng), place(rng.integers(0, 7, 9), "contiguous", rng)),
                "outputs": (empty_output(rng, dtype, (9, 7), "transposed"),),
                "attributes": {"ignore_index": -100},
            },
        )
