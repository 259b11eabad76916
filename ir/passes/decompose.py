"""Composites become primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..builder import Builder
from ..graph import Graph, Node, Value
from ..op import Op
from ..rewrite import Rules, rewrite
from .base import Pass

NO_RULES: Final = Rules()


def keep_none(node: Node) -> bool:
    """No composite is kept."""
    return False


@dataclass(frozen=True)
class Decompose(Pass):
    """Replaces composites by their decompositions, to the bottom, except nodes that a backend takes whole
    (`keep`) or lowers otherwise (`backend`: rules tried first)."""

    keep: Callable[[Node], bool] = keep_none
    backend: Rules = NO_RULES
    name = "decompose"

    def apply(self, graph: Graph) -> Graph:
        """A rewriting with one rule for all ops."""
        rules = Rules()
        rules(Op)(self._rule)
        return rewrite(graph, self.backend | rules)

    def _rule(self, b: Builder, node: Node) -> Sequence[Value] | None:
        if not node.op.has_decomposition() or self.keep(node):
            return None
        return tuple(node.op.decompose(b, *node.operands))
