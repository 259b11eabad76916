"""A graph applied as one op: what a compiled function leaves on the tape."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from .autodiff import pullback
from .builder import Builder
from .errors import ShapeError, operand_lines
from .graph import Graph, Value
from .interpreter import run
from .op import Array, Op, op
from .ops.arithmetic import Add
from .types import TensorType


@op
class Call(Op):
    """`graph` applied to the operands."""

    graph: Graph
    strict: bool = False  # whether its gradient too is to round each operation by itself
    name = "call"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Operands of exactly the graph's input types."""
        want = tuple(v.type for v in self.graph.inputs)
        if operands != want:
            raise ShapeError(f"call: operands differ from the graph's inputs{operand_lines(operands)}")
        return tuple(v.type for v in self.graph.outputs)

    @functools.cached_property
    def copies_on_write(self) -> bool:  # type: ignore[override]
        """Whether some op of the graph does."""
        return any(node.op.copies_on_write for node in self.graph.nodes)

    def reference(self, *operands: Array) -> Array:
        """The graph, interpreted."""
        return tuple(run(self.graph, operands))

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """The graph's nodes."""
        return b.inline(self.graph, operands)

    def vjp(
        self,
        b: Builder,
        operands: Sequence[Value],
        results: Sequence[Value],
        cotangents: Sequence[Value | None],
        needs: Sequence[bool],
    ) -> Sequence[Value | None]:
        """The gradient of the graph; its outputs serve as residuals, what else is needed is computed again."""
        graph = self.graph
        inner = Builder()
        flow: dict[Value, Value] = {}
        for v, g in zip(graph.outputs, cotangents, strict=True):
            if g is not None:
                flow[v] = g if v not in flow else inner(Add(), flow[v], g)
        wrt = [v for v, need in zip(graph.inputs, needs, strict=True) if need]
        grads = iter(pullback(inner, graph.nodes, wrt, flow))
        known = {**dict(zip(graph.inputs, operands, strict=True)), **dict(zip(graph.outputs, results, strict=True))}
        known.update({g: g for g in cotangents if g is not None})
        binder = _Binder(b, known, {r for node in inner.nodes for r in node.results})
        for node in inner.nodes:
            for operand in node.operands:
                binder.bind(operand)
            b.copy(node, known)
        found = [next(grads) if need else None for need in needs]
        return [None if g is None else binder.bind(g) for g in found]


class _Binder:
    """Makes values of the graph available in a builder: known ones as they are, others computed again."""

    def __init__(self, b: Builder, known: dict[Value, Value], inner: set[Value]) -> None:
        self.b = b
        self.known = known
        self.inner = inner

    def bind(self, value: Value) -> Value:
        """`value` in the builder."""
        if value not in self.known and value not in self.inner and value.node is not None:
            for operand in value.node.operands:
                self.bind(operand)
            self.b.copy(value.node, self.known)
        return self.known.get(value, value)
