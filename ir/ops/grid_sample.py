"""Sampling an image or a volume at given positions: `GridSample`."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

from .. import dtypes
from ..builder import Builder
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Batched, Op, op
from ..types import TensorType
from .arithmetic import Abs
from .broadcast import accumulator_dtype
from .comparison import Eq, IsNan
from .creation import Iota
from .formula import Term
from .history import Detach, WithHistory
from .logical import LogicalAnd
from .resample import TakeClamped
from .rounding import Floor, Remainder, Round
from .sample_axis import all_batched, merged, split
from .shape import Permute, Reshape
from .slicing import Slice

__all__ = ["GridSample"]

_CUBIC = -0.75  # the slope of the cubic convolution kernel at 1

Tap = tuple[Term, Term | None]  # a place along one axis, as a float, and its weight (None: 1)


@op
class GridSample(Op):
    """The values of `x` [n, c, ...] at positions `grid` [n, ..., r], r being the number of axes behind the channels'.

    Positions name the last axis first, and go from -1 to 1, the ends of the axis or, if `align_corners`, the centres
    of its end elements. `mode` is "bilinear" (of volumes: trilinear), "nearest" or "bicubic"; `padding` says what is
    outside: "zeros", "border" or "reflection". The result is [n, c, ...], with the grid's axes.
    """

    mode: str
    padding: str
    align_corners: bool
    name = "grid_sample"

    def __post_init__(self) -> None:
        if self.mode not in _TAPS or self.padding not in ("zeros", "border", "reflection"):
            raise ArgumentError(f"grid_sample: mode {self.mode!r} or padding {self.padding!r} is not known")

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Floats of one type; equal batches; as many coordinates as there are axes, which are not empty."""
        x, grid = operands
        if x.dtype is not grid.dtype or not x.dtype.is_floating_point:
            raise DTypeError(f"grid_sample: operands must be of one float type{operand_lines(operands)}")
        rank = x.ndim - 2
        if rank < 1 or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
            raise ShapeError(f"grid_sample: the grid does not fit{operand_lines(operands)}")
        if not all(x.shape[2:]):
            raise ShapeError(f"grid_sample: an axis is empty{operand_lines(operands)}")
        return (x.with_shape((*x.shape[:2], *grid.shape[1:-1])),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """More items in the batch."""
        x, grid = all_batched(b, operands, batched, size)
        return (split(b, b(self, merged(b, x), merged(b, grid)), size),)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Look-ups of whole rows of channels at the places around each position, weighted and added up."""
        x, grid = operands
        wide = accumulator_dtype(x.type.dtype)
        n, c, *lengths = x.shape
        rank = len(lengths)
        rows = Term(b, x).convert(wide).apply(Permute((0, *range(2, rank + 2), 1)))
        rows = rows.apply(Reshape((n * math.prod(lengths), c)))
        taps = [self._taps(self._position(Term(b, grid).convert(wide), a, rank), lengths[a]) for a in range(rank)]
        parts = [self._part(rows, chosen, tuple(lengths)) for chosen in itertools.product(*taps)]
        total = functools.reduce(lambda a, p: a + p, parts)
        out = total.apply(Permute((0, rank + 1, *range(1, rank + 1)))).convert(x.type.dtype)
        return (out.value,)

    @staticmethod
    def _position(grid: Term, axis: int, rank: int) -> Term:
        """The coordinates along an axis."""
        shape = grid.value.shape
        start = (*(0,) * (len(shape) - 1), rank - 1 - axis)
        return grid.apply(Slice(start, (*shape[:-1], 1), (1,) * len(shape))).apply(Reshape(shape[:-1]))

    def _taps(self, position: Term, length: int) -> list[Tap]:
        """The places along one axis that take part, and their weights."""
        if self.align_corners:
            at = (position + 1) * ((length - 1) / 2)
        else:
            at = ((position + 1) * length - 1) / 2
        if self.mode != "bicubic":
            return _TAPS[self.mode](self._inside(at, length))
        return [(self._inside(place, length), weight) for place, weight in _TAPS[self.mode](at)]

    def _inside(self, at: Term, length: int) -> Term:
        """Places outside moved inside, unless there are zeros; NaN is the first place, as in PyTorch."""
        if self.padding == "zeros":
            return at
        if self.padding == "reflection":
            at = self._reflected(at, length)
        limited = (at <= 0).choose(0, (at >= length - 1).choose(length - 1, at))
        return at.apply(IsNan()).choose(0, limited)

    def _reflected(self, at: Term, length: int) -> Term:
        """Mirrored at the ends as often as it takes."""
        low, span = (0.0, length - 1.0) if self.align_corners else (-0.5, float(length))
        if span <= 0:
            return at * 0
        distance = (at - low).apply(Abs())
        flips = (distance / span).apply(Detach()).apply(Floor())
        extra = distance - flips * span
        is_even = flips.apply(Remainder(), 2).apply(Eq(), 0)
        return is_even.choose(extra + low, (span + low) - extra)

    @staticmethod
    def _part(rows: Term, chosen: Sequence[Tap], lengths: tuple[int, ...]) -> Term:
        """The rows at one place for each axis, times the weights; zeros outside."""
        b, shape = rows.b, chosen[0][0].value.shape
        at = Term(b, b(Iota(shape, 0, dtypes.int64, rows.value.type.device)))
        inside: Term | None = None
        weight: Term | None = None
        for (place, factor), length in zip(chosen, lengths, strict=True):
            within = (place >= 0).apply(LogicalAnd(), place <= length - 1)
            inside = within if inside is None else inside.apply(LogicalAnd(), within)
            at = at * length + within.choose(place, 0).convert(dtypes.int64)
            if factor is not None:
                weight = factor if weight is None else weight * factor
        taken = rows.apply(TakeClamped(0), at)
        full = taken.value.shape
        if weight is not None:
            taken = taken * weight.expand_axis(len(shape), full)
        assert inside is not None
        return inside.expand_axis(len(shape), full).choose(taken, 0)


def _nearest_tap(at: Term) -> list[Tap]:
    """The nearest place; the gradient of positions is zero, and not missing."""
    one = Term(at.b, at.b(WithHistory(), at.like(1).value, (at * 0).value))
    return [(at.apply(Detach()).apply(Round()), one)]


def _linear_taps(at: Term) -> list[Tap]:
    first = at.apply(Detach()).apply(Floor())
    part = at - first
    return [(first, 1 - part), (first + 1, part)]


def _cubic_taps(at: Term) -> list[Tap]:
    """Keys's cubic convolution (1981, doi:10.1109/TASSP.1981.1163711)."""
    first, a = at.apply(Detach()).apply(Floor()), _CUBIC
    t = at - first

    def near(d: Term) -> Term:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Term) -> Term:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    return [(first + (i - 1), w) for i, w in enumerate(weights)]


_TAPS: dict[str, Callable[[Term], list[Tap]]] = {
    "nearest": _nearest_tap,
    "bilinear": _linear_taps,
    "bicubic": _cubic_taps,
}
