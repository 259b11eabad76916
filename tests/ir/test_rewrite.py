"""The rewrite driver and what surrounds the passes: sub-graphs, options, the pipeline."""

import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.analysis import equal
from jitgrad.ir.builder import Builder
from jitgrad.ir.config import config
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Graph, Node
from jitgrad.ir.location import TextLocation
from jitgrad.ir.op import Op, Pointwise, op
from jitgrad.ir.ops.arithmetic import Abs, Add, Neg
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.parser import parse
from jitgrad.ir.passes import (
    Decompose,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    FoldConstants,
    Pass,
    Pipeline,
    simplification,
)
from jitgrad.ir.printer import to_text
from jitgrad.ir.rewrite import MAX_CHAIN, Rules, rewrite
from jitgrad.ir.types import TensorType
from jitgrad.ir.verify import verify

F = TensorType((2, 3), dtypes.float32)


@op
class Branch(Op):
    """An op with sub-graphs in a tuple."""

    graphs: tuple[Graph, ...]
    name = "branch"

    def infer(self, *operands):
        return (operands[0],)


@op
class Store(Op):
    """An op with an effect."""

    name = "store"
    effect = True

    def infer(self, *operands):
        return (operands[0],)


def chain(length):
    b = Builder()
    x = y = b.input(F)
    for i in range(length):
        b.location, b.scope = TextLocation(f"a.py:{i}"), ("M",)
        y = b(Neg(), y)
    return b, x, y


def test_nothing_to_do_gives_the_same_graph():
    b, _, y = chain(3)
    graph = b.build([y])
    assert rewrite(graph, Rules()) is graph
    assert EliminateDeadCode().run(graph) is graph
    assert EliminateCommonSubexpressions().run(graph) is graph
    assert Decompose().run(graph) is graph


def test_rules_of_a_class_come_before_those_of_its_bases():
    rules, seen = Rules(), []
    rules(Op)(lambda b, node: seen.append("op"))
    rules(Pointwise)(lambda b, node: seen.append("pointwise"))
    rules(Neg)(lambda b, node: seen.append("neg"))
    b, _, y = chain(1)
    rewrite(b.build([y]), rules)
    assert seen == ["neg", "pointwise", "op"]


def test_emitted_nodes_are_rewritten_and_keep_their_place():
    rules = Rules()
    rules(Neg)(lambda b, node: b(Abs(), b(Abs(), *node.operands)))
    rules(Abs)(lambda b, node: node.operands[0] if is_abs(node.operands[0]) else None)
    b, _, y = chain(3)
    after = rewrite(b.build([y]), rules)
    verify(after)
    assert [type(n.op) for n in after.nodes] == [Abs]
    assert str(after.nodes[0].location) == "a.py:0" and after.nodes[0].scope == ("M",)


def is_abs(value):
    return value.node is not None and isinstance(value.node.op, Abs)


def test_untouched_nodes_are_shared():
    rules = Rules()
    rules(Abs)(lambda b, node: node.operands[0])
    b, _, y = chain(2)
    z = b(Add(), b(Abs(), y), y)
    after = rewrite(b.build([z]), rules)
    assert after.nodes[:2] == tuple(b.nodes[:2]) and after.nodes[2] is not z.node


def test_rules_that_undo_each_other():
    rules = Rules()
    rules(Neg)(lambda b, node: b(Abs(), *node.operands))
    rules(Abs)(lambda b, node: b(Neg(), *node.operands))
    b, _, y = chain(1)
    with pytest.raises(InternalError, match="does not end"):
        rewrite(b.build([y]), rules)
    assert MAX_CHAIN < 200  # well within Python's own limit of nested calls


def test_a_rule_that_changes_the_type():
    rules = Rules()
    rules(Neg)(lambda b, node: b(Full((), dtypes.float32, 0.0)))
    b, _, y = chain(1)
    with pytest.raises(InternalError, match="changes its type"):
        rewrite(b.build([y]), rules)


def test_long_graphs():
    b, _, y = chain(5000)
    assert len(simplification().run(b.build([y])).nodes) == 0


def test_passes_reach_sub_graphs():
    b, _, y = chain(2)
    inner = b.build([y])
    outer = Builder()
    graph = outer.build(outer.emit(Branch((inner, inner)), outer.input(F)))
    after = simplification().run(graph)
    verify(after)
    first, second = after.nodes[0].op.graphs
    assert first.nodes == second.nodes == ()
    unchanged = EliminateDeadCode().run(graph)
    assert unchanged is graph


def test_effects_stay_and_are_not_merged():
    b = Builder()
    x = b.input(F)
    b(Store(), x)
    b(Store(), x)
    graph = b.build([x])
    assert simplification().run(graph) is graph


def test_free_values_stay():
    b, x, y = chain(3)
    inner = Graph([], b.nodes, [y])
    after = EliminateDeadCode().run(simplification().run(inner))
    assert [n.operands for n in after.nodes] == [(x,)]
    verify(after, allow_free=True)


def test_folding_is_bounded():
    text = """graph() -> (f32[3]) {
  %a = constant[literal=array(f32[3], [1.0, 2.0, 3.0])]() : f32[3]
  %b = neg(%a) : f32[3]
  return %b
}"""
    assert len(EliminateDeadCode().run(FoldConstants(limit=6).run(parse(text))).nodes) == 1
    assert len(EliminateDeadCode().run(FoldConstants(limit=5).run(parse(text))).nodes) == 2


def test_what_raises_is_not_folded():
    text = """graph() -> (i64[3]) {
  %a = full[shape=(3,), dtype=i64, value=1]() : i64[3]
  %b = full[shape=(3,), dtype=i64, value=0]() : i64[3]
  %c = floor_divide(%a, %b) : i64[3]
  return %c
}"""
    graph = parse(text)
    assert simplification().run(graph) is graph


def test_a_huge_full_takes_no_memory():
    text = """graph() -> (f32[1000000,1000000]) {
  %a = full[shape=(1000000, 1000000), dtype=f32, value=1.0]() : f32[1000000,1000000]
  %b = exp(%a) : f32[1000000,1000000]
  %c = permute[perm=(1, 0)](%b) : f32[1000000,1000000]
  return %c
}"""
    (node,) = simplification().run(parse(text)).nodes
    assert isinstance(node.op, Full) and abs(node.op.value - 2.71828) < 1e-5


def test_composites_may_be_kept():
    text = "graph(%x: f32[2,3]) -> (f32[2,3]) { %y = softmax[axis=1](%x) : f32[2,3] return %y }"
    graph = parse(text)
    assert Decompose(keep=lambda node: node.op.name == "softmax").run(graph) is graph
    assert len(Decompose().run(graph).nodes) > 1


class Break(Pass):
    """A pass with a bug."""

    name = "break"

    def apply(self, graph):
        return Graph(graph.inputs, graph.nodes[1:], graph.outputs)


def test_the_pipeline_finds_the_broken_pass(monkeypatch):
    b, _, y = chain(2)
    graph = b.build([y])
    pipeline = Pipeline((EliminateDeadCode(), Break()))
    monkeypatch.setattr(config, "verify", False)
    assert len(pipeline.run(graph).nodes) == 1
    monkeypatch.setattr(config, "verify", True)
    with pytest.raises(InternalError, match="pass break gave an invalid graph"):
        pipeline.run(graph)


def test_the_pipeline_is_observed():
    seen = []
    b, _, y = chain(2)
    simplification(lambda name, graph: seen.append((name, len(graph.nodes)))).run(b.build([y]))
    assert seen == [("dce", 2), ("simplify", 1), ("dce", 0)]


def test_results_of_merged_nodes():
    b = Builder()
    x = b.input(F)
    nodes = [Node(Neg(), [x], [F]) for _ in range(2)]
    graph = Graph([x], nodes, [n.result for n in nodes])
    after = EliminateCommonSubexpressions().run(graph)
    assert equal(after, parse(to_text(after))) and after.outputs == (nodes[0].result,) * 2


HALF = "slice[starts=(1,), sizes=(2,), steps=(2,)]"


@pytest.mark.parametrize(
    ("before", "result", "after"),
    [
        ("%z = write_view[views=()](%x, %y) : f32[4]", "f32[4]", "return %y"),
        ("%z = write_view[views=(flip[axes=(0,)],)](%x, %y) : f32[4]", "f32[4]", "%3 = flip[axes=(0,)](%y)"),
        (
            f"%w = write_view[views=({HALF},)](%x, %h) : f32[4]\n  %z = {HALF}(%w) : f32[2]",
            "f32[2]",
            "return %h",
        ),
        (  # the first rows are overwritten by the last
            "%b = concat[axis=0](%x, %y) : f32[8]\n  %c = reshape[shape=(2, 4)](%b) : f32[2,4]\n"
            "  %w = write_view[views=(broadcast_to[shape=(2, 4)],)](%x, %c) : f32[4]\n"
            "  %z = broadcast_to[shape=(2, 4)](%w) : f32[2,4]",
            "f32[2,4]",
            "%z = broadcast_to[shape=(2, 4)](%w)",
        ),
    ],
)
def test_writes(before, result, after):
    text = f"graph(%x: f32[4], %y: f32[4], %h: f32[2]) -> ({result}) {{\n  {before}\n  return %z\n}}"
    assert after in to_text(simplification().run(parse(text)))
