"""The kernels compute the contract's bits: conformance cases through `plan`, compiled as C++ here and, where PyOpenCL is, as OpenCL."""

import importlib.util

import numpy as np
import pytest
from harness import Cxx, check

from conformance.compare import difference
from conformance.dtypes import NUMPY
from conformance.reference import evaluate
from hal import portable
from hal.ops.table import BY_NAME, OPS
from hal.portable import Instruction, Operand, Program

#: One op of each family, in the dtypes that differ in code.
SAMPLE = [
    *(("exp", d) for d in ("f32", "bf16")),
    *(("add", d) for d in ("f16", "i8")),
    *(
        (op, "f16")
        for op in ("cast", "where", "sum", "argmax", "softmax", "layer_norm", "batch_norm_backward", "adam_step", "random_normal")
    ),
    *((op, "f32") for op in ("copy", "matmul", "conv2d", "conv2d_input_grad", "conv2d_weight_grad", "max_pool2d", "avg_pool2d_backward")),
    *((op, "f32") for op in ("nll_loss", "gather", "scatter_add", "cumsum", "sort")),
    ("nonzero", "bool"),
]
HAS_OPENCL = importlib.util.find_spec("pyopencl") is not None
needs_opencl = pytest.mark.skipif(not HAS_OPENCL, reason="PyOpenCL isn't installed")


@pytest.fixture(scope="module")
def cxx():
    return Cxx()


@pytest.fixture(scope="module", params=[False, True], ids=["loops", "threads"])
def opencl(request):
    from opencl_runner import OpenCL

    return OpenCL(request.param)


@pytest.mark.parametrize(("op", "dtype"), SAMPLE)
def test_sample(op, dtype, cxx):
    assert check(cxx, op, (dtype,), one_in=6) == []


@pytest.mark.slow
@pytest.mark.parametrize("op", [o.name for o in OPS])
def test_every_case(op, cxx):
    assert check(cxx, op) == []


@needs_opencl
@pytest.mark.parametrize(("op", "dtype"), [("add", "f16"), ("exp", "f32"), ("sum", "f32"), ("nll_loss", "f32")])
def test_sample_opencl(op, dtype, opencl):
    assert check(opencl, op, (dtype,), one_in=12) == []


@needs_opencl
@pytest.mark.slow
@pytest.mark.parametrize("op", [o.name for o in OPS])
def test_cases_opencl(op, opencl):
    assert check(opencl, op, one_in=12 if opencl.target.threads else 1) == []


def _run(runner, plan, storage):
    return runner.launch(runner.compile([plan]), plan, storage)


def test_program_has_the_bits_of_its_ops(cxx):
    """gelu(x·w + b) > y, and a cast in between: f16 rounds after every op."""
    rng = np.random.default_rng(7)
    shapes = {"x": (6, 70), "w": (70,), "b": (6, 1), "y": (6, 70)}
    x, w, b, y = ((4 * rng.random(s) - 2).astype(np.float16) for s in shapes.values())
    program = Program(
        ("f16", "f16", "f16", "f16"),
        (
            Instruction("mul", "f16", (0, 1)),
            Instruction("add", "f16", (4, 2)),
            Instruction("gelu", "f16", (5,)),
            Instruction("gt", "f16", (6, 3)),
            Instruction("cast", "f16", (6,), "bf16"),
            Instruction("exp", "bf16", (8,)),
        ),
        (6, 7, 9),
    )
    assert program.dtypes()[4:] == ("f16", "f16", "f16", "bool", "bf16", "bf16")
    results = [np.zeros((6, 70), NUMPY[d]) for d in ("f16", "bool", "bf16")]
    operands = [Operand("f16", s) for s in shapes.values()] + [Operand(d, (6, 70)) for d in ("f16", "bool", "bf16")]
    plan = portable.plan_program(program, operands, cxx.target)
    _run(cxx, plan, [x.reshape(-1), w.reshape(-1), b.reshape(-1), y.reshape(-1), *(r.reshape(-1) for r in results)])
    gelu = evaluate("gelu", [evaluate("add", [evaluate("mul", [x, w]), b])])
    want = [gelu, evaluate("gt", [gelu, y]), evaluate("exp", [evaluate("cast", [gelu], dtype="bf16")])]
    assert [difference(a, r) for a, r in zip(want, results)] == [None, None, None]
    assert len(plan.steps) == 1


@pytest.mark.parametrize("shape", [(2, 3, 2, 2, 1, 3, 2, 2, 2, 3)])
def test_ten_dimensions(shape, cxx):
    rng = np.random.default_rng(3)
    x = rng.random(shape).astype(np.float32)
    y = np.zeros(shape[::-1], np.float32)
    operands = [Operand("f32", shape, tuple(s // 4 for s in x.strides)), Operand("f32", shape, tuple(s // 4 for s in y.T.strides))]
    _run(cxx, portable.plan("neg", operands, {}, cxx.target), [x.reshape(-1), y.reshape(-1)])
    assert (-x == y.T).all()


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
@pytest.mark.parametrize("op", ["gather", "scatter", "scatter_add", "nll_loss", "nll_loss_backward"])
def test_index_out_of_range_is_reported(op, bad, cxx):
    x, index = np.zeros((5, 5), np.float32), np.array([0, 1, bad, 3, 4], np.int64)
    whole, column, line = Operand("f32", (5, 5)), Operand("i64", (5, 5), (1, 0)), Operand("f32", (5,))
    target = Operand("i64", (5,))
    operands, storage = {
        "gather": ([whole, column, whole], [x.reshape(-1), index, np.zeros(25, np.float32)]),
        "scatter": ([whole, column, whole, whole], [x.reshape(-1), index, x.reshape(-1).copy(), np.zeros(25, np.float32)]),
        "scatter_add": ([whole, column, whole], [x.reshape(-1), index, np.zeros(25, np.float32)]),
        "nll_loss": ([whole, target, line], [x.reshape(-1), index, np.zeros(5, np.float32)]),
        "nll_loss_backward": ([line, target, whole], [x[0].copy(), index, np.zeros(25, np.float32)]),
    }[op]
    attributes = {"axis": 0} if BY_NAME[op].category == "indexing" else {"ignore_index": -100}
    plan = portable.plan(op, operands, attributes, cxx.target)
    assert plan.status is not None
    assert "out of range" in plan.status_text
    assert _run(cxx, plan, storage) == (1, bad)
