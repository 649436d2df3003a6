"""fork: the child works or raises an exception that says so; it never hangs, and the parent goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

import hal
import oneflow_mini as flow

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def child_status(work: Callable[[], None], patience: float = 30.0) -> int:
    """Exit status of a forked child that runs ``work``: 0, or 7 for a clear refusal. Fails if it hangs or dies."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except (RuntimeError, hal.Error) as error:
            status = 7 if "fork" in str(error) else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert not os.WIFSIGNALED(status), f"the child died of signal {os.WTERMSIG(status)}"
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def train(device: str) -> None:
    model = flow.nn.Linear(64, 64).to(device)
    optimizer = flow.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        (model(flow.ones(128, 64, device=device)) ** 2).mean().backward()
        optimizer.step()
    assert flow.matmul(flow.ones(300, 300, device=device), flow.ones(300, 300, device=device)).sum().item() == 300.0**3


def test_the_child_works_or_says_so(device: hal.Device) -> None:
    train(device.name)  # the pool has its threads
    shared = flow.ones(1000, device=device.name)

    def work() -> None:
        assert (shared + 1).sum().item() == 2000
        train(device.name)

    assert child_status(work) in (0, 7)
    assert shared.sum().item() == 1000
    train(device.name)


def test_a_child_of_a_child(device: hal.Device) -> None:
    train(device.name)
    assert child_status(lambda: os._exit(child_status(lambda: train(device.name)))) in (0, 7)


def test_fork_while_other_threads_work(device: hal.Device) -> None:
    stop = threading.Event()

    def busy() -> None:
        x = flow.ones(200, 200, device=device.name)
        while not stop.is_set():
            flow.matmul(x, x).sum().item()

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        for _ in range(15):
            assert child_status(lambda: train(device.name)) in (0, 7)
    finally:
        stop.set()
        for t in threads:
            t.join()
    train(device.name)


def test_fork_with_a_stream_at_work(device: hal.Device) -> None:
    stream, gate = hal.Stream(device), hal.Event(device, host_signalled=True)
    stream.wait(gate)
    a = hal.empty((64, 64), "f32", device)
    out = hal.run("matmul", [a, a], stream=stream)
    assert child_status(lambda: stream.synchronize(timeout=5)) in (0, 1, 2, 7)
    assert child_status(lambda: train(device.name)) in (0, 7)
    gate.signal()
    stream.synchronize()
    assert out.shape == (64, 64)


def _sum_of(device: str, n: int) -> float:
    return flow.ones(n, n, device=device).sum().item()


def test_multiprocessing(device: hal.Device) -> None:
    train(device.name)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.starmap_async(_sum_of, [(device.name, n) for n in (10, 300, 500)]).get(60) == [100.0, 90000.0, 250000.0]
