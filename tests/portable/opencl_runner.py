"""The runner for OpenCL: PyOpenCL on the first device that has f64 (PoCL from PyPI in the tests)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyopencl as cl

from hal import portable

GUARD = 128
FLAGS = ["-cl-fp32-correctly-rounded-divide-sqrt", "-cl-std=CL1.2"]


class OpenCL:
    def __init__(self, threads: bool = False) -> None:
        self.target = portable.Target("opencl", threads)
        device = cl.get_platforms()[0].get_devices()[0]
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        warnings.simplefilter("ignore", cl.CompilerWarning)

    def compile(self, plans: list[portable.Plan]) -> dict[str, Any]:
        sources = "\n".join(dict.fromkeys(p.source for p in plans))
        program = cl.Program(self.context, portable.prelude(self.target) + sources).build(FLAGS)
        return {k.function_name: k for k in program.all_kernels()}

    def launch(self, kernels: dict[str, Any], plan: portable.Plan, storage: list[Any]) -> tuple[int, int] | None:
        """Runs the plan; storage of operands is written in place. Returns the status words, if the plan has them."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        scratch = np.full(plan.workspace_bytes + 2 * GUARD, 0xA5, np.uint8)
        workspace = cl.Buffer(self.context, flags, hostbuf=scratch)
        buffers: dict[int, Any] = {}
        for held in storage:
            if isinstance(held, np.ndarray) and id(held) not in buffers:
                buffers[id(held)] = cl.Buffer(self.context, flags, hostbuf=held.view(np.uint8)) if held.size else workspace
        for step in plan.steps:
            parameters: list[Any] = []
            for argument in step.arguments:
                if isinstance(argument, portable.Buffer):
                    held = storage[argument.operand]
                    memory = isinstance(held, np.ndarray)
                    parameters += [buffers[id(held)] if memory else None, np.int64(0 if memory else held)]
                elif isinstance(argument, portable.Workspace):
                    parameters += [workspace, np.int64(GUARD + argument.offset)]
                elif isinstance(argument, portable.Immediate):
                    parameters.append(np.int64(storage[argument.operand]))
                elif isinstance(argument, portable.Scalar):
                    parameters.append(np.int64(argument.value))
                else:
                    parameters.append(np.array(argument.values, np.int64))
            kernel = kernels[step.kernel]
            for k, parameter in enumerate(parameters):
                kernel.set_arg(k, parameter)
            cl.enqueue_nd_range_kernel(self.queue, kernel, (step.global_size,), (step.group_size,))
        for held in storage:
            if isinstance(held, np.ndarray) and held.size:
                cl.enqueue_copy(self.queue, held.view(np.uint8), buffers[id(held)])
        cl.enqueue_copy(self.queue, scratch, workspace)
        self.queue.finish()
        assert (scratch[:GUARD] == 0xA5).all() and (scratch[GUARD + plan.workspace_bytes :] == 0xA5).all(), "wrote beside the workspace"
        if plan.status is None:
            return None
        flag, index = scratch[GUARD + plan.status : GUARD + plan.status + 16].view(np.int64)
        return int(flag), int(index)
