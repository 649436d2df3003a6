"""Data sets: things with ``__getitem__`` and ``__len__``, or with ``__iter__``."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

from ... import _C, _composites


class Dataset:
    """Subclass it: ``__getitem__(index)`` gives a sample, ``__len__()`` their number."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"[{type(self).__name__}] __getitem__: not defined")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Subclass it: ``__iter__()`` gives the samples."""

    def __iter__(self) -> Any:
        raise NotImplementedError(f"[{type(self).__name__}] __iter__: not defined")


class TensorDataset(Dataset):
    """Sample i is (t[i] for each tensor): they must agree in their first dimension."""

    def __init__(self, *tensors: Any) -> None:
        sizes = [t.shape[0] if isinstance(t, _C.Tensor) and t.ndim else None for t in tensors]
        if not tensors or None in sizes or len(set(sizes)) > 1:
            raise ValueError(f"[TensorDataset] tensors: Size mismatch between tensors: first dimensions {sizes}, expected equal ones")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def batch(self, indices: Sequence[int]) -> list[Any]:
        """The samples of ``indices``, collated: one gather per tensor instead of a view per sample."""
        return [_take(t.detach(), indices) for t in self.tensors]


def _take(t: Any, indices: Sequence[int]) -> Any:
    if t.device.is_host and t.dtype != _C.bfloat16:
        return _C.from_numpy(t.numpy()[list(indices)])
    return _C.stack([t[i] for i in indices])


class Subset(Dataset):
    """The samples of ``dataset`` at ``indices``."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """One data set after the other."""

    def __init__(self, datasets: Any) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be an empty iterable")
        self.cumulative_sizes: list[int] = []
        for d in self.datasets:
            self.cumulative_sizes.append(len(d) + (self.cumulative_sizes[-1] if self.cumulative_sizes else 0))

    def __getitem__(self, index: int) -> Any:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"[ConcatDataset] index: got {index}, expected one of {n} samples")
        index %= n
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Disjoint random subsets: ``lengths`` are counts that sum to the size, or fractions that sum to 1 (what is over goes round)."""
    n = len(dataset)
    if all(isinstance(x, float) for x in lengths) and abs(sum(lengths) - 1) < 1e-9:
        counts = [int(n * x) for x in lengths]
        for i in range(n - sum(counts)):
            counts[i % len(counts)] += 1
    else:
        counts = [int(x) for x in lengths]
    if sum(counts) != n or any(c < 0 for c in counts):
        raise ValueError(
            f"[random_split] lengths: got {list(lengths)}: Sum of input lengths does not equal the length of the input dataset, {n}"
        )
    order = _composites.randperm(n, generator=generator).tolist()
    subsets, at = [], 0
    for c in counts:
        subsets.append(Subset(dataset, order[at : at + c]))
        at += c
    return subsets
