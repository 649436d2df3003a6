"""DataLoader: batches of a data set, in this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ... import _C
from .dataset import IterableDataset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler


def default_collate(batch: list[Any]) -> Any:
    """Samples → one batch: tensors, arrays and numbers are stacked along a new first dimension; tuples, lists and dicts go item by item."""
    first = batch[0]
    if isinstance(first, _C.Tensor):
        return _C.stack(batch)
    if isinstance(first, float):
        return _C.tensor(batch, dtype=_C.float64)
    if isinstance(first, (bool, int)):
        return _C.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {k: default_collate([sample[k] for sample in batch]) for k in first}
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        items = [default_collate(list(column)) for column in zip(*batch, strict=False)]
        return type(first)(*items) if hasattr(first, "_fields") else items
    if hasattr(first, "__array__"):
        import numpy as np

        return _C.tensor(np.stack([np.asarray(sample) for sample in batch]))
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")


class DataLoader:
    """Iterates over batches of ``dataset``; each pass with ``shuffle`` is a new permutation of the Philox generator.

    Samples are loaded in this process: ``num_workers`` > 0 raises NotImplementedError. ``pin_memory`` is accepted and changes nothing.
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None, batch_sampler: Any = None,
        num_workers: int = 0, collate_fn: Any = None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Any = None, generator: Any = None, persistent_workers: bool = False, prefetch_factor: int | None = None,
    ) -> None:  # fmt: skip
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if num_workers > 0:
            raise NotImplementedError(f"[DataLoader] num_workers: got {num_workers}, expected 0: samples are loaded in this process")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if isinstance(dataset, IterableDataset) and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader with IterableDataset: expected no shuffle, sampler or batch_sampler option")
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.generator = generator
        self.num_workers = 0
        self.collate_fn = default_collate if collate_fn is None else collate_fn
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if isinstance(dataset, IterableDataset):
            if batch_size is not None:
                BatchSampler((), batch_size, drop_last)  # for its checks
            return
        if sampler is None and batch_sampler is None:
            self.sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)

    def __iter__(self) -> Iterator[Any]:
        dataset, collate = self.dataset, self.collate_fn
        if isinstance(dataset, IterableDataset):
            yield from self._iterate_iterable()
        elif self.batch_sampler is None:
            for index in self.sampler:
                yield dataset[index]
        elif type(dataset) is TensorDataset and collate is default_collate:
            for indices in self.batch_sampler:
                yield dataset.batch(indices)
        else:
            for indices in self.batch_sampler:
                yield collate([dataset[i] for i in indices])

    def _iterate_iterable(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from samples
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            n = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
