"""Where the extremes are: `ArgMax` and `ArgMin`."""

from __future__ import annotations

import math

import numpy as np

from .. import dtypes, scalar
from ..dtypes import DType
from ..errors import DTypeError, operand_lines
from ..op import Array, Reduction, op
from ..scalar import Expr
from ..types import TensorType
from .reduction import check_not_empty, highest, lowest

__all__ = ["ArgMax", "ArgMin"]

_NOWHERE = int(np.iinfo(np.int64).max)


class _ArgExtreme(Reduction):
    """The row-major position, among `axes`, of the extreme: the first of equals; NaN goes before all."""

    differentiable = False

    def result_dtype(self, operand: DType) -> DType:
        """int64."""
        return dtypes.int64

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers, at least one in each group."""
        (x,) = operands
        if x.dtype.is_complex:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        out = super().infer(*operands)
        check_not_empty(self, x)
        return out

    def _rows(self, x: Array) -> Array:
        """The reduced axes behind the others and joined."""
        kept = [a for a in range(x.ndim) if a not in self.axes]
        length = math.prod(x.shape[a] for a in self.axes)
        return x.transpose(*kept, *self.axes).reshape(*(x.shape[a] for a in kept), length)

    def _is_beyond(self, left: Expr, right: Expr) -> Expr:
        raise NotImplementedError

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """Take the element if it is more extreme, or as extreme and earlier."""
        return self.merge(accumulators, (element, position))

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The more extreme; of equals the earlier, in whatever order they come."""
        (have, at), (new, there) = left, right
        beyond, equal = self._is_beyond(new, have), new.eq(have)
        if have.dtype.is_floating_point:
            new_nan, have_nan = scalar.is_nan(new), scalar.is_nan(have)
            beyond = beyond | (new_nan & ~have_nan)
            equal = equal | (new_nan & have_nan)
        taken = beyond | (equal & (there < at))
        return scalar.where(taken, new, have), scalar.where(taken, there, at)

    def finish(self, accumulators: tuple[Expr, ...], dtype: DType) -> Expr:
        """The position."""
        return accumulators[1]


@op
class ArgMax(_ArgExtreme):
    """Where the largest element is: the first of equals; NaN is largest. Positions are row-major, int64."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "argmax"

    def reference(self, *operands: Array) -> Array:
        """`numpy.argmax`."""
        (x,) = operands
        found = np.argmax(self._rows(x), axis=-1) if x.size else ()
        return np.asarray(found, np.int64).reshape(self.reduced_shape(x.shape))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The lowest value, nowhere."""
        return scalar.const(lowest(dtype), dtype), scalar.const(_NOWHERE)

    def _is_beyond(self, left: Expr, right: Expr) -> Expr:
        return left > right


@op
class ArgMin(_ArgExtreme):
    """Where the smallest element is: the first of equals; NaN is smallest. Positions are row-major, int64."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "argmin"

    def reference(self, *operands: Array) -> Array:
        """`numpy.argmin`."""
        (x,) = operands
        found = np.argmin(self._rows(x), axis=-1) if x.size else ()
        return np.asarray(found, np.int64).reshape(self.reduced_shape(x.shape))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The highest value, nowhere."""
        return scalar.const(highest(dtype), dtype), scalar.const(_NOWHERE)

    def _is_beyond(self, left: Expr, right: Expr) -> Expr:
        return left < right
