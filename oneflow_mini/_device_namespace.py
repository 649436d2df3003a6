"""``flow.<device id>``: what PyTorch's users know as ``torch.cuda``, for every device that discovery finds."""

from __future__ import annotations

from typing import Any

import hal


class DeviceNamespace:
    """Functions on the devices of one id. ``device`` arguments: an index (default 0), a name or a ``hal.Device``."""

    def __init__(self, device_id: str, infos: list[Any]) -> None:
        self._id = device_id
        self._infos = infos

    def __repr__(self) -> str:
        return f"<oneflow_mini.{self._id}: {self.device_count()} devices>"

    def _device(self, device: Any = None) -> Any:
        if device is None or isinstance(device, int):
            return hal.device(f"{self._id}:{device or 0}")
        return hal.device(device) if isinstance(device, str) else device

    def is_available(self) -> bool:
        return self.device_count() > 0

    def device_count(self) -> int:
        return sum(i.available for i in self._infos)

    def synchronize(self, device: Any = None) -> None:
        self._device(device).synchronize()

    def empty_cache(self, device: Any = None) -> None:
        self._device(device).empty_cache()

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        return self._device(device).memory_stats()

    def mem_get_info(self, device: Any = None) -> Any:
        """(free, total) bytes of the device."""
        return self._device(device).memory_info()


def add_methods(ids: list[str]) -> None:
    """``Tensor.<id>()`` and ``Module.<id>()`` for each plugin found: move to that device, as PyTorch's ``.cuda()`` does."""
    from . import _C
    from .nn import Module

    for device_id in ids:

        def move(self: Any, index: int = 0, _id: str = device_id) -> Any:
            return self.to(f"{_id}:{index}")

        move.__doc__ = f"Moves to the device {device_id}:``index``."
        for cls in (_C.Tensor, Module):
            if not hasattr(cls, device_id):
                setattr(cls, device_id, move)


def find(name: str) -> DeviceNamespace | None:
    """The namespace of the devices with this id, None if discovery finds none."""
    if all(record["id"] != name for record in hal._core.plugin_records(load=False)):
        return None  # a name that isn't there must not load every plugin
    infos = [i for i in hal.devices() if i.name.partition(":")[0] == name]
    return DeviceNamespace(name, infos) if infos else None
