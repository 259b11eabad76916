"""Regions of tensors: `Slice`, `Diagonal`, and their counterparts `Pad` and `Concat`.

The transpose of a view of a region is `WriteView` into zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np

from .. import scalar
from ..builder import Builder
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, IndexMap, Load, Op, Values, View, op
from ..scalar import Expr, Fn
from ..tracked import always_equal
from ..types import Shape, TensorType
from .broadcast import Sum
from .creation import Full
from .write import WriteView, embedded

__all__ = ["Concat", "Diagonal", "Pad", "Slice"]

_FEW = 64  # operands of a concatenation that is worth a kernel


def _affine(start: int, step: int, index: Expr) -> Expr:
    """`start + step * index`; steps of 1 and -1 and a start of 0 are part of a kernel's structure."""
    if step == -1:
        return scalar.size(start) - index
    scaled = index if step == 1 else index * scalar.size(step)
    return scaled if always_equal(start, 0) else scaled + scalar.size(start)


@op
class Slice(View):
    """Per axis, `sizes` elements from index `starts` on, `steps` apart. Steps may be negative.

    >>> import jitgrad as jg
    >>> jg.arange(10)[2:8:3]
    tensor([2, 5])
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    name = "slice"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Every element taken lies within the operand."""
        (x,) = operands
        if not len(self.starts) == len(self.sizes) == len(self.steps) == x.ndim:
            raise ShapeError(f"slice: {len(self.sizes)} slices for {x.ndim} axes{operand_lines(operands)}")
        for axis, (n, start, size, step) in enumerate(zip(x.shape, self.starts, self.sizes, self.steps, strict=True)):
            if always_equal(start, 0) and step == 1 and always_equal(size, n):
                continue
            if step == 1 and start >= 0 and size >= 0 and start + size <= n:  # also of no elements
                continue
            last = start + step * (size - 1)
            if step == 0 or size < 0 or (size > 0 and not (0 <= start < n and 0 <= last < n)):
                raise ShapeError(
                    f"slice: axis {axis}: {size} elements from {start} with step {step} do not fit length {n}"
                    f"{operand_lines(operands)}"
                )
        return (x.with_shape(self.sizes),)

    def shifted(self, size: int) -> Op:
        """All samples."""
        return Slice((0, *self.starts), (size, *self.sizes), (1, *self.steps))

    @functools.cached_property
    def index(self) -> tuple[slice, ...]:
        """The slices as Python objects."""
        return tuple(map(_python_slice, self.starts, self.sizes, self.steps))

    def reference(self, *operands: Array) -> Array:
        """Basic indexing."""
        return operands[0][(*self.index, ...)]  # the ellipsis keeps a 0-d operand an array

    def prepared(self, shape: Shape) -> Callable[[Array], Array]:
        """The same, from C."""
        return itemgetter((*self.index, ...))

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element at `start + step * index`."""
        return operands[0](tuple(map(_affine, self.starts, self.steps, index)))

    def preimage(self, index: tuple[Expr, ...], operand: TensorType) -> tuple[Expr, tuple[Expr, ...]] | None:
        """`(index - start) / step` where that is a whole number within the slice."""
        conditions, inside = [], []
        for i, start, size, step, n in zip(index, self.starts, self.sizes, self.steps, operand.shape, strict=True):
            shown, position = _unsliced(i, start, size, step, n)
            conditions.extend(shown)
            inside.append(position)
        return scalar.every(conditions), tuple(inside)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent written into zeros."""
        (g,) = cotangents
        assert g is not None
        return (embedded(b, self, g, operands[0].shape),)


def _python_slice(start: int, size: int, step: int) -> slice:
    if size == 0:
        return slice(0, 0)
    stop = start + step * size
    return slice(start, stop if stop >= 0 else None, step)


def _unsliced(index: Expr, start: int, size: int, step: int, length: int) -> tuple[list[Expr], Expr]:
    """Conditions for `index` to be in the slice of an axis, and its place there."""
    if always_equal(start, 0) and step == 1:
        return ([] if always_equal(size, length) else [index < scalar.size(size)]), index
    offset = scalar.size(start) - index if step < 0 else index - scalar.size(start)
    if abs(step) == 1:
        return [offset >= 0, offset < scalar.size(size)], offset
    stride = scalar.size(abs(step))
    place = offset / stride
    return [offset >= 0, place < scalar.size(size), scalar.apply(Fn.REM, offset, stride).eq(0)], place


@op
class Diagonal(View):
    """The elements whose indices along `axis2` and `axis1` differ by `offset`, as a new last axis.

    >>> import jitgrad as jg
    >>> jg.arange(9).reshape(3, 3).diagonal(1)
    tensor([1, 5])
    """

    offset: int
    axis1: int
    axis2: int
    name = "diagonal"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Two different axes."""
        (x,) = operands
        if self.axis1 == self.axis2 or not (0 <= self.axis1 < x.ndim and 0 <= self.axis2 < x.ndim):
            raise ShapeError(f"diagonal: no axes {self.axis1} and {self.axis2} among {x.ndim}{operand_lines(operands)}")
        rest = tuple(n for a, n in enumerate(x.shape) if a not in (self.axis1, self.axis2))
        return (x.with_shape((*rest, self._length(x.shape))),)

    def shifted(self, size: int) -> Op:
        """The axes after that of the samples."""
        return Diagonal(self.offset, self.axis1 + 1, self.axis2 + 1)

    def _length(self, shape: Shape) -> int:
        rows, columns = self._first
        return max(0, min(shape[self.axis1] - rows, shape[self.axis2] - columns))

    @property
    def _first(self) -> tuple[int, int]:
        """The index of the first element along `axis1` and `axis2`."""
        return max(0, -self.offset), max(0, self.offset)

    def reference(self, *operands: Array) -> Array:
        """`numpy.diagonal`, writeable where the operand is."""
        (x,) = operands
        out = np.diagonal(x, self.offset, self.axis1, self.axis2)
        if x.flags.writeable:
            out.flags.writeable = True
        return out

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element `index[-1]` further down the diagonal."""
        rest = iter(index[:-1])
        at = {self.axis1: self._first[0], self.axis2: self._first[1]}
        return operands[0](
            tuple(_affine(at[a], 1, index[-1]) if a in at else next(rest) for a in range(operands[0].type.ndim))
        )

    def preimage(self, index: tuple[Expr, ...], operand: TensorType) -> tuple[Expr, tuple[Expr, ...]] | None:
        """The place along the diagonal, where the two indices differ by `offset`."""
        rest = tuple(i for a, i in enumerate(index) if a not in (self.axis1, self.axis2))
        row, column = index[self.axis1], index[self.axis2]
        return (row + scalar.size(self.offset)).eq(column), (*rest, _affine(-self._first[0], 1, row))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent written into zeros."""
        (g,) = cotangents
        assert g is not None
        return (embedded(b, self, g, operands[0].shape),)


@op
class Pad(IndexMap):
    """`x` with `low` elements in front and `high` behind along each axis, all equal to the 0-d `fill`.

    >>> import numpy as np
    >>> Pad((1,), (2,)).reference(np.array([7, 8]), np.array(0))
    array([0, 7, 8, 0, 0])
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    name = "pad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Non-negative widths for every axis, and a 0-d fill value of the same dtype."""
        x, fill = operands
        if not len(self.low) == len(self.high) == x.ndim or min((*self.low, *self.high), default=0) < 0:
            raise ShapeError(
                f"pad: widths {list(self.low)} and {list(self.high)} do not fit {x.ndim} axes{operand_lines(operands)}"
            )
        if fill.shape != ():
            raise ShapeError(f"pad: the fill value is not 0-d{operand_lines(operands)}")
        if fill.dtype is not x.dtype:
            raise DTypeError(f"pad: operand dtypes differ{operand_lines(operands)}")
        shape = tuple(lo + n + hi for lo, n, hi in zip(self.low, x.shape, self.high, strict=True))
        return (x.with_shape(shape),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """Nothing in front of the samples and behind them, if all have one fill value."""
        x, fill = operands
        if batched[1]:
            return None
        return (b(Pad((0, *self.low), (0, *self.high)), x, fill),)

    def _inside(self, shape: Shape) -> Slice:
        """The view of the result that holds the operand."""
        return Slice(self.low, shape, (1,) * len(shape))

    def reference(self, *operands: Array) -> Array:
        """Fill, then assign the inside."""
        x, fill = operands
        shape = tuple(lo + n + hi for lo, n, hi in zip(self.low, x.shape, self.high, strict=True))
        out = np.full(shape, fill, x.dtype)
        self._inside(x.shape).reference(out)[...] = x
        return out

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The operand's element inside, else the fill value."""
        x, fill = operands
        result = x.type.with_shape(
            tuple(lo + n + hi for lo, n, hi in zip(self.low, x.type.shape, self.high, strict=True))
        )
        found = self._inside(x.type.shape).preimage(index, result)
        assert found is not None
        inside, position = found
        return scalar.where(inside, x(position, inside), fill(()))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The inside of the cotangent; for the fill value, the sum of the rest."""
        (g,) = cotangents
        assert g is not None
        inside = self._inside(operands[0].shape)
        g_x = b(inside, g) if needs[0] else None
        if not needs[1]:
            return g_x, None
        zeros = b(Full(operands[0].shape, g.type.dtype, 0, g.type.device))
        border = b(WriteView((inside,)), g, zeros)
        return g_x, b(Sum(tuple(range(g.ndim)), False), border)


@op
class Concat(IndexMap):
    """The operands one after another along `axis`.

    >>> import jitgrad as jg
    >>> jg.cat([jg.tensor([1, 2]), jg.tensor([3])])
    tensor([1, 2, 3])
    """

    axis: int
    name = "concat"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """At least one operand; equal dtypes, and equal lengths but along `axis`."""
        if not operands:
            raise ShapeError("concat: no operands")
        first = operands[0]
        if not 0 <= self.axis < first.ndim:
            raise ShapeError(f"concat: axis {self.axis} is not among {first.ndim} axes{operand_lines(operands)}")
        for i, other in enumerate(operands):
            if other.dtype is not first.dtype:
                raise DTypeError(f"concat: operand dtypes differ{operand_lines((first, other))}")
            if other.ndim != first.ndim:
                raise ShapeError(f"concat: operands 0 and {i} differ in rank{operand_lines((first, other))}")
            for a, (n, m) in enumerate(zip(first.shape, other.shape, strict=True)):
                if a != self.axis and n != m:
                    raise ShapeError(
                        f"concat: operands 0 and {i} differ along axis {a}: {n} and {m}{operand_lines((first, other))}"
                    )
        shape = list(first.shape)
        shape[self.axis] = sum(t.shape[self.axis] for t in operands)
        return (first.with_shape(tuple(shape)),)

    def can_emit(self, *operands: TensorType) -> bool:
        """Few enough operands for a kernel of the CPU's, which takes 128 buffers and asks each element's place."""
        return super().can_emit(*operands) and (len(operands) <= _FEW or operands[0].device.type != "cpu")

    def reference(self, *operands: Array) -> Array:
        """`numpy.concatenate`."""
        return np.concatenate(operands, self.axis)

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element of the operand into whose stretch the index falls."""
        at = index[self.axis]
        result, start = None, 0
        for load in operands:
            stop = start + load.type.shape[self.axis]
            inside = scalar.const(0) if always_equal(stop - start, 1) else _affine(-start, 1, at)
            position = tuple(inside if a == self.axis else i for a, i in enumerate(index))
            if result is None:
                result = load(position, at < scalar.size(stop))
            else:
                until = [] if load is operands[-1] else [at < scalar.size(stop)]
                within = scalar.every([at >= scalar.size(start), *until])
                result = scalar.where(at < scalar.size(start), result, load(position, within))
            start = stop
        assert result is not None
        return result

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Each operand's stretch of the cotangent."""
        (g,) = cotangents
        assert g is not None
        grads: list[Value | None] = []
        start = 0
        for x, needed in zip(operands, needs, strict=True):
            starts = tuple(start if a == self.axis else 0 for a in range(x.ndim))
            grads.append(b(Slice(starts, x.shape, (1,) * x.ndim), g) if needed else None)
            start += x.shape[self.axis]
        return grads
