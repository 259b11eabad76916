"""Adafactor and Muon: optimizers that treat a matrix as a matrix."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError

from ..errors import located
from ..functions.types import finfo
from ..tensor import Tensor
from .by_parameter import ByParameter, no_steps, zeros_of
from .optimizer import Params
from .update import advance, assign, larger, move, scalar, smaller, value_of

_MUON = (3.4445, -4.7750, 2.0315)  # of Jordan et al. 2024: the steepest quintic at 0 that stays near 1


class Adafactor(ByParameter):
    """Adam's second moment kept as a row and a column, and steps relative to the parameter's size.

    After Shazeer and Stern 2018 (arXiv:1804.04235), without momentum. Parameters of one dimension keep all of it.

    >>> import jitgrad as jg
    >>> w = jg.ones(2, 2, requires_grad=True)
    >>> optimizer = jg.optim.Adafactor([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()[0]
    tensor([0.9000, 0.9000])
    """

    _numbers = frozenset({"lr", "beta2_decay", "d", "weight_decay"})

    def __init__(
        self, params: Params, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        for holds, text in (
            (lr >= 0.0, f"Learning rate should be >= 0 but is: {lr}"),
            (beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}"),
            (weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}"),
        ):
            if not holds:
                raise located(ArgumentError(text))
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _start(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        if p.dim() < 2:
            return {"step": no_steps(), "variance": zeros_of(p)}
        return {"step": no_steps(), "row_var": zeros_of(p[..., :1]), "col_var": zeros_of(p[..., :1, :])}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        step, lr = advance(state["step"]), numbers["lr"]
        tiny, least = group["eps"]
        if tiny is None:
            tiny = float(finfo(p.dtype).eps)
        share = step ** numbers["beta2_decay"]
        size = larger(_root_mean_square(p), least) * smaller(lr, 1 / step**0.5)
        if self.is_set(group, "weight_decay"):
            assign(p, p * scalar(1 - lr * numbers["weight_decay"], p))
        change = grad * self._variance(grad, state, share, tiny).clamp(min=tiny * tiny).rsqrt()
        clip = larger(_root_mean_square(change) / numbers["d"], 1.0)
        assign(p, p - change * scalar(size / clip, p))

    @staticmethod
    def _variance(grad: Any, state: dict[str, Any], share: Any, tiny: float) -> Any:
        """An estimate of the mean squared gradient."""
        square = grad * grad
        if grad.dim() < 2:
            move(state["variance"], square, share)
            return state["variance"]
        rows, columns = state["row_var"], state["col_var"]
        move(rows, square.mean(dim=-1, keepdim=True), share)
        move(columns, square.mean(dim=-2, keepdim=True), share)
        return rows @ columns / rows.mean(dim=-2, keepdim=True).clamp(min=tiny)


def _root_mean_square(t: Any) -> Any:
    return value_of(t.norm(2)) / t.numel() ** 0.5


class Muon(ByParameter):
    """Momentum whose matrix is replaced by (nearly) the closest orthogonal one, by Newton and Schulz's iteration.

    After Jordan et al. 2024 ("Muon: an optimizer for hidden layers in neural networks"). Parameters must be matrices.
    `adjust_lr_fn` is `"original"` (times `sqrt(max(1, rows / columns))`) or `"match_rms_adamw"` (times
    `0.2 sqrt(max(rows, columns))`, arXiv:2502.16982).
    """

    _numbers = frozenset({"lr", "weight_decay", "momentum"})

    def __init__(
        self, params: Params, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _MUON, eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if value < 0.0:
                raise located(ArgumentError(f"{name} should be >= 0 but is: {value}"))
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise located(ArgumentError(f"Adjust learning rate function {adjust_lr_fn} is not supported"))
        if ns_steps >= 100:
            raise located(ArgumentError("Number of steps must be less than 100 for computational efficiency"))
        if len(ns_coefficients) != 3:
            raise located(ArgumentError("Coefficients must be a tuple of exactly 3 values"))
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise located(
                        ArgumentError(
                            f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                        )
                    )

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": zeros_of(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], numbers: dict[str, Any]) -> None:
        if grad.ndim != 2:
            raise located(OperationError("Param gradient must be a 2D matrix"))
        buffer, momentum, lr = state["momentum_buffer"], numbers["momentum"], numbers["lr"]
        move(buffer, grad, 1 - momentum)
        direction = grad + (buffer - grad) * scalar(momentum, p) if group["nesterov"] else buffer
        direction = _orthogonal(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        else:
            factor = math.sqrt(max(1, rows / columns))
        kept = p * scalar(1 - lr * numbers["weight_decay"], p)
        assign(p, kept - direction.to(p.dtype) * scalar(lr * factor, p))


def _orthogonal(matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """A matrix with singular vectors of `matrix` and singular values near 1, computed in bfloat16 as in PyTorch."""
    a, b, c = coefficients
    x = matrix.bfloat16()
    is_tall = matrix.shape[0] > matrix.shape[1]
    if is_tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if is_tall else x
