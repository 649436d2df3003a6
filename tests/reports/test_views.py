"""The kinds "layout" and "alias": every op on every view has the bits that it has on a packed copy; writing to a view changes that alone."""

from __future__ import annotations

import numpy as np
import pytest
from kit import ALL, FLOATS, INTS, array, assert_equal, right_or_refused, same_bits, tensor
from views import SHAPE, VIEWS, WRITABLE, integers

import oneflow_mini as flow
from oneflow_mini.nn import functional as F

UNARY = (
    "neg",
    "abs",
    "sign",
    "square",
    "exp",
    "tanh",
    "rsqrt",
    "erf",
    "sigmoid",
    "gelu",
    "floor",
    "round",
    "isnan",
    "logical_not",
    "bitwise_not",
)
BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "maximum",
    "pow",
    "atan2",
    "lt",
    "eq",
    "logical_and",
    "bitwise_xor",
    "bitwise_left_shift",
)
REDUCE = ("sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "var", "logsumexp", "norm")
ROWS = ("softmax", "log_softmax", "cumsum")


def outcome(call):
    """The result, or the type of the refusal: a dtype that an op lacks must be refused alike."""
    try:
        out = call()
    except (TypeError, ValueError, IndexError, NotImplementedError) as error:
        return type(error)
    return out if isinstance(out, tuple) else (out,)


def assert_alike(op, *views):
    packed, seen = outcome(lambda: op(*[v.clone() for v in views])), outcome(lambda: op(*views))
    if isinstance(packed, type):
        assert seen is packed, f"{seen}, expected {packed}"
        return
    for a, b in zip(packed, seen, strict=True):
        assert same_bits(a, b)


def given(dev, dtype, seed=0):
    return tensor(dev, integers(dtype, seed=seed), dtype)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("view", VIEWS)
def test_pointwise(dev, view, dtype):
    x, y = VIEWS[view](given(dev, dtype)), VIEWS[view](given(dev, dtype, 1))
    for name in UNARY:
        assert_alike(getattr(flow, name), x)
    for name in BINARY:
        assert_alike(getattr(flow, name), x, y)
        assert_alike(getattr(flow, name), x, y.clone())
    assert_alike(lambda a, b: flow.where(a > b, a, b), x, y)
    assert_alike(lambda a: flow.clamp(a, 1, 20), x)
    for to in ALL:
        assert_alike(lambda a, to=to: a.to(getattr(flow, to)), x)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("view", VIEWS)
def test_reductions_and_rows(dev, view, dtype):
    x = VIEWS[view](given(dev, dtype))
    for dim in range(x.ndim):
        for name in (*REDUCE, *ROWS):
            assert_alike(lambda a, name=name, dim=dim: getattr(flow, name)(a, dim=dim), x)
        assert_alike(lambda a, dim=dim: tuple(flow.sort(a, dim=dim)), x)
        assert_alike(lambda a, dim=dim: tuple(a.max(dim=dim)), x)
        if x.shape[dim]:
            assert_alike(lambda a, dim=dim: tuple(flow.topk(a, 1, dim=dim)), x)
    for name in REDUCE:
        if name != "logsumexp":
            assert_alike(getattr(flow, name), x)
    assert_alike(lambda a: flow.sum(a, dim=tuple(range(a.ndim))[::2]), x)


@pytest.mark.parametrize("view", VIEWS)
def test_sums_are_right(dev, view):
    """By numpy: integers, exact in any order."""
    for dtype in (*INTS, "float32", "float64"):
        v, w = VIEWS[view](given(dev, dtype)), VIEWS[view](integers(dtype))
        assert_equal(v.sum(), np.asarray(w.sum()), dtype)
        for dim in range(w.ndim):
            assert_equal(v.sum(dim=dim), w.sum(dim), f"{dtype} {dim}")
            if w.shape[dim]:
                assert_equal(v.max(dim=dim)[0], w.max(dim), f"{dtype} {dim}")


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("view", VIEWS)
def test_moves(dev, view, dtype):
    """cat, stack, gather and so on, against numpy."""
    x, w = VIEWS[view](given(dev, dtype)), VIEWS[view](integers(dtype))
    y, u = VIEWS[view](given(dev, dtype, 1)), VIEWS[view](integers(dtype, seed=1))
    for dim in range(w.ndim):
        assert_equal(flow.cat((x, y, x), dim=dim), np.concatenate((w, u, w), dim), f"cat {dim}")
        assert_equal(flow.stack((y, x), dim=dim), np.stack((u, w), dim), f"stack {dim}")
        assert_equal(flow.flip(x, (dim,)), np.flip(w, dim), f"flip {dim}")
        assert_equal(x.roll(2, dim), np.roll(w, 2, dim), f"roll {dim}")
        index = np.random.default_rng(2).integers(0, max(1, w.shape[dim]), 7)
        if w.shape[dim]:
            assert_equal(flow.index_select(x, dim, tensor(dev, index)), w.take(index, dim), f"index_select {dim}")
            full = np.argsort(w, dim, kind="stable")
            assert_equal(flow.gather(x, dim, tensor(dev, full)), np.take_along_axis(w, full, dim), f"gather {dim}")
    mask = integers("bool", w.shape, seed=3).astype(bool)
    assert_equal(x[tensor(dev, mask)], w[mask], "mask")
    assert_equal(x.reshape(-1), w.reshape(-1), "reshape")
    assert_equal(x.contiguous(), w, "contiguous")
    assert_equal(x.repeat(*[2] * w.ndim), np.tile(w, (2,) * w.ndim), "repeat")
    assert_equal(array(x), w, "numpy")
    assert x.tolist() == w.astype(array(x).dtype if array(x).dtype.kind in "bui" else float).tolist()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("view", [v for v in VIEWS if v not in ("selected", "nothing")])
def test_networks(dev, view, dtype):
    x = VIEWS[view](given(dev, dtype))
    rows = x.shape[-1]
    w = tensor(dev, integers(dtype, (7, rows), -3, 3), dtype)
    assert_alike(lambda a: F.linear(a, w), x)
    assert_alike(lambda a: F.linear(a, w.transpose(0, 1).clone().transpose(0, 1)), x)
    assert_alike(lambda a: flow.matmul(a, a.transpose(-1, -2)), x)
    assert_alike(lambda a: F.layer_norm(a, (rows,)), x)
    assert_alike(lambda a: F.batch_norm(a, None, None, training=True), x)
    plane = x.unsqueeze(0)
    kernel = tensor(dev, integers(dtype, (4, x.shape[0], 2, 1), -2, 3), dtype)
    assert_alike(lambda a: F.conv2d(a, kernel, padding=1), plane)
    assert_alike(lambda a: F.max_pool2d(a, (2, 1)), plane)
    assert_alike(lambda a: F.avg_pool2d(a, (2, 1)), plane)
    assert_alike(lambda a: F.interpolate(a, size=(3, 5), mode="bilinear"), plane)
    target = tensor(dev, integers("int64", (x.shape[0], x.shape[2]), 0, x.shape[1]))
    assert_alike(lambda a: F.cross_entropy(a, target), x)


IN_PLACE = {
    "add_": (lambda t, o: t.add_(o), lambda a, o: a + o),
    "sub_": (lambda t, o: t.sub_(o), lambda a, o: a - o),
    "mul_": (lambda t, o: t.mul_(o), lambda a, o: a * o),
    "copy_": (lambda t, o: t.copy_(o), lambda a, o: o),
    "fill_": (lambda t, o: t.fill_(3), lambda a, o: np.full_like(a, 3)),
    "zero_": (lambda t, o: t.zero_(), lambda a, o: np.zeros_like(a)),
    "clamp_": (lambda t, o: t.clamp_(min=2, max=5), lambda a, o: a.clip(2, 5)),
    "neg_": (lambda t, o: t.neg_(), lambda a, o: -a),
    "masked_fill_": (lambda t, o: t.masked_fill_(o > 0, 4), lambda a, o: np.where(o > 0, 4, a)),
    "setitem": (lambda t, o: t.__setitem__(..., o), lambda a, o: o),
    "setitem half": (lambda t, o: t.__setitem__(slice(0, 2), 7), lambda a, o: np.concatenate((np.full_like(a[:2], 7), a[2:]))),
    "iadd": (lambda t, o: t.__iadd__(1), lambda a, o: a + 1),
    "relu_": (lambda t, o: t.relu_(), lambda a, o: a.clip(0)),
    "maximum_": (lambda t, o: t.maximum_(o), np.maximum),
}


@pytest.mark.parametrize("dtype", [d for d in ALL if d not in ("bool", "uint8")])
@pytest.mark.parametrize("op", IN_PLACE)
def test_writing_through_a_view(dev, op, dtype):
    """The view's elements change as numpy's do; the others of the base don't."""
    write, want = IN_PLACE[op]
    for name in WRITABLE:
        base, expected = given(dev, dtype), integers(dtype)
        view, w = VIEWS[name](base), VIEWS[name](expected)
        other = integers(dtype, w.shape, -5, 6, seed=4)
        write(view, tensor(dev, other, dtype))
        w[...] = want(w.copy(), other)
        assert_equal(base, expected.astype(array(base).dtype), name)


def test_reading_and_writing_one_memory(dev):
    """What an op reads is what stood there before it."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    moves = {
        "shift": (lambda t: t[1:].copy_(t[:-1]), lambda a: a[1:].__setitem__(..., a[:-1].copy())),
        "shift back": (lambda t: t[:-1].copy_(t[1:]), lambda a: a[:-1].__setitem__(..., a[1:].copy())),
        "add neighbours": (lambda t: t[:, 1:].add_(t[:, :-1]), lambda a: a[:, 1:].__setitem__(..., a[:, 1:] + a[:, :-1])),
        "turned square": (lambda t: t[:, :4].copy_(t[:, :4].transpose(0, 1)), lambda a: a[:, :4].__setitem__(..., a[:, :4].T.copy())),
        "add turned": (lambda t: t[:, :4].add_(t[:, :4].transpose(0, 1)), lambda a: a[:, :4].__setitem__(..., a[:, :4] + a[:, :4].T)),
        "own column": (lambda t: t.mul_(t[:, 1:2]), lambda a: a.__setitem__(..., a * a[:, 1:2].copy())),
        "indexed": (lambda t: t.__setitem__(tensor(dev, [0, 1, 2]), t[1:]), lambda a: a.__setitem__([0, 1, 2], a[1:].copy())),
    }
    for name, (write, want) in moves.items():
        t, a = tensor(dev, x), x.copy()
        write(t)
        want(a)
        assert_equal(t, a, name)


@pytest.mark.parametrize("op", ["mul_", "add_", "sub_", "div_", "fill_", "exp_", "clamp_", "copy_", "neg_"])
def test_writing_to_an_expanded_tensor(dev, op):
    start = np.array([3.0], np.float32)
    want = {
        "mul_": 6.0,
        "add_": 5.0,
        "sub_": 1.0,
        "div_": 1.5,
        "fill_": 2.0,
        "exp_": np.exp(3.0),
        "clamp_": 2.0,
        "copy_": 2.0,
        "neg_": -3.0,
    }[op]

    def write():
        e = tensor(dev, start).expand(5)
        two = flow.full((5,), 2.0, device=dev) if op == "copy_" else 2.0
        getattr(e, op)(*{"exp_": (), "neg_": (), "clamp_": (0.0, 2.0)}.get(op, (two,)))
        return e

    right_or_refused(op, write, np.full(5, want))


def test_views_share_and_copies_do_not(dev):
    t = tensor(dev, integers("float32"), "float32")
    for name, view in VIEWS.items():
        v = view(t)
        if v.numel():
            before = array(t).copy()
            c = v.clone()
            c.add_(1)
            assert_equal(t, before, f"clone of {name}")
    assert t.reshape(30, 8).data_ptr() == t.data_ptr() and t.permute(2, 0, 1).reshape(-1).data_ptr() != t.data_ptr()
    assert t.view(*SHAPE[:1], 48).data_ptr() == t.data_ptr()
