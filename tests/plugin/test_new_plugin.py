"""`hal new-plugin`: names, refusals, and the packages that it writes, installed and tested from end to end."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hal.cli import app
from hal.plugin.new import create


def hal_program(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, " ".join(result.output.split())


def test_it_refuses_to_overwrite(tmp_path: Path) -> None:
    assert hal_program("new-plugin", "newchip", "--dir", str(tmp_path))[0] == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, output = hal_program("new-plugin", "newchip", "--dir", str(tmp_path))
    assert code == 1
    assert "exists already: nothing was written" in output
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["MyChip", "my-chip", "9chip", "", "a" * 65, "class", "sys", "hal", "devices", "../x"])
def test_bad_names_are_errors(name: str, tmp_path: Path) -> None:
    code, _ = hal_program("new-plugin", name, "--dir", str(tmp_path))
    assert code == 1
    assert list(tmp_path.iterdir()) == []


def test_the_id_of_an_installed_plugin_is_refused(tmp_path: Path) -> None:
    import hal

    with pytest.raises(ValueError, match="is installed"):
        create(hal.host_device().id, tmp_path, "python")


def test_an_unknown_language_is_an_error(tmp_path: Path) -> None:
    code, output = hal_program("new-plugin", "newchip", "--lang", "fortran", "--dir", str(tmp_path))
    assert code == 1
    assert "expected one of python, c" in output


def environment(*first: Path) -> dict[str, str]:
    """This interpreter's packages for a child."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, first), *filter(None, sys.path)])}


def run(*command: str | Path, env: dict[str, str]) -> str:
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_python_package_works_uninstalled(tmp_path: Path) -> None:
    """Quick: entry point and tests, without pip."""
    root = create("quickchip", tmp_path, "python")
    info = root / "quickchip-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quickchip\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[hal.plugins]\nquickchip = quickchip:Quickchip\n")
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", root / "tests", env=environment(root))


@pytest.mark.slow
@pytest.mark.limit(600)
@pytest.mark.parametrize("language", ["python", "c"])
def test_an_installed_package_is_a_device_at_once(language: str, tmp_path: Path) -> None:
    root = create("e2echip", tmp_path, language)
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, env=dict(os.environ))
    python, env = venv / "bin" / "python", environment()
    flags = ["--no-deps", "-q", "-e", root]
    if language == "c":  # built against the hal of this environment
        if not importlib.util.find_spec("scikit_build_core"):
            pytest.skip("scikit-build-core is not installed")
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        flags.insert(0, "--no-build-isolation")
    run(python, "-m", "pip", "install", *flags, env=env)
    assert "e2echip:0" in run(python, "-m", "hal", "devices", env=env)
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", root / "tests", env=env)
