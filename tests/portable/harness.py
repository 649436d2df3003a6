"""Runs conformance cases through `hal.portable`: plans, compiles, launches, compares with the reference.

A runner has ``target`` and ``launch(plans, plan, buffers)``; here is the one that uses the system's C++ compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from conformance.cases import Case, View, cases
from conformance.compare import difference
from conformance.dtypes import NUMPY, name_of
from conformance.execute import PAYLOAD, expected
from conformance.reference.values import immediate as immediate_value
from hal import portable
from hal.ops.spec import COMPUTE_TYPE
from hal.ops.table import BY_NAME

CACHE = Path(os.environ.get("HAL_PORTABLE_TEST_CACHE", Path(tempfile.gettempdir()) / "hal_portable_tests"))
GUARD = 64  #: bytes of known content on both sides of the workspace


def bits(array: np.ndarray) -> int:
    return int.from_bytes(np.asarray(array).tobytes().ljust(8, b"\0"), "little", signed=True)


class Bound:
    """A case's operands: what `plan` gets, and the storage (1-d array, bits of an immediate, or None) of each."""

    def __init__(self, case: Case) -> None:
        self.case, op = case, BY_NAME[case.op]
        self.want = expected(case)
        dtype = case.dtype
        self.operands: list[portable.Operand | None] = []
        self.storage: list[Any] = []
        for value, declared in zip(case.inputs, op.inputs, strict=True):
            if isinstance(value, View):
                self.add(value)
            elif value is None:
                self.operands.append(None)
                self.storage.append(None)
            else:
                kind = declared.dtype if declared.dtype in NUMPY else case.out_dtype or dtype
                if declared.dtype not in NUMPY and case.op != "fill":
                    kind = COMPUTE_TYPE[dtype]
                if case.op == "fill":
                    kind = dtype
                self.operands.append(portable.Operand(kind, immediate=True))
                self.storage.append(bits(immediate_value(value, kind)) if not _is_u64(value, kind) else value)
        self.views: list[View | None] = []
        want = (*self.want, *[None] * (len(op.outputs) - len(self.want)))
        for k, array in enumerate(want):
            if array is None:
                self.operands.append(None)
                self.storage.append(None)
                self.views.append(None)
                continue
            if case.outputs is not None and case.outputs[k] is not None:
                view = case.outputs[k]
            elif k in case.aliases:
                source = case.aliases[k]
                self.operands.append(self.operands[source])
                self.storage.append(self.storage[source])
                self.views.append(case.inputs[source])
                continue
            else:
                shape = array.shape
                strides = tuple(int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape)))
                view = View(np.frombuffer(b"\xa5" * (array.size * array.itemsize), array.dtype).copy(), shape, strides)
            self.views.append(view)
            self.add(view)

    def add(self, view: View) -> None:
        self.operands.append(portable.Operand(name_of(view.base), view.shape, view.strides, view.offset))
        self.storage.append(view.base.copy())

    def plan(self, target: portable.Target) -> portable.Plan:
        return portable.plan(self.case.op, self.operands, self.case.attributes, target)

    def judge(self) -> str | None:
        """None, or what is wrong with the outputs, or with what lies beside them, or with the inputs."""
        case, inputs = self.case, len(self.case.inputs)
        aliased = set(case.aliases.values())
        for k, value in enumerate(case.inputs):
            if isinstance(value, View) and k not in aliased and difference(value.base, self.storage[k], payload=True):
                return f"{case.id}: changed input {k}"
        for k, (view, want) in enumerate(zip(self.views, self.want)):
            if view is None or want is None:
                continue
            storage = self.storage[inputs + k]
            gaps = view.untouched()
            if difference(view.base[gaps], storage[gaps], payload=True):
                return f"{case.id}: wrote beside output {k}"
            text = difference(want, view.logical(storage), payload=case.op in PAYLOAD)
            if text:
                return f"{case.id}, output {k}: {text}"
        return None


def _is_u64(value: Any, kind: str) -> bool:
    return kind == "i64" and isinstance(value, int) and not -(2**63) <= value < 2**63


class Cxx:
    """The C++ target: g++ and ctypes. Compiles the sources of many plans into one library, cached by content."""

    def __init__(self, flags: tuple[str, ...] = ("-O2", "-mavx2", "-mfma")) -> None:
        self.target = portable.Target("c++")
        self.flags = ("-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC", *flags)
        CACHE.mkdir(parents=True, exist_ok=True)

    def compile(self, plans: list[portable.Plan]) -> ctypes.CDLL:
        text = portable.prelude(self.target) + "\n".join(dict.fromkeys(p.source for p in plans))
        key = hashlib.sha256(("\0".join(self.flags) + text).encode()).hexdigest()[:32]
        library = CACHE / f"{key}.so"
        if not library.exists():
            source, made = CACHE / f"{key}.cpp", CACHE / f"{key}.{os.getpid()}.so"
            source.write_text(text, encoding="utf-8")
            warnings = ("-Wall", "-Wextra", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-but-set-variable")
            done = subprocess.run(
                ["g++", *self.flags, *warnings, str(source), "-o", str(made)], capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, done.stderr[:4000]
            made.replace(library)
        return ctypes.CDLL(str(library))

    def launch(self, module: ctypes.CDLL, plan: portable.Plan, storage: list[Any]) -> tuple[int, int] | None:
        """Runs the plan; storage of operands is written in place. Returns the status words, if the plan has them."""
        scratch = np.full(plan.workspace_bytes + 2 * GUARD + 256, 0xA5, np.uint8)
        start = GUARD + (-(scratch.ctypes.data + GUARD)) % 256
        for step in plan.steps:
            parameters: list[Any] = []
            for argument in step.arguments:
                if isinstance(argument, portable.Buffer):
                    held = storage[argument.operand]
                    memory = isinstance(held, np.ndarray)
                    parameters += [ctypes.c_void_p(held.ctypes.data if memory else None), ctypes.c_int64(0 if memory else held)]
                elif isinstance(argument, portable.Workspace):
                    parameters += [ctypes.c_void_p(scratch.ctypes.data), ctypes.c_int64(start + argument.offset)]
                elif isinstance(argument, portable.Immediate):
                    parameters.append(ctypes.c_int64(storage[argument.operand]))
                elif isinstance(argument, portable.Scalar):
                    parameters.append(ctypes.c_int64(argument.value))
                else:
                    parameters.append((ctypes.c_int64 * len(argument.values))(*argument.values))
            pointers = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(p) for p in parameters))
            getattr(module, step.kernel)(ctypes.c_int64(0), ctypes.c_int64(step.groups), pointers)
        end = start + plan.workspace_bytes
        assert (scratch[:start] == 0xA5).all() and (scratch[end:] == 0xA5).all(), "wrote beside the workspace"
        if plan.status is None:
            return None
        flag, index = scratch[start + plan.status : start + plan.status + 16].view(np.int64)
        return int(flag), int(index)


def check(runner: Any, op: str, dtypes: tuple[str, ...] | None = None, one_in: int = 1) -> list[str]:
    """Messages about the cases of an op that differ; ``one_in``: a share of the cases, chosen by their ids."""
    bound = [
        Bound(case)
        for dtype in dtypes or BY_NAME[op].dtypes
        for case in cases(op, dtype)
        if hashlib.sha256(case.id.encode()).digest()[1] % one_in == 0
    ]
    assert bound, f"[{op}] no cases"
    plans = [b.plan(runner.target) for b in bound]
    module = runner.compile(plans)
    messages = []
    for b, plan in zip(bound, plans, strict=True):
        status = runner.launch(module, plan, b.storage)
        text = b.judge() or (f"{b.case.id}: status {status}" if status and status[0] else None)
        if text:
            messages.append(text)
    return messages
