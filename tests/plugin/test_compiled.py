"""Tier 2: the example that compiles the portable kernels with the system's C++ compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hal

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugins" / "compiled.py"

pytestmark = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("compiled")
    os.environ["COMPILED_CACHE"] = str(folder)
    yield folder
    del os.environ["COMPILED_CACHE"]


@pytest.fixture(scope="module")
def chip(folder: Path) -> Any:
    from compiled import Compiled

    hal.register_plugin(Compiled)
    return hal.device("compiled:0")


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 200


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.itemsize}")


@pytest.mark.limit(300)
def test_the_bits_are_those_of_the_host(chip: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((37, 37)).astype(np.float32) for _ in range(2))
    index = rng.integers(0, 37, (5, 37))
    with hal.fallback("error"):
        for op, inputs, attributes in [
            ("add", [a, b], {}),
            ("mul", [a, 1.5], {}),
            ("softmax", [a], {"axis": 1}),
            ("sum", [a], {"axes": 2}),
            ("matmul", [a, b], {}),
            ("gather", [a, index], {"axis": 0}),
        ]:
            ours, host = (
                hal.run(op, [hal.array(x, device=d) if isinstance(x, np.ndarray) else x for x in inputs], attributes).numpy()
                for d in (chip, hal.host_device())
            )
            assert np.array_equal(bits(ours), bits(host)), op


def test_kernels_are_compiled_once(chip: Any, folder: Path) -> None:
    x = hal.array(np.zeros(5, np.float32), device=chip)
    hal.run("add", [x, x])
    before = sorted(folder.iterdir())
    for n in range(6, 20):
        hal.run("add", [hal.array(np.zeros(n, np.float32), device=chip), 1.0])
    assert sorted(folder.iterdir()) == before


def test_an_index_out_of_range_is_an_error(chip: Any) -> None:
    x = hal.array(np.zeros((4, 4), np.float32), device=chip)
    with pytest.raises(hal.InvalidArgumentError, match=r"\[gather\] index out of range, expected 0 <= index < 4: got 9"):
        hal.run("gather", [x, hal.array(np.array([[9]]), device=chip)], {"axis": 0})


def test_a_compiler_that_fails_is_told_with_its_words(folder: Path) -> None:
    from chips import register
    from compiled import Compiled

    def compile(self: Any, device: Any, source: str, kernels: Any) -> Any:
        return Compiled.compile(self, device, source + "\n#error the compiler's words", kernels)

    device, _ = register(Compiled, compile=compile)
    with pytest.raises(hal.InternalError, match="the compiler's words"):
        hal.run("add", [hal.array(np.zeros(3, np.float32), device=device), 1.0])


@pytest.mark.slow
@pytest.mark.limit(3600)
def test_it_passes_every_op() -> None:
    """Each op's f32 cases (others differ in loads and stores) by hal's own suite. The kernels are kept in the user's cache."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    env |= {"HAL_TEST_PLUGIN": f"{EXAMPLE}:Compiled", "HAL_TEST_DEVICE": "compiled:0"}
    env.pop("COMPILED_CACHE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / "ops" / "test_bits.py"), "-k", "f32"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
