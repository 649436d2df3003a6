"""The CUDA target compiles under NVRTC, which needs no GPU: one op of each family here, the whole library under `slow`."""

import pytest

from hal import portable
from hal.ops.table import BY_NAME
from hal.portable.catalogue import plans, representatives

nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings isn't installed")

TARGET = portable.Target("cuda")
FLAGS = [b"--fmad=false", b"-ftz=false", b"-prec-div=true", b"-prec-sqrt=true", b"-std=c++17"]
FAMILIES = (
    *(("matmul", d) for d in ("f32", "i64")),
    *(("conv2d_input_grad", "f64"), ("conv2d_weight_grad", "f16"), ("argmax", "bf16"), ("softmax", "f16"), ("scatter_add", "f16")),
    *(("sort", "f32"), ("nonzero", "bool"), ("cumsum", "f16"), ("max_pool2d_backward", "f32"), ("adam_step", "bf16"), ("pow", "f64")),
)


def compiles(sources: list[str], arch: str) -> None:
    text = portable.prelude(TARGET) + "\n".join(sources)
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
    flags = [*FLAGS, f"-arch={arch}".encode()]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    assert int(error) == 0, [line for line in log.decode().splitlines() if "error" in line][:5]


@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_120", marks=pytest.mark.slow)])
def test_families_compile(arch):
    found = [portable.plan(op, *next(representatives(BY_NAME[op], dtype)), TARGET).source for op, dtype in FAMILIES]
    compiles(found, arch)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_library_compiles(part):
    compiles([p.source for p in plans(TARGET)][part::16], "sm_80")
