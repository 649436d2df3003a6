"""layer_norm, batch_norm, group_norm, average pooling, attention and the activations' fused gradients: values, gradients, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import oneflow_mini as flow
import oneflow_mini.nn.functional as F
from oneflow_mini import nn
from oneflow_mini.autograd import gradcheck, gradgradcheck

FLOATS = (flow.float16, flow.bfloat16, flow.float32, flow.float64)


def values(t):
    return t.detach().to(flow.float64).numpy()


def both(function, inputs):
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


# ----- normalization -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape,inner", [((3, 5), (5,)), ((2, 3, 4), (3, 4)), ((6,), (6,)), ((2, 0, 4), (4,))])
@pytest.mark.parametrize("affine", [(True, True), (True, False), (False, True), (False, False)])
def test_layer_norm(f64, shape, inner, affine):
    x = f64(*shape)
    parameters = [f64(*inner) if a else None for a in affine]
    axes = tuple(range(-len(inner), 0))
    v = values(x)
    want = (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + 1e-5)
    if affine[0]:
        want = want * values(parameters[0])
    if affine[1]:
        want = want + values(parameters[1])
    np.testing.assert_allclose(values(F.layer_norm(x, inner, *parameters)), want, rtol=1e-12, atol=1e-12)
    given = [p for p in parameters if p is not None]

    def run(x, *rest):
        rest = list(rest)
        return F.layer_norm(x, inner, *(rest.pop(0) if a else None for a in affine))

    if x.numel():
        both(run, (x, *given))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 5), (2, 3, 2, 3)])
def test_batch_norm(f64, shape, affine, training):
    x, c = f64(*shape), shape[1]
    w, b = (f64(c), f64(c)) if affine else (None, None)
    running = [f64(c, requires_grad=False), f64(c, low=0.5, high=2.0, requires_grad=False)]
    before = [values(r).copy() for r in running]
    v, axes, per = values(x), tuple(k for k in range(len(shape)) if k != 1), (1, c) + (1,) * (len(shape) - 2)
    mean, var = (v.mean(axes), v.var(axes)) if training else before
    want = (v - mean.reshape(per)) / np.sqrt(var.reshape(per) + 1e-3)
    if affine:
        want = want * values(w).reshape(per) + values(b).reshape(per)
    np.testing.assert_allclose(values(F.batch_norm(x, *running, w, b, training, 0.2, 1e-3)), want, rtol=1e-11, atol=1e-12)
    n = x.numel() // c
    if training:
        np.testing.assert_allclose(values(running[0]), 0.8 * before[0] + 0.2 * mean, rtol=1e-12)
        np.testing.assert_allclose(values(running[1]), 0.8 * before[1] + 0.2 * var * n / (n - 1), rtol=1e-12)
    else:
        assert (values(running[0]) == before[0]).all() and (values(running[1]) == before[1]).all()
    statistics = (None, None) if training else running
    given = (x, w, b) if affine else (x,)
    both(lambda x, w=None, b=None: F.batch_norm(x, *statistics, w, b, training, 0.2, 1e-3), given)


def test_eval_statistics_may_change_before_backward():
    x, m, v = flow.randn(4, 2, requires_grad=True), flow.zeros(2), flow.ones(2)
    w = flow.ones(2, requires_grad=True)
    y = F.batch_norm(x, m, v, w, None, False, 0.1, 0.0)
    m.fill_(100.0)
    v.fill_(100.0)
    y.sum().backward()
    np.testing.assert_array_equal(values(x.grad), 1.0)
    np.testing.assert_allclose(values(w.grad), values(x).sum(0), rtol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["layer", "batch"])
def test_gradients_have_the_same_bits_under_create_graph(dtype, kind):
    x = flow.randn(7, 5, 33).to(dtype).requires_grad_()
    w, b = (flow.randn(5 if kind == "batch" else 33).to(dtype).requires_grad_() for _ in range(2))
    y = F.layer_norm(x, (33,), w, b) if kind == "layer" else F.batch_norm(x, None, None, w, b, True)
    g = flow.randn(7, 5, 33).to(dtype)
    plain = flow.autograd.grad(y, (x, w, b), g, retain_graph=True)
    graphed = flow.autograd.grad(y, (x, w, b), g, create_graph=True)
    for p, q in zip(plain, graphed, strict=True):
        assert p.dtype == q.dtype == dtype and not p.requires_grad and (values(p) == values(q)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_layouts_give_the_same_bits(dtype):
    x, g = flow.randn(4, 6, 5, 7).to(dtype), flow.randn(4, 6, 5, 7).to(dtype)
    w, b = flow.randn(6).to(dtype), flow.randn(6).to(dtype)

    def grads(x, g):
        x = x.detach().requires_grad_()
        p = [t.detach().requires_grad_() for t in (w, b)]
        y = F.batch_norm(x, None, None, *p, True)
        return [values(t) for t in (y, *flow.autograd.grad(y, (x, *p), g))]

    last = lambda t: t.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    for a, c in zip(grads(x, g), grads(last(x), last(g)), strict=True):
        np.testing.assert_array_equal(a, c)


def test_group_norm(f64):
    x, w, b = f64(2, 6, 3, 2), f64(6), f64(6)
    v = values(x).reshape(2, 3, -1)
    want = ((v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)).reshape(2, 6, 3, 2)
    want = want * values(w).reshape(1, 6, 1, 1) + values(b).reshape(1, 6, 1, 1)
    np.testing.assert_allclose(values(F.group_norm(x, 3, w, b)), want, rtol=1e-12, atol=1e-12)
    both(lambda x, w, b: F.group_norm(x, 3, w, b), (x, w, b))
    assert "3, 6" in repr(nn.GroupNorm(3, 6)) and nn.GroupNorm(3, 6)(x.float()).dtype == flow.float32
    with pytest.raises(ValueError, match="divisible"):
        nn.GroupNorm(4, 6)
    with pytest.raises(ValueError, match="num_groups"):
        F.group_norm(x, 4)


def test_bad_normalization():
    x = flow.randn(2, 3, 4)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x, (3,))
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x, ())
    with pytest.raises(ValueError, match="weight"):
        F.layer_norm(x, (4,), flow.ones(3))
    with pytest.raises(TypeError, match="floating"):
        F.layer_norm(flow.ones(2, 3, dtype=flow.int64), (3,))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(flow.ones(1, 3), None, None, training=True)
    with pytest.raises(ValueError, match="2D"):
        F.batch_norm(flow.ones(3), None, None, training=True)
    with pytest.raises(RuntimeError, match="running"):
        F.batch_norm(x, None, None)
    with pytest.raises(RuntimeError, match="running"):
        F.batch_norm(x, flow.zeros(2), flow.ones(2))
    with pytest.raises(ValueError, match="bias"):
        F.batch_norm(x, flow.zeros(3), flow.ones(3), None, flow.ones(4))


# ----- average pooling ---------------------------------------------------------------------------------------------------------------


def average(v, kernel, stride, padding, ceil_mode, include, divisor):
    """numpy, window by window."""
    h, w = v.shape[-2:]
    out = []
    for n, k, s, p in zip((h, w), kernel, stride, padding, strict=True):
        count = (n + 2 * p - k + (s - 1 if ceil_mode else 0)) // s + 1
        out.append(count - 1 if ceil_mode and (count - 1) * s >= n + p else count)
    y = np.zeros((*v.shape[:-2], *out))
    for i, j in np.ndindex(*out):
        a, b = i * stride[0] - padding[0], j * stride[1] - padding[1]
        c, d = min(a + kernel[0], h + padding[0]), min(b + kernel[1], w + padding[1])
        window = v[..., max(a, 0) : min(c, h), max(b, 0) : min(d, w)]
        k = divisor or ((c - a) * (d - b) if include else window.shape[-1] * window.shape[-2])
        y[..., i, j] = window.sum((-2, -1)) / k
    return y


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("divisor", [None, 3])
@pytest.mark.parametrize("kernel,stride,padding", [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 3), (1, 1)), ((3, 3), (1, 1), (1, 1))])
def test_avg_pool2d(f64, kernel, stride, padding, ceil_mode, include, divisor):
    x = f64(2, 2, 5, 6)
    arguments = (kernel, stride, padding, ceil_mode, include, divisor)
    np.testing.assert_allclose(values(F.avg_pool2d(x, *arguments)), average(values(x), *arguments), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(values(F.avg_pool2d(x[0], *arguments)), average(values(x[0]), *arguments), rtol=1e-12, atol=1e-12)
    both(lambda x: F.avg_pool2d(x, *arguments), (x,))


@pytest.mark.parametrize("size", [1, (1, 1), (2, 3), (3, None), (7, 8), 5])
def test_adaptive_avg_pool2d(f64, size):
    x = f64(2, 2, 5, 6)
    v = values(x)
    pair = size if isinstance(size, tuple) else (size, size)
    oh, ow = (n if s is None else s for s, n in zip(pair, (5, 6), strict=True))
    want = np.stack(
        [
            [v[..., i * 5 // oh : -(-(i + 1) * 5 // oh), j * 6 // ow : -(-(j + 1) * 6 // ow)].mean((-2, -1)) for j in range(ow)]
            for i in range(oh)
        ]
    )
    np.testing.assert_allclose(values(nn.AdaptiveAvgPool2d(size)(x)), want.transpose(2, 3, 0, 1), rtol=1e-12, atol=1e-12)
    assert tuple(F.adaptive_avg_pool2d(x[0], size).shape) == (2, oh, ow)
    both(lambda x: F.adaptive_avg_pool2d(x, size), (x,))


def test_bad_pooling():
    x = flow.randn(1, 2, 4, 4)
    with pytest.raises(ValueError, match="padding"):
        F.avg_pool2d(x, 2, padding=2)
    with pytest.raises(ValueError, match="window"):
        F.avg_pool2d(x, 5)
    with pytest.raises(ValueError, match="stride"):
        F.avg_pool2d(x, 2, 0)
    with pytest.raises(ValueError, match="divisor_override"):
        F.avg_pool2d(x, 2, divisor_override=0)
    with pytest.raises(ValueError, match=r"\(N, C, H, W\)"):
        F.avg_pool2d(x[0, 0], 2)
    with pytest.raises(ValueError, match="size"):
        F.adaptive_avg_pool2d(x, 0)
    with pytest.raises(TypeError, match="output_size"):
        F.adaptive_avg_pool2d(x, 1.5)


# ----- activations -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_fused_activation_gradients(f64, name):
    function = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, "tanh"), "silu": F.silu}[name]
    both(function, (f64(4, 5, low=-4.0, high=4.0),))
    x = flow.tensor([float("-inf"), -1e30, 0.0, 1e30, float("inf"), float("nan")], requires_grad=True)
    (g,) = flow.autograd.grad(function(x).sum(), x)
    np.testing.assert_array_equal(values(g), [0.0, 0.0, 0.5, 1.0, 1.0, np.nan])


# ----- attention, var ----------------------------------------------------------------------------------------------------------------


def attention(q, k, v, mask=None, scale=None):
    s = q @ np.swapaxes(k, -2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if mask is None else np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def test_attention(f64):
    q, k, v = f64(2, 3, 4, 5), f64(2, 3, 6, 5), f64(2, 3, 6, 2)
    arrays = [values(t) for t in (q, k, v)]
    np.testing.assert_allclose(values(F.scaled_dot_product_attention(q, k, v)), attention(*arrays), rtol=1e-10)
    np.testing.assert_allclose(values(F.scaled_dot_product_attention(q, k, v, scale=0.3)), attention(*arrays, scale=0.3), rtol=1e-10)
    causal = np.tril(np.ones((4, 6), bool))
    np.testing.assert_allclose(values(F.scaled_dot_product_attention(q, k, v, is_causal=True)), attention(*arrays, causal), rtol=1e-10)
    mask = np.ones((4, 6), bool)
    mask[1, :3] = False
    mask[2] = False
    out = values(F.scaled_dot_product_attention(q, k, v, flow.tensor(mask)))
    np.testing.assert_allclose(out[..., [0, 1, 3], :], attention(arrays[0][..., [0, 1, 3], :], *arrays[1:], mask[[0, 1, 3]]), rtol=1e-10)
    assert (out[..., 2, :] == 0).all()
    bias = np.linspace(-1, 1, 24).reshape(4, 6)
    np.testing.assert_allclose(values(F.scaled_dot_product_attention(q, k, v, flow.tensor(bias))), attention(*arrays, bias), rtol=1e-10)
    small = (f64(2, 3, 2), f64(2, 3, 2), f64(2, 3, 2))
    both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), small)
    with pytest.raises(RuntimeError, match="is_causal"):
        F.scaled_dot_product_attention(q, k, v, flow.tensor(mask), is_causal=True)


def test_var_of_halves_computes_in_f32():
    x = flow.tensor(np.linspace(100, 101, 64), dtype=flow.float16)
    want = np.float16(values(x).var(ddof=1))
    assert abs(values(flow.var(x)) - want) <= 2**-10 * want and flow.var(x).dtype == flow.float16
