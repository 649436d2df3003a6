"""The resource estimate: operations are counted through calls, and it says everywhere that it is an estimate."""

from __future__ import annotations

import pytest
from test_cache import hal_fpga

from devices.opencl_fpga.report import BOARDS, OperationCounter, estimate

PRELUDE = """
HAL_FN hal_f32 hal_twice(hal_f32 x) { return x + x; }
HAL_FN hal_f32 hal_poly(hal_f32 x) { return HAL_FMA_F32(x, hal_twice(x), hal_twice(x)); }
"""


def kernel(body: str) -> str:
    return f"HAL_KERNEL(hal_k, 1, (GLOBAL void *p, hal_i64 o)) {{ GLOBAL hal_f32 *x = HAL_PTR(hal_f32, p, o); {body} }}"


def test_operations_are_counted_through_calls() -> None:
    counts = OperationCounter(PRELUDE, "").count("hal_f32 y; hal_i64 n; y = hal_poly(y) * y; n = n * 2; y = -y; /* y + y */")
    assert counts == {"f32 fma": 1, "f32 +": 2, "f32 *": 1, "int *": 1}


def test_an_estimate_follows_the_operations() -> None:
    (none,) = estimate(PRELUDE, kernel(""), BOARDS["u50"])
    (more,) = estimate(PRELUDE, kernel("hal_f32 y = x[0]; y = hal_poly(y);"), BOARDS["u50"])
    assert more.dsp - none.dsp == 4 + 2 * 2
    assert more.lut > none.lut and more.ff > none.ff
    assert more.interval == 1


def test_the_calibration_is_the_published_engine() -> None:
    multiplications = "hal_f32 y; " + "y = y * y; " * (2598 // 3)
    (engine,) = estimate("", kernel(multiplications), BOARDS["u50"])
    assert engine.dsp == 2598
    assert engine.lut == pytest.approx(238_000 + 2598 // 3 * 80, rel=0.01)
    assert engine.limit in ("DSP", "LUT")


def test_the_program_calls_it_an_estimate() -> None:
    done = hal_fpga("report", "--op", "exp")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ESTIMATE, not synthesised")
    assert "hal_exp_f32" in done.stdout
    assert hal_fpga("report", "--op", "exp", "--board", "u9").returncode == 1
