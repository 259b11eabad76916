"""Batching rules of reads and writes at indices: where the axis of samples ends up, and when samples need an index."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .. import dtypes
from ..builder import Builder
from ..graph import Value
from ..op import Op
from .broadcast import BroadcastTo
from .creation import Iota
from .sample_axis import all_batched, moved, repeated
from .shape import Permute, Reshape

__all__ = ["at_coordinates", "at_places", "block_moved", "put_at_coordinates", "sample_numbers"]


def sample_numbers(b: Builder, like: Value) -> Value:
    """For each element of `like`, an int64 tensor of samples, the number of its sample."""
    numbers = b(Iota((like.shape[0],), 0, dtypes.int64, like.type.device))
    return b(BroadcastTo(like.shape), b(Reshape((like.shape[0], *(1,) * (like.ndim - 1))), numbers))


def block_moved(b: Builder, x: Value, source: int, width: int, destination: int) -> Value:
    """`x` with the `width` axes from `source` on moved so that they start at `destination`, the others in order."""
    if source == destination or not width:
        return x
    block = list(range(source, source + width))
    rest = [a for a in range(x.ndim) if a not in block]
    return b(Permute((*rest[:destination], *block, *rest[destination:])), x)


def at_places(b: Builder, op: Op, x: Value, index: Value, axis: int, size: int) -> Value:
    """`op`, which puts the places along `axis` of `x` that `index` names where that axis was, for samples' indices.

    All samples look into the same `x`.
    """
    shape = index.shape[1:]
    found = b(op, x, b(Reshape((index.size,)), index))
    apart = b(Reshape((*found.shape[:axis], size, *shape, *found.shape[axis + 1 :])), found)
    return moved(b, apart, axis, 0)


def at_coordinates(
    b: Builder, op: Op, operands: Sequence[Value], batched: Sequence[bool], size: int, place: int
) -> Value:
    """`TakeNd` for samples; the axes of its indices stand at `place` in the result of one sample."""
    x, *indices = operands
    axes: tuple[int, ...] = op.axes  # type: ignore[attr-defined]
    if not any(batched[1:]):
        found = b(dataclasses.replace(op, axes=tuple([a + 1 for a in axes])), x, *indices)  # type: ignore[type-var]
        neighbours = axes[-1] - axes[0] == len(axes) - 1
        return found if neighbours else moved(b, found, indices[0].ndim, 0)
    indices = all_batched(b, indices, batched[1:], size)
    width = indices[0].ndim - 1
    if not batched[0]:
        return moved(b, b(op, x, *indices), place, 0)
    own = dataclasses.replace(op, axes=(0, *[a + 1 for a in axes]))  # type: ignore[type-var]
    found = b(own, x, sample_numbers(b, indices[0]), *indices)
    return block_moved(b, found, 1, width, 1 + place)


def put_at_coordinates(
    b: Builder, op: Op, operands: Sequence[Value], batched: Sequence[bool], size: int, place: int
) -> Value:
    """`IndexPut` for samples; the axes of its indices stand at `place` in the value of one sample."""
    base, *indices, value = operands
    axes: tuple[int, ...] = op.axes  # type: ignore[attr-defined]
    base = base if batched[0] else repeated(b, base, size)
    value = value if batched[-1] else repeated(b, value, size)
    if not any(batched[1:-1]):
        shifted = dataclasses.replace(op, axes=tuple([a + 1 for a in axes]))  # type: ignore[type-var]
        neighbours = axes[-1] - axes[0] == len(axes) - 1
        return b(shifted, base, *indices, value if neighbours else moved(b, value, 0, indices[0].ndim))
    indices = all_batched(b, indices, batched[1:-1], size)
    width = indices[0].ndim - 1
    own = dataclasses.replace(op, axes=(0, *[a + 1 for a in axes]))  # type: ignore[type-var]
    value = block_moved(b, value, 1 + place, width, 1)
    return b(own, base, sample_numbers(b, indices[0]), *indices, value)
