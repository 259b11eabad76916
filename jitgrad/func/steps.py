"""A small graph as a list of steps, for graphs that are applied to tensors over and over."""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.ir.graph import Graph
from jitgrad.ir.op import Op

from ..dispatch import apply_all
from ..tensor import Tensor


class Steps:
    """The nodes of a graph with the places of their operands; results are appended to the inputs as they come."""

    __slots__ = ("_outputs", "_steps")

    def __init__(self, graph: Graph) -> None:
        places = {v: i for i, v in enumerate(graph.values())}
        self._steps: list[tuple[Op, list[int]]] = [(n.op, [places[v] for v in n.operands]) for n in graph.nodes]
        self._outputs = [places[v] for v in graph.outputs]

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs, recorded as any ops are."""
        known = list(inputs)
        for op, places in self._steps:
            known += apply_all(op, *[known[i] for i in places])
        return [known[i] for i in self._outputs]
