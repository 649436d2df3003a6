"""The reference: every op of ``docs/numerics.md``, evaluated slowly and obviously.

The loops are scalar C++ (the ``*.cpp`` files beside this one, module ``conformance._reference``). Nothing is read from the op
table and no code is shared with a device, except the functions of section 4, whose definition is the shared source itself.
"""

from . import (
    indexing,  # noqa: F401  (registers its ops)
    normalization,  # noqa: F401  (adds its handlers)
)
from .evaluate import evaluate

__all__ = ["evaluate"]
