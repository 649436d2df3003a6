"""The first load of a plugin written in Python happens in a child process too: a driver that crashes, exits or hangs in `devices` is
reported, not suffered. Its module itself is imported here, so it should import its driver late, in `devices`.

Verdicts are cached by the module's path, size and time, beside those of native plugins; HAL_PROBE_CACHE and HAL_PROBE_TIMEOUT hold too.

    python -m hal.plugin.probe module:attribute        (the child)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import _core

_FAILURE_LIFETIME = 60  # seconds, as for native plugins


def guarded(devices: Callable[[], Any], source: str) -> Callable[[], Any]:
    """The hook `devices`, preceded by a probe of the plugin at ``source`` ("module:attribute") the first time."""
    seen = False

    def call() -> Any:
        nonlocal seen
        if not seen:
            if reason := probe(source):
                raise _core.UnavailableError(reason)
            seen = True
        return devices()

    return call


def probe(source: str) -> str:
    """"" or what went wrong with the child. An exception that `devices` raises is no verdict: it comes up again here, with its frames."""
    file, stamp = _stamp(source)
    setting = os.environ.get("HAL_PROBE_CACHE", "")
    if file is not None and setting == "" and (known := _read(file, stamp)) is not None:
        return known
    reason = _run(source)
    if file is not None and setting != "0":
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            aside = file.with_suffix(f".{os.getpid()}")
            aside.write_text(json.dumps({"stamp": stamp, "reason": reason, "time": time.time()}))
            aside.replace(file)
    return reason


def _run(source: str) -> str:
    text = os.environ.get("HAL_PROBE_TIMEOUT", "")
    seconds = float(text) if text.replace(".", "", 1).isdigit() and float(text) > 0 else 10.0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "hal.plugin.probe", source]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"its hook devices didn't come back within {seconds:g} s (probed in a child process; HAL_PROBE_TIMEOUT changes the limit)"
    if done.stdout.endswith("answered\n"):
        return ""
    said = (done.stderr.strip().splitlines() or [""])[-1]
    code = done.returncode
    how = f"crashed with {signal.Signals(-code).name}" if code < 0 else f"ended the process with code {code}"
    return f"its hook devices {how} (probed in a child process)" + (f"; it said: {said}" if said else "")


def _stamp(source: str) -> tuple[Path | None, str]:
    """Where the verdict is kept, and what it depends on."""
    module = sys.modules.get(source.partition(":")[0])
    path = getattr(module, "__file__", None)
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("HOME") and f"{os.environ['HOME']}/.cache")
    if not path or not home:
        return None, ""
    try:
        info = Path(path).stat()
    except OSError:
        return None, ""
    name = hashlib.sha256(f"{source}\0{path}\0{sys.executable}".encode()).hexdigest()[:16]
    return Path(home) / "hal" / "probe" / f"python-{name}.json", f"{_core.ABI_VERSION} {info.st_size} {info.st_mtime_ns}"


def _read(file: Path, stamp: str) -> str | None:
    try:
        verdict = json.loads(file.read_text())
        if verdict["stamp"] != stamp or (verdict["reason"] and not 0 <= time.time() - verdict["time"] < _FAILURE_LIFETIME):
            return None
        return str(verdict["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def main(source: str) -> None:
    module, _, attribute = source.partition(":")
    value = getattr(import_module(module), attribute)
    plugin = value() if callable(value) else value
    try:
        plugin.devices()
    except Exception as error:
        print(error, file=sys.stderr)
    print("answered", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
