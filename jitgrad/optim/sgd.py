"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentError

from ..creation import full
from ..errors import located
from ..tensor import Tensor
from .by_parameter import ByParameter, beginning
from .optimizer import Params, State
from .update import assign, scalar


class SGD(ByParameter):
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

    def _read_numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        """The learning rate, and what is not zero of the others."""
        return {n: self.number(group, n) for n in sorted(self._numbers) if n == "lr" or self.is_set(group, n)}

    def needs_state(self, group: dict[str, Any]) -> bool:
        """With momentum."""
        return self.is_set(group, "momentum")

    def _state_of(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """Nothing without momentum; with it, the first step starts the mean."""
        if not self.needs_state(group):
            return {}
        states: State = self.__dict__["state"]
        outside = beginning(self, p) if not dict.get(states, p) and _goes_on_from_nothing(p, group) else None
        if outside is not None:
            with outside:
                states[p]["momentum_buffer"] = full(tuple(p.shape), -0.0, dtype=p.dtype, device=p.device)
        return states[p]  # type: ignore[no-any-return]

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        if "weight_decay" in numbers:
            grad = grad + p * scalar(numbers["weight_decay"], p)
        if "momentum" in numbers:
            grad = self._direction(p, grad, state, group, numbers)
        assign(p, p - grad * scalar(numbers["lr"], p))

    @staticmethod
    def _direction(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> Any:
        """The gradient averaged over the steps so far."""
        buffer, momentum = state.get("momentum_buffer"), scalar(numbers["momentum"], p)
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            share = scalar(1 - numbers["dampening"], p) if "dampening" in numbers else None
            assign(buffer, buffer * momentum + (grad if share is None else grad * share))
        return grad + buffer * momentum if group["nesterov"] else buffer


def _goes_on_from_nothing(p: Tensor, group: dict[str, Any]) -> bool:
    """Whether a mean of -0.0, moved by the first gradient as by any other, is that gradient to the bit."""
    is_plain = not dict.get(group, "dampening") and not dict.get(group, "differentiable")
    return is_plain and p.dtype.is_floating_point and 0 < dict.get(group, "momentum") <= 1
