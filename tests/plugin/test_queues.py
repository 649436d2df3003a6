"""Streams and events that the base class makes: order, waits, poison, and hooks that call back."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pytest
from chips import MemoryOnly, register

import hal
from hal.plugin import Tensor, kernel


def view(tensor: Tensor) -> np.ndarray:
    """The (contiguous f32) elements of a tensor in a MemoryOnly device."""
    n = int(np.prod(tensor.shape, dtype=int))
    return tensor.memory[tensor.offset : tensor.offset + 4 * n].view(np.float32).reshape(tensor.shape)


class Adder(MemoryOnly):
    """One kernel of its own."""

    @kernel("add", dtypes=["f32"], layouts="contiguous")
    def add(self, stream: Any, attributes: dict[str, Any], operands: tuple[Any, ...]) -> None:
        a, b, out = operands
        view(out)[...] = view(a) + (view(b) if isinstance(b, Tensor) else np.float32(b))


def ones(device: Any, n: int = 4) -> Any:
    return hal.array(np.ones(n, np.float32), device=device)


def test_a_kernel_of_ones_own_runs_without_fallback() -> None:
    device, _ = register(Adder)
    with hal.fallback("error"):
        assert hal.run("add", [ones(device), 2.0]).numpy().tolist() == [3.0] * 4
        assert hal.run("add", [ones(device), ones(device)]).numpy().tolist() == [2.0] * 4
        with pytest.raises(hal.UnsupportedError):
            hal.run("mul", [ones(device), 2.0])


def test_a_stream_waits_for_a_host_signalled_event() -> None:
    device, _ = register(Adder)
    stream, gate, x = hal.Stream(device), hal.Event(device, host_signalled=True), ones(device)
    out = hal.empty((4,), "f32", device)
    hal.run("add", [x, 0.0], outputs=[out])
    stream.wait(gate)
    hal.run("add", [x, 5.0], outputs=[out], stream=stream)
    done = hal.Event(device)
    done.record(stream)
    assert not stream.query()
    assert not done.query()
    assert out.numpy().tolist() == [1.0] * 4  # the other stream goes on
    with pytest.raises(hal.TimeoutError):
        stream.synchronize(timeout=0.05)
    gate.signal()
    stream.synchronize(timeout=10)
    assert done.query()
    assert out.numpy().tolist() == [6.0] * 4
    with pytest.raises(hal.InvalidArgumentError):
        gate.signal()


def test_chains_of_waits_across_streams_run_in_order() -> None:
    device, _ = register(Adder)
    streams = [hal.Stream(device) for _ in range(20)]
    gate, x = hal.Event(device, host_signalled=True), ones(device)
    streams[0].wait(gate)
    for before, after in itertools.pairwise(streams):
        hal.run("add", [x, 1.0], outputs=[x], stream=before)
        event = before.record_event()
        after.wait(event)  # the event may be dropped right after
    hal.run("add", [x, 1.0], outputs=[x], stream=streams[-1])
    assert not streams[-1].query()
    gate.signal()
    streams[-1].synchronize(timeout=10)
    assert x.numpy().tolist() == [21.0] * 4


def test_host_data_may_change_once_a_late_copy_has_been_submitted() -> None:
    device, _ = register(MemoryOnly)
    stream, gate = hal.Stream(device), hal.Event(device, host_signalled=True)
    stream.wait(gate)
    data = np.full(4, 7, np.float32)
    with hal.stream(stream):
        x = hal.array(data, device=device)
        data[:] = 0
        gate.signal()
        assert x.numpy().tolist() == [7.0] * 4


def test_a_late_failure_poisons_its_stream_once() -> None:
    def add(self: Any, stream: Any, attributes: Any, operands: Any) -> None:
        raise RuntimeError("the pipe burst")

    device, _ = register(MemoryOnly, add=kernel("add")(add))
    stream, other = hal.Stream(device), hal.Stream(device)
    gate, event = hal.Event(device, host_signalled=True), hal.Event(device)
    stream.wait(gate)
    x = ones(device)
    hal.run("add", [x, 1.0], stream=stream)
    event.record(stream)
    other.wait(event)
    gate.signal()
    with pytest.raises(hal.LaunchFailedError, match=r"\[add\] the plugin's hook launch raised RuntimeError: the pipe burst") as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "in add" in str(caught.value.__cause__.__cause__)  # the hook's frames, as text: a kept traceback would keep variables alive
    stream.synchronize()
    with pytest.raises(hal.LaunchFailedError, match="the pipe burst"):
        other.synchronize()
    for _ in range(2):
        with pytest.raises(hal.LaunchFailedError, match="the pipe burst"):
            event.query()


def test_a_failure_at_once_is_raised_at_once_and_poisons_nothing() -> None:
    def add(self: Any, stream: Any, attributes: Any, operands: Any) -> None:
        raise RuntimeError("the pipe burst")

    device, _ = register(MemoryOnly, add=kernel("add")(add))
    with pytest.raises(hal.InternalError, match="the pipe burst"):
        hal.run("add", [ones(device), 1.0])
    device.synchronize()


def test_events_are_timed() -> None:
    device, _ = register(Adder)
    start, end = hal.Event(device, timing=True), hal.Event(device, timing=True)
    stream, gate = hal.Stream(device), hal.Event(device, host_signalled=True)
    start.record(stream)
    stream.wait(gate)
    end.record(stream)
    with pytest.raises(ValueError, match="done"):
        start.elapsed(end)
    gate.signal()
    assert 0 <= start.elapsed(end) < 10


def test_synchronize_is_called_before_work_counts_as_done() -> None:
    calls = []
    device, _ = register(MemoryOnly, synchronize=lambda self, device: calls.append(device))
    x = ones(device)
    assert calls == []
    event = device.current_stream.record_event()
    assert event.query()
    assert calls == [0]
    assert device.current_stream.query()
    assert calls == [0]
    x.numpy()
    assert calls == [0, 0]


def test_a_kernel_may_run_other_ops_of_its_own_device() -> None:
    def mul(self: Any, stream: Any, attributes: Any, operands: Any) -> None:
        device = hal.device(f"{self.id}:0")
        scratch = hal.array(view(operands[0]), device=device)
        scratch = hal.run("add", [scratch, 10.0])  # runs now: it is part of this kernel
        hal.run("add", [scratch, 0.0], outputs=[results[0]])

    device, _ = register(Adder, mul=kernel("mul", dtypes=["f32"], layouts="contiguous")(mul))
    results = [hal.empty((4,), "f32", device)]
    with hal.fallback("error"):
        hal.run("mul", [ones(device), 1.0])
    assert results[0].numpy().tolist() == [11.0] * 4


def test_a_kernel_that_waits_for_its_own_stream_is_told() -> None:
    def add(self: Any, stream: Any, attributes: Any, operands: Any) -> None:
        hal.device(f"{self.id}:0").current_stream.synchronize()

    device, _ = register(MemoryOnly, add=kernel("add")(add))
    with pytest.raises(hal.Error, match="waits for the stream that it runs on"):
        hal.run("add", [ones(device), 1.0])


CALLS = {
    "hal.empty": lambda name: hal.empty((1 << 21,), "f32", name),
    "hal.run": lambda name: hal.run("add", [hal.array([1.0], dtype="f32", device=name), 1.0]).numpy(),
    "Stream": lambda name: hal.Stream(name).synchronize(),
    "host": lambda name: hal.run("add", [hal.array([1.0], dtype="f32"), 1.0]).numpy(),
    "synchronize": lambda name: hal.device(name).synchronize(),
    "empty_cache": lambda name: hal.device(name).empty_cache(),
}


@pytest.mark.limit(60)
@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("hook", ["devices", "open", "alloc", "free", "copy_from_host", "copy_to_host", "memory_info", "synchronize", "add", "accepts"])
def test_hooks_may_call_back(hook: str, what: str) -> None:
    """Into the host device always; into their own it works, or is an error: never a deadlock, never a crash."""
    depth = 0
    errors = []
    base = getattr(Adder, hook)

    def calls_back(self: Any, *args: Any) -> Any:
        nonlocal depth
        depth += 1
        try:
            if depth == 1:
                CALLS[what](f"{self.id}:0")
        except Exception as error:
            errors.append(error)
            if what == "host":
                raise
        finally:
            depth -= 1
        if hook == "memory_info":
            return (1, 2)
        return None if hook == "synchronize" else base(self, *args)

    marks = {"__hal_kernels__": base.__hal_kernels__} if hook == "add" else {}
    calls_back.__dict__.update(marks)
    try:
        device, _ = register(Adder, **{hook: calls_back})
        x = hal.empty((1 << 21,), "f32", device)
        device.memory_info()
        y = hal.run("add", [hal.array([1.0], dtype="f32", device=device), 1.0])
        assert y.numpy().tolist() == [2.0]
        del x
        device.empty_cache()
        device.synchronize()
    except hal.Error as error:  # opening the device from inside its own opening
        assert hook in ("devices", "open"), error
        assert what != "host"
    for error in errors:
        assert isinstance(error, hal.Error), error


@pytest.mark.parametrize("late", [False, True])
def test_a_failure_that_has_been_told_keeps_nothing_alive(late: bool) -> None:
    """A traceback's frames reach their callers' variables: arrays must not live on in what the runtime remembers."""

    def add(self: Any, stream: Any, attributes: Any, operands: Any) -> None:
        raise RuntimeError("the pipe burst")

    device, _ = register(Adder, add=kernel("add")(add))

    def fails() -> None:
        x = ones(device, 1 << 10)
        stream, gate = device.default_stream, hal.Event(device, host_signalled=True)
        if late:
            stream.wait(gate)
        with pytest.raises(hal.Error, match="the pipe burst"):
            y = hal.run("add", [x, 1.0])
            gate.signal()
            stream.synchronize()
            del y

    fails()
    gc.collect()
    assert device.memory_stats()["allocated"] == 0


def test_a_poison_that_is_kept_keeps_nothing_alive() -> None:
    """The event that keeps it is a variable of a frame that the hook's traceback would reach."""

    def add(self: Any, stream: Any, attributes: Any, operands: Any) -> None:
        raise RuntimeError("the pipe burst")

    device, _ = register(Adder, add=kernel("add")(add))

    def fails() -> None:
        stream, gate, event = hal.Stream(device), hal.Event(device, host_signalled=True), hal.Event(device)
        stream.wait(gate)
        y = hal.run("add", [ones(device), 1.0], stream=stream)
        event.record(stream)
        gate.signal()
        del y

    fails()
    gc.collect()
    device.synchronize()
    assert device.memory_stats()["allocated"] == 0


def test_a_use_that_was_declined_keeps_nothing_alive() -> None:
    def accepts(self: Any, op: str, operands: Any, attributes: Any) -> None:
        raise hal.UnsupportedError("not this one")

    device, _ = register(Adder, accepts=accepts)

    def falls_back() -> None:
        x = ones(device)
        assert hal.run("add", [x, 1.0]).numpy().tolist() == [2.0] * 4

    falls_back()
    gc.collect()
    assert device.memory_stats()["allocated"] == 0
