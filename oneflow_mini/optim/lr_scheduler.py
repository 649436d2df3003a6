"""Learning-rate schedules. Rates are f64; cosines and powers come from the shared functions, never from the host's libm."""

from __future__ import annotations

import bisect
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from .. import _C
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LRScheduler", "LambdaLR",
    "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


def cos_pi(x: float) -> float:
    """cos(π·x)."""
    return _C.host_math("cospi", float(x))


class LRScheduler:
    """Sets each group's "lr" at every ``step()``, once per epoch. Subclasses define ``get_lr`` from the rates before the step."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", group["lr"])
        elif any("initial_lr" not in g for g in optimizer.param_groups):
            raise KeyError(f"param 'initial_lr' is not specified in every param group when resuming an optimizer at epoch {last_epoch}")
        self.base_lrs = [g["initial_lr"] for g in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._calls = 0
        self.step()

    def get_lr(self) -> list[float]:
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    @property
    def _current(self) -> list[float]:
        return [g["lr"] for g in self.optimizer.param_groups]

    def step(self) -> None:
        if self._calls == 1 and self.optimizer._steps == 0:
            warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                          "`optimizer.step()` before `lr_scheduler.step()`, or a rate is skipped.", stacklevel=2)  # fmt: skip
        self._calls += 1
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates: Iterable[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=False):
            group["lr"] = lr
        self._last_lr = self._current

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler


class LambdaLR(LRScheduler):
    """initial rate · lr_lambda(epoch); one function, or one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas: list[Callable[[int], float]] = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=False)]

    def state_dict(self) -> dict[str, Any]:
        """Without the functions: they are code, give them again."""
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}


class MultiplicativeLR(LambdaLR):
    """Multiplies the rate by lr_lambda(epoch)."""

    def get_lr(self) -> list[float]:
        return self._current if self.last_epoch == 0 else [lr * f(self.last_epoch) for lr, f in zip(self._current, self.lr_lambdas)]


class StepLR(LRScheduler):
    """Multiplies the rate by gamma every step_size epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"[StepLR] step_size: got {step_size}, expected ≥ 1")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [lr * self.gamma for lr in self._current] if due else self._current


class MultiStepLR(LRScheduler):
    """Multiplies the rate by gamma at each of the milestones."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        rates = self._current
        for _ in range(self.milestones[self.last_epoch]):
            rates = [lr * self.gamma for lr in rates]
        return rates


class ExponentialLR(LRScheduler):
    """Multiplies the rate by gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._current if self.last_epoch == 0 else [lr * self.gamma for lr in self._current]


class ConstantLR(LRScheduler):
    """initial rate · factor for the first total_iters epochs."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._current]
        return [lr / self.factor for lr in self._current] if self.last_epoch == self.total_iters else self._current


class LinearLR(LRScheduler):
    """initial rate · a factor that goes from start_factor to end_factor in total_iters epochs."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        if total_iters < 1:
            raise ValueError(f"[LinearLR] total_iters: got {total_iters}, expected ≥ 1")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        done = min(self.last_epoch, self.total_iters) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (initial − eta_min)·(1 + cos(π·epoch / T_max)) / 2 (Loshchilov & Hutter 2017, without restarts)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ValueError(f"[CosineAnnealingLR] T_max: got {T_max}, expected ≥ 1")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = (1 + cos_pi((self.last_epoch % (2 * self.T_max)) / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts anew after T_0 epochs, then after T_mult times as many each time (Loshchilov & Hutter 2017)."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if value < 1 or not isinstance(value, int):
                raise ValueError(f"[CosineAnnealingWarmRestarts] {name}: got {value}, expected an int ≥ 1")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        into, period = self.last_epoch, self.T_0
        while into >= period:
            if self.T_mult == 1:
                into %= period
            else:
                into, period = into - period, period * self.T_mult
        factor = (1 + cos_pi(into / period)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """initial·(1 − epoch / total_iters)^power, 0 from total_iters on. The power is the shared function's, in f64."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        if total_iters < 1:
            raise ValueError(f"[PolynomialLR] total_iters: got {total_iters}, expected ≥ 1")
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        left = max(0.0, 1.0 - self.last_epoch / self.total_iters)
        factor = left if self.power == 1 else _C.pow(_C.tensor([left], dtype=_C.float64), float(self.power)).item()
        return [base * factor for base in self.base_lrs]


class ChainedScheduler:
    """All schedules in one step, each from the rate that the one before has set."""

    def __init__(self, schedulers: list[Any], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("[ChainedScheduler] schedulers: got none, expected at least one")
        self.optimizer = optimizer or schedulers[0].optimizer
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise ValueError("[ChainedScheduler] schedulers: expected all to belong to one optimizer")
        self._schedulers = list(schedulers)
        self._last_lr = [g["lr"] for g in self.optimizer.param_groups]

    def step(self) -> None:
        for s in self._schedulers:
            s.step()
        self._last_lr = [g["lr"] for g in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        return {"schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for s, state in zip(self._schedulers, state_dict["schedulers"], strict=True):
            s.load_state_dict(state)


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr in pct_start of the steps, then down to initial / final_div_factor. Step it after each batch.

    Momentum isn't cycled: ``cycle_momentum=True`` raises.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos", cycle_momentum: bool = False,
        div_factor: float = 25.0, final_div_factor: float = 1e4, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if cycle_momentum:
            raise NotImplementedError("[OneCycleLR] cycle_momentum=True is not supported")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not 0 <= pct_start <= 1:
            raise ValueError(f"[OneCycleLR] got total_steps={total_steps}, pct_start={pct_start}; expected > 0 and in [0, 1]")
        self.total_steps = total_steps
        self.anneal_strategy = anneal_strategy
        self.peak = float(pct_start * total_steps) - 1
        peaks = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * len(optimizer.param_groups)
        self.rates = [(m / div_factor, m, m / div_factor / final_div_factor) for m in peaks]
        if last_epoch == -1:
            for group, (initial, _, _) in zip(optimizer.param_groups, self.rates, strict=False):
                group["initial_lr"] = initial
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (cos_pi(done) + 1)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step >= self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        if step <= self.peak:
            return [self._between(initial, top, step / self.peak if self.peak else 1.0) for initial, top, _ in self.rates]
        rest = self.total_steps - 1 - self.peak
        return [self._between(top, final, (step - self.peak) / rest) for _, top, final in self.rates]


class SequentialLR(LRScheduler):
    """One schedule after the other: schedules[i] ends at milestones[i]; each starts anew at its epoch 0."""

    def __init__(self, optimizer: Optimizer, schedulers: list[Any], milestones: list[int], last_epoch: int = -1) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"[SequentialLR] milestones: got {len(milestones)}, expected one less than the {len(schedulers)} schedulers")
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("[SequentialLR] schedulers: expected all to belong to the given optimizer")
        self.optimizer = optimizer
        self._schedulers = schedulers
        self.milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self._restart(0)

    def _restart(self, i: int) -> None:
        scheduler = self._schedulers[i]
        self._set(scheduler.base_lrs)
        scheduler.last_epoch = 0
        scheduler._set(scheduler.get_lr())
        self._last_lr = scheduler.get_last_lr()

    def step(self) -> None:
        self.last_epoch += 1
        i = bisect.bisect_right(self.milestones, self.last_epoch)
        if i > 0 and self.milestones[i - 1] == self.last_epoch:
            self._restart(i)
        else:
            self._schedulers[i].step()
            self._last_lr = self._schedulers[i].get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        return {"last_epoch": self.last_epoch, "schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.last_epoch = state_dict["last_epoch"]
        for s, state in zip(self._schedulers, state_dict["schedulers"], strict=False):
            s.load_state_dict(state)


class ReduceLROnPlateau:
    """Multiplies the rate by factor when ``step(metric)`` has brought no improvement for more than ``patience`` calls."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: float = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.threshold, self.threshold_mode = mode, factor, patience, threshold, threshold_mode
        self.cooldown, self.min_lr, self.eps = cooldown, min_lr, eps
        self.best = float("inf") if mode == "min" else float("-inf")
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [g["lr"] for g in optimizer.param_groups]

    def _better(self, value: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * value > sign * self.best * (1 + sign * self.threshold)
        return sign * value > sign * self.best + self.threshold

    def step(self, metrics: Any) -> None:
        value = float(metrics.item() if isinstance(metrics, _C.Tensor) else metrics)
        self.last_epoch += 1
        if self._better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                lowered = max(group["lr"] * self.factor, self.min_lr)
                if group["lr"] - lowered > self.eps:
                    group["lr"] = lowered
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [g["lr"] for g in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)
