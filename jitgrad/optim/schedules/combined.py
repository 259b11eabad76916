"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ...errors import located
from ..optimizer import Optimizer
from .base import LRScheduler
from .plateau import ReduceLROnPlateau


class _Combined(LRScheduler):
    """A schedule that keeps others."""

    _schedulers: list[Any]

    def _check(self, optimizer: Optimizer | None, schedulers: Sequence[Any]) -> None:
        own = type(self).__name__
        if len(schedulers) < 1:
            raise located(ArgumentError(f"{own} expects at least one scheduler, but got no scheduler."))
        for i, s in enumerate(schedulers):
            if not hasattr(s, "optimizer"):
                raise located(ArgumentTypeError(f"{own} at index {i} should have `optimizer` as its attribute."))
            if isinstance(s, ReduceLROnPlateau):
                raise located(
                    ArgumentError(
                        f"{own} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                        f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                    )
                )
            if (schedulers[0].optimizer if optimizer is None else optimizer) is not s.optimizer:
                raise located(
                    ArgumentError(
                        f"{own} expects all schedulers to belong to the same optimizer, but got scheduler "
                        f"{type(s).__name__} at index {i} with another one."
                    )
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the states of the schedules."""
        state = {k: v for k, v in super().state_dict().items() if k != "_schedulers"}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for s, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            s.load_state_dict(state)


class SequentialLR(_Combined):
    """`schedulers[k]` from epoch `milestones[k - 1]` on.

    >>> import jitgrad as jg
    >>> optimizer = jg.optim.SGD([jg.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = jg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> decay = jg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = jg.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(optimizer.param_groups[0]["lr"])
    ...     scheduler.step()
    >>> rates
    [0.1, 0.1, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise located(
                ArgumentError(
                    "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                    f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to "
                    f"be equal to {len(milestones)}"
                )
            )
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        self._set([group["initial_lr"] for group in optimizer.param_groups])
        for s in _all_within(self._schedulers):  # each has set the rates of its first epoch already: take that back
            s.last_epoch -= 1
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set its learning rates."""
        self.last_epoch += 1
        at = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _all_within(schedulers: Sequence[Any]) -> Iterator[Any]:
    """The schedules that are not made of others."""
    for s in schedulers:
        if isinstance(s, _Combined):
            yield from _all_within(s._schedulers)
        else:
            yield s


class ChainedScheduler(_Combined):
    """All `schedulers` step at each epoch, one on top of the other."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._check(optimizer, schedulers)
        self._schedulers = list(schedulers)
        self.optimizer = optimizer or schedulers[0].optimizer
        self._last_lr = self._current()

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set its learning rates."""
        for s in self._schedulers:
            s.step()
        self._last_lr = self._current()
