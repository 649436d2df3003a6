"""Cases of pointwise ops, cast, copy, fill and arange."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ldexp
from typing import Any

import numpy as np

from hal.ops.spec import Op

from ..dtypes import FLOATS, HALVES, INTS, NUMPY, limits
from .case import Draft, View
from .values import LAYOUTS, empty_output, mixture, moderate, place, random_bits, special_values

#: Around the edges of vectors, blocks and chunks.
SIZES = (31, 32, 33, 4095, 4096, 4097, 8200)
BROADCASTS: dict[int, tuple[tuple[tuple[int, ...], ...], ...]] = {
    1: (((3, 1, 5),),),
    2: (
        ((3, 1, 5), (4, 1)),
        ((7, 1), (1, 9)),
        ((), (7, 9)),
        ((6, 4), ()),
        ((1,), (33,)),
        ((2, 1, 0), (1, 3, 1)),
        ((2, 3, 1, 4), (1, 1, 5, 1)),
    ),
    3: (((3, 1, 5), (4, 1), (5,)), ((7, 1), (1, 9), ()), ((), (4,), (2, 1)), ((2, 1, 0), (1, 3, 1), ())),
}
#: Immediates in every float dtype; exactly representable ones and others.
FLOAT_SCALARS = (0.0, -0.0, 1.0, 2.5, -3.0, 0.1, 1e-3, float("inf"), float("nan"))
INT_SCALARS = (0, 1, 3, 7, 100)


def pointwise(op: Op, dtype: str) -> Iterator[Draft]:
    arity = len(op.inputs)
    input_dtypes = ["bool" if i.dtype == "bool" else dtype for i in op.inputs]
    out_dtype = "bool" if op.outputs[0].dtype == "bool" else dtype

    def operands(rng, shapes, layouts=None, values=mixture):
        layouts = layouts or ["contiguous"] * arity
        return tuple(place(values(rng, d, s), how, rng) for d, s, how in zip(input_dtypes, shapes, layouts, strict=True))

    def same(label: str, shape: tuple[int, ...], **options: Any) -> Draft:
        return Draft(label, lambda rng: {"inputs": operands(rng, [shape] * arity, **options)})

    yield same("scalar", ())
    yield same("one", (1,))
    yield same("empty", (0,))
    yield same("empty-3d", (3, 0, 2))
    for n in SIZES:
        yield same(f"size-{n}", (n,))
    yield same("matrix", (33, 65))
    yield same("rank-6", (2, 3, 1, 2, 3, 2), layouts=["transposed"] * arity)
    yield same("bits", (4000,), values=random_bits)
    for layout in LAYOUTS[1:]:
        yield same(f"layout-{layout}", (5, 6, 7), layouts=[layout] * arity)
        yield same(f"layout-{layout}-long", (9, 70), layouts=[layout] * arity)
    for k in range(6):

        def random_layouts(rng):
            shape = tuple(int(d) for d in rng.integers(1, 9, rng.integers(1, 5)))
            return {"inputs": operands(rng, [shape] * arity, [str(rng.choice(LAYOUTS)) for _ in range(arity)])}

        yield Draft(f"layout-any-{k}", random_layouts)
    for k, shapes in enumerate(BROADCASTS[arity]):
        yield Draft(f"broadcast-{k}", lambda rng, shapes=shapes: {"inputs": operands(rng, shapes)})
    yield Draft(
        "stride-0",
        lambda rng: {
            "inputs": tuple(
                View(mixture(rng, d, (7,)), (40, 7), (0, 1)) if j % 2 == 0 else place(mixture(rng, d, (40, 7)), "transposed", rng)
                for j, d in enumerate(input_dtypes)
            )
        },
    )
    yield Draft("specials", lambda rng: {"inputs": _all_specials(rng, input_dtypes)})
    if dtype in HALVES and arity == 1:
        yield Draft("exhaustive", lambda rng: {"inputs": (place(np.arange(65536, dtype=np.uint16).view(NUMPY[dtype]), "contiguous", rng),)})
    yield from _immediates(op, dtype, input_dtypes)
    yield from _in_place(op, dtype, input_dtypes, out_dtype, operands)
    for layout in ("offset", "padded", "transposed", "stepped", "reversed", "mixed"):
        yield Draft(
            f"out-{layout}",
            lambda rng, layout=layout: {
                "inputs": operands(rng, [(6, 35)] * arity, ["contiguous", "transposed", "offset"][:arity]),
                "outputs": (empty_output(rng, out_dtype, (6, 35), layout),),
            },
        )


def _all_specials(rng, input_dtypes: list[str]) -> tuple[View, ...]:
    """Every pair of special values; a third operand is drawn at random."""
    tables = [special_values(d) for d in input_dtypes]
    if len(tables) == 1:
        return (place(tables[0], "contiguous", rng),)
    grids = list(np.meshgrid(tables[0], tables[1], indexing="ij"))
    if len(tables) == 3:
        shape = (tables[0].size, tables[1].size, 8)
        grids = [np.broadcast_to(g[:, :, None], shape) for g in grids] + [rng.choice(tables[2], shape)]
    return tuple(place(np.asarray(g, order="C"), "contiguous", rng) for g in grids)


def _scalars(dtype: str) -> tuple[Any, ...]:
    return FLOAT_SCALARS if dtype in FLOATS else INT_SCALARS if dtype in INTS else (False, True)


def _immediates(op: Op, dtype: str, input_dtypes: list[str]) -> Iterator[Draft]:
    """Each operand that may be a scalar, as a scalar; and all but one of them."""
    free = [j for j, i in enumerate(op.inputs) if i.kind == "either"]
    tensors = [j for j, d in enumerate(input_dtypes) if op.inputs[j].dtype == "T"]
    for j in free:
        if tensors == [j]:
            continue  # some operand must say the dtype
        for k, value in enumerate(_scalars(dtype)):

            def build(rng, j=j, value=value):
                inputs = [place(mixture(rng, d, (4, 33)), "contiguous", rng) for d in input_dtypes]
                inputs[j] = value
                return {"inputs": tuple(inputs)}

            yield Draft(f"immediate-{op.inputs[j].name}-{k}", build)
    if len(op.inputs) == 3:
        for k, value in enumerate(_scalars(dtype)):
            others = [j for j in free if j != tensors[0]]

            def both(rng, value=value, others=others):
                inputs = [place(mixture(rng, d, (4, 33)), "transposed", rng) for d in input_dtypes]
                for j in others:
                    inputs[j] = value if j == others[0] else _scalars(dtype)[1]
                return {"inputs": tuple(inputs)}

            yield Draft(f"immediates-{k}", both)


def _in_place(op: Op, dtype: str, input_dtypes: list[str], out_dtype: str, operands) -> Iterator[Draft]:
    for j, d in enumerate(input_dtypes):
        if d != out_dtype:
            continue
        for layout in ("contiguous", "transposed", "stepped"):
            yield Draft(
                f"in-place-{op.inputs[j].name}-{layout}",
                lambda rng, j=j, layout=layout: {
                    "inputs": operands(rng, [(9, 70)] * len(input_dtypes), [layout] * len(input_dtypes)),
                    "aliases": {0: j},
                },
            )


def copies(op: Op, dtype: str) -> Iterator[Draft]:
    for n in (0, 1, *SIZES):
        yield Draft(f"size-{n}", lambda rng, n=n: {"inputs": (place(random_bits(rng, dtype, (n,)), "contiguous", rng),)})
    yield Draft("scalar", lambda rng: {"inputs": (place(random_bits(rng, dtype, ()), "contiguous", rng),)})
    for source in LAYOUTS:
        for target in LAYOUTS:
            yield Draft(
                f"{source}-to-{target}",
                lambda rng, source=source, target=target: {
                    "inputs": (place(random_bits(rng, dtype, (5, 6, 37)), source, rng),),
                    "outputs": (empty_output(rng, dtype, (5, 6, 37), target),),
                },
            )
    for shape in ((64, 64), (100, 70), (3, 1000), (1000, 3), (2, 3, 4, 5, 6)):
        yield Draft(
            f"transpose-{'x'.join(map(str, shape))}",
            lambda rng, shape=shape: {"inputs": (place(random_bits(rng, dtype, shape), "transposed", rng),)},
        )
    yield Draft("broadcast", lambda rng: {"inputs": (View(random_bits(rng, dtype, (7,)), (40, 7, 3), (0, 1, 0)),)})


def casts(op: Op, dtype: str) -> Iterator[Draft]:
    for to in NUMPY:

        def build(rng, shape, how, values=mixture, to=to):
            return {"inputs": (place(values(rng, dtype, shape), how, rng),), "out_dtype": to}

        yield Draft(f"to-{to}-scalar", lambda rng, build=build: build(rng, (), "contiguous"))
        yield Draft(f"to-{to}-empty", lambda rng, build=build: build(rng, (3, 0), "contiguous"))
        for n in (1, *SIZES):
            yield Draft(f"to-{to}-size-{n}", lambda rng, n=n, build=build: build(rng, (n,), "contiguous"))
        for how in LAYOUTS[1:]:
            yield Draft(f"to-{to}-{how}", lambda rng, how=how, build=build: build(rng, (5, 6, 7), how))
        yield Draft(f"to-{to}-bits", lambda rng, build=build: build(rng, (20000,), "contiguous", random_bits))
        yield Draft(f"to-{to}-edges", lambda rng, to=to: {"inputs": (place(_cast_edges(dtype), "contiguous", rng),), "out_dtype": to})
        yield Draft(
            f"to-{to}-out-stepped",
            lambda rng, to=to: {
                "inputs": (place(mixture(rng, dtype, (6, 35)), "transposed", rng),),
                "out_dtype": to,
                "outputs": (empty_output(rng, to, (6, 35), "stepped"),),
            },
        )
    if dtype in HALVES:
        for to in NUMPY:
            yield Draft(
                f"to-{to}-exhaustive",
                lambda rng, to=to: {
                    "inputs": (place(np.arange(65536, dtype=np.uint16).view(NUMPY[dtype]), "contiguous", rng),),
                    "out_dtype": to,
                },
            )


#: Mantissas at half-way points of the narrower formats, and just beside.
_MANTISSAS = (
    *(1.0, 1.25, 1.5, 1 + 2**-8, 1 + 2**-7 + 2**-8, 1 + 2**-11, 1 + 2**-10 + 2**-11, 1 + 2**-24, 1 + 2**-23 + 2**-24),
    *(2 - 2**-9, 2 - 2**-12, 2 - 2**-25, 1 + 2**-8 + 2**-30, 1 + 2**-11 - 2**-40, 1 + 2**-11 + 2**-40, 1 + 2**-24 + 2**-50),
)
#: Around the limits of the integers and of f16.
_LIMITS = (127.5, 128.0, 128.5, 255.5, 256.0, -0.5, -0.999, -1.0, 32767.5, 32768.0, 65504.0, 65519.0, 65520.0, 2147483647.0, 2147483648.0)


@lru_cache(maxsize=1)
def _cast_edges(dtype: str) -> np.ndarray:
    """Powers of two, their neighbours and half-way points, to the ends of every narrower format."""
    values = [special_values(dtype)]
    if dtype in INTS:
        signed = [s * m for s in (1, -1) for m in _integer_magnitudes()]
        low, high = limits(dtype)
        values.append(np.array([v for v in signed if low <= v <= high], NUMPY[dtype]))
    elif dtype in FLOATS:
        exponents = range(-1100, 1024) if dtype == "f64" else range(-150, 128)
        floats = [s * ldexp(m, e) for e in exponents for m in _MANTISSAS for s in (1, -1)]
        with np.errstate(over="ignore", under="ignore"):
            values.append(np.array([*floats, *_LIMITS, 9.3e18, -9.3e18], np.float64).astype(NUMPY[dtype]))
    return np.concatenate(values)


def _integer_magnitudes() -> list[int]:
    powers = [(1 << k) + d for k in range(64) for d in (-3, -2, -1, 0, 1, 2, 3)]
    halves = [(1 << k) + (1 << max(k - p, 0)) + d for k in range(64) for p in (8, 9, 11, 12, 24, 25, 53, 54) for d in (-1, 0, 1)]
    return powers + halves


def fills(op: Op, dtype: str) -> Iterator[Draft]:
    for k, value in enumerate(_scalars(dtype)):
        yield Draft(f"value-{k}", lambda rng, value=value: {"inputs": (value,), "shape": (5, 33), "out_dtype": dtype})
    for n in (0, 1, *SIZES):
        yield Draft(f"size-{n}", lambda rng, n=n: {"inputs": (_scalars(dtype)[1],), "shape": (n,), "out_dtype": dtype})
    yield Draft("scalar", lambda rng: {"inputs": (_scalars(dtype)[1],), "shape": (), "out_dtype": dtype})
    for layout in LAYOUTS:
        yield Draft(
            f"out-{layout}",
            lambda rng, layout=layout: {"inputs": (_scalars(dtype)[-1],), "outputs": (empty_output(rng, dtype, (6, 35), layout),)},
        )


def aranges(op: Op, dtype: str) -> Iterator[Draft]:
    pairs: list[tuple[Any, Any]] = [(0, 1), (3, 2), (5, 0)]
    pairs += [(0.1, 0.1), (-1.0, 1e-3), (1.0, -0.37), (0.0, float("inf")), (1e30, 1e27)] if dtype in FLOATS else [(100, 7)]
    pairs += [(-5, -1)] if dtype != "u8" else []
    for k, (start, step) in enumerate(pairs):
        for n in (0, 1, 33, 4097):
            yield Draft(
                f"{k}-size-{n}", lambda rng, start=start, step=step, n=n: {"inputs": (start, step), "shape": (n,), "out_dtype": dtype}
            )
    yield Draft("matrix", lambda rng: {"inputs": (1, 3), "shape": (7, 3, 5), "out_dtype": dtype})
    for layout in LAYOUTS:
        yield Draft(f"out-{layout}", lambda rng, layout=layout: {"inputs": (2, 3), "outputs": (empty_output(rng, dtype, (6, 35), layout),)})


def optimizer(op: Op, dtype: str) -> Iterator[Draft]:
    if op.name == "sgd_step":
        flags = [{"nesterov": n, "maximize": m, "first_step": f} for n in (0, 1) for m in (0, 1) for f in (0, 1)]
    else:
        flags = [{"decoupled_weight_decay": d, "amsgrad": a, "maximize": m} for d in (0, 1) for a in (0, 1) for m in (0, 1)]
    for k, attributes in enumerate(flags):
        for decay in (0.0, 0.013):
            for shape in ((), (0,), (1,), (33,), (4097,), (5, 6, 7)):
                for in_place in (False, True):

                    def build(
                        rng, attributes=attributes, decay=decay, shape=shape, in_place=in_place, values=moderate, layout="contiguous"
                    ):
                        tensors: list[Any] = [place(values(rng, dtype, shape), layout, rng) for _ in range(2)]
                        if op.name == "sgd_step":
                            tensors.append(place(values(rng, dtype, shape), layout, rng))
                            scalars = (0.05, 0.9, 0.0 if attributes["nesterov"] else 0.1, decay)
                        else:
                            tensors.append(place(values(rng, dtype, shape), layout, rng))
                            tensors.append(place(np.abs(values(rng, dtype, shape)), layout, rng))
                            tensors.append(place(np.abs(values(rng, dtype, shape)), layout, rng) if attributes["amsgrad"] else None)
                            scalars = (0.002, 0.9, 0.999, 1e-8, decay, 1 - 0.9**3, (1 - 0.999**3) ** 0.5)
                        # inputs param, grad, states… -> outputs new_param, new states…
                        aliases = (
                            {0: 0, **{1 + s: 2 + s for s in range(len(tensors) - 2) if tensors[2 + s] is not None}} if in_place else {}
                        )
                        return {"inputs": (*tensors, *scalars), "attributes": attributes, "aliases": aliases}

                    size = "x".join(map(str, shape)) or "scalar"
                    yield Draft(f"flags-{k}-decay-{int(decay > 0)}-{size}{'-in-place' if in_place else ''}", build)
        yield Draft(f"flags-{k}-specials", lambda rng, build=build: build(rng, decay=0.5, shape=(500,), in_place=False, values=mixture))
        for layout in ("transposed", "stepped", "reversed"):
            yield Draft(
                f"flags-{k}-{layout}",
                lambda rng, build=build, layout=layout: build(rng, decay=0.5, shape=(9, 11), in_place=False, layout=layout),
            )
    if op.name == "sgd_step":
        for decay in (0.0, 0.013):
            yield Draft(
                f"plain-decay-{int(decay > 0)}",
                lambda rng, decay=decay: {
                    "inputs": (
                        place(moderate(rng, dtype, (70,)), "contiguous", rng),
                        place(moderate(rng, dtype, (70,)), "contiguous", rng),
                        None,
                        0.05,
                        0.0,
                        0.0,
                        decay,
                    ),
                    "attributes": {},
                },
            )
