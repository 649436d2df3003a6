"""Thousands of steps: the memory that tensors use stays where it is, and so does the process's."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest
from steps import Training

import hal


def resident() -> int:
    """Bytes of this process in memory."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        pytest.skip("needs /proc")


def run(device: hal.Device, steps: int) -> None:
    t = Training(device.name)
    for _ in range(200):  # caches fill, pools start
        t.step()
    gc.collect()
    device.synchronize()
    device.reset_peak_memory_stats()
    start, memory = device.memory_stats(), resident()
    cache = device.executable_cache_stats()
    first = t.step()
    peak = device.memory_stats()["peak_allocated"]
    for _ in range(steps):
        last = t.step()
    gc.collect()
    device.synchronize()
    end = device.memory_stats()
    assert end["allocated"] == start["allocated"] and end["reserved"] == start["reserved"], (start, end)
    assert end["raw_allocations"] == start["raw_allocations"], "the device was asked for more"
    assert end["peak_allocated"] == peak, "some step needed more than the first"
    assert device.executable_cache_stats()["size"] == cache["size"]
    assert resident() - memory < 4 << 20, f"the process grew by {resident() - memory} bytes"
    assert last < first, "and it learns"


def test_a_thousand_steps(device: hal.Device) -> None:
    run(device, 1000)


@pytest.mark.slow
@pytest.mark.limit(600)
def test_ten_thousand_steps(device: hal.Device) -> None:
    run(device, 10_000)
