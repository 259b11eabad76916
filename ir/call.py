"""A graph applied as one op: what a compiled function leaves on the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    name = "call"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Operands of exactly the graph's input types."""
        want = tuple(v.type for v in self.graph.inputs)
        if operands != want:
            raise ShapeError(f"call: operands differ from the graph's inputs{operand_lines(operands)}")
        return tuple(v.type for v in self.graph.outputs)

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
        known: dict[Value, Value] = dict(zip(graph.inputs, operands, strict=True))
        known.update(zip(graph.outputs, results, strict=True))
        inner = Builder()
        flow: dict[Value, Value] = {}
        for v, g in zip(graph.outputs, cotangents, strict=True):
            if g is not None:
                flow[v] = g if v not in flow else inner(Add(), flow[v], g)
        wrt = [v for v, need in zip(graph.inputs, needs, strict=True) if need]
        grads = pullback(inner, graph.nodes, wrt, flow)
        env: dict[Value, Value] = {**known, **{g: g for g in cotangents if g is not None}}

        def bind(value: Value) -> None:
            if value in env or value.node is None:
                return
            for operand in value.node.operands:
                bind(operand)
            b.copy(value.node, env)

        made = {r for node in inner.nodes for r in node.results}
        for node in inner.nodes:
            for operand in node.operands:
                if operand not in made:
                    bind(operand)
            b.copy(node, env)
        for g in grads:
            if g is not None and g not in made:
                bind(g)
        given = iter(grads)
        out: list[Any] = []
        for need in needs:
            g = next(given) if need else None
            out.append(None if g is None else env.get(g, g))
        return out

