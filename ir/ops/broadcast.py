"""Repeating values along axes and summing along axes: each is the other's transpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..dtypes import DType
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Load, Reduction, Values, View, op
from ..scalar import Expr
from ..tracked import always_equal
from ..types import Shape, TensorType
from .shape import Reshape

__all__ = ["BroadcastTo", "Sum", "Total", "accumulator_dtype", "expand_reduced"]

add_reduce: Any = np.add.reduce  # what numpy.sum calls; its stubs know no tuple of axes with a variable keepdims


def accumulator_dtype(dtype: DType) -> DType:
    """The type that sums of `dtype` are kept in: float32 for the half types, else the type itself."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def _writeable(wanted: Shape) -> Callable[[Array], Array]:
    """Shows an array repeated to a shape, as writeable as it is."""

    def show(x: Array) -> Array:
        shown = np.broadcast_to(x, wanted)
        if x.flags.writeable:
            shown.flags.writeable = True
        return shown

    return show


def _spread(shape: Shape, wanted: Shape) -> Callable[[Array], Array]:
    """The same for arrays of one shape, in one step where they lie without gaps."""
    extra, otherwise = len(wanted) - len(shape), _writeable(wanted)
    known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def show(x: Array) -> Array:
        if not x.flags.c_contiguous or x.dtype.kind == "V":  # bfloat16 has no buffers
            return otherwise(x)
        steps = x.strides
        strides = known.get(steps)
        if strides is None:
            axes = zip(steps, shape, wanted[extra:], strict=True)
            strides = known[steps] = (*(0,) * extra, *[s if n == m else 0 for s, n, m in axes])
        return np.ndarray(wanted, x.dtype, x, 0, strides)

    return show


def _is_stretched(have: int, want: int) -> bool:
    """Whether an axis is not of the wanted length; one of length 1 is taken for stretched to whatever may vary."""
    return not always_equal(have, want) and (always_equal(have, 1) or have != want)


@op
class BroadcastTo(View):
    """The operand repeated to `shape`: new axes in front, and axes of length 1 stretched."""

    shape: Shape
    name = "broadcast_to"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Trailing axes are equal, or 1 in the operand."""
        (x,) = operands
        extra = len(self.shape) - x.ndim
        if extra < 0:
            raise ShapeError(
                f"broadcast_to: {x.ndim} axes do not fit the {len(self.shape)} of {list(self.shape)}"
                f"{operand_lines(operands)}"
            )
        for axis, (have, want) in enumerate(zip(x.shape, self.shape[extra:], strict=True)):
            if have is not want and _is_stretched(have, want) and have != 1:
                raise ShapeError(
                    f"broadcast_to: axis {axis} has length {have}, which does not stretch to {want} "
                    f"in {list(self.shape)}{operand_lines(operands)}"
                )
        return (x.with_shape(self.shape),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """New axes stand behind that of the samples."""
        (x,) = operands
        extra = len(self.shape) - (x.ndim - 1)
        if extra:
            x = b(Reshape((size, *(1,) * extra, *x.shape[1:])), x)
        return (b(BroadcastTo((size, *self.shape)), x),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.broadcast_to`, a read-only view."""
        return np.broadcast_to(operands[0], self.shape)

    def prepared(self, shape: Shape) -> Callable[[Array], Array]:
        """The same memory with strides of 0: `numpy.broadcast_to` takes longer than all else about a small view."""
        return _spread(shape, self.shape) if math.prod(self.shape) else _writeable(self.shape)

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """Stretched axes are read at 0."""
        (load,) = operands
        extra = len(self.shape) - load.type.ndim
        zero = scalar.const(0)
        pairs = zip(load.type.shape, self.shape[extra:], index[extra:], strict=True)
        return load(tuple(zero if _is_stretched(have, want) else i for have, want, i in pairs))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The sum over the repeated axes."""
        (g,) = cotangents
        assert g is not None
        shape = operands[0].shape
        extra = len(self.shape) - len(shape)
        stretched = tuple(a for a, n in enumerate(shape) if n != self.shape[extra + a])
        if not extra:
            return (b(Sum(stretched, True), g) if stretched else g,)
        g = b(Sum((*range(extra), *(extra + a for a in stretched)), False), g)
        return (b(Reshape(shape), g) if stretched else g,)


def expand_reduced(b: Builder, value: Value, axes: tuple[int, ...], keepdim: bool, shape: Shape) -> Value:
    """A reduction's result (or its cotangent) repeated to the operand's `shape`."""
    if not keepdim:
        value = b(Reshape(tuple(1 if a in axes else n for a, n in enumerate(shape))), value)
    return b(BroadcastTo(shape), value)


class Total(Reduction):
    """A reduction that adds up in one accumulator."""

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """Zero."""
        return (scalar.const(0, accumulator_dtype(dtype)),)

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Add the totals."""
        return (left[0] + right[0],)

    def finish(self, accumulators: tuple[Expr, ...], dtype: DType) -> Expr:
        """The total in the operand's type."""
        return scalar.convert(accumulators[0], dtype)


@op
class Sum(Total):
    """The sum over `axes`. Half types are summed in float32; integers wrap at their width."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "sum"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Numbers: bools are converted by the frontend."""
        if operands[0].dtype.kind == "bool":
            raise DTypeError(f"sum: not defined for bool{operand_lines(operands)}")
        return super().infer(*operands)

    def reference(self, *operands: Array) -> Array:
        """`numpy.sum` in the accumulator's type."""
        (x,) = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        with np.errstate(all="ignore"):
            total = add_reduce(x, axis=self.axes, keepdims=self.keepdim, dtype=wide)
        return np.asarray(total, dtype=x.dtype)

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """Add the element."""
        (total,) = accumulators
        return (total + scalar.convert(element, total.dtype),)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent repeated over the summed axes."""
        (g,) = cotangents
        assert g is not None
        return (expand_reduced(b, g, self.axes, self.keepdim, operands[0].shape),)
