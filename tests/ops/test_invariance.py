"""The same bits for any number of threads, any strides, a row alone or in a batch, and whatever floating-point mode the caller has set."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hal
from conformance.cases.case import rng_of
from conformance.cases.values import LAYOUTS, moderate, place, wide
from conformance.compare import difference
from conformance.dtypes import FLOATS
from conformance.execute import to_device
from conformance.reference import evaluate

THREADS = (1, 2, 5)


def run(device: Any, op: str, inputs: list[Any], attributes: dict | None = None, **options: Any) -> tuple[np.ndarray, ...]:
    placed = [hal.array(i, device=device) if isinstance(i, np.ndarray) else i for i in inputs]
    out = hal.run(op, placed, attributes, stream=device.default_stream, **options)
    return tuple(o.numpy() for o in (out if isinstance(out, tuple) else (out,)) if o is not None)


def assert_same(label: str, a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        text = difference(x, y)
        assert text is None, f"{label}: {text}"


def large_calls(dtype: str) -> Iterator[tuple[str, list[Any], dict | None, dict]]:
    """Calls that are large enough to be split over threads."""
    rng = rng_of(f"large-{dtype}")

    def x(*shape: int) -> np.ndarray:
        return wide(rng, dtype, shape)

    flat, square = x(300_001), x(517, 611)
    yield "add", [flat, x(300_001)], None, {}
    yield "exp", [moderate(rng, dtype, (100_003,))], None, {}
    yield "where", [rng.random(200_001) < 0.5, x(200_001), x(200_001)], None, {}
    yield "cast", [flat], None, {"dtype": "i32"}
    yield "cast", [flat], None, {"dtype": "f16" if dtype != "f16" else "bf16"}
    for op in ("sum", "mean", "amax", "argmin", "prod"):
        yield op, [flat], {"axes": 1}, {}
        yield op, [square], {"axes": 1}, {}
        yield op, [square], {"axes": 2}, {}
        yield op, [x(61, 40, 67)], {"axes": 0b101}, {}
    for op in ("softmax", "log_softmax"):
        yield op, [square], {"axis": 1}, {}
        yield op, [square], {"axis": 0}, {}
        yield op, [x(3, 50_000)], {"axis": 1}, {}
    yield "softmax_backward", [square, np.abs(square)], {"axis": 1}, {}
    yield "matmul", [x(200, 600), x(600, 170)], None, {}
    yield "matmul", [x(1, 1100), x(1100, 900)], None, {}
    yield "matmul", [x(900, 1100), x(1100, 1)], None, {}
    yield "matmul", [x(9, 70, 65), x(9, 65, 40)], None, {}
    conv = {"padding": (1, 1)}
    image, weight, grad = x(4, 20, 19, 23), x(33, 20, 3, 3), x(4, 33, 19, 23)
    yield "conv2d", [image, weight], conv, {}
    yield "conv2d_input_grad", [grad, weight], conv, {"shape": image.shape}
    yield "conv2d_weight_grad", [grad, image], conv, {"shape": weight.shape}
    c = np.float64 if dtype == "f64" else np.float32
    yield "layer_norm", [x(700, 300), x(300), x(300), 1e-5], {"axis": 1}, {}
    statistics = [rng.random((9000, 1)).astype(c), rng.random((9000, 1)).astype(c)]
    yield "layer_norm_backward", [x(9000, 40), x(9000, 40), *statistics, x(40)], {"axis": 1}, {}
    yield "layer_norm_param_grad", [x(9000, 40), x(9000, 40), *statistics], {"axis": 1}, {}
    yield "batch_norm", [x(4, 30, 40, 41), x(30), x(30), 1e-5], {}, {}
    yield "batch_norm_backward", [x(4, 30, 40, 41), x(4, 30, 40, 41), *(rng.random(30).astype(c) for _ in range(2)), x(30)], {}, {}
    yield "avg_pool2d", [x(16, 20, 40, 41)], {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}, {}
    yield "avg_pool2d_backward", [x(16, 20, 20, 21)], {"kernel": (2, 2), "stride": (2, 2)}, {"shape": (16, 20, 40, 42)}
    pool = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    yield "max_pool2d", [x(16, 20, 40, 41)], pool, {}
    indices = evaluate("max_pool2d", [x(6, 20, 40, 41)], pool)[1]
    yield "max_pool2d_backward", [x(*indices.shape), indices], pool, {"shape": (6, 20, 40, 41)}
    yield "random_normal", [3, 8, 0.0, 1.0], None, {"shape": (300_001,), "dtype": dtype}
    yield "random_uniform", [3, 8, 0.0, 1.0], None, {"shape": (300_001,), "dtype": dtype}
    yield "sgd_step", [flat, x(300_001), x(300_001), 0.1, 0.9, 0.0, 0.01], {"nesterov": 1}, {}
    yield "adam_step", [flat, x(300_001), x(300_001), np.abs(x(300_001)), None, 1e-3, 0.9, 0.999, 1e-8, 0.0, 0.1, 0.03], {}, {}
    index = rng.integers(0, 30_000, 200_000)
    index[:2000] = 7  # several chains
    yield "gather", [flat, index], {"axis": 0}, {}
    yield "scatter_add", [flat[:200_000], index], {"axis": 0}, {"shape": (30_000,)}
    yield "scatter_add", [x(3000, 40), rng.integers(0, 50, (3000, 40))], {"axis": 0}, {"shape": (50, 40)}
    yield "cumsum", [flat], {"axis": 0}, {}
    yield "cumsum", [square], {"axis": 0}, {}
    yield "sort", [square], {"axis": 0, "descending": 1}, {}
    yield "topk", [square], {"axis": 1, "k": 9, "largest": 0}, {}


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = hal.get_num_threads()
    hal.set_num_threads(n)
    try:
        yield
    finally:
        hal.set_num_threads(before)


@pytest.mark.parametrize("dtype", FLOATS)
def test_any_number_of_threads(dtype: str, device) -> None:
    for k, (op, inputs, attributes, options) in enumerate(large_calls(dtype)):
        results = []
        for n in THREADS:
            with threads(n):
                results.append(run(device, op, inputs, attributes, **options))
        for n, other in zip(THREADS[1:], results[1:], strict=True):
            assert_same(f"[{op}] call {k}, {dtype}: 1 and {n} threads", results[0], other)


NORMS = ["layer_norm", "layer_norm_backward", "layer_norm_param_grad", "batch_norm", "batch_norm_backward"]


@pytest.mark.parametrize(
    "op", ["sum", "mean", "prod", "softmax", "log_softmax", "matmul", "conv2d", "conv2d_weight_grad", "add", "argmax", "cumsum", "sort", *NORMS]
)
def test_large_calls_have_the_reference_bits(op: str, device) -> None:
    for name, inputs, attributes, options in large_calls("f32"):
        if name == op:
            want = evaluate(op, inputs, attributes, **options)
            assert_same(f"[{op}]", want if isinstance(want, tuple) else (want,), run(device, op, inputs, attributes, **options))


def test_three_levels_of_blocks(device) -> None:
    """More than 4096 blocks of 4096: the block results are summed in blocks themselves."""
    x = wide(rng_of("three-levels"), "f32", (4096 * 4096 + 4100,))
    for op in ("sum", "prod"):
        values = x if op == "sum" else (1 + x * np.float32(2**-22)).astype(np.float32)
        assert_same(f"[{op}]", (evaluate(op, [values], {"axes": 1}),), run(device, op, [values], {"axes": 1}))
    assert_same("[cumsum]", (evaluate("cumsum", [x], {"axis": 0}),), run(device, "cumsum", [x], {"axis": 0}))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_strided_as_contiguous(layout: str, dtype: str, device) -> None:
    rng = rng_of(f"strided-{layout}-{dtype}")
    a, b = wide(rng, dtype, (40, 70)), wide(rng, dtype, (70, 33))
    image, weight = wide(rng, dtype, (2, 17, 9, 8)), wide(rng, dtype, (5, 17, 3, 3))
    calls = [
        ("add", [a, a], None),
        ("tanh", [a], None),
        ("sum", [a], {"axes": 2}),
        ("sum", [a], {"axes": 1}),
        ("sum", [a], {"axes": 3}),
        ("amax", [a], {"axes": 1}),
        ("softmax", [a], {"axis": 1}),
        ("softmax", [a], {"axis": 0}),
        ("matmul", [a, b], None),
        ("conv2d", [image, weight], {"padding": (1, 1)}),
        ("max_pool2d", [image], {"kernel": (2, 2), "stride": (2, 2)}),
        ("cast", [a], None),
    ]
    for op, inputs, attributes in calls:
        options = {"dtype": "i16"} if op == "cast" else {}
        strided = [to_device(place(i, layout, rng), device)[1] for i in inputs]
        assert_same(
            f"[{op}] {layout}, {dtype}", run(device, op, inputs, attributes, **options), run(device, op, strided, attributes, **options)
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_row_alone_as_in_a_batch(dtype: str, device) -> None:
    rng = rng_of(f"rows-{dtype}")
    a, b = wide(rng, dtype, (37, 600)), wide(rng, dtype, (600, 50))
    whole = run(device, "matmul", [a, b])[0]
    for i in (0, 5, 6, 36):
        assert_same("[matmul] row", (whole[i : i + 1],), run(device, "matmul", [a[i : i + 1], b]))
    for j in (0, 15, 16, 49):
        assert_same("[matmul] column", (whole[:, j : j + 1],), run(device, "matmul", [a, b[:, j : j + 1]]))
    for size in (2, 3, 7, 13):
        assert_same("[matmul] rows", (whole[:size],), run(device, "matmul", [a[:size], b]))
    for op, attributes in (
        ("softmax", {"axis": 1}),
        ("log_softmax", {"axis": 1}),
        ("sum", {"axes": 2}),
        ("mean", {"axes": 2}),
        ("prod", {"axes": 2}),
    ):
        whole = run(device, op, [a], attributes)[0]
        for i in (0, 17, 36):
            assert_same(f"[{op}] row", (whole[i : i + 1],), run(device, op, [a[i : i + 1]], attributes))
    image, weight = wide(rng, dtype, (5, 17, 9, 8)), wide(rng, dtype, (20, 17, 3, 3))
    whole = run(device, "conv2d", [image, weight], {"padding": (1, 1)})[0]
    back = run(device, "conv2d_input_grad", [whole, weight], {"padding": (1, 1)}, shape=image.shape)[0]
    for n in (0, 4):
        alone = run(device, "conv2d", [image[n : n + 1], weight], {"padding": (1, 1)})
        assert_same("[conv2d] image", (whole[n : n + 1],), alone)
        assert_same(
            "[conv2d_input_grad] image",
            (back[n : n + 1],),
            run(device, "conv2d_input_grad", [*alone, weight], {"padding": (1, 1)}, shape=(1, *image.shape[1:])),
        )
    for o in (0, 19):
        assert_same(
            "[conv2d] output channel", (whole[:, o : o + 1],), run(device, "conv2d", [image, weight[o : o + 1]], {"padding": (1, 1)})
        )


@pytest.fixture(scope="module")
def float_mode(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler is needed"
    library = tmp_path_factory.mktemp("float_mode") / "float_mode.so"
    source = Path(__file__).with_name("float_mode.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True, timeout=60)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("n", THREADS)
def test_flush_to_zero_of_the_caller_changes_nothing(n: int, float_mode: ctypes.CDLL, device) -> None:
    rng = rng_of("flush")
    subnormal = (moderate(rng, "f32", (300_001,)) * np.float32(2.0**-130)).astype(np.float32)
    small = (moderate(rng, "f32", (40, 600)) * np.float32(2.0**-70)).astype(np.float32)
    halves = np.frombuffer(rng.bytes(2 * 5000), np.uint16) & 0x83FF  # subnormal f16
    calls: list[tuple[str, list[Any], dict | None, dict]] = [
        ("add", [subnormal, subnormal[::-1].copy()], None, {}),
        ("mul", [subnormal, 0.5], None, {}),
        ("abs", [subnormal], None, {}),
        ("gt", [subnormal, 0.0], None, {}),
        ("exp", [np.linspace(-105, -85, 4001, dtype=np.float32)], None, {}),
        ("tanh", [subnormal], None, {}),
        ("sum", [subnormal], {"axes": 1}, {}),
        ("amax", [-np.abs(subnormal)], {"axes": 1}, {}),
        ("matmul", [small, small.T.copy()], None, {}),
        ("cast", [halves.view(np.float16)], None, {"dtype": "f32"}),
        ("cast", [subnormal], None, {"dtype": "f64"}),
        ("cast", [subnormal.astype(np.float64)], None, {"dtype": "f32"}),
        ("cast", [subnormal], None, {"dtype": "bool"}),
        ("add", [halves.view(np.float16), halves[::-1].copy().view(np.float16)], None, {}),
        ("softmax", [small * np.float32(2.0**70) * 60], {"axis": 1}, {}),
        ("conv2d", [small.reshape(4, 60, 10, 10), small[:, :240].reshape(40, 60, 2, 2)], None, {}),
        ("argmax", [subnormal], {"axes": 1}, {}),
        ("sgd_step", [subnormal, subnormal[::-1].copy(), None, 0.5, 0.0, 0.0, 0.1], {}, {}),
    ]
    with threads(n):
        for op, inputs, attributes, options in calls:
            want = run(device, op, inputs, attributes, **options)
            float_mode.set_flush(1)
            try:
                got = run(device, op, inputs, attributes, **options)
                kept = float_mode.flushes()
            finally:
                float_mode.set_flush(0)
            assert kept, f"[{op}] the caller's mode wasn't restored"
            assert_same(f"[{op}] with flush-to-zero", want, got)
            if op not in ("exp", "tanh", "softmax"):
                reference = evaluate(op, inputs, attributes, **options)
                assert_same(f"[{op}] subnormals", reference[:1] if isinstance(reference, tuple) else (reference,), want[:1])


def test_python_scalars_are_immediates_under_flush_to_zero(float_mode: ctypes.CDLL, device) -> None:
    """A subnormal immediate is converted from f64 with subnormals kept."""
    x = np.array([0.0, 1.0], np.float32)
    value = 2.0**-140
    float_mode.set_flush(1)
    try:
        got = run(device, "add", [x, value])[0]
    finally:
        float_mode.set_flush(0)
    assert got.view(np.uint32)[0] == np.array([value], np.float32).view(np.uint32)[0]
