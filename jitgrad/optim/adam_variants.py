"""Adamax, NAdam and RAdam: Adam with another denominator, with Nesterov's momentum, and with a warm-up of its own."""

from __future__ import annotations

from typing import Any

from jitgrad.ir import dtypes

from ..creation import ones
from ..functions.comparison import where
from ..tensor import Tensor
from .by_parameter import ByParameter, check_options, moments, no_steps, require, zeros_of
from .optimizer import Params
from .update import advance, assign, move, scalar, value_of


class Adamax(ByParameter):
    """Adam with the largest of the decayed gradients in the denominator (Kingma and Ba 2015, section 7.1).

    >>> import jitgrad as jg
    >>> w = jg.tensor([1.0], requires_grad=True)
    >>> optimizer = jg.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _numbers = frozenset({"lr", "betas", "eps", "weight_decay"})

    def __init__(
        self, params: Params, lr: Any = 2e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": no_steps(), "exp_avg": zeros_of(p), "exp_inf": zeros_of(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        step, (beta1, beta2) = advance(state["step"]), numbers["betas"]
        grad = self.decayed(p, grad, group, numbers)
        mean, largest = state["exp_avg"], state["exp_inf"]
        move(mean, grad, 1 - beta1)
        assign(largest, (largest * scalar(beta2, p)).maximum(grad.abs() + scalar(numbers["eps"], p)))
        assign(p, p - mean / largest * scalar(numbers["lr"] / (1 - beta1**step), p))


class NAdam(ByParameter):
    """Adam with Nesterov's momentum, on a schedule (Dozat 2016, "Incorporating Nesterov Momentum into Adam")."""

    _numbers = frozenset({"lr", "betas", "eps", "weight_decay", "momentum_decay"})
    shared_state = frozenset({"step", "mu_product"})

    def __init__(
        self, params: Params, lr: Any = 2e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr, betas, eps, weight_decay)
        require(momentum_decay >= 0.0, "momentum_decay value", momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        product = ones((), dtype=dtypes.float32)
        return {"step": no_steps(), "mu_product": product, "exp_avg": zeros_of(p), "exp_avg_sq": zeros_of(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        step, (beta1, beta2), lr = advance(state["step"]), numbers["betas"], numbers["lr"]
        grad = self.decayed(p, grad, group, numbers)
        now, then = (beta1 * (1 - 0.5 * 0.96 ** (n * numbers["momentum_decay"])) for n in (step, step + 1))
        assign(state["mu_product"], state["mu_product"] * scalar(now, state["mu_product"]))
        product = value_of(state["mu_product"])
        mean, square = moments(state, grad, beta1, beta2)
        root = (square / scalar(1 - beta2**step, p)).sqrt() + scalar(numbers["eps"], p)
        kept = grad / root * scalar(lr * (1 - now) / (1 - product), p)
        assign(p, p - kept - mean / root * scalar(lr * then / (1 - product * then), p))


class RAdam(ByParameter):
    """Adam that steps along the mean gradient alone until its variance is tractable.

    After Liu et al. 2020 (arXiv:1908.03265).
    """

    _numbers = frozenset({"lr", "betas", "eps", "weight_decay"})

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": no_steps(), "exp_avg": zeros_of(p), "exp_avg_sq": zeros_of(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        step, (beta1, beta2) = advance(state["step"]), numbers["betas"]
        grad = self.decayed(p, grad, group, numbers)
        mean, square = moments(state, grad, beta1, beta2)
        correction = 1 - beta2**step
        last = 2 / (1 - beta2) - 1
        length = last - 2 * step * beta2**step / correction  # of the moving average that approximates the mean
        plain = mean * scalar(numbers["lr"] / (1 - beta1**step), p)

        def rectified() -> Any:
            share = (length - 4) * (length - 2) * last / ((last - 4) * (last - 2) * length)
            return plain * scalar((share * correction) ** 0.5, p) / (square.sqrt() + scalar(numbers["eps"], p))

        if isinstance(length, Tensor):
            change = where(length > 5.0, rectified(), plain)  # type: ignore[operator]
        else:
            change = rectified() if length > 5.0 else plain
        assign(p, p - change)
