"""Trains a small CNN on scikit-learn's 8×8 digits on any device, then saves, reloads and predicts.

    python examples/digits.py [--device NAME] [--epochs N] [--seed N] [--out FOLDER] [--json]

The device is --device, else the variable DEVICE, else the HOST device. Every number comes from the seed and from fixed-order arithmetic,
so the loss curve is the same, bit for bit, on every device and machine. Writes loss.png and model.safetensors to FOLDER.
Exit code 1: the test accuracy is below 97 %, or the reloaded model's logits differ in a bit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import hal
import oneflow_mini as flow
from oneflow_mini import nn
from oneflow_mini.utils.data import DataLoader, TensorDataset

TARGET = 0.97  # test accuracy
TEST_SIZE = 360  # of 1797 images


def build_model() -> nn.Module:
    """1×8×8 → 16×8×8 → 32×8×8 → pool 32×4×4 → 64 → 10 logits; dropout, because 1437 images are few."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(64, 10),
    )


def load_data() -> tuple[Any, Any, Any, Any]:
    """Training images and labels, test images and labels: (n, 1, 8, 8) f32 in [0, 1], (n,) int64, on the HOST device."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = flow.randperm(len(digits.target)).tolist()
    images = (digits.images[order] / 16.0).astype("float32")[:, None]
    labels = digits.target[order].astype("int64")
    return (
        flow.tensor(images[TEST_SIZE:]),
        flow.tensor(labels[TEST_SIZE:]),
        flow.tensor(images[:TEST_SIZE]),
        flow.tensor(labels[:TEST_SIZE]),
    )


def train(model: nn.Module, images: Any, labels: Any, device: Any, epochs: int, report: Any) -> list[float]:
    """Adam with a cosine schedule; calls report(epoch, mean loss) after each epoch. Returns the loss of every step."""
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
    loss_function = nn.CrossEntropyLoss()
    optimizer = flow.optim.Adam(model.parameters(), lr=3e-3)
    schedule = flow.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    losses: list[float] = []
    for epoch in range(epochs):
        model.train()
        first = len(losses)
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_function(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        report(epoch, sum(losses[first:]) / (len(losses) - first))
    return losses


@flow.no_grad()
def predict(model: nn.Module, images: Any, device: Any) -> Any:
    """Logits, on the HOST device."""
    model.eval()
    return model(images.to(device)).cpu()


def plot(losses: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(losses, linewidth=1)
    axes.set(xlabel="step", ylabel="training loss", yscale="log", title="CNN on the digits")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains, saves, reloads; the results as a dict."""
    device = flow.device(arguments.device)
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    flow.manual_seed(arguments.seed)
    images, labels, test_images, test_labels = load_data()
    model = build_model().to(device)
    started = time.perf_counter()
    if arguments.json:
        losses = train(model, images, labels, device, arguments.epochs, lambda epoch, loss: None)
    else:
        losses = train_with_progress(model, images, labels, device, arguments.epochs)
    seconds = time.perf_counter() - started
    logits = predict(model, test_images, device)
    accuracy = (logits.argmax(1) == test_labels).sum().item() / len(test_labels)

    plot(losses, folder / "loss.png")
    flow.save(model.state_dict(), folder / "model.safetensors")
    fresh = build_model().to(device)
    fresh.load_state_dict(flow.load(folder / "model.safetensors"))
    again = predict(fresh, test_images, device)
    return {
        "device": device.name,
        "epochs": arguments.epochs,
        "seed": arguments.seed,
        "seconds": round(seconds, 3),
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "losses_hex": [float(v).hex() for v in (losses[0], losses[len(losses) // 2], losses[-1])],
        "test_accuracy": accuracy,
        "reloaded_logits_equal": logits.numpy().tobytes() == again.numpy().tobytes(),
        "predictions": again[:10].argmax(1).tolist(),
        "labels": test_labels[:10].tolist(),
        "files": [str(folder / "loss.png"), str(folder / "model.safetensors")],
    }


def train_with_progress(model: nn.Module, images: Any, labels: Any, device: Any, epochs: int) -> list[float]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("training on " + device.name), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.4f}"))
    with Progress(*columns, TimeRemainingColumn()) as progress:
        task = progress.add_task("train", total=epochs, loss=float("nan"))
        return train(model, images, labels, device, epochs, lambda epoch, loss: progress.update(task, advance=1, loss=loss))


def show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="CNN on scikit-learn's digits", show_header=False)
    table.add_row("device", result["device"])
    table.add_row("training time", f"{result['seconds']:.1f} s, {result['epochs']} epochs")
    table.add_row("loss, first → last step", f"{result['first_loss']:.4f} → {result['last_loss']:.4f}")
    table.add_row("test accuracy", f"{result['test_accuracy']:.2%} of {TEST_SIZE} images (target {TARGET:.0%})")
    table.add_row("reloaded model", "same logits, bit for bit" if result["reloaded_logits_equal"] else "logits DIFFER")
    table.add_row("predicted / true", f"{result['predictions']} / {result['labels']}")
    table.add_row("written", ", ".join(result["files"]))
    Console().print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--device", default=os.environ.get("DEVICE") or hal.host_device().name, help="device name (default: $DEVICE, else the HOST device)"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default=".", help="folder for loss.png and model.safetensors (default: the current one)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, without progress bar")
    arguments = parser.parse_args()
    try:
        flow.device(arguments.device)
    except ValueError as error:
        parser.error(str(error))
    result = run(arguments)
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    if result["test_accuracy"] < TARGET and arguments.epochs >= parser.get_default("epochs"):  # a shorter run proves nothing
        print(f"test accuracy {result['test_accuracy']:.2%} is below {TARGET:.0%}", file=sys.stderr)
        return 1
    if not result["reloaded_logits_equal"]:
        print("the reloaded model's logits differ from the trained model's", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
