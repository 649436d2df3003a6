"""The text of a tensor, laid out as PyTorch's: four digits, edge items of what is large, then what isn't default."""

from __future__ import annotations

import math
from typing import Any

from . import _C


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


def set_printoptions(
    precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None, linewidth: int | None = None,
    profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Digits, the size from which only edges are shown, their number, the width; ``profile``: "default", "short" or "full"."""
    profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
    if profile is not None:
        if profile not in profiles:
            raise ValueError(f"[set_printoptions] profile: got {profile!r}, expected one of {', '.join(profiles)}")
        _Options.precision, _Options.threshold, _Options.edgeitems, _Options.linewidth = profiles[profile]  # type: ignore[assignment]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if value is not None:
            setattr(_Options, name, value)
    _Options.sci_mode = sci_mode


class _Formatter:
    """One width for all values, chosen from those that are shown."""

    def __init__(self, values: Any, kind: str) -> None:
        self.kind = kind
        self.sci = False
        self.integral = False
        if kind == "float":
            magnitudes = sorted(abs(v) for v in values if math.isfinite(v) and v != 0)
            if magnitudes:
                low, high = magnitudes[0], magnitudes[-1]
                self.integral = all(v == math.floor(v) for v in magnitudes)
                self.sci = high / low > 1000.0 or high > 1e8 or (not self.integral and low < 1e-4)
            if _Options.sci_mode is not None:
                self.sci = _Options.sci_mode
            self.integral = self.integral or not magnitudes
        self.width = max((len(self._plain(v)) for v in values), default=0)

    def _plain(self, value: Any) -> str:
        if self.kind != "float":
            return str(value)
        if not math.isfinite(value):
            return str(value)
        if self.sci:
            return f"{value:.{_Options.precision}e}"
        return f"{value:.0f}." if self.integral else f"{value:.{_Options.precision}f}"

    def __call__(self, value: Any) -> str:
        return self._plain(value).rjust(self.width)


def _edges(t: Any, dim: int) -> Any:
    """The values that are shown, as an array: the first and last edgeitems of each long dimension."""
    import numpy as np

    if dim == t.ndim:
        return t.numpy()
    n = _Options.edgeitems
    if t.shape[dim] <= 2 * n:
        return _edges(t, dim + 1)
    before = (slice(None),) * dim
    return np.concatenate([_edges(t[before + (slice(0, n),)], dim + 1), _edges(t[before + (slice(t.shape[dim] - n, None),)], dim + 1)], dim)


def _vector(values: list[Any], size: int, indent: int, form: _Formatter, summarize: bool) -> str:
    per_line = max(1, (_Options.linewidth - indent) // (form.width + 2))
    words = [form(v) for v in values]
    if summarize and size > 2 * _Options.edgeitems:
        n = _Options.edgeitems
        words = [*words[:n], " ...", *words[n:]]
    lines = [words[i : i + per_line] for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"


def _nested(array: Any, shape: tuple[int, ...], indent: int, form: _Formatter, summarize: bool) -> str:
    if not shape:
        return form(array.item())
    if len(shape) == 1:
        return _vector(array.tolist(), shape[0], indent, form, summarize)
    slices = [_nested(a, shape[1:], indent + 1, form, summarize) for a in array]
    if summarize and shape[0] > 2 * _Options.edgeitems:
        slices.insert(_Options.edgeitems, "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(slices) + "]"


def _kind(dtype: Any) -> str:
    return "float" if dtype.is_floating_point else "bool" if dtype == _C.bool else "int"


def tensor_str(self: Any) -> str:
    """``tensor([[1., 2.], …], device=…, dtype=…, grad_fn=<AddBackward>)``; reads the values, so it synchronises."""
    prefix = "tensor("
    shape, dtype = tuple(self.shape), self.dtype
    suffixes = []
    if not self.device.is_host:
        suffixes.append(f"device='{self.device.name}'")
    count = math.prod(shape)
    if count == 0:
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        body = "[]"
    else:
        values = self.detach()
        if dtype in (_C.float16, _C.bfloat16):
            values = values.to(_C.float32)
        summarize = count > _Options.threshold
        array = _edges(values.cpu(), 0) if summarize else values.cpu().numpy()
        form = _Formatter(array.reshape(-1).tolist(), _kind(dtype))
        body = _nested(array, shape, len(prefix), form, summarize)
    default = dtype in (_C.get_default_dtype(), _C.int64, _C.bool)
    if not default or (count == 0 and dtype != _C.get_default_dtype()):
        suffixes.append(f"dtype={dtype!r}")
    if self.grad_fn is not None:
        suffixes.append(f"grad_fn=<{self.grad_fn.name()}>")
    elif self.requires_grad:
        suffixes.append("requires_grad=True")
    text = prefix + body
    width = len(text) - text.rfind("\n") - 1
    for s in suffixes:
        if width + len(s) + 2 > _Options.linewidth:
            text += ",\n" + " " * len(prefix)
            width = len(prefix)
        else:
            text += ", "
            width += 2
        text += s
        width += len(s)
    return text + ")"
