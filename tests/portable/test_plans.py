"""What `hal.portable` promises without a device: keys, library, manifest, refusals."""

import json
import subprocess
import sys

import pytest
from harness import Bound

from conformance.cases import cases
from hal import portable
from hal.ops.table import BY_NAME, OPS
from hal.portable import Instruction, Operand, Program, Target
from hal.portable.catalogue import plans, representatives
from hal.portable.signatures import signatures

TARGETS = [Target("opencl"), Target("opencl", threads=True), Target("cuda"), Target("c++")]


@pytest.fixture(scope="module")
def keys() -> dict[str, str]:
    return {p.key: p.source for p in plans(Target("c++"))}


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.language}-{t.threads}")
def test_every_op_and_dtype_has_kernels(target):
    for op in OPS:
        for dtype in op.dtypes:
            found = list(representatives(op, dtype))
            assert found, (op.name, dtype)
            for operands, attributes in found:
                plan = portable.plan(op.name, operands, attributes, target)
                known = signatures(plan.source)
                assert plan.steps
                for step in plan.steps:
                    assert step.argument_types() == known[step.kernel]
                    assert step.global_size == step.groups * step.group_size


@pytest.mark.parametrize("op", [o.name for o in OPS])
def test_cases_need_no_key_that_the_library_lacks(op, keys):
    for dtype in BY_NAME[op].dtypes:
        for k, case in enumerate(cases(op, dtype)):
            if k % 7 == 0:
                plan = Bound(case).plan(Target("c++"))
                assert keys.get(plan.key) == plan.source, case.id


def test_shapes_and_numbers_do_not_make_keys():
    def key(shape, strides=None, axes=1):
        return portable.plan("sum", [Operand("f32", shape, strides), Operand("f32", (1, *shape[1:]))], {"axes": axes}, Target("cuda")).key

    assert key((5, 7)) == key((10000, 3)) == key((5, 7), (1, 5))


def test_a_plan_names_kernels_that_other_shapes_need():
    few, many = (portable.plan("sum", [Operand("f32", (n,)), Operand("f32", (1,))], {"axes": 1}, Target("c++")) for n in (10, 10000))
    assert few.key == many.key
    assert {s.kernel for s in many.steps} <= set(few.kernels)
    assert {s.kernel for s in few.steps} < {s.kernel for s in many.steps}


def test_emits_the_library(tmp_path):
    subprocess.run([sys.executable, "-m", "hal.portable", "--target", "opencl", "--out", str(tmp_path)], check=True, timeout=120)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert set(manifest["ops"]) == {o.name for o in OPS}
    for op in OPS:
        assert set(manifest["ops"][op.name]) == set(op.dtypes)
    for name, entry in manifest["kernels"].items():
        assert name in (tmp_path / "kernels" / f"{entry['source']}.cl").read_text()
    assert "HAL_KERNEL" in (tmp_path / "prelude.h").read_text()


F32 = Operand("f32", (4,))


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "words"),
    [
        ("nonsense", [F32, F32], {}, "op table"),
        ("exp", [F32], {}, "operands: got 1"),
        ("exp", [Operand("i32", (4,)), Operand("i32", (4,))], {}, "dtype of out"),
        ("exp", [None, F32], {}, "a: got none"),
        ("sum", [F32, Operand("f32", (1,))], {"axes": 4}, "axes"),
        ("softmax", [F32, F32], {"axis": 1}, "axis"),
        ("amax", [Operand("f32", (0,)), Operand("f32", (1,))], {"axes": 1}, "empty axis"),
        ("matmul", [Operand("f32", (2, 3)), Operand("f32", (4, 5)), Operand("f32", (2, 5))], {}, "shapes"),
        ("fill", [F32, F32], {}, "expected an immediate"),
    ],
)
def test_refusals_say_what_was_expected(op, operands, attributes, words):
    with pytest.raises(portable.UnsupportedError, match=words):
        portable.plan(op, operands, attributes, Target("c++"))
    assert not portable.supports(op, operands, attributes)


def test_no_double_precision():
    wide = Operand("f64", (4,))
    assert not portable.supports("exp", [wide, wide], {}, Target("opencl", f64=False))
    assert portable.supports("exp", [F32, F32], {}, Target("opencl", f64=False))
    assert all("double" not in source and "hal_f64" not in source for _, source, _ in portable.library(Target("opencl", f64=False)))


@pytest.mark.parametrize(
    "program",
    [
        Program(("f32",), (Instruction("sum", "f32", (0,)),), (1,)),
        Program(("f32",), (Instruction("exp", "i32", (0,)),), (1,)),
        Program(("f32",), (Instruction("add", "f32", (0, 1)),), (1,)),
        Program(("f32", "f16"), (Instruction("add", "f32", (0, 1)),), (2,)),
    ],
)
def test_malformed_programs_are_refused(program):
    operands = [Operand(d, (4,)) for d in program.inputs] + [F32]
    with pytest.raises(portable.UnsupportedError, match="program"):
        portable.plan_program(program, operands, Target("c++"))
