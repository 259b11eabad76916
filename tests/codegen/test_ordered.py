"""Gathers, scans and scatters as kernels: the references' values, nothing out of range, the same bits always."""

import numpy as np
import pytest
from codegen.formulas import arrays, build, f32
from codegen.ordered import ORDERED, i64
from codegen.programs import run_graph

from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.cpu.threads import get_num_threads, set_num_threads
from jitgrad.codegen.fuse import KernelStep, fuse
from jitgrad.codegen.lower import lower
from jitgrad.ir import interpreter
from jitgrad.ir.ops.indexing import Gather, IndexAdd, IndexSelect, Scatter
from jitgrad.ir.ops.scan import CumSum


def assert_near(have, want):
    assert (have.shape, have.dtype) == (want.shape, want.dtype)
    if have.dtype.kind in "biu":
        np.testing.assert_array_equal(have, want)
    else:  # float32 sums of some hundred terms in another order; float16 rounded once
        wide = 2e-5 if have.dtype == np.float32 else 2e-3
        np.testing.assert_allclose(have.astype("f8"), want.astype("f8"), rtol=wide, atol=wide)


@pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])
@pytest.mark.parametrize("case", ORDERED)
def test_meaning(case, native):
    types, formula = ORDERED[case]
    graph, inputs = build(types, formula), arrays(types)
    assert all(isinstance(s, KernelStep) for s in fuse(graph).steps), "runs by the reference"
    for have, want in zip(run_graph(graph, inputs, native), interpreter.run(graph, inputs), strict=True):
        assert_near(have, np.asarray(want))


def test_negative_indices_count_from_the_end():
    graph = build([f32(4, 3), i64(2)], lambda b, x, i: b(IndexSelect(0), x, i))
    x = np.arange(12, dtype="f4").reshape(4, 3)
    (have,) = compile_graph(graph)([x, np.array([-1, -4])])
    np.testing.assert_array_equal(have, x[[-1, -4]])


def test_out_of_range_nothing_is_touched():
    """Checks come before, in graphs that are traced; a kernel without them stays inside its buffers all the same."""
    index = np.array([[0, 99], [-99, 1]])
    x, y = np.ones((2, 3), np.float32), np.full((2, 2), 5, np.float32)
    gathered = build([f32(2, 3), i64(2, 2)], lambda b, x, i: b(Gather(1), x, i))
    (have,) = compile_graph(gathered)([x, index])
    np.testing.assert_array_equal(have, [[1, 0], [0, 1]])
    scattered = build([f32(2, 3), i64(2, 2), f32(2, 2)], lambda b, x, i, y: b(Scatter(1), x, i, y))
    (have,) = compile_graph(scattered)([x, index, y])
    np.testing.assert_array_equal(have, [[5, 1, 1], [1, 5, 1]])


def test_the_last_of_what_is_set_stays():
    graph = build([f32(1, 3), i64(1, 100), f32(1, 100)], lambda b, x, i, y: b(Scatter(1), x, i, y))
    values = np.arange(100, dtype="f4").reshape(1, 100)
    index = np.arange(100).reshape(1, 100) % 2
    (have,) = compile_graph(graph)([np.zeros((1, 3), np.float32), index, values])
    np.testing.assert_array_equal(have, [[98, 99, 0]])


@pytest.mark.parametrize("formula", ["index add", "cumsum"])
def test_bits_do_not_depend_on_threads(formula):
    rng = np.random.default_rng(0)
    if formula == "cumsum":
        graph = build([f32(300_000)], lambda b, x: b(CumSum(0, False), x))
        inputs = [rng.standard_normal(300_000).astype("f4")]
    else:
        graph = build([f32(500, 64), i64(9000), f32(9000, 64)], lambda b, x, i, y: b(IndexAdd(0), x, i, y))
        inputs = [np.zeros((500, 64), "f4"), rng.integers(0, 500, 9000), rng.standard_normal((9000, 64)).astype("f4")]
    run, before, found = compile_graph(graph), get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            set_num_threads(threads)
            found.append(run(inputs)[0].tobytes())
    finally:
        set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.parametrize("n", [7, 100])
def test_one_kernel_serves_all_lengths(n):
    def kernels(n):
        graph = build([f32(20, 9), i64(n), f32(n, 9)], lambda b, x, i, y: b(CumSum(0), b(IndexAdd(0), x, i, y)))
        program = fuse(graph)
        return [x.kernel for s in program.steps for x in lower(program, s, {})]

    assert kernels(n) == kernels(33)
