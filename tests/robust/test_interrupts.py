"""Ctrl-C during steps, many times: each is a KeyboardInterrupt, and the process computes on as if nothing had been."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hal

HERE = Path(__file__).resolve().parent

CHILD = """
import gc, signal, sys
sys.path.insert(0, sys.argv[1])
import hal, oneflow_mini as flow
from steps import Training
device, wanted, work = hal.device(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
armed = False
def interrupt(*_):  # between two attempts an interrupt says nothing
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
def fresh():
    t = Training(device.name)
    for _ in range(3):
        t.step()
    return t.bits()
want = fresh()
big = flow.ones(700, 700, device=device.name)
def steps():
    t = Training(device.name)
    while True:
        t.step()
def products():
    while True:
        y = flow.matmul(big, big)
        y = flow.softmax(y, dim=0).sum()
def waits():
    stream, gate = hal.Stream(device), hal.Event(device, host_signalled=True)
    stream.wait(gate)
    try:
        stream.synchronize(timeout=30)
    finally:
        gate.signal()
        stream.synchronize()
call = {"steps": steps, "products": products, "waits": waits}[work]
gc.collect(); device.synchronize()
level = device.memory_stats()["allocated"]
caught = 0
while caught < wanted:
    try:
        armed = True
        print("go", flush=True)
        call()
    except KeyboardInterrupt:
        caught += 1
gc.collect(); device.synchronize()
assert device.memory_stats()["allocated"] == level, (device.memory_stats(), level)
assert fresh() == want, "other bits after the interrupts"
print("sane", caught, flush=True)
"""


@pytest.mark.parametrize("work,times", [("steps", 150), ("products", 60)])
def test_interrupts(device: hal.Device, work: str, times: int) -> None:
    randomness = random.Random(5)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(HERE), device.name, str(times), work], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        try:
            last = ""
            for line in child.stdout:
                last = line
                if not line.startswith("go"):
                    break
                time.sleep(randomness.random() * 0.02)
                child.send_signal(signal.SIGINT)
                if randomness.random() < 0.3:
                    child.send_signal(signal.SIGINT)
            errors = child.stderr.read()
            assert child.wait(60) == 0, errors[-3000:]
        finally:
            child.kill()
    assert last.split() == ["sane", str(times)], last


def test_an_interrupt_ends_a_script(device: hal.Device) -> None:
    """Unhandled, it ends the process with Python's own status and no crash, in the middle of a large op too."""
    code = f"import oneflow_mini as flow\nx = flow.ones(900, 900, device={device.name!r})\nprint('go', flush=True)\nwhile True: x = flow.matmul(x, x) * 0"
    for delay in (0.0, 0.05, 0.3):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout is not None and child.stderr is not None
                assert child.stdout.readline() == "go\n"
                time.sleep(delay)
                child.send_signal(signal.SIGINT)
                assert child.wait(30) in (-signal.SIGINT, 130, 1)
                assert "KeyboardInterrupt" in child.stderr.read()
            finally:
                child.kill()
