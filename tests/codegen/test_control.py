"""Choices and loops in compiled graphs: native, equal to the interpreter, and checked by the plan's verifier."""

import dataclasses
import threading

import numpy as np
import pytest
from control_graphs import chosen, numbers, repeated, scanned, t

from jitgrad.codegen import compile_graph
from jitgrad.codegen.describe import describe_steps, lifetimes
from jitgrad.codegen.fuse import ControlStep, fuse
from jitgrad.codegen.options import CompileOptions
from jitgrad.codegen.plan import InnerPlans, make_plan
from jitgrad.codegen.plan_verify import verify_plan
from jitgrad.codegen.prepare import prepare
from jitgrad.codegen.timing import time_steps
from jitgrad.ir import dtypes
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.control import Scan, WhileLoop
from jitgrad.ir.errors import InternalError
from jitgrad.ir.interpreter import run
from jitgrad.ir.parser import parse


def check(graph, arrays, host_steps=0, rtol=1e-10, **options):
    """Compiled twice over, against the interpreter."""
    want = run(graph, arrays)
    compiled = compile_graph(graph, options=CompileOptions(**options))
    assert compiled.stats.host_steps == host_steps
    for _ in range(2):
        for a, b in zip(compiled(arrays), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)
    return compiled


@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_and_their_gradients(length, reverse):
    graph = gradient_graph(scanned(length, reverse, with_residuals=True), [0, 1, 2, 3])
    check(graph, numbers(graph))


def test_a_new_length_compiles_no_kernel():
    graphs = [gradient_graph(scanned(n, with_residuals=True, dtype=dtypes.float32), [0, 1, 2, 3]) for n in (3, 4, 9)]
    compiled = [compile_graph(g) for g in graphs]
    assert [c.stats.compiled for c in compiled[1:]] == [0, 0]


@pytest.mark.parametrize("limit", [0, 3, 5, 20, 1000])  # no step, some, an even and an odd number of them
def test_loops_of_unknown_length(limit):
    graph = repeated(limit)
    arrays = [np.array([1.0, 0.5]), np.array([0.3, 0.2])]
    check(graph, arrays)
    check(gradient_graph(graph, [0, 1]), [*arrays, np.array([1.0, -2.0])], host_steps=1)


@pytest.mark.parametrize("predicate", [True, False])
def test_choices(predicate):
    graph = gradient_graph(chosen(), [1, 2])
    arrays = numbers(graph)
    arrays[0] = np.array(predicate)
    check(graph, arrays)
    check(graph, arrays, fuse=False)
    check(graph, arrays, passes=False)


def nested():
    """A scan, in each step of which a loop doubles until a limit is reached, and a branch picks one of two."""
    double = parse("graph(%x: f64[], %l: f64[]) -> (f64[]) { %y = add(%x, %x) : f64[] return %y }")
    below = parse("graph(%x: f64[], %l: f64[]) -> (bool[]) { %c = lt(%x, %l) : bool[] return %c }")
    b = Builder()
    h, x, limit = b.input(t()), b.input(t()), b.input(t())
    doubled = b(WhileLoop(below, double, 1), x, limit)
    body = b.build(b.emit(parse_op("add"), h, doubled))
    b = Builder()
    inputs = [b.input(t()), b.input(t(4)), b.input(t())]
    return b.build(b.emit(Scan(body, 1, 1), *inputs))


def parse_op(name):
    return parse(f"graph(%x: f64[], %y: f64[]) -> (f64[]) {{ %z = {name}(%x, %y) : f64[] return %z }}").nodes[0].op


def test_loops_in_loops():
    arrays = [np.array(1.0), np.array([0.1, 3.0, 20.0, 1.0]), np.array(10.0)]
    check(nested(), arrays)


def test_a_step_that_only_numpy_does():
    body = parse("graph(%h: f64[3], %x: f64[3]) -> (f64[3]) {"
                 " %s, %i = sort[axis=0](%x) : f64[3], i64[3] %n = add(%h, %s) : f64[3] return %n }")  # fmt: skip
    b = Builder()
    graph = b.build(b.emit(Scan(body, 1, 1), b.input(t(3)), b.input(t(4, 3))))
    check(graph, numbers(graph), host_steps=1)


def test_carries_that_change_places_or_stay():
    body = parse("graph(%a: f64[2], %b: f64[2], %c: f64[2], %x: f64[2]) -> (f64[2], f64[2], f64[2], f64[2], f64[2]) {"
                 " %s = add(%a, %x) : f64[2] return %b, %s, %c, %a, %x }")  # fmt: skip
    for length in (1, 2, 5):
        b = Builder()
        inputs = [b.input(t(2)), b.input(t(2)), b.input(t(2)), b.input(t(length, 2))]
        graph = b.build(b.emit(Scan(body, 3, 1), *inputs))
        check(graph, numbers(graph))


def test_results_written_over_inputs():
    graph = scanned(5)
    arrays = numbers(graph)
    want = run(graph, arrays)
    compiled = compile_graph(graph, aliases={0: 0})
    state = arrays[0].copy()
    out = compiled([state, *arrays[1:]])
    assert out[0] is state
    np.testing.assert_allclose(state, want[0])


def test_slices_without_elements():
    body = parse("graph(%h: f64[0], %x: f64[0]) -> (f64[0]) { %s = add(%h, %x) : f64[0] return %s }")
    b = Builder()
    graph = b.build(b.emit(Scan(body, 1, 1), b.input(t(0)), b.input(t(4, 0))))
    check(graph, numbers(graph))


def test_from_several_threads():
    graph = gradient_graph(scanned(7, with_residuals=True), [0, 1, 2, 3])
    arrays = numbers(graph)
    want, compiled, wrong = run(graph, arrays), compile_graph(graph), []

    def work():
        for _ in range(50):
            if not all(np.allclose(a, b) for a, b in zip(compiled(arrays), want, strict=True)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def planned(graph):
    plan = make_plan(fuse(prepare(graph, CompileOptions())), {})
    (step,) = [s for s in plan.steps if isinstance(s, ControlStep)]
    return plan, step


def test_the_verifier_refuses_inner_memory_over_an_operand():
    plan, step = planned(scanned(5))
    verify_plan(plan)
    arena = plan.inner[step].arena
    for taken in (step.node.operands[0], step.node.results[1]):
        before = plan.places[arena]
        plan.places[arena] = plan.places[taken]
        with pytest.raises(InternalError, match="invalid plan"):
            verify_plan(plan)
        plan.places[arena] = before


def test_the_verifier_refuses_an_arena_that_is_too_small():
    plan, step = planned(scanned(5))
    inner = plan.inner[step]
    assert inner.plans[0].arena_bytes
    small = dataclasses.replace(inner.arena, length=inner.plans[0].arena_bytes - 1)
    plan.places[small] = plan.places[inner.arena]
    plan.inner[step] = InnerPlans(inner.plans, small, inner.others, inner.outcome)
    with pytest.raises(InternalError, match="an inner arena"):
        verify_plan(plan)


def test_dumps_descriptions_and_times():
    compiled = compile_graph(gradient_graph(scanned(6, with_residuals=True), [0, 1, 2, 3]))
    text = compiled.dump()
    assert "scan" in text["plan"] and "inside" in text["kernels"]
    described = describe_steps(compiled.plan)
    loops = [d for d in described if d.kind == "control"]
    assert [d.title for d in loops] == ["scan", "scan"] and "6 times" in loops[0].shape and loops[0].flops > 0
    assert lifetimes(compiled.plan)
    assert len(time_steps(compiled, runs=3, seconds=0.2).steps) == len(described)
