"""Adagrad, Adadelta and RMSprop: steps scaled by the size of past gradients."""

from __future__ import annotations

from typing import Any

from ..creation import full
from ..tensor import Tensor
from .by_parameter import ByParameter, check_options, no_steps, require, zeros_of
from .optimizer import Params
from .update import advance, assign, move, scalar


class Adagrad(ByParameter):
    """Divides by the root of the sum of all squared gradients (Duchi, Hazan and Singer 2011).

    >>> import jitgrad as jg
    >>> w = jg.tensor([1.0], requires_grad=True)
    >>> optimizer = jg.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _numbers = frozenset({"lr", "lr_decay", "eps", "weight_decay"})

    def __init__(
        self, params: Params, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_options(lr, (), eps, weight_decay)
        require(lr_decay >= 0.0, "lr_decay value", lr_decay)
        require(initial_accumulator_value >= 0.0, "initial_accumulator_value value", initial_accumulator_value)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:  # as in PyTorch, the sums are there before the first step
            for p in group["params"]:
                self._state_of(p, group)

    def share_memory(self) -> None:
        """Nothing to do: state lives where every thread sees it."""

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = full(tuple(p.shape), group["initial_accumulator_value"], dtype=p.dtype, device=p.device)
        return {"step": no_steps(), "sum": start}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        step = advance(state["step"])
        grad = self.decayed(p, grad, group, numbers)
        assign(state["sum"], state["sum"] + grad * grad)
        size = numbers["lr"] / (1 + (step - 1) * numbers["lr_decay"])
        assign(p, p - grad / (state["sum"].sqrt() + scalar(numbers["eps"], p)) * scalar(size, p))


class Adadelta(ByParameter):
    """Divides by the running size of gradients, multiplies by that of its own steps (Zeiler 2012, arXiv:1212.5701)."""

    _numbers = frozenset({"lr", "rho", "eps", "weight_decay"})

    def __init__(
        self, params: Params, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr, (), eps, weight_decay)
        require(0.0 <= rho <= 1.0, "rho value", rho)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": no_steps(), "square_avg": zeros_of(p), "acc_delta": zeros_of(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        advance(state["step"])
        grad = self.decayed(p, grad, group, numbers)
        rho, eps = scalar(numbers["rho"], p), scalar(numbers["eps"], p)
        gradients, steps = state["square_avg"], state["acc_delta"]
        assign(gradients, gradients * rho + grad * grad * (1 - rho))
        change = (steps + eps).sqrt() / (gradients + eps).sqrt() * grad
        assign(steps, steps * rho + change * change * (1 - rho))
        assign(p, p - change * scalar(numbers["lr"], p))


class RMSprop(ByParameter):
    """Divides by the root of a running mean of squared gradients (Hinton 2012, lecture 6e).

    `centered` subtracts the square of the running mean from it: the variance (Graves 2013, arXiv:1308.0850).
    """

    _numbers = frozenset({"lr", "alpha", "eps", "weight_decay", "momentum"})

    def __init__(
        self, params: Params, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr, (), eps, weight_decay)
        require(momentum >= 0.0, "momentum value", momentum)
        require(alpha >= 0.0, "alpha value", alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": no_steps(), "square_avg": zeros_of(p)}
        if self.is_set(group, "momentum"):
            state["momentum_buffer"] = zeros_of(p)
        if group["centered"]:
            state["grad_avg"] = zeros_of(p)
        return state

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        advance(state["step"])
        grad = self.decayed(p, grad, group, numbers)
        alpha, square = scalar(numbers["alpha"], p), state["square_avg"]
        assign(square, square * alpha + grad * grad * (1 - alpha))
        if group["centered"]:
            mean = state["grad_avg"]
            move(mean, grad, 1 - numbers["alpha"])
            square = square - mean * mean
        change = grad / (square.sqrt() + scalar(numbers["eps"], p))
        if self.is_set(group, "momentum"):
            buffer = state["momentum_buffer"]
            assign(buffer, buffer * scalar(numbers["momentum"], p) + change)
            change = buffer
        assign(p, p - change * scalar(numbers["lr"], p))
