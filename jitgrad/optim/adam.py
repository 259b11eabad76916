"""Adam, and AdamW with weight decay apart from the gradient."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .by_parameter import ByParameter, check_options, moments, no_steps, zeros_of
from .optimizer import Params
from .update import advance, assign, scalar


class Adam(ByParameter):
    """Steps along mean gradient over root mean square of it (Kingma and Ba 2015, arXiv:1412.6980).

    `amsgrad` takes the largest mean of squares so far (Reddi et al. 2018). `weight_decay * p` is added to the gradient,
    or with `decoupled_weight_decay` the parameter is multiplied by `1 - lr * weight_decay`.

    >>> import jitgrad as jg
    >>> w = jg.tensor([1.0], requires_grad=True)
    >>> optimizer = jg.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _numbers = frozenset({"lr", "betas", "eps", "weight_decay"})

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": no_steps(), "exp_avg": zeros_of(p), "exp_avg_sq": zeros_of(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_of(p)
        return state

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        step, (beta1, beta2) = advance(state["step"]), numbers["betas"]
        grad = self.decayed(p, grad, group, numbers)
        first, second = moments(state, grad, beta1, beta2)
        size = scalar(numbers["lr"] / (1 - beta1**step), p)
        root = scalar((1 - beta2**step) ** 0.5, p)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            assign(largest, largest.maximum(second))
            second = largest
        assign(p, p - first / (second.sqrt() / root + scalar(numbers["eps"], p)) * size)


class AdamW(Adam):
    """Adam whose weight decay does not go through the gradient (Loshchilov and Hutter 2019, arXiv:1711.05101)."""

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip
