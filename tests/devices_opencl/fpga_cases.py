"""Some sources of the portable library, few enough to be compiled for each run of the tests."""

from __future__ import annotations

from typing import Any


def plans(index: int) -> list[Any]:
    """Some plans of the portable library, for f32 and a few ops."""
    from devices.opencl_fpga import build
    from devices.opencl_fpga.opencl import find_devices
    from hal import portable

    target = build.target(find_devices()[index])
    x, s = portable.Operand("f32", (4, 3)), portable.Operand("f32", (), immediate=True)
    return [
        portable.plan("add", [x, x, x], {}, target),
        portable.plan("mul", [x, x, x], {}, target),
        portable.plan("fill", [s, x], {}, target),
        portable.plan("copy", [x, x], {}, target),
        portable.plan("gather", [x, portable.Operand("i64", (4, 3)), x], {"axis": 0}, target),
    ]


def entries(index: int, names: list[str] | None = None) -> list[Any]:
    chosen = [p for p in plans(index) if names is None or any(f"hal_{n}_" in p.source for n in names)]
    return [(p.key, p.source, {s.kernel: s.argument_types() for s in p.steps}) for p in chosen]
