"""The thread pool, driven from C++ (thread_pool_driver.cpp)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from loader_helpers import compile_driver


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver("thread_pool_driver", tmp_path_factory.mktemp("threads"))


@pytest.mark.parametrize("check", ["ranges", "concurrent", "exceptions", "modes", "forks", "inside"])
def test_thread_pool(driver: Path, check: str) -> None:
    done = subprocess.run([str(driver), check], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr
