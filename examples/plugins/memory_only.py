"""A whole device in one screen: tier 1, memory only. Its memory is numpy arrays; every op falls back to the host, counted.

    python examples/plugins/memory_only.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import hal


class MemoryOnly(hal.Plugin):
    id = "memory_only"
    version = "1.0"

    def devices(self) -> list[Any]:
        return [{"name": "numpy arrays", "vendor": "example", "total_memory": 1 << 30, "memory_alignment": 64}]

    def alloc(self, device: Any, size: int, alignment: int) -> np.ndarray:
        room = np.empty(size + alignment, np.uint8)
        start = -room.ctypes.data % alignment
        return room[start : start + size]

    def free(self, device: Any, memory: np.ndarray) -> None:
        pass  # the array goes with its last reference

    def copy_from_host(self, stream: Any, dst: np.ndarray, dst_offset: int, data: memoryview) -> None:
        dst[dst_offset : dst_offset + len(data)] = np.frombuffer(data, np.uint8)

    def copy_to_host(self, stream: Any, data: memoryview, src: np.ndarray, src_offset: int) -> None:
        data[:] = src[src_offset : src_offset + len(data)].data

    def copy(self, stream: Any, dst: np.ndarray, dst_offset: int, src: np.ndarray, src_offset: int, size: int) -> None:
        dst[dst_offset : dst_offset + size] = src[src_offset : src_offset + size].copy()  # overlap: as memmove


if __name__ == "__main__":
    hal.register_plugin(MemoryOnly)
    x = hal.array([1.0, 2.0, 3.0], dtype="f32", device="memory_only:0")
    print(hal.run("add", [x, 0.5]).numpy())
    for record in hal.fallback_records():
        print(record)
