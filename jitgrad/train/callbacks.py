"""Callbacks: what is done at the turns of a training beside the training itself."""

from __future__ import annotations

import copy
import math
import os
from typing import TYPE_CHECKING, Any

from jitgrad.ir.errors import ArgumentError

from ..errors import located
from .durable import save_durably

if TYPE_CHECKING:
    from .trainer import Trainer


class Callback:
    """Base class. Methods do nothing; subclasses define those they need.

    What `state_dict` gives is part of checkpoints, so that a resumed training goes on as if it had not stopped.

    >>> class PrintLoss(Callback):
    ...     def on_epoch_end(self, trainer, values):
    ...         print(f"epoch {trainer.epoch}: {values['loss']:.3f}")
    """

    def on_start(self, trainer: Trainer) -> None:
        """`fit` begins, or goes on after a checkpoint."""

    def on_epoch_start(self, trainer: Trainer, total: int | None) -> None:
        """An epoch begins, or goes on after `trainer.batch` of its `total` batches (None if nobody knows)."""

    def on_step_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Step `trainer.step` is done; `values` is its row of `trainer.history.steps`."""

    def on_epoch_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Epoch `trainer.epoch` and its validation are done; `values` is its row of `trainer.history.epochs`."""

    def on_end(self, trainer: Trainer) -> None:
        """`fit` ends, by an exception too."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training needs: containers of tensors, arrays, numbers and strings."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""


class Best:
    """The best value of a quantity so far.

    Args:
        monitor: its name in the rows of epochs.
        mode: `"min"` or `"max"`; for `"auto"`, names that end with `loss` are to be small, others large.
        min_delta: by how much another value must be better to count.
    """

    def __init__(self, monitor: str, mode: str = "auto", min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise located(ArgumentError(f"mode is one of 'auto', 'min' and 'max', not {mode!r}"))
        self.monitor = monitor
        self.min_delta = min_delta
        self._sign = 1 if mode == "min" or (mode == "auto" and monitor.endswith("loss")) else -1
        self.value: float | None = None

    def improves(self, values: dict[str, float]) -> bool:
        """Whether these values are better than all before; then they are the best. A NaN never is."""
        if self.monitor not in values:
            raise located(ArgumentError(f"there is no {self.monitor!r} among {', '.join(values)}"))
        value = values[self.monitor]
        before = math.inf if self.value is None else self._sign * self.value
        if not self._sign * value < before - (0.0 if self.value is None else self.min_delta):
            return False
        self.value = value
        return True


class EarlyStopping(Callback):
    """Stop when a quantity has not improved for `patience` epochs.

    Args:
        monitor, mode, min_delta: see `Best`; the validation's loss by default.
        patience: epochs without improvement after which the training stops.
        restore_best: then give the model the weights of the best epoch.
    """

    def __init__(
        self, monitor: str = "val_loss", patience: int = 3, *, mode: str = "auto", min_delta: float = 0.0,
        restore_best: bool = False,
    ) -> None:  # fmt: skip
        self.best = Best(monitor, mode, min_delta)
        self.patience = patience
        self.restore_best = restore_best
        self._epochs_without = 0
        self._weights: dict[str, Any] | None = None

    def on_epoch_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Count the epochs without improvement."""
        if self.best.improves(values):
            self._epochs_without = 0
            if self.restore_best:
                self._weights = copy.deepcopy(dict(trainer.model.state_dict()))
            return
        self._epochs_without += 1
        if self._epochs_without >= self.patience:
            trainer.stop()
            if self._weights is not None:
                trainer.model.load_state_dict(self._weights)

    def state_dict(self) -> dict[str, Any]:
        """The best value, its weights, and how long ago it was."""
        return {"best": self.best.value, "epochs_without": self._epochs_without, "weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.best.value = state["best"]
        self._epochs_without, self._weights = state["epochs_without"], state["weights"]


class SaveBest(Callback):
    """Save the model's `state_dict` to a file whenever a quantity is better than in all epochs before.

    `monitor` and `mode` are as in `Best`. The file is whole at any moment; `jitgrad.load` reads it.
    """

    def __init__(self, path: str | os.PathLike[str], monitor: str = "val_loss", mode: str = "auto") -> None:
        self.path = path
        self.best = Best(monitor, mode)

    def on_epoch_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Save if the epoch is the best."""
        if self.best.improves(values):
            save_durably(dict(trainer.model.state_dict()), self.path)

    def state_dict(self) -> dict[str, Any]:
        """The best value."""
        return {"best": self.best.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.best.value = state["best"]
