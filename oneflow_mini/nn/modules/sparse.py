"""Embedding."""

from __future__ import annotations

from typing import Any

from ... import _C
from .. import functional, init
from ..parameter import Parameter
from .module import Module


class Embedding(Module):
    """Rows of a table: int64 indices (…) → (…, embedding_dim).

    Initial values: N(0, 1); the row ``padding_idx`` is 0 and gets no gradient.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        functional._refuse_embedding_options(max_norm, scale_grad_by_freq, sparse)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = functional._padding_row(num_embeddings, padding_idx)
        if _weight is None:
            self.weight = Parameter(_C.empty(num_embeddings, embedding_dim, dtype=dtype, device=device), requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise ValueError(f"[Embedding] weight: got shape {tuple(_weight.shape)}, expected ({num_embeddings}, {embedding_dim})")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None, **options: Any) -> Embedding:
        """An Embedding of a given (rows, columns) table; frozen unless ``freeze=False``."""
        if embeddings.ndim != 2:
            raise ValueError(f"[Embedding] embeddings: got shape {tuple(embeddings.shape)}, expected 2 dimensions")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, **options, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Any) -> Any:
        return functional.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
