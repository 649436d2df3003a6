"""Argument types of kernels, read from their source: program binaries lose them, so manifests keep them."""

from __future__ import annotations

import re

_KERNEL = re.compile(r"^HAL_KERNEL\((\w+), (\d+), \((.*?)\)\) \{", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"typedef struct \{ hal_i64 v\[(\d+)\]; \} (\w+);")


def signatures(source: str) -> dict[str, tuple[str, ...]]:
    """Kernel -> C types of its parameters in order, as `Step.argument_types` has them: "pointer", "i64" or "block:N"."""
    blocks = {name: count for count, name in _BLOCK.findall(source)}
    found = {}
    for name, _, parameters in _KERNEL.findall(source):
        types = []
        for parameter in parameters.split(","):
            words = parameter.split()
            types.append("pointer" if "*" in parameter else "i64" if words[0] == "hal_i64" else f"block:{blocks[words[0]]}")
        found[name] = tuple(types)
    return found


def lanes(source: str) -> dict[str, int]:
    """Kernel -> work-items of a group where the target has threads."""
    return {name: int(count) for name, count, _ in _KERNEL.findall(source)}
