"""Graphs as pictures: Graphviz's language, SVG where `dot` is installed, networkx graphs, and drawings in
text."""

from __future__ import annotations

import html
import shutil
import subprocess
from typing import Any, Final

from .analysis import bytes_moved, flops
from .errors import InternalError
from .graph import Graph, Node, Value
from .op import Pointwise, Reduction, View
from .printer import Printer

_TIMEOUT: Final = 60  # seconds for `dot`, which takes very long on very large graphs
_LINE: Final = 40
_COLORS: Final = {
    "input": "#d9ead3",
    "pointwise": "#cfe2f3",
    "view": "#eeeeee",
    "reduction": "#fce5cd",
    "composite": "#ead1dc",
    "creation": "#fff2cc",
    "other": "#f4cccc",
}


def kind(node: Node) -> str:
    """What sort of op a node has, by its traits: a key of the colours in pictures."""
    if not node.operands:
        return "creation"
    for name, trait in (("pointwise", Pointwise), ("view", View), ("reduction", Reduction)):
        if isinstance(node.op, trait):
            return name
    return "composite" if node.op.has_decomposition() else "other"


def to_networkx(graph: Graph) -> Any:
    """A `networkx.MultiDiGraph` whose vertices are the graph's inputs and nodes, numbered, and an "outputs"
    vertex.

    Vertices have `label`, `kind`, `flops`, `bytes` and `source` (the user's line); edges have `value` (its
    text), `type` and `operand` (its position).
    """
    networkx = _networkx()
    out = networkx.MultiDiGraph()
    printer = Printer()
    printer.print(graph)
    place: dict[Value, int] = {}
    for number, value in enumerate(graph.inputs):
        place[value] = number
        out.add_node(number, label=f"{printer.label(value)}\n{value.type}", kind="input")
    for number, node in enumerate(graph.nodes, len(graph.inputs)):
        place.update(dict.fromkeys(node.results, number))
        types = "\n".join(str(r.type) for r in node.results)
        out.add_node(
            number,
            label=f"{_clipped(printer.op(node.op))}\n{types}",
            kind=kind(node),
            flops=flops(node),
            bytes=bytes_moved(node),
            source=str(node.location or ""),
        )
        _add_edges(out, printer, place, node.operands, number)
    out.add_node("outputs", label="outputs", kind="input")
    _add_edges(out, printer, place, graph.outputs, "outputs")
    return out


def to_dot(graph: Graph, name: str = "graph") -> str:
    """The graph in Graphviz's language, each node with its op, types and, as a tooltip, the user's line.

    >>> print(to_dot(Graph([], [], [])))
    digraph "graph" {
      node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10, margin="0.12,0.04"];
      edge [fontname="Helvetica", fontsize=8, color="#666666"];
      outputs [label="outputs", fillcolor="#d9ead3"];
    }
    """
    drawn = to_networkx(graph)
    lines = [
        f"digraph {_quoted(name)} {{",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10, margin="0.12,0.04"];',
        '  edge [fontname="Helvetica", fontsize=8, color="#666666"];',
    ]
    for vertex, data in drawn.nodes(data=True):
        tooltip = f", tooltip={_quoted(data['source'])}" if data.get("source") else ""
        color = _COLORS[data["kind"]]
        lines.append(f'  {vertex} [label={_quoted(data["label"])}, fillcolor="{color}"{tooltip}];')
    for start, end, data in drawn.edges(data=True):
        lines.append(f"  {start} -> {end} [label={_quoted(data['value'])}, tooltip={_quoted(data['type'])}];")
    return "\n".join([*lines, "}"])


def to_svg(graph: Graph, name: str = "graph") -> str:
    """An SVG picture: laid out by `dot` where Graphviz is installed and up to it, else the text drawing."""
    program = shutil.which("dot")
    if program is not None:
        try:
            done = subprocess.run(
                [program, "-Tsvg"],
                input=to_dot(graph, name),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=True,
            )
            return done.stdout
        except (subprocess.SubprocessError, OSError):
            pass  # a graph too large for `dot`, or a broken installation: the drawing below is still of use
    return _text_svg(draw(graph))


def draw(graph: Graph) -> str:
    """A drawing in text: a line for each node, and to its left a lane for each value that is still needed.

    >>> from jitgrad.ir.parser import parse
    >>> print(draw(parse('''graph(%x: f32[2], %y: f32[2]) -> (f32[2]) {
    ...   %a = add(%x, %y) : f32[2]
    ...   %b = mul(%a, %x) : f32[2]
    ...   return %b
    ... }''')))
    o    %x f32[2]
    | o  %y f32[2]
    *-*  %a f32[2] = add(%x, %y)
    *-*  %b f32[2] = mul(%a, %x)
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
        self.last: dict[Value, int] = {}
        for i, node in enumerate(graph.nodes):
            self.last.update(dict.fromkeys(node.operands, i))
        self.last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))

    def text(self) -> str:
        for value in self.graph.inputs:
            self._start(value, f"{self.printer.label(value)} {value.type}")
        for i, node in enumerate(self.graph.nodes):
            self._node(i, node)
        outputs = ", ".join(map(self.printer.label, self.graph.outputs))
        self.rows.append((self._row(set(self.graph.outputs)), f"return {outputs}".rstrip()))
        width = max(len(row) for row, _ in self.rows)
        return "\n".join(f"{row:{width}}  {label}".rstrip() for row, label in self.rows)

    def _start(self, value: Value, label: str) -> None:
        if value in self.last:
            self._enter(value)
        self.rows.append((self._row(set(), value), label))

    def _enter(self, value: Value) -> None:
        if None in self.lanes:
            self.lanes[self.lanes.index(None)] = value
        else:
            self.lanes.append(value)

    def _node(self, i: int, node: Node) -> None:
        results = ", ".join(f"{self.printer.label(r)} {r.type}" for r in node.results)
        operands = ", ".join(map(self.printer.label, node.operands))
        label = f"{results} = {_clipped(self.printer.op(node.op))}({operands})".removeprefix(" = ")
        used = set(node.operands)
        row = self._row(used)
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


def _text_svg(text: str) -> str:
    """Text as an SVG picture in a fixed-width font."""
    lines = text.split("\n")
    height, width = 16 * len(lines) + 16, 8 * max(map(len, lines)) + 16
    spans = "".join(
        f'<text x="8" y="{16 * i + 20}" xml:space="preserve">{html.escape(line)}</text>\n'
        for i, line in enumerate(lines)
    )
    size = f'width="{width}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="13">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{spans}</svg>\n'
    )


def _add_edges(out: Any, printer: Printer, place: dict[Value, int], values: Any, end: Any) -> None:
    for position, value in enumerate(values):
        if value not in place:
            raise InternalError("only closed graphs have a picture")
        out.add_edge(place[value], end, value=printer.label(value), type=str(value.type), operand=position)


def _clipped(text: str) -> str:
    first = text.split("\n", 1)[0]
    return first if len(first) <= _LINE else first[: _LINE - 3] + "..."


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _networkx() -> Any:
    """Networkx takes a quarter of a second to import, so it is imported by the first picture."""
    import networkx

    return networkx
