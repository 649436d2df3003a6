"""What the tests of oneflow_mini share."""

from __future__ import annotations

import numpy as np
import pytest

import hal
import oneflow_mini as flow


@pytest.fixture(autouse=True)
def _same_start():
    """Each test starts with the same seed, gradients on, and fails rather than fall back to another device."""
    flow.manual_seed(0)
    flow.set_grad_enabled(True)
    with hal.fallback("error"):
        yield
    assert flow.is_grad_enabled(), "the test left gradients off"


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def f64(rng):
    """Makes f64 leaves of the given shape with values in [low, high)."""

    def make(*shape, low=-1.0, high=1.0, requires_grad=True):
        return flow.tensor(rng.uniform(low, high, shape), dtype=flow.float64, requires_grad=requires_grad)

    return make
