"""How the values of a trace would lie in memory if they were computed eagerly.

Eager code lays out the result of an elementwise op as NumPy does: in the order of axes that its operands have, and in
row-major order where they differ. What a view shows lies where it lies; all else is row-major. So that compiled
results have the same strides, they are found here from the graph alone, when somebody asks.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import Pointwise, View
from jitgrad.ir.ops.history import Detach, WithHistory
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.write import WriteView
from jitgrad.ir.types import TensorType

from ..arrays import contiguous_strides, seen_strides, strides_only
from ..axis_order import Layout, layout_of, memory_order
from ..backend import DeviceArray

if TYPE_CHECKING:
    from .tracer import Tracer

Strides = tuple[int, ...]  # in bytes, as NumPy has them

_SAME = (Detach, WithHistory, WriteView)  # results take the place of their first operand, as those of checks do


class MemoryLayout:
    """Of one trace: the strides of its values. None stands for row-major order without gaps."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._known: dict[Value, Strides | None] = {}

    def of(self, value: Value) -> Strides | None:
        """The strides of `value`."""
        known, stack = self._known, [value]
        while stack:
            v = stack[-1]
            if v not in known:
                node = v.node
                behind = () if node is None else _behind(node)
                missing = [x for x in behind if x not in known]
                if missing:
                    stack += missing
                    continue
                known[v] = self._given(v) if node is None else self._found(node, [known[x] for x in behind])
            stack.pop()
        return known[value]

    def row_major(self, value: Value) -> None:
        """The program has laid out `value`, which was just made, in row-major order."""
        self._known[value] = None

    def repeated(self, value: Value) -> None:
        """`value` is one number, which has no part in how others lie."""
        self._known[value] = (0,) * len(value.type.shape)

    def lies_as(self, value: Value, other: Value) -> None:
        """`value`, which was just made, stands for `other`."""
        self._known[value] = self.of(other)

    def as_of(self, value: Value, other: Value) -> Value:
        """`value` as what is written over `other`, whose strides it takes."""
        wanted = self.of(other)
        if self.of(value) != wanted:
            (value,) = self._tracer.emit(Convert(value.type.dtype), [value])
            self._known[value] = wanted
        return value

    def order(self, value: Value) -> tuple[int, ...] | None:
        """The axes from the outermost in memory to the innermost, if that is not their order and there are no gaps."""
        strides = self.of(value)
        if strides is None or self._tracer.placement.where.type != "cpu":
            return None
        return memory_order(value.type.shape, strides, value.type.dtype.itemsize)

    def given(self, value: Value) -> Layout | None:
        """How an input lies that is not row-major, where machine code can take it so."""
        strides = self.of(value)
        if strides is None or self._tracer.placement.where.type != "cpu":
            return None
        return layout_of(tuple(map(int, value.type.shape)), strides, value.type.dtype.itemsize)

    def arranged(self, array: Any, value: Value) -> Any:
        """An array of `value` in memory of its own, which lies as it should."""
        order = self.order(value)
        if order is None:
            return array
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))

    def _given(self, v: Value) -> Strides | None:
        """The strides of an input."""
        tracer = self._tracer
        slot = tracer.cuts.known.get(v)
        tensor = None if slot is None else getattr(tracer.sources[slot], "tensor", None)
        data = None if tensor is None else tensor(tracer.leaves)._data
        if data.__class__ is DeviceArray:
            data = strides_only(data)
        return None if data.__class__ is not np.ndarray or data.flags.c_contiguous else data.strides

    def _found(self, node: Node, known: Sequence[Strides | None]) -> Strides | None:
        op = node.op
        if isinstance(op, View):
            return _shown(op, node.operands[0].type, known[0], node.result.type)
        if isinstance(op, _SAME) or op.effect:
            return known[0]
        if known.count(None) == len(known) or self._tracer.placement.where.type != "cpu":
            return None
        return elementwise([v.type.shape for v in node.operands], known, node.result.type.dtype.itemsize)


def _behind(node: Node) -> Sequence[Value]:
    """The operands that decide how the result lies."""
    op = node.op
    if isinstance(op, _SAME) or op.effect:
        return node.operands[:1]
    return node.operands if isinstance(op, (Pointwise, View)) else ()


@functools.lru_cache(10_000)
def _shown(op: View, type: TensorType, strides: Strides | None, shown: TensorType) -> Strides | None:
    """How what a view shows of a value of that type lies."""
    shape = tuple(map(int, type.shape))
    steps = strides or contiguous_strides(shape, type.dtype.itemsize)
    seen = seen_strides(op, shape, steps, type.dtype.np)
    return None if seen == contiguous_strides(shown.shape, shown.dtype.itemsize) else seen


def elementwise(shapes: Sequence[Sequence[int]], strides: Sequence[Strides | None], itemsize: int) -> Strides | None:
    """The strides of what NumPy computes from arrays of one shape that lie so.

    >>> elementwise([(2, 3), (2, 3)], [(4, 8), (4, 8)], 4), elementwise([(2, 3), (2, 3)], [(4, 8), None], 4)
    ((4, 8), None)
    """
    shape = tuple(map(int, shapes[0]))
    steps = [contiguous_strides(shape, itemsize) if s is None else s for s in strides]
    by_axis = [[0 if n == 1 else abs(s[axis]) for s in steps] for axis, n in enumerate(shape)]
    order: list[int] = []  # innermost first
    for axis in reversed(range(len(shape))):
        at = len(order)
        for i in reversed(range(len(order))):
            goes_in = _goes_inside(by_axis[axis], by_axis[order[i]])
            if goes_in:
                at = i
            elif goes_in is False:
                break
        order.insert(at, axis)
    order.reverse()
    if order == sorted(order):
        return None
    packed = contiguous_strides(tuple([shape[a] for a in order]), itemsize)
    return tuple([packed[order.index(a)] for a in range(len(shape))])


def _goes_inside(steps: Sequence[int], others: Sequence[int]) -> bool | None:
    """Whether an axis with these strides belongs inside of one with others, which comes after it; None if all is one.

    Where operands differ, row-major order wins.
    """
    said = [s < o for s, o in zip(steps, others, strict=True) if s and o]
    return all(said) if said else None
