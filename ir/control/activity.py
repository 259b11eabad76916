"""Which results of control flow depend, in a differentiable way, on which operands."""

from __future__ import annotations

from collections.abc import Sequence

from ..autodiff import differentiable_values
from ..graph import Graph
from ..op import Op
from .branch import Cond
from .flow import active_carries
from .scan import Scan
from .while_loop import WhileLoop


def active_results(op: Op, needs: Sequence[bool]) -> list[bool]:
    """By result of a `Cond`, `Scan` or `WhileLoop`: whether gradients flow from it to operands that `needs` marks."""
    match op:
        case Cond(then=then, otherwise=otherwise):
            pairs = zip(_active(then, needs[1:]), _active(otherwise, needs[1:]), strict=True)
            return [x or y for x, y in pairs]
        case Scan(body=body, carries=carries) | WhileLoop(body=body, carries=carries):
            active = active_carries(body, carries, list(needs))
            return _active(body, [*active, *needs[carries:]])
    return [True] * len(needs)


def _active(graph: Graph, needs: Sequence[bool]) -> list[bool]:
    found = differentiable_values(graph.nodes, [v for v, need in zip(graph.inputs, needs, strict=True) if need])
    return [v in found for v in graph.outputs]
