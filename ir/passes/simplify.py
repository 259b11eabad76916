"""All simplifications together, to their fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..graph import Graph
from ..rewrite import rewrite
from .algebra import ALGEBRA
from .base import Pass
from .canonicalize import CANONICAL
from .cse import EliminateCommonSubexpressions
from .fold import FoldConstants

MAX_ROUNDS: Final = 8


@dataclass(frozen=True)
class Simplify(Pass):
    """Canonicalises, folds constants of up to `limit` elements and simplifies in one sweep, then merges equal
    nodes.

    It goes round again as long as merging has made operands equal. Each bit of each output stays as it is.
    """

    limit: int = FoldConstants.limit
    name = "simplify"

    def apply(self, graph: Graph) -> Graph:
        """Rounds of a rewriting and a merging."""
        rules = ALGEBRA | CANONICAL | FoldConstants(self.limit).rules()
        merge = EliminateCommonSubexpressions()
        for _ in range(MAX_ROUNDS):
            before = graph
            rewritten = rewrite(graph, rules)
            graph = merge.apply(rewritten)
            if graph is rewritten or graph is before:
                break
        return graph
