"""Mean and variance, composites over sums, and sums of squares. Half types are computed in float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..errors import DTypeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, Reduction, Values, op
from ..scalar import Expr
from ..types import Shape, TensorType
from .arithmetic import Add, Div, Mul, Sub
from .broadcast import Sum, Total, accumulator_dtype, add_reduce, expand_reduced
from .creation import full_like
from .select import Convert

__all__ = ["Mean", "SumOfSquares", "Var"]


class _Statistic(Op):
    """A composite with a reduction's axes."""

    batchable = True

    axes: tuple[int, ...]
    keepdim: bool
    accepts: ClassVar[tuple[str, ...]] = ("float",)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """As a sum's, for floats."""
        (x,) = operands
        if x.dtype.kind not in self.accepts:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        Reduction.check_axes(self.name, self.axes, x)
        return (x.with_shape(Sum(self.axes, self.keepdim).reduced_shape(x.shape)),)

    def count(self, shape: Shape) -> int:
        """How many elements make one result."""
        return math.prod(shape[a] for a in self.axes)


def _converted(b: Builder, value: Value, like: Value) -> Value:
    dtype = like.type.dtype
    return value if value.type.dtype is dtype else b(Convert(dtype), value)


def _widened(b: Builder, value: Value) -> Value:
    wide = accumulator_dtype(value.type.dtype)
    return value if wide is value.type.dtype else b(Convert(wide), value)


@op
class Mean(_Statistic):
    """The mean over `axes`; NaN of no elements."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "mean"
    accepts = ("float", "complex")

    def reference(self, *operands: Array) -> Array:
        """`numpy.add.reduce` over the count, as the decomposition does."""
        (x,) = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        with np.errstate(all="ignore"):
            total = add_reduce(x, axis=self.axes, keepdims=self.keepdim, dtype=wide)
            return np.asarray(np.true_divide(total, wide.type(self.count(x.shape))), dtype=x.dtype)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """The sum over the count."""
        (x,) = operands
        total = b(Sum(self.axes, self.keepdim), _widened(b, x))
        return (_converted(b, b(Div(), total, full_like(b, total, self.count(x.shape))), x),)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent over the count, repeated."""
        (g,) = cotangents
        assert g is not None
        shape = operands[0].shape
        share = b(Div(), g, full_like(b, g, self.count(shape)))
        return (expand_reduced(b, share, self.axes, self.keepdim, shape),)


@op
class Var(_Statistic):
    """The variance over `axes` of real numbers, with `correction` taken off the count that divides.

    Two passes: the mean first, then the squares of the distances from it.
    """

    axes: tuple[int, ...]
    keepdim: bool = False
    correction: float = 1.0
    name = "var"

    def _divisor(self, shape: Shape) -> float:
        return max(self.count(shape) - self.correction, 0.0)

    def _deviation(self, b: Builder, x: Value) -> Value:
        mean = expand_reduced(b, b(Mean(self.axes, True), x), self.axes, True, x.shape)
        return b(Sub(), x, mean)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """The sum of squared deviations over the corrected count."""
        (x,) = operands
        deviation = self._deviation(b, _widened(b, x))
        total = b(Sum(self.axes, self.keepdim), b(Mul(), deviation, deviation))
        return (_converted(b, b(Div(), total, full_like(b, total, self._divisor(x.shape))), x),)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`2 g (x - mean) / divisor`."""
        (g,) = cotangents
        assert g is not None
        (x,) = operands
        wide = _widened(b, x)
        share = _widened(b, g)
        share = b(Div(), b(Mul(), share, full_like(b, share, 2.0)), full_like(b, share, self._divisor(x.shape)))
        spread = expand_reduced(b, share, self.axes, self.keepdim, x.shape)
        return (_converted(b, b(Mul(), spread, self._deviation(b, wide)), x),)


@op
class SumOfSquares(Total):
    """The sum of squares over `axes` of real floats."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "sum_of_squares"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Of floats."""
        (x,) = operands
        if not x.dtype.is_floating_point:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        return super().infer(x)

    def reference(self, *operands: Array) -> Array:
        """In float64, rounded to the accumulators' type at the end: as if no square was rounded, as in kernels."""
        (x,) = operands
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(add_reduce(wide * wide, axis=self.axes, keepdims=self.keepdim), x.dtype)

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """Add the square, which is not rounded before."""
        (total,) = accumulators
        x = scalar.convert(element, total.dtype)
        return (scalar.fma(x, x, total),)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`2 g x`."""
        (g,) = cotangents
        assert g is not None
        (x,) = operands
        spread = expand_reduced(b, b(Add(), g, g), self.axes, self.keepdim, x.shape)
        return (b(Mul(), spread, x),)
