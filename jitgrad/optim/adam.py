"""Adam, and AdamW with weight decay apart from the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, DTypeError

from ..autograd.grad_mode import set_grad_enabled
from ..creation import zeros
from ..errors import located
from ..mode import local
from ..tensor import Tensor
from .optimizer import Optimizer, Params
from .update import advance, assign, loss_of, scalar, with_gradients


class Adam(Optimizer):
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
        if lr < 0.0:
            raise located(ArgumentError(f"Invalid learning rate: {lr}"))
        if eps < 0.0:
            raise located(ArgumentError(f"Invalid epsilon value: {eps}"))
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise located(ArgumentError(f"Invalid beta parameter at index {i}: {beta}"))
        if weight_decay < 0.0:
            raise located(ArgumentError(f"Invalid weight_decay value: {weight_decay}"))
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once. `closure` computes the loss again and returns it."""
        loss = loss_of(closure)
        for group in self.param_groups:
            with set_grad_enabled(group["differentiable"] and local.mode.grad):
                self._update(group)
        return loss

    def _update(self, group: dict[str, Any]) -> None:
        lr, eps = self.number(group, "lr"), self.number(group, "eps")
        betas = self.number(group, "betas")
        decay = self.number(group, "weight_decay") if self.is_set(group, "weight_decay") else None
        for p, grad in with_gradients(group):
            state = self._state_of(p, group["amsgrad"])
            step = advance(state["step"])
            if decay is not None:
                if group["decoupled_weight_decay"]:
                    assign(p, p * scalar(1 - lr * decay, p))
                else:
                    grad = grad + p * scalar(decay, p)
            first, second = self._moments(state, grad, betas)
            size = scalar(lr / (1 - betas[0] ** step), p)
            root = scalar((1 - betas[1] ** step) ** 0.5, p)
            if group["amsgrad"]:
                largest = state["max_exp_avg_sq"]
                assign(largest, largest.maximum(second))
                second = largest
            assign(p, p - first / (second.sqrt() / root + scalar(eps, p)) * size)

    def _state_of(self, p: Tensor, amsgrad: bool) -> dict[str, Any]:
        """The state of a parameter, made at its first step."""
        state = self.state[p]
        if not state:
            if p.dtype.is_complex:
                raise located(DTypeError(f"{type(self).__name__}: complex parameters are not supported"))
            shape = tuple(p.shape)
            state["step"] = zeros((), dtype=dtypes.float32)
            state["exp_avg"] = zeros(shape, dtype=p.dtype)
            state["exp_avg_sq"] = zeros(shape, dtype=p.dtype)
            if amsgrad:
                state["max_exp_avg_sq"] = zeros(shape, dtype=p.dtype)
        return state

    @staticmethod
    def _moments(state: dict[str, Any], grad: Any, betas: tuple[Any, Any]) -> tuple[Any, Any]:
        """The running means of the gradient and of its square, moved by this gradient."""
        first, second = state["exp_avg"], state["exp_avg_sq"]
        assign(first, first + (grad - first) * scalar(1 - betas[0], first))
        assign(second, second * scalar(betas[1], second) + grad * grad * scalar(1 - betas[1], second))
        return first, second


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
