"""The program ``hal``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hal
import hal.bench
from hal.diagnosis import missing_libraries


def run_hal(*arguments: str, cache: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    if cache is not None:
        env["XDG_CACHE_HOME"] = str(cache)
    return subprocess.run([sys.executable, "-m", "hal", *arguments], env=env, capture_output=True, text=True, timeout=100, check=False)


def test_devices() -> None:
    done = run_hal("devices", "--json")
    infos = {info["name"]: info for info in json.loads(done.stdout)}
    host = infos[hal.host_device().name]
    assert host["available"] and host["is_host"] and host["properties"]["total_memory"] > 0
    table = run_hal("devices")
    assert table.returncode == 0 and hal.host_device().name in table.stdout


def test_devices_tells_why_a_plugin_is_unavailable(broken_libraries: dict[str, Path], tmp_path: Path) -> None:
    done = run_hal("devices", cache=tmp_path, HAL_PLUGIN_PATH=str(broken_libraries["polite"]))
    assert done.returncode == 0
    assert "polite" in done.stdout and "driver libbroken.so.1 is missing" in done.stdout


def test_doctor(toy_library: Path, tmp_path: Path) -> None:
    done = run_hal("doctor", "--json", cache=tmp_path, HAL_PLUGIN_PATH=str(toy_library))
    plugins = {plugin["id"]: plugin for plugin in json.loads(done.stdout)["plugins"]}
    toy = plugins["toy"]["devices"][0]
    assert plugins["toy"]["origin"] == str(toy_library) and plugins["toy"]["abi"] == hal._core.ABI_VERSION
    assert toy["ops"]["counts"]["native"] == 1 and toy["ops"]["per_op"]["add"]["native"] == ["f32"]
    assert toy["ops"]["counts"]["none"] > 100
    text = run_hal("doctor", "--ops", cache=tmp_path, HAL_PLUGIN_PATH=str(toy_library)).stdout
    assert "1 native, 0 portable" in text and "fallback" in text and str(toy_library.name) in text


def test_missing_libraries_are_named() -> None:
    text = "[plugin x] libcudart.so.12: cannot open shared object file: No such file or directory"
    assert missing_libraries(text) == ["libcudart.so.12"]
    assert missing_libraries("something else") == []


def test_folders_for_plugin_authors() -> None:
    assert (Path(run_hal("--includedir").stdout.strip()) / "hal" / "hal.h").is_file()
    assert (Path(run_hal("--includedir").stdout.strip()) / "hal" / "ops.h").is_file()
    assert (Path(run_hal("--cmakedir").stdout.strip()) / "halConfig.cmake").is_file()


@pytest.mark.parametrize("command", ["devices", "doctor", "bench"])
def test_help_has_examples(command: str) -> None:
    done = run_hal(command, "--help")
    assert done.returncode == 0 and "Examples" in done.stdout


def test_bench_verifies_and_reports() -> None:
    done = run_hal("bench", hal.host_device().name, "--json", "--op", "matmul", "--repeats", "2", "--mebibytes", "8")
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["faults"] else 0), done.stderr  # a neighbour on the machine may have upset a ceiling
    assert [r["case"] for r in report["results"]] == ["matmul n=512", "matmul n=1024"]
    believed = [r for r in report["results"] if r["figure"] is not None]
    assert len(believed) + len(report["faults"]) == 2
    for result in believed:
        assert result["unit"] == "GFLOP/s" and 0 < result["percent"] <= 102
        assert result["figure"] <= 1.02 * report["ceilings"]["flops"]["value"]


@pytest.mark.parametrize("arguments", [("nonsense:0",), ("--op", "nonsense"), ("--numerics", "nonsense")])
def test_bench_refuses_bad_arguments(arguments: tuple[str, ...]) -> None:
    device = () if len(arguments) == 1 else (hal.host_device().name,)
    done = run_hal("bench", *device, *arguments)
    assert done.returncode != 0 and "nonsense" in done.stderr and "Traceback" not in done.stderr


CASE = hal.bench.Case("add", "add", lambda rng: ([], {}), lambda inputs, out: "", 12e9, "triad")


def test_bench_refuses_an_impossible_figure() -> None:
    assert hal.bench.judge(CASE, [1.0, 1.1, 1.2], 11.0).figure == pytest.approx(12 / 1.1)
    assert hal.bench.judge(CASE, [1.0], 12 / 1.019).percent == pytest.approx(101.9)
    with pytest.raises(hal.bench.BenchError, match="121 % of the measured ceiling"):
        hal.bench.judge(CASE, [1.0], 12 / 1.21)
    assert hal.bench.judge(CASE, [], 10.0, "no kernel of its own").figure is None


def test_bench_refuses_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case's check must notice a result in which one element is off."""
    run = hal._core.run

    def off_by_little(op, inputs, attributes=None, outputs=None, **rest):
        out = run(op, inputs, attributes, outputs, **rest)
        values = out.numpy().copy()
        values.reshape(-1)[values.size // 2] += 0.5 if op != "sum" else 200.0
        return hal.array(values)

    monkeypatch.setattr(hal._core, "run", off_by_little)
    device = hal.host_device()
    for case in hal.bench.cases(1 << 20):
        if case.name == "matmul n=1024":
            continue  # as n=512, only slower
        with pytest.raises(hal.bench.BenchError, match=f"{case.name} on .* is wrong"):
            hal.bench.run_case(device, case, 1, hal.bench.Ceilings(device, 1 << 20))
