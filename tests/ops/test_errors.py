"""What numerics.md calls an error is an exception that names op and operand; the device works on afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hal

NOTHING = np.zeros((2, 0), np.float32)
PAIR = np.zeros((2, 3), np.float32)
PLANE = np.zeros((1, 1, 2, 2), np.float32)

CALLS: dict[str, tuple[str, list[Any], dict | None, dict, type[Exception], str]] = {
    "amax-of-nothing": ("amax", [NOTHING], {"axes": 2}, {}, ValueError, "nothing to reduce"),
    "argmin-of-nothing": ("argmin", [NOTHING], {"axes": 2}, {}, ValueError, "nothing to reduce"),
    "axes": ("sum", [PAIR], {"axes": 4}, {}, IndexError, "axes"),
    "axis": ("softmax", [PAIR], {"axis": 2}, {}, IndexError, "axis"),
    "target-high": ("nll_loss", [PAIR, np.array([0, 3])], None, {}, IndexError, "target"),
    "target-low": ("nll_loss", [PAIR, np.array([-1, 0])], None, {}, IndexError, "target"),
    "target-backward": ("nll_loss_backward", [PAIR[:, 0].copy(), np.array([0, 7])], None, {"shape": (2, 3)}, IndexError, "target"),
    "gather-index": ("max_pool2d_gather", [PLANE, np.full((1, 1, 1, 1), 4)], None, {}, IndexError, "index"),
    "backward-index": ("max_pool2d_backward", [PLANE, np.full((1, 1, 2, 2), -1)], {}, {"shape": (1, 1, 2, 2)}, IndexError, "index"),
    "inner-sizes": ("matmul", [PAIR, PAIR], None, {}, ValueError, "inner sizes"),
    "broadcast": ("add", [PAIR, NOTHING], None, {}, ValueError, "broadcast"),
    "dtypes": ("add", [PAIR, PAIR.astype(np.float64)], None, {}, TypeError, "dtype"),
    "dtype-of-op": ("exp", [np.zeros(3, np.int32)], None, {}, TypeError, "dtype"),
    "scalar-too-large": ("add", [np.zeros(3, np.int8), 128], None, {}, ValueError, "fit"),
    "channels": ("conv2d", [PLANE, np.zeros((1, 2, 1, 1), np.float32)], None, {}, ValueError, "channels"),
    "kernel-too-large": ("conv2d", [PLANE, np.zeros((1, 1, 3, 3), np.float32)], None, {}, ValueError, "kernel"),
    "gather-range": ("gather", [PAIR, np.array([[0, 2, 0]])], {"axis": 0}, {}, IndexError, "index out of range: got 2"),
    "gather-axis": ("gather", [PAIR, np.array([[0]])], {"axis": 2}, {}, IndexError, "axis"),
    "gather-shape": ("gather", [PAIR, np.array([[0] * 4])], {"axis": 0}, {}, ValueError, "index shape"),
    "gather-dtype": ("gather", [PAIR, np.array([[0]], np.int32)], {"axis": 0}, {}, TypeError, "index dtype"),
    "scatter-range": ("scatter", [PAIR, np.array([[-1]]), PAIR[:1, :1].copy()], {"axis": 0}, {}, IndexError, "index out of range: got -1"),
    "scatter-src": ("scatter", [PAIR, np.array([[0]]), PAIR], {"axis": 0}, {}, ValueError, "src shape"),
    "scatter-add-range": ("scatter_add", [PAIR, np.full((2, 3), 9)], {"axis": 0}, {"shape": (4, 3)}, IndexError, "range: got 9"),
    "scatter-add-out": ("scatter_add", [PAIR, np.zeros((2, 3), np.int64)], {"axis": 0}, {"shape": (4, 2)}, ValueError, "index shape"),
    "nonzero-count": ("nonzero", [np.array([True, False])], None, {"shape": (2,)}, ValueError, "true elements"),
    "topk-k": ("topk", [PAIR], {"axis": 1, "k": 4}, {}, IndexError, "k: got 4"),
    "cumsum-axis": ("cumsum", [PAIR], {"axis": -1}, {}, IndexError, "axis"),
    "unknown-op": ("no_such_op", [PAIR], None, {}, ValueError, "no_such_op"),
    "unknown-attribute": ("sum", [PAIR], {"axis": 0}, {}, ValueError, "axis"),
    "norm-axis": ("layer_norm", [PAIR, None, None, 1e-5], {"axis": 2}, {}, IndexError, "axis"),
    "norm-weight": ("layer_norm", [PAIR, PAIR[0, :2].copy(), None, 1e-5], {"axis": 1}, {}, ValueError, "weight"),
    "norm-channels": ("batch_norm", [PAIR, PAIR[0, :2].copy(), None, 1e-5], None, {}, ValueError, "weight"),
    "norm-rank": ("batch_norm", [PAIR[0].copy(), None, None, 1e-5], None, {}, ValueError, "at least 2 dimensions"),
    "norm-grad": ("batch_norm_backward", [PAIR, PLANE, PAIR[0], PAIR[0], None], None, {}, ValueError, "x shape"),
    "average-window": ("avg_pool2d", [PLANE], {"kernel": (3, 3)}, {}, ValueError, "window"),
    "average-shape": ("avg_pool2d_backward", [PLANE], {"kernel": (2, 2)}, {"shape": (1, 1, 2, 2)}, ValueError, "grad shape"),
    "adaptive-size": ("adaptive_avg_pool2d", [PLANE], {"size": (0, 1)}, {}, ValueError, "size"),
    "no-dtype": ("fill", [1.0], None, {"shape": (2,)}, TypeError, "dtype"),
}


@pytest.mark.parametrize("name", CALLS)
def test_error(name: str, device) -> None:
    op, inputs, attributes, options, kind, text = CALLS[name]
    arrays = [hal.array(i, device=device) if isinstance(i, np.ndarray) else i for i in inputs]
    with pytest.raises(kind, match=text):
        out = hal.run(op, arrays, attributes, **options)
        for array in out if isinstance(out, tuple) else (out,):
            array.numpy()
    device.synchronize()  # told once
    assert hal.run("add", [hal.array(PAIR, device=device), 1.0]).numpy().sum() == 6
