"""The device under test, and kit.py beside the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hal
import oneflow_mini as flow

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture
def dev() -> str:
    return os.environ.get("HAL_TEST_DEVICE") or hal.host_device().name


@pytest.fixture(autouse=True)
def same_start() -> Iterator[None]:
    flow.manual_seed(0)
    with hal.fallback("error"):
        yield
