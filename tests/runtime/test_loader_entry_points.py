"""Entry points: plugins (group hal.plugins) and subcommands (group hal.commands) of installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loader_helpers import records


@pytest.fixture
def installed(toy_library: Path, tmp_path: Path) -> Path:
    """A folder on sys.path that looks like an installed package with good and broken entry points."""
    folder = tmp_path / "packages"
    info = folder / "toy_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hal.plugins]\ntoy = toy_package:library_path\nlost = toy_package:missing\nraising = toy_package:raises\n"
        "[hal.commands]\nhello = toy_package:hello\nbad = toy_package:missing\n"
    )
    (folder / "toy_package.py").write_text(
        f"library_path = {str(toy_library)!r}\n"
        "def raises():\n    raise OSError('no driver today')\n"
        "def hello(name: str = 'you') -> None:\n    print('hello ' + name)\n"
    )
    return folder


def test_plugins(installed: Path, toy_library: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    found = records(tmp_path, PYTHONPATH=path)
    assert found["toy"]["available"] and found["toy"]["origin"] == str(toy_library)
    assert not found["lost"]["available"] and "missing" in found["lost"]["reason"]
    assert not found["raising"]["available"] and "OSError: no driver today" in found["raising"]["reason"]
    assert any(record["is_host"] and record["available"] for record in found.values())


def test_subcommands(installed: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "hal", *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)

    assert run("hello", "--name", "world").stdout == "hello world\n"
    broken = run("bad")
    assert broken.returncode == 1 and "toy_package:missing" in broken.stderr and "Traceback" not in broken.stderr
    assert "hello" in run("--help").stdout


def test_tensors_move_to_a_plugin_by_its_id(installed: Path) -> None:
    code = (
        "import hal, oneflow_mini as flow\n"
        "x = flow.tensor([1.0, 2.0])\n"
        "y = x.toy()\n"
        "assert y.device.name == 'toy:0' and (y + y).cpu().tolist() == [2.0, 4.0], y\n"
        "model = flow.nn.Linear(2, 1).toy(0)\n"
        "assert model.weight.device.name == 'toy:0' and flow.toy.device_count() == 1\n"
        "assert not hasattr(x, 'lostandfound') and not hasattr(flow, 'lostandfound')\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
