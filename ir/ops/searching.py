"""Finding values: in sorted sequences, among others, the most frequent one; counting them in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import DimError, DTypeError, OperationError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Op, Values, op
from ..types import TensorType
from .arranging import Arrange, Arranging, order, take
from .creation import zeros_like
from .indexing import ScatterAdd
from .sample_axis import all_batched
from .shape import Reshape

_FEW_PAIRS: Final = 1024  # of elements to compare

__all__ = ["BinCounts", "BinEdges", "Histc", "IsIn", "Mode", "SearchSorted"]


class _OnTheHost(Op):
    """Runs by NumPy, without a gradient."""

    differentiable = False

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by NumPy."""
        return False


def _comparable(x: Array) -> Array:
    """bfloat16 as float32, which NumPy can sort."""
    return x.astype(np.float32) if x.dtype == dtypes.bfloat16.np else x


@op
class SearchSorted(_OnTheHost):
    """Where in the sorted rows of the first operand the values of the second would be put in, as int64.

    Before equal elements, or behind them if `right`. The first operand is a vector, or has the second's axes but
    the last. NaN goes behind everything.
    """

    right: bool = False
    name = "searchsorted"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Two operands of one real dtype, of equal shapes but for the last axis."""
        edges, values = operands
        if edges.dtype is not values.dtype or edges.dtype.is_complex:
            raise DTypeError(f"searchsorted: needs two operands of one real dtype{operand_lines(operands)}")
        if edges.ndim != 1 and (values.ndim == 0 or edges.shape[:-1] != values.shape[:-1]):
            raise ShapeError(f"searchsorted: all axes but the last must agree{operand_lines(operands)}")
        return (values.with_dtype(dtypes.int64),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """Rows are searched each by itself; edges that are one row serve all of them."""
        edges, values = operands
        if edges.ndim - batched[0] == 1 and not batched[0]:
            return (b(self, edges, values),)
        if values.ndim - batched[1] != edges.ndim - batched[0]:
            return None
        return (b(self, *all_batched(b, operands, batched, size)),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.searchsorted`, or a binary search of all values at once."""
        edges, values = map(_comparable, operands)
        if edges.ndim == 1 and not (_has_nan(edges) or _has_nan(values)):
            return np.asarray(np.searchsorted(edges, values, "right" if self.right else "left"), np.int64)
        low, high = np.zeros(values.shape, np.int64), np.full(values.shape, edges.shape[-1], np.int64)
        for _ in range(edges.shape[-1].bit_length()):
            middle = np.minimum((low + high) // 2, edges.shape[-1] - 1)
            found = edges[middle] if edges.ndim == 1 else np.take_along_axis(edges, middle, -1)
            behind = ~(found > values) if self.right else ~(found >= values)
            searching = low < high
            low, high = np.where(searching & behind, middle + 1, low), np.where(searching & ~behind, middle, high)
        return low


def _has_nan(x: Array) -> bool:
    if x.dtype.kind != "f" or not x.size:
        return False
    least = np.minimum.reduce(x, axis=None)  # NaN if there is one
    return bool(least != least)


@op
class IsIn(_OnTheHost):
    """Which elements of the first operand are among those of the second (or, if `invert`, are not)."""

    invert: bool = False
    name = "isin"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Two operands of one dtype; the result is bool."""
        if operands[0].dtype is not operands[1].dtype:
            raise DTypeError(f"isin: operand dtypes differ{operand_lines(operands)}")
        return (operands[0].with_dtype(dtypes.bool_),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """One set for all samples."""
        return (b(self, *operands),) if not batched[1] else None

    def reference(self, *operands: Array) -> Array:
        """`numpy.isin`, or few elements compared with each other, which it takes longer to prepare for."""
        x, tests = map(_comparable, operands)
        if 0 < x.size * tests.size <= _FEW_PAIRS:
            found = np.asarray((x[..., None] == tests.reshape(-1)).any(-1))
            return ~found if self.invert else found
        return np.isin(x, tests, invert=self.invert)


@op
class Mode(Arranging):
    """The most frequent element along `axis`, the smallest of several, and the place of its last one, as int64.

    Last in the order of `Sort` that is not stable; each NaN is an element of its own.
    """

    axis: int
    name = "mode"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers, at least one along that axis, which is removed."""
        (x,) = operands
        if not 0 <= self.axis < x.ndim:
            raise ShapeError(f"mode: axis {self.axis} is not among {x.ndim} axes{operand_lines(operands)}")
        if x.dtype.is_complex:
            raise DTypeError(f"mode: complex numbers have no order{operand_lines(operands)}")
        if x.shape[self.axis] == 0:
            raise DimError(f"mode: axis {self.axis} has length 0{operand_lines(operands)}")
        kept = x.with_shape(tuple(n for a, n in enumerate(x.shape) if a != self.axis))
        return kept, kept.with_dtype(dtypes.int64)

    def arranged(self, arrange: Arrange, x: Array) -> tuple[Array, ...]:
        """The longest run of the sorted elements."""
        x = np.moveaxis(x, self.axis, -1)
        index = order(x, False, False, arrange)
        ordered = take(x, index)
        steps = np.arange(x.shape[-1])
        fresh = np.ones(x.shape, np.bool_)
        fresh[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
        lengths = steps - np.maximum.accumulate(np.where(fresh, steps, 0), axis=-1)
        best = np.argmax(lengths, axis=-1)[..., None] if x.size else np.zeros((*x.shape[:-1], 1), np.int64)
        place = take(index, best)
        return take(x, place)[..., 0], place[..., 0]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent put back where the element came from."""
        g = cotangents[0]
        if g is None:
            return (None,)
        (x,) = operands
        shape = tuple(1 if a == self.axis else n for a, n in enumerate(x.shape))
        place, given = b(Reshape(shape), results[1]), b(Reshape(shape), g)
        return (b(ScatterAdd(self.axis), zeros_like(b, x), place, given),)


def _limits(name: str, limits: Sequence[float], margin: float) -> tuple[float, float]:
    """The range of bins, which must be finite; widened to both sides by `margin` if its length is 0."""
    low, high = map(float, limits)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise OperationError(f"{name}: range of [{low}, {high}] is not finite")
    return (low - margin, high + margin) if low == high else (low, high)


@op
class Histc(_OnTheHost):
    """How many elements fall into each of `bins` equal parts of [low, high], which belongs to the last.

    With `low == high` the parts are of the range of the data. Counts have the operand's dtype.
    """

    bins: int
    low: float
    high: float
    name = "histc"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers."""
        (x,) = operands
        if x.dtype.kind not in ("int", "float"):
            raise DTypeError(f"histc: not defined for {x.dtype.name}{operand_lines(operands)}")
        return (x.with_shape((self.bins,)),)

    def reference(self, *operands: Array) -> Array:
        """By the place in the range, in the operand's precision."""
        x = operands[0].reshape(-1)
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind != "i" else x
        given = (np.min(wide), np.max(wide)) if self.low == self.high and x.size else (self.low, self.high)
        low, high = _limits("histc", given, 1.0)
        kept = wide[(wide >= low) & (wide <= high)]
        if kept.dtype.kind in "iu":
            kept = kept.astype(np.float64)
        scalar = kept.dtype.type
        places = ((kept - scalar(low)) * scalar(self.bins) / scalar(high - low)).astype(np.int64)
        return np.bincount(np.minimum(places, self.bins - 1), minlength=self.bins).astype(x.dtype)


@op
class BinEdges(_OnTheHost):
    """The borders of `bins` equal parts of `limits`, or of the range of the data if that is empty."""

    bins: int
    limits: tuple[float, ...] = ()
    name = "bin_edges"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Floats; one border more than there are parts."""
        (x,) = operands
        if not x.dtype.is_floating_point:
            raise DTypeError(f"histogram: not defined for {x.dtype.name}{operand_lines(operands)}")
        return (x.with_shape((self.bins + 1,)),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.linspace`."""
        (x,) = operands
        low, high = _limits("histogram", self.limits or ((np.min(x), np.max(x)) if x.size else (0.0, 1.0)), 0.5)
        return np.linspace(low, high, self.bins + 1).astype(x.dtype)


@op
class BinCounts(_OnTheHost):
    """How many rows of the first operand fall into each cell between borders, given for each of its columns.

    Operands: points `[n, d]`, `d` vectors of borders, and weights `[n]` if `weighted`. The last border belongs to
    the last part. `density` divides by the total and the cells' sizes.
    """

    weighted: bool = False
    density: bool = False
    name = "bin_counts"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Floats; an axis for each vector of borders."""
        points, edges = operands[0], operands[1 : len(operands) - self.weighted]
        if any(t.dtype is not points.dtype for t in operands) or not points.dtype.is_floating_point:
            raise DTypeError(f"histogram: the operands must have one float dtype{operand_lines(operands)}")
        if points.ndim != 2 or points.shape[1] != len(edges) or any(e.ndim != 1 or e.shape[0] < 1 for e in edges):
            raise ShapeError(f"histogram: points do not fit the borders{operand_lines(operands)}")
        return (points.with_shape(tuple(e.shape[0] - 1 for e in edges)),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.searchsorted` in each column, then `numpy.bincount`."""
        points, edges = operands[0], operands[1 : len(operands) - self.weighted]
        weights = operands[-1].astype(np.float64) if self.weighted else None
        shape = tuple(len(e) - 1 for e in edges)
        inside = np.ones(len(points), np.bool_)
        cell = np.zeros(len(points), np.int64)
        for column, e, n in zip(points.T, edges, shape, strict=True):
            place = np.searchsorted(e, column, "right") - 1
            place = np.where(column == e[-1], n - 1, place)
            inside &= (place >= 0) & (place < n) & (column <= e[-1])
            cell = cell * n + np.clip(place, 0, max(n - 1, 0))
        found: Array = np.bincount(cell[inside], None if weights is None else weights[inside], math.prod(shape))
        counts = found.astype(np.float64).reshape(shape)
        if self.density:
            with np.errstate(all="ignore"):
                counts = counts / counts.sum()
                for axis, e in enumerate(edges):
                    widths = np.diff(e.astype(np.float64))
                    counts = counts / widths.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        return counts.astype(points.dtype)
