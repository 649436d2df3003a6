"""The end of a process while something is still alive or at work: no crash, no hang, what was printed is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hal

HEAD = """
import atexit, gc, os, sys, threading, time, weakref
import hal, oneflow_mini as flow
device = hal.device({device!r})
def big(stream=None):
    a = hal.empty((1200, 1200), "f32", device)
    return hal.run("matmul", [a, a], stream=stream)
"""
ENDINGS = {
    "tensors in globals": "x = flow.ones(500, 500, device=device.name); y = flow.matmul(x, x)",
    "tensors in a cycle": "class C: pass\nc = C(); c.c = c; c.t = flow.ones(100, device=device.name, requires_grad=True); c.u = (c.t * 2).sum()",
    "a graph with hooks": "x = flow.ones(3, requires_grad=True, device=device.name)\nx.register_hook(lambda g: print(g))\ny = (x * x).sum()",
    "tensors of a module": "sys.modules['kept'] = flow.nn.Linear(300, 300).to(device.name)",
    "tensors of builtins": "import builtins\nbuiltins.kept = flow.ones(10, device=device.name)",
    "a view of freed memory": "v = flow.ones(1000, device=device.name)[::2]\nn = flow.ones(7).numpy()",
    "numpy outlives the tensor": "kept = flow.ones(1000).numpy(); flow.ones(3)\natexit.register(lambda: print(kept.sum()))",
    "work in atexit": "x = flow.ones(64, 64, device=device.name)\natexit.register(lambda: print('late', flow.matmul(x, x).sum().item()))",
    "new devices' streams": "s = [hal.Stream(device) for _ in range(20)]",
    "work on a stream": "s = hal.Stream(device)\nfor _ in range(5): r = big(s)",
    "work on many streams": "s = [hal.Stream(device) for _ in range(6)]\nkept = [big(t) for t in s]",
    "a stream that waits": "s = hal.Stream(device)\ng = hal.Event(device, host_signalled=True)\ns.wait(g)\nr = big(s)\ng.signal()",
    "a stream that waits for ever": "s = hal.Stream(device)\ng = hal.Event(device, host_signalled=True)\ns.wait(g)\nr = big(s)",
    "a poisoned stream": "s = hal.Stream(device)\ng = hal.Event(device, host_signalled=True)\ns.wait(g)\nr = hal.run('nll_loss', [hal.array(__import__('numpy').zeros((2, 3), 'f4'), device=device), hal.array(__import__('numpy').array([0, 9]), device=device)], stream=s)\ng.signal()",
    "events": "e = [hal.Event(device) for _ in range(50)]\nfor i in e: i.record()\nt = hal.Event(device, host_signalled=True)",
    "a daemon thread at work": "def work():\n    x = flow.ones(400, 400, device=device.name)\n    while True: y = flow.matmul(x, x)\nfor _ in range(3): threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.3)",
    "a daemon thread that waits": "s = hal.Stream(device)\ng = hal.Event(device, host_signalled=True)\ns.wait(g)\ndef work():\n    s.synchronize()\nthreading.Thread(target=work, daemon=True).start()\ntime.sleep(0.2)\ng.signal()",
    "a daemon thread that trains": "sys.path.insert(0, {here!r})\nfrom steps import Training\ndef work():\n    t = Training(device.name)\n    while True: t.step()\nthreading.Thread(target=work, daemon=True).start()\ntime.sleep(0.5)",
    "a thread that ends last": "def work():\n    time.sleep(0.3)\n    print('last', flow.ones(10, device=device.name).sum().item())\nthreading.Thread(target=work).start()",
    "thread-local tensors": "local = threading.local()\nlocal.t = flow.ones(10, device=device.name)\ndef work(): local.t = flow.ones(9, device=device.name)\nt = threading.Thread(target=work); t.start(); t.join()",
    "weak references and finalizers": "x = flow.ones(10, device=device.name)\nr = weakref.ref(x, lambda _: None)\nweakref.finalize(x, lambda: None)\nclass D:\n    def __del__(self):\n        try: flow.ones(3)\n        except RuntimeError: pass  # after the end\nd = D(); d.t = x",
    "an exception": "x = flow.ones(10, device=device.name)\ndef f(y): raise SystemExit(0)\nf(x * 2)",
    "sys.exit in a thread": "threading.Thread(target=lambda: (flow.ones(3), sys.exit(0))).start()",
    "DLPack capsules": "c = flow.ones(10).__dlpack__(); import numpy; d = flow.from_dlpack(numpy.ones(3)); e = numpy.from_dlpack(flow.ones(4))",
    "validation": "x = flow.ones(10, device=device.name); s = hal.Stream(device); y = flow.matmul(flow.ones(99, 99), flow.ones(99, 99))",
}  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit(device: hal.Device, ending: str) -> None:
    import os
    from pathlib import Path

    here = str(Path(__file__).resolve().parent)
    code = HEAD.replace("{device!r}", repr(device.name)) + ENDINGS[ending].replace("{here!r}", repr(here)) + "\nprint('end')\n"
    environment = {**os.environ, "HAL_VALIDATE": "1"} if ending == "validation" else dict(os.environ)
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=40, check=False, env=environment
    )
    assert ended.returncode == 0, f"exit status {ended.returncode}: {ended.stderr[-2000:]}"
    assert "end" in ended.stdout or ending == "an exception"
    for bad in ("Fatal", "terminate called", "Segmentation", "Traceback", "Error"):
        assert bad not in ended.stderr, ended.stderr[-2000:]
    if ending == "work in atexit":
        assert "late 262144.0" in ended.stdout
    if ending == "a thread that ends last":
        assert "last 10.0" in ended.stdout


def test_os_exit_and_signals(device: hal.Device) -> None:
    """Ends that run no finalizers at all."""
    import signal

    for last, status in (("os._exit(3)", 3), ("os.kill(os.getpid(), 15)", -signal.SIGTERM), ("os.abort()", -signal.SIGABRT)):
        code = HEAD.replace("{device!r}", repr(device.name)) + f"s = hal.Stream(device)\nr = big(s)\n{last}\n"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40, check=False)
        assert ended.returncode == status, ended.stderr[-1000:]
