"""Names for type hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from hal import Device

Number = Union[int, float, bool]  # noqa: UP007
_size = Sequence[int]
DeviceLike = Union[str, "Device", None]
_dtype = Any
