"""hal::Error becomes the right Python exception, thrown in hal's own module or in another extension module that links libhal."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

import hal
from hal import _core

pytestmark = pytest.mark.limit(500)  # the first test compiles

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parent.parent / "hal" / "runtime"
STATUSES = {
    2: (hal.InvalidArgumentError, ValueError),
    3: (hal.OutOfMemoryError, MemoryError),
    4: (hal.UnsupportedError, NotImplementedError),
    5: (hal.DeviceLostError, RuntimeError),
    6: (hal.TimeoutError, TimeoutError),
    7: (hal.LaunchFailedError, RuntimeError),
    8: (hal.UnavailableError, RuntimeError),
    9: (hal.InternalError, RuntimeError),
    10: (hal.AbiMismatchError, RuntimeError),
}


@pytest.fixture(scope="module")
def thrower(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    pybind11 = pytest.importorskip("pybind11")
    compiler = shutil.which("c++")
    libhal = Path(_core.__file__).resolve().parent / "lib"
    if compiler is None or not (RUNTIME / "error.hpp").is_file():
        pytest.skip("needs a compiler and the runtime's headers")
    out = tmp_path_factory.mktemp("errors") / f"hal_test_errors{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [pybind11.get_include(), sysconfig.get_path("include"), hal.get_include(), str(RUNTIME)]
    command = [compiler, "-std=c++17", "-O0", "-shared", "-fPIC", "-fvisibility=hidden", *(f"-I{i}" for i in includes)]
    link = ["-o", str(out), f"-L{libhal}", "-lhal", f"-Wl,-rpath,{libhal}"]
    subprocess.run([*command, str(HERE / "error_module.cpp"), *link], check=True, timeout=400)
    spec = importlib.util.spec_from_file_location("hal_test_errors", out)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["hal_test_errors"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("status", STATUSES)
def test_status(thrower: ModuleType, status: int) -> None:
    expected, builtin = STATUSES[status]
    with pytest.raises(expected, match=r"^\[test\] status$") as caught:
        thrower.fail_status(status)
    assert type(caught.value) is expected
    assert isinstance(caught.value, hal.Error) and isinstance(caught.value, RuntimeError) and isinstance(caught.value, builtin)


def test_unknown_status_is_the_base(thrower: ModuleType) -> None:
    with pytest.raises(hal.Error) as caught:
        thrower.fail_status(99)
    assert type(caught.value) is hal.Error


@pytest.mark.parametrize(("kind", "expected"), [(1, hal.InvalidArgumentError), (2, TypeError), (3, IndexError), (4, NotImplementedError)])
def test_kind(thrower: ModuleType, kind: int, expected: type) -> None:
    with pytest.raises(expected, match=r"^\[test\] kind$") as caught:
        thrower.fail_kind(kind)
    assert type(caught.value) is expected


@pytest.mark.parametrize("status", STATUSES)
def test_names(status: int) -> None:
    expected, _ = STATUSES[status]
    assert getattr(hal, expected.__name__) is expected and expected.__module__ == "hal"
