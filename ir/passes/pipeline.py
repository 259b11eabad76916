"""Sequences of passes, verified in between where asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..config import config
from ..errors import InternalError, InvalidGraphError
from ..graph import Graph
from ..verify import verify
from .base import Pass
from .dce import EliminateDeadCode
from .simplify import Simplify

Observer = Callable[[str, Graph], None]


def ignore(name: str, graph: Graph) -> None:
    """The observer that looks away."""


@dataclass(frozen=True)
class Pipeline:
    """Runs passes in order. `observer(name, graph)` sees the graph after each; `config.verify` verifies
    it."""

    passes: tuple[Pass, ...]
    observer: Observer = ignore

    def run(self, graph: Graph) -> Graph:
        """`graph` after all passes."""
        for p in self.passes:
            graph = p.run(graph)
            if config.verify:
                self._verify(p, graph)
            self.observer(p.name, graph)
        return graph

    def _verify(self, p: Pass, graph: Graph) -> None:
        try:
            verify(graph)
        except InvalidGraphError as error:
            raise InternalError(f"pass {p.name} gave an invalid graph\n{error}") from error


def simplification(observer: Observer = ignore) -> Pipeline:
    """The passes that make a graph smaller and keep every bit of its results."""
    return Pipeline((EliminateDeadCode(), Simplify(), EliminateDeadCode()), observer)
