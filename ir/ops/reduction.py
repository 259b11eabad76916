"""Reductions other than the sum: extremes, products, and tests of all elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..dtypes import DType
from ..errors import ArgumentError, DTypeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Reduction, Values, op
from ..scalar import Expr, Number
from ..types import TensorType
from .arithmetic import Div, Mul
from .broadcast import Sum, accumulator_dtype, expand_reduced
from .comparison import Eq
from .complex import conj
from .creation import Full
from .select import Convert
from .shape import Permute, Reshape
from .slicing import Concat, Slice

__all__ = ["All", "Amax", "Amin", "Any", "Prod", "check_not_empty", "highest", "lowest"]


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


def check_not_empty(reduction: Reduction, operand: TensorType) -> None:
    """Raise for a reduction that has no value for no elements, if that is asked for."""
    for axis in reduction.axes:
        if operand.shape[axis] == 0 and 0 not in reduction.reduced_shape(operand.shape):
            raise ArgumentError(
                f"{reduction.name}: axis {axis} has length 0, and no elements have no {reduction.name}"
                f"{operand_lines([operand])}"
            )


class _Extreme(Reduction):
    """The largest or smallest element; NaN if any is. Equal ones share the gradient."""

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers, at least one in each group."""
        (x,) = operands
        if x.dtype.is_complex:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        out = super().infer(*operands)
        check_not_empty(self, operands[0])
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
        """`numpy.max`, which refuses an axis of length 0 even where there is no result."""
        (x,) = operands
        if not x.size:
            return np.empty(self.reduced_shape(x.shape), x.dtype)
        return np.asarray(np.max(x, axis=self.axes, keepdims=self.keepdim))

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
        """`numpy.min`, which refuses an axis of length 0 even where there is no result."""
        (x,) = operands
        if not x.size:
            return np.empty(self.reduced_shape(x.shape), x.dtype)
        return np.asarray(np.min(x, axis=self.axes, keepdims=self.keepdim))

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


@op
class Prod(Reduction):
    """The product over `axes`. Half types are multiplied in float32; integers wrap at their width.

    The gradient never divides, so that zeros are no special case.
    """

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "prod"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Numbers: bools are converted by the frontend."""
        if operands[0].dtype.kind == "bool":
            raise DTypeError(f"prod: not defined for bool{operand_lines(operands)}")
        return super().infer(*operands)

    def reference(self, *operands: Array) -> Array:
        """`numpy.prod` in the accumulator's type."""
        (x,) = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        with np.errstate(all="ignore"):
            return np.asarray(np.prod(x, axis=self.axes, keepdims=self.keepdim, dtype=wide)).astype(x.dtype)

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """One."""
        return (scalar.const(1, accumulator_dtype(dtype)),)

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """Multiply by the element."""
        (total,) = accumulators
        return (total * scalar.convert(element, total.dtype),)

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Multiply."""
        return (left[0] * right[0],)

    def finish(self, accumulators: tuple[Expr, ...], dtype: DType) -> Expr:
        """The product in the operand's type."""
        return scalar.convert(accumulators[0], dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The product of all other elements, by way of a tree of products."""
        (g,) = cotangents
        assert g is not None
        (x,) = operands
        kept = tuple(a for a in range(x.ndim) if a not in self.axes)
        perm = (*kept, *self.axes)
        moved = b(Permute(perm), x)
        rows = tuple(x.shape[a] for a in kept)
        length = math.prod(x.shape[a] for a in self.axes)
        leaves = b(Reshape((*rows, length)), moved)
        if length < 2:  # the operand is used whatever its shape, because what a rule uses must not depend on it
            ones = b(Full((*rows, 2 - length), x.type.dtype, 1, x.type.device))
            leaves = b(Concat(len(rows)), leaves, ones)
        grad = _product_tree_gradient(b, leaves, b(Reshape((*rows, 1)), g))
        grad = _part(b, grad, 0, length)
        back = tuple(perm.index(a) for a in range(x.ndim))
        return (b(Permute(back), b(Reshape(moved.shape), grad)),)


def _product_tree_gradient(b: Builder, leaves: Value, g: Value) -> Value:
    """The cotangent of `leaves`, multiplied along the last axis in pairs, pairs of pairs, and so on.

    Down from the root, each factor's cotangent is its product's times the other factor.
    """
    levels = [leaves]
    while levels[-1].shape[-1] > 2:
        low, high, rest = _halves(b, levels[-1])
        levels.append(b(Concat(leaves.ndim - 1), b(Mul(), low, high), *rest))
    for level in reversed(levels):
        low, high, _ = _halves(b, level)
        pair = level.shape[-1] // 2
        of_product, of_rest = _part(b, g, 0, pair), [_part(b, g, pair, 1)] if level.shape[-1] % 2 else []
        of_low = b(Mul(), of_product, conj(b, high))
        of_high = b(Mul(), of_product, conj(b, low))
        g = b(Concat(leaves.ndim - 1), of_low, of_high, *of_rest)
    return g


def _part(b: Builder, x: Value, start: int, size: int) -> Value:
    """`size` elements along the last axis from `start` on."""
    if size == x.shape[-1]:
        return x
    lead = x.ndim - 1
    return b(Slice((0,) * lead + (start,), (*x.shape[:-1], size), (1,) * x.ndim), x)


def _halves(b: Builder, x: Value) -> tuple[Value, Value, list[Value]]:
    """Two equal parts along the last axis, and the last element if it is left over."""
    size = x.shape[-1] // 2
    rest = [_part(b, x, 2 * size, 1)] if x.shape[-1] % 2 else []
    return _part(b, x, 0, size), _part(b, x, size, size), rest


class _TruthReduction(Reduction):
    """Folds truth values: elements are true where they are not zero. The result is bool."""

    differentiable = False

    def result_dtype(self, operand: DType) -> DType:
        """Bool."""
        return dtypes.bool_

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """Fold in whether the element is not zero."""
        return self.merge(accumulators, (scalar.convert(element, dtypes.bool_),))


@op
class Any(_TruthReduction):
    """Whether any element over `axes` is non-zero; of no elements, False."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "any"

    def reference(self, *operands: Array) -> Array:
        """`numpy.any`."""
        return np.asarray(np.any(operands[0] != 0, axis=self.axes, keepdims=self.keepdim))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """False."""
        return (scalar.const(False, dtypes.bool_),)

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Or."""
        return (left[0] | right[0],)


@op
class All(_TruthReduction):
    """Whether all elements over `axes` are non-zero; of no elements, True."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "all"

    def reference(self, *operands: Array) -> Array:
        """`numpy.all`."""
        return np.asarray(np.all(operands[0] != 0, axis=self.axes, keepdims=self.keepdim))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """True."""
        return (scalar.const(True, dtypes.bool_),)

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """And."""
        return (left[0] & right[0],)
