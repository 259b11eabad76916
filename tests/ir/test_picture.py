"""Pictures of graphs: valid for any graph, with and without Graphviz."""

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from properties.strategies import graphs

from jitgrad.ir import picture
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Graph
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.parser import parse

TEXT = """graph(%"a \\"b\\" <&": f32[4,8], %y: f32[8,2]) -> (f32[4,2], f32[8,2]) {
  %z = matmul(%"a \\"b\\" <&", %y) : f32[4,2]          at "model.py:3 in f"
  %w = softmax[axis=1](%z) : f32[4,2]
  return %w, %y
}"""


def test_networkx():
    drawn = picture.to_networkx(parse(TEXT))
    assert list(drawn.edges()) == [(0, 2), (1, 2), (1, "outputs"), (2, 3), (3, "outputs")]
    assert drawn.nodes[2]["kind"] == "product" and drawn.nodes[3]["kind"] == "composite"
    assert drawn.nodes[2]["flops"] == 128 and drawn.nodes[2]["source"] == "model.py:3 in f"
    assert drawn.edges[1, 2, 0] == {"value": "%y", "type": "f32[8,2]", "operand": 1}


def test_open_graphs_have_no_picture():
    graph = parse(TEXT)
    with pytest.raises(InternalError, match="only closed graphs"):
        picture.to_networkx(Graph([], graph.nodes, graph.outputs))


def elements(svg, tag):
    return [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith(f"}}{tag}")]


def test_svg():
    svg = picture.to_svg(parse(TEXT), "a <name>")
    texts = [e.text for e in elements(svg, "text")]
    assert texts[:4] == ['%"a \\"b\\" <&"', "f32[4,8]", "%y", "f32[8,2]"] and "softmax[axis=1]" in texts
    titles = [e.text for e in elements(svg, "title")]
    assert titles[0] == "a <name>" and any("model.py:3 in f" in t for t in titles)
    assert len(elements(svg, "rect")) == 1 + 5 and len(elements(svg, "path")) == 1 + 5


def test_svg_writes_numbers_where_they_are_used():
    graph = parse("""graph(%x: f32[2]) -> (f32[2], f32[2]) {
      %h = full[shape=(2,), dtype=f32, value=0.5]() : f32[2]
      %o = full[shape=(2,), dtype=f32, value=1.0]() : f32[2]
      %y = mul(%x, %h) : f32[2]
      return %y, %o
    }""")
    texts = [e.text for e in elements(picture.to_svg(graph), "text")]
    assert "mul (., 0.5)" in texts
    assert "full[shape=(2,), dtype=f32, value=1.0]" in texts  # an output, and so a box
    assert not any("value=0.5" in t for t in texts)


def test_pictures_of_open_and_of_empty_graphs():
    with pytest.raises(InternalError, match="only closed graphs"):
        picture.to_svg(Graph([], parse(TEXT).nodes, []))
    assert not elements(picture.to_svg(Graph([], [], [])), "path")[1:]


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_the_language():
    done = subprocess.run(
        ["dot", "-Tsvg"], input=picture.to_dot(parse(TEXT)), capture_output=True, text=True, check=True
    )
    ElementTree.fromstring(done.stdout)


def test_notebooks_show_a_picture(monkeypatch):
    graph = parse(TEXT)
    assert graph._repr_svg_() == picture.to_svg(graph)
    monkeypatch.setattr(Graph, "drawing", None)
    assert graph._repr_svg_() is None


def test_drawings_name_scopes_and_write_numbers():
    graph = parse("""graph(%x: f32[2]) -> (f32[2], f32[2]) {
      %h = full[shape=(2,), dtype=f32, value=0.5]() : f32[2]
      %o = full[shape=(2,), dtype=f32, value=1.0]() : f32[2]
      %y = mul(%x, %h) : f32[2] in "Net", "a"
      %z = neg(%y) : f32[2] in "Net", "b"
      return %z, %o
    }""")
    assert picture.draw(graph).splitlines() == [
        "o    %x f32[2]",
        "|    %o f32[2] = full[shape=(2,), dtype=f32, value=1.0]()",
        "| |  # Net / a",
        "* |  %y f32[2] = mul(%x, 0.5)",
        "| |  # Net / b",
        "* |  %z f32[2] = neg(%y)",
        "*-*  return %z, %o",
    ]


def test_many_inputs_have_no_lanes():
    names = [f"%x{k}" for k in range(12)]
    lines = [f"%y{k} = add({'%x0' if k == 0 else f'%y{k - 1}'}, {name}) : f32[]" for k, name in enumerate(names)]
    inputs = ", ".join(f"{n}: f32[]" for n in names)
    drawing = picture.draw(parse(f"graph({inputs}) -> (f32[]) {{\n" + "\n".join(lines) + "\nreturn %y11\n}"))
    assert all(len(line.split("%")[0]) <= 3 for line in drawing.splitlines()[:-1])


@given(case=graphs())
@settings(max_examples=50)
def test_random_graphs(case):
    graph, _ = case
    left_out = sum(isinstance(n.op, Full) and n.result not in graph.outputs for n in graph.nodes)
    assert len(picture.draw(graph).split("\n")) == len(graph.inputs) + len(graph.nodes) - left_out + 1
    ElementTree.fromstring(picture.to_svg(graph))
    assert picture.to_dot(graph).count("->") == sum(len(n.operands) for n in graph.nodes) + len(graph.outputs)
