"""``hal bench``: how far a device's kernels are from what its hardware can do.

Honest means here:

- The ceiling (100 %) is measured in the same run by loops that share nothing with the kernels: on the host device plain loops of
  the runtime's own (`_core.host_bandwidth`, `_core.host_flops`), the best of the runs between the timings. Other devices have no
  such loop behind the ABI yet, so no percentage is printed for them.
- A result is compared with a NumPy reference before it is timed; a wrong kernel is not reported but is an error.
- Work is what the op must do at least: bytes of inputs read once and outputs written once, 2·n³ operations for a matmul.
- The median of the repeats counts. A figure above 102 % of its ceiling means that the bench is wrong, and is an error.
- Fallback is forbidden: an op without a kernel of the device's own has no figure.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import _core

TOLERATED = 1.02  #: of a ceiling: noise of the measurement
_REPEAT_SECONDS = 0.05  #: least duration of one repeat


class BenchError(RuntimeError):
    """A wrong kernel, or a figure that can't be true."""


@dataclass(frozen=True)
class Result:
    """One line of the report."""

    case: str
    figure: float | None  #: in `unit`, the median
    unit: str
    ceiling: float | None  #: in `unit`
    percent: float | None
    seconds: float | None  #: per call, the median
    spread: float | None  #: (max - min) / median of the repeats
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Case:
    """One op on fixed operands."""

    name: str
    op: str
    make: Callable[[Any], tuple[list[Any], dict[str, Any]]]  #: numpy generator -> numpy inputs, attributes
    check: Callable[[Sequence[Any], Any], str]  #: numpy inputs, numpy output -> what is wrong, or ""
    work: float  #: bytes or operations per call
    ceiling: str  #: "read", "copy", "triad" or "flops"

    @property
    def unit(self) -> str:
        return "GFLOP/s" if self.ceiling == "flops" else "GB/s"


def cases(array_bytes: int) -> list[Case]:
    """The benchmarks. ``array_bytes``: size of the big arrays, well beyond the caches."""
    n = array_bytes // 4
    columns = 4096
    rows = max(n // columns, 1)

    def vectors(count: int) -> Callable[[Any], tuple[list[Any], dict[str, Any]]]:
        return lambda rng: ([rng.standard_normal(n, dtype="f4") for _ in range(count)], {})

    def matrices(size: int) -> Callable[[Any], tuple[list[Any], dict[str, Any]]]:
        return lambda rng: ([rng.standard_normal((size, size), dtype="f4") for _ in range(2)], {})

    listed = [
        Case("copy", "copy", vectors(1), _check_copy, 8.0 * n, "copy"),
        Case("add", "add", vectors(2), _check_add, 12.0 * n, "triad"),
        Case("exp", "exp", vectors(1), _check_exp, 8.0 * n, "copy"),
        Case("sum", "sum", lambda rng: ([rng.standard_normal(n, dtype="f4")], {"axes": 1}), _check_sum, 4.0 * n, "read"),
        Case(
            "softmax",
            "softmax",
            lambda rng: ([rng.standard_normal((rows, columns), dtype="f4")], {"axis": 1}),
            _check_softmax,
            8.0 * rows * columns,
            "copy",
        ),
    ]
    listed += [Case(f"matmul n={size}", "matmul", matrices(size), _check_matmul, 2.0 * size**3, "flops") for size in (512, 1024)]
    return listed


# --- checks: independent of the contract's order of operations, so each with the error bound of any sane order -----------------------


def _worst(error: Any, bound: Any, what: str) -> str:
    """ "" if error <= bound everywhere (a NaN never is)."""
    import numpy as np

    bad = ~(error <= bound)
    if not bad.any():
        return ""
    where = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return f"{what} at {tuple(int(i) for i in where)}: error {error[where]:.3g}, allowed {np.broadcast_to(bound, bad.shape)[where]:.3g}"


def _check_copy(inputs: Sequence[Any], out: Any) -> str:
    import numpy as np

    return "" if np.array_equal(inputs[0].view("u4"), out.view("u4")) else "bits differ from the input's"


def _check_add(inputs: Sequence[Any], out: Any) -> str:
    import numpy as np

    return "" if np.array_equal(inputs[0] + inputs[1], out) else "not the correctly rounded sum"


def _check_exp(inputs: Sequence[Any], out: Any) -> str:
    import numpy as np

    exact = np.exp(inputs[0].astype("f8"))
    return _worst(np.abs(out - exact), 2.0 * np.spacing(exact.astype("f4")), "exp")


def _check_sum(inputs: Sequence[Any], out: Any) -> str:
    import numpy as np

    x = inputs[0].astype("f8")
    # Blocked summation: error below (chain + log2 n)·eps·Σ|x|; a sum in one f32 chain, or one lost element, is far off.
    bound = (128 + math.log2(x.size)) * 2.0**-24 * np.abs(x).sum()
    return _worst(np.abs(np.reshape(out, (1,)) - x.sum()), np.full(1, bound), "sum")


def _check_softmax(inputs: Sequence[Any], out: Any) -> str:
    import numpy as np

    x = inputs[0].astype("f8")
    exact = np.exp(x - x.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    return _worst(np.abs(out - exact), 256 * 2.0**-24 * exact, "softmax")


def _check_matmul(inputs: Sequence[Any], out: Any) -> str:
    import numpy as np

    a, b = (m.astype("f8") for m in inputs)
    return _worst(np.abs(out - a @ b), a.shape[1] * 2.0**-24 * (np.abs(a) @ np.abs(b)), "matmul")


# --- ceilings ------------------------------------------------------------------------------------------------------------------------


class Ceilings:
    """The best that was seen of each access pattern (GB/s) and of arithmetic (GFLOP/s).

    Sampled before each timing of a case, so that a neighbour on the machine slows both. Empty for devices other than the host
    (see the module's text).
    """

    def __init__(self, device: Any, array_bytes: int) -> None:
        self.best: dict[str, float] = {}
        self._measurable = device.is_host
        self._bytes = array_bytes

    def sample(self, kind: str) -> None:
        """Measures "read", "copy", "triad" or "flops" once more."""
        if not self._measurable:
            return
        rate = _core.host_flops("f32", 3) if kind == "flops" else _core.host_bandwidth(kind, self._bytes, 2)
        self.best[kind] = max(self.best.get(kind, 0.0), rate / 1e9)


def default_array_bytes() -> int:
    """Four times the largest CPU cache, from 64 to 256 MiB: what does not fit in any cache measures memory."""
    largest = 0
    for index in range(6):
        try:
            with open(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size", encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.endswith("K") and text[:-1].isdigit():
            largest = max(largest, int(text[:-1]) << 10)
        elif text.endswith("M") and text[:-1].isdigit():
            largest = max(largest, int(text[:-1]) << 20)
    return min(max(4 * largest, 64 << 20), 256 << 20)


# --- running -------------------------------------------------------------------------------------------------------------------------


def run_case(device: Any, case: Case, repeats: int, ceilings: Ceilings) -> tuple[list[float], str]:
    """Seconds per call of each repeat, or a note why the device has no figure. Raises BenchError if the result is wrong."""
    import numpy as np

    arrays, attributes = case.make(np.random.default_rng(0))
    inputs = [_core.array(a, device=device) for a in arrays]
    try:
        out = _core.run(case.op, inputs, attributes)
        device.synchronize()
    except _core.UnsupportedError:
        return [], "no kernel of its own"
    fault = case.check(arrays, out.numpy())
    if fault:
        raise BenchError(f"[bench] {case.name} on {device.name} is wrong, so there is no figure: {fault}")

    def timed(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            _core.run(case.op, inputs, attributes, outputs=[out])
        device.synchronize()
        return (time.perf_counter() - start) / calls

    timed(1)
    once = min(timed(1) for _ in range(2))
    calls = max(1, math.ceil(_REPEAT_SECONDS / max(once, 1e-9)))
    seconds = []
    for _ in range(repeats):
        ceilings.sample(case.ceiling)
        seconds.append(timed(calls))
    ceilings.sample(case.ceiling)
    fault = case.check(arrays, out.numpy())
    if fault:
        raise BenchError(f"[bench] {case.name} on {device.name} went wrong under load: {fault}")
    return seconds, ""


def judge(case: Case, seconds: Sequence[float], ceiling: float | None, note: str = "") -> Result:
    """Turns times into a figure. Raises BenchError if it is above 102 % of the ceiling."""
    if not seconds:
        return Result(case.name, None, case.unit, ceiling, None, None, None, note)
    median = statistics.median(seconds)
    figure = case.work / median / 1e9
    percent = 100 * figure / ceiling if ceiling else None
    if ceiling and figure > TOLERATED * ceiling:
        raise BenchError(
            f"[bench] {case.name}: {figure:.1f} {case.unit} is {percent:.0f} % of the measured ceiling of {ceiling:.1f}: "
            "the bench or its ceiling is wrong (is the machine busy?)"
        )
    return Result(case.name, figure, case.unit, ceiling, percent, median, (max(seconds) - min(seconds)) / median, note)


def bench(
    name: str,
    *,
    repeats: int = 7,
    array_bytes: int | None = None,
    only: Sequence[str] = (),
    numerics: str = "reproducible",
    progress: Callable[[str, int, int], None] = lambda label, done, total: None,
) -> dict[str, Any]:
    """Benchmarks one device.

    Args:
        name: device string.
        repeats: how often each case is timed; the median counts.
        array_bytes: size of the big arrays, by default four times the largest cache.
        only: names of ops to run, by default all.
        numerics: "reproducible" or "fast".
        progress: called with (label, done, total) before each step.

    Raises:
        BenchError: a kernel is wrong. (A figure above its ceiling has no value in the report and a line in its "faults".)
        ValueError: unknown op in ``only`` or unknown device.
    """
    size = array_bytes or default_array_bytes()
    chosen = cases(size)
    if unknown := set(only) - {c.op for c in chosen}:
        raise ValueError(
            f"[bench] unknown op: got {', '.join(sorted(unknown))}, expected some of {', '.join(dict.fromkeys(c.op for c in chosen))}"
        )
    chosen = [c for c in chosen if not only or c.op in only]
    device = _core.device(name)
    ceilings = Ceilings(device, size)
    timed = []
    with _core.numerics(numerics), _core.fallback("error"):
        for index, case in enumerate(chosen):
            progress(case.name, index, len(chosen))
            timed.append((case, *run_case(device, case, repeats, ceilings)))
            device.empty_cache()
    progress("done", len(chosen), len(chosen))
    results, faults = [], []
    for case, seconds, note in timed:
        ceiling = ceilings.best.get(case.ceiling)
        try:
            results.append(judge(case, seconds, ceiling, note))
        except BenchError as error:  # the other rows are still worth having
            faults.append(str(error))
            results.append(Result(case.name, None, case.unit, ceiling, None, None, None, "above its measured ceiling: not believed"))
    return {
        "device": device.name,
        "hardware": device.properties.get("name", ""),
        "threads": _core.get_num_threads(),
        "numerics": numerics,
        "array_bytes": size,
        "ceilings": {k: {"value": v, "unit": "GFLOP/s" if k == "flops" else "GB/s"} for k, v in ceilings.best.items()},
        "results": [r.as_dict() for r in results],
        "faults": faults,
    }
