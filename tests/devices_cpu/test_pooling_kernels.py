"""max_pool2d, its backward and its gather on the cpu device, against explicit loops (docs/numerics.md, 9)."""

from __future__ import annotations

import chain_reference as reference
import numpy as np
import pytest
from kernel_cases import FLOATS, LAYOUTS, placed, rng, values

import hal

# x shape, attributes
CASES = [
    ((2, 3, 8, 8), {"kernel": (2, 2), "stride": (2, 2)}),
    ((1, 2, 9, 7), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}),
    ((1, 2, 10, 11), {"kernel": (3, 2), "stride": (1, 3), "padding": (1, 0), "dilation": (2, 3)}),
    ((2, 1, 7, 7), {"kernel": (2, 2), "stride": (2, 2), "ceil_mode": 1}),
    ((1, 1, 5, 6), {"kernel": (3, 3), "stride": (3, 3), "padding": (1, 1), "ceil_mode": 1}),
    ((2, 2, 4, 4), {"kernel": (4, 4), "stride": (1, 1)}),
    ((0, 2, 4, 4), {"kernel": (2, 2), "stride": (2, 2)}),
]


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: int) -> int:
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    n = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return n - 1 if ceil_mode and (n - 1) * stride >= size + padding else n


def pool_reference(x: np.ndarray, a: dict) -> tuple[np.ndarray, np.ndarray]:
    kernel, stride = a["kernel"], a["stride"]
    padding, dilation = a.get("padding", (0, 0)), a.get("dilation", (1, 1))
    size = [out_size(x.shape[2 + i], kernel[i], stride[i], padding[i], dilation[i], a.get("ceil_mode", 0)) for i in range(2)]
    out, indices = np.empty((*x.shape[:2], *size), x.dtype), np.empty((*x.shape[:2], *size), np.int64)
    for n, c, oh, ow in np.ndindex(*out.shape):
        best = None
        for kh in range(kernel[0]):
            for kw in range(kernel[1]):
                y, z = oh * stride[0] - padding[0] + kh * dilation[0], ow * stride[1] - padding[1] + kw * dilation[1]
                if not (0 <= y < x.shape[2] and 0 <= z < x.shape[3]):
                    continue
                v = x[n, c, y, z]
                if best is None or v > x[n, c, best[0], best[1]] or (v != v and x[n, c, best[0], best[1]] == x[n, c, best[0], best[1]]):
                    best = (y, z)
        assert best is not None
        out[n, c, oh, ow] = x[n, c, best[0], best[1]]
        indices[n, c, oh, ow] = best[0] * x.shape[3] + best[1]
    return out, indices


def backward_reference(grad: np.ndarray, indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    accumulator = np.float64 if grad.dtype == np.float64 else np.float32
    out = np.zeros((*shape[:2], shape[2] * shape[3]), accumulator)
    with np.errstate(all="ignore"):
        for n, c, y, z in np.ndindex(*grad.shape):
            i = indices[n, c, y, z]
            out[n, c, i] = out[n, c, i] + accumulator(grad[n, c, y, z])
        return out.astype(grad.dtype).reshape(shape)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("special", [0.0, 0.4])
def test_pool_backward_and_gather(case: int, dtype: str, special: float) -> None:
    shape, attributes = CASES[case]
    r = rng("pool", case, dtype, special)
    x = values(shape, dtype, r, special)
    if not special:
        x = np.round(x)  # ties
    out, indices = pool_reference(x, attributes)
    grad = values(out.shape, dtype, r, special)
    expected_grad = backward_reference(grad, indices, shape)
    gathered = np.take_along_axis(x.reshape(*shape[:2], -1), indices.reshape(*shape[:2], -1), -1).reshape(out.shape) if x.size else out
    for i, layout in enumerate(LAYOUTS):
        other = LAYOUTS[(i + 2) % len(LAYOUTS)]
        got, got_indices = placed(np.full(out.shape, 9, out.dtype), other), placed(np.full(out.shape, -1, np.int64), layout)
        hal.run("max_pool2d", [placed(x, layout)], attributes, [got, got_indices])
        reference.assert_same_bits(got.numpy(), out)
        assert (got_indices.numpy() == indices).all()
        back = placed(np.full(shape, 9, out.dtype), layout)
        hal.run("max_pool2d_backward", [placed(grad, other), placed(indices, layout)], attributes, [back])
        reference.assert_same_bits(back.numpy(), expected_grad)
        picked = placed(np.full(out.shape, 9, out.dtype), layout)
        hal.run("max_pool2d_gather", [placed(x, other), placed(indices, layout)], {}, [picked])
        reference.assert_same_bits(picked.numpy(), gathered)


def test_zeros_tie_and_the_first_nan_wins() -> None:
    x = np.array([-0.0, 0.0, np.nan, np.inf, np.nan, 1.0], np.float32).reshape(1, 1, 1, 6)
    out, indices = hal.array(np.zeros((1, 1, 1, 2), np.float32)), hal.array(np.zeros((1, 1, 1, 2), np.int64))
    hal.run("max_pool2d", [hal.array(x)], {"kernel": (1, 2), "stride": (1, 4)}, [out, indices])
    assert np.signbit(out.numpy()[0, 0, 0, 0]) and np.isnan(out.numpy()[0, 0, 0, 1])
    assert indices.numpy().ravel().tolist() == [0, 4]


@pytest.mark.parametrize("index", [-1, 16, 2**40])
@pytest.mark.parametrize("op", ["max_pool2d_backward", "max_pool2d_gather"])
def test_index_out_of_range_raises(op: str, index: int) -> None:
    indices = np.zeros((1, 1, 2, 2), np.int64)
    indices[0, 0, 1, 0] = index
    shapes = ((1, 1, 2, 2), (1, 1, 4, 4)) if op == "max_pool2d_backward" else ((1, 1, 4, 4), (1, 1, 2, 2))
    source, out = (hal.array(np.ones(s, np.float32)) for s in shapes)
    with pytest.raises((ValueError, IndexError, RuntimeError), match="index"):
        hal.run(op, [source, hal.array(indices)], {"kernel": (2, 2), "stride": (2, 2)} if "backward" in op else {}, [out])
        out.numpy()


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel": (0, 2)},
        {"kernel": (2, 2), "stride": (0, 1)},
        {"kernel": (2, 2), "padding": (2, 0)},
        {"kernel": (9, 2)},
        {"kernel": (2, 2), "dilation": (0, 1)},
        {"kernel": (2, 2), "padding": (-1, 0)},
    ],
)
def test_wrong_attributes_raise(attributes: dict) -> None:
    out, indices = hal.array(np.zeros((1, 1, 3, 3), np.float32)), hal.array(np.zeros((1, 1, 3, 3), np.int64))
    with pytest.raises(ValueError):
        hal.run("max_pool2d", [hal.array(np.ones((1, 1, 4, 4), np.float32))], {"stride": (1, 1), **attributes}, [out, indices])
