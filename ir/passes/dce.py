"""Dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import Graph
from .base import Pass


@dataclass(frozen=True)
class EliminateDeadCode(Pass):
    """Drops nodes that neither an output nor an effect depends on."""

    name = "dce"

    def apply(self, graph: Graph) -> Graph:
        """One sweep from the last node to the first."""
        live = set(graph.outputs)
        kept = []
        for node in reversed(graph.nodes):
            if node.op.effect or not live.isdisjoint(node.results):
                live.update(node.operands)
                kept.append(node)
        if len(kept) == len(graph.nodes):
            return graph
        return Graph(graph.inputs, kept[::-1], graph.outputs)
