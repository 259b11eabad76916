"""Choices and loops as ops: their rules, their gradients of first and second order, their text."""

import numpy as np
import pytest
from control_graphs import chosen, numbers, recurrent_body, repeated, scanned, t
from ops.gradients import check_gradients

from jitgrad.ir import dtypes
from jitgrad.ir.analysis import equal
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.control import Cond, Scan, WhileGradient, WhileLoop
from jitgrad.ir.errors import ArgumentError, InvalidGraphError, ShapeError
from jitgrad.ir.graph import Graph
from jitgrad.ir.interpreter import decomposition, run
from jitgrad.ir.parser import parse
from jitgrad.ir.passes import EliminateDeadCode, HoistInvariants, PruneLoops, simplification
from jitgrad.ir.printer import to_text
from jitgrad.ir.verify import verify

GRAPHS = {
    "scan": lambda: scanned(4),
    "scan, reversed": lambda: scanned(4, reverse=True),
    "scan, residuals": lambda: scanned(3, with_residuals=True),
    "scan of nothing": lambda: scanned(0),
    "while": lambda: repeated(20),
    "while, never": lambda: repeated(-20),
    "cond": chosen,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_of_both_orders(name):
    graph = GRAPHS[name]()
    verify(graph)
    check_gradients(graph, numbers(graph))


def test_gradient_of_the_other_branch():
    graph = chosen()
    arrays = numbers(graph)
    arrays[0] = np.array(False)
    check_gradients(graph, arrays)


@pytest.mark.parametrize("name", GRAPHS)
def test_text_is_read_back(name):
    graph = GRAPHS[name]()
    wrt = [i for i, v in enumerate(graph.inputs) if v.type.dtype is dtypes.float64]
    for g in (graph, gradient_graph(graph, wrt)):
        assert equal(parse(to_text(g)), g)


def test_a_scan_goes_through_slices_in_order():
    x = np.arange(6.0).reshape(3, 2)
    body = parse("graph(%h: f64[2], %x: f64[2]) -> (f64[2], f64[2]) { %s = add(%h, %x) : f64[2] return %s, %h }")
    last, stack = Scan(body, 1, 1).reference(np.zeros(2), x)
    assert last.tolist() == [6, 9] and stack.tolist() == [[0, 0], [0, 1], [2, 4]]
    last, stack = Scan(body, 1, 1, True).reference(np.zeros(2), x)
    assert last.tolist() == [6, 9] and stack.tolist() == [[6, 8], [4, 5], [0, 0]]


def test_weights_get_one_product_behind_the_loop():
    graph = gradient_graph(scanned(5, with_residuals=True), [0, 1, 2, 3])
    names = [n.op.name for n in graph.nodes]
    assert names.count("scan") == 2 and "matmul" in names and "sum" in names
    (back,) = [n for n in graph.nodes if isinstance(n.op, Scan) and n.op.reverse]
    assert back.op.carries == 1  # no running sums
    assert [n.op.name for n in back.op.body.nodes].count("matmul") == 1


def test_what_residuals_lack_is_computed_again():
    graph = gradient_graph(scanned(5), [0, 1, 2, 3])
    assert [n.op.name for n in graph.nodes].count("scan") == 3


def test_a_sum_that_no_product_makes_runs_along():
    body = parse(
        "graph(%h: f64[2], %x: f64[2], %w: f64[2]) -> (f64[2]) {"
        " %y = mul(%h, %w) : f64[2] %e = exp(%y) : f64[2] %s = add(%e, %x) : f64[2] return %s }"
    )
    b = Builder()
    inputs = [b.input(t(2)), b.input(t(3, 2)), b.input(t(2))]
    graph = b.build(b.emit(Scan(body, 1, 1), *inputs))
    check_gradients(graph, numbers(graph, scale=0.1))


def test_the_gradient_of_a_loop_decomposes_to_loops():
    full = gradient_graph(repeated(50), [0, 1])
    (node,) = [n for n in full.nodes if isinstance(n.op, WhileGradient)]
    arrays = [np.array([1.0, 0.5]), np.array([0.1, 0.2]), np.array([1.0, -2.0])]
    whole = node.op.reference(*arrays)
    parts = run(decomposition(node.op, [v.type for v in node.operands]), arrays)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


ADD = "graph(%h: f64[2], %x: f64[2]) -> (f64[2]) { %s = add(%h, %x) : f64[2] return %s }"
GROWS = "graph(%h: f64[2], %x: f64[2]) -> (f64[4]) { %s = concat[axis=0](%h, %x) : f64[4] return %s }"
LESS = "graph(%h: f64[2], %x: f64[2]) -> (bool[2]) { %c = lt(%h, %x) : bool[2] return %c }"


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        (lambda: Scan(parse(GROWS), 1, 1), [t(2), t(3, 2)], r"carry 0 is f64\[2\] before a step and f64\[4\] after it"),
        (lambda: Scan(parse(ADD), 1, 1), [t(2), t(3, 4)], r"the body takes f64\[2\] as value 1, f64\[4\] is given"),
        (lambda: Scan(parse(ADD), 1, 1), [t(2), t()], "sequence 0 has no axis"),
        (lambda: Scan(parse(ADD), 0, 2), [t(3, 2), t(4, 2)], "sequences 0 and 1 differ in length: 3 and 4"),
        (lambda: Scan(parse(ADD), 1, 0), [t(2), t(2)], "1 carries and 0 sequences"),
        (lambda: WhileLoop(parse(LESS), parse(ADD), 1), [t(2), t(2)], r"must be a 0-d bool, not bool\[2\]"),
        (lambda: Cond(parse(ADD), parse(GROWS)), [t(dtype=dtypes.bool_), t(2), t(2)], "value 0 is"),
        (lambda: Cond(parse(ADD), parse(ADD)), [t(2), t(2), t(2)], r"the predicate must be a 0-d bool, not f64\[2\]"),
    ],
)
def test_rules(op, types, message):
    with pytest.raises((ShapeError, ArgumentError), match=message):
        op().infer(*types)


def test_the_verifier_looks_inside():
    body = recurrent_body()
    broken = Graph(body.inputs, body.nodes[1:], body.outputs)
    b = Builder()
    inputs = [b.input(t(*s)) for s in ((2, 3), (4, 2, 3), (3, 3), (3,))]
    with pytest.raises(InvalidGraphError, match="sub-graph 'body' is invalid"):
        verify(b.build(b.emit(Scan(broken, 1, 1), *inputs)))


def test_pruning_drops_what_nobody_needs():
    graph = scanned(4, with_residuals=True)
    small = EliminateDeadCode().run(PruneLoops().run(Graph(graph.inputs, graph.nodes, graph.outputs[:1])))
    verify(small)
    (node,) = small.nodes
    assert len(node.results) == 1
    arrays = numbers(graph)
    np.testing.assert_array_equal(run(small, arrays)[0], run(graph, arrays)[0])


def test_pruning_keeps_a_carry_that_another_needs():
    body = parse(
        "graph(%a: f64[], %b: f64[], %x: f64[]) -> (f64[], f64[]) {"
        " %s = add(%a, %b) : f64[] %p = mul(%b, %x) : f64[] return %s, %p }"
    )
    b = Builder()
    inputs = [b.input(t()), b.input(t()), b.input(t(4))]
    results = b.emit(Scan(body, 2, 1), *inputs)
    for keep, carries in ((0, 2), (1, 1)):
        graph = b.build([results[keep]])
        small = PruneLoops().run(graph)
        verify(small)
        assert small.nodes[0].op.carries == carries
        arrays = numbers(graph)
        assert run(small, arrays) == run(graph, arrays)


def test_what_is_the_same_in_each_step_is_computed_in_front():
    graph = HoistInvariants().run(simplification().run(repeated(20)))
    verify(graph)
    assert [n.op.name for n in graph.nodes if n.op.name != "while_loop"] == ["constant", "exp"]
    (loop,) = [n for n in graph.nodes if isinstance(n.op, WhileLoop)]
    assert {n.op.name for n in loop.op.body.nodes} == {"mul", "add"}
    arrays = numbers(graph)
    np.testing.assert_array_equal(run(graph, arrays)[0], run(repeated(20), arrays)[0])


def test_branches_are_handed_their_constants():
    text = "graph(%x: f64[2]) -> (f64[2]) {{ %k = constant[literal=array(f64[2], {})]() : f64[2] {} }}"
    one = parse(text.format("[1.0, 2.0]", "%y = add(%x, %k) : f64[2] return %y"))
    two = parse(text.format("[3.0, 4.0]", "return %k"))
    b = Builder()
    predicate, x = b.input(t(dtype=dtypes.bool_)), b.input(t(2))
    graph = b.build(b.emit(Cond(one, two), predicate, x))
    handed = HoistInvariants().run(graph)
    verify(handed)
    assert [n.op.name for n in handed.nodes] == ["constant", "constant", "cond"]
    for p in (True, False):
        arrays = [np.array(p), np.array([0.5, 0.25])]
        np.testing.assert_array_equal(run(handed, arrays)[0], run(graph, arrays)[0])
