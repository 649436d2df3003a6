"""The plugin through the C ABI alone, driven by a small C++ host (driver.cpp, check_*.cpp) built with the system compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from devices.cpu import library_path

pytestmark = pytest.mark.limit(700)  # the first test builds the driver

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHECK_TIMEOUT_S = 120
SOURCES = sorted(HERE.glob("check_*.cpp")) + [HERE / "driver.cpp"]
TEXT = "\n".join(source.read_text(encoding="utf-8") for source in SOURCES)
CHECKS = sorted(re.findall(r"^DEFINE_CHECK\((\w+)\)", TEXT, re.MULTILINE))
ELEMENTWISE = ["pointwise_ops_equal_their_scalar_functions", "casts", "copies_of_any_strides", "fill_and_arange", "high_rank_and_empty"]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the built driver."""
    folder = tmp_path_factory.mktemp("cpu_driver")
    subprocess.run([sys.executable, str(ROOT / "hal/ops/generate.py"), str(folder)], check=True, timeout=60)
    program = folder / "driver"
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-ffp-contract=off", f"-I{ROOT / 'hal/include'}", f"-I{folder}"]
    subprocess.run([*command, *map(str, SOURCES), "-o", str(program), "-ldl", "-pthread"], check=True, timeout=600)
    return program


def _run(driver: Path, options: str, check: str, **environment: str) -> None:
    result = subprocess.run(
        [str(driver), library_path(), options, check],
        capture_output=True,
        text=True,
        timeout=CHECK_TIMEOUT_S,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}{result.stderr}"


def test_every_check_is_known(driver: Path) -> None:
    listed = subprocess.run([str(driver), "-", "-", "--list"], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert sorted(listed) == CHECKS
    assert len(CHECKS) > 20


@pytest.mark.parametrize("check", [check for check in CHECKS if check != "runs_baseline_kernels"])
def test_check(driver: Path, check: str) -> None:
    _run(driver, "", check)


@pytest.mark.parametrize("check", ELEMENTWISE)
def test_check_on_baseline_kernels(driver: Path, check: str) -> None:
    _run(driver, "isa=baseline", check)


def test_device_option_wins_over_the_environment(driver: Path) -> None:
    _run(driver, "isa=baseline", "runs_baseline_kernels", HAL_CPU_ISA="avx2")
    _run(driver, "", "runs_baseline_kernels", HAL_CPU_ISA="baseline")


def test_an_unknown_instruction_set_is_refused(driver: Path) -> None:
    with pytest.raises(AssertionError, match=r"expected one of .*baseline"):
        _run(driver, "", "device_and_memory", HAL_CPU_ISA="mmx")


def test_a_failing_check_is_reported(driver: Path) -> None:
    """The driver itself can fail: a check that doesn't exist."""
    with pytest.raises(AssertionError, match="failed: found"):
        _run(driver, "", "no_such_check")
