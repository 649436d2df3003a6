"""conv2d and its gradients on the cpu device, bit for bit against the contract's loops (docs/numerics.md, 8)."""

from __future__ import annotations

from dataclasses import replace

import chain_reference as reference
import numpy as np
import pytest
from chain_reference import Conv
from kernel_cases import FLOATS, LAYOUTS, placed, rng, run, values

import hal

CASES = {
    "3x3": Conv(2, 5, 9, 11, 7, 3, 3, padding=(1, 1)),
    "1x1": Conv(2, 40, 6, 5, 9, 1, 1),
    "one pixel": Conv(3, 2, 4, 4, 3, 4, 4),
    "stride": Conv(2, 6, 13, 12, 8, 3, 3, stride=(2, 2), padding=(1, 1)),
    "uneven": Conv(1, 3, 17, 15, 4, 5, 2, stride=(3, 2), padding=(2, 0), dilation=(1, 3)),
    "stride beyond kernel": Conv(2, 3, 14, 15, 4, 2, 1, stride=(3, 4), padding=(0, 1)),
    "dilation": Conv(1, 4, 16, 16, 5, 3, 3, padding=(2, 3), dilation=(2, 3)),
    "stride and dilation": Conv(1, 4, 19, 20, 5, 3, 4, stride=(2, 4), padding=(3, 2), dilation=(2, 3)),
    "much padding": Conv(1, 2, 3, 4, 3, 3, 3, padding=(4, 5)),
    "groups": Conv(2, 12, 8, 8, 18, 3, 3, padding=(1, 1), groups=3),
    "depthwise": Conv(2, 10, 8, 9, 10, 3, 3, padding=(1, 1), groups=10),
    "depthwise, multiplier": Conv(1, 6, 8, 9, 12, 3, 3, stride=(2, 2), padding=(1, 1), groups=6),
    "many channels": Conv(1, 70, 7, 6, 75, 3, 3, padding=(1, 1)),
    "block of 16 and one": Conv(2, 17, 10, 10, 33, 3, 3, padding=(1, 1)),
    "kernel larger than a chunk": Conv(1, 18, 9, 9, 20, 7, 7, padding=(3, 3)),
    "wide": Conv(1, 3, 4, 700, 4, 3, 3, padding=(1, 1)),
    "many rows": Conv(3, 2, 130, 66, 3, 3, 3, padding=(1, 1)),
    "tall output in groups of chunks": Conv(5, 1, 120, 40, 2, 1, 3, padding=(0, 1)),
    "line": Conv(2, 3, 1, 50, 4, 1, 5),
    "patches": Conv(2, 3, 16, 16, 12, 4, 4, stride=(4, 4)),
}


def operands(s: Conv, dtype: str, special: float = 0.0) -> dict[str, np.ndarray]:
    r = rng("conv", s, dtype, special)
    return {
        "x": values(s.x_shape, dtype, r, special),
        "weight": values(s.weight_shape, dtype, r, special),
        "grad": values(s.out_shape, dtype, r, special),
    }


OPS = {"conv2d": ("x", "weight"), "conv2d_input_grad": ("grad", "weight"), "conv2d_weight_grad": ("grad", "x")}


def check(op: str, s: Conv, dtype: str, data: dict[str, np.ndarray], layouts: tuple[str, str, str] = ("contiguous",) * 3) -> None:
    first, second = (data[name] for name in OPS[op])
    expected = getattr(reference, op)(first, second, s)
    got = run(op, [placed(first, layouts[0]), placed(second, layouts[1])], expected.shape, dtype, layouts[2], **s.attributes)
    reference.assert_same_bits(got, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("op", OPS)
def test_geometry(op: str, case: str, dtype: str) -> None:
    check(op, CASES[case], dtype, operands(CASES[case], dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS)
def test_layouts(op: str, dtype: str) -> None:
    s = Conv(2, 20, 6, 7, 8, 3, 2, stride=(1, 2), padding=(1, 1))
    data = operands(s, dtype)
    for i, layout in enumerate(LAYOUTS):
        check(op, s, dtype, data, (layout, LAYOUTS[(i + 1) % 5], LAYOUTS[(i + 2) % 5]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS)
def test_channels_last(op: str, dtype: str) -> None:
    s = Conv(2, 5, 6, 7, 8, 3, 3, padding=(1, 1))
    first, second = (operands(s, dtype)[name] for name in OPS[op])
    views = []
    for x in (first, second):
        base = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        views.append(hal.array(base).as_strided(x.shape, tuple(v // x.itemsize for v in base.transpose(0, 3, 1, 2).strides), 0))
    expected = getattr(reference, op)(first, second, s)
    reference.assert_same_bits(run(op, views, expected.shape, dtype, **s.attributes), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("share", [0.003, 0.1])
def test_special_values(op: str, dtype: str, share: float) -> None:
    for s in (CASES["3x3"], CASES["stride"], CASES["1x1"], CASES["groups"], CASES["stride and dilation"]):
        check(op, s, dtype, operands(s, dtype, share))


@pytest.mark.parametrize("weight", [np.inf, -np.inf, np.nan])
def test_left_out_taps_of_the_input_gradient_stay_out(weight: float) -> None:
    """A tap beyond the output is no operand: an infinite weight there must not turn into 0·inf = NaN."""
    s = Conv(1, 1, 4, 4, 1, 3, 3)
    data = {"grad": np.ones(s.out_shape, np.float32), "weight": np.ones(s.weight_shape, np.float32)}
    data["weight"][0, 0, 2, 2] = weight
    check("conv2d_input_grad", s, "f32", data)
    got = run("conv2d_input_grad", [hal.array(data["grad"]), hal.array(data["weight"])], s.x_shape, "f32", **s.attributes)
    assert got[0, 0, 0, 0] == 1.0


def test_padding_is_an_operand_of_the_forward_pass() -> None:
    s = Conv(1, 1, 3, 3, 1, 3, 3, padding=(1, 1))
    weight = np.ones(s.weight_shape, np.float32)
    weight[0, 0, 0, 0] = np.inf
    got = run("conv2d", [hal.array(np.ones(s.x_shape, np.float32)), hal.array(weight)], s.out_shape, "f32", **s.attributes)
    assert np.isnan(got[0, 0, 0, 0]) and np.isinf(got[0, 0, 1, 1])


@pytest.mark.parametrize("op", OPS)
def test_bits_do_not_depend_on_threads_or_batch(op: str) -> None:
    s = Conv(4, 20, 28, 30, 24, 3, 3, padding=(1, 1))
    data = operands(s, "f32")
    before = hal.get_num_threads()
    try:
        for threads in (1, 2, 5):
            hal.set_num_threads(threads)
            check(op, s, "f32", data)
    finally:
        hal.set_num_threads(before)
    if op != "conv2d_weight_grad":
        one = replace(s, n=1)
        first, second = OPS[op]
        whole = run(
            op,
            [hal.array(data[first]), hal.array(data[second])],
            (s.n, *(s.out_shape if op == "conv2d" else s.x_shape)[1:]),
            "f32",
            **s.attributes,
        )
        alone = run(op, [hal.array(data[first][2:3]), hal.array(data[second])], (1, *whole.shape[1:]), "f32", **one.attributes)
        reference.assert_same_bits(alone[0], whole[2])


def test_a_1x1_convolution_is_a_matmul() -> None:
    s = Conv(1, 600, 5, 5, 9, 1, 1)
    data = operands(s, "f32")
    product = run("matmul", [hal.array(data["weight"].reshape(9, 600)), hal.array(data["x"].reshape(600, 25))], (9, 25), "f32")
    got = run("conv2d", [hal.array(data["x"]), hal.array(data["weight"])], s.out_shape, "f32", **s.attributes)
    reference.assert_same_bits(got.reshape(9, 25), product)


@pytest.mark.parametrize("s", [Conv(0, 2, 5, 5, 3, 3, 3), Conv(1, 0, 5, 5, 3, 3, 3), Conv(1, 2, 5, 5, 0, 3, 3), Conv(0, 2, 5, 5, 0, 3, 3)])
@pytest.mark.parametrize("op", OPS)
def test_empty(op: str, s: Conv) -> None:
    check(op, s, "f32", operands(s, "f32"))


@pytest.mark.parametrize(
    "x, weight, out, attributes",
    [
        ((1, 2, 5, 5), (3, 3, 3, 3), (1, 3, 3, 3), {}),
        ((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 4, 3), {}),
        ((1, 2, 5, 5), (3, 2, 3, 3), (2, 3, 3, 3), {}),
        ((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 3, 3), {"stride": (0, 1)}),
        ((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 3, 3), {"padding": (-1, 0)}),
        ((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 3, 3), {"dilation": (1, 0)}),
        ((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 3, 3), {"groups": 0}),
        ((1, 2, 5, 5), (3, 1, 3, 3), (1, 3, 3, 3), {"groups": 2}),
        ((1, 2, 2, 2), (3, 2, 3, 3), (1, 3, 1, 1), {}),
    ],
)
def test_wrong_arguments_raise(x: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...], attributes: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        run("conv2d", [hal.array(np.ones(x, np.float32)), hal.array(np.ones(weight, np.float32))], out, "f32", **attributes)
