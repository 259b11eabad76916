"""Reading and writing at integer indices: `Gather`, `IndexSelect` and `TakeNd`, each with its transpose.

Indices are integer tensors. Negative ones count from the end; ones out of range raise `IndexError`.
A generated kernel cannot raise; `value_checks` come before it, and it never reads or writes outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..dtypes import DType
from ..errors import ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, IndexMap, Load, Op, ScatterOp, Values, op
from ..scalar import Expr
from ..types import Shape, TensorType
from .broadcast import accumulator_dtype
from .comparison import Eq
from .creation import Full, Iota, zeros_like
from .indexed import Indexed, Summing, add_rows, load_wrapped, wrapped_expr
from .indexing_samples import at_coordinates, at_places, block_moved, put_at_coordinates, sample_numbers
from .sample_axis import all_batched
from .select import Where
from .shape import Reshape

__all__ = ["Gather", "IndexAdd", "IndexPut", "IndexSelect", "Scatter", "ScatterAdd", "TakeNd"]


def _written_last(b: Builder, write: Op, read: Op, base: Value, indices: Values, value: Value) -> Value:
    """A bool for each element of `value`: whether it, of all written to the same place, is the last."""
    order = b(Reshape(value.shape), b(Iota((value.size,), 0, dtypes.int64, value.type.device)))
    nowhere = b(Full(base.shape, dtypes.int64, -1, base.type.device))
    return b(Eq(), b(read, b(write, nowhere, *indices, order), *indices), order)


class AlongAxis(Indexed):
    """Along one axis, with an index for every element."""

    axis: int

    def index_axes(self, *operands: TensorType) -> tuple[int, ...]:
        """The op's."""
        return (self.axis,)

    def _position(self, index: tuple[Expr, ...], at: Load, length: int) -> list[Expr]:
        """The place that the index element at `index` names."""
        named = wrapped_expr(at(index), length)
        return [named if a == self.axis else i for a, i in enumerate(index)]

    def _check(self, x: TensorType, index: TensorType) -> None:
        self._check_index(index)
        self._check_axis(self.axis, x)
        fits = x.ndim == index.ndim and all(
            n <= m for a, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)) if a != self.axis
        )
        if not fits:
            raise ShapeError(
                f"{self.name}: index {list(index.shape)} is not within {list(x.shape)} apart from axis "
                f"{self.axis}{operand_lines((x, index))}"
            )

    def _coordinates(self, x: Array, index: Array) -> tuple[Array, ...]:
        """Per axis of `x`, the coordinate of each element named by `index` (broadcasting)."""
        grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
        grid[self.axis] = self._wrapped(index, self.axis, x.shape[self.axis])
        return tuple(grid)


@op
class Gather(IndexMap, AlongAxis):
    """`out[i][j] = x[index[i][j]][j]` for axis 0, and so on: `torch.gather`.

    The result has the shape of `index`, which may be shorter than `x` along the other axes.

    >>> import jitgrad as jg
    >>> jg.gather(jg.tensor([[1, 2], [3, 4]]), 1, jg.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """

    axis: int
    name = "gather"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """An integer index of the same rank, within the operand apart from `axis`."""
        x, index = operands
        self._check(x, index)
        return (x.with_shape(index.shape),)

    def reference(self, *operands: Array) -> Array:
        """Advanced indexing."""
        x, index = operands
        return x[self._coordinates(x, index)]

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element named by the index tensor; 0 if out of range."""
        x, at = operands
        return load_wrapped(x, self._position(index, at, x.type.shape[self.axis]), (self.axis,))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent added up where it was read."""
        (g,) = cotangents
        assert g is not None
        x, index = operands
        return b(ScatterAdd(self.axis), zeros_like(b, x), index, g), None


class Scattering(ScatterOp, AlongAxis):
    """A write of `source` to the places of `base` that `Gather` would read."""

    batchable = True

    def place(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> tuple[Expr, ...]:
        """What the index element there names."""
        base, at, _ = operands
        return tuple(self._position(index, at, base.type.shape[self.axis]))

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """As for `Gather`; the source has the index's shape and the base's dtype."""
        base, index, source = operands
        self._check(base, index)
        self._check_source(base, source, index.shape)
        return (base,)


@op
class ScatterAdd(Summing, Scattering):
    """`base` with `source` added at the places that `Gather` would read; repeated places add up.

    Operands: `base`, `index`, `source` (of the shape of `index`).
    """

    axis: int
    name = "scatter_add"

    def reference(self, *operands: Array) -> Array:
        """Sums by place."""
        base, index, source = operands
        out = np.array(base, order="C")
        places = np.ravel_multi_index(np.broadcast_arrays(*self._coordinates(base, index)), base.shape, mode="clip")
        add_rows(out.reshape(-1, 1), places.reshape(-1), source.reshape(-1, 1))
        return out

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The base's: the cotangent. The source's: the cotangent read at the index."""
        (g,) = cotangents
        return g, None, b(Gather(self.axis), g, operands[1]) if needs[2] and g is not None else None


@op
class Scatter(Scattering):
    """`base` with the places that `Gather` would read set to `source`; the last in row-major order wins.

    Operands: `base`, `index`, `source` (of the shape of `index`).
    """

    axis: int
    name = "scatter"

    def meet(self, present: Expr, coming: Expr) -> Expr:
        """What comes last."""
        return coming

    def reference(self, *operands: Array) -> Array:
        """Assignment by advanced indexing."""
        base, index, source = operands
        out = np.array(base, order="C")
        out[self._coordinates(base, index)] = source
        return out

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The base's: the cotangent with the places zeroed. The source's: what was read of its own."""
        (g,) = cotangents
        assert g is not None
        base, index, source = operands
        zeros = zeros_like(b, source)
        g_base = b(self, g, index, zeros) if needs[0] else None
        if not needs[2]:
            return g_base, None, None
        last = _written_last(b, self, Gather(self.axis), base, (index,), source)
        return g_base, None, b(Where(), last, b(Gather(self.axis), g, index), zeros)


class _Selecting(Indexed):
    """Along one axis, with a 1-d index for whole stretches."""

    axis: int

    def index_axes(self, *operands: TensorType) -> tuple[int, ...]:
        """The op's."""
        return (self.axis,)

    def _position(self, index: tuple[Expr, ...], at: Load, length: int) -> list[Expr]:
        """The place of the stretches' element at `index`."""
        named = wrapped_expr(at((index[self.axis],)), length)
        return [named if a == self.axis else i for a, i in enumerate(index)]

    def _selected(self, x: TensorType, index: TensorType) -> Shape:
        """The shape of the stretches named by the index."""
        self._check_index(index)
        self._check_axis(self.axis, x)
        if index.ndim != 1:
            raise ShapeError(f"{self.name}: the index is not 1-d{operand_lines((x, index))}")
        return (*x.shape[: self.axis], index.shape[0], *x.shape[self.axis + 1 :])


@op
class IndexSelect(IndexMap, _Selecting):
    """The stretches along `axis` named by a 1-d index: `torch.index_select`, and embedding look-ups.

    >>> import jitgrad as jg
    >>> jg.index_select(jg.tensor([[1, 2], [3, 4]]), 0, jg.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])
    """

    axis: int
    name = "index_select"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A 1-d integer index."""
        x, index = operands
        return (x.with_shape(self._selected(x, index)),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """One index serves all samples, or each has its own."""
        x, index = operands
        if not batched[1]:
            return (b(IndexSelect(self.axis + 1), x, index),)
        if not batched[0]:
            return (at_places(b, self, x, index, self.axis, size),)
        found = b(TakeNd((0, self.axis + 1)), x, sample_numbers(b, index), index)
        return (block_moved(b, found, 1, 1, self.axis + 1),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.take`."""
        x, index = operands
        return np.take(x, self._wrapped(index, self.axis, x.shape[self.axis]), self.axis)

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element named by the index tensor; 0 if out of range."""
        x, at = operands
        return load_wrapped(x, self._position(index, at, x.type.shape[self.axis]), (self.axis,))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent added up where it was read."""
        (g,) = cotangents
        assert g is not None
        x, index = operands
        return b(IndexAdd(self.axis), zeros_like(b, x), index, g), None


@op
class IndexAdd(Summing, _Selecting):
    """`base` with `source` added to the stretches that `IndexSelect` would read; repeated ones add up.

    Operands: `base`, `index` (1-d), `source`.
    """

    axis: int
    name = "index_add"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A 1-d integer index, and a source as `IndexSelect` would give it."""
        base, index, source = operands
        self._check_source(base, source, self._selected(base, index))
        return (base,)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """One index serves all samples, or each has its own."""
        base, index, source = operands
        base, source = all_batched(b, (base, source), (batched[0], batched[2]), size)
        if not batched[1]:
            return (b(IndexAdd(self.axis + 1), base, index, source),)
        source = block_moved(b, source, self.axis + 1, 1, 1)
        return (b(IndexPut((0, self.axis + 1), True), base, sample_numbers(b, index), index, source),)

    def place(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> tuple[Expr, ...]:
        """What the index element of the stretch names."""
        base, at, _ = operands
        return tuple(self._position(index, at, base.type.shape[self.axis]))

    def reference(self, *operands: Array) -> Array:
        """Sums by stretch."""
        base, index, source = operands
        named = self._wrapped(index, self.axis, base.shape[self.axis])
        out = np.array(np.moveaxis(base, self.axis, 0), order="C")
        if source.size:
            values = np.moveaxis(source, self.axis, 0).reshape(len(named), -1)
            add_rows(out.reshape(len(out), -1), named, values)
        return np.moveaxis(out, 0, self.axis)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The base's: the cotangent. The source's: the stretches of the cotangent."""
        (g,) = cotangents
        return g, None, b(IndexSelect(self.axis), g, operands[1]) if needs[2] and g is not None else None


class _AtCoordinates(Indexed):
    """At the coordinates that several index tensors of one shape give along `axes`."""

    axes: tuple[int, ...]

    def index_axes(self, *operands: TensorType) -> tuple[int, ...]:
        """The op's."""
        return self.axes

    def _position(self, index: tuple[Expr, ...], indices: Sequence[Load], lengths: Shape) -> list[Expr]:
        """The place that the region's element at `index` has."""
        at, width = self._place(), indices[0].type.ndim
        named = index[at : at + width]
        rest = iter((*index[:at], *index[at + width :]))
        found = {axis: wrapped_expr(load(named), lengths[axis]) for axis, load in zip(self.axes, indices, strict=True)}
        return [found[a] if a in found else next(rest) for a in range(len(lengths))]

    def _region(self, x: TensorType, indices: Sequence[TensorType]) -> Shape:
        """The shape of what the indices name."""
        if list(self.axes) != sorted(set(self.axes)) or len(self.axes) != len(indices) or not indices:
            raise ShapeError(f"{self.name}: {len(indices)} indices for axes {list(self.axes)}{operand_lines((x,))}")
        for axis, index in zip(self.axes, indices, strict=True):
            self._check_axis(axis, x)
            self._check_index(index)
            if index.shape != indices[0].shape:
                raise ShapeError(f"{self.name}: index shapes differ{operand_lines(indices)}")
        rest = [n for a, n in enumerate(x.shape) if a not in self.axes]
        at = self._place()
        return (*rest[:at], *indices[0].shape, *rest[at:])

    def _place(self) -> int:
        """Where in the result the indices' axes are: at the first if `axes` are neighbours, else in front."""
        first, last = self.axes[0], self.axes[-1]
        return first if last - first == len(self.axes) - 1 else 0

    def _key(self, x: Array, indices: Sequence[Array]) -> tuple[Any, ...]:
        """The index tuple for NumPy."""
        key: list[Any] = [slice(None)] * x.ndim
        for axis, index in zip(self.axes, indices, strict=True):
            key[axis] = self._wrapped(index, axis, x.shape[axis])
        return tuple(key)


@op
class TakeNd(IndexMap, _AtCoordinates):
    """`x[:, i, j]`: the stretches at the coordinates that index tensors give along `axes`.

    Operands: `x`, then one integer tensor per axis, all of one shape. Their axes stand in the result where
    the first of `axes` stood if these are neighbours, else in front, as in NumPy.

    >>> import jitgrad as jg
    >>> jg.tensor([[1, 2], [3, 4]])[jg.tensor([0, 1]), jg.tensor([1, 1])]
    tensor([2, 4])
    """

    axes: tuple[int, ...]
    name = "take_nd"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """One integer index per axis, all of one shape."""
        x, *indices = operands
        return (x.with_shape(self._region(x, indices)),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """The samples' axis stays in front; where indices are the samples' own, the sample is an index too."""
        return (at_coordinates(b, self, operands, batched, size, self._place()),)

    def reference(self, *operands: Array) -> Array:
        """Advanced indexing."""
        x, *indices = operands
        return np.asarray(x[self._key(x, indices)])

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element at the coordinates read from the indices; 0 if out of range."""
        x, *indices = operands
        return load_wrapped(x, self._position(index, indices, x.type.shape), self.axes)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent added up where it was read."""
        (g,) = cotangents
        assert g is not None
        x, *indices = operands
        g_x = b(IndexPut(self.axes, True), zeros_like(b, x), *indices, g)
        return g_x, *(None for _ in indices)


@op
class IndexPut(ScatterOp, _AtCoordinates):
    """`base` with the places that `TakeNd` would read set to `value`, or with it added there if `accumulate`.

    Operands: `base`, one integer tensor per axis, `value`. Of values set to the same place the last in
    row-major order stays.
    """

    axes: tuple[int, ...]
    accumulate: bool = False
    name = "index_put"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """One integer index per axis, and a value as `TakeNd` would give it."""
        base, *indices, value = operands
        self._check_source(base, value, self._region(base, indices))
        return (base,)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """As `TakeNd` reads."""
        return (put_at_coordinates(b, self, operands, batched, size, self._place()),)

    def place(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> tuple[Expr, ...]:
        """The coordinates read from the indices."""
        base, *indices, _ = operands
        return tuple(self._position(index, indices, base.type.shape))

    def meet(self, present: Expr, coming: Expr) -> Expr:
        """The sum, or what comes last."""
        return present + coming if self.accumulate else coming

    def wide(self, dtype: DType) -> DType:
        """The type of sums, where there are any."""
        return accumulator_dtype(dtype) if self.accumulate else dtype

    def reference(self, *operands: Array) -> Array:
        """Assignment by advanced indexing, or sums by place."""
        base, *indices, value = operands
        if self.accumulate:
            return self._accumulated(base, indices, value)
        out = np.array(base, order="C")
        self.assign(out, *indices, value)
        return out

    def assign(self, base: Array, *rest: Array) -> None:
        """Set the places in `base` itself, an array of the caller's; nothing is written if an index is wrong."""
        *indices, value = rest
        key = self._key(base, indices)
        base[key] = value.copy() if np.may_share_memory(base, value) else value

    def _accumulated(self, base: Array, indices: Sequence[Array], value: Array) -> Array:
        key = self._key(base, indices)
        front = tuple(range(len(self.axes)))
        out = np.array(np.moveaxis(base, self.axes, front), order="C")
        if value.size:
            lengths = out.shape[: len(front)]
            places = np.ravel_multi_index(tuple(key[a] for a in self.axes), lengths).reshape(-1)
            at, width = self._place(), indices[0].ndim
            values = np.moveaxis(value, tuple(range(at, at + width)), tuple(range(width)))
            add_rows(out.reshape(int(np.prod(lengths)), -1), places, values.reshape(len(places), -1))
        return np.moveaxis(out, front, self.axes)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The base's: the cotangent, zeroed where set. The value's: what was read of its own."""
        (g,) = cotangents
        assert g is not None
        base, *indices, value = operands
        nothing = [None] * len(indices)
        read = TakeNd(self.axes)
        if self.accumulate:
            return g, *nothing, b(read, g, *indices) if needs[-1] else None
        zeros = zeros_like(b, value)
        g_base = b(self, g, *indices, zeros) if needs[0] else None
        if not needs[-1]:
            return g_base, *nothing, None
        last = _written_last(b, self, read, base, indices, value)
        return g_base, *nothing, b(Where(), last, b(read, g, *indices), zeros)
