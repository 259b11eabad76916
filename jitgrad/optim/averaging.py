"""ASGD and Rprop: averaged gradient descent, and steps by the signs of gradients."""

from __future__ import annotations

from typing import Any

from jitgrad.ir import dtypes

from ..creation import full, full_like, ones
from ..functions.comparison import where
from ..tensor import Tensor, read_array
from .by_parameter import ByParameter, check_options, no_steps, require, zeros_of
from .optimizer import Params
from .update import advance, assign, larger, scalar, value_of


class ASGD(ByParameter):
    """Gradient descent that also keeps the mean of the parameters, in `state["ax"]` (Polyak and Juditsky 1992).

    >>> import jitgrad as jg
    >>> w = jg.tensor([1.0], requires_grad=True)
    >>> optimizer = jg.optim.ASGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    _numbers = frozenset({"lr", "lambd", "alpha", "t0", "weight_decay"})
    shared_state = frozenset({"step", "eta", "mu"})

    def __init__(
        self, params: Params, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr, (), 0.0, weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = group["lr"]
        eta = full((), float(read_array(lr)) if isinstance(lr, Tensor) else lr, dtype=dtypes.float32)
        return {"step": no_steps(), "eta": eta, "mu": ones((), dtype=dtypes.float32), "ax": zeros_of(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        step, lr, lambd = advance(state["step"]), numbers["lr"], numbers["lambd"]
        grad = self.decayed(p, grad, group, numbers)
        eta, mu, mean = value_of(state["eta"]), value_of(state["mu"]), state["ax"]
        assign(p, p * scalar(1 - lambd * eta, p) - grad * scalar(eta, p))
        moved = mean + (p - mean) * scalar(mu, p)
        if isinstance(mu, Tensor):
            assign(mean, where(mu == 1, p, moved))
        else:
            assign(mean, p if mu == 1 else moved)
        _store(state["eta"], lr / (1 + lambd * lr * step) ** numbers["alpha"])
        _store(state["mu"], 1 / larger(step - numbers["t0"], 1.0))


def _store(t: Tensor, value: Any) -> None:
    """A number becomes the content of a 0-d tensor."""
    assign(t, value if isinstance(value, Tensor) else full_like(t, value))


class Rprop(ByParameter):
    """Steps of a size of its own for each weight, which grows while the gradient keeps its sign.

    After Riedmiller and Braun 1993: a sign that turns shrinks the step by `etas[0]` and skips it; one that stays grows
    it by `etas[1]`. For full batches.
    """

    _numbers = frozenset({"etas", "step_sizes"})

    def __init__(
        self, params: Params, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_options(lr)
        require(0.0 < etas[0] < 1.0 < etas[1], "eta values", f"{etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = group["lr"]
        size = full_like(p.detach(), float(read_array(lr)) if isinstance(lr, Tensor) else lr)
        return {"step": no_steps(), "prev": zeros_of(p), "step_size": size}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        advance(state["step"])
        (shrink, grow), size = numbers["etas"], state["step_size"]
        agreement = grad * state["prev"]
        shrunk = size * scalar(shrink, p)
        sized = where(agreement > 0, size * scalar(grow, p), where(agreement < 0, shrunk, size))
        least, most = (scalar(x, p) for x in numbers["step_sizes"])
        assign(size, sized.clamp(min=least).clamp(max=most))
        grad = where(agreement < 0, grad * 0, grad)
        assign(p, p - grad.sign() * size)
        assign(state["prev"], grad)
