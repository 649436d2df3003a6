"""No memory at the n-th allocation of a training step, for every n: an exception, nothing leaked, and the step that follows has the bits
that it has anyway."""

from __future__ import annotations

import copy
import gc

import pytest
from steps import Training

import hal
import oneflow_mini as flow


def allocated(device: hal.Device) -> int:
    gc.collect()
    device.synchronize()
    return device.memory_stats()["allocated"]


def snapshot(t: Training) -> tuple[dict, dict, object]:
    model = {k: v.clone() for k, v in t.model.state_dict().items()}
    return model, copy.deepcopy(t.optimizer.state_dict()), flow.get_rng_state()


def restore(t: Training, saved: tuple[dict, dict, object]) -> None:
    t.model.load_state_dict(saved[0])
    t.optimizer.load_state_dict(copy.deepcopy(saved[1]))
    flow.set_rng_state(saved[2])
    t.optimizer.zero_grad()


def allocations_of(device: hal.Device, call) -> int:
    before = device.memory_stats()["allocations"]
    call()
    return device.memory_stats()["allocations"] - before


@pytest.mark.limit(300)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("started", [False, True], ids=["first step", "later step"])
def test_every_allocation_of_a_step_fails_once(device: hal.Device, optimizer: str, started: bool) -> None:
    t = Training(device.name, optimizer)
    for _ in range(2 if started else 0):
        t.step()
    saved = snapshot(t)
    t.step()
    want = t.bits()
    restore(t, saved)
    count = allocations_of(device, t.step)
    assert count > 30 and t.bits() == want, "a restored step has the same bits"
    restore(t, saved)
    level = allocated(device)
    failed = 0
    for n in range(1, count + 2):
        device._fail_allocation(n)
        try:
            t.step()
        except MemoryError as error:
            failed += 1
            assert "out of memory" in str(error) and n <= count
        finally:
            device._fail_allocation(0)
        restore(t, saved)
        assert allocated(device) == level, f"leaked at allocation {n}"
        if n % 7 == 0 or n > count - 3:
            t.step()
            assert t.bits() == want, f"after a failure at allocation {n}"
            restore(t, saved)
    assert failed == count, "each of them raised, and the one after the last didn't"


def test_a_failed_step_changes_nothing_but_what_it_wrote(device: hal.Device) -> None:
    """Without restoring: a step that fails before the optimizer leaves the parameters as they are."""
    t = Training(device.name)
    t.step()
    before = {k: v.clone() for k, v in t.model.named_parameters()}
    for n in range(1, 12):
        device._fail_allocation(n)
        with pytest.raises(MemoryError):
            t.step()
        for name, value in t.model.named_parameters():
            assert flow.equal(value, before[name])
    assert t.step() > 0


@pytest.mark.parametrize(
    "name", ["matmul", "sort", "conv2d", "softmax", "cat", "index", "cumsum", "layer_norm", "topk", "einsum", "unique"]
)
def test_single_ops(device: hal.Device, name: str) -> None:
    """Each op, with workspaces and temporaries, at each of its allocations; forward and backward."""
    x = flow.randn(4, 6, 8, device=device.name, requires_grad=True)
    w = flow.randn(8, 5, device=device.name, requires_grad=True)
    k = flow.randn(3, 6, 3, device=device.name, requires_grad=True)
    i = flow.tensor([0, 2, 1], device=device.name)
    calls = {
        "matmul": lambda: flow.matmul(x, w), "sort": lambda: flow.sort(x, dim=1)[0], "conv2d": lambda: flow.nn.functional.conv1d(x, k, padding=1),
        "softmax": lambda: flow.softmax(x, dim=1), "cat": lambda: flow.cat((x, x), dim=1), "index": lambda: x[i, :, i], "cumsum": lambda: flow.cumsum(x, dim=2),
        "layer_norm": lambda: flow.nn.functional.layer_norm(x, (8,)), "topk": lambda: flow.topk(x, 3)[0], "einsum": lambda: flow.einsum("abc,cd->bda", x, w),
        "unique": lambda: flow.unique(x).sum() + x.sum(),
    }  # fmt: skip

    def run() -> list[float]:
        for leaf in (x, w, k):
            leaf.grad = None
        y = calls[name]()
        (y * y).sum().backward()
        return [g for leaf in (x, w, k) if leaf.grad is not None for g in leaf.grad.reshape(-1).tolist()]

    want = run()
    count = allocations_of(device, run)
    for leaf in (x, w, k):
        leaf.grad = None
    level = allocated(device)
    for n in range(1, count + 1):
        device._fail_allocation(n)
        with pytest.raises(MemoryError):
            run()
        for leaf in (x, w, k):
            leaf.grad = None
        assert allocated(device) == level, f"leaked at allocation {n}"
    device._fail_allocation(0)
    assert run() == want


def test_a_limit_on_memory(device: hal.Device) -> None:
    """The other way to run out: the device itself has no more. The runtime gives back its cache first."""
    gc.collect()
    device.synchronize()
    device.empty_cache()
    base = device.memory_stats()["reserved"]
    x = flow.ones(1 << 20, device=device.name)
    device.set_memory_limit(base + (16 << 20))
    try:
        for _ in range(3):
            kept = []
            with pytest.raises(MemoryError, match="limit"):
                while True:
                    kept.append(x + 1)
            assert kept
            del kept
            assert flow.equal(x + 1, x * 2)
    finally:
        device.set_memory_limit(0)
