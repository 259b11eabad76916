"""Schedules that go up and down: cycles, one cycle, and cosines that start again."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from types import FunctionType
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ...errors import located
from ..optimizer import Optimizer
from .base import LRScheduler


class _WithMomentum(LRScheduler):
    """A schedule that moves momentum against the learning rate: `momentum`, or the first of `betas`."""

    cycle_momentum: bool

    def _start_momentum(self, optimizer: Optimizer, base: Any, most: Any, last_epoch: int) -> None:
        """Note the range of momentum in the parameter groups, and start at its upper end."""
        self.optimizer = optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise located(
                ArgumentError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lows, highs = self._for_groups("base_momentum", base), self._for_groups("max_momentum", most)
        self.base_momentums, self.max_momentums = lows, highs
        if last_epoch == -1:
            self._set_momentums(highs)
            for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                group["max_momentum"], group["base_momentum"] = high, low

    def _set_momentums(self, values: list[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            if self.use_beta1:
                group["betas"] = (value, *group["betas"][1:])
            else:
                group["momentum"] = value


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise located(ArgumentTypeError(f"{type(optimizer).__name__} is not an Optimizer"))


class CyclicLR(_WithMomentum):
    """Up from `base_lr` to `max_lr` in `step_size_up` steps and down again in `step_size_down`, over and over.

    `mode` scales the height: `"triangular"` keeps it, `"triangular2"` halves it each cycle, `"exp_range"` multiplies by
    `gamma` at each step; or `scale_fn`, of the cycle or the iteration as `scale_mode` says. Momentum goes the other way
    (Smith 2017, arXiv:1506.01186).
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: Any = 0.8, max_momentum: Any = 0.9, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = self._for_groups("base_lr", base_lr)
        if last_epoch == -1:
            self._set(base_lrs)
        self.max_lrs = self._for_groups("max_lr", max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise located(ArgumentError("mode is invalid and scale_fn is None"))
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of cycle or iteration `x`, relative to the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        """The learning rates of step `last_epoch`; momentum is set too."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            pairs = zip(self.base_momentums, self.max_momentums, strict=True)
            self._set_momentums([most - (most - base) * height for base, most in pairs])
        return [base + (most - base) * height for base, most in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, and `scale_fn` if it is a function."""
        state = super().state_dict()
        custom = state["_scale_fn_custom"]
        is_function = custom is None or isinstance(custom, FunctionType)
        return {**state, "_scale_fn_custom": None if is_function else dict(custom.__dict__)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave; a `scale_fn` that is a function stays."""
        custom = self._scale_fn_custom
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if custom is not None and state_dict["_scale_fn_custom"] is not None:
            custom.__dict__.update(state_dict["_scale_fn_custom"])


class OneCycleLR(_WithMomentum):
    """Up to `max_lr` in the first `pct_start` of all steps, then down to almost nothing (Smith and Topin 2019).

    It starts at `max_lr / div_factor` and ends at that over `final_div_factor`; momentum goes the other way.
    `three_phase` first goes back as far as it came up, then down. The number of steps is `total_steps`, or
    `epochs * steps_per_epoch`; one step too many raises `ValueError`.

    >>> import jitgrad as jg
    >>> optimizer = jg.optim.SGD([jg.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> scheduler = jg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10, pct_start=0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
    ...     scheduler.step()
    >>> rates
    [0.04, 0.181, 0.52, 0.859, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _number_of_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise located(ArgumentError(f"Expected float between 0 and 1 pct_start, but got {pct_start}"))
        if anneal_strategy not in ("cos", "linear"):
            raise located(
                ArgumentError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
            )
        self._anneal_func_type = anneal_strategy
        self._phases = self._plan(pct_start, three_phase)
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, self._for_groups("max_lr", max_lr), strict=True):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _plan(self, pct_start: float, three_phase: bool) -> list[tuple[float, str, str, str, str]]:
        """Phases: the last step, and from and to which rate and momentum."""
        up = float(pct_start * self.total_steps) - 1
        low, high = "base_momentum", "max_momentum"
        first = (up, "initial_lr", "max_lr", high, low)
        if not three_phase:
            return [first, (self.total_steps - 1, "max_lr", "min_lr", low, high)]
        down = float(2 * pct_start * self.total_steps) - 2
        last = (self.total_steps - 1, "initial_lr", "min_lr", high, high)
        return [first, (down, "max_lr", "initial_lr", low, high), last]

    def get_lr(self) -> list[Any]:
        """The learning rates of step `last_epoch`; momentum is set too."""
        if self.last_epoch > self.total_steps:
            raise located(
                ArgumentError(
                    f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
                )
            )
        ends = [phase[0] for phase in self._phases]
        at = min(bisect_left(ends, self.last_epoch), len(ends) - 1)
        end, *names = self._phases[at]
        start = ends[at - 1] if at else 0.0
        share = (self.last_epoch - start) / (end - start)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            self._set_momentums([self._anneal(g[names[2]], g[names[3]], share) for g in groups])
        return [self._anneal(g[names[0]], g[names[1]], share) for g in groups]

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _number_of_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise located(ArgumentError("You must define either total_steps OR (epochs AND steps_per_epoch)"))
    if total_steps is not None:
        names = {"total_steps": total_steps}
    else:
        names = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, value in names.items():
        if not isinstance(value, int) or value <= 0:
            raise located(ArgumentError(f"Expected positive integer {name}, but got {value}"))
    return math.prod(names.values())


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min` in `T_0` epochs, then again, each time `T_mult` times as long.

    After Loshchilov and Hutter 2017 (arXiv:1608.03983). `step` also takes a fraction of an epoch.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise located(ArgumentError(f"Expected positive integer T_0, but got {T_0}"))
        if not isinstance(T_mult, int) or T_mult < 1:
            raise located(ArgumentError(f"Expected integer T_mult >= 1, but got {T_mult}"))
        if not isinstance(eta_min, (float, int)):
            raise located(ArgumentError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"))
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rates now."""
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Go to the next epoch, or to `epoch`, which may be a fraction."""
        self._step_count += 1
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise located(ArgumentError(f"Expected non-negative epoch, but got {epoch}"))
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def _jump(self, epoch: float) -> None:
        """Find where `epoch` is in its cycle."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
