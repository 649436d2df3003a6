"""The reference itself, against results that are known in other ways: exact arithmetic, published vectors, hand-made examples."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from conformance import _reference
from conformance.dtypes import FLOATS, HALVES, INTS, NUMPY, limits
from conformance.reference import evaluate
from conformance.reference.values import cast

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(20)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# ---- section 2: casts ----


@pytest.mark.parametrize("half", HALVES)
def test_every_half_widens_exactly(half: str) -> None:
    all_bits = np.arange(65536, dtype=np.uint16).view(NUMPY[half])
    for wide in ("f32", "f64"):
        with np.errstate(invalid="ignore"):
            got, want = cast(all_bits, wide), all_bits.astype(NUMPY[wide])
        np.testing.assert_array_equal(got, want)
        assert np.array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))
        finite = ~np.isnan(want)
        assert np.array_equal(cast(got, half)[finite].view(np.uint16), all_bits[finite].view(np.uint16))


def test_f32_to_halves_as_numpy_and_ml_dtypes() -> None:
    x = np.frombuffer(RNG.bytes(4 * 200_000), np.float32)
    x = x[~np.isnan(x)]
    ties = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = ties[np.isfinite(ties)]
    x = np.concatenate([x, (ties[1:] + ties[:-1]) / 2, f32(65504, 65519.99, 65520, 2**-25, 2**-24, 2**-149)])
    with np.errstate(over="ignore"):
        assert np.array_equal(cast(x, "f16").view(np.uint16), x.astype(np.float16).view(np.uint16))
    assert np.array_equal(cast(x, "bf16").view(np.uint16), x.astype(BF16).view(np.uint16))


@pytest.mark.parametrize("target", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("source", ["f64", "i64"])
def test_one_rounding_from_64_bits(source: str, target: str) -> None:
    """Just beside half-way points of the target, where rounding through an intermediate format errs; judged by fractions."""
    bits = {"f16": 11, "bf16": 8, "f32": 24}[target]
    values = []
    for shift in range(5):
        for odd in (0, 1):
            mantissa = (1 << (bits - 1)) + 2 * int(RNG.integers(0, 1 << (bits - 2))) + odd
            half_way = ((2 * mantissa + 1) << (shift + 40 - bits)) if source == "i64" else (2 * mantissa + 1) * 2.0 ** (-bits - shift)
            for d in (-1, 0, 1):
                values.append(half_way + d if source == "i64" else half_way * (1 + d * 2.0**-50))
    x = np.array(values, NUMPY[source])
    got = cast(x, target).astype(np.float64)
    limit = float(ml_dtypes.finfo(NUMPY[target]).max)
    for value, result in zip(x.tolist(), got.tolist(), strict=True):
        if abs(value) > limit:
            assert math.isinf(result) or abs(result) == limit
            continue
        spacing = Fraction(2) ** (math.frexp(value)[1] - bits)
        exact = Fraction(value) / spacing
        want = round(exact) * spacing  # Fraction rounds ties to even
        assert Fraction(result) == want, (value, result)


def test_f64_to_f16_is_direct() -> None:
    x = np.array([1 + 2.0**-11 + 2.0**-40], np.float64)
    assert cast(x, "f16")[0] == np.float16(1 + 2**-10)  # through f32 it would be a tie, and 1
    assert cast(np.array([2049 * 2**20 + 1]), "f32")[0] == np.float32(2049 * 2**20)


def test_integers_to_floats_as_numpy() -> None:
    x = np.concatenate([np.frombuffer(RNG.bytes(8 * 10_000), np.int64), np.array([2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63), 0, -1])])
    for to in ("f32", "f64"):
        assert np.array_equal(cast(x, to), x.astype(NUMPY[to]))


@pytest.mark.parametrize("to", INTS)
def test_float_to_integer(to: str) -> None:
    low, high = limits(to)
    x = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, -0.0, 0.99, 1.5, -0.99, 2.0**63, 2.0**62, -(2.0**63)])
    want = [0, high, low, high, low, 0, 0, 1, 0, high, min(high, 2**62), low]
    assert cast(x, to).tolist() == want
    assert cast(np.array([low, high]) if to != "i64" else np.array([low, 0]), "f64").tolist() == ([low, high] if to != "i64" else [low, 0])
    for half in HALVES:
        assert cast(np.array([np.inf, -np.inf, np.nan, -1.5], NUMPY[half]), to).tolist() == [high, low, 0, max(low, -1)]


def test_integers_wrap_and_bools() -> None:
    assert cast(np.array([300, -1, 2**40 + 5]), "u8").tolist() == [44, 255, 5]
    assert cast(np.array([128, -129], np.int64), "i8").tolist() == [-128, 127]
    assert cast(np.array([255], np.uint8), "i64").tolist() == [255]
    assert cast(f32(np.nan, -0.0, 0.0, 1e-45), "bool").tolist() == [True, False, False, True]
    assert cast(np.array([True, False]), "bf16").tolist() == [1.0, 0.0]


# ---- section 3: pointwise ----


def test_float_remainder_and_floor_divide_as_python() -> None:
    values = np.concatenate([RNG.standard_normal(60) * 10.0 ** RNG.integers(-4, 5, 60), [0.0, -0.0, 1.0, -1.0, 0.1, 1e300, 5e-324, -7.5]])
    a, b = (v.reshape(-1) for v in np.meshgrid(values, values))
    a, b = a[b != 0], b[b != 0]
    with np.errstate(over="ignore"):
        for op, python in (("remainder", lambda x, y: x % y), ("floor_divide", lambda x, y: x // y)):
            got = evaluate(op, [a, b])
            want = np.array([python(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
            assert np.array_equal(got.view(np.int64), want.view(np.int64))


def test_float_division_corners() -> None:
    inf = math.inf
    assert evaluate("floor_divide", [f32(1, -1, 0), f32(0, 0, 5)]).tolist() == [inf, -inf, 0]
    assert np.isnan(evaluate("remainder", [f32(1, inf, -inf), f32(0, 2, 2)])).all()
    assert evaluate("remainder", [f32(1, -1, 1, -1), f32(inf, inf, -inf, -inf)]).tolist() == [1, inf, -inf, -1]
    assert evaluate("floor_divide", [f32(1, -1), f32(inf, inf)]).tolist() == [0, -1]
    assert np.signbit(evaluate("remainder", [f32(0, 4, 0), f32(-2, -2, -inf)])).all()


@pytest.mark.parametrize("dtype", INTS)
def test_integer_arithmetic_as_python(dtype: str) -> None:
    low, high = limits(dtype)
    values = np.array(sorted({low, low + 1, high, high - 1, 0, 1, 2, 3, 7, *(() if low == 0 else (-1, -2, -3, -7))}), NUMPY[dtype])
    a, b = (v.reshape(-1) for v in np.meshgrid(values, values))

    def wrap(x: int) -> int:
        return (x - low) % (high - low + 1) + low

    for op, python in (
        ("add", lambda x, y: x + y),
        ("sub", lambda x, y: x - y),
        ("mul", lambda x, y: x * y),
        ("floor_divide", lambda x, y: x // y if y else 0),
        ("remainder", lambda x, y: x % y if y else 0),
        ("bitwise_xor", lambda x, y: x ^ y),
        ("maximum", max),
        ("minimum", min),
    ):
        assert evaluate(op, [a, b]).tolist() == [wrap(python(x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)], op
    for op, python1 in (
        ("neg", lambda x: -x),
        ("abs", abs),
        ("square", lambda x: x * x),
        ("bitwise_not", lambda x: ~x),
        ("sign", lambda x: (x > 0) - (x < 0)),
    ):
        assert evaluate(op, [values]).tolist() == [wrap(python1(x)) for x in values.tolist()], op


def test_maximum_and_signs_of_zero() -> None:
    a, b = f32(0.0, -0.0, -0.0, np.nan, 1.0, -1.0), f32(-0.0, 0.0, -0.0, 1.0, np.nan, -2.0)
    high, low = evaluate("maximum", [a, b]), evaluate("minimum", [a, b])
    assert np.signbit(high[:3]).tolist() == [False, False, True] and np.signbit(low[:3]).tolist() == [True, True, True]
    assert np.isnan(high[3:5]).all() and np.isnan(low[3:5]).all() and (high[5], low[5]) == (-1, -2)
    x = f32(-0.0, 0.0, np.nan, -2.5, 0.5, 1.5, 2.5, -0.4)
    assert np.signbit(evaluate("relu", [x])).tolist()[:2] == [True, False]
    assert np.isnan(evaluate("relu", [x])[2]) and np.isnan(evaluate("sign", [x])[2])
    assert not np.signbit(evaluate("sign", [x])[:2]).any()
    assert evaluate("round", [x])[3:7].tolist() == [-2, 0, 2, 2] and np.signbit(evaluate("round", [x])[7])
    assert evaluate("clamp", [x, -1.0, 1.0])[3:].tolist() == [-1, 0.5, 1, 1, np.float32(-0.4)]


def test_where_hides_the_other_branch_and_halves_round_once() -> None:
    c = np.array([True, False])
    assert evaluate("where", [c, f32(1, np.nan), f32(np.nan, 2)]).tolist() == [1, 2]
    x = np.array([1.0], np.float16)
    assert evaluate("add", [x, 2.0**-11 + 2.0**-20])[0] == np.float16(1 + 2**-10)  # the immediate is f32, not f16
    assert evaluate("dropout_apply", [f32(np.inf, 2), np.array([False, True]), 1.5]).tolist() == [0, 3]


# ---- section 5: reductions ----


def test_sums_of_integers_are_exact() -> None:
    for n in (0, 1, 31, 32, 33, 4095, 4096, 4097, 8200, 200_000):
        x = RNG.integers(-8, 9, n)
        for dtype in ("i8", "i64", "f32", "f64"):
            assert evaluate("sum", [x.astype(NUMPY[dtype])], {"axes": 1}).item() == int(x.sum())
    assert evaluate("sum", [np.array([2**63 - 1, 1])], {"axes": 1}).item() == -(2**63)
    assert evaluate("prod", [np.array([3, -4, 5], np.int8)], {"axes": 1}).item() == -60
    assert evaluate("sum", [np.ones((3, 5), bool)], {"axes": 2}).tolist() == [[5], [5], [5]]


def test_lanes_and_tree_by_hand() -> None:
    tiny = 2.0**-24  # 1 + tiny rounds to 1; 1 + 2·tiny doesn't

    def at(n: int, **positions: float) -> np.ndarray:
        x = np.zeros(n, np.float32)
        for key, value in positions.items():
            x[int(key[1:])] = value
        return x

    def total(x: np.ndarray) -> float:
        return evaluate("sum", [x], {"axes": 1}).item()

    assert total(at(64, _0=1, _32=tiny, _16=tiny)) == 1  # lane 0, then lane 16: one at a time
    assert total(at(64, _0=1, _1=tiny, _17=tiny)) == 1 + 2 * tiny  # lanes 1 and 17 meet at s = 16, before lane 0
    assert total(at(64, _0=1, _1=tiny, _2=tiny)) == 1  # lane 2 joins lane 0 at s = 2, lane 1 at s = 1
    assert total(at(64, _0=1, _1=tiny, _3=tiny)) == 1 + 2 * tiny  # 3 joins 1 at s = 2
    assert total(at(8192, _0=1, _4096=tiny, _4097=tiny)) == 1 + 2 * tiny  # the second block on its own
    assert total(at(4096, _0=1, _32=tiny, _64=tiny)) == 1
    # 33 blocks: block 32 is added to lane 0 before lane 16 comes.
    assert total(at(33 * 4096, _0=1, _131072=tiny, _65536=tiny)) == 1
    assert not np.signbit(total(f32(-0.0)))


def test_halves_accumulate_in_f32() -> None:
    x = np.full(4096, 1.0, np.float16)
    x[0] = 2048
    assert evaluate("sum", [x], {"axes": 1}).item() == 2048 + 4095 + 1  # 6143 is a tie of f16, to the even 6144
    assert evaluate("mean", [x], {"axes": 1}).item() == np.float16(np.float32(6143) / np.float32(4096))
    assert np.isnan(evaluate("mean", [x[:0]], {"axes": 1}))


def test_indices_and_logic() -> None:
    assert evaluate("argmax", [f32(0.0, -0.0, 0.0)], {"axes": 1}).item() == 0
    assert evaluate("argmin", [f32(1, np.nan, -5, np.nan)], {"axes": 1}).item() == 1
    assert evaluate("argmax", [np.array([[1, 7], [7, 3]])], {"axes": 3}).item() == 1
    assert np.isnan(evaluate("amax", [f32(1, np.nan)], {"axes": 1})) and not np.signbit(evaluate("amax", [f32(-0.0, 0.0)], {"axes": 1}))
    assert evaluate("any", [f32(0, np.nan)], {"axes": 1}).item() is True and evaluate("all", [f32(-0.0, 1)], {"axes": 1}).item() is False
    assert evaluate("any", [f32()], {"axes": 1}).item() is False and evaluate("all", [f32()], {"axes": 1}).item() is True
    with pytest.raises(ValueError):
        evaluate("amax", [f32()], {"axes": 1})


def test_axes_are_flattened_row_major() -> None:
    x = RNG.integers(-9, 9, (3, 4, 5, 6))
    for axes in ((0,), (1, 3), (0, 2), (0, 1, 2, 3)):
        mask = sum(1 << k for k in axes)
        assert np.array_equal(evaluate("sum", [x], {"axes": mask}), x.sum(axes, keepdims=True))
        assert np.array_equal(evaluate("amax", [x], {"axes": mask}), x.max(axes, keepdims=True))


# ---- section 6 ----


def test_softmax_against_f64() -> None:
    x = RNG.standard_normal((5, 300)).astype(np.float32)
    want = np.exp(x.astype(np.float64))
    want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(evaluate("softmax", [x], {"axis": 1}), want, rtol=1e-6)
    np.testing.assert_allclose(evaluate("log_softmax", [x], {"axis": 1}), np.log(want), rtol=1e-6)
    g = RNG.standard_normal((5, 300))
    y = want.astype(np.float64)
    np.testing.assert_allclose(
        evaluate("softmax_backward", [g, y], {"axis": 1}), y * (g - (g * y).sum(1, keepdims=True)), rtol=1e-9, atol=1e-15
    )
    np.testing.assert_allclose(
        evaluate("log_softmax_backward", [g, np.log(y)], {"axis": 1}), g - y * g.sum(1, keepdims=True), rtol=1e-9, atol=1e-15
    )
    assert evaluate("softmax", [np.zeros((4, 2), np.float32)], {"axis": 0}).tolist() == [[0.25, 0.25]] * 4


def test_nll_loss() -> None:
    x = f32(1, 2, 3, 4, 5, 6).reshape(3, 2)
    target = np.array([1, -100, 0])
    assert evaluate("nll_loss", [x, target]).tolist() == [-2, 0, -5]
    assert evaluate("nll_loss_backward", [f32(1, 2, 3), target], shape=(3, 2)).tolist() == [[0, -1], [0, 0], [-3, 0]]
    with pytest.raises(IndexError):
        evaluate("nll_loss", [x, np.array([0, 2, 0])])


# ---- sections 7 and 8: chains ----


def test_matmul_of_small_integers_is_exact() -> None:
    for m, k, n in ((3, 0, 2), (2, 1, 3), (5, 513, 4), (3, 1100, 2)):
        a, b = RNG.integers(-4, 5, (m, k)), RNG.integers(-4, 5, (k, n))
        for dtype in (*FLOATS, "i16", "i64"):
            got = evaluate("matmul", [a.astype(NUMPY[dtype]), b.astype(NUMPY[dtype])])
            assert np.array_equal(got, (a @ b).astype(NUMPY[dtype])), (dtype, k)
    one_hot = np.eye(7, dtype=np.float32)[RNG.permutation(7)]
    x = RNG.standard_normal((7, 5)).astype(np.float32)
    assert np.array_equal(evaluate("matmul", [one_hot, x]), x[one_hot.argmax(1)])
    u8 = np.full((1, 3), 200, np.uint8)
    assert evaluate("matmul", [u8, u8.T]).item() == 3 * 200 * 200 % 256
    batch = evaluate("matmul", [np.ones((2, 1, 3, 4)), np.ones((1, 5, 4, 2))])
    assert batch.shape == (2, 5, 3, 2) and (batch == 4).all()


def test_chunks_and_fma_by_hand() -> None:
    tiny = 2.0**-24
    a = np.zeros((1, 1024), np.float32)
    a[0, [0, 512, 513]] = 1, tiny, tiny
    ones = np.ones((1024, 1), np.float32)
    assert evaluate("matmul", [a, ones]).item() == 1 + 2 * tiny  # the second chunk on its own
    a[0, [0, 512, 513]] = [0, 0, 0]
    a[0, [0, 510, 511]] = 1, tiny, tiny
    assert evaluate("matmul", [a, ones]).item() == 1  # one chain
    x = 1 + 2.0**-12
    assert evaluate("matmul", [f32(1, x).reshape(1, 2), f32(-1, x).reshape(2, 1)]).item() == 2.0**-11 + 2.0**-24  # one rounding
    assert not np.signbit(evaluate("matmul", [f32(-0.0).reshape(1, 1), f32(1).reshape(1, 1)]).item())
    assert np.isnan(evaluate("matmul", [f32(0, 1).reshape(1, 2), f32(np.inf, 1).reshape(2, 1)])).all()


def _fma(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return float(_round_f32(exact))


def _round_f32(x: Fraction) -> np.float32:
    """Nearest f32 of a fraction of moderate size, by its definition."""
    if x == 0:
        return np.float32(0)
    exponent = math.frexp(float(abs(x)))[1]
    spacing = Fraction(2) ** (exponent - 24)
    return np.float32(float(round(x / spacing) * spacing))


def test_conv2d_order_against_fractions() -> None:
    """The K order and the chunks, spelled out again in exact rational arithmetic."""
    x = (RNG.standard_normal((1, 37, 4, 4)) * 2.0 ** RNG.integers(-6, 6, (1, 37, 4, 4))).astype(np.float32)
    w = RNG.standard_normal((2, 37, 5, 2)).astype(np.float32)
    got = evaluate("conv2d", [x, w], {"padding": (2, 1), "stride": (2, 3)})
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (1, 1)))
    per_chunk = max(1, 512 // (16 * 5 * 2))
    assert got.shape == (1, 2, 2, 2) and per_chunk == 3
    for o, oh, ow in np.ndindex(2, 2, 2):
        chunks = []
        for first in range(0, 3, per_chunk):
            chain = 0.0
            for block in range(first, min(first + per_chunk, 3)):
                for kh, kw in np.ndindex(5, 2):
                    for c in range(16 * block, min(16 * block + 16, 37)):
                        chain = _fma(float(padded[0, c, 2 * oh + kh, 3 * ow + kw]), float(w[o, c, kh, kw]), chain)
            chunks.append(np.float32(chain))
        assert got[0, o, oh, ow] == sum(chunks[1:], chunks[0])


def _conv_case(groups: int, stride: int, dilation: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict]:
    attributes = {"stride": (stride, 1), "padding": (1, 2), "dilation": (dilation, 1), "groups": groups}
    x = RNG.integers(-3, 4, (2, 6, 9, 7)).astype(np.float32)
    w = RNG.integers(-3, 4, (4 * groups, 6 // groups, 3, 2)).astype(np.float32)
    return x, w, evaluate("conv2d", [x, w], attributes), attributes


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("stride,dilation", [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_convolutions_of_small_integers_are_exact(groups: int, stride: int, dilation: int) -> None:
    """Against numpy slices; the gradients by the adjoint identities, which are exact here."""
    x, w, y, attributes = _conv_case(groups, stride, dilation)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)))
    want = np.zeros_like(y)
    for kh, kw in np.ndindex(3, 2):
        rows = slice(kh * dilation, kh * dilation + (y.shape[2] - 1) * stride + 1, stride)
        taps = padded[:, :, rows, kw : kw + y.shape[3]]
        for g in range(groups):
            channels, outputs = slice(g * 6 // groups, (g + 1) * 6 // groups), slice(4 * g, 4 * g + 4)
            want[:, outputs] += np.einsum("nchw,oc->nohw", taps[:, channels], w[outputs, :, kh, kw])
    assert np.array_equal(y, want)
    grad = RNG.integers(-3, 4, y.shape).astype(np.float32)
    input_grad = evaluate("conv2d_input_grad", [grad, w], attributes, shape=x.shape)
    weight_grad = evaluate("conv2d_weight_grad", [grad, x], attributes, shape=w.shape)
    other_x, other_w = RNG.integers(-3, 4, x.shape).astype(np.float32), RNG.integers(-3, 4, w.shape).astype(np.float32)
    assert (evaluate("conv2d", [other_x, w], attributes) * grad).sum() == (other_x * input_grad).sum()
    assert (evaluate("conv2d", [x, other_w], attributes) * grad).sum() == (other_w * weight_grad).sum()


def test_pointwise_convolution_is_matmul() -> None:
    x, w = RNG.standard_normal((1, 600, 3, 4)).astype(np.float32), RNG.standard_normal((5, 600, 1, 1)).astype(np.float32)
    assert np.array_equal(evaluate("conv2d", [x, w]).reshape(5, 12), evaluate("matmul", [w.reshape(5, 600), x.reshape(600, 12)]))


# ---- section 9 ----


def test_pooling() -> None:
    x = f32(1, 3, 3, -0.0, np.nan, 2, 5, 0, np.nan).reshape(1, 1, 3, 3)
    y, i = evaluate("max_pool2d", [x], {"kernel": (2, 2)})
    assert i.reshape(-1).tolist() == [4, 4, 4, 4] and np.isnan(y).all()
    y, i = evaluate("max_pool2d", [f32(0, -0.0, -0.0, 0, 2, 2).reshape(1, 1, 3, 2)], {"kernel": (2, 2), "stride": (1, 1)})
    assert i.reshape(-1).tolist() == [0, 4] and y.reshape(-1).tolist() == [0, 2]
    y, i = evaluate("max_pool2d", [np.full((1, 1, 2, 2), -np.inf, np.float32)], {"kernel": (2, 2), "padding": (1, 1), "stride": (2, 2)})
    assert i.reshape(-1).tolist() == [0, 1, 2, 3]
    grad, index = f32(1, 2, 4, 8).reshape(1, 1, 2, 2), np.array([3, 0, 3, 3]).reshape(1, 1, 2, 2)
    assert evaluate("max_pool2d_backward", [grad, index], shape=(1, 1, 2, 2)).reshape(-1).tolist() == [2, 0, 0, 13]
    assert evaluate("max_pool2d_gather", [f32(5, 6, 7, 8).reshape(1, 1, 2, 2), index]).reshape(-1).tolist() == [8, 5, 8, 8]
    assert evaluate("max_pool2d", [np.zeros((1, 1, 5, 5), np.float32)], {"kernel": (2, 2), "stride": (2, 2), "ceil_mode": 1})[0].shape == (
        1,
        1,
        3,
        3,
    )


# ---- section 10 ----


def test_philox_known_answers() -> None:
    """The vectors of the Random123 distribution (kat_vectors, philox4x32 10)."""
    ones = 0xFFFFFFFF
    assert _reference.philox(0, 0, 0, 0, 0, 0) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert _reference.philox(ones, ones, ones, ones, ones, ones) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
    assert _reference.philox(*pi) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
    assert _reference.philox_word(0, 2) == 0xBC57AC4C


def test_random_numbers_have_their_distributions() -> None:
    for dtype in FLOATS:
        u = evaluate("random_uniform", [5, 0, 0.0, 1.0], shape=(20_000,), dtype=dtype).astype(np.float64)
        assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
        z = evaluate("random_normal", [6, 8, 1.0, 2.0], shape=(20_001,), dtype=dtype).astype(np.float64)
        assert abs(z.mean() - 1) < 0.05 and abs(z.std() - 2) < 0.05
    assert abs(evaluate("random_bernoulli", [7, 0, 0.25], shape=(20_000,)).mean() - 0.25) < 0.01
    k = evaluate("random_integer", [8, 0, -3, 4], shape=(20_000,), dtype="i32")
    assert (k.min(), k.max()) == (-3, 3) and np.bincount(k + 3).min() > 2500
    whole = evaluate("random_integer", [9, 0, 0, 2**32], shape=(4,), dtype="i64")
    assert whole.tolist() == [_reference.philox_word(9, i) for i in range(4)]
    assert np.array_equal(
        evaluate("random_uniform", [5, 8, 0.0, 1.0], shape=(4,), dtype="f32"),
        evaluate("random_uniform", [5, 0, 0.0, 1.0], shape=(3, 4), dtype="f32").reshape(-1)[8:],
    )


# ---- section 11, 12 ----


def test_optimizer_steps_by_hand() -> None:
    p, g, b = np.array([1.0]), np.array([0.5]), np.array([0.25])
    new_p, new_b = evaluate("sgd_step", [p, g, b, 0.5, 0.5, 0.0, 0.25], {"nesterov": 0})
    assert (new_p.item(), new_b.item()) == (1 - 0.5 * (0.125 + 0.75), 0.875)
    new_p, new_b = evaluate("sgd_step", [p, g, b, 0.5, 0.5, 0.0, 0.25], {"nesterov": 1, "first_step": 1})
    assert (new_p.item(), new_b.item()) == (1 - 0.5 * (0.75 + 0.375), 0.75)
    assert evaluate("sgd_step", [p, g, None, 0.5, 0.0, 0.0, 0.0], {"maximize": 1})[0].item() == 1.25
    one, zero = np.array([1.0]), np.array([0.0])
    new_p, m, v, top = evaluate("adam_step", [one, one, zero, zero, None, 0.5, 0.5, 0.75, 0.0, 0.0, 0.5, 0.5], {})
    assert (new_p.item(), m.item(), v.item(), top) == (0.5, 0.5, 0.25, None)
    new_p, m, v, top = evaluate(
        "adam_step",
        [one, one, zero, zero, np.array([4.0]), 0.5, 0.5, 0.75, 0.0, 0.5, 1.0, 1.0],
        {"amsgrad": 1, "decoupled_weight_decay": 1},
    )
    assert (new_p.item(), top.item()) == (0.75 - 0.5 * (0.5 / 2), 4)


def test_arange_and_copies() -> None:
    assert evaluate("arange", [1, 2], shape=(4,), dtype="i8").tolist() == [1, 3, 5, 7]
    assert evaluate("arange", [250, 3], shape=(4,), dtype="u8").tolist() == [250, 253, 0, 3]
    got = evaluate("arange", [0.1, 0.1], shape=(50,), dtype="f32")
    assert np.array_equal(got, np.float32(0.1) + np.arange(50, dtype=np.float32) * np.float32(0.1))
    payload = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    assert np.array_equal(evaluate("copy", [payload]).view(np.uint32), payload.view(np.uint32))
    assert evaluate("fill", [True], shape=(2,), dtype="bool").tolist() == [True, True]


def test_bad_calls_are_refused() -> None:
    with pytest.raises(ValueError):
        evaluate("no_such_op", [f32(1)])
    with pytest.raises(TypeError):
        evaluate("add", [f32(1), np.array([1.0])])


def test_scans_and_orders_by_hand() -> None:
    x = np.array([1.0, 2.0**-24, 2.0**-24, -1.0], np.float32)
    assert evaluate("cumsum", [x], {"axis": 0}).tolist() == [1, 1, 1, 0]  # serial: each small one is lost
    long = np.ones(4097, np.float32) * np.float32(2.0**24)
    long[1:4096] = 1
    out = evaluate("cumsum", [long], {"axis": 0})
    assert out[4095] == 2.0**24 and out[4096] == 2.0**25  # the second block begins anew, then gets the prefix
    assert evaluate("cumsum", [np.array([200, 100], np.uint8)], {"axis": 0}).tolist() == [200, 300]
    y = np.array([2.0, np.nan, -0.0, 0.0, 2.0], np.float32)
    assert evaluate("sort", [y], {"axis": 0, "descending": 0})[1].tolist() == [2, 3, 0, 4, 1]
    assert evaluate("sort", [y], {"axis": 0, "descending": 1})[1].tolist() == [1, 0, 4, 2, 3]
    assert evaluate("topk", [y], {"axis": 0, "k": 2, "largest": 1})[1].tolist() == [1, 0]


def test_moves_by_hand() -> None:
    x, index = np.array([10, 20, 30], np.int32), np.array([2, 0, 2])
    assert evaluate("gather", [x, index], {"axis": 0}).tolist() == [30, 10, 30]
    assert evaluate("scatter", [x, index, np.array([1, 2, 3], np.int32)], {"axis": 0}).tolist() == [2, 20, 3]
    assert evaluate("scatter_add", [np.array([1, 2, 3], np.int32), index], {"axis": 0}, shape=(4,)).tolist() == [2, 0, 4, 0]
    big = np.full(513, 2.0**-24, np.float32)
    big[0] = 1
    # One chain of 512 loses the small ones; the last is a chain of its own, and is lost too.
    assert evaluate("scatter_add", [big, np.zeros(513, np.int64)], {"axis": 0}, shape=(1,)).tolist() == [1]
    big[512] = 2.0**-23
    assert evaluate("scatter_add", [big, np.zeros(513, np.int64)], {"axis": 0}, shape=(1,)).tolist() == [1 + 2.0**-23]
