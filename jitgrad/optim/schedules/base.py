"""`LRScheduler`: what all schedules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ...errors import located
from ...tensor import Tensor
from ..optimizer import Optimizer


class LRScheduler:
    """Base class: `get_lr` gives the learning rates of epoch `last_epoch`, one for each parameter group."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise located(ArgumentTypeError(f"{type(optimizer).__name__} is not an Optimizer"))
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0."
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[Any] = []
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The learning rates of epoch `last_epoch`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[Any]:
        """The learning rates set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch (or to `epoch`) and set its learning rates."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = getattr(self, "_get_closed_form_lr", None)
        self._set(closed() if epoch is not None and closed is not None else self.get_lr())

    def _set(self, values: Sequence[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)  # type: ignore[attr-defined]
            else:
                group["lr"] = value
        self._last_lr = self._current()

    def _for_groups(self, name: str, given: Any) -> list[Any]:
        """A value for each parameter group."""
        count = len(self.optimizer.param_groups)
        if not isinstance(given, (list, tuple)):
            return [given] * count
        if len(given) != count:
            raise located(
                ArgumentError(f"{name} must have the same length as optimizer.param_groups, {count}, not {len(given)}")
            )
        return list(given)

    def _current(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _times(self, factor: float) -> list[Any]:
        return [lr * factor for lr in self._current()]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_is_initial")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.__dict__.update(state_dict)
