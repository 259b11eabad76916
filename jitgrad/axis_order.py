"""How an array lies in memory, where that is not row by row: a transposed array's order of axes, a slice's gaps.

Machine code takes such an array with its axes in the order in which they lie, and with what lies in its gaps, and reads
the part that is the array's along other axes; so nothing is copied, and what comes next to each other in memory is read
together. Nothing in a gap is ever read: after the last row it need not be memory of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Value
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.ops.slicing import Slice
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


@dataclass(frozen=True, slots=True)
class Layout:
    """Axes from the outermost in memory to the innermost, and their lengths there, gaps included."""

    order: Order
    held: tuple[int, ...]

    def input(self, b: Builder, type: TensorType, name: str = "") -> Value:
        """A value of that type, made of a graph input that lies so."""
        arranged = arranged_type(type, self.order)
        x = b.input(type.with_shape(self.held), name)
        if arranged.shape != self.held:
            n = len(self.held)
            x = b(Slice((0,) * n, arranged.shape, (1,) * n), x)
        return x if list(self.order) == sorted(self.order) else b(Permute(put_back(self.order)), x)

    def held_array(self, array: Any) -> Any:
        """What such an input is given for an array that lies so: it ends where the last gap does."""
        x = array.transpose(self.order)
        if x.shape == self.held:
            return x
        if not x.flags.aligned:  # it will be copied as a whole
            whole = np.zeros(self.held, x.dtype)
            whole[tuple(map(slice, x.shape))] = x
            return whole
        return np.lib.stride_tricks.as_strided(x, self.held, contiguous_strides(self.held, x.itemsize))


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Layout | None:
    """How an array of these strides lies, if not row by row without gaps and if elements lie next to each other.

    >>> layout_of((2, 3), (4, 8), 4), layout_of((2, 3), (20, 4), 4)
    (Layout(order=(1, 0), held=(3, 2)), Layout(order=(0, 1), held=(2, 5)))
    >>> layout_of((2, 3), (12, 4), 4), layout_of((2, 3), (24, 8), 4), layout_of((2, 3), (0, 4), 4)
    (None, None, None)
    """
    order = tuple(sorted(range(len(shape)), key=lambda a: (-strides[a], a)))
    steps = [strides[a] for a in order]
    if not order or steps[-1] != itemsize:
        return None
    held = [shape[order[0]]]
    for axis, outer, inner in zip(order[1:], steps, steps[1:]):
        length, rest = divmod(outer, inner)
        if rest or length < shape[axis]:
            return None
        held.append(length)
    return None if held == list(shape) and list(order) == sorted(order) else Layout(order, tuple(held))
