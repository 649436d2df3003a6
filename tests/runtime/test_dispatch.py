"""Dispatch: the executable cache, fallback, strided operands, scalars, and errors that say what was wrong."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hal
from hal import _core


def f32(*values: float, device: hal.Device | None = None) -> hal.Array:
    return hal.array(np.array(values, np.float32), device=device)


# --- executable cache --------------------------------------------------------------------------------------------------------


def test_cache_reuses_by_shape(device: hal.Device) -> None:
    x = hal.array(np.ones((3, 5), np.float32), device=device)
    hal.run("add", [x, 1.0])
    before = device.executable_cache_stats()
    for scalar in (2.0, 3.0):  # the value of an immediate isn't part of the key
        hal.run("add", [x, scalar])
    after = device.executable_cache_stats()
    assert after["misses"] == before["misses"] and after["hits"] >= before["hits"] + 2
    hal.run("add", [x.as_strided((5, 3), (1, 5), 0), 1.0])
    assert device.executable_cache_stats()["misses"] == before["misses"] + 1


def test_cache_is_bounded_and_stays_right(device: hal.Device) -> None:
    device.set_executable_cache_capacity(8)
    try:
        base = np.arange(64, dtype=np.float32)
        x = hal.array(base, device=device)
        before = device.executable_cache_stats()["evictions"]
        for _ in range(3):
            for n in range(1, 65):
                y = hal.run("add", [x.as_strided((n,), (1,), 0), float(n)])
                np.testing.assert_array_equal(y.numpy(), base[:n] + n)
                assert device.executable_cache_stats()["size"] <= 8
        assert device.executable_cache_stats()["evictions"] >= before + 100
    finally:
        device.set_executable_cache_capacity(4096)


def test_numerics_setting_nests_and_rejects() -> None:
    assert _core.get_numerics() == "reproducible"
    with hal.numerics("fast"):
        assert _core.get_numerics() == "fast"
        with hal.numerics("reproducible"):
            assert _core.get_numerics() == "reproducible"
        assert _core.get_numerics() == "fast"
    assert _core.get_numerics() == "reproducible"
    with pytest.raises(ValueError, match="'reproducible' or 'fast'"):
        hal.numerics("quick")


# --- operands ----------------------------------------------------------------------------------------------------------------


def test_broadcast_strided_and_in_place(device: hal.Device) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = hal.array(a, device=device)
    row = hal.array(np.array([10, 20, 30, 40], np.float32), device=device)
    np.testing.assert_array_equal(hal.run("add", [x, row]).numpy(), a + np.array([10, 20, 30, 40], np.float32))
    flipped = x.as_strided((3, 4), (4, -1), 3)
    np.testing.assert_array_equal(flipped.numpy(), a[:, ::-1])
    np.testing.assert_array_equal(hal.run("add", [x, flipped]).numpy(), a + a[:, ::-1])
    column = x.as_strided((3,), (4,), 1)
    out = hal.run("add", [column, 100.0], outputs=[column])
    assert out is column
    a[:, 1] += 100
    np.testing.assert_array_equal(x.numpy(), a)


def test_overlapping_input_is_copied_first(device: hal.Device) -> None:
    x = f32(0, 1, 2, 3, 4, 5, device=device)
    hal.run("add", [x.as_strided((5,), (1,), 0), 10.0], outputs=[x.as_strided((5,), (1,), 1)])
    np.testing.assert_array_equal(x.numpy(), [0, 10, 11, 12, 13, 14])
    m = hal.array(np.arange(4, dtype=np.float32).reshape(2, 2), device=device)
    hal.run("copy", [m.as_strided((2, 2), (1, 2), 0)], outputs=[m])
    np.testing.assert_array_equal(m.numpy(), [[0, 2], [1, 3]])


def test_output_that_overlaps_itself_is_refused(device: hal.Device) -> None:
    x = f32(0, 0, 0, device=device)
    with pytest.raises(ValueError, match="overlaps itself"):
        hal.run("fill", [1.0], outputs=[x.as_strided((2, 2), (1, 1), 0)])
    with pytest.raises(ValueError, match="overlaps itself"):
        hal.run("fill", [1.0], outputs=[x.as_strided((2,), (0,), 0)])


def test_empty_operands(device: hal.Device) -> None:
    x = hal.empty((0, 3), "f32", device)
    assert hal.run("add", [x, 1.0]).numpy().shape == (0, 3)
    np.testing.assert_array_equal(hal.run("sum", [x], {"axes": 1}).numpy(), np.zeros((1, 3)))


def test_round_trip_of_every_dtype(device: hal.Device) -> None:
    import ml_dtypes

    for name in ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]:
        values = np.array([[0, 1], [1, 0]], dtype=name)
        out = hal.array(values, device=device).numpy()
        assert out.dtype == values.dtype
        np.testing.assert_array_equal(out, values)
    values = np.array([1.5, -2.25], ml_dtypes.bfloat16)
    x = hal.array(values, device=device)
    assert x.dtype == "bf16" and x.numpy().dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(x.numpy(), values)
    assert hal.array(3.5, device=device).shape == ()
    assert hal.array(np.arange(6).reshape(2, 3)[:, ::-1].astype(">i4"), device=device).numpy().tolist() == [[2, 1, 0], [5, 4, 3]]
    with pytest.raises(TypeError, match="complex128"):
        hal.array([1j], device=device)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("f16", 2049.0, 2048.0),
        ("f16", 1e9, np.inf),
        ("f16", 1 + 2**-11 + 2**-40, 1 + 2**-10),  # once from f64, not through f32
        ("bf16", 1 + 2**-8 + 2**-40, 1 + 2**-7),
        ("f32", 1 + 2**-24 + 2**-50, 1 + 2**-23),
        ("u8", 255, 255),
        ("i8", -128, -128),
        ("i64", -(2**63), -(2**63)),
        ("bool", 5, True),
    ],
)
def test_scalars_round_once(device: hal.Device, dtype: str, value: float, expected: float) -> None:
    assert hal.run("fill", [value], outputs=[hal.empty((1,), dtype, device)]).numpy()[0] == expected


@pytest.mark.parametrize(("dtype", "value"), [("u8", 256), ("u8", -1), ("i8", 128), ("i32", 2**31), ("i64", 2**64)])
def test_scalars_must_fit(device: hal.Device, dtype: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"value: {value} doesn't fit {dtype}"):
        hal.run("fill", [value], outputs=[hal.empty((1,), dtype, device)])


@pytest.mark.parametrize("value", [1.5, "1", float("nan"), 1j])
def test_integers_take_integers(device: hal.Device, value: object) -> None:
    with pytest.raises(TypeError, match="expected an integer"):
        hal.run("fill", [value], outputs=[hal.empty((1,), "i32", device)])


# --- errors of shapes, dtypes and attributes -----------------------------------------------------------------------------------

A23, A45, V3 = np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32), np.zeros(3, np.float32)
IMAGE, KERNEL = np.zeros((1, 4, 5, 5), np.float32), np.zeros((6, 2, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "error", "words"),
    [
        ("addd", [A23, A23], None, ValueError, r"unknown op: got 'addd'.*add"),
        ("add", [A23], None, ValueError, r"\[add\] operands: got 1 inputs and 1 outputs, expected 2 and 1"),
        ("add", [A23, A45], None, ValueError, r"don't broadcast: got a \(2, 3\), b \(4, 5\)"),
        ("add", [A23, A23.astype(np.int32)], None, TypeError, r"b dtype: got i32, expected f32"),
        ("add", [A23, None], None, ValueError, r"b is required"),
        ("exp", [A23.astype(np.int32)], None, TypeError, r"dtype: got i32, expected one of f16, bf16, f32, f64"),
        ("matmul", [A23, A45], None, ValueError, r"inner sizes: got \(2, 3\) and \(4, 5\)"),
        ("matmul", [A23, V3], None, ValueError, r"equal ranks of at least 2"),
        ("sum", [A23], {"axes": 4}, IndexError, r"axes: got bits 4"),
        ("sum", [A23], {"axes": [2]}, IndexError, r"axes: got \[2\], expected axes of 2 dimensions"),
        ("sum", [A23], {"axis": 1}, ValueError, r"unknown attribute 'axis': expected axes"),
        ("amax", [A23[:0]], {"axes": 1}, ValueError, r"nothing to reduce: got \(0, 3\)"),
        ("softmax", [A23], {"axis": 2}, IndexError, r"axis: got 2, expected 0 to 1"),
        ("softmax", [A23], {"axis": "x"}, TypeError, r"axis: got 'x', expected integers"),
        ("conv2d", [IMAGE, KERNEL], None, ValueError, r"channels: got input \(1, 4, 5, 5\)"),
        ("conv2d", [IMAGE, KERNEL], {"groups": 2, "stride": 0}, ValueError, r"stride: got 0, expected at least 1"),
        ("conv2d", [IMAGE, KERNEL], {"groups": 2, "padding": -1}, ValueError, r"padding: got -1, expected at least 0"),
        ("conv2d", [IMAGE, KERNEL], {"groups": 2, "dilation": 3}, ValueError, r"larger than the padded input"),
        ("conv2d", [IMAGE, KERNEL], {"stride": (1, 1, 1)}, ValueError, r"stride: got 3 values, expected 2"),
        ("conv2d", [IMAGE[0], KERNEL], None, ValueError, r"x shape: got \(4, 5, 5\), expected 4 dimensions"),
        ("max_pool2d", [IMAGE], {"kernel": 2, "padding": 2}, ValueError, r"padding: got 2, expected at most half"),
        ("max_pool2d", [IMAGE], {"kernel": 9}, ValueError, r"window is larger"),
        ("nll_loss", [A23, np.zeros(3, np.int64)], None, ValueError, r"target shape: got \(3,\), expected \(2,\)"),
        ("nll_loss", [A23, np.zeros(2, np.int32)], None, TypeError, r"target dtype: got i32, expected i64"),
        ("sgd_step", [A23, A45, None, 0.1, 0, 0, 0], None, ValueError, r"grad shape: got \(4, 5\), expected \(2, 3\)"),
        ("cast", [A23], None, TypeError, r"needs the output's dtype"),
        ("where", [A23, A23, A23], None, TypeError, r"a dtype: got f32, expected bool"),
    ],
)
def test_infer_errors(device: hal.Device, op: str, inputs: list, attributes: dict | None, error: type, words: str) -> None:
    operands = [hal.array(x, device=device) if isinstance(x, np.ndarray) else x for x in inputs]
    with pytest.raises(error, match=words):
        hal.run(op, operands, attributes)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation", "ceil"),
    [
        (5, 2, 2, 0, 1, 0),
        (5, 2, 2, 0, 1, 1),
        (6, 3, 2, 1, 1, 1),
        (7, 3, 3, 1, 2, 1),
        (4, 2, 3, 1, 1, 1),
        (1, 1, 2, 0, 1, 1),
        (10, 3, 4, 1, 1, 1),
    ],
)
def test_pool_sizes_follow_pytorch(device: hal.Device, size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: int) -> None:
    """PyTorch's pooling_output_shape: the last window must start inside the input or the left padding."""
    expected = (size + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (expected - 1) * stride >= size + padding:
        expected -= 1
    x = hal.array(np.zeros((1, 1, size, size), np.float32), device=device)
    attributes = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil}
    out, indices = hal.run("max_pool2d", [x], attributes)
    assert out.shape == indices.shape == (1, 1, expected, expected) and indices.dtype == "i64"


def test_wrong_outputs(device: hal.Device) -> None:
    x = f32(1, 2, 3, device=device)
    with pytest.raises(ValueError, match=r"out shape: got \(2,\), expected \(3,\)"):
        hal.run("add", [x, x], outputs=[hal.empty((2,), "f32", device)])
    with pytest.raises(TypeError, match="dtype"):
        hal.run("add", [x, x], outputs=[hal.empty((3,), "f64", device)])
    with pytest.raises(ValueError, match="shape"):
        hal.run("fill", [1.0], dtype="f32")


@pytest.mark.parametrize(
    ("shape", "strides", "offset"), [((5,), (1,), 0), ((2,), (-1,), 0), ((1,), (1,), 9**18), ((2,), (2**62,), 0), ((1,), (1,), -1)]
)
def test_views_stay_inside_the_buffer(device: hal.Device, shape: tuple, strides: tuple, offset: int) -> None:
    x = hal.empty((4,), "f64", device)  # its buffer has 64 bytes
    if (shape, offset) == ((5,), 0):
        shape = (9,)
    with pytest.raises(ValueError):
        x.as_strided(shape, strides, offset)


@pytest.mark.parametrize("name", ["", "CPU", "1x", "a:b", "a:", "a:-1", "a:99999999999", "a b", "a:0:1"])
def test_malformed_device_strings(name: str) -> None:
    with pytest.raises(ValueError, match=r"\[device\] malformed device string"):
        hal.device(name)


def test_unknown_devices(device: hal.Device) -> None:
    with pytest.raises(ValueError, match=f"unknown device '{device.id}x': available: .*{device.name}.*did you mean '{device.id}'"):
        hal.device(device.id + "x")
    with pytest.raises(ValueError, match="does not exist"):
        hal.device(f"{device.id}:77")
    with pytest.raises(ValueError, match="already open with options"):
        hal.device(f"{device.name}?no_such_option=1")
    assert hal.device(device.id) is hal.device(device.name)


# --- fallback ----------------------------------------------------------------------------------------------------------------


def records(device: hal.Device) -> dict[str, dict]:
    return {r["op"]: r for r in hal.fallback_records() if r["device"] == device.name}


def test_fallback_is_counted(toy: hal.Device) -> None:
    _core.reset_fallback_records()
    x = f32(1, 2, 3, 4, device=toy)
    np.testing.assert_array_equal(hal.run("add", [x, x]).numpy(), [2, 4, 6, 8])
    assert records(toy) == {}, "add is its own"
    for _ in range(2):
        np.testing.assert_array_equal(hal.run("mul", [x, 3.0]).numpy(), [3, 6, 9, 12])
    record = records(toy)["mul"]
    assert record["calls"] == 2 and record["dtype"] == "f32" and record["bytes_moved"] == 2 * (16 + 16)
    assert record["seconds"] > 0


def test_fallback_can_be_forbidden(toy: hal.Device) -> None:
    _core.reset_fallback_records()
    x = f32(1, 2, device=toy)
    with hal.fallback("error"):
        np.testing.assert_array_equal(hal.run("add", [x, x]).numpy(), [2, 4])
        with pytest.raises(hal.UnsupportedError, match=rf"\[mul\] no kernel on {toy.name} for \(f32, f32, f32\).*fallback is forbidden"):
            hal.run("mul", [x, x])
    assert records(toy) == {}
    hal.run("mul", [x, x])
    assert records(toy)["mul"]["calls"] == 1
    with pytest.raises(ValueError, match="'allow' or 'error'"):
        hal.fallback("never")


def test_fallback_keeps_what_lies_between_a_views_elements(toy: hal.Device) -> None:
    a = np.arange(12, dtype=np.float32)
    x = hal.array(a, device=toy)
    view = x.as_strided((3,), (-4,), 9)
    hal.run("mul", [view, 10.0], outputs=[view])
    a[[9, 5, 1]] *= 10
    np.testing.assert_array_equal(x.numpy(), a)
    hal.run("fill", [-1.0], outputs=[x.as_strided((2, 2), (6, 2), 1)])
    a[[1, 3, 7, 9]] = -1
    np.testing.assert_array_equal(x.numpy(), a)


def test_fallback_takes_the_hosts_errors(toy: hal.Device) -> None:
    x = hal.array(np.zeros((2, 3), np.float32), device=toy)
    target = hal.array(np.array([0, 7]), device=toy)
    with pytest.raises(hal.Error, match=r"\[nll_loss\].*7") as caught:
        hal.run("nll_loss", [x, target])
    assert not isinstance(caught.value, hal.UnsupportedError)
    hal.host_device().synchronize()
    np.testing.assert_array_equal(hal.run("mul", [f32(2, device=toy), 2.0]).numpy(), [4])


def test_devices_dont_mix(toy: hal.Device) -> None:
    with pytest.raises(ValueError, match=rf"is on {toy.name}, expected {hal.host_device().name}"):
        hal.run("add", [f32(1), f32(1, device=toy)])


# --- rules of the ABI that a careless runtime breaks ---------------------------------------------------------------------------


def test_no_leaks_over_many_shapes(device: hal.Device) -> None:
    for n in range(1, 300):
        hal.run("add", [hal.empty((n,), "f32", device), 1.0])
    gc.collect()
    device.synchronize()
    assert device.memory_stats()["allocated"] == 0


def test_hot_path_is_fast(device: hal.Device) -> None:
    """Loose bounds (the machine may be busy); docs/benchmarks.md has measured figures."""
    limit = 5_000 if device.is_host else 100_000  # ns; elsewhere most of it is the driver's own launch
    assert _core.bench_noop_launch(device, n=20_000) < limit
    assert _core.bench_run(device, n=20_000) < limit
