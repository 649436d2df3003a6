"""What the report cases share: tensors from data, exact and close comparison, "right or an exception"."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

import oneflow_mini as flow

NAN, INF = float("nan"), float("inf")
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("uint8", "int8", "int16", "int32", "int64")
ALL = ("bool", *INTS, *FLOATS)


def tensor(dev: str, data: Any, dtype: str | None = None, grad: bool = False) -> Any:
    """Of Python numbers, or of an array whose float64 means "no dtype asked for" (float32 then)."""
    array = np.asarray(data)
    if dtype is None and array.dtype == np.float64:
        dtype = "float32"
    kind = {} if dtype is None else {"dtype": getattr(flow, dtype)}
    return flow.tensor(array, device=dev, requires_grad=grad, **kind)


def array(t: Any) -> np.ndarray:
    return t.detach().cpu().numpy() if isinstance(t, flow.Tensor) else np.asarray(t)


def wide(t: Any) -> np.ndarray:
    """As float64 (halves included) or as it is."""
    a = array(t)
    return a.astype(np.float64) if a.dtype.kind in "fV" or a.dtype.name == "bfloat16" else a


def assert_equal(got: Any, want: Any, what: str = "") -> None:
    """Same shape and values; NaN equals NaN."""
    a, b = wide(got), wide(want)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    same = (a == b) | ((a != a) & (b != b))
    assert same.all(), f"{what}: got {a[~same].ravel()[:8]}, expected {b[~same].ravel()[:8]}"


def assert_close(got: Any, want: Any, rtol: float, atol: float = 0.0, what: str = "") -> None:
    a, b = wide(got), wide(want)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=atol, err_msg=what)


def same_bits(a: Any, b: Any) -> bool:
    """Equal shape, dtype and bits, where all NaNs count as one."""
    x, y = array(a), array(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind == "f" or x.dtype.name == "bfloat16":
        nan = np.isnan(x.astype(np.float64))
        if not (nan == np.isnan(y.astype(np.float64))).all():
            return False
        x, y = x[~nan], y[~nan]
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def refuses(what: str, call: Callable[[], Any]) -> None:
    """An exception, at the latest when the result is read."""
    try:
        out = call()
        array(out[0] if isinstance(out, (tuple, list)) else out)
    except Exception:
        return
    raise AssertionError(f"{what}: no exception")


def right_or_refused(what: str, call: Callable[[], Any], want: Any, rtol: float = 1e-5) -> None:
    """Both are fine; a silent wrong value isn't."""
    try:
        got = array(call())
    except Exception:
        return
    assert_close(got, want, rtol, 1e-6, what)


# ---- a DLPack producer made by hand (dlpack.h, unversioned capsule) -------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _DLManaged(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_ALIVE: list[Any] = []  # what C points to


class Producer:
    """Offers a host array as float32 (or another code and bits) with any strides (None: NULL), byte offset and deleter (or none)."""

    def __init__(self, base: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, byte_offset: int = 0,
                 deleter: bool = True, code: int = 2, bits: int = 32) -> None:  # fmt: skip
        self.deleted = 0

        def delete(_: Any) -> None:
            self.deleted += 1

        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete)
        rank, m = len(shape), _DLManaged()
        dims = (ctypes.c_int64 * max(rank, 1))(*shape)
        steps = (ctypes.c_int64 * max(rank, 1))(*strides) if strides is not None else None
        m.tensor.data, m.tensor.device_type, m.tensor.ndim = base.ctypes.data, 1, rank
        m.tensor.code, m.tensor.bits, m.tensor.lanes, m.tensor.byte_offset = code, bits, 1, byte_offset
        m.tensor.shape = ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64))
        if steps is not None:
            m.tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
        m.deleter = ctypes.cast(callback, ctypes.c_void_p).value if deleter else None
        _ALIVE.append((base, callback, m, dims, steps))
        self._managed = m

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._managed), b"dltensor", None)
