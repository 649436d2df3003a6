"""Golden hashes: SHA-256 of every op's results in every dtype, so that no change of a bit goes unnoticed.

``python -m conformance.golden --write`` computes the cases on a device (``HAL_TEST_DEVICE``, else the host), checks each against
the reference, and writes ``tests/golden/golden.json``. Without ``--write`` it compares. The inputs have a hash of their own: where it
differs, the cases have changed and not the results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .cases import Case, View, cases, supported
from .compare import canonical
from .execute import check, expected, results, test_device

PATH = Path(__file__).resolve().parent.parent / "tests" / "golden" / "golden.json"
ONE_IN = 4  #: cases that take part, chosen by their ids


def chosen(op: str, dtype: str) -> Iterator[Case]:
    """The cases that an op's golden hash covers."""
    for case in cases(op, dtype):
        if hashlib.sha256(case.id.encode()).digest()[0] % ONE_IN == 0:
            yield case


def _add(digest: Any, array: np.ndarray | None) -> None:
    if array is None:
        digest.update(b"absent")
        return
    digest.update(f"{array.dtype}{array.shape}".encode())
    bits = canonical(array)
    digest.update(np.asarray(bits, bits.dtype.newbyteorder("<")).tobytes())


def hashes(op: str, dtype: str, evaluate: Any) -> dict[str, Any]:
    """Hash of the inputs and of what ``evaluate(case)`` gives, over the chosen cases."""
    inputs, outputs, count = hashlib.sha256(), hashlib.sha256(), 0
    for case in chosen(op, dtype):
        inputs.update(f"{case.id}{case.attributes}{case.shape}".encode())
        for value in case.inputs:
            if isinstance(value, View):
                _add(inputs, value.logical())
            else:
                inputs.update(repr(value).encode())
        for array in evaluate(case):
            _add(outputs, array)
        count += 1
    return {"cases": count, "inputs": inputs.hexdigest(), "results": outputs.hexdigest()}


def read() -> dict[str, dict[str, dict[str, Any]]]:
    return json.loads(PATH.read_text(encoding="utf-8"))


def write(device: Any, only: str | None = None) -> None:
    """All ops, or one. Raises AssertionError if a result differs from the reference's."""
    golden: dict[str, dict[str, dict[str, Any]]] = read() if only else {}
    for op, dtype in supported():
        if only not in (None, op):
            continue
        for case in chosen(op, dtype):
            wrong = check(case, device)
            assert wrong is None, wrong
        golden.setdefault(op, {})[dtype] = hashes(op, dtype, lambda case: results(case, device))
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


def compare(device: Any | None) -> list[str]:
    """What differs from the file, for a device, or (None) for the reference."""
    golden, messages = read(), []
    for op, dtype in supported():
        got = hashes(op, dtype, expected if device is None else lambda case: results(case, device))
        want = golden.get(op, {}).get(dtype)
        if got != want:
            messages.append(f"[{op}] {dtype}: got {got}, expected {want}")
    return messages


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m conformance.golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the file anew")
    parser.add_argument("--reference", action="store_true", help="compare the reference instead of the device")
    parser.add_argument("--op", help="write this op only")
    options = parser.parse_args()
    if options.write:
        write(test_device(), options.op)
        print(f"wrote {PATH}")
        return 0
    messages = compare(None if options.reference else test_device())
    print("\n".join(messages) or "all hashes are equal")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
