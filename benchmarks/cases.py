"""The timed cases, written once for PyTorch and oneflow_mini. Run by run.py: ``cases.py FRAMEWORK`` prints one JSON object.

Each case gives the median time of one call in seconds, over repeats that together take about ``SECONDS``.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

SECONDS = 0.5


def median_time(step: Callable[[], object], inner: int = 1) -> float:
    """Median over repeats of the time of one call; ``inner`` calls are timed together where one is too short to time."""
    for _ in range(3):
        step()
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < 7 or (time.perf_counter() < end and len(times) < 1000):
        start = time.perf_counter()
        for _ in range(inner):
            step()
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def mlp_step(F, device) -> Callable[[], float]:
    """One training step of a 64-256-256-10 perceptron on 64 rows: zero_grad, forward, backward, SGD with momentum, reading the loss."""
    rng = np.random.default_rng(0)
    nn = F.nn
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    for _, p in model.named_parameters():
        fan = int(np.prod(tuple(p.shape)[1:])) if len(p.shape) > 1 else 0
        p.data.copy_(F.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32) * (fan**-0.5 if fan else 0.02)))
    model = model.to(device)
    x = F.tensor(rng.standard_normal((64, 64)).astype(np.float32)).to(device)
    y = F.tensor(rng.integers(0, 10, 64).astype(np.int64)).to(device)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = F.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.detach().cpu().numpy())

    return step


def cases(F, device) -> dict[str, float]:
    rng = np.random.default_rng(1)

    def tensor(*shape):
        return F.tensor(rng.standard_normal(shape).astype(np.float32)).to(device)

    out = {}
    a, b = tensor(4), tensor(4)
    out["a + b, 4 floats"] = median_time(lambda: a + b, 1000)
    ag = tensor(4).requires_grad_()
    out["a + b, 4 floats, recording grad"] = median_time(lambda: ag + b, 1000)
    for n in (512, 1024, 2048):
        x, w = tensor(n, n), tensor(n, n)
        out[f"matmul {n}x{n}x{n}"] = median_time(lambda x=x, w=w: F.matmul(x, w))
    out["MLP training step, batch 64"] = median_time(mlp_step(F, device))
    big, other = tensor(1 << 24), tensor(1 << 24)
    out["a + b, 16 Mi floats"] = median_time(lambda: big + other)
    out["exp, 16 Mi floats"] = median_time(lambda: F.exp(big))
    out["sum, 16 Mi floats"] = median_time(lambda: F.sum(big))
    rows = tensor(4096, 4096)
    out["softmax, 4096 rows of 4096"] = median_time(lambda: F.softmax(rows, dim=-1))
    image, kernel = tensor(32, 64, 56, 56), tensor(64, 64, 3, 3)
    conv = F.nn.functional.conv2d
    out["conv 3x3, 32x64x56x56"] = median_time(lambda: conv(image, kernel, padding=1))
    return out


def main(framework: str, device: str | None) -> None:
    F = importlib.import_module(framework)
    result: dict[str, float] = {}
    if framework == "torch":
        F.set_num_threads(2)
        device = "cpu"
    else:
        import hal

        hal.set_num_threads(2)
        hal.set_fallback("error")
        device = device or hal.host_device().name
    result.update(cases(F, device))
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
