"""Where the installed headers and CMake files are, for authors of plugins."""

from __future__ import annotations

from pathlib import Path

from . import _core


def _installed(name: str, probe: str) -> str:
    folder = Path(_core.__file__).resolve().parent / name
    if not (folder / probe).is_file():
        raise FileNotFoundError(f"[{name}] {folder / probe} is missing: the package isn't installed completely")
    return str(folder)


def get_include() -> str:
    """Folder to pass to a compiler's ``-I``: contains ``hal/hal.h``, the generated ``hal/ops.h`` and ``hal/numerics/``."""
    return _installed("include", "hal/hal.h")


def cmake_dir() -> str:
    """Value for ``-Dhal_DIR=`` so that ``find_package(hal CONFIG)`` finds the target ``hal::headers``."""
    return _installed("cmake", "halConfig.cmake")
