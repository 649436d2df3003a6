"""Cases of gradients and networks, rebuilt from public reports; see cases_values.py."""

from __future__ import annotations

import numpy as np
from kit import array, assert_close, assert_equal, right_or_refused, tensor

import oneflow_mini as flow
from oneflow_mini.nn import functional as F


def case_33(dev: str) -> None:
    """tinygrad#17404, pytorch#82644: the gradient of prod as result / x is NaN at a zero. It is the product of the others."""
    for x, want in (([0, 2, 3], [6, 0, 0]), ([0, 0, 3], [0, 0, 0]), ([2, 3, 4], [12, 8, 6])):
        t = tensor(dev, np.array(x, np.float32), grad=True)
        t.prod().backward()
        assert_equal(t.grad, want, str(x))
    t = tensor(dev, [[2.0, 0, 4], [1, 2, 3], [0, 0, 5]], grad=True)
    t.prod(dim=1).sum().backward()
    assert_equal(t.grad, [[0, 8, 0], [6, 3, 2], [0, 0, 0]], "along a dimension")
    t = tensor(dev, [0.0], grad=True)
    t.prod(dim=0).backward()
    assert_equal(t.grad, [1], "of one element")


def case_36(dev: str) -> None:
    """pytorch#24413, pytorch#197887: what the graph had saved was changed in place, unnoticed: refused, or the old value counts."""

    def through_a_view():
        x = tensor(dev, [1.0, 2.0, 3.0], grad=True)
        y = x * 1.0
        z = (y * y).sum()
        y.view(3).add_(10)
        z.backward()
        return x.grad

    def the_output():
        x = tensor(dev, [0.0, 1.0], grad=True)
        y = flow.exp(x)
        z = y.sum()
        with flow.no_grad():
            y.mul_(2)
        z.backward()
        return x.grad

    def a_matmul_operand():
        w, x = tensor(dev, np.eye(2, dtype=np.float32), grad=True), tensor(dev, [[1.0, 2.0]])
        y = flow.matmul(x, w).sum()
        x[0] += 5
        y.backward()
        return w.grad

    right_or_refused("a view of a saved input", through_a_view, [2, 4, 6])
    right_or_refused("a saved output", the_output, np.exp([0.0, 1.0]))
    right_or_refused("a slice of a matmul's operand", a_matmul_operand, [[1, 1], [2, 2]])


def case_38(dev: str) -> None:
    """mxnet#17989: a parameter used more often than some number accumulated wrongly. 1 + … + n is exact."""
    for n in (5, 8, 12, 24, 100):
        w = tensor(dev, [2.0, -1.0], grad=True)
        y = w * 0.0
        for k in range(1, n + 1):
            y = y + w * float(k)
        y.sum().backward()
        assert_equal(w.grad, np.full(2, n * (n + 1) / 2), f"{n} uses")
        w, m = tensor(dev, [1.0], grad=True), min(n, 24)
        p = w
        for _ in range(m):
            p = p + w * w
        p.sum().backward()
        assert_equal(w.grad, [1 + 2.0 * m], f"{m} squares")


def case_40(dev: str) -> None:
    """pytorch#76522: at ties the winners together get one gradient, neither more nor less."""
    a, b = tensor(dev, [1.0, 2.0, 5.0], grad=True), tensor(dev, [1.0, 3.0, 4.0], grad=True)
    flow.maximum(a, b).sum().backward()
    assert_equal(array(a.grad) + array(b.grad), [1, 1, 1], "maximum")
    assert_equal(array(a.grad)[1:], [0, 1], "without a tie")
    x = np.array([1, 7, 7, 0, 7], np.float32)
    t = tensor(dev, x, grad=True)
    t.max().backward()
    g = array(t.grad)
    assert abs(g.sum() - 1) < 1e-6 and (g >= 0).all() and (g[x < 7] == 0).all(), g
    t = tensor(dev, np.stack((x, -x)), grad=True)
    t.max(dim=1)[0].sum().backward()
    assert_equal(array(t.grad).sum(1), [1, 1], "along a dimension")
    p = tensor(dev, np.ones((1, 1, 4, 4), np.float32), grad=True)
    F.max_pool2d(p, 2).sum().backward()
    want = np.zeros((1, 1, 4, 4))
    want[:, :, ::2, ::2] = 1
    assert_equal(p.grad, want, "max_pool2d: the first of each window")


def case_42(dev: str) -> None:
    """pytorch#25101, pytorch#15501: gradients of a convolution whose stride leaves border pixels unused."""
    x = tensor(dev, np.ones((1, 9, 32, 32), np.float32), grad=True)
    F.conv2d(x, tensor(dev, np.ones((3, 9, 5, 5), np.float32)), stride=3, padding=1).sum().backward()
    windows = np.zeros(34)  # over each pixel of the padded line
    for start in range(0, 30, 3):
        windows[start : start + 5] += 1
    windows = windows[1:33]
    assert windows[-1] == 0
    assert_equal(x.grad, np.broadcast_to(3 * np.outer(windows, windows), (1, 9, 32, 32)), "input")
    a, b = tensor(dev, [[[7.0, 3.0]], [[3.0, 2.0]]], grad=True), tensor(dev, [[[3.0, 6.0]], [[4.0, 2.0]]], grad=True)
    y = F.conv1d(a, b, padding=1, stride=2, dilation=2)
    assert_equal(y, [[[18], [6]], [[12], [4]]], "conv1d")
    y.sum().backward()
    assert_equal(b.grad, [[[0, 5]], [[0, 5]]], "conv1d weight")
    assert_equal(a.grad, [[[0, 8]], [[0, 8]]], "conv1d input")


def case_43(dev: str) -> None:
    """mxnet#11203: a transposed convolution with stride and dilation bunched its output. The middle scatters the kernel with gaps."""
    x = np.zeros((1, 1, 3, 3), np.float32)
    x[0, 0, 1, 1] = 1
    w = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    want = np.zeros((1, 1, 5, 5))
    want[..., ::2, ::2] = w
    assert_equal(F.conv_transpose2d(tensor(dev, x), tensor(dev, w), stride=2, padding=2, dilation=2), want)


def case_45(dev: str) -> None:
    """pytorch#45357, pytorch#36977, Paddle#51542: ceil_mode made windows wholly outside. A window starts inside the input or its left padding."""
    x = np.random.default_rng(46).standard_normal((1, 1, 6, 7)).astype(np.float32)
    for pool in (F.max_pool2d, F.avg_pool2d):
        assert_equal(pool(tensor(dev, x), 1, stride=2, ceil_mode=True), x[:, :, ::2, ::2], pool.__name__)
    y = array(F.avg_pool2d(tensor(dev, np.ones((1, 1, 17, 17), np.float32)), 2, stride=2, padding=1, ceil_mode=True))
    assert y.shape == (1, 1, 9, 9) and np.isfinite(y).all()
    square = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    want = [[[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]]
    assert_equal(F.max_pool2d(tensor(dev, square), 2, stride=2, ceil_mode=True), want, "partial windows count")


def case_47(dev: str) -> None:
    """pytorch#190491, tt-metal#45968: small variances lost, to a clamp or beside a large mean."""
    x = np.array([[-9.9e-4, -9.9e-4, 9.9e-4, 9.9e-4]], np.float32)
    assert_close(F.layer_norm(tensor(dev, x), (4,), eps=1e-12), [[-1, -1, 1, 1]], 1e-4)
    b = (5 + 0.1 * np.random.default_rng(47).standard_normal((64, 3))).astype(np.float32)
    d = b.astype(np.float64)
    assert_close(flow.nn.BatchNorm1d(3).to(dev)(tensor(dev, b)), (d - d.mean(0)) / np.sqrt(d.var(0) + 1e-5), 1e-3, 1e-3)
    assert_close(tensor(dev, np.array([1e6, 1e6 + 1, 1e6 + 2], np.float32)).var(dim=0), np.float64(1.0), 1e-3)


def cross_entropy_by_hand(x, targets, weight, smoothing, ignored, reduction):
    """Float64, from the documented formula."""
    x = np.asarray(x, np.float64)
    logp = x - x.max(1, keepdims=True)
    logp -= np.log(np.exp(logp).sum(1, keepdims=True))
    classes = x.shape[1]
    w = np.ones(classes) if weight is None else np.asarray(weight, np.float64)
    each, total = np.zeros(len(targets)), 0.0
    for i, k in enumerate(targets):
        if k != ignored:
            each[i] = -(1 - smoothing) * w[k] * logp[i, k] - smoothing / classes * (w * logp[i]).sum()
            total += w[k]
    return {"none": each, "sum": each.sum(), "mean": each.sum() / total}[reduction]


def case_50(dev: str) -> None:
    """pytorch#73205, pytorch#69339: label smoothing counted ignored samples, or took the weight at ignore_index."""
    x = np.random.default_rng(50).standard_normal((5, 3)).astype(np.float32)
    for ignored in (-100, -1, 1):
        targets = np.array([0, ignored, 2, 1 if ignored != 1 else 2, ignored])
        for weight in (None, [1.0, 2.0, 5.0]):
            for smoothing in (0.0, 0.2):
                for reduction in ("none", "sum", "mean"):
                    got = F.cross_entropy(
                        tensor(dev, x), tensor(dev, targets, "int64"), weight=None if weight is None else tensor(dev, weight),
                        ignore_index=ignored, reduction=reduction, label_smoothing=smoothing,
                    )  # fmt: skip
                    want = cross_entropy_by_hand(x, targets, weight, smoothing, ignored, reduction)
                    assert_close(got, want, 1e-5, 1e-6, f"{ignored} {weight} {smoothing} {reduction}")


def case_53(dev: str) -> None:
    """pytorch#38985, pytorch#34808: nearest interpolation sent gradients to another pixel than it had read: ⌊o·in / out⌋ in integers."""
    x = tensor(dev, np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), grad=True)
    y = F.interpolate(x, scale_factor=0.25, mode="nearest")
    assert_equal(y, [[[[0]]]], "reads the first")
    y.sum().backward()
    want = np.zeros((1, 1, 4, 4))
    want[0, 0, 0, 0] = 1
    assert_equal(x.grad, want, "and sends the gradient there")
    for size, out in ((5, 3), (3, 7), (4, 6), (10, 4), (2, 9)):
        places = np.arange(out) * size // out
        line = np.arange(size, dtype=np.float32)
        t = tensor(dev, line.reshape(1, 1, 1, size), grad=True)
        y = F.interpolate(t, size=(1, out), mode="nearest")
        assert_equal(y, line[places].reshape(1, 1, 1, out), f"{size} to {out}")
        y.sum().backward()
        assert_equal(t.grad, np.bincount(places, minlength=size).reshape(1, 1, 1, size), f"gradient of {size} to {out}")
