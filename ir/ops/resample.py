"""Resampling one axis: each result element is a weighted sum of few operand elements, the same along all other axes.

`Resample` and `ResampleTranspose` are each other's gradient. Which elements, and with what weights, follows from the
lengths alone, so that both are sums of look-ups at constant places (`TakeClamped`), which fuse with what is around.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, IndexMap, Load, Op, Values, op
from ..scalar import Expr
from ..types import Shape, TensorType
from .broadcast import Sum, accumulator_dtype
from .comparison import Ge, Lt
from .creation import Constant, Literal, full_like, zeros_like
from .formula import Term
from .indexing import IndexAdd
from .indexing_samples import at_places
from .select import Where
from .shape import Reshape

__all__ = ["Resample", "ResampleTranspose", "TakeClamped"]

_MAX_UNROLLED = 16  # sums of up to so many look-ups are written out
_CUBIC, _CUBIC_ANTIALIAS = -0.75, -0.5  # the slope of the cubic convolution kernel at 1


@op
class TakeClamped(IndexMap):
    """The places along `axis` named by an integer tensor, whose axes stand where `axis` was.

    An index below 0 is taken as 0, and one too large as the last. (So a kernel need not refuse any.)

    >>> import numpy as np
    >>> TakeClamped(0).reference(np.array([5, 6, 7]), np.array([[1, -3], [2, 9]]))
    array([[6, 5],
           [7, 7]])
    """

    axis: int
    name = "take_clamped"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """An axis that is not empty, and an int64 index."""
        x, index = operands
        if not 0 <= self.axis < x.ndim or (x.shape[self.axis] == 0 and index.numel):
            raise ShapeError(f"take_clamped: axis {self.axis} has no elements{operand_lines(operands)}")
        if index.dtype is not dtypes.int64:
            raise DTypeError(f"take_clamped: the index is {index.dtype.name}, not int64{operand_lines(operands)}")
        return (x.with_shape((*x.shape[: self.axis], *index.shape, *x.shape[self.axis + 1 :])),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """One index serves all samples, or all samples look into one operand."""
        x, index = operands
        if not batched[1]:
            return (b(TakeClamped(self.axis + 1), x, index),)
        return (at_places(b, self, x, index, self.axis, size),) if not batched[0] else None

    def reference(self, *operands: Array) -> Array:
        """`numpy.take`."""
        x, index = operands
        return np.take(x, index, self.axis, mode="clip")

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element at the clamped index."""
        x, at = operands
        rank = at.type.ndim
        last = scalar.size(x.type.shape[self.axis] - 1)
        named = scalar.minimum(scalar.maximum(at(index[self.axis : self.axis + rank]), 0), last)
        return x((*index[: self.axis], named, *index[self.axis + rank :]))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent added up where it was read."""
        (g,) = cotangents
        assert g is not None
        x, index = operands
        flat = Term(b, index).apply(Reshape((index.size,)))
        last = max(x.shape[self.axis] - 1, 0)
        flat = flat.apply(Lt(), 0).choose(0, flat.apply(Ge(), last).choose(last, flat))
        source = b(Reshape((*x.shape[: self.axis], index.size, *x.shape[self.axis + 1 :])), g)
        return b(IndexAdd(self.axis), zeros_like(b, x), flat.value, source), None


class _Resampling(Op):
    """What both directions share: the fields, which say which elements of `source` make each of `target`."""

    batchable = True

    axis: int
    source: int
    target: int
    kind: str
    scale: float
    align_corners: bool

    def __post_init__(self) -> None:
        if self.kind not in _TABLES:
            raise ArgumentError(f"{self.name}: kind must be one of {', '.join(_TABLES)}, not {self.kind!r}")
        if self.source < 1 or self.target < 1:
            raise ArgumentError(f"{self.name}: lengths must be positive, not {self.source} and {self.target}")
        if not 0 <= self.scale <= self.source + 1:  # a step that leaves the source names no element of it
            raise ArgumentError(f"{self.name}: scale must be between 0 and the source's length, not {self.scale}")

    def lengths(self) -> tuple[int, int]:
        """The length of the axis before and after."""
        raise NotImplementedError

    def table(self) -> tuple[Array, Array]:
        """For each result element the operand elements it is made of and their weights, 0 where there are fewer."""
        raise NotImplementedError

    def _at_these_lengths(self) -> _Resampling:
        """The op in plain numbers, which tables are made of; tracked ones have to stay what they are."""
        source, target, scale = int(self.source), int(self.target), float(self.scale)
        return type(self)(self.axis, source, target, self.kind, scale, self.align_corners)  # type: ignore[call-arg]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """An axis of the right length; floats, unless elements are just picked."""
        (x,) = operands
        before, after = self.lengths()
        if not 0 <= self.axis < x.ndim or x.shape[self.axis] != before:
            raise ShapeError(f"{self.name}: axis {self.axis} must have length {before}{operand_lines(operands)}")
        if not x.dtype.is_differentiable and not self.kind.startswith("nearest"):
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        return (x.with_shape((*x.shape[: self.axis], after, *x.shape[self.axis + 1 :])),)

    def _spread(self, shape: Shape) -> Shape:
        """The shape in which a vector along the axis broadcasts."""
        return tuple(n if a == self.axis else 1 for a, n in enumerate(shape))

    def reference(self, *operands: Array) -> Array:
        """One look-up and multiplication for each element of the sum."""
        (x,) = operands
        wide = x.astype(accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np, copy=False)
        index, weight = self.table()
        shape = (*x.shape[: self.axis], len(index), *x.shape[self.axis + 1 :])
        total = np.zeros(shape, wide.dtype)
        with np.errstate(all="ignore"):
            for at, w in zip(index.T, weight.T, strict=True):
                factor = w.reshape(self._spread(shape))
                part = np.take(wide, at, self.axis)
                if not (w == 1).all():
                    part = np.where(factor != 0, part * factor.astype(wide.dtype), wide.dtype.type(0))
                total = part if index.shape[1] == 1 else total + part
        return total.astype(x.dtype, copy=False)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """A sum of look-ups at constant places, written out if it is short."""
        (x,) = operands
        wide = Term(b, x).convert(accumulator_dtype(x.type.dtype))
        index, weight = self.table()
        if index.shape[1] > _MAX_UNROLLED:
            total = Term(b, b(Sum((self.axis + 1,), False), self._part(wide, index, weight).value))
        else:
            parts = [self._part(wide, at, w) for at, w in zip(index.T, weight.T, strict=True)]
            total = functools.reduce(lambda a, c: a + c, parts)
        return (total.convert(x.type.dtype).value,)

    def _part(self, x: Term, index: Array, weight: Array) -> Term:
        """The look-ups at `index`, times their weights; 0 where the weight is, whatever is there."""
        b, device = x.b, x.value.type.device
        places = b(Constant(Literal(np.ascontiguousarray(index)), device))
        taken = x.apply(TakeClamped(self.axis), Term(b, places))
        if (weight == 1).all():
            return taken
        shape = taken.value.shape
        line = (*(1,) * self.axis, *weight.shape, *(1,) * (len(shape) - self.axis - weight.ndim))
        factors = weight.astype(x.value.type.dtype.np).reshape(line)
        scaled = taken
        if not ((weight == 1) | (weight == 0)).all():
            scaled = taken * Term(b, b(Constant(Literal(factors), device))).expand(shape)
        if (weight == 0).any():
            used = Term(b, b(Constant(Literal(weight.reshape(line) != 0), device))).expand(shape)
            zero = full_like(b, scaled.value, 0)
            scaled = Term(b, b(Where(), used.value, scaled.value, zero))
        return scaled


@op
class Resample(_Resampling):
    """The axis of length `source` resampled to length `target`.

    `kind` is "nearest", "nearest-exact", "linear", "cubic" (also with "-antialias"), or "mean", for means of windows
    that cover the axis. `scale` is the step in the source for one step in the target; `align_corners` puts the end
    elements' centres on each other, not the ends. Meanings are those of PyTorch's `interpolate`.

    >>> import numpy as np
    >>> Resample(0, 2, 4, "linear", 0.5, False).reference(np.array([0.0, 4.0]))
    array([0., 1., 3., 4.])
    """

    axis: int
    source: int
    target: int
    kind: str
    scale: float = 1.0
    align_corners: bool = False
    name = "resample"

    def lengths(self) -> tuple[int, int]:
        """From source to target."""
        return self.source, self.target

    def table(self) -> tuple[Array, Array]:
        """As the kind has it."""
        return _table(self._at_these_lengths())

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The transpose."""
        (g,) = cotangents
        assert g is not None
        return (b(ResampleTranspose(*self.attributes().values()), g),)


@op
class ResampleTranspose(_Resampling):
    """The transpose of `Resample`: from an axis of length `target` to one of length `source`.

    >>> import numpy as np
    >>> ResampleTranspose(0, 2, 4, "linear", 0.5, False).reference(np.array([1.0, 0.0, 0.0, 1.0]))
    array([1., 1.])
    """

    axis: int
    source: int
    target: int
    kind: str
    scale: float = 1.0
    align_corners: bool = False
    name = "resample_transpose"

    def lengths(self) -> tuple[int, int]:
        """From target to source."""
        return self.target, self.source

    def table(self) -> tuple[Array, Array]:
        """For each source element the target elements that it is part of."""
        return _transposed_table(self._at_these_lengths())

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The resampling."""
        (g,) = cotangents
        assert g is not None
        return (b(Resample(*self.attributes().values()), g),)


Table = tuple[Array, Array]


def _nearest(op: _Resampling) -> Table:
    """The element that the start (or the centre, if "exact") of the target's is in; in float32, as in PyTorch."""
    shift = np.float32(0.5 if op.kind == "nearest-exact" else 0)
    at = np.floor((np.arange(op.target, dtype=np.float32) + shift) * np.float32(op.scale)).astype(np.int64)
    return np.minimum(at, op.source - 1)[:, None], np.ones((op.target, 1))


def _positions(op: _Resampling) -> Array:
    """Where in the source the target's centres are."""
    place = np.arange(op.target)
    return op.scale * place if op.align_corners else op.scale * (place + 0.5) - 0.5


def _linear(op: _Resampling) -> Table:
    at = np.maximum(_positions(op), 0)
    first = np.minimum(np.floor(at).astype(np.int64), op.source - 1)
    part = np.clip(at - first, 0, 1)
    second = np.minimum(first + 1, op.source - 1)
    return np.stack([first, second], 1), np.stack([1 - part, part], 1)


def _cubic(op: _Resampling) -> Table:
    at = _positions(op)
    first = np.floor(at).astype(np.int64)
    index = np.clip(first[:, None] + np.arange(-1, 3), 0, op.source - 1)
    return index, _cubic_kernel(np.abs((at - first)[:, None] - np.arange(-1, 3)), _CUBIC)


def _cubic_kernel(distance: Array, a: float) -> Array:
    """Keys's cubic convolution (1981, doi:10.1109/TASSP.1981.1163711)."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _linear_antialias(op: _Resampling) -> Table:
    return _antialias(op, 1, lambda d: np.maximum(1 - d, 0))


def _cubic_antialias(op: _Resampling) -> Table:
    return _antialias(op, 2, lambda d: _cubic_kernel(d, _CUBIC_ANTIALIAS))


def _antialias(op: _Resampling, reach: int, kernel: Callable[[Array], Array]) -> Table:
    """A kernel as wide as a target element, if that is wider than a source element; weights sum to 1.

    Aligned corners change the scale and not the centres, as in PyTorch.
    """
    width = max(op.scale, 1.0)
    centre = op.scale * (np.arange(op.target) + 0.5)
    start = np.maximum(np.trunc(centre - reach * width + 0.5).astype(np.int64), 0)
    stop = np.minimum(np.trunc(centre + reach * width + 0.5).astype(np.int64), op.source)
    index = start[:, None] + np.arange(int((stop - start).max()))
    weight = np.where(index < stop[:, None], kernel(np.abs(index - centre[:, None] + 0.5) / width), 0)
    total = weight.sum(1, keepdims=True)
    return np.minimum(index, op.source - 1), weight / np.where(total == 0, 1, total)


def _mean(op: _Resampling) -> Table:
    place = np.arange(op.target)
    start, stop = place * op.source // op.target, -(-(place + 1) * op.source // op.target)
    index = start[:, None] + np.arange(int((stop - start).max()))
    return np.minimum(index, op.source - 1), (index < stop[:, None]) / (stop - start)[:, None]


_TABLES: dict[str, Callable[[_Resampling], Table]] = {
    "nearest": _nearest,
    "nearest-exact": _nearest,
    "linear": _linear,
    "cubic": _cubic,
    "linear-antialias": _linear_antialias,
    "cubic-antialias": _cubic_antialias,
    "mean": _mean,
}


@functools.lru_cache(256)
def _table(op: _Resampling) -> Table:
    return _TABLES[op.kind](op)


@functools.lru_cache(256)
def _transposed_table(op: _Resampling) -> Table:
    """The table turned around: entries by source element, each row as long as the longest."""
    index, weight = _table(op)
    target = np.broadcast_to(np.arange(op.target)[:, None], index.shape)[weight != 0]
    source, weights = index[weight != 0], weight[weight != 0]
    order = np.argsort(source, kind="stable")
    counts = np.bincount(source, minlength=op.source)
    place = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = source[order], place
    shape = (op.source, max(int(counts.max()), 1))
    indices, factors = np.zeros(shape, np.int64), np.zeros(shape)
    indices[rows], factors[rows] = target[order], weights[order]
    return indices, factors
