"""The portable kernel library behind a plugin's `compile` and `launch`: from an op on operands to the steps of a launch."""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _core, portable
from .kernels import Operand

if TYPE_CHECKING:
    from .base import Plugin

Steps = tuple[int, list[tuple[Any, ...]]]


class Library:
    """Kernels of one plugin, compiled when they are first needed and kept by (device, key of the source)."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._lock = threading.Lock()
        self._programs: dict[tuple[int, str], Mapping[str, Any]] = {}

    def rows(self) -> list[tuple[Any, ...]]:
        """Registry rows, as `_core.register_python_plugin` wants them: every op that the library has, with all its dtypes."""
        from ..ops.table import BY_NAME
        from ..portable.dispatch import planner

        return [(name, list(op.dtypes), False, False, True) for name, op in BY_NAME.items() if planner(name) is not None]

    def prepare(self, device: Any, op: str, operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Steps:
        """Raises `hal.UnsupportedError` with the library's reason."""
        target = self._plugin.target(device)
        described = [
            None if o.kind == "absent" else portable.Operand(o.dtype, o.shape, o.strides, immediate=o.kind == "immediate") for o in operands
        ]
        try:
            plan = portable.plan(op, described, dict(attributes), target)
        except portable.UnsupportedError as error:
            raise _core.UnsupportedError(str(error)) from None
        kernels = self._compiled(device, plan, target)
        steps: list[tuple[Any, ...]] = [
            (self._plugin.launch, (kernels[step.kernel], step.groups, step.lanes), [_argument(a) for a in step.arguments])
            for step in plan.steps
        ]
        if plan.status is not None:
            steps.append((self._plugin.check_status, (plan.status_text,), [("workspace", plan.status)]))
        return plan.workspace_bytes, steps

    def _compiled(self, device: Any, plan: portable.Plan, target: portable.Target) -> Mapping[str, Any]:
        with self._lock:  # one compilation at a time; the lock is the plugin's own, so no other device waits
            key = (id(device), plan.key)
            if key not in self._programs:
                names = sorted(plan.kernels)  # all: other shapes with this key launch others
                found = self._plugin.program(device, plan.key, names)
                if found is None:
                    found = self._plugin.compile(device, portable.prelude(target) + plan.source, names)
                self._programs[key] = found
                if missing := [name for name in names if name not in self._programs[key]]:
                    raise KeyError(f"compile() gave no kernel {missing[0]!r}")
            return self._programs[key]

    def forget(self, device: Any) -> None:
        """Drops what was compiled for a device."""
        with self._lock:
            self._programs = {key: program for key, program in self._programs.items() if key[0] != id(device)}


def _argument(argument: portable.Argument) -> tuple[Any, ...]:
    """As the C++ side reads it, see `read_argument` in bindings/plugin_kernel.cpp."""
    if isinstance(argument, portable.Buffer):
        return ("buffer", argument.operand, 0)
    if isinstance(argument, portable.Workspace):
        return ("workspace", argument.offset)
    if isinstance(argument, portable.Immediate):
        return ("bits", argument.operand)
    if isinstance(argument, portable.Scalar):
        return ("constant", argument.value)
    return ("constant", struct.pack(f"={len(argument.values)}q", *argument.values))


def read_status(plugin: Plugin, stream: Any, place: tuple[Any, int], text: str) -> None:
    """Waits for the two words that index ops leave behind, and raises IndexError if they tell of an index out of range."""
    words = bytearray(16)
    plugin.copy_to_host(stream, memoryview(words), *place)
    if plugin._overrides("record"):
        plugin.wait_marker(plugin.record(stream))
    elif plugin._overrides("synchronize"):
        plugin.synchronize(stream)
    failed, index = struct.unpack("=2q", words)
    if failed:
        raise _core.InvalidArgumentError(f"{text}: got {index}")
