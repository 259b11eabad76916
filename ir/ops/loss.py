"""Losses: `CrossEntropy`, `NllLoss` and `MseLoss`. Half types are computed in float32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import ArgumentError, AutogradError, DimError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, Values, op
from ..types import TensorType
from .broadcast import Sum, accumulator_dtype
from .check import CheckRange
from .comparison import Eq, Ne
from .creation import Full, Iota
from .formula import Term
from .logical import LogicalAnd
from .shape import Reshape
from .softmax import LogSoftmax, Softmax

__all__ = ["CrossEntropy", "MseLoss", "NllLoss"]

_REDUCTIONS = ("none", "mean", "sum")


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ArgumentError(f"{name}: reduction must be 'none', 'mean' or 'sum', not {reduction!r}")


def _class_axis(x: Any) -> int:
    """Of a type, a value or an array."""
    return 1 if x.ndim > 1 else 0


def _reduced(loss: Term, reduction: str, count: Term | float | None) -> Term:
    """The losses, their sum, or their sum over `count`."""
    if reduction == "none":
        return loss
    total = loss.apply(Sum(tuple(range(loss.value.ndim)), False))
    return total if reduction == "sum" or count is None else total / count


class _Parts:
    """The terms that losses with class targets are made of; floats in float32 for the half types."""

    def __init__(self, b: Builder, operands: Values) -> None:
        x, target, *weights = operands
        wide = accumulator_dtype(x.type.dtype)
        self.shape = x.shape
        self.axis = _class_axis(x)
        self.classes = x.shape[self.axis]
        self.b, self.dtype, self._x = b, wide, x
        self.target = Term(b, target).convert(dtypes.int64)
        classes = Term(b, b(Iota(x.shape, self.axis, dtypes.int64, x.type.device)))
        self.is_target = classes.apply(Eq(), self.target.expand_axis(self.axis, x.shape))
        self.weight: Term | None = None
        if weights:
            line = tuple(self.classes if a == self.axis else 1 for a in range(x.ndim))
            self.weight = Term(b, weights[0]).convert(wide).apply(Reshape(line)).expand(x.shape)

    @property
    def x(self) -> Term:
        """The scores."""
        return Term(self.b, self._x).convert(self.dtype)

    def counted(self, ignore_index: int) -> Term:
        """Which targets count."""
        return self.target.apply(Ne(), ignore_index)

    def in_range(self) -> Term:
        """Which targets name a class."""
        return (self.target >= 0).apply(LogicalAnd(), self.target < self.classes)

    def over_classes(self, values: Term) -> Term:
        """The sum over the class axis, left out."""
        return values.apply(Sum((self.axis,), False))

    def at_target(self, values: Term) -> Term:
        """The values at the target's class."""
        return self.over_classes(self.is_target.choose(values, 0))

    def target_weight(self) -> Term:
        """The weight of each target's class."""
        if self.weight is None:
            t = self.target.value.type
            return Term(self.b, self.b(Full(t.shape, self.dtype, 1, t.device)))
        return self.at_target(self.weight)

    def target_distribution(self, smoothing: float) -> Term:
        """The weighted probabilities that the target gives to the classes."""
        share = smoothing / self.classes if smoothing else 0.0
        t = self.is_target.value.type
        peak = Term(self.b, self.b(Full(t.shape, self.dtype, 1 - smoothing + share, t.device)))
        certain = self.is_target.choose(peak, share)
        return certain if self.weight is None else certain * self.weight


class _ClassLoss(Op):
    """A loss of log-probabilities at the classes that a target names. Classes are on axis 1, or 0 if alone.

    Fields have PyTorch's meanings. Operands: the scores, the integer target with the class axis left out, and
    optionally a weight for each class. Targets equal to `ignore_index` count for nothing. Other targets out
    of range raise `IndexError`.
    """

    reduction: str
    ignore_index: int

    def value_checks(self, *operands: TensorType) -> Sequence[tuple[int, Op]]:
        """Every target names a class."""
        x = operands[0]
        return ((1, CheckRange(self.name, 0, x.shape[_class_axis(x)], self.ignore_index)),)

    def smoothing(self) -> float:
        """The share of the target's probability that is spread over all classes."""
        return 0.0

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Floating-point scores, an integer target of matching shape, one weight per class."""
        x, target = operands[:2]
        if not x.dtype.is_floating_point:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        if target.dtype.kind != "int":
            raise DTypeError(f"{self.name}: the target is {target.dtype.name}, not integer{operand_lines(operands)}")
        axis = _class_axis(x)
        if x.ndim < 1 or target.shape != (*x.shape[:axis], *x.shape[axis + 1 :]):
            raise ShapeError(
                f"{self.name}: the target's shape must be the input's without axis {axis}{operand_lines(operands)}"
            )
        for weight in operands[2:]:
            if weight.shape != (x.shape[axis],) or weight.dtype is not x.dtype:
                raise ShapeError(
                    f"{self.name}: the weight must be {x.dtype.short}[{x.shape[axis]}]{operand_lines(operands)}"
                )
        return (x.with_shape(target.shape if self.reduction == "none" else ()),)

    def _log_probabilities(self, parts: _Parts) -> Term:
        return parts.x

    def _log_probabilities_reference(self, x: Array, axis: int) -> Array:
        return x

    def _score_gradient(self, parts: _Parts, slope: Term) -> Term:
        return parts.is_target.choose(-slope if parts.weight is None else -slope * parts.weight, 0)

    def _count(self, parts: _Parts) -> Term:
        """What a mean divides by: the weights of the targets that count."""
        weights = parts.counted(self.ignore_index).choose(parts.target_weight(), 0)
        return weights.apply(Sum(tuple(range(weights.value.ndim)), False))

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Scores at the target, picked by comparing, weighted and averaged."""
        parts = _Parts(b, operands)
        logp = self._log_probabilities(parts)
        loss = parts.in_range().choose(-parts.at_target(logp), math.nan)
        if parts.weight is not None:
            loss = loss * parts.target_weight()
        if self.smoothing():
            spread = logp if parts.weight is None else logp * parts.weight
            share = self.smoothing() / parts.classes
            loss = loss * (1 - self.smoothing()) - parts.over_classes(spread) * share
        loss = parts.counted(self.ignore_index).choose(loss, 0)
        count = self._count(parts) if self.reduction == "mean" else None
        return (_reduced(loss, self.reduction, count).convert(operands[0].type.dtype).value,)

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        x, target, *weights = operands
        axis = _class_axis(x)
        counted = target != self.ignore_index
        outside = counted & ((target < 0) | (target >= x.shape[axis]))
        if outside.any():
            bad = int(target[outside].flat[0])
            raise DimError(f"{self.name}: target {bad} is out of range for {x.shape[axis]} classes")
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        with np.errstate(all="ignore"):
            loss, count = self._losses(x.astype(wide, copy=False), target, counted, axis, weights)
            if self.reduction != "none":
                loss = loss.sum() / (count if self.reduction == "mean" else 1)
        return np.asarray(loss, dtype=x.dtype)

    def _losses(
        self, x: Array, target: Array, counted: Array, axis: int, weights: Sequence[Array]
    ) -> tuple[Array, Array]:
        """The losses, and what a mean divides by."""
        logp = self._log_probabilities_reference(x, axis)
        named = np.where(counted, target, 0)
        loss = -np.take_along_axis(logp, np.expand_dims(named, axis), axis).squeeze(axis)
        per_target = np.ones(target.shape, x.dtype)
        if weights:
            weight = weights[0].astype(x.dtype, copy=False)
            per_target = weight[named]
            logp = logp * weight.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
            loss = loss * per_target
        if self.smoothing():
            share = x.dtype.type(self.smoothing() / x.shape[axis])
            loss = loss * x.dtype.type(1 - self.smoothing()) - logp.sum(axis) * share
        return np.where(counted, loss, x.dtype.type(0)), np.where(counted, per_target, 0).sum()

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Minus the loss's slope at the target's class; for cross entropy, plus it times the softmax."""
        (g,) = cotangents
        assert g is not None
        if any(needs[2:]):
            raise AutogradError(f"{self.name}: the derivative for the class weights is not defined")
        parts = _Parts(b, operands)
        slope = Term(b, g).convert(parts.dtype)
        if self.reduction == "mean":
            slope = slope / self._count(parts)
        slope = parts.counted(self.ignore_index).choose(slope.expand(parts.target.value.shape), 0)
        grad = self._score_gradient(parts, slope.expand_axis(parts.axis, parts.shape))
        return grad.convert(operands[0].type.dtype).value, *(None for _ in operands[1:])


@op
class NllLoss(_ClassLoss):
    """The negative log-likelihood of the target classes, given log-probabilities: PyTorch's `nll_loss`.

    >>> import numpy as np
    >>> NllLoss("none").reference(np.log([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1])).round(4)
    array([0.6931, 0.2877])
    """

    reduction: str = "mean"
    ignore_index: int = -100
    name = "nll_loss"

    def __post_init__(self) -> None:
        _check_reduction(self.name, self.reduction)


@op
class CrossEntropy(_ClassLoss):
    """The cross entropy of the softmax of scores against target classes: `torch.nn.functional.cross_entropy`.

    `label_smoothing` is the share of the target's probability that is spread evenly over all classes.

    >>> import numpy as np
    >>> print(CrossEntropy().reference(np.zeros((3, 2)), np.array([0, 1, 1])).round(4))
    0.6931
    """

    reduction: str = "mean"
    ignore_index: int = -100
    label_smoothing: float = 0.0
    name = "cross_entropy"
    copies_on_write = True

    def __post_init__(self) -> None:
        _check_reduction(self.name, self.reduction)
        if not 0 <= self.label_smoothing <= 1:
            raise ArgumentError(f"cross_entropy: label_smoothing must be between 0 and 1, not {self.label_smoothing}")

    def smoothing(self) -> float:
        """`label_smoothing`."""
        return self.label_smoothing

    def _log_probabilities(self, parts: _Parts) -> Term:
        return parts.x.apply(LogSoftmax(parts.axis))

    def _log_probabilities_reference(self, x: Array, axis: int) -> Array:
        return LogSoftmax(axis).reference(x)

    def _score_gradient(self, parts: _Parts, slope: Term) -> Term:
        """`slope (sum(q) softmax(x) - q)` for target probabilities `q`, which sum to 1 without weights."""
        q = parts.target_distribution(self.label_smoothing)
        p = parts.x.apply(Softmax(parts.axis))
        if parts.weight is not None:
            p = p * parts.over_classes(q).expand_axis(parts.axis, parts.shape)
        return slope * (p - q)


@op
class MseLoss(Op):
    """The squared differences of two tensors, their mean or their sum: `torch.nn.functional.mse_loss`.

    >>> import numpy as np
    >>> MseLoss().reference(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    array(2.)
    """

    reduction: str = "mean"
    name = "mse_loss"

    def __post_init__(self) -> None:
        _check_reduction(self.name, self.reduction)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Two operands of one floating-point type."""
        x, y = operands
        if x.shape != y.shape:
            raise ShapeError(f"mse_loss: operand shapes differ{operand_lines(operands)}")
        if x.dtype is not y.dtype or not x.dtype.is_floating_point:
            raise DTypeError(f"mse_loss: the operands must be of one float type{operand_lines(operands)}")
        return (x if self.reduction == "none" else x.with_shape(()),)

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        x, y = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        with np.errstate(all="ignore"):
            difference = x.astype(wide, copy=False) - y.astype(wide, copy=False)
            loss = difference * difference
            if self.reduction != "none":
                loss = loss.sum() / wide.type(x.size if self.reduction == "mean" else 1)
        return np.asarray(loss, dtype=x.dtype)

    def _difference(self, b: Builder, operands: Values) -> Term:
        """In float32 for the half types."""
        x, y = operands
        wide = accumulator_dtype(x.type.dtype)
        return Term(b, x).convert(wide) - Term(b, y).convert(wide)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Difference, square, sum."""
        d = self._difference(b, operands)
        return (_reduced(d * d, self.reduction, operands[0].size).convert(operands[0].type.dtype).value,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`2 g (x - y)`, over the number of elements for a mean; for `y` its negative."""
        (g,) = cotangents
        assert g is not None
        d = self._difference(b, operands)
        slope = Term(b, g).convert(d.value.type.dtype) * 2
        if self.reduction == "mean":
            slope = slope / operands[0].size
        grad = (slope.expand(operands[0].shape) * d).convert(operands[0].type.dtype)
        return grad.value if needs[0] else None, (-grad).value if needs[1] else None
