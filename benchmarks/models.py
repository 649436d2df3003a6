"""ResNet-50, a small GPT and a perceptron, written once for PyTorch and oneflow_mini: one training step each.

A step is zero_grad, forward, backward, SGD with momentum and reading the loss. Weights come from one numpy generator, so both start equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def resnet50(F, classes: int = 1000):
    """K. He et al., "Deep Residual Learning for Image Recognition", 2016; the stride lies on the 3×3 convolution."""
    nn = F.nn

    class Bottleneck(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            self.branch = nn.Sequential(
                nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
            )  # fmt: skip
            self.shortcut = nn.Identity()
            if stride != 1 or channels != 4 * width:
                self.shortcut = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * width))
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(self.branch(x) + self.shortcut(x))

    layers = [nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(channels, classes))


def gpt(F, vocabulary: int = 512, width: int = 256, heads: int = 4, layers: int = 4, context: int = 128):
    """A decoder of pre-norm blocks (A. Radford et al., 2019), attention written out."""
    nn = F.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x, mask):
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            scores = F.matmul(q, k.transpose(-2, -1)) * (width // heads) ** -0.5
            weights = F.softmax(scores.masked_fill(mask, -1e9), dim=-1)
            x = x + self.out(F.matmul(weights, v).permute(0, 2, 1, 3).reshape(batch, length, width))
            return x + self.mlp(self.norm2(x))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, tokens, positions, mask):
            x = self.token(tokens) + self.position(positions)
            for block in self.blocks:
                x = block(x, mask)
            return self.head(self.norm(x)).reshape(-1, vocabulary)

    return Decoder()


def mlp(F):
    nn = F.nn
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def data(name: str) -> tuple[list[np.ndarray], np.ndarray]:
    """The inputs and targets of a model's batch."""
    rng = np.random.default_rng(1)
    if name == "resnet50":
        return [rng.standard_normal((8, 3, 224, 224)).astype(np.float32)], rng.integers(0, 1000, 8)
    if name == "gpt":
        mask = np.triu(np.ones((128, 128), bool), 1)
        return [rng.integers(0, 512, (8, 128)), np.broadcast_to(np.arange(128), (8, 128)).copy(), mask], rng.integers(0, 512, 1024)
    return [rng.standard_normal((64, 64)).astype(np.float32)], rng.integers(0, 10, 64)


def training_step(F, name: str, device) -> Callable[[], float]:
    """One step of the model, giving its loss."""
    rng = np.random.default_rng(0)
    model = {"resnet50": resnet50, "gpt": gpt, "mlp": mlp}[name](F)
    for _, p in model.named_parameters():
        fan = int(np.prod(tuple(p.shape)[1:])) if len(p.shape) > 1 else 0
        p.data.copy_(F.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32) * (fan**-0.5 if fan else 0.02)))
    model = model.to(device)
    inputs, targets = data(name)
    xs, y = [F.tensor(v).to(device) for v in inputs], F.tensor(targets.astype(np.int64)).to(device)
    loss_fn = F.nn.CrossEntropyLoss()
    optimizer = F.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_fn(model(*xs), y)
        loss.backward()
        optimizer.step()
        return float(loss.detach().cpu().numpy())

    return step
