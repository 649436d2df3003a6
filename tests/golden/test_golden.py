"""The committed hashes of every op's results: on the device under test, and by the reference."""

from __future__ import annotations

import pytest

import hal
from conformance import golden
from conformance.cases import supported
from conformance.execute import expected, results, test_device


@pytest.fixture(scope="module")
def committed() -> dict:
    return golden.read()


def test_the_file_has_every_op_and_dtype(committed: dict) -> None:
    assert {(op, dtype) for op, rows in committed.items() for dtype in rows} == set(supported())
    assert all(row["cases"] > 0 for rows in committed.values() for row in rows.values())


def _assert_equal(op: str, dtype: str, got: dict, want: dict, who: str) -> None:
    assert got["inputs"] == want["inputs"], (
        f"[{op}] {dtype}: the cases have changed; if that is meant: python -m conformance.golden --write"
    )
    assert got == want, f"[{op}] {dtype}: results of {who} have changed: got {got['results']}, expected {want['results']}"


@pytest.mark.limit(300)
def test_device_has_the_golden_hashes(committed: dict) -> None:
    device = test_device()
    with hal.fallback("error"):
        for op, dtype in supported():
            got = golden.hashes(op, dtype, lambda case: results(case, device))
            _assert_equal(op, dtype, got, committed[op][dtype], device.name)


@pytest.mark.limit(300)
@pytest.mark.slow
def test_reference_has_the_golden_hashes(committed: dict) -> None:
    for op, dtype in supported():
        _assert_equal(op, dtype, golden.hashes(op, dtype, expected), committed[op][dtype], "the reference")
