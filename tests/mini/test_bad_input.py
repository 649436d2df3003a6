"""Bad input raises a Python exception that names what was wrong; the process lives and memory comes back."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hal
import oneflow_mini as flow
import oneflow_mini.nn.functional as F
from oneflow_mini import nn

a = lambda *shape: flow.zeros(*shape)
EXPECTED = (ValueError, TypeError, IndexError, RuntimeError)  # hal.Error is a RuntimeError

CASES = {
    "add shapes": (lambda: a(2, 3) + a(4), r"add"),
    "matmul shapes": (lambda: a(2, 3) @ a(4, 5), r"matmul"),
    "matmul of 0-d": (lambda: flow.matmul(a(), a(2)), r"matmul"),
    "where condition": (lambda: flow.where(a(2), a(2), a(2)), r"where"),
    "conv2d channels": (lambda: F.conv2d(a(1, 3, 4, 4), a(2, 4, 3, 3)), r"conv2d"),
    "conv2d rank": (lambda: F.conv2d(a(4, 4), a(2, 4, 3, 3)), r"conv2d"),
    "conv2d kernel too large": (lambda: F.conv2d(a(1, 1, 2, 2), a(1, 1, 3, 3)), r"conv2d"),
    "conv2d stride 0": (lambda: F.conv2d(a(1, 1, 4, 4), a(1, 1, 3, 3), stride=0), r"conv2d.*stride"),
    "conv2d padding negative": (lambda: F.conv2d(a(1, 1, 4, 4), a(1, 1, 3, 3), padding=-1), r"conv2d.*padding"),
    "conv2d groups 0": (lambda: F.conv2d(a(1, 1, 4, 4), a(1, 1, 3, 3), groups=0), r"conv2d.*groups"),
    "conv2d bias": (lambda: F.conv2d(a(1, 1, 4, 4), a(2, 1, 3, 3), a(3)), r"bias|add|conv2d"),
    "max_pool2d kernel 0": (lambda: F.max_pool2d(a(1, 1, 4, 4), 0), r"max_pool2d.*kernel"),
    "max_pool2d padding": (lambda: F.max_pool2d(a(1, 1, 4, 4), 2, padding=2), r"max_pool2d.*pad"),
    "softmax dim": (lambda: flow.softmax(a(2, 3), 2), r"dim"),
    "sum dim": (lambda: a(2, 3).sum(5), r"dim"),
    "sum dim twice": (lambda: a(2, 3).sum((0, 0)), r"dim"),
    "amax of nothing": (lambda: a(0).amax(), r"amax"),
    "argmax of nothing": (lambda: a(0).argmax(), r"argmax"),
    "cross_entropy batch": (lambda: F.cross_entropy(a(2, 3), flow.tensor([0])), r"target"),
    "cross_entropy dtype": (lambda: F.nll_loss(a(2, 3), a(2)), r"target"),
    "cross_entropy class": (lambda: F.cross_entropy(a(2, 3), flow.tensor([0, 3])).item(), r"target|class"),
    "nll_loss negative class": (lambda: F.nll_loss(a(2, 3), flow.tensor([0, -1])).item(), r"target|class"),
    "reshape": (lambda: a(2, 3).reshape(4, 2), r"reshape|view"),
    "reshape two unknowns": (lambda: a(2, 3).reshape(-1, -1), r"-1"),
    "view of strided": (lambda: a(2, 3).t().view(6), r"view"),
    "permute": (lambda: a(2, 3).permute(0, 0), r"permute"),
    "transpose": (lambda: a(2, 3).transpose(0, 2), r"dim"),
    "expand": (lambda: a(2, 3).expand(2, 4), r"expand"),
    "squeeze": (lambda: a(2, 3).squeeze(4), r"dim"),
    "cat shapes": (lambda: flow.cat([a(2, 3), a(3, 4)]), r"cat"),
    "cat of nothing": (lambda: flow.cat([]), r"cat"),
    "stack shapes": (lambda: flow.stack([a(2), a(3)]), r"stack"),
    "split size": (lambda: a(4).split(0), r"split"),
    "split sections": (lambda: a(4).split([1, 2]), r"split"),
    "index": (lambda: a(2, 3)[2], r"index"),
    "index negative": (lambda: a(2, 3)[-3], r"index"),
    "index too many": (lambda: a(2, 3)[0, 0, 0], r"indices|index"),
    "index of text": (lambda: a(2)["x"], r"ind"),
    "assign shape": (lambda: a(2, 3).__setitem__(0, a(5)), r"shape|expand|broadcast|copy|size"),
    "item of many": (lambda: a(2).item(), r"item|scalar|element"),
    "bool of many": (lambda: bool(a(2)), r"ambiguous"),
    "negative size": (lambda: flow.empty(-1), r"size|shape|negative"),
    "size of text": (lambda: flow.zeros("3"), r".*"),
    "huge": (lambda: flow.empty(2**40, 2**40), r".*"),
    "huge elements": (lambda: flow.empty(2**62), r".*"),
    "arange step 0": (lambda: flow.arange(0, 5, 0), r"step|arange"),
    "arange direction": (lambda: flow.arange(5, 0), r"arange"),
    "randint range": (lambda: flow.randint(5, 5, (2,)), r"randint|high"),
    "ragged": (lambda: flow.tensor([[1, 2], [3]]), r"tensor|length|sequence"),
    "tensor of text": (lambda: flow.tensor("abc"), r"tensor"),
    "tensor of None": (lambda: flow.tensor([None]), r"tensor|None"),
    "int too large": (lambda: flow.tensor(2**70), r"large|int"),
    "device string": (lambda: flow.zeros(2, device="nochip:0"), r"nochip"),
    "device index": (lambda: flow.zeros(2, device=hal.host_device().id + ":999"), r"999"),
    "dtype": (lambda: flow.zeros(2, dtype="float33"), r"dtype|float33"),
    "dtype of floor": (lambda: flow.tensor([1, 2]).fill_("x"), r".*"),
    "copy_": (lambda: a(2).copy_(a(3)), r"copy|shape|broadcast|expand"),
    "in-place grows": (lambda: a(3).add_(a(2, 3)), r"add|shape|broadcast"),
    "in-place to int": (lambda: flow.tensor([1, 2]).add_(0.5), r"dtype|cast|type"),
    "numpy of a graph": (lambda: (a(2).requires_grad_() * 2).numpy(), r"requires.grad|detach"),
    "from_numpy object": (lambda: flow.from_numpy(np.array([None])), r"dtype|from_numpy"),
    "from_numpy not an array": (lambda: flow.from_numpy([1]), r".*"),
    "from_dlpack": (lambda: flow.from_dlpack(3), r"dlpack"),
    "linear": (lambda: nn.Linear(3, 2)(a(4, 5)), r"linear|matmul"),
    "dropout p": (lambda: F.dropout(a(2), -0.1), r"dropout"),
    "linspace": (lambda: flow.linspace(0, 1, -1), r"steps"),
    "randperm": (lambda: flow.randperm(-1), r"\[randperm\] n"),
    "finfo": (lambda: flow.finfo(flow.int32), r"finfo"),
    "iinfo": (lambda: flow.iinfo(flow.float32), r"iinfo"),
    "one_hot": (lambda: F.one_hot(flow.tensor([3]), 2), r"num_classes"),
    "seed": (lambda: flow.manual_seed(2**70), r"seed"),
    "rng state": (lambda: flow.set_rng_state(a(3)), r"new_state"),
    "manual backward": (lambda: flow.autograd.backward([3]), r"tensors\[0\]"),
    "TensorDataset": (lambda: flow.utils.data.TensorDataset(a(2), a(3)), r"Size mismatch"),
    "batch_size": (lambda: flow.utils.data.DataLoader([1], batch_size=0), r"batch_size"),
    "num_workers": (lambda: flow.utils.data.DataLoader([1], num_workers=-1), r"num_workers"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_names_it(case):
    call, text = CASES[case]
    with pytest.raises(EXPECTED, match=text) as error:
        call()
    assert str(error.value), "an exception without a text"
    assert float((flow.ones(3) * 2).sum()) == 6.0  # still works


def test_not_implemented_is_said():
    with pytest.raises(NotImplementedError, match="num_workers"):
        flow.utils.data.DataLoader([1], num_workers=2)


def allocated():
    gc.collect()
    device = hal.host_device()
    device.synchronize()
    stats = device.memory_stats()
    key = next(k for k in ("allocated_bytes", "allocated", "bytes_in_use", "in_use") if k in stats)
    return stats[key]


def test_errors_leak_no_memory():
    for call, _ in CASES.values():  # once, so that caches are filled
        with pytest.raises(EXPECTED):
            call()
    before = allocated()
    for _ in range(3):
        for call, _text in CASES.values():
            with pytest.raises(EXPECTED):
                call()
    assert allocated() == before


def test_out_of_memory_by_a_limit():
    device = hal.host_device()
    before = allocated()
    device.empty_cache()
    device.set_memory_limit(before + (64 << 20))
    try:
        with pytest.raises(MemoryError) as error:
            flow.empty(1 << 30, dtype=flow.uint8)
        assert isinstance(error.value, hal.OutOfMemoryError) and str(error.value)
        held = []
        with pytest.raises(hal.OutOfMemoryError):
            while len(held) < 100:
                held.append(flow.ones(1 << 20) * 2)
        assert 1 <= len(held) < 100
        held.clear()
        assert float(flow.ones(1 << 20).sum()) == float(1 << 20)
    finally:
        device.set_memory_limit(0)
    assert allocated() == before
    assert flow.empty(128 << 20, dtype=flow.uint8).numel() == 128 << 20


def test_training_frees_what_it_used():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = flow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = flow.randn(4, 8), flow.tensor([0, 1, 0, 1])

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    step()
    before = allocated()
    for _ in range(20):
        step()
    assert allocated() == before
