"""The order in which an array's axes lie in memory, where it is not that of their numbers: a transposed array's.

Machine code takes such an array with its axes in that order, in which it is contiguous, and reads it along other axes;
so nothing is copied, and what comes next to each other in memory is read together.
"""

from __future__ import annotations

from typing import TypeAlias

from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Value
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.types import TensorType

from .arrays import contiguous_strides

Order: TypeAlias = tuple[int, ...]


def memory_order(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """The axes from the outermost in memory to the innermost, if that is not their order and there are no gaps.

    >>> memory_order((2, 3), (4, 8), 4), memory_order((2, 3), (12, 4), 4), memory_order((2, 3), (4, 16), 4)
    ((1, 0), None, None)
    """
    order = tuple(sorted(range(len(shape)), key=lambda a: (-strides[a], a)))
    packed = contiguous_strides(tuple([shape[a] for a in order]), itemsize)
    is_dense = all(strides[a] == s for a, s in zip(order, packed, strict=True))
    return order if is_dense and list(order) != sorted(order) else None


def put_back(order: Order) -> Order:
    """The axes' own order, of an array whose axes have been put into `order`."""
    return Permute(order).inverse().perm


def arranged_input(b: Builder, type: TensorType, order: Order | None, name: str = "") -> Value:
    """A value of that type, made of a graph input that has its axes in `order`."""
    if order is None:
        return b.input(type, name)
    return b(Permute(put_back(order)), b.input(arranged_type(type, order), name))


def arranged_type(type: TensorType, order: Order) -> TensorType:
    """The same with its axes in `order`."""
    return type.with_shape(tuple([type.shape[a] for a in order]))
