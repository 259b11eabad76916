"""Running extremes and the running logarithm of a sum of exponentials along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..dtypes import DType
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, ScanOp, Values, op
from ..scalar import Expr, Fn
from ..types import TensorType
from .arithmetic import Mul, Sub
from .broadcast import accumulator_dtype
from .comparison import Eq
from .complex import conj
from .creation import full_like, zeros_like
from .indexing import ScatterAdd
from .math import Exp
from .scan import LinearScan
from .select import Where
from .slicing import Concat, Slice

__all__ = ["CumMax", "CumMin", "LogCumSumExp"]


def _check_axis(name: str, axis: int, x: TensorType, kinds: tuple[str, ...]) -> None:
    if not 0 <= axis < x.ndim:
        raise ShapeError(f"{name}: axis {axis} is not among {x.ndim} axes{operand_lines([x])}")
    if x.dtype.kind not in kinds:
        raise DTypeError(f"{name}: not defined for {x.dtype.name}{operand_lines([x])}")


class _RunningExtreme(Op):
    """The extremes up to each element, and where along `axis` they are: the last of equals; NaN stays."""

    batchable = True

    axis: int
    ufunc: ClassVar[Any]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers with that axis; places are int64."""
        (x,) = operands
        _check_axis(self.name, self.axis, x, ("bool", "int", "float"))
        return x, x.with_dtype(dtypes.int64)

    def reference(self, *operands: Array) -> Array:
        """`ufunc.accumulate`, and the last places where the elements are equal to it."""
        (x,) = operands
        keys = x.astype(np.float32) if x.dtype == dtypes.bfloat16.np else x
        values = type(self).ufunc.accumulate(keys, axis=self.axis)
        steps = np.arange(x.shape[self.axis]).reshape([-1 if a == self.axis else 1 for a in range(x.ndim)])
        taken = (keys == values) | (keys != keys)
        places = np.maximum.accumulate(np.where(taken, steps, 0), axis=self.axis)
        return values.astype(x.dtype, copy=False), places.astype(np.int64, copy=False)

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by NumPy."""
        return False

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangents added up where the values came from."""
        g = cotangents[0]
        if g is None:
            return (None,)
        return (b(ScatterAdd(self.axis), zeros_like(b, g), results[1], g),)


@op
class CumMax(_RunningExtreme):
    """The largest elements up to each one along `axis`, and their places: the last of equals."""

    axis: int
    name = "cummax"
    ufunc = np.maximum


@op
class CumMin(_RunningExtreme):
    """The smallest elements up to each one along `axis`, and their places: the last of equals."""

    axis: int
    name = "cummin"
    ufunc = np.minimum


def _neighbours(b: Builder, x: Value, axis: int) -> tuple[Value, Value]:
    """All elements but the last along `axis`, and all but the first."""
    sizes = tuple(n - 1 if a == axis else n for a, n in enumerate(x.shape))
    ones, starts = (1,) * x.ndim, tuple(int(a == axis) for a in range(x.ndim))
    return b(Slice((0,) * x.ndim, sizes, ones), x), b(Slice(starts, sizes, ones), x)


def _exp_of_difference(b: Builder, x: Value, y: Value) -> Value:
    """exp(x - y), and 1 where they are equal, infinities included."""
    same = b(Eq(), x, y)
    difference = b(Where(), same, zeros_like(b, x), b(Sub(), x, y))
    return b(Exp(), difference)


def _log_add(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)) of complex numbers, without overflow."""
    larger = x.real >= y.real
    high: Array = np.where(larger, x, y)
    low: Array = np.where(larger, y, x)
    empty = np.isneginf(high.real)
    return np.where(empty, high, high + np.log1p(np.exp(low - np.where(empty, 0, high))))


def _log_add_expr(x: Expr, y: Expr) -> Expr:
    """log(exp(x) + exp(y)) without overflow, as `numpy.logaddexp` has it."""
    high, low = scalar.maximum(x, y), scalar.minimum(x, y)
    return scalar.where(x.eq(y), x + math.log(2.0), high + scalar.apply(Fn.LOG1P, scalar.exp(low - high)))


@op
class LogCumSumExp(ScanOp):
    """`log(cumsum(exp(x)))` along `axis`, without overflow. Half types are computed in float32."""

    axis: int
    name = "logcumsumexp"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Floats or complex numbers with that axis."""
        _check_axis(self.name, self.axis, operands[0], ("float", "complex"))
        return operands

    def reference(self, *operands: Array) -> Array:
        """`numpy.logaddexp.accumulate`; for complex numbers one step after another, on whole slices."""
        (x,) = operands
        with np.errstate(all="ignore"):
            if x.dtype.kind != "c":
                wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
                return np.logaddexp.accumulate(wide, axis=self.axis).astype(x.dtype, copy=False)
            out = np.moveaxis(x, self.axis, 0).copy()
            for i in range(1, len(out)):
                out[i] = _log_add(out[i], out[i - 1])
            return np.ascontiguousarray(np.moveaxis(out, 0, self.axis))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The logarithm of nothing."""
        return (scalar.const(-math.inf, accumulator_dtype(dtype)),)

    def step(self, accumulators: tuple[Expr, ...], elements: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """One more in the sum."""
        (total,), (x,) = accumulators, elements
        return (_log_add_expr(total, scalar.convert(x, total.dtype)),)

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Both sums together."""
        return (_log_add_expr(left[0], right[0]),)

    def finish(self, accumulators: tuple[Expr, ...], dtype: DType) -> Expr:
        """The logarithm."""
        return scalar.convert(accumulators[0], dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`sum(g[i] exp(y[j] - y[i]) for i >= j) exp(x[j] - y[j])`: a recurrence whose factors are below 1."""
        (g,) = cotangents
        assert g is not None
        (x,), (y,) = operands, results
        if x.shape[self.axis]:
            earlier, later = _neighbours(b, y, self.axis)
            last = full_like(b, _last(b, y, self.axis), 0.0)
            decay = b(Concat(self.axis), _exp_of_difference(b, earlier, later), last)
            g = b(LinearScan(self.axis, True), conj(b, decay), g)
        return (b(Mul(), g, conj(b, _exp_of_difference(b, x, y))),)


def _last(b: Builder, x: Value, axis: int) -> Value:
    """The last element along `axis`."""
    sizes = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    return b(Slice(tuple(n - 1 if a == axis else 0 for a, n in enumerate(x.shape)), sizes, (1,) * x.ndim), x)
