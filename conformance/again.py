"""Runs cases again by their ids: ``python -m conformance.again add-f16-broadcast-3``."""

from __future__ import annotations

import sys

import hal

from .cases import View, find
from .execute import check, test_device


def main(ids: list[str]) -> int:
    device, failed = test_device(), 0
    for case_id in ids:
        case = find(case_id)
        for j, value in enumerate(case.inputs):
            text = (
                f"shape {value.shape}, strides {value.strides}, offset {value.offset}, {value.base.dtype}"
                if isinstance(value, View)
                else repr(value)
            )
            print(f"input {j}: {text}")
        for k, view in enumerate(case.outputs or ()):
            print(f"output {k}: {'absent' if view is None else f'shape {view.shape}, strides {view.strides}, offset {view.offset}'}")
        print(f"attributes {case.attributes}, shape {case.shape}, dtype {case.out_dtype}, in place {case.aliases}")
        with hal.fallback("error"):
            message = check(case, device)
        print(message or f"{case_id}: equal")
        failed += message is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
