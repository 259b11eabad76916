"""L-BFGS: a quasi-Newton method with limited memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ..autograd.grad_mode import enable_grad, no_grad
from ..errors import located
from ..functions.joining import cat
from .by_parameter import check_options
from .line_search import Point, strong_wolfe
from .optimizer import Optimizer, Params
from .update import assign


class LBFGS(Optimizer):
    """Steps along an approximate Newton direction made of the last `history_size` steps (Liu and Nocedal 1989).

    `step(closure)` needs a closure that computes the loss and its gradients; it makes up to `max_iter` iterations and
    `max_eval` evaluations (default `max_iter * 1.25`). `line_search_fn` is None or `"strong_wolfe"`. It stops when no
    gradient exceeds `tolerance_grad`, or loss and parameters change by less than `tolerance_change`. One parameter
    group. Each iteration looks at numbers, so that `step` runs eagerly inside a compiled function.

    >>> import jitgrad as jg
    >>> w = jg.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = jg.optim.LBFGS([w])
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> [round(x, 3) for x in w.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self, params: Params, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_options(lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise located(ArgumentError("only 'strong_wolfe' is supported"))
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise located(ArgumentError("LBFGS doesn't support per-parameter options (parameter groups)"))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Minimise; the loss that `closure` returned first."""
        if closure is None:
            raise located(ArgumentTypeError("LBFGS.step() needs a closure that computes the loss"))
        with no_grad():
            return _Minimisation(self, closure).run()

    @property
    def _params(self) -> list[Any]:
        return list(self.param_groups[0]["params"])


class _Minimisation:
    """One call of `step`."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any]) -> None:
        self.params = optimizer._params
        self.group = optimizer.param_groups[0]
        self.state = optimizer.state[self.params[0]]
        self.lr = float(self.group["lr"])
        self._closure = closure
        self.evaluations = 0

    def run(self) -> Any:
        """Iterate until something says stop."""
        state, group = self.state, self.group
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first, gradient = self._evaluate()
        loss = float(first)
        if float(gradient.abs().max()) <= group["tolerance_grad"]:
            return first
        for iteration in range(group["max_iter"]):
            state["n_iter"] += 1
            self._turn(gradient)
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss
            step = self.lr if state["n_iter"] > 1 else min(1.0, 1.0 / float(gradient.abs().sum())) * self.lr
            slope = float(gradient.dot(state["d"]))
            if slope > -group["tolerance_change"]:
                state["t"] = step
                break
            is_last = iteration + 1 == group["max_iter"]
            point = self._move(Point(0.0, loss, gradient, slope), step, is_last)
            state["t"] = point.step
            change, loss, gradient = abs(point.loss - loss), point.loss, point.gradient
            if is_last or self._is_over(gradient, change):
                break
        return first

    def _is_over(self, gradient: Any, change: float) -> bool:
        """Whether it has converged, or used up its evaluations."""
        group, state = self.group, self.state
        return bool(
            self.evaluations >= group["max_eval"]
            or float(gradient.abs().max()) <= group["tolerance_grad"]
            or float(state["d"].abs().max()) * abs(state["t"]) <= group["tolerance_change"]
            or change < group["tolerance_change"]
        )

    def _turn(self, gradient: Any) -> None:
        """Find the direction of the next step, by the two-loop recursion."""
        state = self.state
        if state["n_iter"] == 1:
            state.update({"d": -gradient, "old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1.0})
            return
        y, s = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        product = float(y.dot(s))
        if product > 1e-10:  # else the curvature is not positive, and the pair is of no use
            pairs = (state["old_dirs"], y), (state["old_stps"], s), (state["ro"], 1.0 / product)
            for kept, value in pairs:
                if len(kept) == self.group["history_size"]:
                    kept.pop(0)
                kept.append(value)
            state["H_diag"] = product / float(y.dot(y))
        q, shares = -gradient, []
        history = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        for y, s, ro in reversed(history):
            shares.append(float(s.dot(q)) * ro)
            q = q - y * shares[-1]
        q = q * state["H_diag"]
        for (y, s, ro), share in zip(history, reversed(shares), strict=True):
            q = q + s * (share - float(y.dot(q)) * ro)
        state["d"] = q

    def _move(self, start: Point, step: float, is_last: bool) -> Point:
        """Go along the direction: by `step`, or to where the line search says. The last plain step is not evaluated."""
        direction = self.state["d"]
        if self.group["line_search_fn"] is None:
            self._shift(direction, step)
            if is_last:
                return Point(step, start.loss, start.gradient, start.slope)
            loss, gradient = self._evaluate()
            return Point(step, float(loss), gradient, 0.0)
        origin = [p.clone() for p in self.params]

        def at(step: float) -> Point:
            self._shift(direction, step)
            loss, gradient = self._evaluate()
            for p, value in zip(self.params, origin, strict=True):
                assign(p, value)
            return Point(step, float(loss), gradient, float(gradient.dot(direction)))

        point, _ = strong_wolfe(at, start, step, float(direction.abs().max()))
        self._shift(direction, point.step)
        return point

    def _shift(self, direction: Any, step: float) -> None:
        """Add `step * direction` to the parameters."""
        offset = 0
        for p in self.params:
            assign(p, p + direction[offset : offset + p.numel()].reshape(p.shape) * step)
            offset += p.numel()

    def _evaluate(self) -> tuple[Any, Any]:
        """The loss, and the gradient of all parameters as one vector."""
        with enable_grad():
            loss = self._closure()
        self.evaluations += 1
        self.state["func_evals"] += 1
        flat = [(p * 0 if p.grad is None else p.grad).detach().reshape(-1) for p in self.params]
        return loss, cat(flat).clone()
