"""Runs a case on a device, through ``hal.run``, and by the reference."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from hal.ops.table import BY_NAME

from .cases import Case, View
from .compare import difference
from .dtypes import name_of
from .reference import evaluate

#: Ops whose result carries NaN payloads unchanged.
PAYLOAD = frozenset({"copy"})


def expected(case: Case) -> tuple[np.ndarray | None, ...]:
    """The reference's outputs."""
    shape, dtype = case.shape, case.out_dtype or case.dtype
    if case.outputs is not None and case.outputs[0] is not None:
        shape, dtype = case.outputs[0].shape, name_of(case.outputs[0].base)
    result = evaluate(case.op, case.arrays(), case.attributes, shape=shape, dtype=dtype)
    return result if isinstance(result, tuple) else (result,)


def to_device(view: View, device: Any) -> tuple[Any, Any]:
    """(storage, strided view) on the device."""
    import hal

    storage = hal.array(view.base, device=device)
    return storage, storage.as_strided(view.shape, view.strides, view.offset)


def results(case: Case, device: Any) -> tuple[np.ndarray | None, ...]:
    """The device's outputs. Raises AssertionError if it wrote beside an output or into an input that isn't aliased."""
    import hal

    placed = [to_device(i, device) if isinstance(i, View) else (None, i) for i in case.inputs]
    inputs = [p[1] for p in placed]
    outputs: list[Any] | None = None
    storages: list[tuple[View, Any]] = []
    if case.outputs is not None:
        pairs = [to_device(o, device) if o is not None else (None, None) for o in case.outputs]
        outputs = [p[1] for p in pairs]
        storages = [(o, p[0]) for o, p in zip(case.outputs, pairs, strict=True) if o is not None]
    elif case.aliases:
        outputs = [inputs[case.aliases[k]] if k in case.aliases else None for k in range(len(BY_NAME[case.op].outputs))]
        storages = [(case.inputs[j], placed[j][0]) for j in case.aliases.values()]
    given = outputs is not None
    out = hal.run(
        case.op,
        inputs,
        case.attributes or None,
        outputs,
        shape=None if given else case.shape,
        dtype=None if given else case.out_dtype,
        **_stream(device),
    )
    arrays = out if isinstance(out, tuple | list) else (out,)
    for view, storage in storages:
        after, gaps = storage.numpy(), view.untouched()
        assert difference(view.base[gaps], after[gaps], payload=True) is None, f"[{case.op}] {case.id}: wrote beside an output"
    aliased = set(case.aliases.values()) if given else set()
    for j, (view, (storage, _)) in enumerate(zip(case.inputs, placed, strict=True)):
        if isinstance(view, View) and j not in aliased:
            assert difference(view.base, storage.numpy(), payload=True) is None, f"[{case.op}] {case.id}: changed input {j}"
    return tuple(None if a is None else a.numpy() for a in arrays)


def _stream(device: Any) -> dict[str, Any]:
    """An op without tensor operands runs on the stream that it is given."""
    return {"stream": device.default_stream}


def check(case: Case, device: Any) -> str | None:
    """None if the device computes the reference's bits, else a message that says what differs, and how to run it again."""
    want, got = expected(case), results(case, device)
    got = (*got, *[None] * (len(want) - len(got)))
    for k, (w, g) in enumerate(zip(want, got, strict=True)):
        if w is None and g is None:
            continue
        if w is None or g is None:
            return f"[{case.op}] {case.id}: output {k} is {'missing' if g is None else 'unexpected'}"
        text = difference(w, g, payload=case.op in PAYLOAD)
        if text:
            return f"[{case.op}] dtype {case.dtype}, case {case.id}, output {k}: {text}. Again: python -m conformance.again {case.id}"
    return None


def register_test_plugin() -> None:
    """Registers the plugin written in Python that HAL_TEST_PLUGIN=file.py:Class names, once."""
    import runpy

    import hal

    plugin = os.environ.get("HAL_TEST_PLUGIN", "")
    if plugin and plugin not in _registered:
        _registered.add(plugin)
        path, _, name = plugin.rpartition(":")
        hal.register_plugin(runpy.run_path(path)[name])


_registered: set[str] = set()


def test_device() -> Any:
    """The device named by the environment variable HAL_TEST_DEVICE, else the host."""
    import hal

    register_test_plugin()
    name = os.environ.get("HAL_TEST_DEVICE")
    return hal.device(name) if name else hal.host_device()


test_device.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test
