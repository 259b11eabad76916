"""Graphs drawn in text, for terminals: a line for each node, and to its left a lane for each value still needed."""

from __future__ import annotations

from typing import Final

from .graph import Graph, Node, Value
from .ops.creation import Full
from .printer import Printer

_LONGEST_OP: Final = 40
_MOST_INPUTS: Final = 10  # with lanes: more of them, such as a training step's parameters, would fill the screen


def draw(graph: Graph) -> str:
    """A drawing in text. Numbers that fill a tensor stand where they are used; scopes head their nodes.

    Where a graph has many inputs, only the values computed in it have lanes.

    >>> from jitgrad.ir.parser import parse
    >>> print(draw(parse('''graph(%x: f32[2], %y: f32[2]) -> (f32[2]) {
    ...   %h = full[shape=(2,), dtype=f32, value=0.5]() : f32[2]
    ...   %a = add(%x, %y) : f32[2] in "Layer"
    ...   %b = mul(%a, %h) : f32[2] in "Layer"
    ...   return %b
    ... }''')))
    o    %x f32[2]
    | o  %y f32[2]
    | |  # Layer
    *-*  %a f32[2] = add(%x, %y)
    *    %b f32[2] = mul(%a, 0.5)
    *    return %b
    """
    return _Drawing(graph).text()


class _Drawing:
    """Lanes from left to right hold the values alive, in order of definition; None is a lane to use again."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.printer = Printer()
        self.printer.print(graph)
        self.lanes: list[Value | None] = []
        self.rows: list[tuple[str, str]] = []
        outputs = set(graph.outputs)
        self.numbers = {
            node.result: self.printer.field(node.op.value)
            for node in graph.nodes
            if isinstance(node.op, Full) and node.result not in outputs
        }
        without = {*self.numbers, *(graph.inputs if len(graph.inputs) > _MOST_INPUTS else ())}
        self.last: dict[Value, int] = {}  # of the values that have lanes
        for i, node in enumerate(graph.nodes):
            self.last.update((v, i) for v in node.operands if v not in without)
        self.last.update((v, len(graph.nodes)) for v in graph.outputs if v not in without)

    def text(self) -> str:
        """The lines."""
        for value in self.graph.inputs:
            if value in self.last:
                self._enter(value)
            self.rows.append((self._row(set(), value), f"{self.printer.label(value)} {value.type}"))
        scope: tuple[str, ...] = ()
        for i, node in enumerate(self.graph.nodes):
            if not self.numbers.keys().isdisjoint(node.results):
                continue
            if node.scope != scope:
                scope = node.scope
                self.rows.append((self._row(set()), f"# {' / '.join(scope)}".rstrip()))
            self._node(i, node)
        outputs = ", ".join(map(self.printer.label, self.graph.outputs))
        self.rows.append((self._row(set(self.graph.outputs)), f"return {outputs}".rstrip()))
        width = max(len(row) for row, _ in self.rows)
        return "\n".join(f"{row:{width}}  {label}".rstrip() for row, label in self.rows)

    def _enter(self, value: Value) -> None:
        if None in self.lanes:
            self.lanes[self.lanes.index(None)] = value
        else:
            self.lanes.append(value)

    def _node(self, i: int, node: Node) -> None:
        results = ", ".join(f"{self.printer.label(r)} {r.type}" for r in node.results)
        operands = ", ".join(self.numbers.get(v) or self.printer.label(v) for v in node.operands)
        label = f"{results} = {clipped(self.printer.op(node.op))}({operands})".removeprefix(" = ")
        row = self._row(set(node.operands))
        for place, value in enumerate(self.lanes):
            if value is not None and self.last.get(value, -1) <= i:
                self.lanes[place] = None
        for result in node.results:
            if result in self.last:
                self._enter(result)
        while self.lanes and self.lanes[-1] is None:
            self.lanes.pop()
        self.rows.append((row, label))

    def _row(self, used: set[Value], new: Value | None = None) -> str:
        marks = [
            "o" if v is not None and v is new else "*" if v in used else "|" if v is not None else " "
            for v in self.lanes
        ]
        at = [i for i, mark in enumerate(marks) if mark == "*"]
        row = ""
        for i, mark in enumerate(marks):
            joined = bool(at) and at[0] <= i < at[-1]
            row += ("-" if mark == " " and joined and i > at[0] else mark) + ("-" if joined else " ")
        return row.rstrip()


def clipped(text: str) -> str:
    """The first line, as far as it fits into a box or a line of a drawing."""
    first = text.split("\n", 1)[0]
    return first if len(first) <= _LONGEST_OP else first[: _LONGEST_OP - 3] + "..."
