"""The kinds "autograd" and "nn"."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cases_gradients import cross_entropy_by_hand
from kit import FLOATS, array, assert_close, assert_equal, right_or_refused, tensor, wide

import oneflow_mini as flow
from oneflow_mini.autograd.gradcheck import gradcheck, gradgradcheck
from oneflow_mini.nn import functional as F

# ---- autograd ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("zeros", [0, 1, 2, 5])
def test_prod_with_zeros(dev, zeros, dtype):
    x = np.random.default_rng(zeros).choice([1.0, 2.0, -1.0, 0.5], (3, 5, 4))
    for k in range(zeros):
        x[:, k] = 0
    for dim in (None, 0, 1, 2):
        t = tensor(dev, x, dtype, grad=True)
        (t.prod() if dim is None else t.prod(dim=dim).sum()).backward()
        lines = x.reshape(-1, 1) if dim is None else x
        axis = 0 if dim is None else dim
        want = np.empty_like(lines)
        for i in range(lines.shape[axis]):
            place = [slice(None)] * lines.ndim
            place[axis] = i
            want[tuple(place)] = np.delete(lines, i, axis).prod(axis)
        assert_equal(t.grad, want.reshape(x.shape), f"{dim}")


SAVING = {  # op → what it saves, as a list of what may be written to
    "mul": (lambda a, b: a * b, "ab"),
    "div": (lambda a, b: a / b, "ab"),
    "pow": (lambda a, b: a**b, "aby"),
    "matmul": (lambda a, b: flow.matmul(a, b), "ab"),
    "exp": (lambda a, b: flow.exp(a), "ay"),
    "tanh": (lambda a, b: flow.tanh(a), "ay"),
    "sqrt": (lambda a, b: flow.sqrt(a), "ay"),
    "log": (lambda a, b: flow.log(a), "a"),
    "softmax": (lambda a, b: flow.softmax(a, dim=1), "ay"),
    "layer_norm": (lambda a, b: F.layer_norm(a, (3,), b[0], b[1]), "ab"),
    "maximum": (lambda a, b: flow.maximum(a, b), "ab"),
    "gelu": (lambda a, b: F.gelu(a), "a"),
    "prod": (lambda a, b: a.prod(dim=1), "ay"),
    "clamp": (lambda a, b: a.clamp(0.6, 1.2), "a"),
    "where": (lambda a, b: flow.where(a > 1, a, b), ""),
    "linear": (lambda a, b: F.linear(a, b), "ab"),
    "conv1d": (lambda a, b: F.conv1d(a.unsqueeze(0), b.unsqueeze(2)), "ab"),
    "cross_entropy": (lambda a, b: F.cross_entropy(a, flow.tensor([0, 1, 2], device=a.device)), "a"),
    "sum": (lambda a, b: a.sum(dim=0), ""),
}
WRITES = {
    "add_": lambda t: t.add_(1),
    "view": lambda t: t.view(-1).mul_(2),
    "slice": lambda t: t[0:1].zero_(),
    "transpose": lambda t: t.transpose(0, -1).add_(3) if t.ndim > 1 else t.add_(3),
    "setitem": lambda t: t.__setitem__(0, 5.0),
    "detached": lambda t: t.detach().mul_(4),
    "no_grad": lambda t: _quietly(t),
}


def _quietly(t):
    with flow.no_grad():
        t.copy_(t * 3)


@pytest.mark.parametrize("op", SAVING)
@pytest.mark.parametrize("write", WRITES)
def test_saved_tensors_changed_in_place(dev, op, write):
    """Refused at backward (or at once), or the gradients of the values that the op saw; never a silent third."""
    function, saved = SAVING[op]
    start = np.random.default_rng(5).uniform(0.5, 1.5, (2, 3, 3)).astype(np.float32)

    def gradients(change):
        leaves = [tensor(dev, s, grad=True) for s in start]
        a, b = (leaf * 1.0 for leaf in leaves)
        y = function(a, b)
        z = (y * 2.0).sum() if "y" not in saved else y.sum()
        if change is not None:
            WRITES[write]({"a": a, "b": b, "y": y}[change])
        z.backward()
        return flow.cat([leaf.grad.reshape(-1) for leaf in leaves if leaf.grad is not None])

    want = array(gradients(None))
    for change in "aby":
        if change in "ab" or "y" in saved:
            right_or_refused(f"{op}: {write} of {change}", lambda change=change: gradients(change), want)


@pytest.mark.parametrize("uses", [1, 2, 3, 7, 8, 9, 63, 64, 65, 257, 1000])
def test_many_uses(dev, uses):
    w = tensor(dev, [2.0, -1.0], grad=True)
    flow.stack([w * float(k + 1) for k in range(uses)]).sum().backward()
    assert_equal(w.grad, np.full(2, uses * (uses + 1) / 2))
    w = tensor(dev, [1.0], grad=True)
    sum((w.expand(3) for _ in range(uses)), start=flow.zeros(3, device=dev)).sum().backward()
    assert_equal(w.grad, [3.0 * uses])
    w = tensor(dev, [1.0], grad=True)
    for _ in range(min(uses, 20)):
        (w * w).backward()
    assert_equal(w.grad, [2.0 * min(uses, 20)])


def test_a_deep_graph_is_freed_and_differentiated(dev):
    w = tensor(dev, [1.0], grad=True)
    y = w
    for _ in range(50_000):
        y = y + w
    y.backward()
    assert_equal(w.grad, [50_001.0])
    y = w
    for _ in range(50_000):
        y = y + w
    del y  # without a backward: no recursion through the nodes either


@pytest.mark.parametrize("dtype", FLOATS)
def test_ties_share_one_gradient(dev, dtype):
    """maximum, minimum, max, min, amax, clamp at its bounds, max_pool, median, sort, topk."""
    same = [2.0, 2.0, 2.0]
    for f in (flow.maximum, flow.minimum):
        a, b = tensor(dev, same, dtype, grad=True), tensor(dev, same, dtype, grad=True)
        f(a, b).sum().backward()
        assert_equal(wide(a.grad) + wide(b.grad), [1, 1, 1], f.__name__)
    for name, f in {
        "max": lambda t: t.max(), "min": lambda t: t.min(), "amax": lambda t: t.amax(dim=0), "max dim": lambda t: t.max(dim=0)[0],
        "min dim": lambda t: t.min(dim=0)[0], "topk": lambda t: flow.topk(t, 1)[0].sum(), "median": lambda t: t.median(),
        "pool": lambda t: F.max_pool1d(t.reshape(1, 1, 3), 3).sum(), "sort": lambda t: flow.sort(t)[0][1],
    }.items():  # fmt: skip
        t = tensor(dev, same, dtype, grad=True)
        f(t).backward()
        g = wide(t.grad)
        assert abs(g.sum() - 1) < 1e-2 and (g >= 0).all(), (name, g)
    t = tensor(dev, [0.0, 1.0, 2.0, -1.0], dtype, grad=True)
    t.clamp(0.0, 1.0).sum().backward()
    g = wide(t.grad)
    assert ((g >= 0) & (g <= 1)).all() and g[2] == g[3] == 0, g


# ---- convolutions ---------------------------------------------------------------------------------------------------------------------


def conv_by_hand(x, w, stride, padding, dilation, groups):
    """Float64, and a function from the output's gradient to the gradients of x and w."""
    (n, _, h, _), (o, cg, kh, kw) = x.shape, w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    size = [(padded.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    y, og = np.zeros((n, o, *size)), o // groups

    def window(a, i, j):
        return a[:, :, i * dilation[0] :: stride[0], j * dilation[1] :: stride[1]][:, :, : size[0], : size[1]]

    for g, i, j in itertools.product(range(groups), range(kh), range(kw)):
        part = window(padded[:, g * cg : (g + 1) * cg], i, j)
        y[:, g * og : (g + 1) * og] += np.einsum("nchw,oc->nohw", part, w[g * og : (g + 1) * og, :, i, j])

    def backward(gy):
        gx, gw = np.zeros_like(padded), np.zeros_like(w)
        for g, i, j in itertools.product(range(groups), range(kh), range(kw)):
            cs, os = slice(g * cg, (g + 1) * cg), slice(g * og, (g + 1) * og)
            window(gx[:, cs], i, j)[...] += np.einsum("nohw,oc->nchw", gy[:, os], w[os, :, i, j])
            gw[os, :, i, j] = np.einsum("nohw,nchw->oc", gy[:, os], window(padded[:, cs], i, j))
        return gx[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + x.shape[3]], gw

    return y, backward


CONVOLUTIONS = [
    (stride, padding, dilation, groups, kernel)
    for stride, padding, dilation in itertools.product(((1, 1), (2, 3), (3, 2)), ((0, 0), (1, 2), (2, 0)), ((1, 1), (2, 1), (1, 3)))
    for groups, kernel in ((1, (3, 2)), (2, (1, 3)), (6, (2, 2)))
]


@pytest.mark.parametrize("size", [(9, 10), (12, 11)])
def test_convolution_gradients_where_pixels_are_left_over(dev, size):
    r = np.random.default_rng(1)
    for stride, padding, dilation, groups, kernel in CONVOLUTIONS:
        x = r.integers(-3, 4, (2, 6, *size)).astype(np.float32)
        w = r.integers(-2, 3, (12 // (2 if groups == 2 else 1), 6 // groups, *kernel)).astype(np.float32)
        want, backward = conv_by_hand(x.astype(np.float64), w.astype(np.float64), stride, padding, dilation, groups)
        a, b = tensor(dev, x, grad=True), tensor(dev, w, grad=True)
        y = F.conv2d(a, b, None, stride, padding, dilation, groups)
        g = r.integers(-3, 4, want.shape).astype(np.float32)
        y.backward(tensor(dev, g))
        gx, gw = backward(g.astype(np.float64))
        what = f"stride {stride}, padding {padding}, dilation {dilation}, groups {groups}, kernel {kernel}"
        assert_equal(y, want, what)
        assert_equal(a.grad, gx, what)
        assert_equal(b.grad, gw, what)
        # the transposed convolution is the same gather
        if all(s < st for s, st in zip((0, 0), stride, strict=True)):
            rest = [size[i] - ((want.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1) for i in range(2)]
            t = F.conv_transpose2d(tensor(dev, g), b.detach(), None, stride, padding, tuple(rest), groups, dilation)
            assert_equal(t, gx, f"transposed, {what}")


@pytest.mark.parametrize("dtype", ["float64"])
def test_transposed_convolution_gradients(dev, dtype):
    r = np.random.default_rng(2)
    x, w, b = (tensor(dev, r.uniform(-1, 1, s), dtype, grad=True) for s in ((2, 4, 3, 2), (4, 3, 2, 3), (6,)))
    f = lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 1), (1, 0), (1, 0), 2, (1, 2))
    assert gradcheck(f, (x, w, b)) and gradgradcheck(f, (x, w, b))
    line = lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 2)
    assert gradcheck(line, (x[:, :, :, 0].detach().requires_grad_(), w[:, :, 0].detach().requires_grad_()))
    for bad in ({"output_padding": 2, "stride": 2}, {"padding": 9}, {"groups": 3}):
        with pytest.raises(ValueError, match="conv_transpose2d"):
            F.conv_transpose2d(x, w, **bad)


def test_transposed_convolution_modules(dev):
    for module, shape in (
        (flow.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 5, 7)),
        (flow.nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, dilation=2), (2, 4, 7)),
    ):
        x = flow.randn(*shape, device=dev)
        y = module.to(dev)(x)
        assert module(x[0]).shape == y.shape[1:] and y.shape[1] == 6
        y.sum().backward()
        assert module.weight.grad.shape == module.weight.shape and module.bias.grad.shape == (6,)


# ---- pooling ----------------------------------------------------------------------------------------------------------------------------


def pool_by_hand(x, kernel, stride, padding, ceil_mode, reduce, pad_counts):
    """Windows by the documented rule: each starts inside the input or its left padding."""
    h, out = x.shape, []
    for i in range(2):
        room = h[i] + 2 * padding - kernel
        n = (-(-room // stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (n - 1) * stride >= h[i] + padding:
            n -= 1
        out.append(n)
    y = np.zeros(out)
    for a, b in np.ndindex(*out):
        low = [a * stride - padding, b * stride - padding]
        high = [min(v + kernel, h[i] + padding) for i, v in enumerate(low)]
        part = x[max(low[0], 0) : min(high[0], h[0]), max(low[1], 0) : min(high[1], h[1])]
        if reduce == "max":
            y[a, b] = part.max()
        else:
            y[a, b] = part.sum() / ((high[0] - low[0]) * (high[1] - low[1]) if pad_counts else part.size)
    return y


@pytest.mark.parametrize("dtype", FLOATS)
def test_pooling_windows(dev, dtype):
    r = np.random.default_rng(3)
    for size in ((6, 7), (5, 5), (17, 4)):
        x = r.integers(-8, 9, size).astype(np.float64)
        for kernel, stride, padding, ceil_mode in itertools.product((1, 2, 3), (1, 2, 3), (0, 1), (False, True)):
            if padding > kernel // 2:
                continue
            t = tensor(dev, x[None, None], dtype)
            want = pool_by_hand(x, kernel, stride, padding, ceil_mode, "max", True)
            what = f"{size} {kernel} {stride} {padding} {ceil_mode}"
            got, index = F.max_pool2d(t, kernel, stride, padding, ceil_mode=ceil_mode, return_indices=True)
            assert_equal(got[0, 0], want, what)
            assert_equal(x.ravel()[array(index)[0, 0]], want, f"indices {what}")
            for pad_counts in (False, True):
                want = pool_by_hand(x, kernel, stride, padding, ceil_mode, "mean", pad_counts)
                got = F.avg_pool2d(t, kernel, stride, padding, ceil_mode, pad_counts)
                assert_close(got[0, 0], want, 1e-2 if dtype in ("float16", "bfloat16") else 1e-6, 0, what)


# ---- normalization ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [1e-6, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("mean", [0.0, 1.0, 1000.0])
def test_small_variances_beside_large_means(dev, mean, spread, dtype):
    d = np.random.default_rng(4).standard_normal((8, 32)) * spread + mean
    t = tensor(dev, d, dtype)
    d = wide(t).astype(np.float64)
    var = d.var(1, keepdims=True)
    if var.min() == 0:
        pytest.skip("in this dtype all values are one")
    rounding = np.spacing(np.asarray(mean, dtype)).astype(np.float64) / np.sqrt(var.min())  # of the mean, against the deviations
    rtol = 2e-4 + rounding
    for eps in (1e-12, 1e-5):
        want = (d - d.mean(1, keepdims=True)) / np.sqrt(var + eps)
        scale = np.abs(want).max()
        assert_close(F.layer_norm(t, (32,), eps=eps), want, rtol, 2 * rtol * scale, "layer_norm")
        assert_close(F.group_norm(t.reshape(1, 8, 32), 8, eps=eps).reshape(8, 32), want, rtol, 2 * rtol * scale, "group_norm")
        assert_close(F.instance_norm(t.reshape(1, 8, 32), eps=eps).reshape(8, 32), want, rtol, 2 * rtol * scale, "instance_norm")
        got = F.batch_norm(t.transpose(0, 1), None, None, training=True, eps=eps).transpose(0, 1)
        assert_close(got, want, rtol, 2 * rtol * scale, "batch_norm")
    assert_close(t.var(dim=1), d.var(1, ddof=1), 2 * rtol, 0, "var")
    assert (array(t.var(dim=1)) >= 0).all()


# ---- losses -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ignored_targets(dev, weighted, smoothing, reduction):
    """Any ignore_index, also one that is a class; what is ignored has no loss, no weight and no gradient."""
    x = np.random.default_rng(6).standard_normal((6, 4)).astype(np.float32)
    weight = [0.5, 1.0, 2.0, 4.0] if weighted else None
    for ignored in (-100, -1, 0, 3, 99):
        targets = np.array([0, ignored, 2, 1, ignored, 3])
        t = tensor(dev, x, grad=True)
        got = F.cross_entropy(
            t, tensor(dev, targets, "int64"), None if weight is None else tensor(dev, weight), ignored, reduction, smoothing
        )
        assert_close(got, cross_entropy_by_hand(x, targets, weight, smoothing, ignored, reduction), 1e-5, 1e-6, f"{ignored}")
        got.sum().backward()
        assert (array(t.grad)[targets == ignored] == 0).all() and np.isfinite(array(t.grad)).all()
    for bad in (4, -2):
        with pytest.raises(IndexError, match=f"target out of range: got {bad}"):
            F.cross_entropy(tensor(dev, x), tensor(dev, np.full(6, bad), "int64")).item()


# ---- interpolation ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_nearest_reads_and_returns_to_one_place(dev, dtype):
    for (h, w), (oh, ow) in itertools.product(((4, 4), (5, 3), (1, 7), (10, 2)), ((1, 1), (3, 7), (8, 8), (4, 9))):
        rows, columns = np.arange(oh) * h // oh, np.arange(ow) * w // ow
        x = np.arange(h * w).reshape(h, w) % 100
        t = tensor(dev, x[None, None], dtype, grad=True)
        y = F.interpolate(t, size=(oh, ow))
        assert_equal(y[0, 0], x[rows][:, columns])
        y.sum().backward()
        want = np.zeros((h, w))
        np.add.at(want, np.ix_(rows, columns), 1)
        assert_equal(t.grad[0, 0], want, f"{(h, w)} to {(oh, ow)}")


@pytest.mark.parametrize("align_corners", [False, True])
def test_bilinear(dev, align_corners):
    def by_hand(x, out):
        for axis, n in enumerate(out):
            size = x.shape[axis]
            at = np.arange(n) * (size - 1) / max(1, n - 1) if align_corners else np.maximum(0, (np.arange(n) + 0.5) * size / n - 0.5)
            low = np.minimum(np.floor(at).astype(int), size - 1)
            part = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            x = x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, size - 1), axis) * part
        return x

    for size, out in (((4, 5), (8, 10)), ((7, 3), (3, 5)), ((2, 2), (5, 1)), ((5, 5), (5, 5))):
        x = np.random.default_rng(8).uniform(-1, 1, size)
        t = tensor(dev, x[None, None], "float64", grad=True)
        f = lambda t, out=out: F.interpolate(t, size=out, mode="bilinear", align_corners=align_corners)
        assert_close(f(t)[0, 0], by_hand(x, out), 1e-12, 1e-12, f"{size} to {out}")
        assert gradcheck(f, t) and gradgradcheck(f, t)
    line = tensor(dev, np.arange(4.0).reshape(1, 1, 4), "float64")
    got = F.interpolate(line, scale_factor=2.0, mode="linear", align_corners=align_corners)
    assert_close(got[0, 0], by_hand(np.arange(4.0), (8,)), 1e-12)
    for bad in ({"size": 3, "scale_factor": 2}, {}, {"size": 0}, {"size": 3, "mode": "cubic"}, {"scale_factor": -1}):
        with pytest.raises((ValueError, NotImplementedError), match="interpolate"):
            F.interpolate(line, **bad)
