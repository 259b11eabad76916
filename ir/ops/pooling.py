"""Pooling: the largest element (`MaxPool`) or the mean (`AvgPool`) of sliding windows over the last axes."""

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
from .arithmetic import Add, Maximum
from .broadcast import Sum, accumulator_dtype, expand_reduced
from .comparison import Eq, IsNan
from .creation import Constant, Full, Iota, Literal
from .formula import Term
from .logical import LogicalOr
from .reduction import Amax, lowest
from .shape import Reshape
from .slicing import Pad, Slice
from .windows import Fold, Windows

__all__ = ["AvgPool", "MaxPool"]

_MAX_UNROLLED = 32  # windows up to this size are reduced place by place, which vectorises along the last axis


class _Pool(Op):
    """The fields and shapes that both share. Fields have PyTorch's meanings, one number per pooled axis."""

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


@op
class MaxPool(_Pool):
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

    @property
    def dilations(self) -> tuple[int, ...]:
        """`dilation`."""
        return self.dilation

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers, and room for a window along each pooled axis."""
        if operands[0].dtype.kind not in ("int", "float"):
            raise DTypeError(f"max_pool: not defined for {operands[0].dtype.name}{operand_lines(operands)}")
        return super().infer(*operands)

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
        padded = self.padded(b, x, lowest(x.type.dtype))
        found = self._found_unrolled(b, padded)
        if found is None:
            windows = b(self.windows(x.ndim), padded)
            found = Term(b, b(ArgMax(tuple(range(x.ndim, windows.ndim)), False), windows))
        flat = (*g.shape, math.prod(self.kernel))
        place = Term(b, b(Iota(flat, g.ndim, found.value.type.dtype, g.type.device)))
        is_largest = place.apply(Eq(), found.expand_axis(g.ndim, flat))
        spread = is_largest.choose(Term(b, g).expand_axis(g.ndim, flat), 0)
        return (self.unpooled(b, spread.apply(Reshape((*g.shape, *self.kernel))), x.shape),)

    def _found_unrolled(self, b: Builder, padded: Value) -> Term | None:
        """The place of the first largest element in small windows: found by comparing place by place."""
        if math.prod(self.kernel) > _MAX_UNROLLED:
            return None
        first, *others = (Term(b, b(view, padded)) for view in self.place_views(padded.shape))
        largest, found = first, Term(b, b(Full(first.value.shape, dtypes.int32, 0, padded.type.device)))
        for place, x in enumerate(others, 1):
            is_larger = x > largest
            if padded.type.dtype.is_floating_point:
                is_larger = is_larger.apply(LogicalOr(), x.apply(IsNan()))
            largest = is_larger.choose(x, largest)
            found = is_larger.choose(found.like(place), found)
        return found


@op
class AvgPool(_Pool):
    """The mean of each window over the last axes, padded with zeros.

    The sum is divided by the number of elements, of which those in the padding count if `count_include_pad`
    (those beyond it, with `ceil_mode`, never), or by `divisor_override` if it is not 0. Half types are summed
    in float32.

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
        """Floats, and room for a window along each pooled axis."""
        if not operands[0].dtype.is_floating_point:
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
            return (total / self._counts(x.shape, wide)).astype(x.dtype, copy=False)

    def _divided(self, total: Term, shape: Shape) -> Term:
        counts = self._counts(shape, total.value.type.dtype)
        if counts.ndim == 0:
            return total / float(counts)
        divisor = Term(total.b, total.b(Constant(Literal(counts), total.value.type.device)))
        return total / divisor.expand(total.value.shape)

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
