"""The kinds "nan", "dtype" and "empty"."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from kit import ALL, FLOATS, INF, INTS, NAN, array, assert_close, assert_equal, refuses, same_bits, tensor, wide

import oneflow_mini as flow
from oneflow_mini.nn import functional as F

# ---- NaN, infinities, ties --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 5, 31, 32, 33, 127, 1025, 4096, 4097])
def test_where_nan_stands(dev, n, dtype):
    """In each place, along each dimension: the first NaN is the extremum."""
    for at in {0, n // 3, n // 2, n - 1}:
        x = np.linspace(-1, 1, n)
        x[at] = NAN
        if at + 1 < n:
            x[-1] = NAN
        for dim, laid in ((0, np.stack((x, x), 1)), (1, np.stack((x, x)))):
            t = tensor(dev, laid, dtype)
            for f in (flow.argmax, flow.argmin):
                assert_equal(f(t, dim=dim), [at, at], f"{f.__name__} {at}")
            for f in (flow.amax, flow.amin, flow.sum, flow.mean, flow.prod, flow.var, flow.logsumexp):
                assert np.isnan(wide(f(t, dim=dim))).all(), f.__name__
            for largest in (flow.max, flow.min):
                values, index = largest(t, dim=dim)
                assert np.isnan(wide(values)).all() and array(index).tolist() == [at, at]
            assert np.isnan(wide(flow.cumsum(t, dim=dim)).take(range(at, n), dim)).all()


@pytest.mark.parametrize("dtype", ALL)
def test_ties_go_to_the_first(dev, dtype):
    for n in (2, 7, 33, 300, 5000):
        t = flow.ones(n, 3, dtype=getattr(flow, dtype), device=dev)
        for dim in (0, 1):
            assert (array(flow.argmax(t, dim=dim)) == 0).all() and (array(flow.argmin(t, dim=dim)) == 0).all()
    if dtype in FLOATS:
        for x in ([-0.0, 0.0], [0.0, -0.0]):
            assert flow.argmax(tensor(dev, x, dtype), dim=0).item() == 0
        for edge in (INF, -INF):
            assert flow.argmax(tensor(dev, [edge] * 5, dtype), dim=0).item() == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_pointwise_of_nan(dev, dtype):
    nan, one = tensor(dev, [NAN, NAN], dtype), tensor(dev, [1.0, -1.0], dtype)
    for f in (flow.maximum, flow.minimum, flow.add, flow.mul, flow.fmod, flow.remainder, flow.atan2):
        assert np.isnan(wide(f(nan, one))).all() and np.isnan(wide(f(one, nan))).all(), f.__name__
    for f in (flow.relu, flow.sign, flow.abs, flow.floor, flow.round, flow.exp, flow.sigmoid, flow.tanh, flow.gelu, flow.erfinv, F.leaky_relu,
              F.relu6, F.hardtanh, F.elu, F.softplus, F.hardswish, F.silu):  # fmt: skip
        assert np.isnan(wide(f(nan))).all(), f.__name__
    assert np.isnan(wide(flow.clamp(nan, 0.0, 1.0))).all()
    for f in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq):
        assert not array(f(nan, nan)).any()
    assert array(nan != nan).all() and array(nan.to(flow.bool)).all()
    assert_equal(flow.where(tensor(dev, [True, False]), one, nan), [1, NAN])
    plane = tensor(dev, np.where(np.eye(4, dtype=bool), NAN, 1.0)[None, None], dtype)
    assert np.isnan(wide(F.max_pool2d(plane, 2))).tolist() == [[[[True, False], [False, True]]]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [2, 31, 33, 64, 1000, 4099])
def test_softmax_rows(dev, n, dtype):
    for f in (flow.softmax, flow.log_softmax):
        for bad in (INF, NAN):
            for at in (0, n - 1):
                x = np.zeros((3, n))
                x[1, at] = bad
                for dim, laid in ((1, x), (0, x.T)):
                    y = wide(f(tensor(dev, laid, dtype), dim=dim))
                    y = y if dim else y.T
                    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2]]).all(), (f.__name__, bad, at)
        assert np.isnan(wide(f(tensor(dev, np.full((1, n), -INF), dtype), dim=1))).all()
    x = np.full((1, n), -INF)
    x[0, 1] = 3
    assert_equal(flow.softmax(tensor(dev, x, dtype), dim=1), np.where(x == 3, 1.0, 0.0))
    assert_equal(flow.log_softmax(tensor(dev, x, dtype), dim=1), np.where(x == 3, 0.0, -INF))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("n", [1, 2, 16, 17, 300, 4097])
def test_sort_is_stable_and_a_permutation(dev, n, dtype):
    r = np.random.default_rng(n)
    x = r.integers(0, 2 if dtype == "bool" else 4, (3, n)).astype(np.float64)
    if dtype in FLOATS:
        x[r.random(x.shape) < 0.1] = NAN
        x[(x == 0) & (r.random(x.shape) < 0.5)] = -0.0
    for descending in (False, True):
        # numpy has no descending order in which NaN comes first: its order of the negated keys, NaN lowest
        key = np.where(np.isnan(x), -INF, -x) if descending else x
        for dim, laid, keys in ((1, x, key), (0, x.T, key.T)):
            order = np.argsort(keys, dim, kind="stable")
            values, index = flow.sort(tensor(dev, laid, dtype), dim=dim, descending=descending, stable=True)
            assert_equal(index, order, f"{dim} {descending}")
            assert_equal(values, np.take_along_axis(laid, order, dim).astype(array(values).dtype), f"{dim} {descending}")
            k = min(n, 5) if dim == 1 else min(3, 2)
            k = min(k, laid.shape[dim])
            top, where = flow.topk(tensor(dev, laid, dtype), k, dim=dim, largest=descending)
            assert_equal(where, order.take(range(k), dim), "topk")
            assert same_bits(top, values.narrow(dim, 0, k))


# ---- dtypes -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division(dev, dtype):
    info = np.iinfo(dtype)
    edge = [info.min, info.min + 1, -9, -7, -1, 0, 1, 2, 5, 7, info.max - 1, info.max]
    edge = [v for v in edge if info.min <= v <= info.max]
    a, b = (g.ravel().astype(dtype) for g in np.meshgrid(edge, [v for v in edge if v], indexing="ij"))
    x, y = tensor(dev, a, dtype), tensor(dev, b, dtype)
    with np.errstate(over="ignore"):
        overflow = (a == info.min) & (b.astype(np.int64) == -1)
        want_q, want_r = a // b, a % b
    want_q[overflow], want_r[overflow] = info.min, 0
    assert_equal(x // y, want_q)
    assert_equal(x % y, want_r)
    assert_equal((x // y) * y + x % y, a, "q·b + r")
    assert_equal(flow.fmod(x, y), np.where(overflow, 0, np.fmod(a, np.where(overflow, 1, b))))
    for number in {int(v) for v in b}:
        assert_equal(x // number, want_q[b == number].repeat(0) if False else np.where(
            (a == info.min) & (number == -1), info.min, a // np.where((a == info.min) & (number == -1), 1, np.asarray(number, dtype))))  # fmt: skip
    zero = tensor(dev, np.zeros_like(a), dtype)
    assert_equal(x // zero, np.zeros_like(a), "by zero, as docs/numerics.md says")
    assert_equal(x % zero, np.zeros_like(a))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_division_by_every_small_number(dev, dtype):
    n = np.concatenate((np.arange(-5000, 5000), [2**31 - 1, -(2**31), 2**31 - 2, 2**30 + 1]))
    x = tensor(dev, n, dtype)
    for m in [*range(1, 130), 641, 3150, 65535, 65537, 2**31 - 1]:
        assert_equal(x // m, n // m, f"// {m}")
        assert_equal(x % m, n % m, f"% {m}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division(dev, dtype):
    edge = [NAN, INF, -INF, 0.0, -0.0, 1, -1, 7, -7, 0.1, -0.1, 3, -3, 0.5, 2.5]
    a, b = (wide(tensor(dev, g.ravel(), dtype)) for g in np.meshgrid(edge, edge))
    x, y = tensor(dev, a, dtype), tensor(dev, b, dtype)
    with np.errstate(all="ignore"):
        kind = np.float64 if dtype == "float64" else np.float32
        q, r = np.floor_divide(a.astype(kind), b.astype(kind)), np.remainder(a.astype(kind), b.astype(kind))
    with np.errstate(all="ignore"):
        q, r = wide(tensor(dev, q, dtype)), wide(tensor(dev, r, dtype))
    assert_equal(x // y, q, "//")
    assert_equal(x % y, r, "%")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_accumulate_wide(dev, dtype):
    """Sums beyond the largest half, counts beyond its integers."""
    big, largest = (40000.0, 65504.0) if dtype == "float16" else (2.0**127, float(flow.finfo(flow.bfloat16).max))
    if dtype == "float16":
        assert tensor(dev, [big] * 3, dtype).mean().item() == big
        assert tensor(dev, [big, big, -big], dtype).sum().item() == big
    for n in (300, 4096, 5000, 70000):
        ones = flow.ones(2, n, dtype=getattr(flow, dtype), device=dev)
        assert_equal(ones.sum(dim=1), wide(tensor(dev, [n, n], dtype)), f"sum of {n}")
        assert_equal(ones.mean(dim=1), [1, 1])
        assert_equal(flow.matmul(ones, ones.transpose(0, 1)), wide(tensor(dev, np.full((2, 2), n), dtype)), f"matmul of {n}")
        assert_equal(ones.var(dim=1), [0, 0])
    assert tensor(dev, [largest] * 4, dtype).mean().item() in (largest, INF) and tensor(dev, [largest], dtype).mean().item() == largest
    row = tensor(dev, np.full((1, 4096), 1.0), dtype)
    assert_close(flow.softmax(row, dim=1), np.full((1, 4096), 1 / 4096), 1e-2)
    assert_close(F.layer_norm(tensor(dev, np.arange(2048.0)[None] % 7, dtype), (2048,)).mean(), 0.0, 0, 1e-2)


@pytest.mark.parametrize("dtype", ("bool", *INTS))
def test_integer_sums_are_wide(dev, dtype):
    t = flow.ones(1000, dtype=getattr(flow, dtype), device=dev)
    for f, want in ((flow.sum, 1000), (flow.prod, 1), (lambda x: flow.cumsum(x, dim=0)[-1], 1000)):
        out = f(t)
        assert out.dtype == flow.int64 and out.item() == want
    with pytest.raises((TypeError, RuntimeError)):
        t.mean()


PROMOTION = {  # of two tensors with dimensions: PyTorch's lattice
    ("bool", "uint8"): "uint8", ("uint8", "int8"): "int16", ("uint8", "int64"): "int64", ("int8", "int16"): "int16", ("int32", "int64"): "int64",
    ("int64", "float16"): "float16", ("int64", "float32"): "float32", ("float16", "bfloat16"): "float32", ("bfloat16", "float32"): "float32",
    ("float32", "float64"): "float64", ("bool", "float16"): "float16", ("uint8", "int16"): "int16",
}  # fmt: skip


def test_promotion(dev):
    for (a, b), want in PROMOTION.items():
        x, y = flow.ones(2, dtype=getattr(flow, a), device=dev), flow.ones(2, dtype=getattr(flow, b), device=dev)
        for out in (x + y, y + x, x * y, flow.where(x > 0, x, y), flow.cat((x, y))):
            assert out.dtype == getattr(flow, want), (a, b, out.dtype)
    for dtype in ALL:  # numbers and 0-d tensors give their category only
        x = flow.ones(2, dtype=getattr(flow, dtype), device=dev)
        assert (x * 2.5).dtype == (x.dtype if dtype in FLOATS else flow.float32)
        assert (x * 2).dtype == (flow.int64 if dtype == "bool" else x.dtype)
        assert (x + flow.tensor(2.0, dtype=flow.float64, device=dev)).dtype == (x.dtype if dtype in FLOATS else flow.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_casts_out_of_range(dev, dtype):
    """Saturate, NaN gives 0 (docs/numerics.md, 2)."""
    x = tensor(dev, [NAN, INF, -INF, 300, -300, 2.9, -2.9, -0.5], dtype)
    for to in INTS:
        info = np.iinfo(to)
        want = [0, info.max, info.min, min(300, info.max), max(-300, info.min), 2, max(-2, info.min), 0]
        assert_equal(x.to(getattr(flow, to)), want, to)


# ---- nothing, and single numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL)
def test_reductions_of_nothing(dev, dtype):
    filled = [flow.full((n,), 7, dtype=flow.float32, device=dev) for n in (1, 4, 64, 1000) for _ in range(4)]
    del filled
    for shape, dim in (((0,), 0), ((0, 3), 0), ((3, 0), 1), ((2, 0, 3), 1), ((0, 0), 1)):
        t = flow.zeros(*shape, dtype=getattr(flow, dtype), device=dev)
        rest = tuple(s for d, s in enumerate(shape) if d != dim)
        assert_equal(t.sum(dim=dim), np.zeros(rest))
        assert_equal(t.prod(dim=dim), np.ones(rest))
        assert_equal(flow.any(t, dim=dim), np.zeros(rest, bool))
        assert_equal(flow.all(t, dim=dim), np.ones(rest, bool))
        if dtype in FLOATS:
            assert_equal(t.mean(dim=dim), np.full(rest, NAN))
            assert_equal(t.var(dim=dim), np.full(rest, NAN))
            assert_equal(flow.logsumexp(t, dim), np.full(rest, -INF))
        if 0 not in rest:
            for f in (flow.amax, flow.amin, flow.argmax, flow.argmin, flow.max, flow.min):
                refuses(f.__name__, lambda f=f, t=t, dim=dim: f(t, dim=dim))
        assert tuple(flow.cumsum(t, dim=dim).shape) == shape and tuple(flow.sort(t, dim=dim)[0].shape) == shape
    t = flow.zeros(0, 3, dtype=getattr(flow, dtype), device=dev)
    assert tuple(t.sum(dim=1).shape) == (0,) and tuple(t.amax(dim=1).shape) == (0,) and tuple(t.argmax(dim=1).shape) == (0,)


@pytest.mark.parametrize("dtype", ALL)
def test_ops_on_nothing(dev, dtype):
    kind = {"dtype": getattr(flow, dtype), "device": dev}
    e, x = flow.zeros(0, **kind), flow.ones(4, **kind)
    assert (
        tuple((e + e).shape) == (0,) and tuple((e * 1 > 0).shape) == (0,) and tuple(flow.zeros(0, 1, **kind).expand(0, 5).shape) == (0, 5)
    )
    assert tuple((flow.zeros(3, 0, **kind) | flow.zeros(1, 0, **kind)).shape) == (3, 0) if dtype not in FLOATS else True
    x[2:2] = 1
    x[flow.zeros(4, dtype=flow.bool, device=dev)] = 0
    x[flow.zeros(0, dtype=flow.int64, device=dev)] = 0
    assert_equal(x, np.ones(4))
    assert tuple(x[[]].shape) == (0,) and e.tolist() == [] and tuple(e.clone().shape) == (0,) and tuple(e.to(flow.float64).shape) == (0,)
    assert_equal(flow.cat((e, x, e)), np.ones(4))
    assert_equal(flow.cat((e, x.reshape(2, 2)), dim=1), np.ones((2, 2)), "the old empty tensor is nothing")
    if dtype != "bool":
        assert_equal(flow.matmul(flow.zeros(2, 0, **kind), flow.zeros(0, 3, **kind)), np.zeros((2, 3)), "K = 0")
        assert tuple(flow.matmul(flow.zeros(0, 2, **kind), flow.zeros(2, 3, **kind)).shape) == (0, 3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_networks_on_nothing(dev, dtype):
    kind = {"dtype": getattr(flow, dtype), "device": dev}
    x, w = flow.zeros(0, 3, 6, 6, requires_grad=True, **kind), flow.ones(4, 3, 3, 3, requires_grad=True, **kind)
    y = F.conv2d(x, w)
    assert tuple(y.shape) == (0, 4, 4, 4)
    y.sum().backward()
    assert tuple(x.grad.shape) == (0, 3, 6, 6)
    assert_equal(w.grad, np.zeros((4, 3, 3, 3)))
    assert tuple(F.max_pool2d(x, 2).shape) == (0, 3, 3, 3) and tuple(F.layer_norm(x, (6,)).shape) == (0, 3, 6, 6)
    assert tuple(F.linear(flow.zeros(0, 3, **kind), flow.ones(5, 3, **kind)).shape) == (0, 5)
    assert tuple(flow.softmax(flow.zeros(0, 3, **kind), dim=1).shape) == (0, 3)
    assert math.isnan(F.mse_loss(flow.zeros(0, **kind), flow.zeros(0, **kind)).item())


@pytest.mark.parametrize("dtype", ALL)
def test_single_numbers(dev, dtype):
    s = flow.ones((), dtype=getattr(flow, dtype), device=dev)
    assert tuple(s.shape) == () and s.item() == 1 and tuple(s.reshape(1, 1).shape) == (1, 1)
    for f in (flow.sum, flow.prod, flow.amax, flow.argmax, flow.any, flow.all):
        assert tuple(f(s).shape) == () and tuple(f(s, dim=0).shape) == () and tuple(f(s, dim=-1).shape) == ()
    assert tuple((s + flow.ones(3, device=dev)).shape) == (3,) and tuple(flow.stack((s, s)).shape) == (2,)
    assert tuple(flow.cumsum(s, dim=0).shape) == () and tuple(flow.sort(s, dim=0)[0].shape) == ()
    refuses("cat of single numbers", lambda: flow.cat((s, s)))
    refuses("len", lambda: len(s))
    s += s.new_zeros(())
    assert s.item() == 1
