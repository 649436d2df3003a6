"""Functions made of ops of the table, against numpy; their gradients by gradcheck."""

from __future__ import annotations

import numpy as np
import pytest

import oneflow_mini as flow
from oneflow_mini import nn
from oneflow_mini.autograd.gradcheck import gradcheck, gradgradcheck
from oneflow_mini.nn import functional as F

R = np.random.default_rng(1)
A, B, C = R.uniform(-2, 2, (3, 4)), R.uniform(-2, 2, (3, 4)), R.uniform(-2, 2, (4, 5))
V, W = R.uniform(-2, 2, 4), R.uniform(-2, 2, 4)
T3, U3 = R.uniform(-2, 2, (2, 3, 4)), R.uniform(-2, 2, (2, 4, 5))


def tensors(*arrays):
    return [flow.tensor(a, dtype=flow.float64, requires_grad=True) for a in arrays]


#: name: (function of tensors, function of arrays, arrays)
SMOOTH = {
    "addcmul": (lambda a, b: flow.addcmul(a, a, b, value=0.5), lambda a, b: a + 0.5 * a * b, (A, B)),
    "addcdiv": (lambda a, b: flow.addcdiv(a, a, b + 5, value=2), lambda a, b: a + 2 * a / (b + 5), (A, B)),
    "lerp": (lambda a, b: flow.lerp(a, b, 0.25), lambda a, b: a + 0.25 * (b - a), (A, B)),
    "hypot": (flow.hypot, np.hypot, (A, B)),
    "logaddexp": (flow.logaddexp, np.logaddexp, (A, B)),
    "xlogy": (lambda a, b: flow.xlogy(a, b + 3), lambda a, b: a * np.log(b + 3), (A, B)),
    "copysign": (flow.copysign, np.copysign, (A, B)),
    "deg2rad": (flow.deg2rad, np.deg2rad, (A,)),
    "frac": (flow.frac, lambda a: a - np.trunc(a), (A,)),
    "dot": (flow.dot, np.dot, (V, W)),
    "mv": (flow.mv, np.dot, (A, V)),
    "outer": (flow.outer, np.outer, (V, W)),
    "inner": (flow.inner, np.inner, (A, B)),
    "tensordot": (lambda a, b: flow.tensordot(a, b, dims=([1, 2], [0, 1])), lambda a, b: np.tensordot(a, b, ([1, 2], [0, 1])), (T3, U3.transpose(1, 2, 0)[:3].transpose(0, 2, 1)[:, :2].repeat(2, 1))),
    "addmm": (lambda a, b, c: flow.addmm(c, a, b, beta=0.5, alpha=2), lambda a, b, c: 0.5 * c + 2 * a @ b, (A, C, R.uniform(-1, 1, (3, 5)))),
    "baddbmm": (lambda a, b, c: flow.baddbmm(c, a, b), lambda a, b, c: c + a @ b, (T3, U3, R.uniform(-1, 1, (2, 3, 5)))),
    "cross": (lambda a, b: flow.cross(a, b, dim=0), lambda a, b: np.cross(a, b, axis=0), (A, B)),
    "logsumexp": (lambda a: flow.logsumexp(a, (0, 2)), lambda a: np.log(np.exp(a).sum((0, 2))), (T3,)),
    "trace": (flow.trace, np.trace, (A,)),
    "dist": (flow.dist, lambda a, b: np.linalg.norm(a - b), (A, B)),
    "einsum": (lambda a, b: flow.einsum("bij,bjk->kbi", a, b), lambda a, b: np.einsum("bij,bjk->kbi", a, b), (T3, U3)),
    "movedim": (lambda a: flow.movedim(a, (0, 1), (2, 0)), lambda a: np.moveaxis(a, (0, 1), (2, 0)), (T3,)),
    "unflatten": (lambda a: a.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2), (T3,)),
    "roll": (lambda a: a.roll((1, -2), (0, 2)), lambda a: np.roll(a, (1, -2), (0, 2)), (T3,)),
    "rot90": (lambda a: flow.rot90(a, 3, (0, 1)), lambda a: np.rot90(a, 3), (A,)),
    "repeat": (lambda a: a.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3)), (A,)),
    "tile": (lambda a: flow.tile(a, (2,)), lambda a: np.tile(a, 2), (A,)),
    "repeat_interleave": (lambda a: a.repeat_interleave(3, 1), lambda a: np.repeat(a, 3, 1), (A,)),
    "repeat each": (lambda a: a.repeat_interleave(flow.tensor([0, 2, 1]), 0), lambda a: np.repeat(a, [0, 2, 1], 0), (A,)),
    "diagonal": (lambda a: flow.diagonal(a, -1, 0, 2), lambda a: np.diagonal(a, -1, 0, 2), (T3,)),
    "diag": (lambda v: flow.diag(v, -2), lambda v: np.diag(v, -2), (V,)),
    "diag of a matrix": (lambda a: flow.diag(a, 1), lambda a: np.diag(a, 1), (A,)),
    "block_diag": (lambda a, c: flow.block_diag(a, c), lambda a, c: np.block([[a, np.zeros((3, 5))], [np.zeros((4, 4)), c]]), (A, C)),
    "hstack": (lambda a, b: flow.hstack((a, b)), lambda a, b: np.hstack((a, b)), (A, B)),
    "vstack": (lambda a, b: flow.vstack((a, b)), lambda a, b: np.vstack((a, b)), (V, W)),
    "dstack": (lambda a, b: flow.dstack((a, b)), lambda a, b: np.dstack((a, b)), (A, B)),
    "column_stack": (lambda a, b: flow.column_stack((a, b)), lambda a, b: np.column_stack((a, b)), (V, W)),
    "index_fill": (lambda a: a.index_fill(1, flow.tensor([0, 2]), 7.0), lambda a: np.where([1, 0, 1, 0], 7.0, a), (A,)),
    "index_copy": (lambda a, b: a.index_copy(0, flow.tensor([2, 0]), b[:2]), lambda a, b: np.stack((b[1], a[1], b[0])), (A, B)),
    "masked_scatter": (lambda a, b: a.masked_scatter(flow.tensor([True, False, True, False]), b), lambda a, b: np.stack([np.stack((b.ravel()[2 * i], a[i, 1], b.ravel()[2 * i + 1], a[i, 3])) for i in range(3)]), (A, B)),
    "diff": (lambda a: flow.diff(a, 2), lambda a: np.diff(a, 2), (A,)),
    "unfold": (lambda a: a.unfold(1, 2, 1), lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 1), (A,)),
    "celu": (lambda a: F.celu(a, 1.5), lambda a: np.where(a > 0, a, 1.5 * np.expm1(a / 1.5)), (A,)),
    "selu": (F.selu, lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a)), (A,)),
    "hardswish": (F.hardswish, lambda a: a * np.clip(a + 3, 0, 6) / 6, (A,)),
    "softsign": (F.softsign, lambda a: a / (1 + np.abs(a)), (A,)),
    "softshrink": (F.softshrink, lambda a: np.sign(a) * np.maximum(np.abs(a) - 0.5, 0), (A,)),
    "hardshrink": (F.hardshrink, lambda a: np.where(np.abs(a) > 0.5, a, 0), (A,)),
    "tanhshrink": (F.tanhshrink, lambda a: a - np.tanh(a), (A,)),
    "threshold": (lambda a: F.threshold(a, 0.1, 3.0), lambda a: np.where(a > 0.1, a, 3.0), (A,)),
    "glu": (lambda a: F.glu(a, 1), lambda a: a[:, :2] / (1 + np.exp(-a[:, 2:])), (A,)),
    "prelu": (lambda a, w: F.prelu(a, w), lambda a, w: np.where(a > 0, a, a * w), (A, V)),
    "softmin": (lambda a: F.softmin(a, 1), lambda a: np.exp(-a) / np.exp(-a).sum(1, keepdims=True), (A,)),
    "rms_norm": (lambda a, w: F.rms_norm(a, (4,), w, 1e-3), lambda a, w: a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-3) * w, (A, V)),
    "cosine_similarity": (F.cosine_similarity, lambda a, b: (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1), (A, B)),
    "pairwise_distance": (F.pairwise_distance, lambda a, b: np.linalg.norm(a - b + 1e-6, axis=1), (A, B)),
    "soft_margin_loss": (lambda a: F.soft_margin_loss(a, flow.ones(3, 4, dtype=flow.float64)), lambda a: np.log1p(np.exp(-a)).mean(), (A,)),
    "pixel_shuffle": (lambda a: F.pixel_shuffle(a, 2), lambda a: a.reshape(1, 2, 2, 3, 4).transpose(0, 3, 1, 4, 2).reshape(1, 6, 8), (R.uniform(-1, 1, (4, 3, 4)),)),
    "pixel_unshuffle": (lambda a: F.pixel_unshuffle(F.pixel_shuffle(a, 2), 2), lambda a: a, (R.uniform(-1, 1, (4, 3, 4)),)),
    "channel_shuffle": (lambda a: F.channel_shuffle(a, 2), lambda a: a[:, [0, 2, 1, 3]], (R.uniform(-1, 1, (2, 4, 3)),)),
    "max_pool1d": (lambda a: F.max_pool1d(a, 2), lambda a: a.reshape(2, 3, 2, 2).max(3), (T3,)),
    "avg_pool1d": (lambda a: F.avg_pool1d(a, 2), lambda a: a.reshape(2, 3, 2, 2).mean(3), (T3,)),
    "adaptive_avg_pool1d": (lambda a: F.adaptive_avg_pool1d(a, 2), lambda a: a.reshape(2, 3, 2, 2).mean(3), (T3,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name):
    function, by_numpy, arrays = SMOOTH[name]
    inputs = tensors(*arrays)
    want = by_numpy(*arrays)
    got = function(*inputs)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12, atol=1e-13)
    assert got.shape == np.shape(want)
    assert gradcheck(function, tuple(inputs)) and gradgradcheck(function, tuple(inputs))


@pytest.mark.parametrize(
    "equation,shapes",
    [
        ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]), ("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("i,i", [(4,), (4,)]), ("i,j->ij", [(3,), (4,)]),
        ("ij,jk", [(3, 4), (4, 5)]), ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]), ("...ij,jk", [(6, 2, 3, 4), (4, 5)]),
        ("bhld,bhsd->bhls", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]), ("ab,ab->ab", [(2, 3), (2, 3)]),
        ("ij,kl->", [(2, 3), (4, 5)]), ("iij,j->i", [(3, 3, 4), (4,)]), ("bn,anm,bm->ba", [(2, 5), (3, 5, 4), (2, 4)]), ("a...,b...->ab...", [(2, 3), (4, 3)]),
    ],
)  # fmt: skip
def test_einsum(equation, shapes):
    arrays = [np.random.default_rng(k).integers(-4, 5, s).astype(np.float64) for k, s in enumerate(shapes)]
    got = flow.einsum(equation, *[flow.tensor(a, dtype=flow.float64) for a in arrays])
    want = np.einsum(equation, *arrays)
    assert got.shape == want.shape and (got.numpy() == want).all()


@pytest.mark.parametrize("bad", ["ij", "ij,jk->iz", "i-,jk", "ij,jk->ii", "ijk,jk", "ij,jk,kl"])
def test_einsum_refuses(bad):
    with pytest.raises(ValueError, match="einsum"):
        flow.einsum(bad, flow.ones(2, 3), flow.ones(3, 4))


def test_counting_and_order():
    x = np.array([3, 1, 2, 3, 3, 1, 0])
    t = flow.tensor(x)
    values, inverse, counts = flow.unique(t, return_inverse=True, return_counts=True)
    want = np.unique(x, return_inverse=True, return_counts=True)
    for got, w in zip((values, inverse, counts), want, strict=True):
        assert got.tolist() == w.tolist()
    assert flow.unique(flow.zeros(0)).shape == (0,) and flow.unique(flow.ones(3, 3)).tolist() == [1.0]
    assert flow.bincount(t, minlength=6).tolist() == np.bincount(x, minlength=6).tolist()
    assert flow.bincount(t, flow.arange(7.0)).tolist() == np.bincount(x, np.arange(7.0)).tolist()
    assert flow.count_nonzero(t).item() == 6 and flow.count_nonzero(t.reshape(1, 7), 0).tolist() == [1, 1, 1, 1, 1, 1, 0]
    edges = np.array([1.0, 2.0, 2.0, 5.0])
    at = np.array([[0.0, 1.0, 2.0], [3.0, 5.0, 9.0]])
    for right in (False, True):
        got = flow.searchsorted(flow.tensor(edges), flow.tensor(at), right=right)
        assert got.tolist() == np.searchsorted(edges, at, "right" if right else "left").tolist()
    v = np.array([[5.0, 1, 4, 2], [7.0, 7, 7, 7], [np.nan, 0, 1, 2]])
    f = flow.tensor(v, dtype=flow.float64)
    values, index = f.median(dim=1)
    assert values.tolist()[:2] == [2, 7] and np.isnan(values[2].item()) and index.tolist() == [3, 1, 0]
    assert np.isnan(f.median().item()) and f[:2].median().item() == 5
    values, index = f[:2].kthvalue(2, 1)
    assert values.tolist() == [2, 7] and index.tolist() == [3, 1]
    low, high = flow.aminmax(f[:2], dim=1)
    assert low.tolist() == [1, 7] and high.tolist() == [5, 7]
    var, mean = flow.var_mean(f[:2], 1)
    np.testing.assert_allclose(var.numpy(), v[:2].var(1, ddof=1)), np.testing.assert_allclose(mean.numpy(), v[:2].mean(1))


def test_corners_of_formulas():
    inf, nan = float("inf"), float("nan")
    x = flow.tensor([nan, inf, -inf, 1.0, -0.0, 0.0])
    assert (
        flow.nan_to_num(x, 5.0, 6.0, -7.0).tolist() == [5, 6, -7, 1, 0, 0] and flow.nan_to_num(x)[1].item() == flow.finfo(flow.float32).max
    )
    assert flow.signbit(x)[1:].tolist() == [False, True, False, True, False]
    assert flow.isposinf(x).tolist() == [False, True, False, False, False, False] and flow.isneginf(x)[2].item()
    assert flow.hypot(flow.tensor([3e38, 0.0, inf, nan]), flow.tensor([3e38, 0.0, nan, 1.0])).tolist()[:3] == [inf, 0.0, inf]
    assert flow.hypot(flow.tensor([2e38]), flow.tensor([1e38])).isfinite().all()
    assert flow.logaddexp(flow.tensor([-inf, inf, 1000.0]), flow.tensor([-inf, inf, 0.0])).tolist() == [-inf, inf, 1000.0]
    assert flow.xlogy(flow.tensor([0.0, 0.0]), flow.tensor([0.0, 2.0])).tolist() == [0, 0]
    assert flow.heaviside(flow.tensor([-1.0, 0.0, 2.0]), flow.tensor(0.5)).tolist() == [0, 0.5, 1]
    assert flow.logsumexp(flow.tensor([[-inf, -inf], [inf, 1.0], [1000.0, 1000.0]]), 1).tolist()[:2] == [-inf, inf]
    assert flow.addmm(flow.full((1, 1), nan), flow.ones(1, 1), flow.ones(1, 1), beta=0).item() == 1
    assert flow.lerp(flow.tensor([1.0]), flow.tensor([3.0]), flow.tensor([0.5])).item() == 2


def test_views_are_views():
    t = flow.zeros(3, 4)
    t.diagonal().fill_(1)
    t.unfold(1, 2, 2)[:, 0, 1] = 5
    t.movedim(0, 1)[3] = 7
    assert t.tolist() == [[1, 5, 0, 7], [0, 5, 0, 7], [0, 5, 1, 7]]
    t.fill_diagonal_(9)
    assert t.diagonal(0).tolist() == [9, 9, 9] and flow.tril_indices(2, 3).tolist() == [[0, 1, 1], [0, 0, 1]]


def test_in_place_forms():
    x = flow.tensor([1.0, -2.0], requires_grad=True)
    y = x * 1
    y.addcmul_(x, x, value=2).lerp_(x, 0.5).clamp_min_(-5)
    y.sum().backward()
    assert y.tolist() == [2.0, 2.0] and x.grad.tolist() == [3.0, -3.0]
    t = flow.zeros(2, 3)
    t.index_fill_(1, flow.tensor([1]), 4).masked_scatter_(flow.tensor([True, False, False]), flow.tensor([8.0, 9.0])).cumsum_(1)
    assert t.tolist() == [[8, 12, 12], [9, 13, 13]]
    assert (flow.tensor([1, 2]) << 3).tolist() == [8, 16] and (flow.tensor([-16, 9]) >> 2).tolist() == [-4, 2]


def test_modules_of_functions():
    x = flow.randn(2, 4, 6)
    for module in (nn.SELU(), nn.CELU(2.0), nn.Hardswish(), nn.Hardsigmoid(), nn.Softsign(), nn.Tanhshrink(), nn.Softshrink(0.3), nn.Hardshrink(0.3),
                   nn.Threshold(0.1, 2.0), nn.PReLU(4), nn.Dropout1d().eval(), nn.InstanceNorm1d(4), nn.RMSNorm(6), nn.ConstantPad1d((0, 0), 3.0)):  # fmt: skip
        assert module(x).shape == x.shape and repr(module).startswith(type(module).__name__)
    assert (
        nn.GLU()(x).shape == (2, 4, 3)
        and nn.Softmin(dim=1)(x).sum(dim=1).allclose(flow.ones(2, 6))
        and nn.MaxPool1d(2)(x).shape == (2, 4, 3)
    )
    assert nn.Upsample(scale_factor=2)(x).shape == (2, 4, 12) and nn.ZeroPad2d((1, 2, 0, 1))(x).shape == (2, 5, 9)
    assert (
        nn.AvgPool1d(3)(x).shape == (2, 4, 2)
        and nn.AdaptiveAvgPool1d(2)(x[0]).shape == (4, 2)
        and nn.BatchNorm3d(4)(flow.randn(2, 4, 2, 2, 2)).shape == (2, 4, 2, 2, 2)
    )
    with pytest.raises(TypeError, match="unexpected argument"):
        nn.CELU(beta=1)
    with pytest.raises(TypeError, match="missing argument"):
        nn.Threshold(1.0)
    w = nn.init.dirac_(flow.empty(4, 2, 3, 3), 2)
    y = F.conv2d(flow.randn(1, 4, 5, 5, dtype=flow.float32), w, padding=1, groups=2)
    assert y.shape == (1, 4, 5, 5) and w.sum().item() == 4


def test_schedules():
    def rates(make, n):
        o = flow.optim.SGD([flow.ones(1, requires_grad=True)], lr=1.0)
        s = make(o)
        out = []
        for _ in range(n):
            out.append(o.param_groups[0]["lr"])
            o.step()
            s.step()
        return out

    L = flow.optim.lr_scheduler
    np.testing.assert_allclose(rates(lambda o: L.PolynomialLR(o, 4, 2.0), 6), [1, 9 / 16, 4 / 16, 1 / 16, 0, 0])
    want = [(1 + np.cos(np.pi * t / p)) / 2 for p in (2, 4) for t in range(p)]
    np.testing.assert_allclose(rates(lambda o: L.CosineAnnealingWarmRestarts(o, 2, 2), 6), want, atol=1e-15)
    np.testing.assert_allclose(
        rates(lambda o: L.ChainedScheduler([L.ExponentialLR(o, 0.5), L.StepLR(o, 2, 0.1)]), 4), [1, 0.5, 0.025, 0.0125]
    )
