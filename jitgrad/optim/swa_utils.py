"""Averages of a model's weights over training: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError

from ..autograd.grad_mode import no_grad
from ..creation import tensor
from ..errors import located
from ..nn.batchnorm import _BatchNorm
from ..nn.module import Module
from .optimizer import Optimizer
from .schedules.base import LRScheduler

Average = Callable[[Any, Any, Any], Any]
MultiAverage = Callable[[list[Any], list[Any], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average: `decay * average + (1 - decay) * current`, for one tensor."""
    if decay < 0.0 or decay > 1.0:
        raise located(ArgumentError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."))

    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """The mean of all weights so far, for one tensor."""

    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """The exponential moving average of a list of tensors, in place."""
    return _for_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """The mean of all weights so far of a list of tensors, in place."""
    return _for_lists(get_swa_avg_fn())


def _for_lists(average: Average) -> MultiAverage:
    def update(averaged: list[Any], current: list[Any], num_averaged: Any) -> None:
        with no_grad():
            for mine, now in zip(averaged, current, strict=True):
                mine.copy_(average(mine, now, num_averaged))

    return update


class AveragedModel(Module):
    """A copy of `model` whose weights are averages of it, taken at each `update_parameters`.

    The default is the mean (stochastic weight averaging, Izmailov et al. 2018, arXiv:1803.05407); `avg_fn` or
    `multi_avg_fn` gives another, as `get_ema_multi_avg_fn` does. With `use_buffers` buffers are averaged, else copied.

    >>> import jitgrad as jg
    >>> model = jg.nn.Linear(1, 1, bias=False)
    >>> averaged = jg.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = jg.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0
    """

    n_averaged: Any

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise located(ArgumentError("Only one of avg_fn and multi_avg_fn should be provided"))
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Average the weights of `model` in."""
        with no_grad():
            mine, theirs = self._tensors(self.module), [t.detach() for t in self._tensors(model)]
            theirs = [b.to(a.device) for a, b in zip(mine, theirs, strict=True)]
            if int(self.n_averaged) == 0:
                for a, b in zip(mine, theirs, strict=True):
                    a.copy_(b)
            elif self.avg_fn is not None:
                for a, b in zip(mine, theirs, strict=True):
                    a.copy_(self.avg_fn(a, b, self.n_averaged))
            else:
                (self.multi_avg_fn or get_swa_multi_avg_fn())(mine, theirs, self.n_averaged)
            if not self.use_buffers:
                for a, b in zip(self.module.buffers(), model.buffers(), strict=True):
                    a.copy_(b.detach().to(a.device))
            self.n_averaged += 1

    def _tensors(self, model: Module) -> list[Any]:
        found = itertools.chain(model.parameters(), model.buffers() if self.use_buffers else ())
        return [t.detach() for t in found]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of batch normalisation anew, from all batches of `loader`.

    A batch is the input, or a tuple or list that starts with it.
    """
    norms = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not norms:
        return
    was_training = model.training
    model.train()
    with no_grad():
        for m in norms:
            m.reset_running_stats()
            m.momentum = None
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    for m, momentum in norms.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Go to the rate `swa_lr` within `anneal_epochs`, along a cosine or a line, and stay there."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = optimizer
        for group, rate in zip(optimizer.param_groups, self._for_groups("swa_lr", swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise located(
                ArgumentError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise located(ArgumentError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"))
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """How far to go at share `t` of the time."""
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[Any]:
        """The learning rates now."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (self.anneal_func(max(0.0, min(1.0, s / max(1, self.anneal_epochs)))) for s in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
