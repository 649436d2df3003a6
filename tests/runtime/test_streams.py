"""Streams and events: order, host signals, poison, errors, current stream."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import hal

Blocker = Callable[[hal.Stream], hal.Event]


def bad_loss(device: hal.Device, stream: hal.Stream, blocker: Blocker | None = None) -> hal.Array:
    """An op that fails when it runs: a target outside [0, C). With a blocker the stream is held, so that the call can't fail at once."""
    x = hal.array(np.zeros((2, 3), np.float32), device=device)
    target = hal.array(np.array([0, 7]), device=device)
    device.default_stream.synchronize()
    gate = blocker(stream) if blocker else None
    out = hal.run("nll_loss", [x, target], stream=stream)
    if gate:
        gate.signal()
    return out


def test_a_failure_is_told_by_the_call_or_the_next_synchronize(device: hal.Device) -> None:
    """A device may run small work within the call; then the call itself fails, and the stream isn't poisoned."""
    stream = hal.Stream(device)
    with pytest.raises(hal.Error, match=r"^\[nll_loss\] .*7"):
        bad_loss(device, stream)
        stream.synchronize()
    stream.synchronize()


def test_a_blocked_stream_holds_its_work(device: hal.Device, blocker: Blocker) -> None:
    stream = hal.Stream(device)
    assert stream.query()
    x = hal.array(np.zeros(4, np.float32), device=device)
    device.default_stream.synchronize()
    event = blocker(stream)
    hal.run("fill", [3.0], outputs=[x], stream=stream)
    assert not stream.query()
    np.testing.assert_array_equal(x.numpy(), np.zeros(4))  # another stream isn't held
    done = stream.record_event()
    assert not done.query()
    with pytest.raises(hal.TimeoutError, match="timed out"):
        stream.synchronize(timeout=0.01)
    with pytest.raises(TimeoutError):
        done.synchronize(timeout=0.01)
    event.signal()
    done.synchronize(timeout=20)
    stream.synchronize()
    assert stream.query() and done.query()
    np.testing.assert_array_equal(x.numpy(), np.full(4, 3))


def test_events_order_streams(device: hal.Device, blocker: Blocker) -> None:
    first, second = hal.Stream(device), hal.Stream(device)
    x = hal.array(np.zeros(8, np.float32), device=device)
    device.default_stream.synchronize()
    gate = blocker(first)
    hal.run("fill", [1.0], outputs=[x], stream=first)
    event = hal.Event(device)
    event.record(first)
    second.wait(event)
    y = hal.run("add", [x, 1.0], stream=second)
    del event  # legal while a stream waits for it
    assert not second.query()
    gate.signal()
    second.synchronize()
    with hal.stream(second):
        np.testing.assert_array_equal(y.numpy(), np.full(8, 2))


def test_never_recorded_event_counts_as_done(device: hal.Device) -> None:
    event = hal.Event(device)
    assert event.query()
    event.synchronize(timeout=1)
    stream = hal.Stream(device)
    stream.wait(event)
    stream.synchronize(timeout=10)


def test_signal_twice_and_signal_of_a_plain_event(device: hal.Device, blocker: Blocker) -> None:
    event = blocker(hal.Stream(device))
    event.signal()
    with pytest.raises(hal.InvalidArgumentError):
        event.signal()
    with pytest.raises(hal.Error):
        hal.Event(device).signal()


def test_poison_surfaces_once_and_names_the_op(device: hal.Device, blocker: Blocker) -> None:
    stream = hal.Stream(device)
    bad_loss(device, stream, blocker)
    with pytest.raises(hal.Error, match=r"^\[nll_loss\] .*7"):
        stream.synchronize()
    stream.synchronize()  # cleared
    y = hal.run("fill", [1.0], shape=(2,), dtype="f32", stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(y.numpy(), [1, 1])


def test_poison_skips_later_work_and_travels_by_events(device: hal.Device, blocker: Blocker) -> None:
    first, second = hal.Stream(device), hal.Stream(device)
    x = hal.array(np.zeros(2, np.float32), device=device)
    device.default_stream.synchronize()
    gate = blocker(first)
    bad_loss(device, first)
    hal.run("fill", [9.0], outputs=[x], stream=first)
    event = first.record_event()
    second.wait(event)
    hal.run("fill", [9.0], outputs=[x], stream=second)
    gate.signal()
    with pytest.raises(hal.Error, match="nll_loss"):
        event.synchronize()
    with pytest.raises(hal.Error, match="nll_loss"):
        event.query()  # an event keeps its poison
    for stream in (first, second):
        with pytest.raises(hal.Error, match="nll_loss"):
            stream.synchronize()
    np.testing.assert_array_equal(x.numpy(), [0, 0])


def test_device_synchronize_reports_a_poison(device: hal.Device, blocker: Blocker) -> None:
    stream = hal.Stream(device)
    bad_loss(device, stream, blocker)
    with pytest.raises(hal.Error, match="nll_loss"):
        device.synchronize()
    device.synchronize()


def test_numpy_reports_a_poison(device: hal.Device, blocker: Blocker) -> None:
    y = bad_loss(device, device.default_stream, blocker)
    with pytest.raises(hal.Error, match="nll_loss"):
        y.numpy()
    device.synchronize()


def test_a_poisoned_signal(device: hal.Device, blocker: Blocker) -> None:
    stream = hal.Stream(device)
    event = blocker(stream)
    event.signal(7)
    with pytest.raises(hal.LaunchFailedError):
        stream.synchronize()


def test_waiting_lets_other_threads_run(device: hal.Device, blocker: Blocker) -> None:
    """Blocking calls give the interpreter lock away: the signal comes from another Python thread."""
    stream = hal.Stream(device)
    event = blocker(stream)
    threading.Timer(0.1, event.signal).start()
    stream.synchronize(timeout=20)


def test_dropping_a_busy_stream_neither_blocks_nor_loses_work(device: hal.Device, blocker: Blocker) -> None:
    x = hal.array(np.zeros(2, np.float32), device=device)
    device.default_stream.synchronize()
    stream = hal.Stream(device)
    event = blocker(stream)
    hal.run("fill", [4.0], outputs=[x], stream=stream)
    start = time.monotonic()
    del stream
    gc.collect()
    assert time.monotonic() - start < 5
    np.testing.assert_array_equal(x.numpy(), [0, 0])
    event.signal()
    device.synchronize()
    np.testing.assert_array_equal(x.numpy(), [4, 4])


def test_current_stream_nests_and_is_per_thread(device: hal.Device) -> None:
    a, b = hal.Stream(device), hal.Stream(device)
    seen: list[int] = []
    with hal.stream(a):
        assert device.current_stream.id == a.id
        with hal.stream(b):
            assert device.current_stream.id == b.id
            thread = threading.Thread(target=lambda: seen.append(device.current_stream.id))
            thread.start()
            thread.join(10)
        assert device.current_stream.id == a.id
    assert device.current_stream.id == device.default_stream.id
    assert seen == [device.default_stream.id]


def test_elapsed(device: hal.Device) -> None:
    if "event_timing" not in device.properties["capabilities"]:
        with pytest.raises(hal.UnsupportedError):
            hal.Event(device, timing=True)
        return
    start, end = hal.Event(device, timing=True), hal.Event(device, timing=True)
    x = hal.empty((1 << 22,), "f32", device)
    start.record()
    hal.run("fill", [1.0], outputs=[x])
    end.record()
    end.synchronize()
    assert 0 < start.elapsed(end) < 60
    with pytest.raises(ValueError, match="timing"):
        start.elapsed(hal.Event(device, timing=True))  # never recorded


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_bad_timeout(device: hal.Device, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        hal.Stream(device).synchronize(timeout=timeout)
