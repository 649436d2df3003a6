"""Tier 1: the example, and what the base class makes of hooks."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chips import MemoryOnly, register

import hal

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "memory_only.py"


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 80


def test_data_goes_there_and_back() -> None:
    device, _ = register(MemoryOnly)
    x = np.random.default_rng(0).standard_normal((33, 7)).astype(np.float32)
    assert np.array_equal(hal.array(x, device=device).numpy(), x)
    assert device.memory_stats()["raw_allocations"] == 1


def test_every_op_falls_back_and_is_counted() -> None:
    device, _ = register(MemoryOnly)
    x = hal.array([1.0, 2.0, 3.0], dtype="f32", device=device)
    y = hal.run("add", [x, 0.5])
    assert y.device.name == device.name
    assert y.numpy().tolist() == [1.5, 2.5, 3.5]
    (record,) = [r for r in hal.fallback_records() if r["device"] == device.name]
    assert (record["op"], record["dtype"], record["calls"]) == ("add", "f32", 1)
    with hal.fallback("error"), pytest.raises(hal.UnsupportedError, match="fallback is forbidden"):
        hal.run("add", [x, 0.5])


def test_copies_inside_the_device_overlap_as_memmove() -> None:
    _, plugin = register(MemoryOnly)
    memory = plugin.alloc(0, 16, 64)
    memory[:] = np.arange(16)
    plugin.copy(0, memory, 4, memory, 0, 12)
    assert memory.tolist() == [0, 1, 2, 3, *range(12)]


@pytest.mark.parametrize("hook", ["devices", "alloc", "copy_from_host"])
def test_a_hook_that_is_not_implemented_is_named(hook: str) -> None:
    base = getattr(hal.Plugin, hook)
    with pytest.raises(hal.Error, match=f"doesn't implement the hook '{hook}'"):
        device, _ = register(MemoryOnly, **{hook: base})
        hal.array([1.0], dtype="f32", device=device)


def test_the_exceptions_of_hooks_keep_their_frames() -> None:
    def copy_to_host(self: Any, stream: Any, data: memoryview, src: Any, offset: int) -> None:
        {}["a key that is not there"]

    device, _ = register(MemoryOnly, copy_to_host=copy_to_host)
    x = hal.array([1.0], dtype="f32", device=device)
    with pytest.raises(hal.InternalError, match="copy_to_host raised KeyError: 'a key that is not there'") as caught:
        x.numpy()
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "copy_to_host"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (MemoryError("no room"), hal.OutOfMemoryError),
        (hal.OutOfMemoryError("no room"), hal.OutOfMemoryError),
        (NotImplementedError("no room"), hal.UnsupportedError),
        (hal.DeviceLostError("no room"), hal.DeviceLostError),
        (ValueError("no room"), hal.InternalError),
    ],
)
def test_exceptions_become_their_kind(raised: Exception, expected: type[Exception]) -> None:
    def alloc(self: Any, device: Any, size: int, alignment: int) -> Any:
        raise raised

    device, _ = register(MemoryOnly, alloc=alloc)
    with pytest.raises(expected, match="no room") as caught:
        hal.empty((4,), "f32", device)
    assert caught.value.__cause__ is raised


def test_an_interrupt_in_a_hook_stays_an_interrupt() -> None:
    def copy_from_host(self: Any, *args: Any) -> None:
        raise KeyboardInterrupt

    device, _ = register(MemoryOnly, copy_from_host=copy_from_host)
    with pytest.raises(KeyboardInterrupt):
        hal.array([1.0], dtype="f32", device=device)


def test_host_memory_is_not_usable_after_the_call() -> None:
    kept = []

    def copy_from_host(self: Any, stream: Any, dst: Any, offset: int, data: memoryview) -> None:
        kept.append(data)

    device, _ = register(MemoryOnly, copy_from_host=copy_from_host)
    hal.array([1.0], dtype="f32", device=device)
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])


def test_a_failing_init_is_a_reason() -> None:
    def devices(self: Any) -> Any:
        raise hal.UnavailableError("the board is not plugged in")

    with pytest.raises(hal.UnavailableError, match="the board is not plugged in"):
        register(MemoryOnly, devices=devices)


def test_devices_with_nonsense_are_refused() -> None:
    for properties in ({"total_memory": "much"}, {"total_memory": 1, "capabilities": ["flying"]}, {"total_memory": -1}):
        with pytest.raises(hal.Error):
            register(MemoryOnly, devices=lambda self, p=properties: [p])


def test_options_reach_open() -> None:
    _, plugin = register(MemoryOnly)
    with pytest.raises(ValueError, match="unknown options"):
        plugin.open(0, "fast=1")


def test_ids_are_checked() -> None:
    for bad in ("", "My Chip", "9chip", "a" * 70):
        with pytest.raises(ValueError, match="expected"):
            hal.register_plugin(type("Bad", (MemoryOnly,), {"id": bad}))
    with pytest.raises(TypeError, match="expected a subclass"):
        hal.register_plugin(int)  # type: ignore[arg-type]


def test_an_id_that_is_taken_is_refused() -> None:
    _, plugin = register(MemoryOnly)
    with pytest.raises(ValueError, match="is taken"):
        hal.register_plugin(type("Second", (MemoryOnly,), {"id": plugin.id}))


def test_incomplete_hooks_are_refused() -> None:
    for hooks in ({"compile": lambda self, *a: None}, {"record": lambda self, s: None}):
        with pytest.raises(ValueError, match=r"go together|needs marker_done"):
            register(MemoryOnly, **hooks)


def test_memory_is_given_back() -> None:
    freed = []

    def free(self: Any, device: Any, memory: Any) -> None:
        freed.append(len(memory))

    device, _ = register(MemoryOnly, free=free)
    free_before, total = device.memory_info()
    x = hal.empty((1 << 20,), "f32", device)
    assert device.memory_info() == (free_before - (4 << 20), total)
    del x
    device.empty_cache()
    assert freed == [4 << 20]
    assert device.memory_info() == (total, total)
