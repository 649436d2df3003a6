"""Plugins for the tests, each with an id of its own: a process can't forget one."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import hal

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "plugins"))

from memory_only import MemoryOnly

_numbers = itertools.count()


def register(chip: type[hal.Plugin], **hooks: Any) -> tuple[Any, hal.Plugin]:
    """(device, instance) of a fresh subclass; ``hooks`` are functions that replace methods."""
    name = f"chip{next(_numbers)}"
    plugin = hal.register_plugin(type(name, (chip,), {"id": name, **hooks}))
    return hal.device(f"{name}:0"), plugin


__all__ = ["MemoryOnly", "register"]
