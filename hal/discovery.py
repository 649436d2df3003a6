"""Finding plugins, and the list of devices.

Finding is not loading: `discover` only registers paths. Sources, in order:

1. entry points of the group ``hal.plugins``: name = the plugin's id, value = a `hal.plugin.Plugin` (the class or an instance), a string
   (the library's path), or a callable without arguments that returns one of these;
2. packages in the namespace package ``devices`` that have a ``library_path`` or a ``plugin`` (the same kinds of value) and no entry point:
   a source tree that isn't installed;
3. ``HAL_PLUGIN_PATH``, read by the runtime: libraries and folders of libraries, separated by ``:``.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import _core
from .plugin import Plugin, registration

GROUP = "hal.plugins"
NAMESPACE = "devices"


_subscribers: list[Callable[[list[str]], None]] = []
_found: list[str] | None = None


def subscribe(callback: Callable[[list[str]], None]) -> None:
    """Has ``callback`` called with the ids of the plugins found, once discovery has run: before any device is used."""
    _subscribers.append(callback)
    if _found is not None:
        callback(_found)


@dataclass(frozen=True)
class DeviceInfo:
    """One device, or one plugin that is unavailable."""

    name: str  #: "mychip:0"; for an unavailable plugin its id
    available: bool
    reason: str  #: why it is unavailable, else ""
    origin: str  #: path of the plugin's library, or what registered it
    is_host: bool = False  #: serves as host: the default device and the target of fallback
    properties: dict[str, Any] = field(default_factory=dict, repr=False)  #: as ``Device.properties``

    def __str__(self) -> str:
        return self.name if self.available else f"{self.name} (unavailable: {self.reason})"


def discover() -> None:
    """Registers what entry points and the namespace package offer. The runtime calls it once, when devices are first asked for."""
    described = set()
    for point in _entry_points():
        described.add(point.value.partition(":")[0])
        _register(point.name, f"entry point {point.name} = {point.value}", point.load, point.value)
    for module_name in _undescribed_packages(described):
        plugin_id = module_name.rpartition(".")[2]
        _register(
            plugin_id, f"package {module_name}", lambda name=module_name: _offer(importlib.import_module(name)), f"{module_name}:plugin"
        )
    global _found
    _found = [record["id"] for record in _core.plugin_records(load=False)]
    for callback in _subscribers:
        callback(_found)


def _entry_points() -> list[Any]:
    from importlib import metadata  # late: it costs more than the rest of `import hal`

    found = {(p.name, p.value): p for p in metadata.entry_points(group=GROUP)}  # a package seen twice on sys.path counts once
    return [found[key] for key in sorted(found)]


def _undescribed_packages(described: set[str]) -> Iterator[str]:
    try:
        namespace = importlib.import_module(NAMESPACE)
    except ImportError:
        return
    for module in pkgutil.iter_modules(namespace.__path__):
        name = f"{NAMESPACE}.{module.name}"
        if module.ispkg and name not in described and _is_plugin(name):
            yield name


def _offer(module: Any) -> Any:
    return getattr(module, "library_path", None) or getattr(module, "plugin", None)


def _is_plugin(name: str) -> bool:
    try:
        return _offer(importlib.import_module(name)) is not None
    except Exception:  # listed as unavailable with the exception's text by _register
        return True


def _register(plugin_id: str, origin: str, load: Any, source: str) -> None:
    """A plugin that can't even be registered is listed with the reason; it must not harm the others."""
    try:
        value = load()
        if callable(value):
            value = value()
        if isinstance(value, Plugin):
            registration.register(value, origin, source.partition(" ")[0])
            return
        path = os.fspath(value)
    except Exception as error:
        _core.register_failure(plugin_id, origin, f"{origin}: {type(error).__name__}: {error}")
        return
    _core.register_library(plugin_id, path)


def devices() -> list[DeviceInfo]:
    """Every device of every plugin that was found, then the plugins that are unavailable, each with its reason.

    Loads all plugins (an unknown one is probed in a child process first) and opens their devices to read their properties.
    """
    present: list[DeviceInfo] = []
    absent: list[DeviceInfo] = []
    for record in _core.plugin_records(load=True):
        if not record["available"]:
            absent.append(DeviceInfo(record["id"], False, record["reason"], record["origin"]))
            continue
        for index in range(record["device_count"]):
            name = f"{record['id']}:{index}"
            try:
                properties = dict(_core.device(name).properties)
            except Exception as error:  # one device that fails to open must not hide the others
                absent.append(DeviceInfo(name, False, str(error), record["origin"], record["is_host"]))
            else:
                present.append(DeviceInfo(name, True, "", record["origin"], record["is_host"], properties))
    present.sort(key=lambda info: not info.is_host)
    return present + absent
