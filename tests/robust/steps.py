"""A small training step that the robustness tests repeat: an MLP with dropout and batch norm, cross entropy, an optimizer."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import oneflow_mini as flow
from oneflow_mini import nn
from oneflow_mini.nn import functional as F


def optimizer_of(name: str, parameters: Any) -> Any:
    if name == "sgd":
        return flow.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)
    return {"adam": flow.optim.Adam, "adamw": flow.optim.AdamW}[name](parameters, lr=0.01)


class Training:
    """Everything a step reads and writes, so that it can be put back to where a step began."""

    def __init__(self, device: str, optimizer: str = "adam") -> None:
        flow.manual_seed(7)
        self.model = nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 5), nn.GELU(), nn.Linear(5, 3)
        )
        self.model = self.model.to(device)
        self.optimizer = optimizer_of(optimizer, self.model.parameters())
        r = np.random.default_rng(3)
        self.x = flow.tensor(r.standard_normal((32, 6)).astype(np.float32), device=device)
        self.y = flow.tensor(r.integers(0, 3, 32), device=device)

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def bits(self) -> str:
        digest = hashlib.sha256()
        for value in self.model.state_dict().values():
            digest.update(value.cpu().numpy().tobytes())
        for state in self.optimizer.state_dict()["state"].values():
            for value in state.values():
                digest.update(value.cpu().numpy().tobytes() if isinstance(value, flow.Tensor) else repr(value).encode())
        return digest.hexdigest()
