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
from jitgrad.ir.parser import parse

TEXT = """graph(%"a \\"b\\" <&": f32[4,8], %y: f32[8,2]) -> (f32[4,2], f32[8,2]) {
  %z = matmul(%"a \\"b\\" <&", %y) : f32[4,2]          at "model.py:3 in f"
  %w = softmax[axis=1](%z) : f32[4,2]
  return %w, %y
}"""


def test_networkx():
    drawn = picture.to_networkx(parse(TEXT))
    assert list(drawn.edges()) == [(0, 2), (1, 2), (1, "outputs"), (2, 3), (3, "outputs")]
    assert drawn.nodes[2]["kind"] == "other" and drawn.nodes[3]["kind"] == "composite"
    assert drawn.nodes[2]["flops"] == 128 and drawn.nodes[2]["source"] == "model.py:3 in f"
    assert drawn.edges[1, 2, 0] == {"value": "%y", "type": "f32[8,2]", "operand": 1}


def test_open_graphs_have_no_picture():
    graph = parse(TEXT)
    with pytest.raises(InternalError, match="only closed graphs"):
        picture.to_networkx(Graph([], graph.nodes, graph.outputs))


def test_svg_without_graphviz(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    svg = picture.to_svg(parse(TEXT))
    text = "\n".join(e.text for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text"))
    assert text == picture.draw(parse(TEXT))


def test_svg_by_graphviz(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dot")
    calls = []

    def run(command, input, **options):
        calls.append((command, input))
        return subprocess.CompletedProcess(command, 0, stdout="<svg/>")

    monkeypatch.setattr(subprocess, "run", run)
    assert picture.to_svg(parse(TEXT), "name") == "<svg/>"
    assert calls == [(["/usr/bin/dot", "-Tsvg"], picture.to_dot(parse(TEXT), "name"))]


@pytest.mark.parametrize("error", [subprocess.TimeoutExpired("dot", 60), OSError("no")])
def test_graphviz_fails(monkeypatch, error):
    def run(*arguments, **options):
        raise error

    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dot")
    monkeypatch.setattr(subprocess, "run", run)
    assert picture.to_svg(parse(TEXT)).startswith("<svg")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_the_language():
    ElementTree.fromstring(picture.to_svg(parse(TEXT)))


@given(case=graphs())
@settings(max_examples=50)
def test_random_graphs(case):
    graph, _ = case
    drawing = picture.draw(graph)
    assert len(drawing.split("\n")) == len(graph.inputs) + len(graph.nodes) + 1
    assert picture.to_dot(graph).count("->") == sum(len(n.operands) for n in graph.nodes) + len(graph.outputs)
