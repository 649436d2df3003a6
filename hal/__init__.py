"""hal: one interface to every accelerator that has a plugin.

>>> import hal
>>> hal.devices()                                   # what is here, and what is unavailable and why
>>> x = hal.array([1.0, 2.0], dtype="f32", device="cpu:0")
>>> hal.run("add", [x, 1.0]).numpy()

Importing loads no plugin: plugins are found and loaded when devices are first asked for. A plugin comes from an installed
package (entry-point group ``hal.plugins``) or from ``HAL_PLUGIN_PATH``.

Dtypes are short names: bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64.

Errors: `Error` is the base of what devices report; each status code has its own subclass, which also derives from the builtin
exception nearest in meaning (`OutOfMemoryError` is a `MemoryError`, and so on).
"""

from __future__ import annotations

from pkgutil import extend_path

# The Python files and the compiled module may lie in different folders (a source tree beside an installed package).
__path__ = extend_path(__path__, __name__)

from . import _core, discovery
from ._core import (
    AbiMismatchError,
    Array,
    Device,
    DeviceLostError,
    Error,
    Event,
    InternalError,
    InvalidArgumentError,
    LaunchFailedError,
    OutOfMemoryError,
    OutOfRangeError,
    Stream,
    UnavailableError,
    UnsupportedError,
    array,
    bench_noop_launch,
    device,
    empty,
    fallback,
    fallback_records,
    get_num_threads,
    host_device,
    numerics,
    run,
    set_fallback,
    set_num_threads,
    set_numerics,
    stream,
)
from ._core import TimeoutError_ as TimeoutError
from .diagnosis import doctor
from .discovery import DeviceInfo, devices
from .paths import cmake_dir, get_include
from .plugin import Plugin, register_plugin

__version__ = "0.1.0"

_core.set_discovery(discovery.discover)

__all__ = [
    "AbiMismatchError",
    "Array",
    "Device",
    "DeviceInfo",
    "DeviceLostError",
    "Error",
    "Event",
    "InternalError",
    "InvalidArgumentError",
    "LaunchFailedError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Plugin",
    "Stream",
    "TimeoutError",
    "UnavailableError",
    "UnsupportedError",
    "array",
    "bench_noop_launch",
    "cmake_dir",
    "device",
    "devices",
    "doctor",
    "empty",
    "fallback",
    "fallback_records",
    "get_include",
    "get_num_threads",
    "host_device",
    "numerics",
    "register_plugin",
    "run",
    "set_fallback",
    "set_num_threads",
    "set_numerics",
    "stream",
]
