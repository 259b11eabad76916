"""Lowered kernels mean what the graph means, and hold no sizes."""

import math

import numpy as np
import pytest
from codegen.formulas import (
    CASES,
    Formula,
    arrays,
    build,
    f32,
    gelu,
    layer_norm,
    mixed_sum,
    relu_backward,
    softmax,
    spread,
)
from codegen.programs import run_graph

from jitgrad.codegen.fuse import KernelStep, fuse
from jitgrad.codegen.loops import walk
from jitgrad.codegen.loops.analysis import stride
from jitgrad.codegen.loops.ir import Kernel, Load, Loop, Store
from jitgrad.codegen.lower import lower
from jitgrad.ir import dtypes, interpreter
from jitgrad.ir.ops.argmax import ArgMax
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.creation import full_like
from jitgrad.ir.ops.reduction import Amax
from jitgrad.ir.ops.select import Convert, Where
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.slicing import Concat
from jitgrad.ir.scalar import Fn
from jitgrad.ir.types import TensorType


def kernels(types, formula: Formula) -> list[Kernel]:
    """The kernels of a formula."""
    program = fuse(build(types, formula))
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    return [x.kernel for s in steps for x in lower(program, s, {})]


@pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])
@pytest.mark.parametrize("case", CASES)
def test_meaning(case, native):
    types, formula = CASES[case]
    graph, inputs = build(types, formula), arrays(types)
    want = interpreter.run(graph, inputs)
    got = run_graph(graph, inputs, native)
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (np.shape(w), np.asarray(w).dtype)
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)  # float32 sums of some hundred terms


SAME_KERNELS = [
    (lambda n, m: [f32(n, m)] * 2, lambda b, x, y: gelu(b, b(Add(), x, y))),
    (lambda n, m: [f32(n, m)], softmax),
    (lambda n, m: [f32(n, m)], lambda b, x: softmax(b, x, (0,))),
    (lambda n, m: [f32(n, m)], layer_norm),
    (lambda n, m: [f32(n, m)] * 2, relu_backward),
    (lambda n, m: [f32(n, m), f32(m)], lambda b, x, y: b(Add(), x, spread(b, y, x))),
    (lambda n, m: [f32(n, m)], lambda b, x: b(Sum((0, 1), False), b(Mul(), x, x))),
    (lambda n, m: [f32(n, 5, m, 7), f32(5)], mixed_sum),
    (lambda n, m: [f32(n, m, 9), f32(m, n, 9)], lambda b, x, y: b(Add(), b(Permute((1, 0, 2)), x), y)),
]


@pytest.mark.parametrize(("types", "formula"), SAME_KERNELS)
def test_other_shapes_have_the_same_kernels(types, formula):
    reference = kernels(types(6, 18), formula)
    for shape in ((7, 18), (100, 33), (6, 100_000), (100_000, 14), (40, 12), (100, 3), (3, 2)):
        assert kernels(types(*shape), formula) == reference


@pytest.mark.parametrize(("types", "formula"), [c for i, c in enumerate(SAME_KERNELS) if i not in (2, 4, 5)])
def test_a_batch_of_one_has_the_same_kernels(types, formula):
    assert kernels(types(1, 8), formula) == kernels(types(6, 8), formula)


def test_pointwise_kernels_of_any_rank_are_one():
    formula = lambda b, x: b(Mul(), x, x)  # noqa: E731
    assert kernels([f32(3)], formula) == kernels([f32(3, 4)], formula) == kernels([f32(3, 4, 5)], formula)


def test_a_users_numbers_are_not_in_the_kernel():
    def scaled(number):
        return kernels([f32(3)], lambda b, x: b(Add(), b(Mul(), x, full_like(b, x, number)), full_like(b, x, 1.0)))

    assert scaled(0.5) == scaled(1.0) == scaled(-3.0)


def vector_loops(found: list[Kernel]) -> list[Loop]:
    """The innermost loops of kernels."""
    return [s for k in found for s in walk.statements(k.body) if isinstance(s, Loop) and s.kind == "vector"]


def reads(loop: Loop) -> list[Load]:
    """What a loop reads of memory."""
    return [e for s in loop.body for e in walk.loads(walk.expressions(s))]


def exponentials(kernel: Kernel) -> list[list[list[bool]]]:
    """For each loop over some rows and each innermost loop in it, whether its statements compute an exponential."""
    rows = [s for s in walk.statements(kernel.body) if isinstance(s, Loop) and s.var.name == "row"]
    loops = [[s for s in walk.statements(r.body) if isinstance(s, Loop) and s.kind == "vector"] for r in rows]
    return [
        [[any(e.fn is Fn.EXP for e in walk.postorder(walk.expressions(s))) for s in loop.body] for loop in inner]
        for inner in loops
    ]


def test_a_costly_value_is_kept_for_the_phase_that_needs_it_again():
    """The largest element; the exponentials, summed up and kept; what they come to."""
    (kernel,) = kernels([f32(9, 50)], softmax)
    assert exponentials(kernel) == [[[False], [True, True], [False]], []]


def test_short_rows_of_several_axes_have_only_folds_of_their_own():
    """Everything else is there once: it was twice as much to compile. They are folded from end to end."""

    def shifted(b, x):
        return b(Add(), x, spread(b, b(Sum((0, 2), True), x), x))

    (kernel,) = kernels([f32(9, 5, 50)], shifted)
    statements = list(walk.statements(kernel.body))
    assert [s.var.name for s in statements if isinstance(s, Loop)].count("row") == 1
    assert sum(isinstance(s, Store) for s in statements) == 1
    for shape in ((2, 5, 3), (6, 700, 2), (1, 5, 12), (13, 5, 1), (0, 5, 3), (3, 5, 5000)):
        types = [f32(*shape)]
        assert kernels(types, shifted) == [kernel]
        (x,) = inputs = arrays(types)
        (got,) = run_graph(build(types, shifted), inputs, True)
        total = np.zeros(shape[1], np.float32)
        if shape[0] * shape[2] <= 12:
            for part in np.moveaxis(x, 1, -1).reshape(-1, shape[1]):
                total += part
            np.testing.assert_array_equal(got, x + total[:, None])
        else:
            np.testing.assert_allclose(got, x + x.sum((0, 2), keepdims=True), rtol=1e-4, atol=1e-3)


def test_a_tile_keeps_what_the_memory_of_a_result_cannot():
    """It is an operand's, which is read to the end, or of another dtype; a long row is computed again."""
    graph = build([f32(9, 50)], softmax)
    program = fuse(graph)
    (step,) = (s for s in program.steps if isinstance(s, KernelStep))
    (launch,) = lower(program, step, {graph.outputs[0]: graph.inputs[0]})
    held = [[False], [True, True], [False, False]]
    assert exponentials(launch.kernel) == [held, [[False], [True], [True, False]], []]
    assert [b.role for b in launch.kernel.buffers] == ["inout", "local"]

    def rounded(b, x):
        return b(Convert(dtypes.bfloat16), softmax(b, x))

    (kernel,) = kernels([f32(9, 50)], rounded)
    assert exponentials(kernel) == [[[False], [True, True], [False]], [[False], [True], [True]], []]
    assert [kernel] == kernels([f32(9, 5000)], rounded)


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.int32, dtypes.bool_], ids=str
)
@pytest.mark.parametrize("shape", [(1, 1), (31, 65), (64, 32), (130, 7), (70, 1090), (33, 2100)])
def test_transposed_reads_of_every_size(shape, dtype):
    """Whole tiles, parts of tiles, tasks of each height, and elements too narrow for squares."""
    types = [TensorType(shape, dtype), TensorType(shape[::-1], dtype)]
    graph = build(types, lambda b, x, y: b(Where(), b(Eq(), b(Permute((1, 0)), x), y), b(Permute((1, 0)), x), y))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 2, t.shape).astype(dtype.np) for t in types]
    want = interpreter.run(graph, inputs)
    for native in (False, True)[math.prod(shape) > 10_000 :]:
        np.testing.assert_array_equal(run_graph(graph, inputs, native)[0], want[0])


@pytest.mark.parametrize("axes", [(1, 0), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
@pytest.mark.parametrize("shape", [(3, 1, 2), (40, 50, 60), (2, 1030, 300)])
def test_rows_that_are_columns_in_memory_are_folded_as_such(axes, shape):
    """Side by side, and none along strides; with what follows from their sums."""
    types = [f32(*shape[: len(axes)]), f32(*[shape[a] for a in axes[:-1]])]

    def folded(b, x, y):
        x = b(Permute(axes), x)
        last = (len(axes) - 1,)
        return b(Mul(), b(Sum(last, False), x), y), b(Amax(last, False), x), b(ArgMax(last, False), x)

    chunks, _ = kernels(types, folded)
    assert all(stride(e.args[0], loop.var) in (0, 1) for loop in vector_loops([chunks]) for e in reads(loop))
    graph, inputs = build(types, folded), arrays(types)
    want = interpreter.run(graph, inputs)
    for native in (False, True)[math.prod(shape) > 10_000 :]:
        for got, expected in zip(run_graph(graph, inputs, native), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)  # float32 sums of some hundred terms


@pytest.mark.parametrize("reduced", [(0,), (0, 1), (0, 1, 2), (0, 2), (1, 2)])
@pytest.mark.parametrize("shape", [(3, 1, 2), (40, 50, 60)])
def test_sums_go_along_memory(reduced, shape):
    """Columns that are rows in memory, and wholes that lie otherwise: nothing is read along strides."""
    last_first = (2, 1, 0)
    types = [f32(*shape)]

    def folded(b, x):
        x = b(Permute(last_first), x)
        return b(Sum(reduced, False), x), b(Amax(reduced, False), x)

    first = kernels(types, folded)[0]
    assert all(stride(e.args[0], loop.var) in (0, 1) for loop in vector_loops([first]) for e in reads(loop))
    graph, inputs = build(types, folded), arrays(types)
    want = interpreter.run(graph, inputs)
    for native in (False, True)[math.prod(shape) > 10_000 :]:
        for got, expected in zip(run_graph(graph, inputs, native), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)  # float32 sums of many thousand terms


@pytest.mark.parametrize("axes", [(1, 0), (0, 2, 1), (1, 2, 0)])
@pytest.mark.parametrize("shape", [(3, 1, 2), (40, 50, 60), (2, 130, 300)])
def test_rows_of_transpositions_are_read_along_memory(axes, shape):
    """They are turned before they are gone through twice."""
    types = [f32(*shape[: len(axes)])]

    def formula(b, x):
        x = b(Permute(axes), x)
        return softmax(b, x, (len(axes) - 1,)), b(Sum((len(axes) - 1,), False), x)

    _, *rows = kernels(types, formula)
    assert rows and all(stride(e.args[0], loop.var) in (0, 1) for loop in vector_loops(rows) for e in reads(loop))
    graph, inputs = build(types, formula), arrays(types)
    want = interpreter.run(graph, inputs)
    for native in (False, True)[math.prod(shape) > 10_000 :]:
        for got, expected in zip(run_graph(graph, inputs, native), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)  # float32 sums of some hundred terms


def test_results_that_read_what_another_keeps_are_computed_before_it_is_stored():
    """The same weights in three types: all from exponentials in the first one's memory."""

    def weights(b, x):
        y = softmax(b, x)
        return y, b(Convert(dtypes.bfloat16), y), b(Convert(dtypes.int32), b(Mul(), y, full_like(b, y, 1e4)))

    types = [f32(9, 50)]
    graph, inputs = build(types, weights), arrays(types)
    want = interpreter.run(graph, inputs)
    for native in (False, True):
        got = run_graph(graph, inputs, native)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)  # exponentials and sums of two makers
        np.testing.assert_allclose(got[1].astype("f4"), want[1].astype("f4"), rtol=2**-7)  # one place of bfloat16
        np.testing.assert_allclose(got[2], want[2], atol=1)


@pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (40, 33)])
def test_elements_put_side_by_side_are_stored_from_vectors_across(shape, native):
    """`stack` along a new last axis: its loop is too short for vectors."""

    def stack(b, *parts):
        return b(Concat(2), *[b(Reshape((*p.shape, 1)), p) for p in parts])

    def formula(b, x, y, z):
        return stack(b, b(Mul(), x, y), y, z)

    types = [f32(*shape)] * 3
    (kernel,) = kernels(types, formula)
    kinds = [s.kind for s in walk.statements(kernel.body) if isinstance(s, Loop)]
    assert kinds == ["parallel_vector", "serial"]
    x, y, z = (np.random.default_rng(k).standard_normal(shape).astype("f") for k in range(3))
    (got,) = run_graph(build(types, formula), [x, y, z], native)
    np.testing.assert_array_equal(got, np.stack([x * y, y, z], 2))
