"""The timed cases, written once for PyTorch and oneflow_mini. Run by run.py: ``cases.py FRAMEWORK [GROUP …]`` prints one JSON object.

Each case gives the median time of one call in seconds, over repeats that together take about ``SECONDS``. The group "memory"
gives peak bytes.
"""

from __future__ import annotations

import importlib
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import models
import numpy as np

SECONDS = 0.4
# ResNet-50's kinds of convolution: channels, filters, kernel, stride, input size; batch 8.
CONVOLUTIONS = [
    (3, 64, 7, 2, 224), (64, 64, 1, 1, 56), (64, 64, 3, 1, 56), (64, 256, 1, 1, 56), (256, 64, 1, 1, 56), (128, 128, 3, 2, 56),
    (128, 512, 1, 1, 28), (256, 512, 1, 2, 56), (128, 128, 3, 1, 28), (256, 256, 3, 1, 14), (1024, 256, 1, 1, 14), (512, 512, 3, 1, 7),
    (512, 2048, 1, 1, 7),
]  # fmt: skip

Case = tuple[str, Callable[[], object], int]  # name, one call, calls that are timed together


def median_time(step: Callable[[], object], inner: int = 1) -> float:
    """Median over repeats of the time of one call."""
    for _ in range(2):
        step()
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 1000):
        start = time.perf_counter()
        for _ in range(inner):
            step()
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


class Cases:
    """The groups of cases of one framework."""

    def __init__(self, F, device):
        self.F, self.device, self.rng = F, device, np.random.default_rng(1)

    def tensor(self, *shape):
        return self.F.tensor(self.rng.standard_normal(shape).astype(np.float32)).to(self.device)

    def overhead(self) -> Iterator[Case]:
        a, b, g = self.tensor(4), self.tensor(4), self.tensor(4).requires_grad_()
        yield "a + b, 4 floats", lambda: a + b, 1000
        yield "a + b, 4 floats, recording grad", lambda: g + b, 1000

    def training(self) -> Iterator[Case]:
        yield "MLP training step, batch 64", models.training_step(self.F, "mlp", self.device), 1
        yield "GPT training step, width 256, 4 layers, context 128, batch 8", models.training_step(self.F, "gpt", self.device), 1
        yield "ResNet-50 training step, batch 8, 224 × 224", models.training_step(self.F, "resnet50", self.device), 1

    def matmul(self) -> Iterator[Case]:
        for m, k, n in [(96, 96, 96), (256,) * 3, (512,) * 3, (1024,) * 3, (2048,) * 3, (64, 4096, 64), (1, 4096, 4096)]:
            x, w = self.tensor(m, k), self.tensor(k, n)
            yield f"matmul {m} × {k} × {n}", lambda x=x, w=w: self.F.matmul(x, w), 1

    def convolution(self) -> Iterator[Case]:
        conv, torch = self.F.nn.functional.conv2d, self.F.__name__ == "torch"
        for channels, filters, k, stride, size in CONVOLUTIONS:
            x, w, p = self.tensor(8, channels, size, size), self.tensor(filters, channels, k, k), k // 2
            name = f"conv {k} × {k}{f' / {stride}' if stride > 1 else ''}, {channels} → {filters}, {size}²"
            g = self.tensor(*conv(x, w, stride=stride, padding=p).shape)
            yield name, lambda x=x, w=w, s=stride, p=p: conv(x, w, stride=s, padding=p), 1
            for which, mask in (("input", [True, False, False]), ("weight", [False, True, False])):
                if torch:

                    def gradient(g=g, x=x, w=w, s=stride, p=p, mask=mask):
                        return self.F.ops.aten.convolution_backward(g, x, w, None, [s, s], [p, p], [1, 1], False, [0, 0], 1, mask)
                else:
                    xr = x.clone().requires_grad_() if mask[0] else x
                    wr = w.clone().requires_grad_() if mask[1] else w
                    y = conv(xr, wr, stride=stride, padding=p)

                    def gradient(y=y, of=xr if mask[0] else wr, g=g):
                        return self.F.autograd.grad(y, of, g, retain_graph=True)

                yield f"{name}, {which} gradient", gradient, 1

    def streaming(self) -> Iterator[Case]:
        F, big, other, rows = self.F, self.tensor(1 << 24), self.tensor(1 << 24), self.tensor(4096, 4096)
        norm = F.nn.LayerNorm(4096).to(self.device)
        yield "a + b, 16 Mi floats", lambda: big + other, 1
        yield "exp, 16 Mi floats", lambda: F.exp(big), 1
        yield "gelu, 16 Mi floats", lambda: F.nn.functional.gelu(big), 1
        yield "sum, 16 Mi floats", lambda: F.sum(big), 1
        yield "softmax, 4096 rows of 4096", lambda: F.softmax(rows, dim=-1), 1
        yield "layer norm, 4096 rows of 4096", lambda: norm(rows), 1
        yield "transposed copy, 4096 × 4096", lambda: rows.transpose(0, 1).contiguous(), 1

    def order(self) -> Iterator[Case]:
        F, n = self.F, 1 << 20
        x, index, zeros = self.tensor(n), F.tensor(self.rng.integers(0, n, n)).to(self.device), F.zeros(n).to(self.device)
        yield "sort, 1 Mi floats", lambda: F.sort(x), 1
        yield "topk 100, 1 Mi floats", lambda: F.topk(x, 100), 1
        yield "cumsum, 1 Mi floats", lambda: F.cumsum(x, 0), 1
        yield "gather, 1 Mi floats", lambda: F.gather(x, 0, index), 1
        yield "scatter_add, 1 Mi floats", lambda: F.scatter_add(zeros, 0, index, x), 1


def main(framework: str, device: str | None, groups: list[str]) -> None:
    F = importlib.import_module(framework)
    if framework == "torch":
        F.set_num_threads(2)
        device = "cpu"
    else:
        import hal

        hal.set_num_threads(2)
        hal.set_fallback("error")
        device = device or hal.host_device().name
    cases = Cases(F, device)
    result: dict[str, dict[str, float]] = {}
    for group in groups:
        if group == "memory":
            step = models.training_step(F, "resnet50", device)
            for _ in range(3):
                step()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            result[group] = {"ResNet-50 training step, peak memory of the process": peak}
        else:
            result[group] = {name: median_time(step, inner) for name, step, inner in getattr(cases, group)()}
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if sys.argv[2] != "-" else None, sys.argv[3:])
