"""Graphs as pictures: SVG, Graphviz's language, networkx graphs, and drawings in text."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from .analysis import bytes_moved, flops
from .errors import InternalError
from .graph import Graph, Node, Value
from .layout import Box, Point, layered
from .op import Pointwise, Reduction, View
from .ops.creation import Full
from .ops.linalg import MatMul
from .printer import Printer

_LINE: Final = 40
_MARGIN: Final = 12
_WEIGHTS: Final = (' font-weight="bold"', ' fill="#555"')
_COLORS: Final = {
    "input": "#d9ead3",
    "pointwise": "#cfe2f3",
    "view": "#eeeeee",
    "reduction": "#fce5cd",
    "composite": "#ead1dc",
    "creation": "#fff2cc",
    "product": "#d0ece0",
    "other": "#f4cccc",
}


def kind(node: Node) -> str:
    """What sort of op a node has, by its traits: a key of the colours in pictures."""
    if not node.operands:
        return "creation"
    if isinstance(node.op, MatMul):
        return "product"
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
    """An SVG picture: boxes in layers from top to bottom, colours by kind of op, the user's line as a tooltip.

    Numbers that fill a tensor are shown where they are used; inputs stand above their first user.
    """
    vertices, edges = _vertices(graph)
    sizes = [(14.0 + 6.6 * max(map(len, v.lines)), 8.0 + 14 * len(v.lines)) for v in vertices]
    layout = layered(sizes, edges)
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="11">',
        f"<title>{html.escape(name)}</title>",
        f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,1 L8,4 L0,7 z" fill="#777"/></marker></defs>',
        '<g fill="none" stroke="#999" stroke-width="0.9" marker-end="url(#tip)">',
        *(f'<path d="{_path(points)}" marker-end="url(#tip)"/>' for points in layout.routes),
        "</g>",
        *(_box_svg(vertex, box) for vertex, box in zip(vertices, layout.boxes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Vertex:
    lines: tuple[str, ...]
    color: str
    tooltip: str


def _vertices(graph: Graph) -> tuple[list[_Vertex], list[tuple[int, int]]]:
    """Inputs, nodes but constants, and outputs, in this order; and the edges between them."""
    printer = Printer()
    printer.print(graph)
    found = [_Vertex((printer.label(v), str(v.type)), _COLORS["input"], "input") for v in graph.inputs]
    place: dict[Value, int] = {v: n for n, v in enumerate(graph.inputs)}
    numbers = {n.result: printer.field(n.op.value) for n in graph.nodes if isinstance(n.op, Full)}
    edges: dict[tuple[int, int], None] = {}
    kept = set(graph.outputs)
    for node in graph.nodes:
        if isinstance(node.op, Full) and node.result not in kept:
            continue
        title = _clipped(printer.op(node.op))
        if any(v in numbers for v in node.operands):
            title += f" ({', '.join(numbers.get(v, '.') for v in node.operands)})"
        tooltip = f"{printer.node(node)}"
        found.append(_Vertex((title, *(str(r.type) for r in node.results)), _COLORS[kind(node)], tooltip))
        place.update(dict.fromkeys(node.results, len(found) - 1))
        edges.update(_edges_to(place, numbers, kept, node.operands, len(found) - 1))
    if graph.outputs:
        found.append(_Vertex(("outputs",), _COLORS["input"], "outputs"))
        edges.update(_edges_to(place, {}, kept, graph.outputs, len(found) - 1))
    return found, list(edges)


def _edges_to(
    place: dict[Value, int], numbers: dict[Value, str], kept: set[Value], values: Sequence[Value], end: int
) -> dict[tuple[int, int], None]:
    """Edges from where values come from, without those of numbers that are written in the box."""
    shown = [v for v in values if v not in numbers or v in kept]
    if any(v not in place for v in shown):
        raise InternalError("only closed graphs have a picture")
    return dict.fromkeys((place[v], end) for v in shown)


def _path(points: Sequence[Point]) -> str:
    text = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        text += f" C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}"
    return text


def _box_svg(vertex: _Vertex, box: Box) -> str:
    x, y = box.x - box.width / 2, box.y - box.height / 2
    texts = "".join(
        f'<text x="{x + 7:.1f}" y="{y + 16 + 14 * n:.1f}"{_WEIGHTS[n > 0]}>{html.escape(line)}</text>'
        for n, line in enumerate(vertex.lines)
    )
    return (
        f"<g><title>{html.escape(vertex.tooltip)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" '
        f'fill="{vertex.color}" stroke="#888" stroke-width="0.7"/>{texts}</g>'
    )


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
