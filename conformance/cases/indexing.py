"""Cases of gather, scatter, scatter_add, nonzero, cumsum, sort and topk."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from hal.ops.spec import Op

from ..dtypes import FLOATS, NUMPY
from .case import Draft, View
from .values import LAYOUTS, empty_output, mixture, moderate, place, small_integers, wide

#: shape of the whole, shape of the index, axis
SHAPES = (
    ((7,), (5,), 0),
    ((7,), (300,), 0),
    ((1,), (40,), 0),
    ((3000,), (4000,), 0),
    ((5, 6), (9, 6), 0),
    ((5, 6), (9, 4), 0),
    ((5, 6), (5, 11), 1),
    ((5, 6), (3, 2), 1),
    ((4, 5, 6), (3, 5, 6), 0),
    ((4, 5, 6), (4, 8, 6), 1),
    ((4, 5, 6), (2, 3, 7), 2),
    ((3, 2, 4, 5), (3, 6, 4, 5), 1),
    ((5, 6), (0, 6), 0),
    ((5, 6), (5, 0), 1),
    ((0, 6), (0, 6), 0),
    ((5, 0), (3, 0), 0),
)

ROWS = (
    ((6, 7), (50, 7), 0),
    ((6, 300), (40, 300), 0),
    ((3, 5, 6), (3, 9, 6), 1),
    ((5, 6), (4, 3), 0),
    ((40, 3), (40, 9), 1),
)


def indexing(op: Op, dtype: str) -> Iterator[Draft]:
    def inputs(rng, whole, index, axis, layout, values, row=False):
        if row:  # one index per place along the axis: stride 0 elsewhere
            n = index[axis]
            at = View(rng.integers(0, whole[axis], n), index, tuple(int(d == axis) for d in range(len(index))))
        else:
            at = place(rng.integers(0, max(1, whole[axis]), index), layout, rng)
        fields = {"attributes": {"axis": axis}}
        if op.name == "gather":
            return {**fields, "inputs": (place(values(rng, dtype, whole), layout, rng), at)}
        src = place(values(rng, dtype, index), layout, rng)
        if op.name == "scatter":
            return {**fields, "inputs": (place(values(rng, dtype, whole), layout, rng), at, src)}
        return {**fields, "inputs": (src, at), "shape": whole}

    def draft(label, *arguments, out=None, **options):
        def build(rng):
            fields = inputs(rng, *arguments, **options)
            if out:
                shape = arguments[1] if op.name == "gather" else arguments[0]
                fields = {**fields, "outputs": (empty_output(rng, dtype, shape, out),)}
                fields.pop("shape", None)
                if op.name == "scatter_add":
                    fields["shape"] = shape
            return fields

        return Draft(label, build)

    values = wide if op.name == "scatter_add" else mixture
    for whole, index, axis in SHAPES:
        label = f"{'x'.join(map(str, whole))}-{'x'.join(map(str, index))}-{axis}"
        for layout in LAYOUTS if prod(index) < 500 else ("contiguous", "reversed"):
            yield draft(f"{label}-{layout}", whole, index, axis, layout, values)
        if prod(index) < 500:
            yield draft(f"{label}-out-stepped", whole, index, axis, "contiguous", values, out="stepped")
            yield draft(f"{label}-out-transposed", whole, index, axis, "padded", values, out="transposed")
    for whole, index, axis in ROWS:
        for layout in ("contiguous", "transposed", "stepped"):
            label = f"rows-{'x'.join(map(str, whole))}-{'x'.join(map(str, index))}-{axis}-{layout}"
            yield draft(label, whole, index, axis, layout, values, row=True)
            yield draft(f"{label}-out-stepped", whole, index, axis, layout, values, row=True, out="stepped")
    if op.name == "scatter_add":  # longer than one chain
        for n in (511, 512, 513, 1024, 1025, 2000):
            yield draft(f"chain-{n}", (1,), (n,), 0, "contiguous", wide)
            yield draft(f"chain-rows-{n}", (1, 5), (n, 5), 0, "contiguous", wide, row=True)
        yield draft("chains-lanes", (2, 3), (1300, 3), 0, "contiguous", wide)
        yield draft("chains-rows", (2, 3), (1300, 3), 0, "contiguous", wide, row=True)
        yield draft("mixture", (3, 4), (40, 4), 0, "contiguous", mixture)
        if dtype in FLOATS:
            yield draft("minus-zeros", (3,), (4,), 0, "contiguous", lambda rng, d, s: np.full(s, -0.0).astype(NUMPY[d]))


def nonzero(op: Op, dtype: str) -> Iterator[Draft]:
    for shape in ((), (1,), (40,), (0,), (5, 6), (3, 4, 5), (2, 0, 3), (70, 90)):
        for share in (0.0, 0.3, 1.0):
            for layout in LAYOUTS:

                def build(rng, shape=shape, share=share, layout=layout):
                    x = np.asarray(rng.random(shape) < share)
                    return {"inputs": (place(x, layout, rng),), "shape": (int(x.sum()),), "out_dtype": "i64"}

                yield Draft(f"{'x'.join(map(str, shape)) or 'scalar'}-{share}-{layout}", build)


def order(op: Op, dtype: str) -> Iterator[Draft]:
    options: tuple[dict[str, int], ...] = ({},)
    if op.name == "sort":
        options = ({"descending": 0}, {"descending": 1})
    if op.name == "topk":
        options = ({"largest": 0}, {"largest": 1})

    def draft(label, shape, axis, layout, values, option, k=None):
        def build(rng):
            attributes = {"axis": axis, **option}
            if op.name == "topk":
                n = shape[axis] if shape else 1
                attributes["k"] = n if k is None else min(k, n)
            return {"inputs": (place(values(rng, dtype, shape), layout, rng),), "attributes": attributes}

        return Draft(label + "".join(f"-{name}{value}" for name, value in option.items()), build)

    values = wide if op.name == "cumsum" else mixture
    for option in options:
        for n in (1, 2, 9, 100, 511, 512, 600, 4095, 4096, 4097, 12289):
            yield draft(f"length-{n}", (n,), 0, "contiguous", values, option)
            for k in (0, 1, 3, 100) if op.name == "topk" else ():
                yield draft(f"length-{n}-k{k}", (n,), 0, "contiguous", values, option, k)
        for kind in (small_integers, moderate, mixture):
            for n in (40, 700):
                yield draft(f"{kind.__name__}-{n}", (n,), 0, "contiguous", kind, option, 30)
                yield draft(f"{kind.__name__}-{n}-rows", (9, n), 1, "contiguous", kind, option, 30)
        for axis in range(3):
            for layout in LAYOUTS:
                yield draft(f"axis-{axis}-{layout}", (5, 7, 33), axis, layout, values, option, 4)
        yield draft("columns", (600, 9), 0, "contiguous", values, option, 7)
        yield draft("long-columns", (4200, 3), 0, "contiguous", values, option, 7)
        yield draft("long-rows", (5, 9000), 1, "contiguous", values, option, 7)
        yield draft("scalar", (), 0, "contiguous", values, option)
        yield draft("no-rows", (0, 5), 1, "contiguous", values, option)
        yield draft("empty-rows", (5, 0), 1, "contiguous", values, option)
        if dtype in FLOATS:
            yield draft("minus-zeros", (40,), 0, "contiguous", lambda rng, d, s: np.full(s, -0.0).astype(NUMPY[d]), option, 3)
