from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyopencl")
sys.path.insert(0, str(Path(__file__).parent))

@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of these tests' own."""
    folder = tmp_path_factory.mktemp("fpga-cache")
    before = os.environ.get("HAL_FPGA_CACHE")
    os.environ["HAL_FPGA_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["HAL_FPGA_CACHE"]
    else:
        os.environ["HAL_FPGA_CACHE"] = before


@pytest.fixture(scope="session")
def content() -> bytes:
    """An image of a few ops for device 0."""
    from fpga_cases import entries

    from devices.opencl_fpga import build

    return build.compile_entries(0, entries(0))


@pytest.fixture(scope="session")
def image_file(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from devices.opencl_fpga import image

    path = tmp_path_factory.mktemp("image") / "few.halfpga"
    image.write(path, content)
    return path
