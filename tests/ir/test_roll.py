"""Loops that Python has unrolled are found again: the same values to the bit, forwards and backwards."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.ir.interpreter import run
from jitgrad.ir.passes import RollLoops
from jitgrad.ir.verify import verify

W = jg.tensor(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32), requires_grad=True)
LENGTH = 60


def last_state(x):
    h = jg.zeros(3, 4)
    for t in range(len(x)):
        h = jg.tanh(h @ W + x[t])
    return (h * h).sum()


def all_states(x):
    h, outs = jg.zeros(3, 4), []
    for t in range(len(x)):
        h = jg.tanh(h @ W + x[t])
        outs.append(h * 2)
    return (jg.stack(outs) ** 2).sum() + h.sum()


def two_states_backwards(x):
    h, c = jg.zeros(3, 4), jg.zeros(3, 4)
    for t in reversed(range(len(x))):
        g = jg.sigmoid(h @ W + x[t])
        c = c * g + t * 0.01
        h = g * jg.tanh(c)
    return h.sum() + c.sum()


def another_axis_with_random_numbers(x):
    y = x.transpose(0, 1)
    h, s = jg.zeros(3, 4), jg.zeros(())
    for t in range(1, y.shape[1] - 1):
        h = jg.tanh(h @ W + y[:, t])
        s = s + (h * jg.rand(4)).sum()
    return s


def no_sequence(x):
    p = x[0]
    for _ in range(60):
        p = p - 0.1 * (p @ W).sin()
    return (p**2).sum()


LOOPS = [last_state, all_states, two_states_backwards, another_axis_with_random_numbers, no_sequence]


def captured(f, x):
    """The graph of `f`, as it comes to the compiler, and the result."""
    compiled = jg.compile(f, fullgraph=True)
    result = compiled(x)
    return compiled.explain().entries[0].graph, result


@pytest.mark.parametrize("wrt", ["nothing", "weights", "input"])
@pytest.mark.parametrize("loop", LOOPS)
def test_unrolled_loops_are_found(loop, wrt):
    def f(x):
        value = loop(x)
        if wrt == "nothing":
            return value.detach()
        return jg.autograd.grad(value, x if wrt == "input" else W)[0]

    x = jg.randn(LENGTH, 3, 4, requires_grad=wrt == "input")
    jg.manual_seed(5)
    graph, result = captured(f, x)
    jg.manual_seed(5)
    # BLAS and vector mathematics differ from NumPy's by rounding, which sixty steps add up
    np.testing.assert_allclose(result.numpy(), f(x).numpy(), rtol=2e-4, atol=1e-4)
    rolled = RollLoops().run(graph)
    verify(rolled)
    names = [n.op.name for n in rolled.nodes]
    assert names.count("scan") == (1 if wrt == "nothing" else 2)
    assert len(names) < len(graph.nodes) / 8
    rng = np.random.default_rng(1)
    arrays = [(0.5 * rng.normal(size=v.type.shape)).astype(v.type.dtype.np) for v in graph.inputs]
    for a, b in zip(run(rolled, arrays), run(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_not_wired_alike_stays():
    def f(x):
        h = g = x[0]
        for t in range(60):  # the state before the last one takes part
            h, g = jg.tanh(h @ W + g), (h if t % 3 else x[0])
        return h

    graph, _ = captured(lambda x: f(x).detach(), jg.randn(2, 4, 4))
    rolled = RollLoops().run(graph)
    verify(rolled)
    arrays = [np.ones(v.type.shape, v.type.dtype.np) * 0.1 for v in graph.inputs]
    for a, b in zip(run(rolled, arrays), run(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_short_loops_stay():
    graph, _ = captured(lambda x: last_state(x[:8]).detach(), jg.randn(10, 3, 4))
    assert RollLoops().run(graph) is graph


def test_a_thousand_steps_compile_to_what_a_hundred_do():
    compiled = jg.compile(lambda x: last_state(x).detach())
    for length in (100, 1000):
        compiled(jg.randn(length, 3, 4))
    first, second = compiled.explain().entries
    assert len(second.executable.plan.steps) == len(first.executable.plan.steps)


def test_values_that_are_all_needed_are_not_stacked_and_cut_again():
    def f(x):
        return tuple((x + n) * 2 for n in range(300))

    graph, results = captured(f, jg.zeros(2))
    assert RollLoops().run(graph) is graph
    assert results[299].tolist() == [598, 598]
