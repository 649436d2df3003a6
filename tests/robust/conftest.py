from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import hal

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture
def device() -> hal.Device:
    name = os.environ.get("HAL_TEST_DEVICE")
    return hal.device(name) if name else hal.host_device()
