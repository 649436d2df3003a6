"""matmul of the cpu device, bit for bit against the contract's loops (docs/numerics.md, 7)."""

from __future__ import annotations

import itertools

import chain_reference as reference
import numpy as np
import pytest
from kernel_cases import FLOATS, INTEGERS, LAYOUTS, placed, rng, run, values

import hal


def check(a: np.ndarray, b: np.ndarray, dtype: str, layouts: tuple[str, str, str] = ("contiguous",) * 3) -> None:
    expected = reference.matmul(a, b)
    got = run("matmul", [placed(a, layouts[0]), placed(b, layouts[1])], expected.shape, dtype, layouts[2])
    reference.assert_same_bits(got, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [0, 1, 7, 8, 511, 512, 513, 1024, 1100])
def test_chain_lengths(dtype: str, k: int) -> None:
    for m, n in [(1, 1), (1, 17), (2, 40), (5, 9), (17, 3), (13, 33), (64, 16)]:
        r = rng("k", dtype, k, m, n)
        check(values((m, k), dtype, r), values((k, n), dtype, r), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_tile_edges(dtype: str) -> None:
    for m, n in itertools.product([1, 4, 5, 6, 7, 12, 13], [1, 4, 5, 7, 8, 15, 16, 17, 31, 33]):
        r = rng("tile", dtype, m, n)
        check(values((m, 19), dtype, r), values((19, n), dtype, r), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m, n, k", [(13, 37, 530), (3, 70, 1030), (70, 2, 600), (1, 1, 40)])
def test_layouts(dtype: str, m: int, n: int, k: int) -> None:
    r = rng("layout", dtype, m, n, k)
    a, b = values((m, k), dtype, r), values((k, n), dtype, r)
    expected = reference.matmul(a, b)
    for layouts in itertools.product(LAYOUTS, repeat=3):
        got = run("matmul", [placed(a, layouts[0]), placed(b, layouts[1])], (m, n), dtype, layouts[2])
        reference.assert_same_bits(got, expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype: str) -> None:
    for m, n, k in [(7, 18, 9), (2, 35, 600), (30, 3, 530), (70, 70, 33)]:
        for share in (0.02, 0.3):
            r = rng("special", dtype, m, n, k, share)
            a, b = values((m, k), dtype, r, share), values((k, n), dtype, r, share)
            check(a, b, dtype)
            check(a, b, dtype, ("swapped", "swapped", "swapped"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_negative_zero_never_shows(dtype: str) -> None:
    for m, n in [(1, 20), (20, 20), (20, 1)]:
        a, b = np.full((m, 3), -0.0).astype(reference.DTYPES[dtype]), np.ones((3, n), reference.DTYPES[dtype])
        got = run("matmul", [placed(a, "contiguous"), placed(b, "contiguous")], (m, n), dtype)
        assert not np.signbit(got.astype(np.float64)).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_batches(dtype: str) -> None:
    for a_shape, b_shape in [
        ((5, 4, 6), (5, 6, 7)),
        ((2, 3, 9, 20), (2, 3, 20, 18)),
        ((3, 9, 20), (1, 20, 18)),
        ((1, 9, 20), (3, 20, 18)),
        ((2, 1, 5, 8), (1, 3, 8, 5)),
        ((0, 4, 3), (0, 3, 2)),
        ((2, 0, 3), (2, 3, 4)),
        ((4, 1, 600), (4, 600, 1)),
    ]:
        r = rng("batch", dtype, a_shape, b_shape)
        a, b = values(a_shape, dtype, r), values(b_shape, dtype, r)
        expected = reference.matmul(a, b)
        batch = expected.shape[:-2]
        operands = []
        for x in (a, b):
            strides = np.broadcast_to(x, (*batch, *x.shape[-2:])).strides
            shape = (*batch, *x.shape[-2:])
            operands.append(
                hal.array(x).as_strided(shape, tuple(s // x.itemsize for s in strides), 0)
                if x.size
                else hal.array(np.empty(shape, x.dtype))
            )
        reference.assert_same_bits(run("matmul", operands, expected.shape, dtype), expected)


def test_operands_of_stride_zero() -> None:
    a = hal.array(np.array([1.5, 2.5], np.float32)).as_strided((40, 530), (0, 0), 1)
    b = hal.array(values((40,), "f32", rng("zero"))).as_strided((530, 40), (0, 1), 0)
    expected = reference.matmul(a.numpy(), b.numpy())
    reference.assert_same_bits(run("matmul", [a, b], (40, 40), "f32"), expected)


@pytest.mark.parametrize(
    "m, n, k", [(64, 256, 64), (64, 64, 4096), (8, 64, 1600), (1, 700, 4096), (700, 1, 2100), (130, 1050, 140), (300, 40, 1300)]
)
def test_bits_do_not_depend_on_threads_or_rows(m: int, n: int, k: int) -> None:
    r = rng("threads", m, n, k)
    a, b = values((m, k), "f32", r), values((k, n), "f32", r)
    expected = reference.matmul(a, b)
    before = hal.get_num_threads()
    try:
        for threads in (1, 2, 5):
            hal.set_num_threads(threads)
            for b_layout in ("contiguous", "swapped"):
                got = run("matmul", [placed(a, "contiguous"), placed(b, b_layout)], (m, n), "f32")
                reference.assert_same_bits(got, expected)
                row = run("matmul", [placed(a[m // 2 : m // 2 + 1], "contiguous"), placed(b, b_layout)], (1, n), "f32")
                reference.assert_same_bits(row, expected[m // 2 : m // 2 + 1])
    finally:
        hal.set_num_threads(before)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large(dtype: str) -> None:
    r = rng("large", dtype)
    check(values((230, 600), dtype, r), values((600, 620), dtype, r), dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype: str) -> None:
    for m, n, k in [(1, 1, 0), (1, 1, 1), (3, 5, 300), (17, 130, 40), (40, 3, 257), (33, 129, 256)]:
        r = rng("integers", dtype, m, n, k)
        a, b = values((m, k), dtype, r), values((k, n), dtype, r)
        for layouts in [("contiguous",) * 3, ("swapped", "stepped", "negative"), ("negative", "swapped", "swapped")]:
            check(a, b, dtype, layouts)


@pytest.mark.parametrize(
    "a, b, out", [((2, 3), (4, 5), (2, 5)), ((2, 3), (3, 5), (2, 4)), ((3,), (3, 2), (2,)), ((2, 2, 3), (3, 3, 4), (2, 2, 4))]
)
def test_wrong_shapes_raise(a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        run("matmul", [hal.array(np.ones(a, np.float32)), hal.array(np.ones(b, np.float32))], out, "f32")
