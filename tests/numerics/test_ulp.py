"""A sample of the exhaustive measurement (make ulp), and that its results are those of the sources as they are."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import source_hash
import ulp


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("g++") or " avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs g++ and AVX2")
    return ulp.build(tmp_path_factory.mktemp("ulp"))


def test_recorded_results_are_of_these_sources(program: Path) -> None:
    recorded, limits = ulp.read(), ulp.limits(program)
    assert set(recorded) == set(limits)
    changed = [n for n, r in recorded.items() if r.hash != source_hash.source_hash(f"hal_{n}_f32")]
    assert not changed, f"the source of {', '.join(changed)} has changed since it was measured: run make ulp"
    assert all(r.ulp <= limits[n] for n, r in recorded.items())


def test_sample(program: Path) -> None:
    """Every 50 021st input (a prime), about 86 000 for each function."""
    for name, limit in ulp.limits(program).items():
        error, _, inputs = ulp.measure(program, name, 50_021)
        assert inputs > 80_000 and 0 < error <= limit, name
        assert error <= ulp.read()[name].ulp + 5e-4, f"{name}: the sample has a larger error than was recorded for all inputs"


def test_a_fault_is_found(tmp_path: Path) -> None:
    """One coefficient's last bit changed in a copy of the headers: another hash for what uses it, and only for that."""
    before = {n: source_hash.source_hash(f"hal_{n}_f32") for n in ("exp", "sigmoid", "sin", "log")}
    changed = dict(source_hash.definitions())
    name = "hal_exp_q_f32_"
    changed[name] = changed[name].replace("0.", "0.0", 1)
    assert changed[name] != source_hash.definitions()[name]
    original = source_hash.definitions
    try:
        source_hash.definitions = lambda: changed  # type: ignore[assignment]
        after = {n: source_hash.source_hash(f"hal_{n}_f32") for n in before}
    finally:
        source_hash.definitions = original
    assert [n for n in before if before[n] != after[n]] == ["exp", "sigmoid"]


def test_the_second_judge() -> None:
    assert ulp.ulp_by_mpmath("exp", 0.0, 1.0) == 0
    assert ulp.ulp_by_mpmath("exp", 0.0, 1.0 + 2.0**-23) == 1.0
    assert abs(ulp.ulp_by_mpmath("sin", 1.0, 0.8414709568023682) - 0.4) < 0.6
