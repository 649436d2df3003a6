"""The device under test, with fallback to the host forbidden: equal bits through fallback prove nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def device() -> Iterator[Any]:
    import hal
    from conformance.execute import test_device

    with hal.fallback("error"):
        yield test_device()
