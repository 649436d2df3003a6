"""Normalization over batches, layers, groups and instances."""

from __future__ import annotations

from typing import Any

from ... import _C
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class _BatchNorm(Module):
    _ndims: tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name in ("weight", "bias"):
            self.register_parameter(name, Parameter(_C.empty(num_features, dtype=dtype, device=device)) if affine else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", _C.zeros(num_features, dtype=dtype, device=device) if tracked else None)
        self.register_buffer("running_var", _C.ones(num_features, dtype=dtype, device=device) if tracked else None)
        self.register_buffer("num_batches_tracked", _C.tensor(0, dtype=_C.int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        if input.ndim not in self._ndims:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self._ndims)} input (got {input.ndim}D input)")
        if input.shape[1] != self.num_features:
            raise RuntimeError(f"[{self._get_name()}] input: got {input.shape[1]} channels, expected num_features={self.num_features}")
        training = self.training or self.running_mean is None
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # cumulative average
                momentum = 1.0 / self.num_batches_tracked.item()
        track = self.training and self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if track or not training else None,
            self.running_var if track or not training else None,
            self.weight,
            self.bias,
            training,
            momentum,
            self.eps,
        )

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"track_running_stats={self.track_running_stats}")  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """(N, C) or (N, C, L), per channel."""

    _ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """(N, C, H, W), per channel."""

    _ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """(N, C, D, H, W), per channel."""

    _ndims = (5,)


class LayerNorm(Module):
    """Over the last dimensions, of shape normalized_shape."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            self.register_parameter(name, Parameter(_C.empty(*self.normalized_shape, dtype=dtype, device=device)) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """(N, C, …): each group of num_channels / num_groups channels by itself, then an affine map per channel."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name in ("weight", "bias"):
            self.register_parameter(name, Parameter(_C.empty(num_channels, dtype=dtype, device=device)) if affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _InstanceNorm(GroupNorm):
    """Each channel of each sample by itself. Running statistics aren't kept."""

    _ndims: tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if track_running_stats:
            raise NotImplementedError(f"[{type(self).__name__}] track_running_stats=True is not supported")
        super().__init__(num_features, num_features, eps, affine, device, dtype)
        self.num_features, self.momentum, self.track_running_stats = num_features, momentum, track_running_stats

    def forward(self, input: Any) -> Any:
        if input.ndim not in self._ndims:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self._ndims)} input (got {input.ndim}D input)")
        if input.ndim == self._ndims[0]:
            return super().forward(input.unsqueeze(0)).squeeze(0)
        return super().forward(input)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, affine={self.affine}"


class InstanceNorm1d(_InstanceNorm):
    """(N, C, L) or (C, L)."""

    _ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """(N, C, H, W) or (C, H, W)."""

    _ndims = (3, 4)


class RMSNorm(Module):
    """x·rsqrt(mean(x²) + eps)·weight over the last dimensions, of shape normalized_shape."""

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self.register_parameter("weight", Parameter(_C.ones(*shape, dtype=dtype, device=device)) if elementwise_affine else None)

    def forward(self, input: Any) -> Any:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
