"""Activations and dropout."""

from __future__ import annotations

from typing import Any

from ... import _C
from .. import functional as F
from ..parameter import Parameter
from .module import Module

_relu = _C.relu


class ReLU(Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return input.relu_() if self.inplace else _relu(input)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    def forward(self, input: Any) -> Any:
        return _C.sigmoid(input)


class Tanh(Module):
    def forward(self, input: Any) -> Any:
        return _C.tanh(input)


class GELU(Module):
    """x·Φ(x); ``approximate="tanh"`` for its tanh approximation."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return _C.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(ReLU):
    def forward(self, input: Any) -> Any:
        return F.silu(input, self.inplace)


class Mish(ReLU):
    def forward(self, input: Any) -> Any:
        return F.mish(input, self.inplace)


class LeakyReLU(Module):
    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Softplus(Module):
    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Module):
    def forward(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Softmax(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim)


class Dropout(Module):
    """In training zeroes elements with probability p and multiplies the others by 1 / (1 − p); else the identity."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class _Named(Module):
    """A function of functional, with the options of the constructor in its order."""

    _function: Any = None
    _options: tuple[tuple[str, Any], ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        names = [n for n, _ in self._options]
        if len(args) > len(names):
            raise TypeError(f"{self._get_name()}: got {len(args)} arguments, expected at most {len(names)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in given:
                raise TypeError(f"{self._get_name()}: got an unexpected argument {name!r}, expected {', '.join(names) or 'none'}")
            given[name] = value
        for name, default in self._options:
            if name not in given and default is ...:
                raise TypeError(f"{self._get_name()}: missing argument {name!r}")
            setattr(self, name, given.get(name, default))

    def forward(self, input: Any) -> Any:
        return type(self)._function(input, **{n: getattr(self, n) for n, _ in self._options})

    def extra_repr(self) -> str:
        shown = [(n, getattr(self, n)) for n, _ in self._options]
        return ", ".join(f"{n}={v!r}" for n, v in shown if not (n == "inplace" and not v))


def _named(name: str, function: Any, **options: Any) -> Any:
    members = {"_function": staticmethod(function), "_options": tuple(options.items()), "__doc__": function.__doc__, "__module__": __name__}
    return type(name, (_Named,), members)


SELU = _named("SELU", F.selu, inplace=False)
CELU = _named("CELU", F.celu, alpha=1.0, inplace=False)
Hardsigmoid = _named("Hardsigmoid", F.hardsigmoid, inplace=False)
Hardswish = _named("Hardswish", F.hardswish, inplace=False)
Softsign = _named("Softsign", F.softsign)
Tanhshrink = _named("Tanhshrink", F.tanhshrink)
Softshrink = _named("Softshrink", F.softshrink, lambd=0.5)
Hardshrink = _named("Hardshrink", F.hardshrink, lambd=0.5)
Threshold = _named("Threshold", F.threshold, threshold=..., value=..., inplace=False)
GLU = _named("GLU", F.glu, dim=-1)
Softmin = _named("Softmin", F.softmin, dim=...)


class PReLU(Module):
    """x > 0 ? x : weight·x, with num_parameters weights: 1, or one per channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(_C.full((num_parameters,), init, dtype=dtype or _C.get_default_dtype(), device=device))

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Dropout1d(Dropout):
    """Zeroes whole channels of (N, C, L) or (C, L)."""

    def forward(self, input: Any) -> Any:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """Zeroes whole channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        return F.dropout2d(input, self.p, self.training, self.inplace)
