"""Reductions other than the sum: extremes and where they are, products, and tests of all elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import scalar
from ..builder import Builder
from ..dtypes import DType
from ..errors import ArgumentError, DTypeError, operand_lines
from ..op import Array, Cotangents, Reduction, Values, op
from ..scalar import Expr, Number
from ..types import TensorType
from .arithmetic import Div, Mul
from .broadcast import Sum, expand_reduced
from .comparison import Eq
from .select import Convert

__all__ = ["Amax", "Amin"]


def lowest(dtype: DType) -> Number:
    """The smallest value of a real dtype: minus infinity for floats."""
    if dtype.is_floating_point:
        return -math.inf
    return False if dtype.kind == "bool" else int(np.iinfo(dtype.np).min)


def highest(dtype: DType) -> Number:
    """The largest value of a real dtype: infinity for floats."""
    if dtype.is_floating_point:
        return math.inf
    return True if dtype.kind == "bool" else int(np.iinfo(dtype.np).max)


class _Extreme(Reduction):
    """The largest or smallest element; NaN if any is. Equal ones share the gradient."""

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers, at least one in each group."""
        (x,) = operands
        if x.dtype.is_complex:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        out = super().infer(*operands)
        for axis in self.axes:
            if x.shape[axis] == 0 and out[0].numel != 0:
                raise ArgumentError(
                    f"{self.name}: axis {axis} has length 0, and no elements have no {self.name}"
                    f"{operand_lines(operands)}"
                )
        return out

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """To the elements equal to the result, in equal shares."""
        (g,) = cotangents
        assert g is not None
        (x,), (y,) = operands, results
        taken = b(Eq(), x, expand_reduced(b, y, self.axes, self.keepdim, x.shape))
        weight = b(Convert(x.type.dtype), taken)
        count = b(Sum(self.axes, self.keepdim), weight)
        share = expand_reduced(b, b(Div(), g, count), self.axes, self.keepdim, x.shape)
        return (b(Mul(), weight, share),)


@op
class Amax(_Extreme):
    """The largest element over `axes`; NaN if any is. Equal ones share the gradient."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "amax"

    def reference(self, *operands: Array) -> Array:
        """`numpy.max`."""
        return np.asarray(np.max(operands[0], axis=self.axes, keepdims=self.keepdim))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The lowest value."""
        return (scalar.const(lowest(dtype), dtype),)

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """The larger."""
        return self.merge(accumulators, (element,))

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The larger."""
        is_bool = left[0].dtype.kind == "bool"
        return (left[0] | right[0] if is_bool else scalar.maximum(left[0], right[0]),)


@op
class Amin(_Extreme):
    """The smallest element over `axes`; NaN if any is. Equal ones share the gradient."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "amin"

    def reference(self, *operands: Array) -> Array:
        """`numpy.min`."""
        return np.asarray(np.min(operands[0], axis=self.axes, keepdims=self.keepdim))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The highest value."""
        return (scalar.const(highest(dtype), dtype),)

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """The smaller."""
        return self.merge(accumulators, (element,))

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The smaller."""
        is_bool = left[0].dtype.kind == "bool"
        return (left[0] & right[0] if is_bool else scalar.minimum(left[0], right[0]),)
