"""Times oneflow_mini against PyTorch on the CPU, in turn, and prints the ratios.

    python benchmarks/run.py [GROUP …] [--rounds 5] [--device cpu:0] [--torch-python PATH] [--write] [--json]

PyTorch is installed into an environment of its own (build/torch-venv) unless --torch-python names one that has it. --write
puts the table into docs/benchmarks.md. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import datetime
import json
import math
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
PAGE = ROOT / "docs" / "benchmarks.md"
GROUPS = ("overhead", "training", "matmul", "convolution", "streaming", "order", "memory")
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def torch_python() -> str:
    """Python of an environment that has PyTorch; made on first use."""
    venv = ROOT / "build" / "torch-venv"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", TORCH, "numpy"], check=True)
    return str(python)


def measure(python: str, framework: str, device: str | None, group: str) -> dict[str, float]:
    command = [python, str(ROOT / "benchmarks" / "cases.py"), framework, device or "-", group]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{framework}, group {group}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return json.loads(done.stdout.strip().splitlines()[-1])[group]


def import_time() -> float:
    """Seconds that ``import oneflow_mini`` adds to a Python that does nothing; median of 5."""

    def one(code: str) -> float:
        script = f"import time; s = time.perf_counter(); {code}; print(time.perf_counter() - s)"
        return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)

    return statistics.median(one("import oneflow_mini") for _ in range(5))


def noop_launch_ns(device: str | None) -> float:
    """Nanoseconds of one launch of a prepared one-element kernel through the ABI, from C++; median of 5."""
    import hal

    name = device or hal.host_device().name
    return statistics.median(hal.bench_noop_launch(hal.device(name), 100000) for _ in range(5))


def machine() -> str:
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
        platform.processor(),
    )
    return f"{model}, {len(__import__('os').sched_getaffinity(0))} cores, {platform.system()}, Python {platform.python_version()}"


def show(value: float, group: str) -> str:
    if group == "memory":
        return f"{value / 2**20:.0f} MiB"
    return f"{value * 1e6:.2f} µs" if value < 1e-3 else f"{value * 1e3:.2f} ms"


Row = tuple[str, float, float]  # work, ours, PyTorch's: seconds, or bytes in the group "memory"


def geometric_mean(rows: list[Row]) -> float:
    return math.exp(statistics.fmean(math.log(ours / theirs) for _, ours, theirs in rows))


def markdown(tables: dict[str, list[Row]], extra: dict[str, str], rounds: int) -> str:
    lines = [f"{datetime.date.today().isoformat()}, {machine()}, 2 threads, median of {rounds} rounds in turn with {TORCH}.", ""]
    lines += ["| work | oneflow_mini | PyTorch | ratio |", "|---|---|---|---|"]
    for group, rows in tables.items():
        lines += [f"| {name} | {show(ours, group)} | {show(theirs, group)} | {ours / theirs:.2f} |" for name, ours, theirs in rows]
        if len(rows) > 3:
            lines.append(f"| *{group}, geometric mean* | | | **{geometric_mean(rows):.2f}** |")
    lines += ["", "| | |", "|---|---|", *[f"| {k} | {v} |" for k, v in extra.items()]]
    return "\n".join(lines)


def main(
    groups: Annotated[list[str] | None, typer.Argument(help=f"Which cases: {', '.join(GROUPS)}; default: all.")] = None,
    rounds: Annotated[int, typer.Option(help="Times that each framework is run.")] = 5,
    device: Annotated[str | None, typer.Option(help="Device of oneflow_mini; default: the host device.")] = None,
    torch: Annotated[str | None, typer.Option("--torch-python", help="A Python that has PyTorch.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the table into docs/benchmarks.md.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time oneflow_mini against PyTorch on the CPU."""
    console = Console(stderr=as_json)
    chosen = groups or list(GROUPS)
    for group in chosen:
        if group not in GROUPS:
            raise typer.BadParameter(f"group: got {group!r}, expected one of {', '.join(GROUPS)}")
    other = torch or torch_python()
    tables: dict[str, list[Row]] = {}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring", total=2 * rounds * len(chosen))
        for group in chosen:
            ours, theirs = [], []
            for _ in range(rounds):
                for results, python, framework in ((ours, sys.executable, "oneflow_mini"), (theirs, other, "torch")):
                    results.append(measure(python, framework, device, group))
                    progress.advance(task)
            tables[group] = [(n, statistics.median(r[n] for r in ours), statistics.median(r[n] for r in theirs)) for n in ours[0]]
    extra = {
        "launch of a prepared kernel through the ABI, from C++": f"{noop_launch_ns(device):.0f} ns",
        "`import oneflow_mini`": f"{import_time():.2f} s",
    }
    if as_json:
        rows = [
            {"group": group, "work": n, "oneflow_mini": o, "torch": t, "unit": "bytes" if group == "memory" else "s", "ratio": o / t}
            for group, table in tables.items()
            for n, o, t in table
        ]
        print(json.dumps({"rows": rows, "extra": extra, "machine": machine()}))
    view = Table("work", "oneflow_mini", "PyTorch", "ratio")
    for group, table in tables.items():
        for name, o, t in table:
            view.add_row(name, show(o, group), show(t, group), f"{o / t:.2f}")
        if len(table) > 3:
            view.add_row(f"[italic]{group}, geometric mean", "", "", f"[bold]{geometric_mean(table):.2f}")
        view.add_section()
    console.print(view)
    for name, value in extra.items():
        console.print(f"{name}: {value}")
    if write:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        PAGE.write_text(head + BEGIN + "\n" + markdown(tables, extra, rounds) + "\n" + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
