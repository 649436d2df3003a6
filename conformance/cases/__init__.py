"""Deterministic cases for every op: ``cases(op, dtype)`` yields them, each reproducible alone from its id.

The op table says which ops and dtypes there are; what a case looks like is written here, by category of ops.
"""

from .case import Case, View
from .catalogue import cases, find, supported

__all__ = ["Case", "View", "cases", "find", "supported"]
