"""What differs between the graphs before and after a pass."""

from hypothesis import given, settings
from properties.strategies import graphs

from jitgrad.ir.difference import difference
from jitgrad.ir.parser import parse
from jitgrad.ir.passes import Decompose, Pipeline, simplification

TEXT = """graph(%x: f32[2], %y: f32[2]) -> (f32[2]) {
  %a = add(%x, %y) : f32[2]
  %b = add(%x, %y) : f32[2]
  %c = mul(%a, %b) : f32[2]
  %d = neg(%c) : f32[2]
  return %d
}"""


def names(nodes):
    return [n.op.name for n in nodes]


def test_the_same_graph():
    graph = parse(TEXT)
    found = difference(graph, graph)
    assert str(found) == "0 added, 0 removed, 0 rewired" and found.kept == {n: n for n in graph.nodes}


def test_an_equal_graph_of_other_nodes():
    before, after = parse(TEXT), parse(TEXT)
    found = difference(before, after)
    assert not (found.added or found.removed or found.rewired)
    assert found.kept == dict(zip(after.nodes, before.nodes, strict=True))


def test_common_subexpressions():
    before = parse(TEXT)
    after = simplification().run(before)
    found = difference(before, after)
    assert names(found.removed) == ["add"] and names(found.rewired) == ["mul"] and not found.added


def test_of_equal_nodes_the_one_with_the_same_operands_is_meant():
    before = parse("""graph(%x: f32[2], %y: f32[2]) -> (f32[2], f32[2]) {
      %a = neg(%x) : f32[2]
      %b = neg(%y) : f32[2]
      return %a, %b
    }""")
    after = parse("""graph(%x: f32[2], %y: f32[2]) -> (f32[2], f32[2]) {
      %b = neg(%y) : f32[2]
      return %b, %b
    }""")
    found = difference(before, after)
    assert found.kept[after.nodes[0]] is before.nodes[1] and found.removed == before.nodes[:1] and not found.rewired


def test_composites():
    before = parse("graph(%x: f32[2,3]) -> (f32[2,3]) {\n %1 = softmax[axis=1](%x) : f32[2,3]\n return %1\n}")
    after = Pipeline((Decompose(),)).run(before)
    found = difference(before, after)
    assert names(found.removed) == ["softmax"] and {"exp", "amax"} <= set(names(found.added))


@given(case=graphs())
@settings(max_examples=50)
def test_every_node_is_accounted_for(case):
    before, _ = case
    after = simplification().run(Pipeline((Decompose(),)).run(before))
    found = difference(before, after)
    assert len(set(found.kept.values())) == len(found.kept)
    assert set(found.kept) | set(found.added) == set(after.nodes) and not set(found.kept) & set(found.added)
    assert set(found.kept.values()) | set(found.removed) == set(before.nodes)
    assert set(found.rewired) <= set(found.kept)
    assert all(
        a.op is b.op and [r.type for r in a.results] == [r.type for r in b.results] for a, b in found.kept.items()
    )
