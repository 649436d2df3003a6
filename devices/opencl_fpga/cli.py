"""`hal fpga`: make images, look into them, estimate what they would take of a board."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(no_args_is_help=True, help="Images for opencl_fpga: build them, look into them, estimate their resources.")
_Device = Annotated[int, typer.Option("--device", help="Number of the device: 1 for opencl_fpga:1.")]


def _fail(error: Exception | str) -> typer.Exit:
    Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
    return typer.Exit(1)


def _recorded_keys(script: list[str]) -> list[str]:
    """Runs a script and tells which of the library's sources it used."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "keys.json"
        done = subprocess.run([sys.executable, *script], env={**os.environ, "HAL_FPGA_RECORD": str(file)}, check=False)
        if done.returncode != 0:
            raise _fail(f"[fpga build] {' '.join(script)} failed with code {done.returncode}: nothing was built")
        if not file.is_file():
            raise _fail(f"[fpga build] {' '.join(script)} used no opencl_fpga device: nothing was built")
        return list(json.loads(file.read_text()))


@app.command(
    "build",
    epilog="Examples:  hal fpga build   |   hal fpga build --op add -o add.halfpga   |   hal fpga build -o train.halfpga train.py",
    context_settings={"allow_interspersed_args": False},
)
def build_command(
    script: Annotated[list[str] | None, typer.Argument(help="A script (and its arguments) to run: the image gets what it uses.")] = None,
    device: _Device = 0,
    op: Annotated[list[str] | None, typer.Option("--op", help="Only this op; may be repeated.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The image file; default for the whole library: the cache.")] = None,
) -> None:
    """Compile kernels into an image. Use it with HAL_FPGA_IMAGE=FILE, or as opencl_fpga:0?image=FILE."""
    import hal

    from . import board, build, image
    from .opencl import find_devices

    try:
        if not 0 <= device < len(find_devices()):
            raise ValueError(f"[fpga build] device {device}: there are {len(find_devices())}")
        if (script or op) and output is None:
            raise ValueError("[fpga build] -o: a part of the library needs a file of its own")
        keys = _recorded_keys(script) if script else None
        content = board.build_library(device, op, keys)
        path = output or build.cached_path(device)
        image.write(path, content)
        made = image.read(path)
    except (ValueError, OSError, hal.Error) as error:
        raise _fail(error) from None
    typer.echo(f"{path}: {len(made.keys())} sources in {len(made.programs)} programs, {made.length / 2**20:.1f} MiB")
    for key, reason in made.failed.items():
        Console(stderr=True).print(f"{key} isn't in it: {reason}", style="red", markup=False, highlight=False)
    if made.failed:
        raise typer.Exit(1)


@app.command("info", epilog="Examples:  hal fpga info train.halfpga")
def info_command(file: Annotated[Path, typer.Argument(help="An image file.")]) -> None:
    """Check an image file and list its kernels."""
    import hal

    from . import image

    try:
        found = image.read(file)
    except (OSError, hal.Error) as error:
        raise _fail(error) from None
    typer.echo(f"for {found.identity}\nsources {found.sources}, {len(found.programs)} programs, {found.length / 2**20:.1f} MiB")
    table = Table("kernel", "parameters", box=None)
    for program in found.programs:
        for kernels in program.kernels.values():
            for name, types in kernels.items():
                table.add_row(name, ", ".join(types))
    Console(soft_wrap=True).print(table)
