"""Choices and loops: what nobody needs of them, and what need not happen in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ..builder import Builder
from ..control import Cond, Scan, WhileLoop
from ..graph import Graph, Node, Value
from ..op import Op, View
from ..ops.creation import Constant, Full, Iota
from ..rewrite import Rules, rewrite
from ..verify import sub_graphs
from .base import Pass

_CHEAP = (View, Full, Iota)  # as good as free where they are used, but memory and a copy if handed in


@dataclass(frozen=True)
class PruneLoops(Pass):
    """Drops stacks and carries of scans that nothing needs, and operands that sub-graphs do not use."""

    name = "prune_loops"

    def apply(self, graph: Graph) -> Graph:
        """From the last node to the first, so that what one loop no longer needs is known to the loops before it."""
        scans = [n for n in graph.nodes if isinstance(n.op, Scan)]
        if not scans:
            return graph
        used = set(graph.outputs)
        made: dict[Node, tuple[Node, dict[int, int]]] = {}
        for node in reversed(graph.nodes):
            kept = node
            if isinstance(node.op, Scan) and not used.isdisjoint(node.results):
                kept, places = _pruned(node, used)
                made[node] = kept, places
            if node.op.effect or not used.isdisjoint(node.results):
                used.update(kept.operands)
        return _replaced(graph, made)


def _replaced(graph: Graph, made: dict[Node, tuple[Node, dict[int, int]]]) -> Graph:
    """`graph` with smaller loops for some; `places` tells where the results that are left are now."""
    env: dict[Value, Value] = {}
    b = Builder()
    for node in graph.nodes:
        new, places = made.get(node, (node, {}))
        operands = [env.get(v, v) for v in new.operands]
        if new is node and operands == list(node.operands):
            b.nodes.append(node)
            continue
        b.location, b.scope = node.location, node.scope
        results = b.emit(new.op, *operands)
        for k, old in enumerate(node.results):
            if new is node or k in places:
                results[places.get(k, k)].name = old.name
                env[old] = results[places.get(k, k)]
    return Graph(graph.inputs, b.nodes, [env.get(v, v) for v in graph.outputs])


def _pruned(node: Node, used: set[Value]) -> tuple[Node, dict[int, int]]:
    """A scan without what nobody needs, and where its results are now."""
    op = node.op
    assert isinstance(op, Scan)
    body, carries = op.body, op.carries
    needed = {k for k, v in enumerate(node.results) if v in used}
    while True:
        live = _live(body, [body.outputs[k] for k in needed])
        grown = needed | {k for k in range(carries) if body.inputs[k] in live}
        if grown == needed:
            break
        needed = grown
    first = carries + op.sequences
    inputs = [k for k, v in enumerate(body.inputs) if (k in needed if k < carries else v in live)]
    if not any(carries <= k < first for k in inputs):
        inputs = sorted([*inputs, carries])  # something must say how many steps there are
    outputs = sorted(needed)
    if len(inputs) == len(body.inputs) and len(outputs) == len(body.outputs):
        return node, {k: k for k in outputs}
    nodes = [n for n in body.nodes if n.op.effect or not live.isdisjoint(n.results)]
    smaller = Scan(
        Graph([body.inputs[k] for k in inputs], nodes, [body.outputs[k] for k in outputs]),
        sum(k < carries for k in outputs), sum(carries <= k < first for k in inputs), op.reverse,
    )  # fmt: skip
    types = [node.results[k].type for k in outputs]
    made = Node(smaller, [node.operands[k] for k in inputs], types, node.location, node.scope)
    return made, {k: i for i, k in enumerate(outputs)}


def _live(body: Graph, outputs: Sequence[Value]) -> set[Value]:
    """The values that `outputs`, and effects, depend on."""
    live = set(outputs)
    for node in reversed(body.nodes):
        if node.op.effect or not live.isdisjoint(node.results):
            live.update(node.operands)
    return live


@dataclass(frozen=True)
class HoistInvariants(Pass):
    """Computes in front of a loop what is the same in each of its steps; constants are handed in to choices too.

    So sub-graphs have no constants, whose memory would have to be found anew for every plan they are in. Views, numbers
    and positions stay, which cost nothing where they are used. Nodes with effects stay, and so does what follows
    from them.
    """

    name = "hoist_invariants"

    def apply(self, graph: Graph) -> Graph:
        """One sweep."""
        rules = Rules()
        rules(Cond, Scan, WhileLoop)(_hoist)
        return rewrite(graph, rules)


def _hoist(b: Builder, node: Node) -> Sequence[Value] | None:
    """A choice or loop that is handed what its sub-graphs need not compute."""
    op = node.op
    handed = 1 if isinstance(op, Cond) else 0  # operands in front of those of the sub-graphs
    operands = list(node.operands)
    fields = {name: graph for name, field in op.attributes().items() for graph in sub_graphs(field)}
    before = len(operands)
    changed = False
    for name, graph in fields.items():
        moved = _movable(graph, op)
        if not moved:
            continue
        changed = True
        env = {v: operands[handed + k] for k, v in enumerate(graph.inputs) if handed + k < before}
        for inner in moved:
            b.copy(inner, env)
        inside = {n for n in moved if not isinstance(n.op, _CHEAP)}
        used = [*(x for n in graph.nodes if n not in inside for x in n.operands), *graph.outputs]
        wanted = list(dict.fromkeys(v for v in used if v.node in inside))
        operands += [env[v] for v in wanted]
        rest = Graph([*graph.inputs, *wanted], [n for n in graph.nodes if n not in inside], graph.outputs)
        for other in fields:
            fields[other] = _detached(rest, wanted) if other == name else _taking(fields[other], wanted)
    if not changed:
        return None
    return b.emit(dataclasses.replace(op, **fields), *operands)  # type: ignore[type-var]


def _movable(graph: Graph, op: Op) -> list[Node]:
    """The nodes to move out of a sub-graph, in order."""
    if isinstance(op, Cond):
        return [n for n in graph.nodes if isinstance(n.op, Constant)]
    same = same_in_each_step(graph, op)
    return _without_cheap_ends(graph, [n for n in graph.nodes if not same.isdisjoint(n.results)])


def same_in_each_step(graph: Graph, op: Op) -> set[Value]:
    """The values of a loop's body, or condition, that do not change from step to step."""
    first = op.carries + (op.sequences if isinstance(op, Scan) else 0) if isinstance(op, Scan | WhileLoop) else 0
    same = set(graph.inputs[first:])
    for node in graph.nodes:
        if same.issuperset(node.operands) and not node.op.effect:
            same.update(node.results)
    return same


def _without_cheap_ends(graph: Graph, found: list[Node]) -> list[Node]:
    """`found` without views, numbers and positions that nothing else among them needs."""
    kept: dict[Node, None] = {}
    needed: set[Value] = set()
    for node in reversed(found):
        if not isinstance(node.op, _CHEAP) or not needed.isdisjoint(node.results):
            kept[node] = None
            needed.update(node.operands)
    return list(reversed(kept))


def _detached(graph: Graph, inputs: Sequence[Value]) -> Graph:
    """`graph` with fresh values for those of its `inputs` that nodes used to define."""
    env = {v: Value(v.type, name=v.name) for v in inputs}
    replaced = Graph([env.get(v, v) for v in graph.inputs], graph.nodes, [env.get(v, v) for v in graph.outputs])
    b = Builder()
    for node in replaced.nodes:
        b.copy(node, env)
    return Graph(replaced.inputs, b.nodes, [env.get(v, v) for v in graph.outputs])


def _taking(graph: Graph, others: Sequence[Value]) -> Graph:
    """`graph` with more inputs, which it does not use."""
    return Graph([*graph.inputs, *(Value(v.type) for v in others)], graph.nodes, graph.outputs)


__all__ = ["HoistInvariants", "PruneLoops", "same_in_each_step"]
