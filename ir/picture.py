"""Graphs as pictures: SVG, Graphviz's language, networkx graphs, and (from `drawing`) drawings in text."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from .analysis import bytes_moved, flops
from .drawing import clipped, draw
from .errors import InternalError
from .graph import Graph, Node, Value
from .layout import Box, Point, layered
from .op import Pointwise, Reduction, View
from .ops.creation import Full
from .ops.linalg import MatMul
from .printer import Printer

__all__ = ["draw", "kind", "to_dot", "to_networkx", "to_svg"]

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


@dataclass(frozen=True, slots=True)
class _Vertex:
    """An input, a node (`of`), or the outputs. `name` is its number, or "outputs"."""

    name: int | str
    lines: tuple[str, ...]
    kind: str
    of: Node | None = None


@dataclass(frozen=True, slots=True)
class _Edge:
    start: int
    end: int | str
    value: Value
    operand: int


def _parts(graph: Graph, printer: Printer) -> tuple[list[_Vertex], list[_Edge]]:
    """All vertices, inputs first, and all edges, by where they start."""
    printer.print(graph)
    vertices = [_Vertex(n, (printer.label(v), str(v.type)), "input") for n, v in enumerate(graph.inputs)]
    place: dict[Value, int] = {v: n for n, v in enumerate(graph.inputs)}
    leaving: dict[int, list[_Edge]] = {n: [] for n in range(len(graph.inputs) + len(graph.nodes))}

    def connect(values: Sequence[Value], end: int | str) -> None:
        for position, value in enumerate(values):
            if value not in place:
                raise InternalError("only closed graphs have a picture")
            leaving[place[value]].append(_Edge(place[value], end, value, position))

    for number, node in enumerate(graph.nodes, len(graph.inputs)):
        place.update(dict.fromkeys(node.results, number))
        lines = (clipped(printer.op(node.op)), *(str(r.type) for r in node.results))
        vertices.append(_Vertex(number, lines, kind(node), node))
        connect(node.operands, number)
    vertices.append(_Vertex("outputs", ("outputs",), "input"))
    connect(graph.outputs, "outputs")
    return vertices, [edge for edges in leaving.values() for edge in edges]


def to_networkx(graph: Graph) -> Any:
    """A `networkx.MultiDiGraph` whose vertices are the graph's inputs and nodes, numbered, and an "outputs"
    vertex.

    Vertices have `label`, `kind`, `flops`, `bytes` and `source` (the user's line); edges have `value` (its
    text), `type` and `operand` (its position).
    """
    out = _networkx().MultiDiGraph()
    printer = Printer()
    vertices, edges = _parts(graph, printer)
    for v in vertices:
        out.add_node(v.name, label="\n".join(v.lines), kind=v.kind)
        if v.of is not None:
            source = str(v.of.location or "")
            out.nodes[v.name].update(flops=flops(v.of), bytes=bytes_moved(v.of), source=source)
    for e in edges:
        out.add_edge(e.start, e.end, value=printer.label(e.value), type=str(e.value.type), operand=e.operand)
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
    printer = Printer()
    vertices, edges = _parts(graph, printer)
    lines = [
        f"digraph {_quoted(name)} {{",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10, margin="0.12,0.04"];',
        '  edge [fontname="Helvetica", fontsize=8, color="#666666"];',
    ]
    for v in vertices:
        source = str(v.of.location or "") if v.of is not None else ""
        tooltip = f", tooltip={_quoted(source)}" if source else ""
        label = _quoted("\n".join(v.lines))
        lines.append(f'  {v.name} [label={label}, fillcolor="{_COLORS[v.kind]}"{tooltip}];')
    for e in edges:
        label = _quoted(printer.label(e.value))
        lines.append(f"  {e.start} -> {e.end} [label={label}, tooltip={_quoted(str(e.value.type))}];")
    return "\n".join([*lines, "}"])


def to_svg(graph: Graph, name: str = "graph") -> str:
    """An SVG picture: boxes in layers from top to bottom, colours by kind of op, the user's line as a tooltip.

    Numbers that fill a tensor are shown where they are used; inputs stand above their first user.
    """
    vertices, edges = _shown(graph)
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
class _Shown:
    lines: tuple[str, ...]
    color: str
    tooltip: str


def _shown(graph: Graph) -> tuple[list[_Shown], list[tuple[int, int]]]:
    """Inputs, nodes but constants, and outputs, in this order; and the edges between them."""
    printer = Printer()
    printer.print(graph)
    found = [_Shown((printer.label(v), str(v.type)), _COLORS["input"], "input") for v in graph.inputs]
    place: dict[Value, int] = {v: n for n, v in enumerate(graph.inputs)}
    numbers = {n.result: printer.field(n.op.value) for n in graph.nodes if isinstance(n.op, Full)}
    edges: dict[tuple[int, int], None] = {}
    kept = set(graph.outputs)
    for node in graph.nodes:
        if isinstance(node.op, Full) and node.result not in kept:
            continue
        title = clipped(printer.op(node.op))
        if any(v in numbers for v in node.operands):
            title += f" ({', '.join(numbers.get(v, '.') for v in node.operands)})"
        tooltip = f"{printer.node(node)}"
        found.append(_Shown((title, *(str(r.type) for r in node.results)), _COLORS[kind(node)], tooltip))
        place.update(dict.fromkeys(node.results, len(found) - 1))
        edges.update(_edges_to(place, numbers, kept, node.operands, len(found) - 1))
    if graph.outputs:
        found.append(_Shown(("outputs",), _COLORS["input"], "outputs"))
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


def _box_svg(vertex: _Shown, box: Box) -> str:
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


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _networkx() -> Any:
    """Networkx takes a quarter of a second to import, so it is imported by the first picture."""
    import networkx

    return networkx
