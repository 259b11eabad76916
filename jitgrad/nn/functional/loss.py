"""Losses."""

from __future__ import annotations

import math
import warnings

from jitgrad.ir.errors import ArgumentError, OperationError, ShapeError, operand_lines
from jitgrad.ir.ops.activation import Softplus
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Mul, Sub
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.check import CheckBetween
from jitgrad.ir.ops.comparison import Eq, Gt, Lt
from jitgrad.ir.ops.loss import CrossEntropy, MseLoss, NllLoss
from jitgrad.ir.ops.math import Exp, Log
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.softmax import LogSoftmax

from ...autocasting import autocasts
from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import broadcast, check_tensor, expand, filled, pointwise
from ...hot_path import hot
from ...promotion import result_dtype
from ...tensor import Tensor
from .arguments import checked, reduced, reduction_name, reshaped


@hot
@autocasts("cross_entropy")
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """The cross entropy of softmax(input) and a target: class numbers, or probabilities of the input's shape.

    Classes are on axis 1 (or 0, of a single item). Targets equal to `ignore_index` count for nothing.

    >>> import jitgrad as jg
    >>> jg.nn.functional.cross_entropy(jg.zeros(3, 2), jg.tensor([0, 1, 1]))
    tensor(0.6931)
    """
    x = check_tensor(input, "cross_entropy")
    how = reduction_name("cross_entropy", reduction, size_average, reduce)
    weights = () if weight is None else (weight,)
    if not 0.0 <= label_smoothing <= 1.0:
        raise located(OperationError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"))
    if target.dtype.is_floating_point:
        return _probability_loss(x, target, weights, how, label_smoothing)
    _check_target("cross_entropy", x, target)
    return apply(CrossEntropy(how, ignore_index, float(label_smoothing)), x, target, *weights)


def _check_target(name: str, x: Tensor, target: Tensor) -> None:
    axis = 1 if x.ndim > 1 else 0
    if x.ndim == 0 or tuple(target.shape) != (*x.shape[:axis], *x.shape[axis + 1 :]):
        lengths = x.ndim > 1 and target.ndim and x.shape[0] != target.shape[0]
        kind = ArgumentError if lengths else ShapeError
        detail = (
            f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({target.shape[0]})."
            if lengths
            else f"the target's shape must be the input's without axis {axis}"
        )
        raise located(kind(f"{name}: {detail}{operand_lines([x.type_, target.type_])}"))


def _probability_loss(
    x: Tensor, target: Tensor, weights: tuple[Tensor, ...], reduction: str, smoothing: float
) -> Tensor:
    if x.shape != target.shape:
        raise located(
            ShapeError(
                "cross_entropy: target probabilities must have the input's shape"
                f"{operand_lines([x.type_, target.type_])}"
            )
        )
    axis = 1 if x.ndim > 1 else 0
    classes = x.shape[axis]
    if smoothing:
        target = pointwise(Add(), pointwise(Mul(), target, 1 - smoothing), smoothing / classes)
    logp = apply(LogSoftmax(axis), x)
    if weights:
        logp = pointwise(Mul(), logp, reshaped(weights[0], (classes, *(1,) * (x.ndim - axis - 1))))
    loss = -apply(Sum((axis,), False), pointwise(Mul(), logp, target))  # type: ignore[operator]
    if reduction != "mean":
        return reduced(loss, reduction)
    items = math.prod(n for a, n in enumerate(x.shape) if a != axis)
    return loss.sum() / items  # type: ignore[no-any-return]


@hot
@autocasts("nll_loss")
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The negative log-likelihood of target classes, given log-probabilities with the classes on axis 1 (or 0)."""
    x = check_tensor(input, "nll_loss")
    how = reduction_name("nll_loss", reduction, size_average, reduce)
    _check_target("nll_loss", x, target)
    return apply(NllLoss(how, ignore_index), x, target, *(() if weight is None else (weight,)))


def _pair(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one dtype and shape; a warning if the shapes differ."""
    x, y = check_tensor(input, name), check_tensor(target, name)
    if x.shape != y.shape:
        warnings.warn(
            f"Using a target size ({y.shape}) that is different to the input size ({x.shape}). This will likely lead "
            "to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
    a, b = broadcast(name, result_dtype(x, y), x, y)
    return a, b


def _weighted(loss: Tensor, weight: Tensor | None) -> Tensor:
    return loss if weight is None else pointwise(Mul(), loss, weight)


@hot
@autocasts("mse_loss")
def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The squared differences: each, their mean (`weight`ed if given) or their sum.

    >>> import jitgrad as jg
    >>> jg.nn.functional.mse_loss(jg.tensor([1.0, 2.0]), jg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    how = reduction_name("mse_loss", reduction, size_average, reduce)
    x, y = _pair("mse_loss", input, target)
    if weight is None:
        return apply(MseLoss(how), x, y)
    return _weighted_mean(apply(MseLoss("none"), x, y), weight, how)


def _weighted_mean(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """`reduced`, where a mean divides by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != loss.shape:
        raise located(ArgumentError("Inputs and weight must have the same size."))
    loss = _weighted(loss, weight)
    if reduction != "mean":
        return reduced(loss, reduction)
    return loss.sum() / weight.sum()  # type: ignore[attr-defined, no-any-return]


@hot
@autocasts("l1_loss")
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The absolute differences: each, their mean or their sum."""
    how = reduction_name("l1_loss", reduction, size_average, reduce)
    x, y = _pair("l1_loss", input, target)
    return _weighted_mean(apply(Abs(), apply(Sub(), x, y)), weight, how)


def _quadratic_near_0(x: Tensor, y: Tensor, width: float) -> Tensor:
    """`d² / 2` for absolute differences `d` below `width`, and `width (d - width / 2)` beyond."""
    d = apply(Abs(), apply(Sub(), x, y))
    near = pointwise(Mul(), pointwise(Mul(), d, d), 0.5)
    far = pointwise(Mul(), pointwise(Sub(), d, 0.5 * width), width)
    return apply(Where(), pointwise(Lt(), d, width), near, far)


@hot
@autocasts("smooth_l1_loss")
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Absolute differences less `beta / 2`, and below `beta` squared ones over `2 beta`."""
    how = reduction_name("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise located(ShapeError("smooth_l1_loss does not support negative values for beta."))
    x, y = _pair("smooth_l1_loss", input, target)
    if beta == 0:
        return reduced(apply(Abs(), apply(Sub(), x, y)), how)
    return reduced(pointwise(Div(), _quadratic_near_0(x, y, beta), beta), how)


@hot
@autocasts("huber_loss")
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """`delta` times (absolute differences less `delta / 2`), and below `delta` half of the squared ones."""
    how = reduction_name("huber_loss", reduction, None, None)
    if delta <= 0:
        raise located(ShapeError("huber_loss does not support non-positive values for delta."))
    x, y = _pair("huber_loss", input, target)
    return _weighted_mean(_quadratic_near_0(x, y, delta), weight, how)


def _same_shape(name: str, x: Tensor, target: Tensor) -> None:
    if x.shape != target.shape:
        raise located(
            ArgumentError(
                f"{name}: target size ({target.shape}) must be the same as input size ({x.shape})"
                f"{operand_lines([x.type_, target.type_])}"
            )
        )


@hot
@autocasts("binary_cross_entropy")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`-(t log x + (1 - t) log(1 - x))` of probabilities x and t; logarithms are at least -100."""
    how = reduction_name("binary_cross_entropy", reduction, size_average, reduce)
    x = check_tensor(input, "binary_cross_entropy")
    _same_shape("binary_cross_entropy", x, target)
    checked(CheckBetween("binary_cross_entropy", "input", 0, 1), x)
    one = filled(tuple(x.shape), x.dtype, 1)
    rest = apply(Sub(), one, x)
    log_x, log_rest = (_bounded_log(p) for p in (x, rest))
    t = expand(target, tuple(x.shape))
    gain = apply(Add(), apply(Mul(), t, log_x), apply(Mul(), apply(Sub(), one, t), log_rest))
    return reduced(_weighted(-gain, weight), how)  # type: ignore[operator]


def _bounded_log(p: Tensor) -> Tensor:
    """log p, and -100 where it is below."""
    value = apply(Log(), p)
    least = filled(tuple(p.shape), p.dtype, -100.0)
    return apply(Where(), apply(Gt(), value, least), value, least)


@hot
@autocasts("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of sigmoid(input), without overflow; `pos_weight` multiplies the part of positive targets.

    >>> import jitgrad as jg
    >>> jg.nn.functional.binary_cross_entropy_with_logits(jg.zeros(2), jg.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    how = reduction_name("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    x = check_tensor(input, "binary_cross_entropy_with_logits")
    _same_shape("binary_cross_entropy_with_logits", x, target)
    soft = pointwise(Softplus(1.0, math.inf), -x)  # type: ignore[operator]
    one_less = pointwise(Sub(), 1, target)
    if pos_weight is not None:
        soft = pointwise(Mul(), soft, pointwise(Add(), pointwise(Mul(), pointwise(Sub(), pos_weight, 1), target), 1))
    return reduced(_weighted(pointwise(Add(), pointwise(Mul(), one_less, x), soft), weight), how)


@hot
@autocasts("kl_div")
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """`t (log t - input)` for log-probabilities `input` and probabilities t, which may be given as logarithms too.

    `reduction="batchmean"` divides the sum by the length of the first axis.
    """
    how = reduction_name("kl_div", "sum" if reduction == "batchmean" else reduction, size_average, reduce)
    x, t = broadcast("kl_div", result_dtype(input, target), input, target)
    if log_target:
        loss = apply(Mul(), apply(Exp(), t), apply(Sub(), t, x))
    else:
        zero, one = (filled(tuple(t.shape), t.dtype, n) for n in (0, 1))
        nothing = apply(Eq(), t, zero)
        log_t = apply(Log(), apply(Where(), nothing, one, t))
        loss = apply(Sub(), apply(Where(), nothing, zero, apply(Mul(), t, log_t)), apply(Mul(), t, x))
    total = reduced(loss, how)
    return total / input.shape[0] if reduction == "batchmean" and input.ndim else total  # type: ignore[operator, no-any-return]
