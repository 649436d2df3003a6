"""Tensors of more than 2^31 elements (of one byte each): index arithmetic in 32 bits would wrap. Up to 8 GB of memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import numpy as np
import pytest

import hal
import oneflow_mini as flow

N = (1 << 31) + 4097
#: places on both sides of 2^31, where 32-bit arithmetic would go wrong, and the ends
PLACES = [0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, N - 2, N - 1]


def free_memory() -> int:
    try:
        with open("/proc/meminfo") as info:
            return next(int(line.split()[1]) << 10 for line in info if line.startswith("MemAvailable"))
    except OSError:
        return 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.limit(600),
    pytest.mark.skipif(free_memory() < 12 << 30 and not os.environ.get("HAL_TEST_LARGE"), reason="needs 12 GB of free memory"),
]


@pytest.fixture(autouse=True)
def clean(device: hal.Device) -> Iterator[None]:
    yield
    gc.collect()
    device.synchronize()
    device.empty_cache()


@pytest.fixture
def x(device: hal.Device) -> flow.Tensor:
    """Zeros of int8, with 1, 2, … 7 at PLACES."""
    t = flow.zeros(N, dtype=flow.int8, device=device.name)
    for k, p in enumerate(PLACES):
        t[p] = k + 1
    return t


def read(t: flow.Tensor) -> list[int]:
    return [int(t[p].item()) for p in PLACES]


def test_selecting_and_slicing(x: flow.Tensor) -> None:
    assert read(x) == [1, 2, 3, 4, 5, 6, 7]
    tail = x[(1 << 31) - 1 :]
    assert tail.shape == (4098,) and tail[:3].tolist() == [3, 4, 5] and tail[-2:].tolist() == [6, 7]
    tail.add_(1)
    assert read(x) == [1, 2, 4, 5, 6, 7, 8]
    step = x[1 :: (1 << 30)]
    assert step.tolist() == [2, 0, 6]
    square = x[: 1 << 31].view(1 << 16, 1 << 15)
    assert square[-1, -1].item() == 4 and square[0, 0].item() == 1


def test_pointwise(x: flow.Tensor) -> None:
    y = x + 3
    assert read(y) == [4, 5, 6, 7, 8, 9, 10] and int(y[N // 2].item()) == 3
    del y
    big = x > 3
    assert read(big) == [0, 0, 0, 1, 1, 1, 1] and flow.sum(big).item() == 4
    x.mul_(big)
    assert read(x) == [0, 0, 0, 4, 5, 6, 7]
    del big
    rows = x[: 1 << 31].view(1 << 10, 1 << 21)
    rows.add_(flow.arange(1 << 10, device=x.device).remainder(3).to(flow.int8).unsqueeze(1))  # broadcast, strided
    assert rows[1022, 5].item() == 2 and rows[1023, -2].item() == 0 and rows[1, 0].item() == 1


def test_reductions(x: flow.Tensor) -> None:
    assert x.sum().item() == 28 and x.amax().item() == 7 and x.amin().item() == 0
    assert x.argmax().item() == N - 1 and flow.any(x == 5).item() and not flow.all(x == 5).item()
    x[N - 1] = 0
    x[5] = -1
    assert x.argmax().item() == N - 2 and x.argmin().item() == 5
    rows = x[: 1 << 31].view(2, 1 << 30)
    assert rows.sum(dim=1).tolist() == [2, 3] and rows.argmax(dim=1).tolist() == [1, (1 << 30) - 1]
    columns = x[: 1 << 31].view(1 << 30, 2)
    assert columns.sum(dim=0).tolist() == [1, 4]


def test_copies(x: flow.Tensor) -> None:
    y = x.clone()
    assert read(y) == read(x)
    y.zero_()
    y[1:] = x[:-1]
    assert [int(y[p + 1].item()) for p in PLACES[:-1]] == [1, 2, 3, 4, 5, 6] and y[0].item() == 0
    del y
    turned = x[: 1 << 31].view(1 << 20, 1 << 11).transpose(0, 1).contiguous()
    assert turned.shape == (1 << 11, 1 << 20)
    assert turned[0, 0].item() == 1 and turned[1, 0].item() == 2 and turned[-1, -1].item() == 3 and turned.sum().item() == 6


def test_casts_and_numpy(x: flow.Tensor) -> None:
    b = x.to(flow.bool)
    assert read(b) == [1] * 7 and flow.sum(b).item() == 7
    del b
    a = x.numpy()
    assert a.shape == (N,) and [int(a[p]) for p in PLACES] == read(x)
    a[1 << 31] = 9
    t = flow.tensor(a, device=x.device)
    assert t[1 << 31].item() == 9 and t[N - 1].item() == 7


def test_cat_and_flip(x: flow.Tensor) -> None:
    half = 1 << 30
    y = flow.cat((x[half:], x[:half]))
    assert y.shape == (N,) and y[N - half].item() == 1 and y[N - half - 1].item() == 7 and y[half].item() == 4
    del y
    z = flow.flip(x, (0,))
    assert [int(z[N - 1 - p].item()) for p in PLACES] == read(x)
    del z
    rows = flow.cat((x.view(1, N)[:, : 1 << 31].view(2, 1 << 30), flow.ones(2, 5, dtype=flow.int8, device=x.device)), dim=1)
    assert rows.shape == (2, (1 << 30) + 5) and rows[0, -1].item() == 1 and rows[1, (1 << 30) - 1].item() == 3


def test_indexing(x: flow.Tensor) -> None:
    places = flow.tensor(PLACES, device=x.device)
    assert x[places].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert flow.gather(x, 0, places).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert flow.index_select(x, 0, places.flip((0,))).tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert x.take(places[3:]).tolist() == [4, 5, 6, 7]
    x[places] = flow.full((7,), 9, dtype=flow.int8, device=x.device)
    assert read(x) == [9] * 7 and x.sum().item() == 63
    x.scatter_(0, places, -3)
    assert read(x) == [-3] * 7
    with pytest.raises(IndexError):
        x[flow.tensor([N], device=x.device)].tolist()
    rows = x[: 1 << 31].view(1 << 11, 1 << 20)
    assert rows[flow.tensor([2047, 0], device=x.device)][:, [0, -1]].tolist() == [[0, -3], [-3, 0]]


def test_nonzero_and_masks(x: flow.Tensor) -> None:
    """The places of what isn't zero are 64-bit; a mask reads and writes there."""
    mask = x != 0
    assert flow.nonzero(mask).reshape(-1).tolist() == PLACES
    assert x[mask].tolist() == [1, 2, 3, 4, 5, 6, 7]
    x[mask] = 2
    assert read(x) == [2] * 7
    x.masked_fill_(mask, 5)
    assert read(x) == [5] * 7


def test_cumsum_of_a_part(device: hal.Device) -> None:
    """cumsum gives int64, 8 bytes an element: along a short axis of a long tensor read by strides beyond 2^31."""
    t = flow.zeros(N, dtype=flow.int8, device=device.name)
    t[PLACES[3] :] = 1
    far = t[:: (1 << 11) + 1]  # a million elements, spread over all of it
    sums = flow.cumsum(far, dim=0)
    want = np.arange(far.shape[0]) * ((1 << 11) + 1) >= PLACES[3]
    assert sums.tolist()[-3:] == np.cumsum(want)[-3:].tolist()
    half = flow.zeros((1 << 31) + 100, 1, dtype=flow.bool, device=device.name)
    half[-3:] = True
    assert flow.cumsum(half[-10:], dim=0).reshape(-1).tolist() == [0] * 7 + [1, 2, 3]


def test_random_numbers_beyond(device: hal.Device) -> None:
    """The counter is the element's index: element 2^31 + i is element i of a draw that starts 2^31 words later."""
    draw = lambda offset, n: hal.run("random_bernoulli", [7, offset, 0.5], outputs=[hal.empty((n,), "bool", device)])
    far, near = draw(0, N).as_strided((4000,), (1,), 1 << 31).numpy(), draw(1 << 31, 4000).numpy()
    assert (far == near).all() and 1500 < near.sum() < 2500
