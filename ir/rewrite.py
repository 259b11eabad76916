"""The rewrite driver: rules per op class, applied to each node from the first to the last.

A rule looks at a node and what its operands are made of, and gives values that replace its results, or None:

    rules = Rules()

    @rules(Neg)
    def double_negation(b, node):
        inner = node.operands[0].node
        return inner.operands[0] if inner is not None and isinstance(inner.op, Neg) else None

Nodes that a rule emits through `b` are visited themselves before the rewriting goes on. So when a node's turn
comes its operands are final, one sweep reaches the fixed point of such rules, and a pass takes time in
proportion to the graph. Nodes replaced stay in the graph until dead code is removed. Untouched nodes are
shared with the old graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from .builder import Builder
from .errors import InternalError
from .fields import may_hold_graphs
from .graph import Graph, Node, Value
from .op import Op

Rule = Callable[[Builder, Node], "Value | Sequence[Value] | None"]
MAX_CHAIN: Final = 100  # rewritings of one node's replacement in a row: more means that rules undo each other
_R = TypeVar("_R", bound=Rule)


class Rules:
    """A table of rules by op class. A rule for a class serves its subclasses too, after their own."""

    def __init__(self) -> None:
        self._by_class: dict[type, list[Rule]] = {}
        self._found: dict[type[Op], tuple[Rule, ...]] = {}

    def __call__(self, *classes: type) -> Callable[[_R], _R]:
        """Decorator: register a rule for `classes`."""

        def register(rule: _R) -> _R:
            for cls in classes:
                self._by_class.setdefault(cls, []).append(rule)
            self._found.clear()
            return rule

        return register

    def __or__(self, other: Rules) -> Rules:
        """A table of both tables' rules, this one's first."""
        both = Rules()
        for table in (self, other):
            for cls, rules in table._by_class.items():
                both._by_class.setdefault(cls, []).extend(rules)
        return both

    def of(self, cls: type[Op]) -> tuple[Rule, ...]:
        """The rules for nodes whose op is a `cls`, in the order they are tried."""
        found = self._found.get(cls)
        if found is None:
            found = tuple(rule for base in cls.__mro__ for rule in self._by_class.get(base, ()))
            self._found[cls] = found
        return found


def rewrite(graph: Graph, rules: Rules) -> Graph:
    """`graph` after all rules that apply; the same object if none does."""
    rewriter = _Rewriter(rules)
    for node in graph.nodes:
        rewriter.visit(node, 0)
    if not rewriter.changed:
        return graph
    return Graph(graph.inputs, rewriter.nodes, [rewriter.env.get(v, v) for v in graph.outputs])


class _Rewriter:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.env: dict[Value, Value] = {}  # values that are no more, and what stands for them
        self.nodes: list[Node] = []
        self.changed = False

    def visit(self, node: Node, chain: int) -> None:
        """Append `node` or what replaces it, and enter the replacements of its results."""
        current = with_operands(node, self.env)
        results: Sequence[Value] = current.results
        b = Builder()
        b.location, b.scope = node.location, node.scope
        for rule in self.rules.of(type(node.op)):
            found = rule(b, current)
            if found is not None:
                results = self._replace(current, b.nodes, found, chain)
                break
        else:
            self.nodes.append(current)
        if results is not node.results:
            self.changed = True
            self.env.update(zip(node.results, results, strict=True))

    def _replace(
        self, node: Node, emitted: Sequence[Node], found: Value | Sequence[Value], chain: int
    ) -> Sequence[Value]:
        values = (found,) if isinstance(found, Value) else found
        if [v.type for v in values] != [r.type for r in node.results]:
            raise InternalError(f"a rewriting of {node} changes its type to {[str(v.type) for v in values]}")
        if chain >= MAX_CHAIN:
            raise InternalError(f"the rewriting of {node} does not end")
        for new in emitted:
            self.visit(new, chain + 1)
        return tuple(self.env.get(v, v) for v in values)


def with_operands(node: Node, env: Mapping[Value, Value]) -> Node:
    """`node` with what `env` has in place of its operands; `node` itself if that is none of them."""
    for v in node.operands:
        if v in env:
            break
    else:
        return node
    operands = [env.get(v, v) for v in node.operands]
    return _renamed(Node(node.op, operands, [r.type for r in node.results], node.location, node.scope), node)


def with_op(node: Node, op: Op) -> Node:
    """`node` with another op of the same result types."""
    if op is node.op:
        return node
    return _renamed(Node(op, node.operands, [r.type for r in node.results], node.location, node.scope), node)


def substitute(graph: Graph, change: Callable[[Node], Node | None]) -> Graph:
    """`graph` with `change(node)` for each node, whose operands are new already; None leaves a node out.

    The same object if nothing changes.
    """
    env: dict[Value, Value] = {}
    nodes = []
    for node in graph.nodes:
        new = change(with_operands(node, env))
        if new is None:
            continue
        nodes.append(new)
        if new is not node:
            env.update(zip(node.results, new.results, strict=True))
    if not env and len(nodes) == len(graph.nodes):
        return graph
    return Graph(graph.inputs, nodes, [env.get(v, v) for v in graph.outputs])


def map_sub_graphs(graph: Graph, f: Callable[[Graph], Graph]) -> Graph:
    """`graph` with `f` applied to the sub-graphs in its ops' fields; the same object if that changes none."""
    if not any(may_hold_graphs(type(node.op)) for node in graph.nodes):
        return graph

    mapped: dict[Op, Op] = {}
    for op in dict.fromkeys(node.op for node in graph.nodes if may_hold_graphs(type(node.op))):
        new = _map_field(op, f)
        if new is not op:
            mapped[op] = new
    if not mapped:
        return graph
    return substitute(graph, lambda node: with_op(node, mapped.get(node.op, node.op)))


def _map_field(field: Any, f: Callable[[Graph], Graph]) -> Any:
    if isinstance(field, Graph):
        return f(field)
    if isinstance(field, tuple):
        items = tuple(_map_field(x, f) for x in field)
        return items if any(a is not b for a, b in zip(items, field, strict=True)) else field
    if isinstance(field, Op):
        old = field.attributes()
        new = {k: _map_field(v, f) for k, v in old.items()}
        changed = {k: v for k, v in new.items() if v is not old[k]}
        return dataclasses.replace(field, **changed) if changed else field  # type: ignore[type-var]
    return field


def _renamed(new: Node, old: Node) -> Node:
    for a, b in zip(new.results, old.results, strict=True):
        a.name = b.name
    return new
