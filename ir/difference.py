"""What a pass did: which nodes of one graph are those of another, and which came, went, or got other operands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from .graph import Graph, Node, Value

_CANDIDATES: Final = 8  # looked at, so that graphs of many equal nodes take no longer


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """`kept` maps nodes of the later graph to theirs in the earlier one; `rewired` are those among them whose operands
    are others now. `added` are in the later graph only, `removed` in the earlier only; all in the graphs' order."""

    kept: dict[Node, Node]
    rewired: tuple[Node, ...]
    added: tuple[Node, ...]
    removed: tuple[Node, ...]

    def __str__(self) -> str:
        return f"{len(self.added)} added, {len(self.removed)} removed, {len(self.rewired)} rewired"


def difference(before: Graph, after: Graph) -> Difference:
    """Compare two graphs with the same inputs, in time proportional to their size.

    Passes build new nodes where operands change, so a node is known by its op, result types, line and scope, and by
    its operands where there is a choice.

    >>> from jitgrad.ir.parser import parse
    >>> old = parse("graph(%x: f32[]) -> (f32[]) {\\n %1 = neg(%x) : f32[]\\n %2 = neg(%1) : f32[]\\n return %2\\n}")
    >>> new = parse("graph(%x: f32[]) -> (f32[]) {\\n return %x\\n}")
    >>> print(difference(old, new))
    0 added, 2 removed, 0 rewired
    """
    origin: dict[Value, Value] = dict(zip(after.inputs, before.inputs))
    waiting: dict[Hashable, list[Node]] = defaultdict(list)
    for node in before.nodes:
        waiting[_key(node)].append(node)
    kept: dict[Node, Node] = {}
    taken: set[Node] = set()
    still_there = set(before.nodes)
    rewired, added = [], []
    for node in after.nodes:
        old = node if node in still_there else _best(waiting.get(_key(node), []), taken, node, origin)
        if old is None or old in taken:
            added.append(node)
            continue
        taken.add(old)
        kept[node] = old
        if not _same_operands(old, node, origin):
            rewired.append(node)
        origin.update(zip(node.results, old.results))
    removed = tuple(node for node in before.nodes if node not in taken)
    return Difference(kept, tuple(rewired), tuple(added), removed)


def _key(node: Node) -> Hashable:
    return (node.op, tuple(r.type for r in node.results), node.location, node.scope)


def _best(candidates: list[Node], taken: set[Node], node: Node, origin: dict[Value, Value]) -> Node | None:
    """The first candidate with the same operands, else the first."""
    while candidates and candidates[0] in taken:
        candidates.pop(0)
    free = [c for c in candidates[:_CANDIDATES] if c not in taken]
    for candidate in free:
        if _same_operands(candidate, node, origin):
            return candidate
    return free[0] if free else None


def _same_operands(old: Node, new: Node, origin: dict[Value, Value]) -> bool:
    return len(old.operands) == len(new.operands) and all(
        origin.get(b, b) is a for a, b in zip(old.operands, new.operands)
    )
