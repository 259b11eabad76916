"""A graph taken apart: its structure, and the numbers in it, one after another.

Graphs of one structure are the same but for numbers: lengths of inputs, and fields of ops that are lengths or values.
Types of results follow.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.op import Op
from jitgrad.ir.types import TensorType

_INT: Final = "int"
_FLOAT: Final = "float"
_OF_STRUCTURE: Final = {  # fields that say which axes or operands are meant, and how many there are: no sizes
    "active", "axes", "axis", "axis1", "axis2", "carries", "perm", "rank", "sequences", "whole",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outline:
    """What a graph consists of."""

    structure: Hashable
    numbers: list[Any]


class Outlines:
    """Makes outlines; what ops consist of is kept as long as they live."""

    def __init__(self) -> None:
        self._ops: WeakKeyDictionary[Op, tuple[Hashable, tuple[Any, ...]]] = WeakKeyDictionary()

    def of(self, graph: Graph) -> Outline:
        """The outline of a graph."""
        numbers: list[Any] = []
        return Outline(self._graph(graph, numbers), numbers)

    def _graph(self, graph: Graph, numbers: list[Any]) -> Hashable:
        places: dict[Value, int] = {}
        parts: list[Hashable] = []
        for v in graph.inputs:
            places[v] = len(places)
            parts.append(self._field(v.type, numbers))
        ops = self._ops
        for node in graph.nodes:
            found = ops.get(node.op)
            if found is None:
                own: list[Any] = []
                found = ops[node.op] = (self._op(node.op, own), tuple(own))
            parts.append(found[0])
            numbers += found[1]
            parts.append(tuple([places[v] for v in node.operands]))
            for v in node.results:
                places[v] = len(places)
        return tuple(parts), tuple([places[v] for v in graph.outputs])

    def _op(self, op: Op, numbers: list[Any]) -> Hashable:
        fields = op.attributes().items()
        return type(op), tuple([x if k in _OF_STRUCTURE else self._field(x, numbers) for k, x in fields])

    def _field(self, x: Any, numbers: list[Any]) -> Hashable:
        """What a field is but for numbers, which go behind the others."""
        cls = x.__class__
        if cls is int or (cls is float and is_plain(x)):
            numbers.append(x)
            return _INT if cls is int else _FLOAT
        if cls is tuple:
            return tuple([self._field(y, numbers) for y in x])
        if cls is TensorType:
            return x.dtype, x.device, self._field(x.shape, numbers)
        if isinstance(x, Op):
            return self._op(x, numbers)
        if isinstance(x, Graph):
            return self._graph(x, numbers)
        return cls, repr(x) if cls is float or cls is complex else x  # zeros have signs


def is_plain(x: float) -> bool:
    """Whether a float equals nothing but itself."""
    return math.isfinite(x) and (x != 0.0 or math.copysign(1.0, x) > 0)


def with_numbers(x: Any, numbers: Iterator[Any]) -> Any:
    """A field, type, op or graph with other numbers, taken in the order of its outline."""
    cls = x.__class__
    if cls is int or (cls is float and is_plain(x)):
        return next(numbers)
    if cls is tuple:
        return tuple([with_numbers(y, numbers) for y in x])
    if cls is TensorType:
        return x.with_shape(with_numbers(x.shape, numbers))
    if isinstance(x, Op):
        fields = x.attributes().items()
        return type(x)(**{k: v if k in _OF_STRUCTURE else with_numbers(v, numbers) for k, v in fields})
    return graph_with_numbers(x, numbers) if isinstance(x, Graph) else x


def graph_with_numbers(graph: Graph, numbers: Iterator[Any]) -> Graph:
    """The same for a graph, whose results' types are inferred."""
    b = Builder()
    env: dict[Value, Value] = {v: b.input(with_numbers(v.type, numbers), v.name) for v in graph.inputs}
    for node in graph.nodes:
        b.location, b.scope = node.location, node.scope
        results = b.emit(with_numbers(node.op, numbers), *[env[v] for v in node.operands])
        for old, new in zip(node.results, results, strict=True):
            new.name = old.name
            env[old] = new
    return b.build([env[v] for v in graph.outputs])
