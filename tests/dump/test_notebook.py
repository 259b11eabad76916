"""What notebooks show, and pictures of whatever has a graph."""

import html
import xml.etree.ElementTree as ElementTree

import pytest

import jitgrad as jg


def f(x):
    return (x * 2).tanh()


@pytest.fixture(scope="module")
def compiled():
    g = jg.compile(f)
    g(jg.ones(3))
    g(jg.ones(4, 5))
    return g


def test_explanations(compiled):
    shown = compiled.explain()._repr_html_()
    assert shown.startswith("<pre>f: 2 calls, 2 specialisations") and shown.count("<svg") == 2
    assert html.escape("f32[3] -> f32[4,5]") in shown


def test_programs():
    program = jg.export(f, (jg.ones(3, 2),), dynamic={"x": {0: "n"}})
    shown = program._repr_html_()
    assert "f32[n,2]" in shown and "<svg" in shown and "tanh" in jg.dump.draw(program)


def test_graphs_and_pages(compiled, tmp_path):
    graph = jg.dump.graph_of(compiled)
    assert graph is compiled.explain().specialisations[-1].graph and "[4,5]" in graph._repr_svg_()
    page = jg.dump.page(compiled, measure=True)
    assert page._repr_html_().startswith("<iframe") and page.save(tmp_path / "page.html").read_text() == page.html
    assert jg.dump.page(graph).html.startswith("<!DOCTYPE html>")
    assert "characters" in repr(page)


def test_pictures(compiled):
    graph = jg.dump.graph_of(compiled)
    for what in (compiled, graph, compiled.explain().specialisations[-1].executable):
        assert "tanh" in jg.dump.draw(what) and "tanh" in jg.dump.to_dot(what)
        ElementTree.fromstring(jg.dump.to_svg(what))
        assert jg.dump.to_networkx(what).number_of_nodes() >= 3
