"""The graph IR's grammar.

    graph  ::= inputs nodes outputs        a flat list of nodes in topological order
    node   ::= results = op operands       one op, any number of results
    value  ::= an input or a node result   has a type, is defined once

Everything is immutable once built. A pass takes a valid graph and gives a valid graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

from .location import Location, TextLocation
from .op import Op
from .types import TensorType

_MOST_DRAWN: Final = 1000  # nodes; larger pictures are of no use, and slow in notebooks


class Value:
    """An SSA value: a graph input (`node` is None) or result number `index` of `node`."""

    __slots__ = ("__weakref__", "index", "name", "node", "type")

    def __init__(self, type: TensorType, node: Node | None = None, index: int = 0, name: str = "") -> None:
        self.type = type
        self.node = node
        self.index = index
        self.name = name

    @property
    def shape(self) -> tuple[int, ...]:
        """The type's shape."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype, so that a value can stand where an array's metadata is read."""
        return self.type.dtype.np

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.type.numel

    def __repr__(self) -> str:
        return f"<{self.name or 'value'}: {self.type}>"


class Node:
    """`op` applied to `operands`; `results` are its values. `scope` names modules, outermost first."""

    __slots__ = ("__weakref__", "location", "op", "operands", "results", "scope")

    def __init__(
        self,
        op: Op,
        operands: Sequence[Value],
        types: Sequence[TensorType],
        location: Location | TextLocation | None = None,
        scope: tuple[str, ...] = (),
    ) -> None:
        self.op = op
        self.operands = tuple(operands)
        if len(types) == 1:  # as nearly all have
            self.results: tuple[Value, ...] = (Value(types[0], self),)
        else:
            self.results = tuple([Value(t, self, i) for i, t in enumerate(types)])
        self.location = location
        self.scope = scope

    @property
    def result(self) -> Value:
        """The first result."""
        return self.results[0]

    def __repr__(self) -> str:
        return f"<{self.op} -> {', '.join(str(r.type) for r in self.results)}>"


class Graph:
    """A function from `inputs` to `outputs`. `nodes` are in topological order.

    Values used but not defined here are free; only graphs under construction have them.
    """

    __slots__ = ("__weakref__", "inputs", "nodes", "outputs")
    drawing: ClassVar[Callable[[Graph], str] | None] = None  # makes SVG; set by whoever has pictures

    def __init__(self, inputs: Sequence[Value], nodes: Sequence[Node], outputs: Sequence[Value]) -> None:
        self.inputs = tuple(inputs)
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)

    def values(self) -> Iterator[Value]:
        """All values in order of definition."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.results

    def _repr_svg_(self) -> str | None:
        """What notebooks show."""
        draw = type(self).drawing
        return None if draw is None or len(self.nodes) > _MOST_DRAWN else draw(self)

    def __repr__(self) -> str:
        return f"<graph: {len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.outputs)} outputs>"
