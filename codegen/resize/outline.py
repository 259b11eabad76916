"""A graph taken apart: its structure, and the numbers in it, one after another.

Graphs of one structure are the same but for numbers: lengths of inputs, and fields of ops that are lengths or values.
Types of results follow.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import Op
from jitgrad.ir.tracked import Tracked
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
    counts: list[int]  # of the numbers: first those of the inputs, then how many each node has


class Outlines:
    """Makes outlines; what ops consist of is kept as long as they live."""

    def __init__(self) -> None:
        self._ops: WeakKeyDictionary[Op, tuple[Hashable, tuple[Any, ...]]] = WeakKeyDictionary()

    def of(self, graph: Graph) -> Outline:
        """The outline of a graph."""
        numbers: list[Any] = []
        counts: list[int] = []
        return Outline(self._graph(graph, numbers, counts), numbers, counts)

    def _graph(self, graph: Graph, numbers: list[Any], counts: list[int]) -> Hashable:
        places: dict[Value, int] = {}
        parts: list[Hashable] = []
        for v in graph.inputs:
            places[v] = len(places)
            parts.append(self._field(v.type, numbers))
        counts.append(len(numbers))
        seen: dict[Op, tuple[Hashable, tuple[Any, ...]]] = {}  # weak keys take longer
        for node in graph.nodes:
            found = seen.get(node.op)
            if found is None:
                found = seen[node.op] = self._known(node.op)
            parts.append(found[0])
            numbers += found[1]
            counts.append(len(found[1]))
            parts.append(tuple([places[v] for v in node.operands]))
            for v in node.results:
                places[v] = len(places)
        return tuple(parts), tuple([places[v] for v in graph.outputs])

    def form(self, op: Op) -> Hashable:
        """What an op is but for its numbers."""
        return self._known(op)[0]

    def _known(self, op: Op) -> tuple[Hashable, tuple[Any, ...]]:
        """What an op consists of."""
        found = self._ops.get(op)
        if found is None:
            own: list[Any] = []
            found = self._ops[op] = (self._op(op, own), tuple(own))
        return found

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
            return self._graph(x, numbers, [])
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
    return _inner_with_numbers(x, numbers) if isinstance(x, Graph) else x


def _inner_with_numbers(graph: Graph, numbers: Iterator[Any]) -> Graph:
    """The same for a graph that is an op's field."""
    b = Builder()
    env: dict[Value, Value] = {v: b.input(with_numbers(v.type, numbers), v.name) for v in graph.inputs}
    for node in graph.nodes:
        b.location, b.scope = node.location, node.scope
        results = b.emit(with_numbers(node.op, numbers), *[env[v] for v in node.operands])
        for old, new in zip(node.results, results, strict=True):
            new.name = old.name
            env[old] = new
    return b.build([env[v] for v in graph.outputs])


def graph_with_tracked(graph: Graph, numbers: Sequence[Any], counts: Sequence[int]) -> Graph:
    """`graph` with `numbers` instead of its own, which they are but for tracked ones; its outline has `counts`.

    Types are inferred where a tracked number comes in.
    """
    given = iter(numbers[: counts[0]])
    env = {v: Value(_kept(with_numbers(v.type, given), v.type), name=v.name) for v in graph.inputs}
    inputs, nodes, at = list(env.values()), [], counts[0]
    for node, count in zip(graph.nodes, counts[1:], strict=True):
        op, own = node.op, numbers[at : at + count]
        operands = [env[v] for v in node.operands]
        at += count
        types = [v.type for v in node.results]
        is_tracked = Tracked in map(type, own)
        if is_tracked or any(new.type is not old.type for new, old in zip(operands, node.operands)):
            op = with_numbers(op, iter(own)) if is_tracked else op
            types = list(map(_kept, op.infer(*[v.type for v in operands]), types))
        made = Node(op, operands, types, node.location, node.scope)
        for old, new in zip(node.results, made.results):
            new.name = old.name
            env[old] = new
        nodes.append(made)
    return Graph(inputs, nodes, [env[v] for v in graph.outputs])


def _kept(new: TensorType, old: TensorType) -> TensorType:
    """The old type, if there is nothing tracked in the new one."""
    return new if Tracked in map(type, new.shape) else old
