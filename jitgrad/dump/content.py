"""What a dump page shows, as plain data: stages as tables of numbers, steps, kernels, the arena, lines of source.

    stage ::= inputs outputs nodes          values are numbered by order of definition, as in printed graphs
    node  ::= op scope place operands types flops origin

Texts that repeat (ops, types, scopes, places) are kept once, in tables that the numbers point into.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import jitgrad
from jitgrad.ir.analysis import flops
from jitgrad.ir.difference import difference
from jitgrad.ir.graph import Graph, Node
from jitgrad.ir.op import Op
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.picture import kind
from jitgrad.ir.printer import Printer
from jitgrad.ir.types import TensorType

from .scopes import Phases
from .source import Places

FORMAT: Final = 1
_LONGEST_TEXT: Final = 400
_LONGEST_DOC: Final = 240


@dataclass
class Compilation:
    """What is known of one compilation. `stages` are the graphs in order, each with the name of what made it.

    `executable` is None where nothing was compiled, `timing` (see `codegen.timing`) where nothing was run.
    """

    name: str
    stages: list[tuple[str, Graph]] = field(default_factory=list)
    executable: Any = None
    timing: Any = None

    def graphs(self) -> list[tuple[str, Graph]]:
        """The stages without those that changed nothing; the last one is what was compiled."""
        found: list[tuple[str, Graph]] = []
        for name, graph in self.stages:
            if not found or _differs(found[-1][1], graph):
                found.append((name, graph))
        if self.executable is not None:
            compiled = self.executable.plan.program.graph
            if found and not _differs(found[-1][1], compiled):
                found[-1] = (found[-1][0], compiled)
            elif not found or found[-1][1] is not compiled:
                found.append(("prepared", compiled))
        return found


def _differs(before: Graph, after: Graph) -> bool:
    if before is after:
        return False
    found = difference(before, after)
    return bool(found.added or found.removed or found.rewired) or len(before.outputs) != len(after.outputs)


class _Table:
    """Things numbered by order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, thing: Any) -> int:
        """The number of `thing`."""
        return self.numbers.setdefault(thing, len(self.numbers))


class Content:
    """Collects a page's data."""

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        self.graphs = compilation.graphs()
        self.places = Places()
        self.phases = Phases([node.scope for _, graph in self.graphs for node in graph.nodes])
        self._printer = Printer()
        self._kinds: dict[Op, str] = {}
        self._types, self._ops, self._scopes = _Table(), _Table(), _Table()
        self._flops: dict[tuple[Op, tuple[TensorType, ...]], int] = {}

    def data(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        stages = []
        for k, (name, graph) in enumerate(self.graphs):
            stages.append(self._stage(name, graph, self.graphs[k - 1][1] if k else None))
        return {
            "format": FORMAT,
            "version": jitgrad.__version__,
            "name": self.compilation.name,
            "stages": stages,
            "types": [[str(t), t.nbytes] for t in self._types.numbers],
            "ops": [self._op(op) for op in self._ops.numbers],
            "scopes": [list(path) for path in self._scopes.numbers],
            **self.places.data(),
        }

    def _stage(self, name: str, graph: Graph, before: Graph | None) -> dict[str, Any]:
        numbers = {v: n for n, v in enumerate(graph.values())}
        nodes = graph.nodes
        for node in nodes:
            self._kinds.setdefault(node.op, kind(node))
        stage: dict[str, Any] = {
            "name": name,
            "inputs": [[v.name, self._types.number(v.type)] for v in graph.inputs],
            "outputs": [numbers[v] for v in graph.outputs],
            "names": {numbers[v]: v.name for node in nodes for v in node.results if v.name},
            "op": [self._ops.number(node.op) for node in nodes],
            "scope": [self._scopes.number(self.phases.path(node.scope)) for node in nodes],
            "place": [self.places.number(node.location) for node in nodes],
            "args": [[numbers[v] for v in node.operands] for node in nodes],
            "results": [[self._types.number(r.type) for r in node.results] for node in nodes],
            "flops": [self._flops_of(node) for node in nodes],
        }
        if before is not None:
            found = difference(before, graph)
            old = {node: n for n, node in enumerate(before.nodes)}
            stage["origin"] = [old[found.kept[node]] if node in found.kept else -1 for node in nodes]
            rewired = set(found.rewired)
            stage["rewired"] = [n for n, node in enumerate(nodes) if node in rewired]
            stage["removed"] = [old[node] for node in found.removed]
        return stage

    def _flops_of(self, node: Node) -> int:
        key = (node.op, tuple(v.type for v in node.operands))
        known = self._flops.get(key)
        if known is None:
            known = self._flops[key] = flops(node)
        return known

    def _op(self, op: Op) -> dict[str, Any]:
        text = self._printer.op(op)
        doc = " ".join((type(op).__doc__ or "").split("\n\n")[0].split())
        found: dict[str, Any] = {"name": op.name, "kind": self._kinds[op], "doc": clipped(doc, _LONGEST_DOC)}
        if text != op.name:
            found["fields"] = clipped(text[len(op.name) + 1 : -1], _LONGEST_TEXT)
        if isinstance(op, Full):
            found["constant"] = self._printer.field(op.value)
        return found


def clipped(text: str, length: int) -> str:
    """The text's beginning, if it is longer than `length`."""
    return text if len(text) <= length else text[: length - 3] + "..."
