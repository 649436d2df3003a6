"""The random state: one Philox stream for all devices (docs/numerics.md section 10), so a seed gives the same numbers on each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from . import _C

Generator: Any = _C.Generator
default_generator = _C.default_generator

_STATE_BYTES = 16  # seed and offset, two little-endian 64-bit words


def manual_seed(seed: int) -> Any:
    """Starts the default generator's stream of ``seed`` (an int in [-2⁶³, 2⁶⁴)) from its beginning; returns the generator."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seeds the default generator with a number from the system and returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


def _get_state(self: Any) -> Any:
    """The state as a uint8 tensor of 16 bytes: seed, then words used."""
    raw = (self.initial_seed() % 2**64).to_bytes(8, "little") + int(self.offset).to_bytes(8, "little")
    return _C.tensor_from_bytes(raw, _C.uint8, (_STATE_BYTES,))


def _set_state(self: Any, state: Any) -> Any:
    """Restores a state from get_state()."""
    if not isinstance(state, _C.Tensor) or state.dtype != _C.uint8 or tuple(state.shape) != (_STATE_BYTES,):
        what = f"{state.dtype!r} of shape {tuple(state.shape)}" if isinstance(state, _C.Tensor) else type(state).__name__
        raise TypeError(f"[set_rng_state] new_state: got {what}, expected a uint8 tensor of shape ({_STATE_BYTES},) from get_rng_state()")
    raw = _C.tensor_to_bytes(state)
    self.manual_seed(int.from_bytes(raw[:8], "little"))
    self.offset = int.from_bytes(raw[8:], "little")
    return self


Generator.get_state = _get_state
Generator.set_state = _set_state


def get_rng_state() -> Any:
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(enabled: bool = True) -> Iterator[None]:
    """Restores the default generator's state at the end of the block."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)
