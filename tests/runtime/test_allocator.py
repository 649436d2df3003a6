"""The caching allocator: reuse, streams, limit, recovery from out-of-memory, statistics."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import hal
from hal import _core

MIB = 1 << 20


@pytest.fixture(autouse=True)
def clean(device: hal.Device) -> Iterator[None]:
    gc.collect()
    device.synchronize()
    device.empty_cache()
    device.reset_peak_memory_stats()
    yield
    device.set_memory_limit(0)


def empty(device: hal.Device, nbytes: int) -> hal.Array:
    return hal.empty((nbytes,), "u8", device)


@pytest.mark.parametrize("nbytes", [0, 1, 64, 1000, 4096, 5000, 300_000, MIB, MIB + 1, 5 * MIB])
def test_freed_memory_is_reused_on_its_stream(device: hal.Device, nbytes: int) -> None:
    first = empty(device, nbytes)
    address = first._address
    before = device.memory_stats()["raw_allocations"]
    del first
    assert empty(device, nbytes)._address == address
    assert device.memory_stats()["raw_allocations"] == before


def test_live_buffers_never_overlap(device: hal.Device) -> None:
    rng = np.random.default_rng(7)
    sizes = [1, 63, 64, 65, 512, 513, 4095, 4097, 70_000, 600_000, MIB, MIB + 1, 3 * MIB]
    live: list[tuple[hal.Array, int]] = []
    for _ in range(600):
        if live and rng.random() < 0.5:
            live.pop(rng.integers(len(live)))
        else:
            nbytes = int(rng.choice(sizes))
            live.append((empty(device, nbytes), nbytes))
        spans = sorted((a._address[0], a._address[1], a._address[1] + n) for a, n in live)
        for (memory, _, end), (next_memory, begin, _) in itertools.pairwise(spans):
            assert memory != next_memory or end <= begin
    assert device.memory_stats()["allocated"] >= sum(n for _, n in live)


def test_neighbours_join_again(device: hal.Device) -> None:
    pieces = [empty(device, 300_000) for _ in range(6)]  # one 2 MiB segment
    before = device.memory_stats()["raw_allocations"]
    for i in (1, 3, 5, 0, 2, 4):
        pieces[i] = None  # type: ignore[call-overload]
    whole = empty(device, MIB)
    assert device.memory_stats()["raw_allocations"] == before
    del whole
    device.empty_cache()
    assert device.memory_stats()["reserved"] == 0


def test_statistics(device: hal.Device) -> None:
    base = device.memory_stats()
    assert base["allocated"] == 0 and base["reserved"] == 0
    a = empty(device, 3 * MIB)
    b = empty(device, 100)
    now = device.memory_stats()
    assert 3 * MIB + 100 <= now["allocated"] <= 4 * MIB + 128
    assert now["reserved"] >= now["allocated"]
    assert now["allocations"] == base["allocations"] + 2
    del a, b
    after = device.memory_stats()
    assert after["allocated"] == 0
    assert after["peak_allocated"] == now["allocated"]
    assert after["reserved"] == now["reserved"], "freed memory stays cached"
    device.empty_cache()
    assert device.memory_stats()["reserved"] == 0
    device.reset_peak_memory_stats()
    assert device.memory_stats()["peak_reserved"] == 0


def test_memory_of_a_busy_stream_is_not_given_to_another(device: hal.Device, blocker: Callable[[hal.Stream], hal.Event]) -> None:
    stream = hal.Stream(device)
    event = blocker(stream)
    x = hal.array(np.full(1000, 5.0, np.float32), device=device)  # on the default stream
    device.default_stream.synchronize()
    y = hal.run("copy", [x], stream=stream)  # waits for the event
    address, wanted = x._address, x.numpy()
    del x  # still read by `stream`
    others = [hal.array(np.zeros(1000, np.float32), device=device) for _ in range(4)]
    assert address not in [o._address for o in others]
    event.signal()
    stream.synchronize()
    with hal.stream(stream):
        np.testing.assert_array_equal(y.numpy(), wanted)
    # Now it is free again.
    device.synchronize()
    others += [hal.empty((1000,), "f32", device) for _ in range(600)]
    assert address in [o._address for o in others]


def test_streams_have_memory_of_their_own(device: hal.Device, blocker: Callable[[hal.Stream], hal.Event]) -> None:
    stream = hal.Stream(device)
    event = blocker(stream)
    with hal.stream(stream):
        x = hal.run("fill", [1.0], shape=(64,), dtype="f32", stream=stream)
        address = x._address
        del x  # the fill hasn't run yet
        again = hal.empty((64,), "f32", device)
        assert again._address == address, "the same stream may reuse it at once"
        del again
    assert hal.empty((64,), "f32", device)._address != address, "another stream may not"
    event.signal()
    stream.synchronize()


def test_memory_of_a_dropped_stream_comes_back(device: hal.Device) -> None:
    for _ in range(20):
        stream = hal.Stream(device)
        x = hal.run("fill", [1.0], shape=(3 * MIB,), dtype="u8", stream=stream)
        with hal.stream(stream):
            y = hal.empty((3 * MIB,), "u8", device)
        stream.synchronize()
        del stream, x, y
    device.synchronize()
    assert device.memory_stats()["allocated"] == 0
    assert device.memory_stats()["reserved"] <= 40 * MIB
    device.empty_cache()
    assert device.memory_stats()["reserved"] == 0


def test_limit_and_recovery(device: hal.Device) -> None:
    device.set_memory_limit(16 * MIB)
    held = [empty(device, 4 * MIB) for _ in range(3)]
    words = rf"\[allocate\] out of memory on {device.name}: requested {8 * MIB} bytes, .*limit {16 * MIB}"
    with pytest.raises(hal.OutOfMemoryError, match=words):
        empty(device, 8 * MIB)
    assert device.memory_stats()["retries"] >= 1
    # Cached memory in blocks of the wrong size doesn't count against a request.
    del held
    assert device.memory_stats()["reserved"] == 12 * MIB
    big = empty(device, 15 * MIB)
    assert device.memory_stats()["reserved"] <= 16 * MIB
    del big
    device.set_memory_limit(0)
    assert empty(device, 64 * MIB).nbytes == 64 * MIB


def test_out_of_memory_waits_for_other_streams(device: hal.Device, blocker: Callable[[hal.Stream], hal.Event]) -> None:
    device.set_memory_limit(8 * MIB)
    stream = hal.Stream(device)
    event = blocker(stream)
    x = empty(device, 6 * MIB)
    hal.run("fill", [1], outputs=[x], stream=stream)
    del x  # pending on `stream`
    timer = threading.Timer(0.2, event.signal)
    timer.start()
    assert empty(device, 6 * MIB).nbytes == 6 * MIB
    timer.join()


@pytest.mark.parametrize("shape", [(1 << 62,), (1 << 40, 1 << 40), ((1 << 63) - 1, 2), (1 << 55,)])
def test_huge_is_an_error(device: hal.Device, shape: tuple[int, ...]) -> None:
    with pytest.raises(hal.OutOfMemoryError, match="requested"):
        hal.empty(shape, "f64", device)
    with pytest.raises(ValueError, match="negative"):
        hal.empty((-1,), "f32", device)


def test_out_of_memory_is_also_a_memory_error() -> None:
    assert issubclass(hal.OutOfMemoryError, hal.Error) and issubclass(hal.OutOfMemoryError, MemoryError)


def test_threads(device: hal.Device) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for _ in range(200):
                n = int(rng.integers(1, 3000))
                x = hal.run("fill", [float(seed)], shape=(n,), dtype="f32", stream=device.default_stream)
                y = hal.run("add", [x, 1.0])
                assert (y.numpy() == seed + 1).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(t.is_alive() for t in threads)
    gc.collect()
    assert device.memory_stats()["allocated"] == 0


def test_small_allocation_is_fast(device: hal.Device) -> None:
    """The bound is loose (the machine may be busy); docs/decisions/0003 has measured figures."""
    assert _core.bench_allocate(device, n=20_000, bytes=16) < 2000
