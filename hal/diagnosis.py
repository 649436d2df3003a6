"""What is installed, what works, what doesn't and why: the data behind ``hal doctor``."""

from __future__ import annotations

import os
import platform
import re
from typing import Any

from . import _core
from .plugin import registration

_MISSING_LIBRARY = re.compile(r"([\w.+-]+\.so[\w.]*): cannot open shared object file")


def doctor() -> dict[str, Any]:
    """A JSON-able report on every plugin and device. Loads all plugins and opens their devices; runs no op.

    Per plugin: id, origin, availability with reason, missing libraries, versions, optional tables, devices. Per device:
    properties, memory, allocator, executable cache, ops by native / portable / fast only / no kernel, fallbacks so far.
    """
    from . import __version__

    records = _core.plugin_records(load=True)
    return {
        "hal": __version__,
        "abi": _core.ABI_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": _core.get_num_threads(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("HAL_")},
        "plugins": [_plugin(record) for record in records],
    }


def missing_libraries(reason: str) -> list[str]:
    """Shared libraries that the dynamic linker named as missing in an error text."""
    return _MISSING_LIBRARY.findall(reason)


def _plugin(record: dict[str, Any]) -> dict[str, Any]:
    out = dict(record, missing_libraries=missing_libraries(record["reason"]), devices=[])
    for index in range(record["device_count"] if record["available"] else 0):
        name = f"{record['id']}:{index}"
        try:
            out["devices"].append(_device(_core.device(name)))
        except Exception as error:
            out["devices"].append({"name": name, "error": str(error)})
    return out


def _device(device: Any) -> dict[str, Any]:
    free, total = device.memory_info()
    return {
        "name": device.name,
        "is_host": device.is_host,
        "properties": dict(device.properties),
        "memory": {"free": free, "total": total},
        "allocator": dict(device.memory_stats()),
        "executable_cache": dict(device.executable_cache_stats()),
        "facts": registration.facts(device.id, device.index),
        "ops": op_coverage(device.name),
        "fallbacks": [dict(r) for r in _core.fallback_records() if r["device"] == device.name],
    }


def op_coverage(name: str) -> dict[str, Any]:
    """How a device serves each (op, dtype) of the table by reproducible kernels.

    Returns counts per kind, and per op the dtypes of each kind. Kinds: ``native`` and ``portable`` kernels; ``fast``: only a
    kernel without the reproducible contract; ``none``: no kernel, so that the op falls back to the host device, or is
    unsupported on the host device itself.
    """
    served: dict[tuple[str, str], str] = {}
    for row in _core.device_kernels(name):
        kind = row["origin"] if row["numerics"] == "reproducible" else "fast"
        for dtype in row["dtypes"]:
            key = (row["op"], dtype)
            if key not in served or served[key] == "fast":  # rows are tried in order; a reproducible one counts before a fast one
                served[key] = kind
    counts = {"native": 0, "portable": 0, "fast": 0, "none": 0}
    per_op: dict[str, dict[str, list[str]]] = {}
    for op in _core.op_table():
        kinds: dict[str, list[str]] = {}
        for dtype in op["dtypes"]:
            kind = served.get((op["name"], dtype), "none")
            if kind == "none" and op["category"] == "custom":
                continue  # another plugin's own op
            counts[kind] += 1
            kinds.setdefault(kind, []).append(dtype)
        if kinds:
            per_op[op["name"]] = kinds
    return {"counts": counts, "per_op": per_op}
