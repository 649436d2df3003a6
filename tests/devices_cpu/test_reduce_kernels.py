"""Reductions, softmax and its kin, losses, random numbers and optimizer steps of the host device, bit for bit.

The reference here is short and direct: sections 5, 6, 10 and 11 of docs/numerics.md in numpy elementwise operations (each one IEEE
operation per element), with the order of operations written out. ``exp`` and ``log`` come from the ops of that name.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest

import hal

FLOATS = ("f16", "bf16", "f32", "f64")
INTS = ("u8", "i8", "i16", "i32", "i64")
ALL = ("bool", *INTS, *FLOATS)
NP = {
    "bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
BLOCK, LANES = 4096, 32


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = hal.get_num_threads()
    with np.errstate(all="ignore"):
        yield
    hal.set_num_threads(before)


# ---- data, views and comparison ----


def compute(dtype: str) -> type:
    return np.float64 if dtype == "f64" else np.float32 if dtype in FLOATS else NP[dtype]


def accumulator(dtype: str) -> type:
    return compute(dtype) if dtype in FLOATS else np.int64


def random_values(key: str, shape: tuple[int, ...], dtype: str, special: bool = False) -> np.ndarray:
    """Values of both signs and many magnitudes, seeded by the case."""
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in INTS:
        info = np.iinfo(NP[dtype])
        return np.asarray(rng.integers(info.min, info.max, shape, dtype=NP[dtype], endpoint=True))
    x = np.asarray(rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 6, shape))
    if special and x.size:
        flat = x.reshape(-1)
        for value in (0.0, -0.0, np.inf, -np.inf):
            flat[rng.integers(0, x.size, max(1, x.size // 16))] = value
    return x.astype(NP[dtype])


def strided(x: np.ndarray, layout: str) -> hal.Array:
    """The values of x on the device: "dense"; "reversed" (negative strides); "permuted" (axes stored backwards); "gaps"."""
    if layout == "dense" or x.ndim == 0 or x.size == 0:
        return hal.array(x)
    if layout == "reversed":
        base = hal.array(np.ascontiguousarray(x[tuple(slice(None, None, -1) for _ in x.shape)]))
        strides = tuple(-s for s in base.strides)
        return base.as_strided(x.shape, strides, x.size - 1)
    if layout == "permuted":
        base = hal.array(np.ascontiguousarray(x.transpose()))
        return base.as_strided(x.shape, tuple(reversed(base.strides)), 0)
    assert layout == "gaps"
    wide = np.zeros(tuple(2 * d + 1 for d in x.shape), dtype=x.dtype)
    wide[tuple(slice(1, 2 * d, 2) for d in x.shape)] = x
    base = hal.array(wide)
    return base.as_strided(x.shape, tuple(2 * s for s in base.strides), sum(base.strides))


def equal(got: np.ndarray, want: np.ndarray, what: str = "") -> None:
    """Equal bits; all NaNs are equal."""
    assert got.shape == want.shape and got.dtype == want.dtype, f"{what}: got {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    bits = f"u{got.dtype.itemsize}"
    same = np.ascontiguousarray(got).view(bits) == np.ascontiguousarray(want).view(bits)
    if got.dtype.kind not in "biu":
        same |= (got != got) & (want != want)
    if not same.all():
        at = tuple(int(i[0]) for i in np.nonzero(~same)) if got.ndim else ()
        raise AssertionError(f"{what}: {int((~same).sum())} of {same.size} differ, first at {at}: got {got[at]!r}, expected {want[at]!r}")


# ---- the block rule ----


def one_block(x: np.ndarray, combine: Callable, start: int) -> np.ndarray:
    """x: (rows, m <= 4096); each row's block result."""
    lanes = np.full((x.shape[0], LANES), start, dtype=x.dtype)
    for j in range(0, x.shape[1], LANES):
        part = x[:, j : j + LANES]
        lanes[:, : part.shape[1]] = combine(lanes[:, : part.shape[1]], part)
    s = LANES // 2
    while s:
        lanes[:, :s] = combine(lanes[:, :s], lanes[:, s : 2 * s])
        s //= 2
    return lanes[:, 0].copy()


def block_rule(x: np.ndarray, combine: Callable, start: int) -> np.ndarray:
    """x: (outputs, n) in the accumulator type; section 5 for each row."""
    while x.shape[1] > BLOCK:
        outputs, whole = x.shape[0], x.shape[1] // BLOCK * BLOCK
        results = one_block(x[:, :whole].reshape(-1, BLOCK), combine, start).reshape(outputs, -1)
        if whole < x.shape[1]:
            results = np.concatenate([results, one_block(x[:, whole:], combine, start)[:, None]], axis=1)
        x = results
    return one_block(x, combine, start)


def rows_of(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
    """(outputs, n) with the reduced axes flattened row-major, and the shape of the result."""
    kept = [i for i in range(x.ndim) if i not in axes]
    moved = x.transpose([*kept, *axes])
    n = math.prod(x.shape[i] for i in axes)
    outputs = math.prod(x.shape[i] for i in kept)
    return moved.reshape(outputs, n), tuple(1 if i in axes else d for i, d in enumerate(x.shape))


def extremum(row: np.ndarray, sign: int) -> tuple[object, int]:
    """Largest (sign 1) or smallest value of a row by section 3, and the index that section 5 gives."""
    values = [v if row.dtype.kind in "iub" else float(v) for v in row.tolist()]
    index = zero = 0  # of the first extreme value, and of the zero that maximum() prefers
    for i, v in enumerate(values):
        if v != v:
            return row[i], i
        if sign * v > sign * values[index]:
            index = zero = i
        elif v == 0 == values[zero] and sign * math.copysign(1, v) > sign * math.copysign(1, values[zero]):
            zero = i
    return row[zero], index


def reduced(op: str, x: np.ndarray, dtype: str, axes: tuple[int, ...]) -> np.ndarray:
    rows, shape = rows_of(x, axes)
    acc, out = accumulator(dtype), NP[dtype] if dtype in FLOATS else np.int64
    if op in ("sum", "mean", "prod"):
        total = block_rule(rows.astype(acc), np.multiply if op == "prod" else np.add, op == "prod")
        if op == "mean":
            total = total / acc(rows.shape[1])
        return total.astype(out).reshape(shape)
    if op in ("any", "all"):
        true = rows != 0
        return (true.any(axis=1) if op == "any" else true.all(axis=1)).reshape(shape)
    pairs = [extremum(row, 1 if op.endswith("max") else -1) for row in rows]
    if op.startswith("arg"):
        return np.array([i for _, i in pairs], dtype=np.int64).reshape(shape)
    return np.array([v for v, _ in pairs], dtype=NP[dtype]).reshape(shape)


def mask_of(axes: tuple[int, ...]) -> int:
    return sum(1 << a for a in axes)


def check_reduction(
    op: str, x: np.ndarray, dtype: str, axes: tuple[int, ...], layouts: tuple[str, ...] = ("dense",), threads: tuple[int, ...] = (1, 2)
) -> None:
    want = reduced(op, x, dtype, axes)
    for layout, count in itertools.product(layouts, threads):
        hal.set_num_threads(count)
        got = hal.run(op, [strided(x, layout)], {"axes": mask_of(axes)}).numpy()
        equal(got, want, f"{op} {dtype} {x.shape} axes {axes} {layout} threads {count}")


REDUCTIONS = [(op, d) for op in ("sum", "prod", "amax", "amin", "argmax", "argmin", "any", "all") for d in ALL] + [
    ("mean", d) for d in FLOATS
]
EDGES = (1, 2, 31, 32, 33, 64, 100, 127, 128, 129, 1000)


@pytest.mark.parametrize(("op", "dtype"), REDUCTIONS)
def test_reduction_sizes(op: str, dtype: str) -> None:
    for n in EDGES:
        x = random_values(f"{op}{dtype}{n}", (3, n), dtype, special=n % 2 == 1)
        if op == "prod":
            x = (x / 8 if dtype in FLOATS else x).astype(NP[dtype])
        check_reduction(op, x, dtype, (1,))
        check_reduction(op, np.ascontiguousarray(x.T), dtype, (0,))


BLOCK_CASES = [(op, d) for op in ("sum", "prod", "amax", "argmin", "any", "all") for d in ("f32", "f64", "f16", "i32")] + [
    ("mean", "f32"),
    ("mean", "bf16"),
]


@pytest.mark.parametrize("n", [4095, 4096, 4097, 8191, 3 * 4096 + 5])
@pytest.mark.parametrize(("op", "dtype"), BLOCK_CASES)
def test_reduction_blocks(op: str, dtype: str, n: int) -> None:
    x = random_values(f"{op}{n}{dtype}", (2, n), dtype)
    if op in ("all", "prod"):
        x = np.abs(x) / NP[dtype](1) + NP[dtype](1) if dtype in FLOATS else x | 1
        x = x.astype(NP[dtype])
    check_reduction(op, x, dtype, (1,))
    check_reduction(op, np.ascontiguousarray(x.T), dtype, (0,), ("dense", "reversed"))


SHAPES = [(), (1,), (5,), (2, 3), (3, 1, 4), (4, 33, 5), (2, 16, 3, 7), (3, 2, 65, 2), (2, 3, 2, 3, 5), (130, 40), (40, 130), (6, 20, 17)]


AXES_CASES = "sum f32, sum bf16, sum u8, mean f16, prod f64, amax f32, amin i16, argmax f16, argmin i64, any f64, all bool"


@pytest.mark.parametrize(("op", "dtype"), [tuple(case.split()) for case in AXES_CASES.split(", ")])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reduction_axes_and_strides(op: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = random_values(f"{op}{shape}", shape, dtype, special=op.startswith("a"))
    for k in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), k):
            check_reduction(op, x, dtype, axes, ("dense", "reversed", "permuted", "gaps"), (2,))


@pytest.mark.parametrize("op", ["sum", "amax", "argmax", "mean"])
def test_reduction_broadcast_and_strided_output(op: str) -> None:
    x = random_values(op, (7, 1, 40), "f32")
    view = hal.array(x).as_strided((7, 9, 40), (40, 0, 1), 0)
    full = np.broadcast_to(x, (7, 9, 40))
    for k in range(4):
        for axes in itertools.combinations(range(3), k):
            want = reduced(op, full, "f32", axes)
            equal(hal.run(op, [view], {"axes": mask_of(axes)}).numpy(), want, f"{op} {axes}")
            base = hal.array(np.zeros(2 * want.size + 1, dtype=want.dtype))
            dense = hal.array(want).strides
            out = base.as_strided(want.shape, tuple(-2 * s for s in dense), 2 * (want.size - 1))
            hal.run(op, [view], {"axes": mask_of(axes)}, [out])
            equal(out.numpy(), want, f"{op} {axes} into a strided output")
            assert (base.numpy()[1::2] == 0).all(), "wrote between the output's elements"


def test_empty_reductions() -> None:
    x = hal.array(np.zeros((0, 3), dtype=np.float32))
    for op, want in (("sum", 0.0), ("prod", 1.0), ("mean", math.nan), ("any", False), ("all", True)):
        got = hal.run(op, [x], {"axes": 1}).numpy()
        equal(got, np.full((1, 3), want, dtype=np.bool_ if op in ("any", "all") else np.float32), op)
        assert hal.run(op, [x], {"axes": 2}).numpy().shape == (0, 1)
    for op in ("amax", "amin", "argmax", "argmin"):
        assert hal.run(op, [x], {"axes": 2}).numpy().shape == (0, 1)
        with pytest.raises(ValueError):
            hal.run(op, [x], {"axes": 1})


def test_nan_and_zero_order() -> None:
    nan, inf = math.nan, math.inf
    rows = [[0.0, -0.0, -1, -2], [-0.0, 0.0, 1, 2], [1, nan, 3, nan], [-inf, -inf, -inf, -inf], [inf, 1, -inf, inf]]
    for dtype in FLOATS:
        x = np.array(rows).astype(NP[dtype])
        for op in ("amax", "amin", "argmax", "argmin"):
            check_reduction(op, x, dtype, (1,))
            check_reduction(op, np.ascontiguousarray(x.T), dtype, (0,))
        negative_nan = -np.abs(x[2:3])
        assert np.isnan(hal.run("amax", [hal.array(negative_nan)], {"axes": 2}).numpy().astype(np.float32)).all()
        assert np.isnan(hal.run("amin", [hal.array(negative_nan)], {"axes": 2}).numpy().astype(np.float32)).all()


def test_large_sums_do_not_depend_on_threads_or_layout() -> None:
    n = BLOCK * BLOCK + 4097  # two levels of blocks, then a third
    x = random_values("large", (n,), "f32")
    want = block_rule(x[None], np.add, 0).reshape(1)
    for layout, threads in (("dense", 1), ("dense", 2), ("dense", 5), ("reversed", 2)):
        hal.set_num_threads(threads)
        equal(hal.run("sum", [strided(x, layout)], {"axes": 1}).numpy(), want, f"{layout} {threads}")
    wide = hal.array(x[: BLOCK * 12].reshape(-1, 6))
    equal(hal.run("sum", [wide], {"axes": 1}).numpy(), reduced("sum", x[: BLOCK * 12].reshape(-1, 6), "f32", (0,)), "narrow columns")


def test_batch_of_one_row_gives_the_same_bits() -> None:
    for n in (5, 32, 127, 5000):
        x = random_values(f"batch{n}", (9, n), "f32")
        for op, attributes in (("sum", {"axes": 2}), ("mean", {"axes": 2}), ("softmax", {"axis": 1}), ("log_softmax", {"axis": 1})):
            whole = hal.run(op, [hal.array(x)], attributes).numpy()
            for i in range(9):
                equal(hal.run(op, [hal.array(x[i : i + 1])], attributes).numpy(), whole[i : i + 1], f"{op} {n}")


# ---- softmax and its kin ----


def function(name: str, x: np.ndarray) -> np.ndarray:
    return hal.run(name, [hal.array(np.ascontiguousarray(x))]).numpy()


def normalized(op: str, operands: list[np.ndarray], dtype: str, axis: int) -> np.ndarray:
    c = compute(dtype)
    rows = [np.moveaxis(x, axis, -1) for x in operands]
    shape = rows[0].shape
    a, *rest = [r.reshape(-1, shape[-1]).astype(c) for r in rows]
    if op in ("softmax", "log_softmax"):
        m = np.array([extremum(row, 1)[0] for row in a], dtype=c)[:, None]
        e = function("exp", a - m)
        s = block_rule(e, np.add, 0)[:, None]
        y = e / s if op == "softmax" else (a - m) - function("log", s)
    elif op == "softmax_backward":
        y = rest[0] * (a - block_rule(a * rest[0], np.add, 0)[:, None])
    else:
        y = a - function("exp", rest[0]) * block_rule(a, np.add, 0)[:, None]
    return np.moveaxis(y.astype(NP[dtype]).reshape(shape), -1, axis)


NORMALIZATIONS = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")


@pytest.mark.parametrize("op", NORMALIZATIONS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape", [(1,), (3, 1), (4, 10), (5, 33), (3, 128), (3, 129), (2, 1000), (40, 7, 3), (3, 70, 66), (2, 4, 5, 17)], ids=str
)
def test_normalization(op: str, dtype: str, shape: tuple[int, ...]) -> None:
    count = 2 if op.endswith("backward") else 1
    operands = [random_values(f"{op}{dtype}{shape}{k}", shape, dtype) for k in range(count)]
    for axis in range(len(shape)):
        want = normalized(op, operands, dtype, axis)
        for layouts in (("dense", "dense"), ("gaps", "reversed"), ("permuted", "permuted"), ("reversed", "dense")):
            for threads in (1, 2):
                hal.set_num_threads(threads)
                inputs = [strided(x, layout) for x, layout in zip(operands, layouts, strict=False)]
                equal(hal.run(op, inputs, {"axis": axis}).numpy(), want, f"{op} {dtype} {shape} axis {axis} {layouts}")


@pytest.mark.parametrize("op", NORMALIZATIONS)
@pytest.mark.parametrize("n", [4095, 4096, 4097, 9000])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_normalization_of_long_rows(op: str, n: int, dtype: str) -> None:
    operands = [random_values(f"{op}{dtype}{n}{k}", (3, n), dtype) for k in range(2 if op.endswith("backward") else 1)]
    want = normalized(op, operands, dtype, 1)
    for layout in ("dense", "reversed", "permuted"):
        equal(hal.run(op, [strided(x, layout) for x in operands], {"axis": 1}).numpy(), want, layout)
    base = hal.array(np.zeros((3, 2 * n), dtype=NP[dtype]))
    out = base.as_strided((3, n), (2 * n, 2), 0)
    hal.run(op, [hal.array(x) for x in operands], {"axis": 1}, [out])
    equal(out.numpy(), want, "strided output")
    columns = [hal.array(np.ascontiguousarray(np.tile(x.T, (1, 4)))) for x in operands]
    equal(hal.run(op, columns, {"axis": 0}).numpy(), np.tile(want.T, (1, 4)), "columns")


def test_softmax_corners() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([[-inf, -inf, -inf], [inf, 0, 1], [nan, 0, 1], [0, -inf, 0], [-0.0, -0.0, -0.0], [3e38, -3e38, 0]], dtype=np.float32)
    for op in ("softmax", "log_softmax"):
        equal(hal.run(op, [hal.array(x)], {"axis": 1}).numpy(), normalized(op, [x], "f32", 1), op)
    single = np.array([[-0.0], [0.0], [5.0]], dtype=np.float32)
    equal(hal.run("log_softmax", [hal.array(single)], {"axis": 1}).numpy(), normalized("log_softmax", [single], "f32", 1), "one class")
    assert hal.run("softmax", [hal.array(np.zeros((0, 3), dtype=np.float32))], {"axis": 1}).numpy().shape == (0, 3)
    assert hal.run("softmax", [hal.array(np.zeros((3, 0), dtype=np.float32))], {"axis": 1}).numpy().shape == (3, 0)


# ---- losses ----


@pytest.mark.parametrize("dtype", FLOATS)
def test_nll_loss(dtype: str) -> None:
    x = random_values("nll", (50, 7), dtype, special=True)
    grad = random_values("nll grad", (50,), dtype, special=True)
    target = np.arange(50, dtype=np.int64) % 7
    target[3::11] = -100
    want = np.array([NP[dtype](0) if t == -100 else -row[t] for row, t in zip(x, target, strict=True)], dtype=NP[dtype])
    back = np.zeros((50, 7), dtype=NP[dtype])
    for n, t in enumerate(target):
        if t != -100:
            back[n, t] = -grad[n]
    for layout in ("dense", "reversed", "gaps"):
        inputs = [strided(x, layout), strided(target, layout)]
        equal(hal.run("nll_loss", inputs, {"ignore_index": -100}).numpy(), want, layout)
        out = hal.empty((50, 7), dtype)
        hal.run("nll_loss_backward", [strided(grad, layout), strided(target, layout)], {"ignore_index": -100}, [out])
        equal(out.numpy(), back, layout)
    ignored = np.full(50, 2, dtype=np.int64)
    assert (hal.run("nll_loss", [hal.array(x), hal.array(ignored)], {"ignore_index": 2}).numpy() == 0).all()


@pytest.mark.parametrize("bad", [-1, 7, -101, 2**40])
def test_nll_loss_refuses_a_bad_target(bad: int) -> None:
    x, target = hal.array(np.zeros((5, 7), dtype=np.float32)), np.zeros(5, dtype=np.int64)
    target[3] = bad
    with pytest.raises((ValueError, hal.Error), match=rf"target out of range: got {bad} at row 3"):
        hal.run("nll_loss", [x, hal.array(target)], {"ignore_index": -100}).numpy()
    with pytest.raises((ValueError, hal.Error), match=rf"target out of range: got {bad} at row 3"):
        out = hal.empty((5, 7), "f32")
        hal.run("nll_loss_backward", [hal.array(np.zeros(5, dtype=np.float32)), hal.array(target)], {"ignore_index": -100}, [out])
        out.numpy()


# ---- random numbers ----


def philox_words(seed: int, offset: int, count: int) -> np.ndarray:
    """Section 10: `count` words of the stream from word `offset` on."""
    blocks = np.arange(offset // 4, (offset + count + 3) // 4, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    c = [blocks & low, blocks >> np.uint64(32), np.zeros_like(blocks), np.zeros_like(blocks)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=1).reshape(-1)[offset % 4 :][:count]


def test_philox_known_answers() -> None:
    """Random123's kat_vectors for philox4x32-10 with zero counter and key."""
    got = hal.run("random_integer", [0, 0, 0, 2**32], shape=(4,), dtype="i64").numpy()
    assert [int(w) for w in got] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(w) for w in philox_words(0, 0, 4)] == [int(w) for w in got]


def uniform(dtype: str, words: np.ndarray) -> np.ndarray:
    if dtype == "f64":
        return (((words[0::2] << np.uint64(32)) + words[1::2]) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    bits = {"f32": 24, "f16": 11, "bf16": 8}[dtype]
    return (words >> np.uint64(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)


COUNTS = (0, 1, 2, 3, 5, 63, 64, 65, 1023, 1024, 1025, 10001)
STREAMS = ((0, 0), (12345678901234567, 4), (2**63 - 1, 2**34 - 8), (-1, 400))


def checked_fill(op: str, scalars: list[float], dtype: str, n: int, seed: int, offset: int) -> np.ndarray:
    """The dense result; strided ones and other thread counts must agree."""
    hal.set_num_threads(1)
    dense = hal.run(op, [seed, offset, *scalars], shape=(n,), dtype=dtype).numpy()
    hal.set_num_threads(2)
    equal(hal.run(op, [seed, offset, *scalars], shape=(n,), dtype=dtype).numpy(), dense, "threads")
    if n % 5 == 0 and n:
        base = hal.array(np.zeros((n // 5, 10), dtype=dense.dtype))
        out = base.as_strided((5, n // 5), (2, 10), 0)
        hal.run(op, [seed, offset, *scalars], None, [out])
        equal(out.numpy(), dense.reshape(5, n // 5), "strided")
    return dense


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_uniform(dtype: str) -> None:
    c = compute(dtype)
    for n, (seed, offset), (low, high) in itertools.product(COUNTS, STREAMS, ((0.0, 1.0), (-1.3, 2.7))):
        u = uniform(dtype, philox_words(seed, offset, n * (2 if dtype == "f64" else 1))).astype(c)
        want = (c(low) + u * (c(high) - c(low))).astype(NP[dtype])
        equal(checked_fill("random_uniform", [low, high], dtype, n, seed, offset), want, f"{dtype} {n} {seed} {offset}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_normal(dtype: str) -> None:
    """Against Box-Muller in f64: the words and pairs are right if all values are close (the functions' bits have tests of their own)."""
    per = 2 if dtype == "f64" else 1
    for n, (seed, offset) in itertools.product(COUNTS, STREAMS):
        pairs = (n + 1) // 2
        words = philox_words(seed, offset, 2 * pairs * per).reshape(pairs, 2, per)
        if dtype == "f64":
            bits = ((words[..., 0] << np.uint64(32)) + words[..., 1]) >> np.uint64(11)
            scale = 2.0**-53
        else:
            bits, scale = words[..., 0] >> np.uint64(8), 2.0**-24
        u1, u2 = (bits[:, 0].astype(np.float64) + 1) * scale, bits[:, 1].astype(np.float64) * scale
        r = np.sqrt(-2 * np.log(u1))
        z = np.stack([r * np.cos(2 * np.pi * u2), r * np.sin(2 * np.pi * u2)], axis=1).reshape(-1)[:n]
        got = checked_fill("random_normal", [0.5, 2.0], dtype, n, seed, offset).astype(np.float64)
        eps = {"f64": 2e-15, "f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}[dtype]
        assert got.shape == (n,) and np.allclose(got, 0.5 + 2 * z, rtol=eps, atol=4 * eps if dtype in ("f32", "f64") else eps)


def test_random_bernoulli_and_integer() -> None:
    for n, (seed, offset) in itertools.product(COUNTS, STREAMS):
        words = philox_words(seed, offset, n)
        for p in (0.0, 0.3, 1.0):
            equal(checked_fill("random_bernoulli", [p], "bool", n, seed, offset), uniform("f32", words) < np.float32(p), f"p {p}")
        for dtype, low, high in (
            ("i64", -5, 12),
            ("i32", 0, 2**32),
            ("u8", 0, 256),
            ("i8", -128, 128),
            ("f32", 0, 100),
            ("f16", -3, 3000),
            ("f64", 7, 8),
        ):
            want = np.array([low + (int(w) * (high - low) >> 32) for w in words], dtype=np.int64)
            want = want.astype(np.float32).astype(NP[dtype]) if dtype in ("f16", "bf16") else want.astype(NP[dtype])
            equal(checked_fill("random_integer", [low, high], dtype, n, seed, offset), want, f"{dtype} {low} {high}")


def test_random_refuses() -> None:
    for op, inputs, dtype in (
        ("random_uniform", [0, 2, 0.0, 1.0], "f32"),
        ("random_integer", [0, 0, 5, 5], "i32"),
        ("random_integer", [0, 0, 0, 2**33], "i64"),
    ):
        with pytest.raises((ValueError, hal.Error), match=op):
            hal.run(op, inputs, shape=(4,), dtype=dtype).numpy()


# ---- optimizer steps ----


def optimizer_layouts(tensors: list[np.ndarray | None], layout: str) -> list[hal.Array | None]:
    return [None if t is None else strided(t, layout) for t in tensors]


def check_step(
    op: str, tensors: list[np.ndarray | None], scalars: list[float], attributes: dict[str, int], want: list[np.ndarray | None]
) -> None:
    absent = [i for i, w in enumerate(want) if w is None]
    for layout, threads, in_place in itertools.product(("dense", "permuted", "gaps"), (1, 2), (False, True)):
        hal.set_num_threads(threads)
        inputs = optimizer_layouts(tensors, layout)
        outputs: list[hal.Array | None]
        states = [inputs[0], *inputs[2:]]
        if in_place:
            outputs = [
                s if s is not None else (None if i in absent else hal.empty(want[0].shape, inputs[0].dtype)) for i, s in enumerate(states)
            ]
        else:
            outputs = [None if i in absent else hal.empty(want[0].shape, inputs[0].dtype) for i in range(len(want))]
        hal.run(op, [*inputs, *scalars], attributes, outputs)
        for i, w in enumerate(want):
            if w is not None:
                equal(outputs[i].numpy(), w, f"{op} output {i} {layout} in place {in_place} {attributes}")


SIZES = ((3,), (17, 5), (1500, 3))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_sgd_step(dtype: str, shape: tuple[int, ...]) -> None:
    t, c = NP[dtype], compute(dtype)
    p, g, b = (random_values(f"sgd{dtype}{shape}{k}", shape, dtype) for k in range(3))
    lr, momentum, dampening = 0.1, 0.9, 0.3
    for decay, nesterov, maximize, state in itertools.product((0.0, 0.01), (0, 1), (0, 1), ("none", "first", "later")):
        P, G, B = p.astype(c), g.astype(c), b.astype(c)
        d = -G if maximize else G
        if decay:
            d = d + c(decay) * P
        new_b = None
        if state != "none":
            new = d if state != "later" else c(momentum) * B + (c(1) - c(dampening)) * d
            d = d + c(momentum) * new if nesterov else new
            new_b = new.astype(t)
        want = [(P - c(lr) * d).astype(t), new_b]
        attributes = {"nesterov": nesterov, "maximize": maximize, "first_step": int(state == "first")}
        check_step("sgd_step", [p, g, None if state == "none" else b], [lr, momentum, dampening, decay], attributes, want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_adam_step(dtype: str, shape: tuple[int, ...]) -> None:
    t, c = NP[dtype], compute(dtype)
    p, g, m, v, top = (random_values(f"adam{dtype}{shape}{k}", shape, dtype) for k in range(5))
    v, top = np.abs(v), np.abs(top)
    lr, beta1, beta2, eps, bias1, bias2 = 1e-3, 0.9, 0.999, 1e-8, 1 - 0.9**3, math.sqrt(1 - 0.999**3)
    for decay, decoupled, amsgrad, maximize in itertools.product((0.0, 0.01), (0, 1), (0, 1), (0, 1)):
        P, G, M, V, TOP = (x.astype(c) for x in (p, g, m, v, top))
        G = -G if maximize else G
        if decay and decoupled:
            P = P * (c(1) - c(lr) * c(decay))
        elif decay:
            G = G + c(decay) * P
        M = c(beta1) * M + (c(1) - c(beta1)) * G
        V = c(beta2) * V + ((c(1) - c(beta2)) * G) * G
        s = np.maximum(TOP, V) if amsgrad else V
        denom = np.sqrt(s) / c(bias2) + c(eps)
        new_p = P - (c(lr) / c(bias1)) * (M / denom)
        want = [new_p.astype(t), M.astype(t), V.astype(t), s.astype(t) if amsgrad else None]
        attributes = {"decoupled_weight_decay": decoupled, "amsgrad": amsgrad, "maximize": maximize}
        check_step("adam_step", [p, g, m, v, top if amsgrad else None], [lr, beta1, beta2, eps, decay, bias1, bias2], attributes, want)
