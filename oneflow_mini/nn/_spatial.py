"""Functions of lines and planes: transposed convolution, 1-d pooling, interpolation, rearrangements between channels and planes."""

from __future__ import annotations

import math  # only floor and ceil
from typing import Any

from .. import _C
from .._arguments import name_wrong_arguments


def _ints(op: str, name: str, value: Any, n: int) -> tuple[int, ...]:
    """n ints of an int or of a sequence of n (or of 1)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * n
    if isinstance(value, (tuple, list)) and len(value) in (1, n) and all(isinstance(v, int) for v in value):
        return tuple(value) * (n // len(value))
    raise TypeError(f"[{op}] {name}: got {value!r}, expected an int or {n} ints")


# ----- transposed convolution -------------------------------------------------------------------------------------------------------


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """(N, C, H, W) or (C, H, W) with weight (C, O / groups, KH, KW): the input gradient of conv2d, bit for bit.
    H' = (H − 1)·stride − 2·padding + dilation·(KH − 1) + output_padding + 1."""
    op = "conv_transpose2d"
    if input.ndim not in (3, 4) or weight.ndim != 4:
        raise ValueError(f"[{op}] input and weight: got {input.ndim} and {weight.ndim} dimensions, expected 3 or 4, and 4")
    s, p, o, d = (
        _ints(op, n, v, 2)
        for n, v in (("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation))
    )
    if groups < 1 or input.shape[-3] != weight.shape[0] or weight.shape[0] % groups:
        raise ValueError(
            f"[{op}] input: got {input.shape[-3]} channels and groups={groups}, expected {weight.shape[0]} channels, a multiple of groups"
        )
    if any(v < 0 or v >= step for v, step in zip(o, s, strict=True)):
        raise ValueError(f"[{op}] output_padding: got {output_padding}, expected ≥ 0 and less than stride {s}")
    x = input.unsqueeze(0) if input.ndim == 3 else input
    sizes = [(x.shape[2 + i] - 1) * s[i] - 2 * p[i] + d[i] * (weight.shape[2 + i] - 1) + o[i] + 1 for i in range(2)]
    if min(sizes) < 1:
        raise ValueError(f"[{op}] output size: got {tuple(sizes)} from input {tuple(input.shape)}, expected at least 1")
    channels = weight.shape[1] * groups
    out = _C.conv2d_input_grad(x, weight, (x.shape[0], channels, *sizes), s, p, d, groups)
    if bias is not None:
        if tuple(bias.shape) != (channels,):
            raise ValueError(f"[{op}] bias: got shape {tuple(bias.shape)}, expected ({channels},)")
        out = out + bias.reshape(1, -1, 1, 1)
    return out.squeeze(0) if input.ndim == 3 else out


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """(N, C, L) or (C, L) with weight (C, O / groups, K): conv_transpose2d on planes of height 1."""
    op = "conv_transpose1d"
    if weight.ndim != 3 or input.ndim not in (2, 3):
        raise ValueError(f"[{op}] input and weight: got {input.ndim} and {weight.ndim} dimensions, expected 2 or 3, and 3")
    s, p, o, d = (
        _ints(op, n, v, 1)[0]
        for n, v in (("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation))
    )
    return conv_transpose2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, (1, s), (0, p), (0, o), groups, (1, d)).squeeze(-2)


# ----- pooling along a line ---------------------------------------------------------------------------------------------------------


def _line(op: str, input: Any) -> Any:
    if input.ndim not in (2, 3):
        raise ValueError(f"[{op}] input: got {input.ndim} dimensions, expected (N, C, L) or (C, L)")
    return (input if input.ndim == 3 else input.unsqueeze(0)).unsqueeze(-2)


def _line_back(out: Any, input: Any) -> Any:
    out = out.squeeze(-2)
    return out if input.ndim == 3 else out.squeeze(0)


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """max_pool2d on planes of height 1; indices count along the line."""
    k, p, d = (_ints("max_pool1d", n, v, 1)[0] for n, v in (("kernel_size", kernel_size), ("padding", padding), ("dilation", dilation)))
    s = k if stride is None or stride == [] else _ints("max_pool1d", "stride", stride, 1)[0]
    out, indices = _C.max_pool2d(_line("max_pool1d", input), (1, k), (1, s), (0, p), (1, d), ceil_mode)
    return (_line_back(out, input), _line_back(indices, input)) if return_indices else _line_back(out, input)


def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Any:
    """avg_pool2d on planes of height 1."""
    k, p = (_ints("avg_pool1d", n, v, 1)[0] for n, v in (("kernel_size", kernel_size), ("padding", padding)))
    s = k if stride is None or stride == [] else _ints("avg_pool1d", "stride", stride, 1)[0]
    return _line_back(_C.avg_pool2d(_line("avg_pool1d", input), (1, k), (1, s), (0, p), ceil_mode, count_include_pad, None), input)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    size = _ints("adaptive_avg_pool1d", "output_size", output_size, 1)[0]
    return _line_back(_C.adaptive_avg_pool2d(_line("adaptive_avg_pool1d", input), (1, size)), input)


# ----- interpolation ----------------------------------------------------------------------------------------------------------------


def _nearest(sizes: int, out: int, scale: float | None) -> list[int]:
    """Of each output place the input place: ⌊o·in / out⌋ in integers, or ⌊o / scale⌋ with a scale that was given."""
    if scale is None:
        return [o * sizes // out for o in range(out)]
    return [min(math.floor(o / scale), sizes - 1) for o in range(out)]


def _linear(size: int, out: int, scale: float | None, align_corners: bool) -> tuple[list[int], list[int], list[float]]:
    """Of each output place two input places and the weight of the second, in f64 on the host."""
    low, high, weight = [], [], []
    for o in range(out):
        if align_corners:
            x = o * (size - 1) / (out - 1) if out > 1 else 0.0
        else:
            x = max(0.0, (o + 0.5) * (size / out if scale is None else 1 / scale) - 0.5)
        a = min(math.floor(x), size - 1)
        low.append(a)
        high.append(min(a + 1, size - 1))
        weight.append(min(x - a, 1.0))
    return low, high, weight


def _sizes(input: Any, size: Any, scale_factor: Any, recompute: bool | None) -> tuple[list[int], list[float | None]]:
    n = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("[interpolate] size and scale_factor: expected one of them")
    if size is not None:
        return list(_ints("interpolate", "size", tuple(size) if isinstance(size, (tuple, list)) else size, n)), [None] * n
    scales = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * n
    if len(scales) != n or not all(s > 0 for s in scales):
        raise ValueError(f"[interpolate] scale_factor: got {scale_factor!r}, expected a number > 0 or {n} of them")
    out = [math.floor(input.shape[2 + i] * float(s)) for i, s in enumerate(scales)]
    return out, [None if recompute else float(s) for s in scales]


def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Any:  # fmt: skip
    """(N, C, L) or (N, C, H, W) at another size. "nearest": gathers of input places ⌊o·in / out⌋. "linear" and "bilinear": dimension by
    dimension, the last one first, a·(1 − w) + b·w of two places, w rounded once from f64; halves compute in f32 and round once."""
    modes = {"nearest": (3, 4), "linear": (3,), "bilinear": (4,)}
    if mode not in modes or antialias:
        raise NotImplementedError(
            f"[interpolate] mode: got {mode!r} with antialias={antialias}, expected one of {', '.join(modes)} without"
        )
    if input.ndim not in modes[mode]:
        raise ValueError(
            f"[interpolate] input: got {input.ndim} dimensions, expected {' or '.join(map(str, modes[mode]))} for mode {mode!r}"
        )
    if mode == "nearest" and align_corners is not None:
        raise ValueError("[interpolate] align_corners option can only be set with the interpolating modes: linear | bilinear")
    out_sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    if min(out_sizes) < 1 or 0 in input.shape[2:]:
        raise ValueError(
            f"[interpolate] Input and output sizes should be greater than 0: got {tuple(input.shape[2:])} and {tuple(out_sizes)}"
        )

    def at(x: Any, dim: int, places: list[int]) -> Any:
        if places == list(range(x.shape[dim])):
            return x
        return _C.index_select(x, dim, _C.tensor(places, dtype=_C.int64, device=x.device))

    x = input
    if mode == "nearest":
        for i in reversed(range(input.ndim - 2)):
            x = at(x, 2 + i, _nearest(input.shape[2 + i], out_sizes[i], scales[i]))
        return x.clone() if x is input else x
    x = x.to(_C.float32) if x.dtype in (_C.float16, _C.bfloat16) else x
    for i in reversed(range(input.ndim - 2)):
        low, high, weight = _linear(input.shape[2 + i], out_sizes[i], scales[i], bool(align_corners))
        shape = [1] * input.ndim
        shape[2 + i] = out_sizes[i]
        w = _C.tensor(weight, dtype=_C.float64, device=x.device).to(x.dtype).reshape(*shape)
        x = at(x, 2 + i, low) * (1.0 - w) + at(x, 2 + i, high) * w
    return x.to(input.dtype)


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Any:
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    return interpolate(input, size, scale_factor, "bilinear", True)


# ----- between channels and planes --------------------------------------------------------------------------------------------------


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(…, C·r², H, W) → (…, C, H·r, W·r)."""
    r = upscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-3] % (r * r):
        raise ValueError(f"[pixel_shuffle] input: got shape {tuple(input.shape)}, expected channels a multiple of {r}²")
    *lead, c, h, w = input.shape
    x = input.reshape(-1, c // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(*lead, c // (r * r), h * r, w * r)


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """(…, C, H·r, W·r) → (…, C·r², H, W)."""
    r = downscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-1] % r or input.shape[-2] % r:
        raise ValueError(f"[pixel_unshuffle] input: got shape {tuple(input.shape)}, expected height and width multiples of {r}")
    *lead, c, h, w = input.shape
    x = input.reshape(-1, c, h // r, r, w // r, r).permute(0, 1, 3, 5, 2, 4)
    return x.reshape(*lead, c * r * r, h // r, w // r)


def channel_shuffle(input: Any, groups: int) -> Any:
    """(N, g·n, …): channel i·n + j moves to j·g + i."""
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ValueError(f"[channel_shuffle] input: got shape {tuple(input.shape)}, expected channels a multiple of {groups}")
    n, c, *rest = input.shape
    return input.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(n, c, *rest)


__all__ = [
    "adaptive_avg_pool1d", "avg_pool1d", "channel_shuffle", "conv_transpose1d", "conv_transpose2d", "interpolate", "max_pool1d",
    "pixel_shuffle", "pixel_unshuffle", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

name_wrong_arguments(globals(), __all__)
