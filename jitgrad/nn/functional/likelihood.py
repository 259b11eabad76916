"""Negative log-likelihoods of distributions, and cross entropy behind a linear layer."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError, ShapeError
from jitgrad.ir.ops.check import CheckNotNegative
from jitgrad.ir.ops.math import Exp, Log

from ...autocasting import autocasts
from ...errors import located
from ...functions.comparison import choose
from ...functions.linalg import matmul
from ...functions.pointwise import check_tensor, filled, pointwise
from ...tensor import Tensor
from .arguments import checked, reduced, reduction_name
from .loss import cross_entropy


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`(log var + (input - target)² / var) / 2`, the variance being at least `eps`; `full` adds log(2π) / 2.

    `var` is a number, has the input's shape, or lacks one axis (or has length 1 there).

    >>> import jitgrad as jg
    >>> jg.nn.functional.gaussian_nll_loss(jg.zeros(2), jg.ones(2), jg.ones(2))
    tensor(0.5000)
    """
    how = reduction_name("gaussian_nll_loss", reduction, None, None)
    x: Any = check_tensor(input, "gaussian_nll_loss")
    if isinstance(var, Tensor):
        v: Any = _variance(x, checked(CheckNotNegative("gaussian_nll_loss", "var"), var))
    else:
        if var < 0:
            raise located(ArgumentError("var has negative entry/entries"))
        v = filled(tuple(x.shape), x.dtype, var)
    # The bound is unseen by gradients, as in PyTorch.
    v = v + (v.clamp_min(eps) - v).detach()
    loss = 0.5 * (v.log() + (x - target) ** 2 / v)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, how)


def _variance(x: Tensor, var: Any) -> Any:
    if var.shape == x.shape:
        return var
    if tuple(x.shape[:-1]) == tuple(var.shape):
        return var.unsqueeze(-1)
    if x.ndim == var.ndim and sum(m for n, m in zip(x.shape, var.shape, strict=True) if n != m) == 1:
        return var
    raise located(ArgumentError(f"var is of incorrect size: {list(var.shape)} for input {list(x.shape)}"))


@autocasts("poisson_nll_loss")
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`exp(x) - t x` for the logarithm x of a rate and a count t; `x - t log(x + eps)` if x is the rate itself.

    `full` adds Stirling's approximation of log(t!) for counts above 1.

    >>> import jitgrad as jg
    >>> jg.nn.functional.poisson_nll_loss(jg.zeros(2), jg.tensor([1.0, 2.0]))
    tensor(1.)
    """
    how = reduction_name("poisson_nll_loss", reduction, size_average, reduce)
    x: Any = check_tensor(input, "poisson_nll_loss")
    t: Any = target
    loss: Any = pointwise(Exp(), x) - t * x if log_input else x - t * pointwise(Log(), x + eps)
    if full:
        safe: Any = choose("poisson_nll_loss", t > 1, t, 2)
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + choose("poisson_nll_loss", t > 1, stirling, 0)
    return reduced(loss, how)


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy` of `linear(input, linear_weight)`: input [n, d] or [d], weight [c, ..., d], target [n, ...].

    `options` tells PyTorch how to save memory; the loss is the same with any.

    >>> import jitgrad as jg
    >>> jg.nn.functional.linear_cross_entropy(jg.zeros(3, 4), jg.zeros(2, 4), jg.tensor([0, 1, 1]))
    tensor(0.6931)
    """
    x, w = check_tensor(input, "linear_cross_entropy"), check_tensor(linear_weight, "linear_cross_entropy")
    if x.ndim not in (1, 2):
        raise located(ShapeError(f"expected input with dimensionality 1 or 2, got {x.ndim}"))
    if w.ndim < 2:
        raise located(ShapeError(f"expected linear_weight with dimensionality at least 2, got {w.ndim}"))
    if x.shape[-1] != w.shape[-1]:
        raise located(
            ShapeError(f"linear_cross_entropy: input has {x.shape[-1]} features, but linear_weight has {w.shape[-1]}")
        )
    if x.ndim == 1 and w.ndim > 2:
        raise located(ShapeError("linear_cross_entropy: a weight of several dimensions needs a batch of inputs"))
    scores: Any = matmul(x, w.reshape(-1, w.shape[-1]).mT).reshape(*x.shape[:-1], *w.shape[:-1])  # type: ignore[attr-defined]
    if linear_bias is not None:
        if tuple(linear_bias.shape) not in (tuple(w.shape[:-1]), (w.shape[0],)):
            raise located(
                ShapeError(
                    f"linear_cross_entropy: linear_bias must have shape {list(w.shape[:-1])}, "
                    f"not {list(linear_bias.shape)}"
                )
            )
        scores = scores + linear_bias.reshape(*linear_bias.shape, *(1,) * (w.ndim - 1 - linear_bias.ndim))  # type: ignore[attr-defined]
    if ignore_index is not None and target.dtype.kind != "int":
        raise located(OperationError("ignore_index cannot be specified when target contains probabilities"))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(scores, target, weight, None, ignored, None, reduction, label_smoothing)
