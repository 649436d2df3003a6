"""Tensors, autograd, nn and optim on the accelerators that ``hal`` knows; names, defaults and errors as PyTorch's and OneFlow's.

>>> import oneflow_mini as flow
>>> x = flow.randn(2, 3, requires_grad=True)
>>> x.square().sum().backward()
"""

# ruff: noqa: E402, F401, I001  (names for users, in an order that matters)
from math import e, inf, nan, pi
from pkgutil import extend_path
from typing import TYPE_CHECKING

__path__ = extend_path(__path__, __name__)  # the compiled half may be installed elsewhere

import hal as _hal  # first: it registers hal.Device, which _C's functions take

from . import _C, _tensor_aliases
from ._C import Generator, Tensor, default_generator, dtype, get_default_dtype, is_grad_enabled, set_default_dtype

if TYPE_CHECKING:  # what the update below does, for type checkers
    from ._C import *  # noqa: F403


# Ops and factories come straight from the compiled half: no Python frame between the user and the dispatcher.
_PRIVATE_TO_C = {
    "run_backward", "make_function_node", "current_node", "set_history", "sgd_step_", "adam_step_", "host_math", "bool_",
    "conv2d_input_grad", "grad_mode",
}  # fmt: skip
globals().update({_n: _f for _n, _f in vars(_C).items() if not _n.startswith("_") and _n not in _PRIVATE_TO_C and _n not in globals()})

device = _hal.device
newaxis = None
for _n, _t in _tensor_aliases.ALIASES.items():
    globals()[_n] = getattr(_C, _t)

from . import _algebra, _rearrange, _tensor_methods  # the last adds methods to Tensor
from ._composites import (
    allclose,
    bernoulli,
    equal,
    is_floating_point,
    is_tensor,
    isclose,
    linspace,
    masked_fill,
    norm,
    numel,
    randperm,
    std,
    tril,
    triu,
    var,
)
from ._algebra import *  # noqa: F403
from ._einsum import einsum
from ._rearrange import *  # noqa: F403
from ._type_info import finfo, iinfo
from .autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # type: ignore[assignment]
from .random import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .serialization import load, save
from ._tensor_str import set_printoptions
from . import autograd, nn, optim, random, types, utils
from . import _device_namespace

_hal.discovery.subscribe(_device_namespace.add_methods)

moveaxis, ger = _rearrange.movedim, _algebra.outer
Size = getattr(_C, "Size", tuple)  # type: ignore[misc]
__version__ = _hal.__version__ if hasattr(_hal, "__version__") else "0.1.0"


def __getattr__(name):  # type: ignore[no-untyped-def]
    """``flow.<device id>`` for the devices that discovery finds; they are looked for when first asked for."""
    if not name.startswith("_"):
        from ._device_namespace import find

        namespace = find(name)
        if namespace is not None:
            globals()[name] = namespace
            return namespace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def synchronize(device=None):  # type: ignore[no-untyped-def]
    """Waits until all work on ``device`` (a name or ``hal.Device``; default: the HOST device) is done; raises what failed there."""
    (_hal.host_device() if device is None else _hal.device(device)).synchronize()


def set_num_threads(n):  # type: ignore[no-untyped-def]
    """Threads of host kernels. Results don't depend on it."""
    _hal.set_num_threads(n)


def get_num_threads():  # type: ignore[no-untyped-def]
    return _hal.get_num_threads()


# Last, because these names shadow builtins.
for _n, _t in {
    "bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16",
    "short": "int16", "int32": "int32", "int": "int32", "int64": "int64",
    "long": "int64", "float16": "float16", "half": "float16", "bfloat16": "bfloat16", "float32": "float32", "float": "float32",
    "float64": "float64", "double": "float64",
}.items():  # fmt: skip
    globals()[_n] = getattr(_C, _t)
del _n, _t, extend_path, TYPE_CHECKING
