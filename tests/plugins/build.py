"""Builds the C plugins of this folder the way an author outside this tree does: with CMake and the installed package only."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import hal

HERE = Path(__file__).parent


def build(name: str, folder: Path) -> Path:
    """Configures and builds ``tests/plugins/<name>`` in ``folder``; returns the build folder.

    The sources are copied first, so that nothing of the repository is near them.
    """
    cmake = shutil.which("cmake")
    if cmake is None:
        import cmake as package  # the wheel from PyPI

        cmake = str(Path(package.CMAKE_BIN_DIR) / "cmake")
    source = folder / "source"
    shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    out = folder / name
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    environment = {k: v for k, v in os.environ.items() if k != "CMAKE_GENERATOR"} if generator else dict(os.environ)
    for command in (
        [cmake, "-S", str(source / name), "-B", str(out), *generator, f"-Dhal_DIR={hal.cmake_dir()}", "-DCMAKE_BUILD_TYPE=Release"],
        [cmake, "--build", str(out), "-j2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return out
