"""``evaluate``: an op by name on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import _reference
from ..dtypes import FLOATS, INTS, NUMPY, compute_type, name_of
from .values import Operand, cast, from_compute, immediate, rows, scalar, to_compute, widen

Result = Any  # an array, or a tuple of arrays (None for an absent optional output)
Handler = Callable[..., Result]

_HANDLERS: dict[str, Handler] = {}


def evaluate(
    op: str,
    inputs: Sequence[Operand],
    attributes: dict[str, Any] | None = None,
    *,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
) -> Result:
    """The result of ``op`` by ``docs/numerics.md``.

    ``inputs``: numpy arrays (bf16 as ml_dtypes.bfloat16), Python scalars for immediates, None for absent optional operands.
    ``shape`` and ``dtype`` are needed where the op's output isn't determined by its inputs.
    Returns an array, or a tuple of them for ops with several outputs. Unknown ops raise ValueError.
    """
    handler = _HANDLERS.get(op, _pointwise)
    return handler(op, list(inputs), dict(attributes or {}), None if shape is None else tuple(shape), dtype)


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


# ---- pointwise ----


def _broadcast(operands: list[np.ndarray]) -> tuple[list[np.ndarray], tuple[int, ...]]:
    shape = np.broadcast_shapes(*(o.shape for o in operands))
    return [np.asarray(np.broadcast_to(o, shape), order="C").reshape(-1) for o in operands], shape


def _common_dtype(op: str, operands: list[Operand], dtype: str | None) -> str:
    names = {name_of(o) for o in operands if isinstance(o, np.ndarray)}
    if len(names) > 1:
        raise TypeError(f"[{op}] operands of several dtypes: got {', '.join(sorted(names))}")
    name = names.pop() if names else dtype
    if name is None:
        raise TypeError(f"[{op}] no tensor operand, so dtype= is needed")
    return name


def _in_compute(operand: Operand, dtype: str) -> np.ndarray:
    return to_compute(operand) if isinstance(operand, np.ndarray) else immediate(operand, compute_type(dtype))


def _pointwise(op: str, inputs: list[Operand], attributes: dict, shape: Any, dtype: str | None) -> np.ndarray:
    name = _common_dtype(op, inputs, dtype)
    flat, out_shape = _broadcast([_in_compute(i, name) for i in inputs])
    out = _reference.pointwise(op, *flat)
    if out.dtype != np.bool_:
        out = from_compute(out, name)
    return out.reshape(out_shape)


@_handles("where")
def _where(op, inputs, attributes, shape, dtype):
    condition, *choices = inputs
    name = _common_dtype(op, choices, dtype)
    flat, out_shape = _broadcast([condition, *(_in_compute(c, name) for c in choices)])
    return from_compute(_reference.where(*flat), name).reshape(out_shape)


@_handles("dropout_apply")
def _dropout_apply(op, inputs, attributes, shape, dtype):
    x, keep, scale = inputs
    name = _common_dtype(op, [x, scale], dtype)
    flat, out_shape = _broadcast([_in_compute(x, name), keep, _in_compute(scale, name)])
    return from_compute(_reference.dropout_apply(*flat), name).reshape(out_shape)


# ---- copies, casts, creation ----


@_handles("copy")
def _copy(op, inputs, attributes, shape, dtype):
    return inputs[0].copy()


@_handles("cast")
def _cast(op, inputs, attributes, shape, dtype):
    return cast(inputs[0], dtype)


@_handles("fill")
def _fill(op, inputs, attributes, shape, dtype):
    return np.full(shape, immediate(inputs[0], dtype), NUMPY[dtype])


@_handles("arange")
def _arange(op, inputs, attributes, shape, dtype):
    start, step = inputs
    n = prod(shape)
    if dtype in INTS:
        wrapped = _reference.arange_u64(int(start) % 2**64, int(step) % 2**64, n)
        return cast(wrapped.view(np.int64), dtype).reshape(shape)
    c = compute_type(dtype)
    function = _reference.arange_f64 if c == "f64" else _reference.arange_f32
    return from_compute(function(scalar(start, c), scalar(step, c), n), dtype).reshape(shape)


# ---- reductions ----


def _axes(attributes: dict[str, Any], rank: int) -> list[int]:
    return [k for k in range(rank) if attributes["axes"] >> k & 1]


@_handles("sum", "prod")
def _sum(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    name = name_of(x)
    flat, kept = rows(widen(x), _axes(attributes, x.ndim))
    function = getattr(_reference, op)
    if name in FLOATS:
        return from_compute(function(flat), name).reshape(kept)
    return function(flat.view(np.uint64)).view(np.int64).reshape(kept)


@_handles("mean", "amax", "amin")
def _mean(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    name = name_of(x)
    flat, kept = rows(widen(x), _axes(attributes, x.ndim))
    out = getattr(_reference, op)(flat)
    return (from_compute(out, name) if name in FLOATS else cast(out, name)).reshape(kept)


@_handles("argmax", "argmin", "any", "all")
def _index(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    flat, kept = rows(widen(x), _axes(attributes, x.ndim))
    return getattr(_reference, op)(flat).reshape(kept)


# ---- along one axis ----


@_handles("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
def _along_axis(op, inputs, attributes, shape, dtype):
    name = name_of(inputs[0])
    if inputs[0].ndim == 0:
        return _along_axis(op, [i.reshape(1) for i in inputs], {"axis": 0}, shape, dtype).reshape(())
    axis = attributes["axis"]
    moved = [np.asarray(np.moveaxis(to_compute(i), axis, -1), order="C") for i in inputs]
    length = moved[0].shape[-1]
    flat = [m.reshape(prod(m.shape[:-1]), length) for m in moved]
    out = getattr(_reference, op)(*flat).reshape(moved[0].shape)
    return np.moveaxis(from_compute(out, name), -1, axis)


@_handles("nll_loss")
def _nll_loss(op, inputs, attributes, shape, dtype):
    x, target = inputs
    ignored = attributes.get("ignore_index", -100)
    out = np.zeros(x.shape[0], x.dtype)
    for n, t in enumerate(target.tolist()):
        if t != ignored:
            _check_target(op, t, x.shape[1])
            out[n] = -x[n, t]
    return out


@_handles("nll_loss_backward")
def _nll_loss_backward(op, inputs, attributes, shape, dtype):
    grad, target = inputs
    ignored = attributes.get("ignore_index", -100)
    out = np.zeros(shape, grad.dtype)
    for n, t in enumerate(target.tolist()):
        if t != ignored:
            _check_target(op, t, shape[1])
            out[n, t] = -grad[n]
    return out


def _check_target(op: str, target: int, classes: int) -> None:
    if not 0 <= target < classes:
        raise IndexError(f"[{op}] target out of range: got {target}, expected 0 <= target < {classes}")


# ---- chains ----


@_handles("matmul")
def _matmul(op, inputs, attributes, shape, dtype):
    a, b = inputs
    name = name_of(a)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    integer = name in INTS

    def prepare(x: np.ndarray) -> np.ndarray:
        wide = widen(x).view(np.uint64) if integer else to_compute(x)
        full = np.broadcast_to(wide, (*batch, *x.shape[-2:]))
        return np.asarray(full, order="C").reshape(prod(batch), *x.shape[-2:])

    out = _reference.matmul(prepare(a), prepare(b))
    out = cast(out.view(np.int64), name) if integer else from_compute(out, name)
    return out.reshape(*batch, a.shape[-2], b.shape[-1])


def _geometry(attributes: dict[str, Any]) -> tuple[Any, tuple[int, int], tuple[int, int], tuple[int, int]]:
    stride, padding, dilation = (tuple(attributes.get(k, d)) for k, d in (("stride", (1, 1)), ("padding", (0, 0)), ("dilation", (1, 1))))
    return _reference.Geometry(*stride, *padding, *dilation, attributes.get("groups", 1)), stride, padding, dilation


def _window_count(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool = False) -> int:
    """Windows along one axis; with ceil_mode one more may hang over the end if it starts inside the input or the padding before it."""
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return max(count, 0)


@_handles("conv2d")
def _conv2d(op, inputs, attributes, shape, dtype):
    x, w = inputs
    geometry, stride, padding, dilation = _geometry(attributes)
    out = [_window_count(x.shape[2 + k], w.shape[2 + k], stride[k], padding[k], dilation[k]) for k in (0, 1)]
    return from_compute(_reference.conv2d(to_compute(x), to_compute(w), geometry, *out), name_of(x))


@_handles("conv2d_input_grad")
def _conv2d_input_grad(op, inputs, attributes, shape, dtype):
    grad, w = inputs
    return from_compute(_reference.conv2d_input_grad(to_compute(grad), to_compute(w), _geometry(attributes)[0], *shape[2:]), name_of(grad))


@_handles("conv2d_weight_grad")
def _conv2d_weight_grad(op, inputs, attributes, shape, dtype):
    grad, x = inputs
    return from_compute(_reference.conv2d_weight_grad(to_compute(grad), to_compute(x), _geometry(attributes)[0], *shape[2:]), name_of(grad))


# ---- pooling ----


def _planes(x: np.ndarray) -> np.ndarray:
    return x.reshape(prod(x.shape[:-2]), *x.shape[-2:])


@_handles("max_pool2d")
def _max_pool2d(op, inputs, attributes, shape, dtype):
    x = inputs[0]
    kernel, stride, padding, dilation = (
        tuple(attributes.get(k, d)) for k, d in (("kernel", (1, 1)), ("stride", (1, 1)), ("padding", (0, 0)), ("dilation", (1, 1)))
    )
    ceil_mode = bool(attributes.get("ceil_mode", 0))
    out = tuple(_window_count(x.shape[2 + k], kernel[k], stride[k], padding[k], dilation[k], ceil_mode) for k in (0, 1))
    values, indices = _reference.max_pool2d(_planes(to_compute(x)), kernel, stride, padding, dilation, out)
    full = (*x.shape[:2], *out)
    return from_compute(values, name_of(x)).reshape(full), indices.reshape(full)


@_handles("max_pool2d_backward")
def _max_pool2d_backward(op, inputs, attributes, shape, dtype):
    grad, indices = inputs
    planes, outputs = prod(grad.shape[:2]), prod(grad.shape[2:])
    flat_indices = np.asarray(indices, order="C").reshape(planes, outputs)
    out = _reference.max_pool2d_backward(to_compute(grad).reshape(planes, outputs), flat_indices, prod(shape[2:]))
    return from_compute(out, name_of(grad)).reshape(shape)


@_handles("max_pool2d_gather")
def _max_pool2d_gather(op, inputs, attributes, shape, dtype):
    x, indices = inputs
    out = np.empty(indices.shape, x.dtype)
    for n, c, h, w in np.ndindex(*indices.shape):
        i = int(indices[n, c, h, w])
        out[n, c, h, w] = x[n, c, i // x.shape[3], i % x.shape[3]]
    return out


# ---- random ----


@_handles("random_uniform", "random_normal")
def _random(op, inputs, attributes, shape, dtype):
    seed, offset, first, second = inputs
    c, n = compute_type(dtype), prod(shape)
    arguments = (seed % 2**64, offset, scalar(first, c), scalar(second, c), n)
    if c == "f64":
        out = (_reference.uniform64 if op == "random_uniform" else _reference.normal64)(*arguments)
    else:
        out = _reference.uniform32(*arguments, dtype) if op == "random_uniform" else _reference.normal32(*arguments)
    return from_compute(out, dtype).reshape(shape)


@_handles("random_bernoulli")
def _random_bernoulli(op, inputs, attributes, shape, dtype):
    seed, offset, p = inputs
    return _reference.bernoulli(seed % 2**64, offset, scalar(p, "f32"), prod(shape)).reshape(shape)


@_handles("random_integer")
def _random_integer(op, inputs, attributes, shape, dtype):
    seed, offset, low, high = inputs
    return cast(_reference.integer(seed % 2**64, offset, low, high, prod(shape)), dtype).reshape(shape)


# ---- optimizer steps ----


def _flat(x: np.ndarray) -> np.ndarray:
    return to_compute(x).reshape(-1)


@_handles("sgd_step")
def _sgd_step(op, inputs, attributes, shape, dtype):
    param, grad, buffer, *scalars = inputs
    name = name_of(param)
    c = compute_type(name)
    function = _reference.sgd_step_f64 if c == "f64" else _reference.sgd_step_f32
    flags = [bool(attributes.get(k, 0)) for k in ("nesterov", "maximize", "first_step")]
    flat = [_flat(param), _flat(grad), None if buffer is None else _flat(buffer)]
    new_param, new_buffer = function(*flat, *(scalar(s, c) for s in scalars), *flags)
    return (
        from_compute(new_param, name).reshape(param.shape),
        None if buffer is None else from_compute(new_buffer, name).reshape(param.shape),
    )


@_handles("adam_step")
def _adam_step(op, inputs, attributes, shape, dtype):
    *tensors, lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2_sqrt = inputs
    name = name_of(tensors[0])
    c = compute_type(name)
    function = _reference.adam_step_f64 if c == "f64" else _reference.adam_step_f32
    flags = [bool(attributes.get(k, 0)) for k in ("decoupled_weight_decay", "amsgrad", "maximize")]
    scalars = [scalar(s, c) for s in (lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2_sqrt)]
    flat = [None if t is None else _flat(t) for t in tensors]
    *states, vmax = function(*flat, *scalars, *flags)
    results = [from_compute(s, name).reshape(tensors[0].shape) for s in states]
    return (*results, from_compute(vmax, name).reshape(tensors[0].shape) if flags[1] else None)
