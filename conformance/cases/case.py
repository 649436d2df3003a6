"""A case: one call of an op on given bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided


@dataclass(frozen=True)
class View:
    """A strided operand: ``base`` is the whole storage (1-d), strides and offset count elements."""

    base: np.ndarray
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def logical(self, base: np.ndarray | None = None) -> np.ndarray:
        """The operand's values as an array of its shape: a view of ``base`` (default: its own)."""
        storage = self.base if base is None else base
        if 0 in self.shape:
            return np.empty(self.shape, storage.dtype)
        return as_strided(storage[self.offset :], self.shape, tuple(s * storage.itemsize for s in self.strides))

    def untouched(self) -> np.ndarray:
        """True for each element of the storage that the view doesn't reach."""
        mask = np.ones(self.base.shape, bool)
        if 0 not in self.shape:
            self.logical(mask)[...] = False
        return mask


@dataclass(frozen=True)
class Case:
    """``inputs``: a View, a Python scalar (immediate) or None (absent). ``outputs``: views to write into, or None: allocated.

    ``aliases``: output number -> number of the input whose storage it shares (in place).
    """

    id: str
    op: str
    dtype: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    out_dtype: str | None = None
    outputs: tuple[View | None, ...] | None = None
    aliases: dict[int, int] = field(default_factory=dict)

    def arrays(self) -> list[Any]:
        """The inputs as the reference takes them."""
        return [i.logical() if isinstance(i, View) else i for i in self.inputs]


def rng_of(case_id: str) -> np.random.Generator:
    """The generator that a case's values come from: a function of its id."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(case_id.encode()).digest()[:8], "little"))


Build = Callable[[np.random.Generator], dict[str, Any]]


@dataclass(frozen=True)
class Draft:
    """A case that isn't built yet: a label, and what makes the fields of the Case from its generator."""

    label: str
    build: Build

    def case(self, op: str, dtype: str) -> Case:
        case_id = f"{op}-{dtype}-{self.label}"
        return Case(id=case_id, op=op, dtype=dtype, **self.build(rng_of(case_id)))
