"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..graph import Graph, Node, Value
from ..ops.arithmetic import Add, Mul
from ..rewrite import with_operands
from .base import Pass


@dataclass(frozen=True)
class EliminateCommonSubexpressions(Pass):
    """Computes each op on the same operands once.

    Random ops are functions of their seed and offset, so they take part; ops with effects don't. The order of
    operands is ignored where swapping them leaves each bit of the result as it is.
    """

    name = "cse"

    def apply(self, graph: Graph) -> Graph:
        """One sweep with a table of what has been computed."""
        env: dict[Value, Value] = {}
        first: dict[Hashable, Node] = {}
        nodes = []
        for old in graph.nodes:
            node = with_operands(old, env)
            found = node if node.op.effect else first.setdefault(_key(node), node)
            if found is node:
                nodes.append(node)
            if found is not old:
                env.update(zip(old.results, found.results, strict=True))
        if not env:
            return graph
        return Graph(graph.inputs, nodes, [env.get(v, v) for v in graph.outputs])


def _key(node: Node) -> Hashable:
    return node.op, (frozenset(node.operands) if commutes(node) else node.operands)


def commutes(node: Node) -> bool:
    """Whether its two operands may be swapped without changing a bit of the result (but which NaN a NaN is).

    The larger of 0.0 and -0.0 may depend on the order, and so may the rounding of a complex product.
    """
    op = node.op
    if not op.commutative or len(node.operands) != 2:
        return False
    dtype = node.operands[0].type.dtype
    if not dtype.is_differentiable or not node.result.type.dtype.is_differentiable:
        return True
    return isinstance(op, Add) or (isinstance(op, Mul) and not dtype.is_complex)
