"""`ByParameter`: optimizers whose update of a parameter depends on that parameter, its gradient and its state alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, DTypeError
from jitgrad.ir.graph import Value

from ..autograd.grad_mode import set_grad_enabled
from ..creation import zeros
from ..errors import located
from ..mode import local
from ..tensor import Tensor
from .launch import launched
from .optimizer import Optimizer, State
from .repeated import Updates
from .update import assign, loss_of, move, scalar, with_gradients


class ByParameter(Optimizer):
    """Base class: subclasses define `_start`, the state at the first step, and `_update`.

    The options named in `_numbers` reach `_update` as numbers, or while tracing as 0-d tensors that follow them.
    `shared_state` names what in a state is a number that depends on numbers alone. A step that comes again runs as one
    native call (`launch.py`).
    """

    shared_state: frozenset[str] = frozenset({"step"})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once. `closure` computes the loss again and returns it."""
        loss = loss_of(closure)
        if launched(self):
            return loss
        updates = Updates(by_element=type(self).__module__.startswith(f"{__package__}."))
        for group in self.param_groups:
            with set_grad_enabled(bool(group.get("differentiable")) and local.mode.grad):
                numbers = self._read_numbers(group)
                for p, grad in with_gradients(group):
                    state = self._state_of(p, group)
                    one = functools.partial(self._update, p, grad, state, group, numbers)
                    updates.update(p, grad, state, group, one)
        return loss

    def update_traced(self, group: dict[str, Any], p: Tensor) -> None:
        """What `step` does with one parameter whose state is there, for a tracer to see."""
        grad: Any = p.grad
        grad = -grad if group.get("maximize") else grad
        self._update(p, grad, self._state_of(p, group), group, self._read_numbers(group))

    def _read_numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options that are numbers."""
        return {name: self.number(group, name) for name in sorted(self._numbers)}

    def needs_state(self, group: dict[str, Any]) -> bool:
        """Whether the parameters of a group have states."""
        return True

    def _state_of(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter, made at its first step."""
        states: State = self.__dict__["state"]
        state: dict[str, Any] = dict.get(states, p) or {}
        if not state:
            if p.dtype.is_complex:
                raise located(DTypeError(f"{type(self).__name__}: complex parameters are not supported"))
            with beginning(self, p) or nullcontext():
                state = states[p]
                for name, value in self._start(p, group).items():
                    state[name] = value
        return state

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of `p` before its first step."""
        raise NotImplementedError(f"{type(self).__name__}._start")

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        """Update `p` and its state."""
        raise NotImplementedError(f"{type(self).__name__}._update")

    def decayed(self, p: Any, grad: Any, group: dict[str, Any], numbers: dict[str, Any]) -> Any:
        """The gradient with weight decay in it; if it is decoupled, the parameter shrinks and the gradient stays."""
        if not self.is_set(group, "weight_decay"):
            return grad
        decay = numbers["weight_decay"]
        if group.get("decoupled_weight_decay"):
            assign(p, p * scalar(1 - numbers["lr"] * decay, p))
            return grad
        return grad + p * scalar(decay, p)


def beginning(optimizer: Optimizer, p: Tensor) -> AbstractContextManager[None] | None:
    """Where a parameter's state is made outside the trace going on; None if none is, or it went by its absence."""
    tracer, states = local.mode.tracer, optimizer.__dict__["state"]
    if tracer is None or p._data.__class__ is Value or not tracer.begun.may_begin(optimizer):
        return None
    return tracer.begun.beginning(optimizer, functools.partial(states.pop, p, None))  # type: ignore[no-any-return]


def moments(state: dict[str, Any], grad: Any, beta1: Any, beta2: Any) -> tuple[Any, Any]:
    """The running means of the gradient and of its square, moved by this gradient."""
    first, second = state["exp_avg"], state["exp_avg_sq"]
    move(first, grad, 1 - beta1)
    assign(second, second * scalar(beta2, second) + grad * grad * scalar(1 - beta2, second))
    return first, second


def no_steps() -> Tensor:
    """A count of steps, as PyTorch keeps it: a 0-d float32 tensor."""
    return zeros((), dtype=dtypes.float32)


def zeros_of(p: Tensor) -> Tensor:
    """Zeros of a parameter's shape, dtype and device."""
    return zeros(tuple(p.shape), dtype=p.dtype, device=p.device)


def require(holds: bool, what: str, value: Any) -> None:
    """An option is what it may be."""
    if not holds:
        raise located(ArgumentError(f"Invalid {what}: {value}"))


def check_options(
    lr: Any, betas: tuple[Any, ...] = (), eps: float = 0.0, weight_decay: float = 0.0
) -> None:  # fmt: skip
    """What most optimizers ask of their options."""
    if isinstance(lr, Tensor) and lr.numel() != 1:  # type: ignore[attr-defined]
        raise located(ArgumentError("Tensor lr must be 1-element"))
    require(lr >= 0.0, "learning rate", lr)
    require(eps >= 0.0, "epsilon value", eps)
    for i, beta in enumerate(betas):
        require(0.0 <= beta < 1.0, f"beta parameter at index {i}", beta)
    require(weight_decay >= 0.0, "weight_decay value", weight_decay)
