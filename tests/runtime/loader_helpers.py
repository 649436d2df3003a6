"""Running a snippet against a fresh runtime, since plugins are loaded once per process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import hal


def run_python(code: str, cache: Path, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs ``code`` in a new interpreter with its own verdict cache. HAL_* variables of this process don't leak in."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("HAL_")}
    env.update({"XDG_CACHE_HOME": str(cache), "HAL_NUM_THREADS": "2"}, **environment)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


def evaluate(code: str, cache: Path, **environment: str) -> Any:
    """As run_python; the snippet prints one JSON value as its last line."""
    done = run_python(code, cache, **environment)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


RECORDS = "import hal, json; print(json.dumps(hal._core.plugin_records(load=True)))"


def records(cache: Path, **environment: str) -> dict[str, dict[str, Any]]:
    """id -> record of every plugin that a fresh process finds."""
    return {record["id"]: record for record in evaluate(RECORDS, cache, **environment)}


def compile_driver(name: str, folder: Path) -> Path:
    """Compiles ``tests/runtime/<name>.cpp`` against the runtime's C++ headers and the installed library."""
    here = Path(__file__).parent
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")))
    library = Path(hal.get_include()).parent / "lib"
    program = folder / name
    command = [
        compiler,
        "-std=c++17",
        "-O1",
        f"-I{here.parents[1] / 'hal' / 'runtime'}",
        f"-I{hal.get_include()}",
        str(here / f"{name}.cpp"),
    ]
    command += ["-o", str(program), f"-L{library}", "-lhal", f"-Wl,-rpath,{library}", "-pthread"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    return program
