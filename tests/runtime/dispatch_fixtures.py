"""Fixtures of the tests of streams, memory and dispatch: the device under test, and two plugins compiled for the occasion."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hal
from hal import _core

HERE = Path(__file__).resolve().parent


@pytest.fixture
def device() -> hal.Device:
    name = os.environ.get("HAL_TEST_DEVICE")
    return hal.device(name) if name else hal.host_device()


@pytest.fixture
def blocker(device: hal.Device) -> Iterator[Callable[[hal.Stream], hal.Event]]:
    """``blocker(stream)`` holds up later work on the stream until the event it returns is signalled (at the latest when the test ends)."""
    if "host_signal" not in device.properties["capabilities"]:
        pytest.skip(f"{device.name} has no host-signalled events")
    yield from make_blocker(device)


def make_blocker(device: hal.Device) -> Iterator[Callable[[hal.Stream], hal.Event]]:
    events: list[hal.Event] = []

    def block(stream: hal.Stream) -> hal.Event:
        event = hal.Event(device, host_signalled=True)
        stream.wait(event)
        events.append(event)
        return event

    yield block
    for event in events:
        with contextlib.suppress(hal.InvalidArgumentError):  # the test has done it
            event.signal()


@pytest.fixture(scope="session")
def toy(toy_library: Path) -> hal.Device:
    """A synchronous device with one kernel (add, f32)."""
    _core.register_library("toy", str(toy_library))
    return hal.device("toy")


class Picky:
    """An asynchronous device that checks what the runtime promises, see picky.cpp."""

    def __init__(self, library: str) -> None:
        _core.register_library("picky", library)
        self.device = hal.device("picky")
        self._counter = ctypes.CDLL(library).picky_counter
        self._counter.restype = ctypes.c_int64
        self._counter.argtypes = [ctypes.c_char_p]

    def counter(self, name: str) -> int:
        value = int(self._counter(name.encode()))
        assert value >= 0, f"no counter {name}"
        return value


@pytest.fixture(scope="session")
def picky_session(tmp_path_factory: pytest.TempPathFactory) -> Picky:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no compiler")
    library = tmp_path_factory.mktemp("picky") / "libhal_picky.so"
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{hal.get_include()}"]
    subprocess.run([*command, str(HERE / "picky.cpp"), "-o", str(library), "-pthread"], check=True, timeout=300)
    return Picky(str(library))


@pytest.fixture
def picky(picky_session: Picky) -> Iterator[Picky]:
    before = picky_session.counter("violations")
    yield picky_session
    picky_session.device.synchronize()
    assert picky_session.counter("violations") == before, "the runtime broke a rule of the ABI; see stderr"
