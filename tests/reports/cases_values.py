"""Cases of tensors and their values, rebuilt from public reports against other frameworks (named at each). Expected values are derived by
hand, by numpy or from a specification. Each takes the name of a device; test_cases.py runs each in a process of its own."""

from __future__ import annotations

import math

import numpy as np
from kit import INF, NAN, array, assert_close, assert_equal, refuses, right_or_refused, tensor

import oneflow_mini as flow


def case_02(dev: str) -> None:
    """pytorch#78043: cat and stack of slices that take every second element."""
    x = np.arange(48, dtype=np.float32).reshape(2, 3, 8)
    even, odd = tensor(dev, x)[..., ::2], tensor(dev, x)[..., 1::2]
    turned = np.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)  # rotary "rotate every two"
    assert_equal(flow.stack((-odd, even), dim=-1).reshape(2, 3, 8), turned, "stack")
    for dim in (1, -1):
        assert_equal(flow.cat((odd, even), dim=dim), np.concatenate((x[..., 1::2], x[..., ::2]), dim), f"cat {dim}")


def case_04(dev: str) -> None:
    """llama.cpp#25568: sums over permuted and strided inputs. Integers below 2**24: exact in any order."""
    x = np.random.default_rng(6).integers(-50, 50, (5, 7, 6)).astype(np.float32)
    t = tensor(dev, x)
    seen = {
        "permuted": (t.permute(2, 0, 1), x.transpose(2, 0, 1)),
        "stepped": (t[1:, ::3, 1::2], x[1:, ::3, 1::2]),
        "expanded": (t[:, :1].expand(5, 4, 6), np.broadcast_to(x[:, :1], (5, 4, 6))),
    }
    for name, (v, w) in seen.items():
        assert_equal(v.sum(), np.float32(w.sum()), name)
        for d in range(3):
            assert_equal(v.sum(dim=d), w.sum(axis=d), f"{name} sum {d}")
            assert_equal(v.max(dim=d)[0], w.max(axis=d), f"{name} max {d}")


def case_07(dev: str) -> None:
    """llama.cpp#12390: arithmetic between slices of one larger tensor."""
    x = np.arange(48, dtype=np.float32).reshape(2, 3, 8)
    t = tensor(dev, x)
    assert_equal(t[:, 0] + t[:, 1] + t[:, 2], x.sum(1), "slices of dimension 1")
    assert_equal(t[..., :4] * t[..., 4:], x[..., :4] * x[..., 4:], "halves")
    assert_equal(t[0].transpose(0, 1) - t[1].transpose(0, 1), (x[0] - x[1]).T, "transposed")


def case_08(dev: str) -> None:
    """oneflow#8578: += and clamp_ on columns changed other elements."""
    x = np.random.default_rng(8).integers(-9, 9, (5, 5)).astype(np.float32)
    t, want = tensor(dev, x), x.copy()
    t[:, :2] += t[:, 4:]
    want[:, :2] += want[:, 4:]
    assert_equal(t, want, "+=")
    t[:, 1:3].clamp_(min=0, max=1)
    want[:, 1:3] = want[:, 1:3].clip(0, 1)
    assert_equal(t, want, "clamp_")


def case_11(dev: str) -> None:
    """pytorch#17935: in place on an expanded tensor: refused, or each logical element changed once."""

    def doubled():
        e = tensor(dev, [3.0]).expand(5)
        e.mul_(2.0)
        return e

    right_or_refused("mul_ of an expanded tensor", doubled, np.full(5, 6.0))


def case_13(dev: str) -> None:
    """mlx#4274, oneflow#7606: argmax passed over NaN while max returned it. The first NaN wins; of ties the first."""
    for n in (1, 3, 4, 8, 33, 1000, 5000):
        for at in {0, n // 2, n - 1}:
            x = np.linspace(-1, 1, n, dtype=np.float32)
            x[at] = NAN
            t = tensor(dev, x)
            assert flow.argmax(t, dim=0).item() == at and flow.argmin(t, dim=0).item() == at, (n, at)
            assert math.isnan(t.max().item()) and math.isnan(t.min().item()), (n, at)
    for n in (2, 7, 300):
        for same in (np.full(n, NAN, np.float32), np.full(n, -INF, np.float32), np.full(n, 3, np.int32)):
            assert flow.argmax(tensor(dev, same), dim=0).item() == 0, same[0]


def case_16(dev: str) -> None:
    """tt-metal#56056, mindspore#378: softmax of rows that hold +inf or NaN is NaN throughout; −inf alone is 0."""
    bad = np.array([[0, INF, 1, 2], [0, NAN, 1, 2], [INF, INF, 0, 0], [NAN, INF, -INF, 0]], np.float32)
    good = np.array([[0, -INF, 1, -INF], [1000, 0, -1000, 1000]], np.float32)
    for wide in (1, 16):
        for f in (flow.softmax, flow.log_softmax):
            assert np.isnan(array(f(tensor(dev, np.tile(bad, (1, wide))), dim=1))).all()
    shifted = good.astype(np.float64) - good.max(1, keepdims=True)
    e = np.exp(shifted)
    assert_close(flow.softmax(tensor(dev, good), dim=1), e / e.sum(1, keepdims=True), 1e-6)
    assert_close(flow.log_softmax(tensor(dev, good), dim=1), shifted - np.log(e.sum(1, keepdims=True)), 1e-6, 1e-7)


def case_19(dev: str) -> None:
    """tt-metal#33492: a stable sort with equal keys lost their order, or its indices weren't a permutation. −0 equals 0, NaN goes last."""
    for n in (2, 5, 16, 17, 64, 255, 1000, 4097):
        r = np.random.default_rng(n)
        x = r.integers(0, 4, n).astype(np.float32)
        x[(x == 0) & (r.random(n) < 0.5)] = -0.0
        for descending, order in ((False, np.argsort(x, kind="stable")), (True, np.argsort(-x, kind="stable"))):
            values, index = flow.sort(tensor(dev, x), dim=0, descending=descending, stable=True)
            assert_equal(index, order, f"{n} {descending}")
            assert_equal(values, x[order], f"{n} {descending}")
        _, index = flow.sort(tensor(dev, x), dim=0)
        assert_equal(np.sort(array(index)), np.arange(n), f"{n}: a permutation")
    values, index = flow.sort(tensor(dev, np.array([2, NAN, -INF, 1, NAN, INF, 0], np.float32)), dim=0, stable=True)
    assert_equal(index, [2, 6, 3, 0, 5, 1, 4], "NaN last, in order")
    values, index = flow.topk(tensor(dev, np.array([3, 9, 9, 1, 9, 0], np.float32)), 3)
    assert_equal(values, [9, 9, 9], "topk")
    assert sorted(array(index).tolist()) == [1, 2, 4]


def case_21(dev: str) -> None:
    """mlx#3994, mlx#640: // and % of negative operands: Python's, so that q·b + r is a."""
    grid = np.meshgrid(np.arange(-9, 10), [-4, -3, -1, 1, 2, 5], indexing="ij")
    for dtype in ("int8", "int32", "int64"):
        a = np.append(grid[0].ravel(), [120, -128, 127]).astype(dtype)
        b = np.append(grid[1].ravel(), [-27, 3, -128]).astype(dtype)
        assert_equal(tensor(dev, a, dtype) // tensor(dev, b, dtype), a // b, f"// {dtype}")
        assert_equal(tensor(dev, a, dtype) % tensor(dev, b, dtype), a % b, f"% {dtype}")
    a, b = (g.ravel().astype(np.float32) for g in grid)
    x, y = tensor(dev, a / 2), tensor(dev, b)
    assert_equal(x % y + x // y * y, a / 2, "of floats")
    assert_equal(x // y, (a / 2) // b, "// of floats")


def case_24(dev: str) -> None:
    """pytorch#44350, tinygrad#4327: means of f16 overflowed, since their sum was kept in f16."""
    assert tensor(dev, np.full(3, 40000, np.float16), "float16").mean().item() == 40000.0
    assert tensor(dev, np.full(70000, 2, np.float16), "float16").mean().item() == 2.0
    assert tensor(dev, np.ones(4096, np.float16), "float16").sum().item() == 4096.0
    assert_equal(tensor(dev, np.full((2, 60000), 3, np.float16), "float16").mean(dim=1), [3, 3])


def case_27(dev: str) -> None:
    """cupy#6255, mlx#4317: integer division by a rounded reciprocal; // at infinity. f32 0.1 is above 1/10: nine fit in 1."""
    n = np.arange(20000)
    for m in (3, 7, 10, 41, 49, 93, 107, 161, 187, 3150):
        for dtype in ("int32", "int64"):
            assert_equal(tensor(dev, n, dtype) // m, n // m, f"{dtype} // {m}")
    a, b = np.array([[1, -1, INF, -INF, 1, 7, 0], [-INF, INF, 3, 3, 0.1, INF, 5]], np.float32)
    assert_equal(tensor(dev, a) // tensor(dev, b), [-1, -1, NAN, NAN, 9, 0, 0])


def case_29(dev: str) -> None:
    """tvm#19578: reductions over nothing returned old memory. The identity, NaN for 0/0, or an exception."""
    for n in (4, 16, 64, 256):  # memory to be mistaken for a result
        filled = [tensor(dev, np.full(n, NAN, np.float32)) + 0 for _ in range(8)]
        del filled
    e, z = tensor(dev, np.zeros(0, np.float32)), tensor(dev, np.zeros((0, 3), np.float32))
    assert e.sum().item() == 0 and e.prod().item() == 1 and math.isnan(e.mean().item())
    assert_equal(z.sum(dim=0), [0, 0, 0])
    assert_equal(z.prod(dim=0), [1, 1, 1])
    assert_equal(z.mean(dim=0), [NAN] * 3)
    assert tuple(z.sum(dim=1).shape) == (0,)
    assert flow.all(z > 0).item() is True and flow.any(z > 0).item() is False
    refuses("max of nothing", lambda: e.max())
    refuses("argmax of nothing", lambda: flow.argmax(e, dim=0))


def case_31(dev: str) -> None:
    """pyopencl#638: an empty slice launched a kernel of size 0."""
    x = np.arange(10, dtype=np.float32)
    t = tensor(dev, x)
    nothing = t[4:4]
    assert tuple((nothing * 2 + 1).shape) == (0,) and nothing.sum().item() == 0
    t[4:4] = 7
    t[4:4] += 1
    assert_equal(t, x, "an empty slice changes nothing")
    assert_equal(flow.cat((nothing, t, nothing), dim=0), x, "cat")
    assert tuple(t[tensor(dev, np.zeros(0), "int64")].shape) == (0,) and tuple(t[t > 100].shape) == (0,)
    total = tensor(dev, 5.0)
    total += tensor(dev, [1.0, 3.0]).mean()
    assert tuple(total.shape) == () and total.item() == 7.0
