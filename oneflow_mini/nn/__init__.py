"""Building blocks of models: modules, their functions, initial values."""

from . import functional, init, utils
from .modules import *  # noqa: F403
from .modules import __all__ as _module_names
from .parameter import Buffer, Parameter

__all__ = [*_module_names, "Buffer", "Parameter", "functional", "init", "utils"]
