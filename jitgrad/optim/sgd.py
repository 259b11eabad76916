"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import ArgumentError

from ..autograd.grad_mode import set_grad_enabled
from ..errors import located
from ..mode import local
from .optimizer import Optimizer, Params
from .update import assign, loss_of, scalar, with_gradients


class SGD(Optimizer):
    """`p -= lr * b`, where `b = momentum * b + (1 - dampening) * grad` with momentum, else the gradient.

    Nesterov's momentum steps along `grad + momentum * b` (Sutskever et al. 2013). `weight_decay * p` is added to the
    gradient; `maximize` takes its negative.

    >>> import jitgrad as jg
    >>> w = jg.tensor([1.0], requires_grad=True)
    >>> optimizer = jg.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    _numbers = frozenset({"lr", "momentum", "dampening", "weight_decay"})

    def __init__(
        self, params: Params, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        if lr < 0.0:
            raise located(ArgumentError(f"Invalid learning rate: {lr}"))
        if momentum < 0.0:
            raise located(ArgumentError(f"Invalid momentum value: {momentum}"))
        if weight_decay < 0.0:
            raise located(ArgumentError(f"Invalid weight_decay value: {weight_decay}"))
        if nesterov and (momentum <= 0 or dampening != 0):
            raise located(ArgumentError("Nesterov momentum requires a momentum and zero dampening"))
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
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
        lr = self.number(group, "lr")
        decay = self.number(group, "weight_decay") if self.is_set(group, "weight_decay") else None
        momentum = self.number(group, "momentum") if self.is_set(group, "momentum") else None
        share = 1 - self.number(group, "dampening") if self.is_set(group, "dampening") else None
        for p, grad in with_gradients(group):
            if decay is not None:
                grad = grad + p * scalar(decay, p)
            if momentum is not None:
                grad = self._direction(group, p, grad, scalar(momentum, p), share)
            assign(p, p - grad * scalar(lr, p))

    def _direction(self, group: dict[str, Any], p: Any, grad: Any, momentum: Any, share: Any) -> Any:
        """The gradient averaged over the steps so far."""
        state = self.state[p]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            assign(buffer, buffer * momentum + (grad if share is None else grad * scalar(share, p)))
        return grad + buffer * momentum if group["nesterov"] else buffer
