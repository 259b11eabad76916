"""Builds graphs node by node, inferring and checking types as it goes."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import JitgradError
from .graph import Graph, Node, Value
from .location import Location, TextLocation
from .op import Op
from .types import TensorType


class Builder:
    """Appends nodes. `b(op, x, y)` gives the op's only result, `b.emit(op, x, y)` all of them.

    Operands may be values of another graph (the gradient transform uses that); the graph built then has
    free values until they are bound.

    `location` and `scope` are given to the nodes that follow.
    """

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.location: Location | TextLocation | None = None
        self.scope: tuple[str, ...] = ()

    def input(self, type: TensorType, name: str = "") -> Value:
        """A new graph input."""
        value = Value(type, name=name)
        self.inputs.append(value)
        return value

    def emit(self, op: Op, *operands: Value) -> tuple[Value, ...]:
        """Append `op`; all its results. Raises what `op.infer` raises, with the location attached."""
        try:
            types = op.infer(*[v.type for v in operands])
        except JitgradError as error:
            error.attach_location(str(self.location) if self.location else None)
            raise
        node = Node(op, operands, types, self.location, self.scope)
        self.nodes.append(node)
        return node.results

    def __call__(self, op: Op, *operands: Value) -> Value:
        """Append a single-result op; its result."""
        return self.emit(op, *operands)[0]

    def inline(self, graph: Graph, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append a copy of `graph` applied to `operands`; its outputs. Free values stay as they are."""
        env: dict[Value, Value] = dict(zip(graph.inputs, operands, strict=True))
        for node in graph.nodes:
            self.copy(node, env)
        return tuple(env.get(v, v) for v in graph.outputs)

    def copy(self, node: Node, env: dict[Value, Value]) -> None:
        """Append a copy of `node` with operands looked up in `env`, and enter its results there."""
        types = [r.type for r in node.results]
        new = Node(node.op, [env.get(v, v) for v in node.operands], types, node.location, node.scope)
        for old, value in zip(node.results, new.results, strict=True):
            value.name = old.name
            env[old] = value
        self.nodes.append(new)

    def build(self, outputs: Sequence[Value]) -> Graph:
        """The graph built so far."""
        return Graph(self.inputs, self.nodes, outputs)
