"""The host device: this machine's CPUs, as a plugin behind the C ABI."""

from __future__ import annotations

from pathlib import Path
from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)

_LIBRARY = "libhal_cpu.so"


def library_path() -> str:
    """Absolute path of the plugin's library.

    Raises:
        FileNotFoundError: the library isn't in any folder of this package, so it hasn't been built or installed.
    """
    for folder in __path__:
        path = Path(folder) / _LIBRARY
        if path.is_file():
            return str(path.resolve())
    raise FileNotFoundError(f"[cpu] {_LIBRARY} not found: looked in {', '.join(__path__)}")
