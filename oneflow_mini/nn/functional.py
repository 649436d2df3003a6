"""Functions of neural networks. What has no op of its own is made of ops of the table; the formula stands at each."""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C
from .._arguments import name_wrong_arguments
from . import _activations, _similarity, _spatial
from ._activations import *  # noqa: F403
from ._losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)  # fmt: skip
from ._similarity import *  # noqa: F403
from ._spatial import *  # noqa: F403

__all__ = [
    *_activations.__all__, *_similarity.__all__, *_spatial.__all__,
    "adaptive_avg_pool2d", "avg_pool2d", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "conv1d", "conv2d",
    "instance_norm", "rms_norm",
    "cross_entropy", "dropout", "elu", "embedding", "gelu", "group_norm", "hardtanh", "huber_loss", "kl_div",
    "l1_loss", "layer_norm", "leaky_relu",
    "linear", "log_softmax", "logsigmoid", "max_pool2d", "mish", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "relu", "relu6",
    "scaled_dot_product_attention", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softplus", "tanh",
]  # fmt: skip

linear = _C.linear
sigmoid = _C.sigmoid
tanh = _C.tanh
_HALVES = (_C.float16, _C.bfloat16)


def _pair(op: str, name: str, value: Any) -> tuple[int, int]:
    """(v, v) of an int, else the two ints given."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, (tuple, list)) and len(value) in (1, 2) and all(isinstance(v, int) for v in value):
        return (value[0], value[-1])
    raise TypeError(f"[{op}] {name}: got {value!r}, expected an int or a pair of ints")


# ----- activations ----------------------------------------------------------------------------------------------------------------


def relu(input: Any, inplace: bool = False) -> Any:
    return input.relu_() if inplace else _C.relu(input)


def relu6(input: Any, inplace: bool = False) -> Any:
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    out = _C.clamp(input, min_val, max_val)
    return input.copy_(out) if inplace else out


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    out = _C.where(input > 0, input, input * negative_slope)
    return input.copy_(out) if inplace else out


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x > 0 ? x : alpha·expm1(x); expm1 sees min(x, 0), so that an overflow there can't reach the gradient."""
    out = _C.where(input > 0, input, _C.expm1(_C.clamp(input, max=0.0)) * alpha)
    return input.copy_(out) if inplace else out


def gelu(input: Any, approximate: str = "none") -> Any:
    return _C.gelu(input, approximate=approximate)


def silu(input: Any, inplace: bool = False) -> Any:
    out = _C.silu(input)
    return input.copy_(out) if inplace else out


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta·x)) / beta; the function itself is accurate everywhere, so ``threshold`` changes nothing."""
    return _C.softplus(input) if beta == 1 else _C.softplus(input * beta) / beta


def logsigmoid(input: Any) -> Any:
    return -_C.softplus(-input)


def mish(input: Any, inplace: bool = False) -> Any:
    out = input * _C.tanh(_C.softplus(input))
    return input.copy_(out) if inplace else out


def _implicit_dim(name: str, ndim: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.", stacklevel=4
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
    x = input if dtype is None else input.to(dtype)
    return _C.softmax(x, _implicit_dim("softmax", x.ndim) if dim is None else dim)


def log_softmax(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
    x = input if dtype is None else input.to(dtype)
    return _C.log_softmax(x, _implicit_dim("log_softmax", x.ndim) if dim is None else dim)


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeroes elements with probability p and multiplies the others by 1 / (1 − p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    out = _C.dropout(input, p, training)
    return input.copy_(out) if inplace and training else out


# ----- convolution and pooling -----------------------------------------------------------------------------------------------------


def _padding(op: str, padding: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Any:
    """Numbers for "valid" and "same"."""
    if not isinstance(padding, str):
        return padding
    if padding == "valid":
        return (0,) * len(kernel)
    if padding != "same":
        raise ValueError(f"[{op}] padding: got {padding!r}, expected 'valid', 'same' or numbers")
    if any(s != 1 for s in stride):
        raise ValueError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=False)]
    if any(t % 2 for t in total):
        raise NotImplementedError(f"[{op}] padding='same' needs an odd number of taps: got kernel {kernel} with dilation {dilation}")
    return tuple(t // 2 for t in total)


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """(N, C, H, W) or (C, H, W) with weight (O, C / groups, KH, KW)."""
    if isinstance(padding, str):
        padding = _padding(
            "conv2d", padding, tuple(weight.shape[2:]), _pair("conv2d", "stride", stride), _pair("conv2d", "dilation", dilation)
        )
    if input.ndim == 3:
        return _C.conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    return _C.conv2d(input, weight, bias, stride, padding, dilation, groups)


def _single(name: str, value: Any) -> int:
    a, b = _pair("conv1d", name, value)
    if a != b:
        raise TypeError(f"[conv1d] {name}: got {value!r}, expected an int")
    return a


def conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """(N, C, L) or (C, L) with weight (O, C / groups, K): conv2d on planes of height 1."""
    if weight.ndim != 3 or input.ndim not in (2, 3):
        raise ValueError(f"[conv1d] input and weight: got {input.ndim} and {weight.ndim} dimensions, expected 2 or 3, and 3")
    s, d = _single("stride", stride), _single("dilation", dilation)
    p = _padding("conv1d", padding, tuple(weight.shape[2:]), (s,), (d,))
    x = input.unsqueeze(-2) if input.ndim == 3 else input.unsqueeze(0).unsqueeze(-2)
    out = _C.conv2d(x, weight.unsqueeze(-2), bias, (1, s), (0, _single("padding", p)), (1, d), groups).squeeze(-2)
    return out if input.ndim == 3 else out.squeeze(0)


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest of each window; stride defaults to the kernel size. Indices are h·W + w in the input's plane."""
    stride = kernel_size if stride is None or stride == [] else stride
    x = input.unsqueeze(0) if input.ndim == 3 else input
    out, indices = _C.max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode)
    if input.ndim == 3:
        out, indices = out.squeeze(0), indices.squeeze(0)
    return (out, indices) if return_indices else out


def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Mean of each window; stride defaults to the kernel size. Padding counts as zeros, or with count_include_pad=False not at all."""
    stride = None if stride == [] else stride
    return _C.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means of output_size windows that cover the plane: rows ⌊o·H / OH⌋ to ⌈(o + 1)·H / OH⌉ (None keeps a side)."""
    return _C.adaptive_avg_pool2d(input, output_size)


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Adds (or with negative numbers, cuts) elements: ``pad`` is (left, right) of the last dimension, then of the one before …"""
    if mode != "constant":
        raise NotImplementedError(f"[pad] mode: got {mode!r}, expected 'constant'")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ValueError(f"[pad] pad: got {len(pad)} numbers for {input.ndim} dimensions, expected pairs, at most one per dimension")
    out = input
    for i in range(len(pad) // 2):
        dim, (before, after) = input.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        size = out.shape[dim] + before + after
        if size < 0 or -before > out.shape[dim]:
            raise ValueError(f"[pad] pad: got ({before}, {after}) for dimension {dim} of size {out.shape[dim]}")
        if before < 0 or after < 0:
            start = max(0, -before)
            out = out.narrow(dim, start, out.shape[dim] - start - max(0, -after))
        pieces = [out]
        for count, at in ((before, 0), (after, len(pieces) + (before > 0))):
            if count > 0:
                shape = list(out.shape)
                shape[dim] = count
                pieces.insert(at, _C.full(shape, 0 if value is None else value, dtype=out.dtype, device=out.device))
        out = pieces[0] if len(pieces) == 1 else _C.cat(pieces, dim)
    return out


# ----- normalization --------------------------------------------------------------------------------------------------------------


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(x − mean) / √(mean((x − mean)²) + eps) · weight + bias over the last dimensions; halves compute in f32 and round once."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    return _C.layer_norm(input, shape, weight, bias, eps)


def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """(x − mean) / √(var + eps) · weight + bias per channel (dimension 1). In training mean and variance are the batch's, and
    running = (1 − momentum)·running + momentum·batch, with the unbiased variance. Halves compute in f32."""
    return _C.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(N, C, …): layer_norm of each group of C / num_groups channels, then ·weight + bias per channel; halves compute in f32."""
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ValueError(
            f"[group_norm] input: got shape {tuple(input.shape)}, expected (N, C, …) with C a multiple of num_groups={num_groups}"
        )
    x = input.to(_C.float32) if input.dtype in _HALVES else input
    rest = (x.shape[1] // num_groups, *x.shape[2:])
    out = _C.layer_norm(x.reshape(x.shape[0], num_groups, *rest), rest, None, None, eps).reshape(x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != (x.shape[1],):
            raise ValueError(f"[group_norm] {name}: got shape {tuple(parameter.shape)}, expected ({x.shape[1]},)")
    if weight is not None:
        out = out * weight.reshape(shape).to(out.dtype)
    if bias is not None:
        out = out + bias.reshape(shape).to(out.dtype)
    return out.to(input.dtype)


def instance_norm(
    input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """(N, C, …): each channel of each sample by itself: group_norm with as many groups as channels. Running statistics aren't kept."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise NotImplementedError("[instance_norm] running statistics are not supported")
    return group_norm(input, input.shape[1], weight, bias, eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """x·rsqrt(mean(x²) + eps)·weight over the last dimensions; eps defaults to the dtype's. Halves compute in f32 and round once."""
    from .._type_info import finfo

    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise ValueError(f"[rms_norm] input: got shape {tuple(input.shape)}, expected it to end with {shape}")
    x = input.to(_C.float32) if input.dtype in _HALVES else input
    mean = _C.mean(_C.square(x), tuple(range(-len(shape), 0)), True)
    out = x * _C.rsqrt(mean + (finfo(x.dtype).eps if eps is None else eps))
    return (out if weight is None else out * weight.to(out.dtype)).to(input.dtype)


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None
) -> Any:
    """softmax(query·keyᵀ·scale + mask)·value of (…, L, E), (…, S, E), (…, S, Ev); scale defaults to 1 / √E. A bool mask is True where
    a key takes part, a float one is added; is_causal lets query i see the keys up to i. A query that sees no key gives zeros."""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(
            f"[scaled_dot_product_attention] query, key and value: got {query.ndim}, {key.ndim} and {value.ndim} dimensions, "
            "expected at least 2"
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError("[scaled_dot_product_attention] Explicit attn_mask should not be set when is_causal=True")
    length, sources = query.shape[-2], key.shape[-2]
    scores = _C.matmul(query, key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = _C.arange(length, device=query.device).unsqueeze(1) >= _C.arange(sources, device=query.device)
    blind = None
    if attn_mask is not None and attn_mask.dtype == _C.bool:
        scores = _C.where(attn_mask, scores, float("-inf"))
        blind = _C.logical_not(_C.any(attn_mask, -1, True))
    elif attn_mask is not None:
        scores = scores + attn_mask
    if blind is not None:
        weights = _C.softmax(_C.where(blind, 0.0, scores), -1)
        weights = _C.where(blind, 0.0, weights)
    else:
        weights = _C.softmax(scores, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return _C.matmul(weights, value)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    return input / _C.clamp(input.norm(p, dim, keepdim=True), min=eps)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """int64 (…, num_classes) with 1 at each index; -1: one more than the largest."""
    if tensor.dtype != _C.int64:
        raise TypeError(f"[one_hot] tensor: got {tensor.dtype!r}, expected int64")
    if tensor.numel() and tensor.min().item() < 0:
        raise ValueError(f"[one_hot] tensor: got {tensor.min().item()}, expected indices ≥ 0")
    largest = tensor.max().item() if tensor.numel() else -1
    if num_classes == -1:
        num_classes = largest + 1
    if largest >= num_classes or num_classes <= 0:
        raise ValueError(f"[one_hot] num_classes: got {num_classes}, expected more than the largest index {largest}")
    return (tensor.unsqueeze(-1) == _C.arange(num_classes, device=tensor.device)).to(_C.int64)


def _padding_row(rows: int, padding_idx: int | None) -> int | None:
    """padding_idx counted from the front. Raises ValueError outside [-rows, rows)."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"[embedding] padding_idx must be within the number of embeddings: got {padding_idx} for {rows} rows")
    return padding_idx % rows


def _refuse_embedding_options(max_norm: Any, scale_grad_by_freq: bool, sparse: bool) -> None:
    for name, value in (("max_norm", max_norm is not None), ("scale_grad_by_freq", scale_grad_by_freq), ("sparse", sparse)):
        if value:
            raise NotImplementedError(f"[embedding] {name} is not supported")


def embedding(
    input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """weight[input]: rows of a (rows, columns) table by integer indices of any shape; the row ``padding_idx`` gets no gradient."""
    _refuse_embedding_options(max_norm, scale_grad_by_freq, sparse)
    row = None if padding_idx is None else _padding_row(weight.shape[0], padding_idx)
    return _C.embedding(weight, input, -1 if row is None else row)


name_wrong_arguments(globals(), __all__)
