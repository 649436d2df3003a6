"""The program ``hal``. Packages add subcommands through the entry-point group ``hal.commands``: name -> typer.Typer or function."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

GROUP = "hal.commands"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog="Examples:  hal devices   |   hal doctor --json   |   hal bench cpu:0 --op matmul   |   cmake -Dhal_DIR=$(hal --cmakedir) ...",
)
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def _print_and_exit(function: Callable[[], str]) -> Callable[[bool], None]:
    def callback(wanted: bool) -> None:
        if wanted:
            typer.echo(function())
            raise typer.Exit

    return callback


def _cmake_dir() -> str:
    import hal

    return hal.cmake_dir()


def _include_dir() -> str:
    import hal

    return hal.get_include()


def _version() -> str:
    import hal

    return f"hal {hal.__version__}, ABI {hal._core.ABI_VERSION}"


@app.callback()
def _root(
    cmakedir: Annotated[
        bool, typer.Option("--cmakedir", callback=_print_and_exit(_cmake_dir), is_eager=True, help="Print the folder for -Dhal_DIR=.")
    ] = False,
    includedir: Annotated[
        bool, typer.Option("--includedir", callback=_print_and_exit(_include_dir), is_eager=True, help="Print the folder of the headers.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", callback=_print_and_exit(_version), is_eager=True, help="Print versions.")] = False,
) -> None:
    """One interface to every accelerator that has a plugin."""


def _console() -> Console:
    return Console(soft_wrap=not sys.stdout.isatty())


def _dump(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


# --- hal devices ---------------------------------------------------------------------------------------------------------------------


@app.command(epilog="Examples:  hal devices   |   hal devices --json")
def devices(as_json: _Json = False) -> None:
    """List the devices that are here, and what is unavailable and why."""
    from dataclasses import asdict

    import hal

    infos = hal.devices()
    if as_json:
        _dump([asdict(info) for info in infos])
        return
    table = Table("device", "hardware", "memory", "capabilities", box=None, header_style="bold")
    for info in infos:
        if info.available:
            p = info.properties
            label = info.name + (" (host)" if info.is_host else "")
            table.add_row(label, str(p.get("name", "")), _gib(p.get("total_memory", 0)), ", ".join(p.get("capabilities", [])))
    console = _console()
    console.print(table if table.row_count else "no device is available")
    for info in infos:
        if not info.available:
            console.print(f"[red]unavailable[/red] {info.name}: ", end="")
            console.print(info.reason, markup=False, highlight=False)
            console.print(f"  from {info.origin}", markup=False, highlight=False)


# --- hal doctor ----------------------------------------------------------------------------------------------------------------------


@app.command(epilog="Examples:  hal doctor   |   hal doctor --probe   |   hal doctor --json | jq .plugins")
def doctor(
    as_json: _Json = False,
    probe: Annotated[bool, typer.Option("--probe", help="Probe every library again instead of using earlier verdicts.")] = False,
    ops: Annotated[bool, typer.Option("--ops", help="List the ops that have no reproducible kernel.")] = False,
) -> None:
    """Tell for each plugin where it came from, whether and how it works, and what fell back to the host."""
    import os

    if probe:
        os.environ["HAL_PROBE_CACHE"] = "refresh"
    import hal

    report = hal.doctor()
    if as_json:
        _dump(report)
        return
    console = _console()
    console.print(f"hal {report['hal']}, ABI {report['abi']}, Python {report['python']}, {report['threads']} threads", highlight=False)
    for name, value in report["environment"].items():
        console.print(f"{name}={value}", markup=False, highlight=False)
    if not report["plugins"]:
        console.print("[red]no plugin was found[/red]: none is installed, and HAL_PLUGIN_PATH names none")
    for plugin in report["plugins"]:
        _print_plugin(console, plugin, ops)


def _print_plugin(console: Console, plugin: dict[str, Any], list_ops: bool) -> None:
    state = "[green]available[/green]" if plugin["available"] else "[red]unavailable[/red]"
    console.print(f"\n[bold]{plugin['id']}[/bold] {state}")
    facts = [("from", plugin["origin"])]
    if plugin["reason"]:
        facts.append(("reason", plugin["reason"]))
    if plugin["missing_libraries"]:
        facts.append(("missing libraries", ", ".join(plugin["missing_libraries"])))
    if "abi" in plugin:
        facts.append(("version", f"{plugin['version']}, ABI {plugin['abi']}, op set {plugin['opset']}"))
        facts.append(("optional tables", ", ".join(plugin["optional_tables"]) or "none"))
    _print_facts(console, facts)
    for device in plugin["devices"]:
        _print_device(console, device, list_ops)


def _print_facts(console: Console, facts: list[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        table.add_row("  " + name, value)
    console.print(table, markup=False, highlight=False)


def _print_device(console: Console, device: dict[str, Any], list_ops: bool) -> None:
    if "error" in device:
        console.print(f"  {device['name']}: {device['error']}", markup=False, highlight=False)
        return
    properties, memory, ops = device["properties"], device["memory"], device["ops"]
    counts = ops["counts"]
    missing = "unsupported" if device["is_host"] else "fallback"
    labels = {"native": "native", "portable": "portable", "fast": "fast only", "none": missing}
    facts = [
        (device["name"], f"{properties.get('name', '')} ({properties.get('vendor', '')}, {properties.get('driver', '')})"),
        ("capabilities", ", ".join(properties.get("capabilities", [])) or "none"),
        ("memory", f"{_gib(memory['free'])} free of {_gib(memory['total'])}"),
        ("ops × dtypes", ", ".join(f"{counts[kind]} {label}" for kind, label in labels.items())),
        *device["facts"].items(),
        ("allocator", ", ".join(f"{k} {v}" for k, v in device["allocator"].items())),
        ("executables", ", ".join(f"{k} {v}" for k, v in device["executable_cache"].items())),
    ]
    records = device["fallbacks"]
    total = sum(r["calls"] for r in records)
    facts.append(("fallbacks", f"{total} calls so far in this process" if records else "none so far in this process"))
    facts += [("", f"{r['op']} {r['dtype']}: {r['calls']} calls, {r['bytes_moved']} bytes moved") for r in records]
    if list_ops:
        facts += [(missing, f"{op}: {', '.join(kinds['none'])}") for op, kinds in ops["per_op"].items() if "none" in kinds]
    _print_facts(console, facts)


# --- hal bench -----------------------------------------------------------------------------------------------------------------------


@app.command(epilog="Examples:  hal bench cpu:0   |   hal bench cpu:0 --op add --op matmul --json")
def bench(
    device: Annotated[str, typer.Argument(help="A device string as hal devices lists them.")],
    as_json: _Json = False,
    op: Annotated[list[str] | None, typer.Option("--op", help="Run only this op; may be given several times.")] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Timings per case; the median counts.")] = 7,
    mebibytes: Annotated[int, typer.Option(min=0, max=4096, help="Size of the big arrays; 0: four times the largest cache.")] = 0,
    numerics: Annotated[str, typer.Option(help="reproducible or fast")] = "reproducible",
) -> None:
    """Measure kernels against the measured ceiling of the hardware. Fails on a wrong result or an impossible figure. Takes about
    half a minute on an idle machine."""
    import hal

    from .bench import BenchError
    from .bench import bench as run

    if numerics not in ("reproducible", "fast"):
        raise typer.BadParameter(f"got {numerics!r}, expected reproducible or fast", param_hint="--numerics")
    bar = Progress(
        TextColumn("{task.description:16}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True,
        disable=as_json or not sys.stderr.isatty(),
    )  # fmt: skip
    try:
        with bar:
            task = bar.add_task("start", total=None)
            report = run(
                device,
                repeats=repeats,
                array_bytes=mebibytes << 20 or None,
                only=op or (),
                numerics=numerics,
                progress=lambda label, done, total: bar.update(task, description=label, completed=done, total=total),
            )
    except (BenchError, hal.Error, ValueError, MemoryError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    if as_json:
        _dump(report)
    else:
        _print_bench(_console(), report)
    for fault in report["faults"]:
        Console(stderr=True).print(fault, style="red", markup=False, highlight=False)
    if report["faults"]:
        raise typer.Exit(1)


def _print_bench(console: Console, report: dict[str, Any]) -> None:
    console.print(
        f"{report['device']}: {report['hardware']}, {report['threads']} threads, numerics {report['numerics']}, "
        f"arrays of {report['array_bytes'] >> 20} MiB",
        markup=False, highlight=False,
    )  # fmt: skip
    table = Table(box=None, header_style="bold")
    for name in ("case", "time", "figure", "unit", "ceiling", "% of ceiling", "spread"):
        table.add_column(name, justify="left" if name in ("case", "unit") else "right")
    for r in report["results"]:
        if r["figure"] is None:
            table.add_row(r["case"], "-", "-", r["unit"], "-", "-", r["note"])
            continue
        ceiling = "-" if r["ceiling"] is None else f"{r['ceiling']:.1f}"
        percent = "-" if r["percent"] is None else f"{r['percent']:.0f} %"
        table.add_row(
            r["case"], f"{r['seconds'] * 1e3:.3f} ms", f"{r['figure']:.1f}", r["unit"], ceiling, percent, f"±{50 * r['spread']:.0f} %"
        )
    console.print(table)
    if not report["ceilings"]:
        console.print("No ceiling: only the host device's hardware can be measured without its kernels so far.")


# --- hal new-plugin ------------------------------------------------------------------------------------------------------------------


@app.command("new-plugin", epilog="Examples:  hal new-plugin mychip   |   hal new-plugin mychip --lang c   |   pip install -e mychip")
def new_plugin(
    name: Annotated[str, typer.Argument(help="The device id: mychip for devices mychip:0, mychip:1, …")],
    lang: Annotated[str, typer.Option("--lang", help="python or c.")] = "python",
    parent: Annotated[Path, typer.Option("--dir", help="Folder in which the package is made.")] = Path(),
) -> None:
    """Write a package with a working device, its tests and a README, to start from."""
    from .plugin.new import create

    try:
        root = create(name, parent, lang)
    except (ValueError, OSError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    console = _console()
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        console.print(f"  {path}", markup=False, highlight=False)
    console.print(f"Next: pip install -e {root}, then hal devices", markup=False, highlight=False)


# --- subcommands of other packages ---------------------------------------------------------------------------------------------------


def _add_plugin_commands() -> None:
    from importlib import metadata

    for point in sorted(metadata.entry_points(group=GROUP), key=lambda p: p.name):
        try:
            command = point.load()
        except Exception as error:  # the other commands must still work; this one says what is wrong when it is called
            app.command(point.name, help=f"unavailable: {error}")(_broken_command(point.name, point.value, error))
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=point.name)
        else:
            app.command(point.name)(command)


def _broken_command(name: str, value: str, error: Exception) -> Callable[[], None]:
    def command() -> None:
        Console(stderr=True).print(
            f"[{name}] the command {value} can't be loaded: {type(error).__name__}: {error}", style="red", markup=False
        )
        raise typer.Exit(1)

    return command


def main() -> None:
    """Entry point of the ``hal`` program."""
    _add_plugin_commands()
    app(prog_name="hal")


if __name__ == "__main__":
    main()
