"""Pooling: the largest element of sliding windows over the last axes, where it is, or their mean."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..dtypes import DType
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, Values, op
from ..scalar import Number
from ..types import Shape, TensorType
from .argmax import ArgMax
from .arithmetic import Abs, Add, Maximum, Sign
from .broadcast import Sum, accumulator_dtype, expand_reduced
from .comparison import Eq, IsNan
from .creation import Constant, Full, Iota, Literal
from .formula import Term
from .logical import LogicalOr
from .reduction import Amax, lowest
from .rounding import FloorDivide, Remainder
from .shape import Reshape
from .slicing import Pad, Slice
from .windows import Fold, Windows

__all__ = ["AvgPool", "MaxPool", "MaxPoolIndices"]

_MAX_UNROLLED = 32  # windows up to this size are reduced place by place, which vectorises along the last axis


class _Pool(Op):
    """The fields and shapes that both share. Fields have PyTorch's meanings, one number per pooled axis."""

    batchable = True

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool

    def __post_init__(self) -> None:
        numbers = self.stride, self.padding, self.dilations
        if not self.kernel or any(len(n) != len(self.kernel) for n in numbers):
            raise ArgumentError(f"{self.name}: kernel, stride and padding must be given for the same axes")
        if min(*self.kernel, *self.stride, *self.dilations) < 1:
            raise ArgumentError(f"{self.name}: kernel, stride and dilation must be 1 or more")
        if any(not 0 <= p <= e // 2 for p, e in zip(self.padding, self._extents, strict=True)):
            raise ArgumentError(
                f"{self.name}: padding {list(self.padding)} must be between 0 and half of the kernel's "
                f"extent {list(self._extents)}"
            )

    @property
    def dilations(self) -> tuple[int, ...]:
        """The distances between a window's elements."""
        return (1,) * len(self.kernel)

    @property
    def _extents(self) -> tuple[int, ...]:
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def output_lengths(self, lengths: Shape) -> Shape:
        """How many windows there are along each pooled axis; with `ceil_mode` the last may overhang."""
        out = []
        for n, e, s, p in zip(lengths, self._extents, self.stride, self.padding, strict=True):
            room = n + 2 * p - e
            count = (-(-room // s) if self.ceil_mode else room // s) + 1
            if self.ceil_mode and (count - 1) * s >= n + p:  # the last window must start inside or in front
                count -= 1
            out.append(max(count, 0))
        return tuple(out)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Room for a window along each pooled axis."""
        (x,) = operands
        rank = len(self.kernel)
        if x.ndim < rank:
            raise ShapeError(f"{self.name}: {x.ndim} axes, {rank} to be pooled{operand_lines(operands)}")
        out = self.output_lengths(x.shape[-rank:])
        for i, (n, count) in enumerate(zip(x.shape[-rank:], out, strict=True)):
            if count == 0:
                raise ShapeError(
                    f"{self.name}: pooled axis {i}: a window over {self._extents[i]} does not fit length {n} "
                    f"with padding {self.padding[i]}{operand_lines(operands)}"
                )
        return (x.with_shape((*x.shape[:-rank], *out)),)

    def widths(self, shape: Shape) -> tuple[Shape, Shape]:
        """The padding in front and behind that the windows need, for each axis of the operand."""
        rank = len(self.kernel)
        lengths = shape[len(shape) - rank :]
        high = tuple(
            max(0, (count - 1) * s + e - n - p)
            for count, n, e, s, p in zip(
                self.output_lengths(lengths), lengths, self._extents, self.stride, self.padding, strict=True
            )
        )
        front = (0,) * (len(shape) - rank)
        return (*front, *self.padding), (*front, *high)

    def windows(self, ndim: int) -> Windows:
        """The view of the padded operand as windows."""
        axes = tuple(range(ndim - len(self.kernel), ndim))
        return Windows(axes, self.kernel, self.stride, self.dilations)

    def padded(self, b: Builder, x: Value, fill: Number) -> Value:
        """The operand, padded with `fill` if need be."""
        low, high = self.widths(x.shape)
        if any(low) or any(high):
            x = b(Pad(low, high), x, b(Full((), x.type.dtype, fill, x.type.device)))
        return x

    @staticmethod
    def repeated(b: Builder, numbers: Array, like: Value) -> Term:
        """Numbers for the pooled axes as a constant, for all others too; one number if they are equal."""
        if numbers.size and (numbers == numbers.flat[0]).all():
            return Term(
                b, b(Full(like.shape, dtypes.FROM_NUMPY[numbers.dtype], numbers.flat[0].item(), like.type.device))
            )
        return Term(b, b(Constant(Literal(numbers), like.type.device))).expand(like.shape)

    def place_views(self, padded: Shape) -> list[Slice]:
        """For each place in the window, the view of the padded operand that shows it in all windows."""
        front = len(padded) - len(self.kernel)
        counts = self.windows(len(padded)).shape_of(padded)[: len(padded)]
        steps = (*(1,) * front, *self.stride)
        return [
            Slice((*(0,) * front, *(i * d for i, d in zip(place, self.dilations, strict=True))), counts, steps)
            for place in np.ndindex(*self.kernel)
        ]

    def places(self, x: Array, fill: Number) -> list[Array]:
        """For each place in the window, that element of all windows."""
        low, high = self.widths(x.shape)
        if any(low) or any(high):
            x = Pad(low, high).reference(x, x.dtype.type(fill))
        return [view.reference(x) for view in self.place_views(x.shape)]

    def reduced(self, b: Builder, x: Value, fold: Op, reduction: type[Amax | Sum]) -> Value:
        """The padded operand's windows reduced: place by place if they are small, else as a reduction."""
        if math.prod(self.kernel) <= _MAX_UNROLLED:
            return functools.reduce(lambda y, z: b(fold, y, z), [b(v, x) for v in self.place_views(x.shape)])
        windows = b(self.windows(x.ndim), x)
        return b(reduction(tuple(range(x.ndim, windows.ndim)), False), windows)

    def unpooled(self, b: Builder, windows: Term, shape: Shape) -> Value:
        """The transpose of the padded operand's windows, for an operand of `shape`."""
        low, high = self.widths(shape)
        view = self.windows(len(shape))
        lengths = tuple(low[a] + shape[a] + high[a] for a in view.axes)
        folded = windows.apply(Fold(lengths, view.axes, view.sizes, view.steps, view.dilations))
        if any(low) or any(high):
            folded = folded.apply(Slice(low, shape, (1,) * len(shape)))
        return folded.value


class _MaxPool(_Pool):
    """What finds the largest element of each window."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    @property
    def dilations(self) -> tuple[int, ...]:
        """`dilation`."""
        return self.dilation

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers, and room for a window along each pooled axis."""
        if operands[0].dtype.kind not in ("int", "float"):
            raise DTypeError(f"{self.name}: not defined for {operands[0].dtype.name}{operand_lines(operands)}")
        return super().infer(*operands)

    def starts(self, lengths: Shape) -> list[Array]:
        """Along each pooled axis, where each window starts; in the padding that is below 0."""
        counts = self.output_lengths(lengths)
        return [np.arange(c) * s - p for c, s, p in zip(counts, self.stride, self.padding, strict=True)]

    def first_places(self, lengths: Shape) -> Array:
        """The place in each window of its first element that is not padding."""
        per_axis = [-(np.minimum(start, 0) // d) for start, d in zip(self.starts(lengths), self.dilations, strict=True)]
        return _weighted_outer_sum(per_axis, self.kernel)

    def found(self, b: Builder, x: Value) -> Term:
        """The place, in each window, of its first largest element, or of its last NaN; never in the padding."""
        padded = self.padded(b, x, lowest(x.type.dtype))
        firsts = self.first_places(x.shape[x.ndim - len(self.kernel) :]).astype(np.int32)
        if math.prod(self.kernel) > _MAX_UNROLLED:
            windows = b(self.windows(x.ndim), padded)
            axes = tuple(range(x.ndim, windows.ndim))
            largest = Term(b, b(Amax(axes, False), windows))
            found = Term(b, b(ArgMax(axes, False), windows)).convert(dtypes.int32)
            is_least = largest.apply(Eq(), lowest(x.type.dtype))
            return is_least.choose(self.repeated(b, firsts, found.value), found)
        first, *others = (Term(b, b(view, padded)) for view in self.place_views(padded.shape))
        largest, found = first, self.repeated(b, firsts, first.value)
        for place, element in enumerate(others, 1):
            is_larger = element > largest
            if x.type.dtype.is_floating_point:
                is_larger = is_larger.apply(LogicalOr(), element.apply(IsNan()))
            largest = is_larger.choose(element, largest)
            found = is_larger.choose(found.like(place), found)
        return found


def _weighted_outer_sum(per_axis: Sequence[Array], lengths: Shape) -> Array:
    """Row-major positions in a box of `lengths`, of which `per_axis` gives the coordinates."""
    total: Array = np.zeros((), np.int64)
    for coordinates, length in zip(per_axis, lengths, strict=True):
        total = np.add.outer(total * length, coordinates)
    return total


@op
class MaxPool(_MaxPool):
    """The largest element of each window over the last axes; NaN if any is. Padding is never the largest.

    Of equal elements the first gets the gradient.

    >>> import numpy as np
    >>> MaxPool((2,), (2,), (0,), (1,)).reference(np.array([[1, 5, 2, 3]]))
    array([[5, 3]])
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False
    name = "max_pool"

    def reference(self, *operands: Array) -> Array:
        """One `numpy.maximum` per place in the window."""
        (x,) = operands
        first, *others = self.places(x, lowest(dtypes.FROM_NUMPY[x.dtype]))
        return functools.reduce(np.maximum, others, first.copy())

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """The maximum over windows of the padded operand."""
        x = self.padded(b, operands[0], lowest(operands[0].type.dtype))
        return (self.reduced(b, x, Maximum(), Amax),)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent put where each window's first largest element was, and added up."""
        (g,) = cotangents
        assert g is not None
        (x,) = operands
        flat = (*g.shape, math.prod(self.kernel))
        found = self.found(b, x)
        place = Term(b, b(Iota(flat, g.ndim, found.value.type.dtype, g.type.device)))
        is_largest = place.apply(Eq(), found.expand_axis(g.ndim, flat))
        spread = is_largest.choose(Term(b, g).expand_axis(g.ndim, flat), 0)
        return (self.unpooled(b, spread.apply(Reshape((*g.shape, *self.kernel))), x.shape),)


@op
class MaxPoolIndices(_MaxPool):
    """Where `MaxPool` finds the largest elements: row-major positions among the pooled axes, as int64.

    Of equal elements it is the first, and of several NaN the last.

    >>> import numpy as np
    >>> MaxPoolIndices((2,), (2,), (0,), (1,)).reference(np.array([[1, 5, 2, 3]]))
    array([[1, 3]])
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False
    name = "max_pool_indices"
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """As for `MaxPool`, but int64."""
        return tuple(t.with_dtype(dtypes.int64) for t in super().infer(*operands))

    def reference(self, *operands: Array) -> Array:
        """One comparison per place in the window."""
        (x,) = operands
        lengths = x.shape[x.ndim - len(self.kernel) :]
        largest, *others = self.places(x, lowest(dtypes.FROM_NUMPY[x.dtype]))
        found = np.broadcast_to(self.first_places(lengths), largest.shape)
        for place, element in enumerate(others, 1):
            with np.errstate(invalid="ignore"):
                is_larger = (element > largest) | (element != element)
            largest, found = np.where(is_larger, element, largest), np.where(is_larger, place, found)
        places = np.unravel_index(found, self.kernel)
        rank = len(lengths)
        total = np.zeros(found.shape, np.int64)
        for axis, (start, inside, d) in enumerate(zip(self.starts(lengths), places, self.dilations, strict=True)):
            total = total * lengths[axis] + start.reshape(-1, *(1,) * (rank - 1 - axis)) + inside * d
        return total

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """The place in the window, found by comparing, as a position in the operand."""
        (x,) = operands
        lengths = x.shape[x.ndim - len(self.kernel) :]
        found = self.found(b, x).convert(dtypes.int64)
        total = self.repeated(b, _weighted_outer_sum(self.starts(lengths), lengths), found.value)
        for axis, (k, d) in enumerate(zip(self.kernel, self.dilations, strict=True)):
            place = found if axis == 0 else found.apply(Remainder(), math.prod(self.kernel[axis:]))
            place = place.apply(FloorDivide(), math.prod(self.kernel[axis + 1 :]))
            if k > 1:
                total = total + place * (d * math.prod(lengths[axis + 1 :]))
        return (total.value,)


@op
class AvgPool(_Pool):
    """The mean of each window over the last axes, padded with zeros.

    The sum is divided by the number of elements, of which those in the padding count if `count_include_pad`
    (those beyond it, with `ceil_mode`, never), or by `divisor_override` if it is not 0. Half types are summed
    in float32; means of integers are rounded towards 0.

    >>> import numpy as np
    >>> AvgPool((2,), (2,), (0,)).reference(np.array([[1.0, 5.0, 2.0, 3.0]]))
    array([[3. , 2.5]])
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int = 0
    name = "avg_pool"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers, and room for a window along each pooled axis."""
        if operands[0].dtype.kind not in ("int", "float"):
            raise DTypeError(f"avg_pool: not defined for {operands[0].dtype.name}{operand_lines(operands)}")
        return super().infer(*operands)

    def _counts(self, shape: Shape, dtype: DType) -> Array:
        """What each sum is divided by: one number, or one for each window."""
        if self.divisor_override:
            return np.array(self.divisor_override, dtype.np)
        lengths = shape[len(shape) - len(self.kernel) :]
        per_axis = []
        for n, count, k, s, p in zip(
            lengths, self.output_lengths(lengths), self.kernel, self.stride, self.padding, strict=True
        ):
            start = np.arange(count) * s - p
            first, last = (-p, n + p) if self.count_include_pad else (0, n)
            per_axis.append(np.minimum(start + k, last) - np.maximum(start, first))
        counts = functools.reduce(np.multiply.outer, per_axis).astype(dtype.np)
        full = math.prod(self.kernel)
        return np.array(full, dtype.np) if (counts == full).all() else counts

    def reference(self, *operands: Array) -> Array:
        """One addition per place in the window."""
        (x,) = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype])
        with np.errstate(all="ignore"):
            first, *others = self.places(x.astype(wide.np, copy=False), 0)
            total = functools.reduce(np.add, others, first)
            counts = self._counts(x.shape, wide)
            if not wide.is_floating_point:
                return (np.sign(total * np.sign(counts)) * (np.abs(total) // np.abs(counts))).astype(x.dtype)
            return (total / counts).astype(x.dtype, copy=False)

    def _divided(self, total: Term, shape: Shape) -> Term:
        counts = self._counts(shape, total.value.type.dtype)
        if not total.value.type.dtype.is_floating_point and self.divisor_override < 0:
            total, counts = -total, -counts
        divisor = total.like(counts.item()) if counts.ndim == 0 else self.repeated(total.b, counts, total.value)
        if total.value.type.dtype.is_floating_point:
            return total / divisor
        return total.apply(Abs()).apply(FloorDivide(), divisor) * total.apply(Sign())

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """The sum over windows of the padded operand, divided."""
        (x,) = operands
        padded = self.padded(b, Term(b, x).convert(accumulator_dtype(x.type.dtype)).value, 0)
        total = Term(b, self.reduced(b, padded, Add(), Sum))
        return (self._divided(total, x.shape).convert(x.type.dtype).value,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent, divided, given to all elements of its window."""
        (g,) = cotangents
        assert g is not None
        x = operands[0].type
        share = self._divided(Term(b, g).convert(accumulator_dtype(x.dtype)), x.shape).value
        spread = expand_reduced(b, share, self._inner(share), False, (*share.shape, *self.kernel))
        return (Term(b, self.unpooled(b, Term(b, spread), x.shape)).convert(x.dtype).value,)

    def _inner(self, pooled: Value) -> tuple[int, ...]:
        """The windows' own axes."""
        return tuple(range(pooled.ndim, pooled.ndim + len(self.kernel)))
