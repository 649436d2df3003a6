"""HAL_VALIDATE=1: the layer between runtime and plugin."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from loader_helpers import compile_driver, evaluate, run_python


def test_validated_plugin_computes_the_same(toy_library: Path, tmp_path: Path) -> None:
    """And the runtime itself breaks no rule and leaks nothing."""
    code = """
    import hal, json
    x = hal.array([1.0, 2.0, 3.0], "f32", device="toy:0")
    e = hal.Event("toy:0")
    s = hal.Stream("toy:0")
    with hal.stream(s):
        y = hal.run("add", [x, x])
        y = hal.run("exp", [y])
        e.record(s)
    s.synchronize()
    del e
    results = [y.numpy().tolist()]
    for name in ("toy:0", hal.host_device().name):
        w = hal.array([[1.0, 2.0], [3.0, 4.0]], "f32", device=name)
        cases = (("matmul", [w, w], None), ("softmax", [w], {"axis": 1}), ("sum", [w], {"axes": 2}), ("add", [w, 1.0], None))
        for op, inputs, attributes in cases:
            results.append(hal.run(op, inputs, attributes).numpy().tolist())
        results.append(hal.run("copy", [w.as_strided([2, 2], [1, 2])]).numpy().tolist())
    print(json.dumps(results))
    """
    plain = evaluate(code, tmp_path, HAL_PLUGIN_PATH=str(toy_library))
    checked = run_python(code, tmp_path, HAL_PLUGIN_PATH=str(toy_library), HAL_VALIDATE="1")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout) == plain
    assert "[validate]" not in checked.stderr


@pytest.fixture(scope="module")
def answers(toy_library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What validation_driver.cpp was answered: name -> (status, text); "stderr" -> ("", all of stderr)."""
    folder = tmp_path_factory.mktemp("driver")
    program = compile_driver("validation_driver", folder)
    env = {**os.environ, "HAL_VALIDATE": "1", "HAL_PLUGIN_PATH": str(toy_library), "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run([str(program), "toy"], capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("|", 2) for line in done.stdout.splitlines()]
    return {**{name: (status, text) for name, status, text in rows}, "stderr": ("", done.stderr)}


@pytest.mark.parametrize("name", ["open", "properties", "stream", "alloc", "copy", "event", "prepare", "launch"])
def test_legal_calls_pass(answers: dict[str, tuple[str, str]], name: str) -> None:
    assert answers[name] == ("HAL_OK", "")


BREACHES = {
    "open_twice": "device 0 is open already",
    "foreign_device": "not an open device of plugin toy",
    "alloc_zero": "got size 0",
    "alloc_alignment": "alignment 24",
    "copy_past_end": "dst runs past its allocation: offset 8 + size 64 > 64",
    "copy_wraps": "src runs past its allocation",
    "copy_null_memory": "the memory is NULL",
    "event_destroyed": "not a living event",
    "prepare_flags": "operand 2: an output without HAL_OPERAND_OUTPUT",
    "prepare_rank": "operand 0: rank 99",
    "launch_past_end": "operand 2 touches bytes 52 to 68 of an allocation of 64",
    "launch_offset": "operand 2 has an offset of 34",
    "launch_count": "got 2 buffers, expected 3",
    "launch_released": "not a living one",
    "copy_freed": "not a living allocation",
    "closed": "not an open device",
}


@pytest.mark.parametrize("name", BREACHES)
def test_breach_is_answered(answers: dict[str, tuple[str, str]], name: str) -> None:
    status, text = answers[name]
    assert status == "HAL_ERROR_INVALID_ARGUMENT"
    assert text.startswith("[validate] ") and BREACHES[name] in text


def test_double_free_and_leaks_are_reported(answers: dict[str, tuple[str, str]]) -> None:
    text = answers["stderr"][1]
    assert "[validate] toy: memory.free: " in text and "not a living allocation" in text
    assert "[validate] toy: leak: 1 stream(s) still alive" in text
    assert "allocation(s)" not in text and "executable(s)" not in text
