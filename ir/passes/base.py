"""What a pass is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import InternalError
from ..graph import Graph
from ..rewrite import map_sub_graphs


@dataclass(frozen=True)
class Pass:
    """Base of passes. A subclass gives `name` and `apply`; its fields are its options."""

    name: ClassVar[str]

    def run(self, graph: Graph) -> Graph:
        """`graph` transformed, sub-graphs first; the same object if there is nothing to do."""
        return self.apply(map_sub_graphs(graph, self.run))

    def apply(self, graph: Graph) -> Graph:
        """`graph` transformed, its sub-graphs left alone."""
        raise InternalError(f"pass {self.name} does nothing")
