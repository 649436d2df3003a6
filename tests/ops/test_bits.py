"""Every case of every op and dtype: the device's result has the reference's bits."""

from __future__ import annotations

import pytest

from conformance.cases import cases, find, supported
from conformance.cases.catalogue import drafts
from conformance.execute import check

SHOWN = 4  # failures told in full, per op and dtype


@pytest.mark.parametrize("op,dtype", [pytest.param(op, dtype, id=f"{op}-{dtype}") for op, dtype in supported()])
def test_bits(op: str, dtype: str, device) -> None:
    failures, count = [], 0
    for case in cases(op, dtype):
        count += 1
        try:
            message = check(case, device)
        except Exception as error:  # told with the case's id, as the others are
            message = f"[{op}] dtype {dtype}, case {case.id}: {type(error).__name__}: {error}"
        if message:
            failures.append(message)
    assert not failures, "\n".join([f"{len(failures)} of {count} cases fail", *failures[:SHOWN]])


def test_every_op_and_dtype_has_cases() -> None:
    without = [f"{op}-{dtype}" for op, dtype in supported() if next(iter(drafts(op, dtype)), None) is None]
    assert not without


def test_case_ids_are_unique_and_reproducible() -> None:
    for op, dtype in (("add", "f16"), ("sum", "f32"), ("matmul", "bf16"), ("random_normal", "f64")):
        labels = [d.label for d in drafts(op, dtype)]
        assert len(labels) == len(set(labels))
        for case in list(cases(op, dtype))[:40]:
            again = find(case.id)
            for a, b in zip(case.inputs, again.inputs, strict=True):
                assert a.base.tobytes() == b.base.tobytes() if hasattr(a, "base") else a == b
