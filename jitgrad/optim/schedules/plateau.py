"""A schedule that follows a metric."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from ...errors import located
from ..optimizer import Optimizer
from .base import LRScheduler


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when the metric given to `step` has not improved for more than `patience` epochs.

    `mode` says whether smaller (`"min"`) or larger (`"max"`) is better; an improvement is by more than `threshold`,
    relative (`"rel"`) or absolute (`"abs"`). After a change, `cooldown` epochs are not counted. Rates don't go below
    `min_lr`; changes smaller than `eps` are not made.

    >>> import jitgrad as jg
    >>> optimizer = jg.optim.SGD([jg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = jg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in [3.0, 2.0, 2.0, 2.0]:
    ...     scheduler.step(loss)
    >>> optimizer.param_groups[0]["lr"]
    0.1
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise located(ArgumentError("Factor should be < 1.0."))
        if not isinstance(optimizer, Optimizer):
            raise located(ArgumentTypeError(f"{type(optimizer).__name__} is not an Optimizer"))
        if mode not in ("min", "max"):
            raise located(ArgumentError(f"mode {mode} is unknown!"))
        if threshold_mode not in ("rel", "abs"):
            raise located(ArgumentError(f"threshold mode {threshold_mode} is unknown!"))
        self.factor = factor
        self.optimizer = optimizer
        many = isinstance(min_lr, (list, tuple))
        if many and len(min_lr) != len(optimizer.param_groups):
            raise located(ArgumentError(f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}"))
        self.default_min_lr = None if many else min_lr
        self.min_lrs = list(min_lr) if many else [min_lr] * len(optimizer.param_groups)
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = self._current()
        self._reset()

    def _reset(self) -> None:
        """Forget what was seen."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Go to the next epoch; `metrics` is what is watched, a number or a tensor of one."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._current()

    @property
    def in_cooldown(self) -> bool:
        """Whether the rates have changed a short while ago."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = 1.0 if self.mode == "min" else -1.0
        if self.threshold_mode == "rel":
            return sign * a < sign * (best * (1.0 - sign * self.threshold))
        return sign * a < sign * (best - sign * self.threshold)

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise located(
                    OperationError(
                        f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                        f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                        "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                        "`optimizer` param groups."
                    )
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        old = [float(lr) for lr in self._current()]
        new = [max(lr * self.factor, least) for lr, least in zip(old, self.min_lrs, strict=True)]
        self._set([b if a - b > self.eps else a for a, b in zip(old, new, strict=True)])
