"""For every test: a time limit, fixed seeds, and a line that says which device is tested.

The device is named by the environment variable HAL_TEST_DEVICE, else it is the host. HAL_TEST_PLUGIN=file.py:Class registers a plugin
written in Python first (an installed one is found by itself). HAL_TEST_PATIENCE multiplies the time limits.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import random
from collections.abc import Iterator

import numpy as np
import pytest

DEFAULT_LIMIT = 120.0  # seconds

_stderr: int | None = None


def pytest_configure(config: pytest.Config) -> None:
    global _stderr
    config.addinivalue_line(
        "markers", "limit(seconds): ends the run with a traceback of all threads if the test takes longer (default 120)"
    )
    config.addinivalue_line("markers", "slow: left out by `make test`, run by `make test-full`")
    _stderr = os.dup(2)  # the terminal, not what pytest captures
    if os.environ.get("HAL_TEST_PLUGIN"):
        from conformance.execute import register_test_plugin

        register_test_plugin()


def pytest_report_header(config: pytest.Config) -> str:
    try:
        import hal

        device = hal.device(os.environ["HAL_TEST_DEVICE"]) if os.environ.get("HAL_TEST_DEVICE") else hal.host_device()
        return f"hal device: {device.name} of {[d.name for d in hal.devices()]}"
    except Exception as error:  # the tests that need it will fail and say why
        return f"hal device: none ({type(error).__name__}: {error})"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Setup, test and teardown share one limit. The process ends: a hung native call can't be interrupted otherwise."""
    marker = item.get_closest_marker("limit")
    seconds = (float(marker.args[0]) if marker else DEFAULT_LIMIT) * float(os.environ.get("HAL_TEST_PATIENCE", "1"))
    faulthandler.dump_traceback_later(seconds, exit=True, file=_stderr if _stderr is not None else 2)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def fixed_seeds(request: pytest.FixtureRequest) -> None:
    """Python's and numpy's global generators start at a function of the test's name."""
    seed = int.from_bytes(hashlib.sha256(request.node.nodeid.encode()).digest()[:4], "little")
    random.seed(seed)
    np.random.seed(seed)
