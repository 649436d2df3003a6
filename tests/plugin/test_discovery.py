"""Plugins written in Python found through entry points: probing, choice between two with one id, broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plugins"
LIST = "import hal\nfor d in hal.devices(): print(d.name, d.available, d.reason)"


def package(folder: Path, name: str, body: str, plugin_id: str | None = None) -> Path:
    """A folder on sys.path that looks like an installed package with a plugin."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(f"import os, time, hal\nfrom memory_only import MemoryOnly\nclass Chip(MemoryOnly):\n    id = '{plugin_id or name}'\n" + textwrap.indent(textwrap.dedent(body), "    "))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hal.plugins]\n{plugin_id or name} = {name}:Chip\n")
    return folder


def run(script: str, *folders: Path, **environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(EXAMPLES), *filter(None, sys.path)]), **environment}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_entry_point_is_a_device(tmp_path: Path) -> None:
    folder = package(tmp_path / "site", "fine", "")
    out = run("import hal\nx = hal.array([1.0], dtype='f32', device='fine:0')\nprint(x.numpy())\n" + LIST, folder, XDG_CACHE_HOME=str(tmp_path))
    assert "[1.]" in out
    assert "fine:0 True" in out


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def devices(self): os.abort()", "crashed with SIGABRT"),
        ("def devices(self): os._exit(3)", "ended the process with code 3"),
        ("def devices(self): time.sleep(100)", "didn't come back within 3 s"),
        ("def devices(self): raise hal.UnavailableError('no board')", "no board"),
        ("def devices(self): return []", "no device"),
        ("def devices(self): return 7", "devices raised TypeError"),
    ],
)
def test_what_a_driver_does_is_reported_not_suffered(body: str, words: str, tmp_path: Path) -> None:
    folder = package(tmp_path / "site", "wild", body)
    out = run(LIST, folder, XDG_CACHE_HOME=str(tmp_path), HAL_PROBE_TIMEOUT="3" if "sleep" in body else "30")
    assert words in next(line for line in out.splitlines() if line.startswith("wild False")), out
    assert ":0 True" in out  # the host


def test_a_verdict_is_cached_until_the_module_changes(tmp_path: Path) -> None:
    folder = package(tmp_path / "site", "counted", f"def devices(self):\n    open({str(tmp_path / 'calls')!r}, 'a').write(f'{{os.getpid()}} ')\n    return super().devices()")
    calls = tmp_path / "calls"

    def processes() -> int:
        calls.unlink(missing_ok=True)
        run(LIST, folder, XDG_CACHE_HOME=str(tmp_path))
        return len(set(calls.read_text().split()))

    assert processes() == 2
    assert processes() == 1
    with (folder / "counted.py").open("a") as file:
        file.write("\n# changed\n")
    assert processes() == 2


def test_two_plugins_with_one_id_are_refused_until_one_is_chosen(tmp_path: Path) -> None:
    first = package(tmp_path / "a", "first", "version = 'A'", "twice")
    second = package(tmp_path / "b", "second", "version = 'B'", "twice")
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    out = run(LIST, first, second, **environment)
    assert "twice:0" not in out
    assert "the id 'twice' is claimed by" in out
    assert "choose with HAL_PLUGIN_TWICE" in out
    script = "import hal\nhal.device('twice:0')\nprint([p['version'] for p in hal.doctor()['plugins'] if p['id'] == 'twice' and p['available']])"
    assert "['B']" in run(script, first, second, HAL_PLUGIN_TWICE="second:Chip", **environment)


def test_a_module_that_fails_to_import_is_listed(tmp_path: Path) -> None:
    folder = package(tmp_path / "site", "lost", "import a_module_that_is_not_there")
    out = run(LIST, folder, XDG_CACHE_HOME=str(tmp_path))
    assert "lost False" in out
    assert "a_module_that_is_not_there" in out
