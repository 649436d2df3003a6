"""Convolutions and their transposes."""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class _Conv(Module):
    """Parameters and checks that the convolutions share. Initial values: U(−1/√fan_in, 1/√fan_in)."""

    _dims = 2

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode != "zeros":
            raise NotImplementedError(f"[{self._get_name()}] padding_mode: got {padding_mode!r}, expected 'zeros'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = self._tuple("kernel_size", kernel_size)
        self.stride = self._tuple("stride", stride)
        self.dilation = self._tuple("dilation", dilation)
        self.padding = (
            F._padding(self._get_name(), padding, self.kernel_size, self.stride, self.dilation)
            if isinstance(padding, str)
            else self._tuple("padding", padding)
        )
        self.padding_mode = padding_mode
        self.weight = Parameter(_C.empty(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype, device=device))
        if bias:
            self.bias = Parameter(_C.empty(out_channels, dtype=dtype, device=device))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _tuple(self, name: str, value: Any) -> tuple[int, ...]:
        pair = F._pair(self._get_name(), name, value)
        if self._dims == 1:
            if pair[0] != pair[1]:
                raise TypeError(f"[{self._get_name()}] {name}: got {value!r}, expected an int")
            return pair[:1]
        return pair

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._fans(self.weight)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if any(self.padding):
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + (", bias=False" if self.bias is None else "")


class Conv2d(_Conv):
    """(N, C, H, W) → (N, O, H', W'), a cross-correlation. ``padding`` may be "valid" or "same" (odd taps); padding_mode is "zeros"."""

    def forward(self, input: Any) -> Any:
        if input.ndim == 4:
            return _C.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """(N, C, L) → (N, O, L'): conv2d on planes of height 1."""

    _dims = 1

    def forward(self, input: Any) -> Any:
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _ConvTranspose(_Conv):
    _functional: Any = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        self.output_padding = self._tuple("output_padding", output_padding)
        self.weight = Parameter(_C.empty(in_channels, out_channels // groups, *self.kernel_size, dtype=dtype, device=device))
        self.reset_parameters()

    def forward(self, input: Any) -> Any:
        options = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return type(self)._functional(input, self.weight, self.bias, *options)


class ConvTranspose2d(_ConvTranspose):
    """(N, C, H, W) → (N, O, H', W'), the input gradient of Conv2d; see functional.conv_transpose2d."""

    _functional = staticmethod(F.conv_transpose2d)


class ConvTranspose1d(_ConvTranspose):
    """(N, C, L) → (N, O, L'): ConvTranspose2d on planes of height 1."""

    _dims = 1
    _functional = staticmethod(F.conv_transpose1d)
