"""Kernels for every instruction set of this machine give the golden results: HAL_CPU_ISA picks one at load."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hal, sys
from conformance import golden
device = hal.device("cpu:0")
print(dict(device.properties))
with hal.fallback("error"):
    wrong = golden.compare(device)
print("\\n".join(wrong[:5]))
sys.exit(1 if wrong else 0)
"""


@pytest.mark.limit(400)
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_golden_results(isa: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, "HAL_CPU_ISA": isa}, capture_output=True, text=True, timeout=380
    )
    if "this CPU doesn't run isa=" in done.stderr:
        pytest.skip(f"this machine doesn't run {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
