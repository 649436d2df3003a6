"""Each case in a process of its own, with a time limit: others' frameworks crashed or hung on some of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MODULES = {
    "cases_values": "02 04 07 08 11 13 16 19 21 24 27 29 31",
    "cases_gradients": "33 36 38 40 42 43 45 47 50 53",
    "cases_use": "55 58 61 64 66 70 72 76 79",
}
CASES = [(module, number) for module, numbers in MODULES.items() for number in numbers.split()]
#: What the package doesn't have yet, by the number of the case.
WAITING = {
    "81": "needs nn.Graph: two calls of a captured function must not share their result (tinygrad#7020)",
    "84": "needs nn.Graph: a captured function fed with its own shifted output (tinygrad#13364, tinygrad#14689)",
}
RUN = "import sys; sys.path.insert(0, sys.argv[1]); m = __import__(sys.argv[2]); getattr(m, 'case_' + sys.argv[3])(sys.argv[4])"


@pytest.mark.parametrize("module,number", CASES, ids=[number for _, number in CASES])
def test_case(module: str, number: str) -> None:
    import hal

    device = os.environ.get("HAL_TEST_DEVICE") or hal.host_device().name
    arguments = [sys.executable, "-c", RUN, str(HERE), module, number, device]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=110, check=False)
    assert ended.returncode == 0, f"exit status {ended.returncode}\n{ended.stderr[-2000:]}"


@pytest.mark.parametrize("number", WAITING)
def test_case_to_come(number: str) -> None:
    pytest.skip(WAITING[number])


def test_every_case_of_the_files_is_run() -> None:
    sys.path.insert(0, str(HERE))
    try:
        found = {(m, n[5:]) for m in MODULES for n in vars(__import__(m)) if n.startswith("case_")}
    finally:
        sys.path.remove(str(HERE))
    assert found == set(CASES) and len(CASES) + len(WAITING) == 34
