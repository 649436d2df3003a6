"""Devices written in Python. A class becomes a device behind the same C ABI that native plugins use.

Three tiers of effort, each on top of the one before:

1. memory only: `Plugin.devices`, `alloc`, `free`, `copy_from_host`, `copy_to_host`, `copy`. Every op runs on the host device, counted.
2. portable kernels: also `compile` and `launch`. The portable library gives kernels for every op of the table.
3. kernels of your own: methods marked with `kernel`, op by op.

>>> import hal
>>> from hal.plugin import Plugin
>>> class MyChip(Plugin):
...     id = "mychip"
...     ...
>>> hal.register_plugin(MyChip)          # or the entry point `mychip = "mychip:MyChip"` in the group hal.plugins

`docs/plugin-guide.md` goes through all of it; `hal new-plugin mychip` writes a package to start from.
"""

from __future__ import annotations

from .base import Plugin, Properties
from .kernels import Operand, Tensor, kernel
from .registration import register_plugin

__all__ = ["Operand", "Plugin", "Properties", "Tensor", "kernel", "register_plugin"]
