"""Cases of random numbers, exchange, processes and training, rebuilt from public reports; see cases_values.py."""

from __future__ import annotations

import copy
import gc
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
from kit import Producer, array, assert_close, assert_equal, refuses, tensor

import oneflow_mini as flow
from oneflow_mini.nn import functional as F


def case_55(dev: str) -> None:
    """pytorch#84288, pytorch#78110: the seed was ignored, or each call drew the same numbers."""

    def draw():
        given = {"device": dev}
        return [
            array(t)
            for t in (
                flow.randn(33, **given), flow.randn(33, **given), flow.rand(7, 5, **given), flow.randint(0, 1000, (50,), **given),
                flow.randperm(40, **given), F.dropout(flow.ones(200, **given), 0.5, True),
            )
        ]  # fmt: skip

    flow.manual_seed(999)
    first, second = draw(), draw()
    flow.manual_seed(999)
    again = draw()
    for i, (a, b, c) in enumerate(zip(first, second, again, strict=True)):
        assert_equal(c, a, f"draw {i} after the same seed")
        assert (a != b).any(), f"draw {i} repeats"
    assert (first[0] != first[1]).any() and sorted(first[4].tolist()) == list(range(40))
    flow.manual_seed(1000)
    assert (draw()[0] != first[0]).any()


def case_58(dev: str) -> None:
    """oneflow#4800: dropout refused p = 1. p = 0, p = 1 and evaluation are exact."""
    x = tensor(dev, np.array([1.5, -2, 0, 3e38] * 50, np.float32), grad=True)
    assert_equal(F.dropout(x, 0.0, True), array(x), "p = 0")
    assert_equal(F.dropout(x, 0.9, False), array(x), "evaluation")
    y = F.dropout(x, 1.0, True)
    assert_equal(y, np.zeros(200), "p = 1")
    y.sum().backward()
    assert_equal(x.grad, np.zeros(200), "gradient at p = 1")
    for p in (1.5, -0.1):
        refuses(f"p = {p}", lambda p=p: F.dropout(x, p, True))
    flow.manual_seed(3)
    z = array(F.dropout(tensor(dev, np.ones(10000, np.float32)), 0.25, True))
    assert_close(np.unique(z), [0, 1 / 0.75], 1e-6)
    assert abs((z == 0).mean() - 0.25) < 0.022  # 5 σ


def case_61(dev: str) -> None:
    """cupy#2095, pytorch#43166: NULL strides or a NULL deleter crashed the importer. NULL strides: packed, row-major."""
    base = np.arange(12, dtype=np.float32)
    packed = flow.from_dlpack(Producer(base, (3, 4)))
    assert_equal(packed, base.reshape(3, 4), "NULL strides")
    assert_equal(flow.from_dlpack(Producer(base, (4, 3), (1, 4), deleter=False)), base.reshape(3, 4).T, "no deleter")
    assert_equal(packed.to(dev) + 1, base.reshape(3, 4) + 1, "usable")
    del packed
    gc.collect()


def case_64(dev: str) -> None:
    """oneflow#7667, oneflow#6117: from_numpy of a transposed array showed its memory, not its values."""
    a = np.arange(1, 10, dtype=np.float32).reshape(3, 3).T
    t = flow.from_numpy(a)
    assert_equal(t, a)
    z = tensor(dev, np.zeros((3, 3), np.float32))
    z.copy_(t)
    assert_equal(z, a, "copy_")
    assert_equal(t.to(dev), a, "to")
    printed = [float(s) for s in re.findall(r"-?\d+\.?\d*", repr(t).split("dtype")[0].split("device")[0])]
    assert printed == a.ravel().tolist(), printed
    t[0, 1] = 50
    assert a[0, 1] == 50, "it shares memory"
    assert_equal(flow.from_numpy(a[::2, 1:]), a[::2, 1:], "a slice")


def case_66(dev: str) -> None:
    """oneflow#10507, oneflow#10664, oneflow#10602: a bad size or dimension ended the process."""
    x = tensor(dev, np.zeros((2, 3), np.float32))
    bad = {
        "randn(-1)": lambda: flow.randn(-1, device=dev),
        "empty(-1)": lambda: flow.empty(-1, device=dev),
        "zeros(2, -3)": lambda: flow.zeros(2, -3, device=dev),
        "var": lambda: flow.var(x, dim=(1, 7)),
        "sum": lambda: x.sum(dim=5),
        "view": lambda: x.view(7),
        "reshape": lambda: x.reshape(-1, 4),
        "permute": lambda: x.permute(0, 0),
        "matmul": lambda: flow.matmul(x, x),
        "cat": lambda: flow.cat((x, tensor(dev, np.zeros((2, 2, 2), np.float32))), dim=0),
        "broadcast": lambda: x + tensor(dev, np.zeros(4, np.float32)),
        "device": lambda: x.to("nosuch:0"),
        "channels": lambda: F.conv2d(flow.zeros(1, 3, 4, 4, device=dev), flow.zeros(2, 4, 3, 3, device=dev)),
        "topk": lambda: flow.topk(x, 9),
    }
    for what, call in bad.items():
        refuses(what, call)
    assert_equal(x + 1, np.ones((2, 3)), "all is well after")


def case_70(dev: str) -> None:
    """oneflow#6729: a crash at exit while tensors were alive (in a cycle, in atexit, in another thread)."""
    code = f"""
import atexit, threading
import oneflow_mini as flow
w = flow.ones(256, 256, device={dev!r})
model = flow.nn.Linear(8, 8).to({dev!r})
optimizer = flow.optim.SGD(model.parameters(), lr=0.1)
model(flow.ones(2, 8, device={dev!r})).sum().backward()
optimizer.step()
class Cycle: pass
cycle = Cycle()
cycle.itself, cycle.tensor = cycle, flow.matmul(w, w)
atexit.register(lambda: print("sum", int(cycle.tensor.sum().item())))
y = flow.matmul(cycle.tensor, w)
threading.Thread(target=lambda: flow.matmul(w, w)).start()
print("done")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, f"exit status {ended.returncode}: {ended.stderr[-300:]}"
    assert "done" in ended.stdout and f"sum {256**3}" in ended.stdout, ended.stdout


def case_72(dev: str) -> None:
    """InvokeAI#6624, pytorch#140296: asynchronous copies read their source after it had changed. Program order is what counts."""
    for k in range(10):
        a = np.arange(1 << 18, dtype=np.float32) + k
        want = a.copy()
        t = flow.tensor(a, device=dev)
        a[:] = -1
        s = flow.tensor(want)
        d = s.to(dev, copy=True)
        s.zero_()
        u = t * 2
        t.zero_()
        h = u.to(s.device, copy=True)
        u.fill_(-7)
        assert_equal(d, want, "to the device")
        assert_equal(h, want * 2, "to the host")
        assert_equal(t, np.zeros(1 << 18), "zero_")


def case_76(dev: str) -> None:
    """pytorch#2830: training resumed from saved states took other steps than the run that went on."""
    x = np.random.default_rng(76).standard_normal((8, 4)).astype(np.float32)

    def fresh():
        flow.manual_seed(0)
        model = flow.nn.Linear(4, 2).to(dev)
        return model, flow.optim.Adam(model.parameters(), lr=0.05)

    def steps(model, optimizer, n):
        for _ in range(n):
            optimizer.zero_grad()
            (model(tensor(dev, x)) ** 2).mean().backward()
            optimizer.step()

    went_on, its_optimizer = fresh()
    steps(went_on, its_optimizer, 3)
    with tempfile.TemporaryDirectory() as folder:
        flow.save(went_on.state_dict(), os.path.join(folder, "weights"))
        state = copy.deepcopy(its_optimizer.state_dict())
        resumed, optimizer = fresh()
        resumed.load_state_dict(flow.load(os.path.join(folder, "weights")))
        optimizer.load_state_dict(state)
    steps(went_on, its_optimizer, 3)
    steps(resumed, optimizer, 3)
    for name, value in went_on.state_dict().items():
        assert_equal(resumed.state_dict()[name], array(value), name)


def case_79(dev: str) -> None:
    """libai#113: accumulated micro-batches give the gradient of the whole batch. Integers: exact."""
    r = np.random.default_rng(79)
    x, w0 = r.integers(-3, 4, (8, 4)).astype(np.float32), r.integers(-2, 3, (4, 3)).astype(np.float32)
    want = 2 * x.T @ (x @ w0)
    whole, parts = tensor(dev, w0, grad=True), tensor(dev, w0, grad=True)
    (flow.matmul(tensor(dev, x), whole) ** 2).sum().backward()
    for k in range(0, 8, 2):
        (flow.matmul(tensor(dev, x[k : k + 2]), parts) ** 2).sum().backward()
    assert_equal(whole.grad, want, "whole")
    assert_equal(parts.grad, want, "in four parts")
    flow.optim.SGD([parts], lr=1.0).zero_grad()
    (flow.matmul(tensor(dev, x), parts) ** 2).sum().backward()
    assert_equal(parts.grad, want, "zero_grad forgets")
