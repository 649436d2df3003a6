"""Named results of ops that give a pair."""

from __future__ import annotations

from typing import Any, NamedTuple


class _Pair(NamedTuple):
    values: Any
    indices: Any


class _Named(_Pair):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"oneflow_mini.return_types.{type(self).__name__}(\nvalues={self.values!r},\nindices={self.indices!r})"


class max(_Named):  # these names stand in the repr
    __slots__ = ()


class min(_Named):
    __slots__ = ()


class sort(_Named):
    __slots__ = ()


class topk(_Named):
    __slots__ = ()
