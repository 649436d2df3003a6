"""From a Plugin to a device: its hooks and kernels, as the C++ side wants them."""

from __future__ import annotations

import re
from typing import Any

from .. import _core
from . import probe
from .base import Plugin

REQUIRED = ("devices", "open", "close", "alloc", "free", "copy_from_host", "copy_to_host", "copy")
OPTIONAL = (
    "memory_info", "synchronize", "host_address", "create_stream", "destroy_stream",
    "record", "marker_done", "wait_marker", "order_after", "marker_time",
)  # fmt: skip


_opened: dict[tuple[str, int], tuple[Plugin, Any]] = {}


def facts(plugin_id: str, ordinal: int) -> dict[str, str]:
    """What a plugin written in Python tells `hal doctor` of a device that is open; nothing of others."""
    if (plugin_id, ordinal) not in _opened:
        return {}
    plugin, device = _opened[plugin_id, ordinal]
    return dict(plugin.facts(device))


def register_plugin(plugin: type[Plugin] | Plugin) -> Plugin:
    """Makes the devices of a plugin written in Python known to this process; the entry-point group ``hal.plugins`` does it for packages.

    plugin: a subclass of `Plugin`, or an instance. Returns the instance. Its devices are asked for when they are first needed.

    Raises TypeError for anything else, ValueError for a bad or missing id, an incomplete set of hooks, or an id that is taken.
    """
    instance = plugin() if isinstance(plugin, type) else plugin
    if not isinstance(instance, Plugin):
        raise TypeError(f"[register_plugin] got {type(instance).__name__}, expected a subclass of hal.plugin.Plugin, or an instance")
    if any(record["id"] == instance.id for record in _core.plugin_records(load=False)):
        raise ValueError(f"[register_plugin] the id {instance.id!r} is taken: a plugin with it has been found or registered already")
    register(instance, f"{type(instance).__module__}:{type(instance).__qualname__}")
    return instance


def register(plugin: Plugin, origin: str, source: str = "") -> None:
    """As `register_plugin`, without a look at ids that others have: the runtime tells the user to choose.

    source: "module:attribute" where a child process finds the plugin, to probe it; "": it isn't probed.
    """
    who = f"[plugin {plugin.id or type(plugin).__name__}]"
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", plugin.id):
        raise ValueError(f"{who} its id is {plugin.id!r}, expected [a-z][a-z0-9_]*, at most 64 characters")
    if plugin._overrides("record") and not (plugin._overrides("marker_done") and plugin._overrides("wait_marker")):
        raise ValueError(f"{who} a plugin with the hook record needs marker_done and wait_marker too")
    if plugin._overrides("compile") != plugin._overrides("launch"):
        raise ValueError(f"{who} the hooks compile and launch go together: only one is implemented")
    plugin._kernels = plugin._own_kernels()
    plugin._primary = {row["name"]: row["primary"] for row in _core.op_table()}
    plugin._library = None
    rows: list[tuple[Any, ...]] = []
    for info, _ in plugin._kernels:
        rows.append((info.op, list(info.dtypes), info.numerics == "fast", info.layouts == "contiguous", False))
    if plugin._overrides("compile"):
        from .portable import Library

        plugin._library = Library(plugin)
        rows += plugin._library.rows()
    hooks: dict[str, Any] = {name: getattr(plugin, name) for name in REQUIRED}
    hooks.update({name: getattr(plugin, name) for name in OPTIONAL if plugin._overrides(name)})
    hooks["prepare"] = plugin._prepare
    hooks["open"] = lambda ordinal, options: _opened.setdefault((plugin.id, ordinal), (plugin, plugin.open(ordinal, options)))[1]
    if source:
        hooks["devices"] = probe.guarded(plugin.devices, source)
    _core.register_python_plugin(plugin.id, plugin.version, hooks, rows, origin)
