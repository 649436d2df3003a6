"""The library's image in the user's cache: built once, said so, shared, repaired, and done without where there is no place for it.

The library is cut to a few sources here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fpga_cases import entries

from devices.opencl_fpga import board, build, image
from devices.opencl_fpga.opencl import find_devices, identity


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAL_FPGA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "entries_of_ops", lambda index, ops: entries(index, ["add", "copy"]))
    return tmp_path / "cache"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry per build."""
    calls: list[int] = []
    real = build.compile_entries

    def counted(*args: Any, **kwargs: Any) -> bytes:
        calls.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(build, "compile_entries", counted)
    return calls


def test_it_is_built_once_and_says_so(folder: Path, builds: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    first = board.library_image(0)
    assert "building the kernels of" in capsys.readouterr().err
    again = board.library_image(0)
    assert capsys.readouterr().err == ""
    assert len(builds) == 1
    assert again.path == str(build.cached_path(0))
    assert first.keys() == again.keys()
    assert [p.name for p in folder.iterdir() if not p.name.endswith(".lock")] == [build.cached_path(0).name]


@pytest.mark.parametrize("damage", ["cut", "flip", "driver"])
def test_a_damaged_one_is_told_and_built_again(damage: str, folder: Path, builds: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    board.library_image(0)
    path = build.cached_path(0)
    content = path.read_bytes()
    if damage == "driver":
        other = image.unpack(content, "x")
        programs = [(p.binary, p.kernels) for p in other.programs]
        path.write_bytes(image.pack(image.Identity("old", "old", "old"), other.sources, programs, {}))
    else:
        path.write_bytes(content[:-5] if damage == "cut" else content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    assert board.library_image(0).identity == identity(find_devices()[0])
    assert len(builds) == 2
    assert {"cut": "truncated", "flip": "corrupt", "driver": "it was built for old"}[damage] in capsys.readouterr().err
    assert len(image.read(path).keys()) == 2


def test_two_that_want_it_at_once_build_it_once(folder: Path, builds: list[int]) -> None:
    found: list[image.Image] = []
    threads = [threading.Thread(target=lambda: found.append(board.library_image(0))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(found) == 3
    assert len(builds) == 1


def test_a_process_that_builds_is_waited_for(folder: Path, builds: list[int]) -> None:
    """Another process holds the lock and writes the image meanwhile."""
    content = build.compile_entries(0, entries(0, ["add", "copy"]))
    builds.clear()
    path = build.cached_path(0)
    folder.mkdir(parents=True)
    (folder / "content").write_bytes(content)
    script = f"""
import sys, time
from filelock import FileLock
with FileLock({str(path) + ".lock"!r}):
    print("locked", flush=True)
    time.sleep(1.5)
    import os; os.replace({str(folder / "content")!r}, {str(path)!r})
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        found = board.library_image(0)
    assert builds == []
    assert len(found.keys()) == 2


@pytest.mark.parametrize("how", ["a file in its place", "no space"])
def test_a_cache_that_cant_be_written_costs_a_warning(
    how: str, folder: Path, builds: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if how == "no space":
        monkeypatch.setattr(image, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    else:
        folder.write_text("")
    found = board.library_image(0)
    assert len(found.keys()) == 2
    assert found.path == ""
    assert "can't be written" in capsys.readouterr().err
    assert len(builds) == 1


def test_a_source_that_doesnt_compile_is_listed_and_the_rest_is_there(folder: Path) -> None:
    good = entries(0, ["add", "copy"])
    bad = ("badkey", "__kernel void hal_bad() { this is no C }", {"hal_bad": ()})
    made = image.unpack(build.compile_entries(0, [good[0], bad, good[1]]), "x")
    assert set(made.keys()) == {good[0][0], good[1][0]}
    assert "badkey" in made.failed


def test_a_driver_that_dies_while_compiling_costs_one_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = entries(0, ["add"])
    real = build.compiler.send

    def send(stream: Any, value: Any) -> None:
        real(stream, value if "deadly" not in "".join(value[1]) else "not what the child expects")

    monkeypatch.setattr(build.compiler, "send", send)
    made = image.unpack(build.compile_entries(0, [("deadly", "deadly", {}), *good], jobs=1), "x")
    assert list(made.keys()) == [good[0][0]]
    assert "the driver ended the compiling process" in made.failed["deadly"]


def hal_fpga(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = "from devices.opencl_fpga.cli import app; app()"
    return subprocess.run([sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, timeout=100)


@pytest.mark.limit(300)
def test_the_program_builds_an_image_of_a_script_and_lists_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import hal\nx = hal.array([1.0], dtype='f32', device='opencl_fpga:0')\nhal.run('add', [x, 1.0]).numpy()\n")
    out = tmp_path / "script.halfpga"
    done = hal_fpga("build", "-o", str(out), str(script))
    assert done.returncode == 0, done.stderr
    assert "1 sources" in done.stdout
    listed = hal_fpga("info", str(out))
    assert "hal_add_f32" in listed.stdout
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HAL_FPGA_IMAGE": str(out)}
    strict = "import hal; hal.set_fallback('error')\n" + script.read_text()
    subprocess.run([sys.executable, "-c", strict], env=env, check=True, timeout=100)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "--op", "ad", "-o", "x"], "nearest"),
        (["build", "--op", "add"], "needs a file of its own"),
        (["build", "--device", "99"], "device 99"),
        (["info", "/nowhere/at/all"], "No such file"),
    ],
)
def test_bad_arguments_are_errors(arguments: list[str], words: str) -> None:
    done = hal_fpga(*arguments)
    assert done.returncode == 1
    assert words in done.stderr


