"""What goes into and comes out of `hal.portable.plan`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from .signatures import signatures

#: Languages that a prelude exists for.
LANGUAGES = ("opencl", "cuda", "c++")


class UnsupportedError(ValueError):
    """There is no portable kernel for these operands; the text says what was got and what is expected."""


@dataclass(frozen=True)
class Operand:
    """One operand as `plan` sees it. ``None`` in the operand list stands for an absent optional one.

    ``dtype``: short name ("f32"); of an immediate: the dtype its bits have (the compute type, or what the op table fixes).
    ``shape``, ``strides``: per dimension; strides count elements, may be 0 or negative. Default strides: row-major.
    ``offset``: elements from where the operand's buffer begins to its first element, beyond the buffer's own offset at launch.
    ``immediate``: a scalar whose value is given at launch, not in memory; its shape is ().
    """

    dtype: str
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None
    offset: int = 0
    immediate: bool = False

    def __post_init__(self) -> None:
        if self.strides is None:
            steps, step = [], 1
            for size in reversed(self.shape):
                steps.append(step)
                step *= size
            object.__setattr__(self, "strides", tuple(reversed(steps)))
        elif len(self.strides) != len(self.shape):
            raise ValueError(
                f"[portable] strides: got {len(self.strides)}, expected {len(self.shape)} as the shape {self.shape} has dimensions"
            )


@dataclass(frozen=True)
class Target:
    """What the generated code runs on.

    ``language``: "opencl", "cuda" or "c++".
    ``threads``: True where a work-group is many threads with barriers (GPUs); False where one work-item runs the lanes as loops
    (CPUs, FPGAs). None: True for "cuda".
    ``f64``: whether the device computes in double; without it f64 operands are unsupported.
    ``concurrency``: work-groups that keep the device busy; kernels split their work into a few times as many.
    """

    language: str
    threads: bool | None = None
    f64: bool = True
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(f"[portable] target language: got {self.language!r}, expected one of {', '.join(LANGUAGES)}")
        if self.threads is None:
            object.__setattr__(self, "threads", self.language == "cuda")
        if self.concurrency is None:
            object.__setattr__(self, "concurrency", 512 if self.threads else 16)


# ---- kernel arguments ----
#
# A kernel's parameters are of three C types only: pointers to global memory, hal_i64, and structs of hal_i64 passed by value.


@dataclass(frozen=True)
class Buffer:
    """Operand number ``operand``: TWO kernel parameters, a pointer and a hal_i64.

    In memory: the allocation's pointer (or cl_mem), then the byte offset into it at which the operand's buffer begins. The operand's
    own ``offset`` is not part of it. Immediate: any pointer, NULL too, then the value's bits in the low-order bytes.
    It is hal_buffer's {memory, offset | immediate} as it stands.
    """

    operand: int


@dataclass(frozen=True)
class Immediate:
    """The bits of an operand that is always immediate: ONE hal_i64 parameter, the value in the low-order bytes."""

    operand: int


@dataclass(frozen=True)
class Workspace:
    """A place in the workspace: TWO parameters, its pointer (or cl_mem) and a hal_i64: the workspace's own byte offset + ``offset``."""

    offset: int


@dataclass(frozen=True)
class Scalar:
    """ONE hal_i64 parameter."""

    value: int


@dataclass(frozen=True)
class Block:
    """ONE parameter: a struct of ``len(values)`` hal_i64, passed by value (8·len bytes, native byte order)."""

    values: tuple[int, ...]


Argument = Buffer | Immediate | Workspace | Scalar | Block


@dataclass(frozen=True)
class Step:
    """One launch: one-dimensional, ``groups`` work-groups of ``lanes`` work-items (1 without threads)."""

    kernel: str
    groups: int
    lanes: int
    arguments: tuple[Argument, ...]

    @property
    def global_size(self) -> int:
        return self.groups * self.lanes

    @property
    def group_size(self) -> int:
        return self.lanes

    def argument_types(self) -> tuple[str, ...]:
        """C types of the kernel's parameters, in order, as the manifest has them: "pointer", "i64" or "block:N" (N hal_i64)."""
        types: list[str] = []
        for argument in self.arguments:
            if isinstance(argument, Buffer | Workspace):
                types += ["pointer", "i64"]
            elif isinstance(argument, Block):
                types.append(f"block:{len(argument.values)}")
            else:
                types.append("i64")
        return tuple(types)


@dataclass(frozen=True)
class Plan:
    """How to compute one op.

    ``source``: kernels in the dialect, to be compiled after `prelude(target)`. Sources may be concatenated: equal parts are guarded.
    ``steps``: launches, in order, on one in-order queue. None: nothing to compute (empty outputs).
    ``workspace_bytes``: scratch memory, aligned to 256; its content needs no initialisation.
    ``status``: None, or the byte offset in the workspace of two i64: after the steps the first is 0, or 1 if an index operand was out
    of range, and then the second is such an index. Whoever launches must read it and report an error.
    ``status_text``: what the index was of, for the message.
    """

    source: str
    steps: tuple[Step, ...]
    workspace_bytes: int = 0
    status: int | None = None
    status_text: str = ""
    key: str = field(default="")

    @property
    def kernels(self) -> tuple[str, ...]:
        """Every kernel of the source. Other shapes with the same key may launch others than these ``steps`` do."""
        return tuple(signatures(self.source))

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", hashlib.sha256(self.source.encode()).hexdigest()[:32])
