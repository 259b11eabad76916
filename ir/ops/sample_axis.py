"""The axis of samples, in front of all others: what batching rules do with it."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder
from ..graph import Value
from .broadcast import BroadcastTo
from .shape import Permute, Reshape, moved_axis_permutation

__all__ = ["all_batched", "merged", "moved", "repeated", "split"]


def repeated(b: Builder, x: Value, size: int) -> Value:
    """`x` as every one of `size` samples."""
    return b(BroadcastTo((size, *x.shape)), x)


def all_batched(b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> list[Value]:
    """The operands, those that are the same for all samples repeated."""
    return [x if has else repeated(b, x, size) for x, has in zip(operands, batched, strict=True)]


def moved(b: Builder, x: Value, source: int, destination: int) -> Value:
    """`x` with axis `source` at `destination`."""
    if source == destination:
        return x
    return b(Permute(moved_axis_permutation(x.ndim, source, destination)), x)


def merged(b: Builder, x: Value, axis: int = 0) -> Value:
    """`x` with the axis of samples made part of the axis that stands at `axis` without it: samples by its elements."""
    x = moved(b, x, 0, axis)
    return b(Reshape((*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :])), x)


def split(b: Builder, x: Value, size: int, axis: int = 0) -> Value:
    """What `merged` has merged, taken apart again."""
    length = x.shape[axis] // size if size else 0
    return moved(b, b(Reshape((*x.shape[:axis], size, length, *x.shape[axis + 1 :])), x), axis, 0)
