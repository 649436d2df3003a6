"""Many threads on plugins written in Python: whoever waits for a lock of the runtime has given the interpreter's lock away."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chips import MemoryOnly, register
from test_queues import Adder

import hal

HERE = Path(__file__).parent


def run_threads(count: int, body: Any, seconds: float = 60) -> None:
    errors: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            body(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "deadlock"
    if errors:
        raise errors[0]


@pytest.fixture
def eager_switches() -> Any:
    """Threads change at nearly every bytecode."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.limit(120)
def test_threads_on_one_stream_and_on_their_own(eager_switches: None) -> None:
    device, _ = register(Adder)
    shared = hal.Stream(device)

    def body(i: int) -> None:
        own = shared if i % 2 else hal.Stream(device)
        with hal.stream(own), hal.fallback("error"):
            for k in range(60):
                x = hal.array(np.full(3 + i, k, np.float32), device=device)  # sizes differ: the allocator's slow path
                y = hal.run("add", [x, 1.0])
                event = own.record_event()
                y = hal.run("add", [y, 1.0])
                event.synchronize()
                assert y.numpy().tolist() == [k + 2.0] * (3 + i)

    run_threads(12, body)


@pytest.mark.limit(120)
def test_threads_that_allocate_and_fall_back(eager_switches: None) -> None:
    """alloc and free run with the allocator's lock held, fallback's copies with the host queue's."""
    device, _ = register(MemoryOnly)

    def body(i: int) -> None:
        for k in range(20):
            x = hal.array(np.full((1 << 19) + i, k, np.float32), device=device)
            assert hal.run("add", [x, 1.0]).numpy()[-1] == k + 1
            del x
            if k % 5 == 0:
                device.empty_cache()

    run_threads(8, body)


@pytest.mark.limit(120)
def test_a_collection_inside_a_hook_may_destroy_anything(eager_switches: None) -> None:
    """Garbage with buffers, streams and events in it is collected inside every hook, where the runtime may hold locks."""
    ring: list[Any] = []

    def collect(name: str) -> Any:
        base = getattr(Adder, name)

        def hook(self: Any, *args: Any) -> Any:
            gc.collect(0)
            return base(self, *args)

        hook.__dict__.update(base.__dict__)
        return hook

    names = ["alloc", "free", "copy_from_host", "copy_to_host", "add", "accepts"]
    device, _ = register(Adder, **{name: collect(name) for name in names})

    def body(i: int) -> None:
        for k in range(30):
            cycle: list[Any] = [hal.empty((700_000 + i,), "f32", device), hal.Stream(device), hal.Event(device)]
            cycle[2].record(cycle[1])
            cycle[0].record_stream(cycle[1])
            cycle.append(cycle)
            del cycle
            x = hal.run("add", [hal.array(np.full(4, k, np.float32), device=device), 1.0])
            assert x.numpy()[0] == k + 1

    run_threads(6, body)
    ring.clear()
    gc.collect()
    device.synchronize()
    device.empty_cache()
    assert device.memory_stats()["allocated"] == 0


@pytest.mark.limit(60)
def test_a_host_thread_signals_while_others_wait() -> None:
    device, _ = register(Adder)
    gates = [hal.Event(device, host_signalled=True) for _ in range(8)]
    streams = [hal.Stream(device) for _ in gates]

    def body(i: int) -> None:
        if i == 8:
            for gate in gates:
                gate.signal()
            return
        streams[i].wait(gates[i])
        with hal.stream(streams[i]):
            x = hal.run("add", [hal.array([1.0], dtype="f32", device=device), float(i)])
            streams[i].synchronize(timeout=30)
            assert x.numpy().tolist() == [1.0 + i]

    run_threads(9, body)


def run_script(body: str) -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.path.insert(0, {str(HERE)!r})\nfrom chips import MemoryOnly, register\nfrom test_queues import *\n" + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", script], capture_output=True, text=True, timeout=60)


EXITS = {
    "a stream that never ends": "s = hal.Stream(device); g = hal.Event(device, host_signalled=True); s.wait(g); hal.run('add', [x, 1.0], stream=s)",
    "a daemon thread that launches": """
        import threading, time
        def loop():
            while True:
                hal.run('add', [hal.array([1.0], dtype='f32', device=device), 1.0]).numpy()
        for _ in range(3):
            threading.Thread(target=loop, daemon=True).start()
        time.sleep(0.2)""",
    "a daemon thread inside a hook": """
        import threading, time
        sleeper, _ = register(MemoryOnly, copy_to_host=lambda self, *a: time.sleep(100))
        y = hal.array([1.0], dtype='f32', device=sleeper)
        threading.Thread(target=y.numpy, daemon=True).start()
        time.sleep(0.2)""",
    "an exception on its way": "raise_later = x; raise SystemExit(0)",
}


@pytest.mark.limit(120)
@pytest.mark.parametrize("what", EXITS)
def test_the_process_ends_with_work_in_flight(what: str) -> None:
    done = run_script("device, _ = register(Adder)\nx = ones(device)\n" + textwrap.dedent(EXITS[what]))
    assert done.returncode == 0, done.stderr
    assert "Fatal" not in done.stderr, done.stderr


@pytest.mark.limit(120)
def test_ten_thousand_launches_leave_nothing_behind() -> None:
    done = run_script("""
        import gc, resource
        device, _ = register(Adder)
        x = ones(device)
        def launches(n):
            for _ in range(n):
                hal.run('add', [x, 1.0], outputs=[x])
            x.numpy()
        launches(2000)
        gc.collect()
        objects, peak = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        launches(10000)
        gc.collect()
        assert len(gc.get_objects()) - objects < 20, len(gc.get_objects()) - objects
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        assert grown < 512, grown  # KiB: 52 bytes a launch
        """)
    assert done.returncode == 0, done.stderr


def test_a_launch_through_python_is_short() -> None:
    def fill(self: Any, stream: Any, attributes: Any, operands: Any) -> None:
        pass

    device, _ = register(MemoryOnly, fill=hal.plugin.kernel("fill")(fill))
    assert min(hal.bench_noop_launch(device, 20000) for _ in range(3)) <= 5000  # ns
