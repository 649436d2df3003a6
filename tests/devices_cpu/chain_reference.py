"""Builds chain_reference.c with the system's C compiler and calls it: what the chains of docs/numerics.md give, bit by bit."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    **{f"{k}{b}": np.dtype(f"{k}{b // 8}") for k, b in (("u", 8), ("i", 8), ("i", 16), ("i", 32), ("i", 64))},
}


@functools.cache
def _library() -> ctypes.CDLL:
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    if compiler is None:
        raise RuntimeError("the chain reference needs a C compiler: set CC")
    target = Path(tempfile.mkdtemp(prefix="hal_chains_")) / "chains.so"
    source = Path(__file__).with_name("chain_reference.c")
    subprocess.run(
        [compiler, "-std=c11", "-O1", "-ffp-contract=off", "-fPIC", "-shared", str(source), "-o", str(target), "-lm"],
        check=True,
        timeout=60,
    )
    return ctypes.CDLL(str(target))


@dataclass(frozen=True)
class Conv:
    """One convolution: x (n, c, h, w), weight (o, c / groups, kh, kw); stride, padding and dilation per axis."""

    n: int
    c: int
    h: int
    w: int
    o: int
    kh: int
    kw: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def _out(self, size: int, kernel: int, axis: int) -> int:
        return (size + 2 * self.padding[axis] - self.dilation[axis] * (kernel - 1) - 1) // self.stride[axis] + 1

    @property
    def oh(self) -> int:
        return self._out(self.h, self.kh, 0)

    @property
    def ow(self) -> int:
        return self._out(self.w, self.kw, 1)

    @property
    def x_shape(self) -> tuple[int, ...]:
        return (self.n, self.c, self.h, self.w)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.o, self.c // self.groups, self.kh, self.kw)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.n, self.o, self.oh, self.ow)

    @property
    def attributes(self) -> dict[str, object]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}

    def _struct(self) -> ctypes.Array:
        values = (
            self.n,
            self.c,
            self.h,
            self.w,
            self.o,
            self.kh,
            self.kw,
            self.oh,
            self.ow,
            *self.stride,
            *self.padding,
            *self.dilation,
            self.groups,
        )
        return (ctypes.c_int64 * len(values))(*values)


def _call(name: str, operands: tuple[np.ndarray, np.ndarray], shape: tuple[int, ...], extra: tuple) -> np.ndarray:
    dtype = operands[0].dtype
    compute = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    first, second = (np.ascontiguousarray(o.astype(compute)) for o in operands)
    out = np.empty(shape, compute)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (first, second, out)]
    getattr(_library(), f"{name}_{'f64' if compute == np.float64 else 'f32'}")(*pointers, *extra)
    with np.errstate(all="ignore"):
        return out.astype(dtype)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(…, m, k) × (…, k, n), batch dimensions broadcast."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = *a.shape[-2:], b.shape[-1]
    a, b = np.broadcast_to(a, (*batch, m, k)), np.broadcast_to(b, (*batch, k, n))
    out = np.empty((*batch, m, n), a.dtype)
    for index in np.ndindex(*batch):
        if a.dtype.kind in "iu":
            exact = a[index].astype(object).dot(b[index].astype(object)) if k else np.zeros((m, n), object)
            out[index] = (exact % 2 ** (8 * a.itemsize)).astype(np.uint64).astype(a.dtype)
        else:
            out[index] = _call("matmul", (a[index], b[index]), (m, n), tuple(ctypes.c_int64(v) for v in (m, n, k)))
    return out


def conv2d(x: np.ndarray, weight: np.ndarray, s: Conv) -> np.ndarray:
    return _call("conv2d", (x, weight), s.out_shape, (s._struct(),))


def conv2d_input_grad(grad: np.ndarray, weight: np.ndarray, s: Conv) -> np.ndarray:
    return _call("conv2d_input_grad", (grad, weight), s.x_shape, (s._struct(),))


def conv2d_weight_grad(grad: np.ndarray, x: np.ndarray, s: Conv) -> np.ndarray:
    return _call("conv2d_weight_grad", (grad, x), s.weight_shape, (s._struct(),))


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits; all NaNs are one."""
    assert got.shape == expected.shape and got.dtype == expected.dtype
    bits = f"u{got.itemsize}"
    nan = (got != got) & (expected != expected)
    differ = (np.ascontiguousarray(got).view(bits) != np.ascontiguousarray(expected).view(bits)) & ~nan
    if differ.any():
        at = tuple(int(i) for i in np.argwhere(differ)[0])
        raise AssertionError(f"{int(differ.sum())} of {differ.size} differ, first at {at}: got {got[at]!r}, expected {expected[at]!r}")
