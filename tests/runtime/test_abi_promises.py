"""What the runtime promises a plugin, checked by a plugin (picky.cpp): flags of kernels, alignment, lifetimes with work in flight.

The fixture fails a test if the plugin saw a rule broken.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from dispatch_fixtures import Picky, make_blocker

import hal
from hal import _core

pytestmark = pytest.mark.limit(400)  # the first test compiles


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    with hal.fallback("error"):
        yield


@pytest.fixture
def hold(picky: Picky) -> Iterator[Callable[[hal.Stream], hal.Event]]:
    yield from make_blocker(picky.device)


def vector(picky: Picky, n: int) -> hal.Array:
    return hal.array(np.arange(n, dtype=np.float32), device=picky.device)


def test_dynamic_kernel_is_prepared_once_for_all_shapes(picky: Picky) -> None:
    hal.run("add", [vector(picky, 3), vector(picky, 3)])
    before = picky.counter("prepared_add")
    for n in range(1, 40):
        x = vector(picky, n)
        np.testing.assert_array_equal(hal.run("add", [x, x]).numpy(), 2 * np.arange(n))
    assert picky.counter("prepared_add") == before


def test_contiguous_kernels_get_copies(picky: Picky) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = hal.array(a, device=picky.device)
    t = x.as_strided((4, 3), (1, 4), 0)
    np.testing.assert_array_equal(hal.run("neg", [t]).numpy(), -a.T)
    np.testing.assert_array_equal(hal.run("add", [t, t]).numpy(), 2 * a.T)
    row = x.as_strided((3, 4), (0, 1), 0)
    np.testing.assert_array_equal(hal.run("add", [x, row]).numpy(), a + a[0])
    out = hal.array(np.zeros((3, 8), np.float32), device=picky.device)
    hal.run("neg", [x], outputs=[out.as_strided((3, 4), (8, 2), 0)])
    expected = np.zeros((3, 8), np.float32)
    expected[:, ::2] = -a
    np.testing.assert_array_equal(out.numpy(), expected)


def test_misaligned_views_are_staged(picky: Picky) -> None:
    a = np.arange(10, dtype=np.float32)
    x = hal.array(a, device=picky.device)
    view = x.as_strided((4,), (1,), 3)
    np.testing.assert_array_equal(hal.run("mul", [view, 2.0]).numpy(), 2 * a[3:7])
    np.testing.assert_array_equal(hal.run("copy", [x.as_strided((3,), (-2,), 7)]).numpy(), a[7:2:-2])
    hal.run("mul", [view, 10.0], outputs=[view])
    a[3:7] *= 10
    np.testing.assert_array_equal(x.numpy(), a)
    hal.run("copy", [vector(picky, 3)], outputs=[x.as_strided((3,), (3,), 1)])
    a[[1, 4, 7]] = [0, 1, 2]
    np.testing.assert_array_equal(x.numpy(), a)


def test_fast_rows_come_first_and_only_if_wanted(picky: Picky) -> None:
    x = vector(picky, 3)
    np.testing.assert_array_equal(hal.run("mul", [x, 2.0]).numpy(), [0, 2, 4])
    with hal.numerics("fast"):
        np.testing.assert_array_equal(hal.run("mul", [x, 2.0]).numpy(), [1000, 1002, 1004])
        np.testing.assert_array_equal(hal.run("add", [x, x]).numpy(), [0, 2, 4])  # has reproducible rows only
    np.testing.assert_array_equal(hal.run("mul", [x, 2.0]).numpy(), [0, 2, 4])


def test_refusals_are_remembered(picky: Picky) -> None:
    x = hal.array(np.ones((2, 3), np.float32), device=picky.device)
    before = picky.counter("refused_mul")
    for _ in range(5):
        words = r"\[mul\] no kernel on picky:0 for \(f32, f32, f32\) \(mul takes vectors only\); fallback is forbidden"
        with pytest.raises(hal.UnsupportedError, match=words):
            hal.run("mul", [x, 2.0])
    assert picky.counter("refused_mul") == before + 1
    with hal.fallback("allow"):
        np.testing.assert_array_equal(hal.run("mul", [x, 2.0]).numpy(), np.full((2, 3), 2))


def test_executables_in_flight_outlive_their_eviction(picky: Picky, hold: Callable[[hal.Stream], hal.Event]) -> None:
    device = picky.device
    stream = hal.Stream(device)
    x = vector(picky, 64)
    device.synchronize()
    device.set_executable_cache_capacity(2)
    try:
        gate = hold(stream)
        outs = [hal.run("neg", [x.as_strided((n,), (1,), 0)], stream=stream) for n in range(1, 41)]
        assert device.executable_cache_stats()["size"] <= 2
        # Push them out of the thread's own table too.
        for n in range(1, 65):
            for m in range(1, 21):
                hal.run("mul", [x.as_strided((n,), (0,), 0), x.as_strided((n,), (1 if m == 1 else 0,), 0)])
        held = picky.counter("executables")
        gate.signal()
        stream.synchronize()
        with hal.stream(stream):
            for n, out in enumerate(outs, 1):
                np.testing.assert_array_equal(out.numpy(), -np.arange(n))
        device.synchronize()
        assert picky.counter("executables") <= held
    finally:
        device.set_executable_cache_capacity(4096)


def test_memory_in_flight_is_not_freed(picky: Picky, hold: Callable[[hal.Stream], hal.Event]) -> None:
    device = picky.device
    stream = hal.Stream(device)
    gate = hold(stream)
    with hal.stream(stream):
        x = hal.empty((1 << 20,), "f32", device)
        hal.run("neg", [x], stream=stream)
    y = hal.empty((1 << 20,), "f32", device)
    hal.run("neg", [y], stream=stream)
    del x, y
    del stream
    gc.collect()
    for n in (1 << 19, 1 << 20, 1 << 21):
        hal.run("neg", [hal.empty((n,), "f32", device)])
    gate.signal()
    device.synchronize()
    device.empty_cache()


def test_exit_with_work_in_flight(picky: Picky) -> None:
    """Work that runs is waited for; work that never will (an event nobody signals) delays the exit by seconds at most. No crash."""
    library = next(r["origin"] for r in _core.plugin_records(load=False) if r["id"] == "picky")
    script = textwrap.dedent(
        f"""
        import hal, numpy as np, sys
        hal._core.register_library("picky", {library!r})
        for name in ("picky", hal.host_device().name):
            device = hal.device(name)
            stream = hal.Stream(device)
            x = hal.array(np.ones(1000, np.float32), device=device)
            device.synchronize()
            if sys.argv[1] == "blocked":
                event = hal.Event(device, host_signalled=True)
                stream.wait(event)
            for _ in range(50):
                y = hal.run("neg", [x], stream=stream)
        print("end")
        """
    )
    for mode in ("running", "blocked"):
        done = subprocess.run([sys.executable, "-c", script, mode], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "end\n"
        assert "picky:" not in done.stderr
