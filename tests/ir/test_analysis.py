"""Users, reachability, liveness, costs and equality of graphs."""

import pytest

from jitgrad.ir.analysis import (
    Use,
    bytes_moved,
    equal,
    flops,
    free_values,
    last_uses,
    peak_bytes,
    reachable,
    reaching,
    users,
)
from jitgrad.ir.graph import Graph
from jitgrad.ir.location import TextLocation
from jitgrad.ir.parser import parse

TEXT = """graph(%x: f32[8], %y: f32[8], %z: f32[8]) -> (f32[8], f32[8]) {
  %a = add(%x, %y) : f32[8]
  %b = mul(%a, %a) : f32[8]
  %c = neg(%x) : f32[8]
  return %b, %y
}"""


@pytest.fixture
def graph():
    return parse(TEXT)


def test_users(graph):
    a, b, c = graph.nodes
    x, _, z = graph.inputs
    found = users(graph)
    assert found[x] == [Use(a, 0), Use(c, 0)]
    assert found[a.result] == [Use(b, 0), Use(b, 1)]
    assert found[z] == found[b.result] == []


def test_reaching_and_reachable(graph):
    a, b, c = graph.nodes
    x, y, z = graph.inputs
    assert reaching(graph, [b.result]) == {a, b}
    assert reachable(graph, [y]) == {a, b}
    assert reachable(graph, [x]) == {a, b, c}
    assert reachable(graph, [z]) == reaching(graph, [z]) == set()


def test_last_uses(graph):
    a, b, c = (node.result for node in graph.nodes)
    x, y, z = graph.inputs
    assert last_uses(graph) == {x: 2, y: 3, z: -1, a: 1, b: 3, c: 2}


def test_peak_bytes(graph):
    assert peak_bytes(graph) == 5 * 32  # x, y, z, a and b when b is computed


def test_free_values(graph):
    a, b, _ = graph.nodes
    assert free_values(graph) == []
    assert free_values(Graph([], [b], [b.result, graph.inputs[0]])) == [a.result, graph.inputs[0]]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("neg(%x) : f32[4,8]", 32),
        ("add(%x, %x) : f32[4,8]", 32),
        ("sum[axes=(0,)](%x) : f32[8]", 32),
        ("permute[perm=(1, 0)](%x) : f32[8,4]", 0),
        ("matmul(%x, %y) : f32[4,2]", 2 * 4 * 8 * 2),
        ("mean[axes=(0, 1)](%x) : f32[]", 33),
    ],
)
def test_flops(statement, expected):
    result = statement.split(" : ")[1]
    text = f"graph(%x: f32[4,8], %y: f32[8,2]) -> ({result}) {{ %z = {statement} return %z }}"
    assert flops(parse(text).nodes[0]) == expected


def test_bytes_moved(graph):
    add, mul, _ = graph.nodes
    assert bytes_moved(add) == 96
    assert bytes_moved(mul) == 64  # its operand is read once


def test_equal(graph):
    assert equal(graph, parse(TEXT), names=True, locations=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mul(%a, %a)", "mul(%a, %x)"),
        ("mul(%a, %a)", "add(%a, %a)"),
        ("return %b, %y", "return %y, %b"),
        ("return %b, %y", "return %b, %x"),
        ("f32", "f64"),
        ("  %c = neg(%x) : f32[8]\n", ""),
        (", %z: f32[8]", ""),
    ],
)
def test_unequal(graph, old, new):
    assert not equal(graph, parse(TEXT.replace(old, new)))


def test_names_and_locations_count_if_asked_for(graph):
    other = parse(TEXT.replace("%a", "%sum"))
    assert equal(graph, other) and not equal(graph, other, names=True)
    other.nodes[0].location = TextLocation("a.py:1")
    assert equal(graph, other) and not equal(graph, other, locations=True)
