"""Samplers: which indices, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ... import _C, _composites


class Sampler:
    """Subclass it: ``__iter__`` gives indices, ``__len__`` their number."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"[{type(self).__name__}] __iter__: not defined")


class SequentialSampler(Sampler):
    """0, 1, 2 …"""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """A new permutation for each pass (or, with replacement, num_samples draws) from ``generator``, the default one if None."""

    def __init__(self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None) -> None:
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not len(data_source):
            raise ValueError("[RandomSampler] data_source: got an empty data set, expected at least one sample")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        if self.replacement:
            yield from _C.randint(0, n, (self.num_samples,), generator=self.generator, dtype=_C.int64).tolist()
            return
        left = self.num_samples
        while left > 0:
            order = _composites.randperm(n, generator=self.generator).tolist()[:left]
            left -= len(order)
            yield from order

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices of another sampler; the last may be shorter, or is left out with drop_last."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
