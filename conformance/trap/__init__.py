"""trap: the adversarial device. It keeps the ABI to the letter and gives nothing beyond: memory faults when the host touches it, work runs
late and in every order that events allow (by a seed), and faults come where they are asked for.

It isn't in the default list of devices. Ask for it with `register()`, or from a shell with
``HAL_PLUGIN_PATH=$(python -m conformance.trap) hal conformance trap:0``; its settings then come from ``HAL_TRAP=seed=3&kernel=5`` or from
the device string (``trap:0?seed=3``). It computes with the kernels of the host plugin.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from pkgutil import extend_path

import hal
from hal import _core

__path__ = extend_path(__path__, __name__)

FAULTS = ("alloc", "prepare", "launch", "kernel", "copy", "lose")
_LIBRARY = "libhal_trap.so"


def library_path() -> str:
    """Absolute path of the plugin's library.

    Raises:
        FileNotFoundError: it hasn't been built or installed.
    """
    for folder in __path__:
        path = Path(folder) / _LIBRARY
        if path.is_file():
            return str(path.resolve())
    raise FileNotFoundError(f"[trap] {_LIBRARY} not found: looked in {', '.join(__path__)}")


def register() -> None:
    """Adds the plugin to this process's list; ``hal.device("trap:0")`` then opens it."""
    if not any(record["id"] == "trap" for record in _core.plugin_records(load=False)):
        _core.register_library("trap", library_path())


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(library_path())
    library.hal_trap_get.restype = ctypes.c_int64
    library.hal_trap_get.argtypes = [ctypes.c_char_p]
    library.hal_trap_set.argtypes = [ctypes.c_char_p]
    library.hal_trap_take_violations.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.hal_trap_take_violations.restype = None
    return library


def configure(**settings: int) -> None:
    """Changes settings of the loaded plugin at once.

    Args:
        settings: ``seed`` (of delays), ``delays`` (0 or 1), ``memory`` (bytes), or a fault of `FAULTS` with n: the n-th such call from now
            fails (0: none); ``<fault>_times``: that many calls in a row. ``launch`` fails at the call, ``kernel`` and ``copy`` fail late,
            ``lose`` loses the device at the n-th submission, for good.

    Raises:
        ValueError: an unknown setting, or the wrong kind of value.
    """
    text = "&".join(f"{key}={int(value)}" for key, value in settings.items())
    if _library().hal_trap_set(text.encode()) != 0:
        raise ValueError(f"[trap] settings: got {text}, expected seed, delays, memory, {', '.join(FAULTS)} or their _times")


def count(name: str) -> int:
    """Live ``memories``, ``streams``, ``events``, ``executables``, or ``<fault>_calls`` and ``<fault>_fired``."""
    value = int(_library().hal_trap_get(name.encode()))
    if value < 0:
        raise ValueError(f"[trap] unknown counter: got {name!r}")
    return value


def take_violations() -> str:
    """What rules of the ABI the runtime has broken since the last call, or "" ."""
    buffer = ctypes.create_string_buffer(8192)
    _library().hal_trap_take_violations(buffer, len(buffer))
    return buffer.value.decode()


@contextmanager
def injected(**faults: int) -> Iterator[None]:
    """`configure` for the length of a block: all faults are off at its end."""
    configure(**faults)
    try:
        yield
    finally:
        configure(**dict.fromkeys(FAULTS, 0))


def open_device(index: int = 0) -> hal.Device:
    """Registers and opens ``trap:index``."""
    register()
    hal.host_device()  # its kernels are found among the libraries of this process
    return hal.device(f"trap:{index}")
