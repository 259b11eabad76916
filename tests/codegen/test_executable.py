"""Compiled graphs against the interpreter: every template, layout, size, alias; random graphs."""

import dataclasses
import gc
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from codegen.formulas import CASES, arrays, build, f32, gelu, layer_norm, softmax
from hypothesis import given, settings
from properties.comparison import assert_same_bits
from properties.strategies import graphs

from jitgrad.codegen import CompileOptions, compile_graph
from jitgrad.codegen.buffers import BufferPool
from jitgrad.codegen.loops.walk import postorder
from jitgrad.ir import dtypes, interpreter, scalar
from jitgrad.ir.errors import InternalError
from jitgrad.ir.op import Op, Pointwise, Reduction
from jitgrad.ir.ops.arithmetic import Add, Div, Mul, Sub
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.creation import full_like
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.math import Exp
from jitgrad.ir.ops.rounding import Remainder
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.special_function import SpecialFunction
from jitgrad.ir.printer import to_text
from jitgrad.ir.types import TensorType

STRICT = CompileOptions(numerics="strict")


def agree(got, want, tolerance=2e-5):
    """Equal shapes, dtypes, and values within the rounding of float32 sums of a few hundred terms."""
    for g, w in zip(got, map(np.asarray, want), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_two_calls(case):
    types, formula = CASES[case]
    graph = build(types, formula)
    run = compile_graph(graph)
    for seed in range(2):
        inputs = arrays(types, seed)
        kept = [x.copy() for x in inputs]
        agree(run(inputs), interpreter.run(graph, inputs))
        for x, y in zip(inputs, kept):
            assert_same_bits(x, y)


LARGE = {
    "gelu": ([f32(700, 1000)] * 2, lambda b, x, y: gelu(b, b(Add(), x, y))),
    "softmax": ([f32(700, 1000)], softmax),
    "softmax columns": ([f32(1000, 700)], lambda b, x: softmax(b, x, (0,))),
    "layer norm": ([f32(7, 100, 1000)], layer_norm),
    "sums": (
        [f32(3000, 300)],
        lambda b, x: tuple(b(Sum(axes, False), b(Mul(), x, x)) for axes in ((0,), (1,), (0, 1))),
    ),
    "few columns": ([f32(100_000, 3)], lambda b, x: b(Sum((0,), False), x)),
    "few rows": ([f32(3, 100_000)], lambda b, x: (b(Sum((0,), False), x), b(Sum((1,), False), x))),
    "permute": ([f32(60, 70, 80)], lambda b, x: b(Exp(), b(Permute((2, 0, 1)), x))),
    "batch of products": (
        [f32(200, 20, 30), f32(200, 30, 40)],
        lambda b, x, y: b(MatMul(), b(Exp(), x), y),
    ),
    "product": ([f32(300, 200), f32(200, 100)], lambda b, x, y: b(Exp(), b(MatMul(), x, y))),
}


@pytest.mark.parametrize("case", LARGE)
def test_large(case):
    types, formula = LARGE[case]
    graph, inputs = build(types, formula), [x * np.float32(0.1) for x in arrays(types)]
    agree(compile_graph(graph)(inputs), interpreter.run(graph, inputs), 1e-4)


def test_float32_sums_stay_accurate():
    x = np.random.default_rng(0).random(10_000_000, np.float32)
    (total,) = compile_graph(build([f32(x.size)], lambda b, v: b(Sum((0,), False), v)))([x])
    assert abs(float(total) / float(x.sum(dtype=np.float64)) - 1) < 1e-6


@pytest.mark.parametrize("shape", [(10_000_000, 1), (2, 5_000_000), (5_000_000, 2)])
def test_float32_sums_stay_accurate_along_any_axis(shape):
    x = np.random.default_rng(0).random(shape, np.float32)
    sums = compile_graph(build([f32(*shape)], lambda b, v: (b(Sum((0,), False), v), b(Sum((1,), False), v))))([x])
    for axis, total in enumerate(sums):
        np.testing.assert_allclose(total, x.sum(axis, dtype=np.float64), rtol=2e-6)


# Random graphs


EXACT_REDUCTIONS = {"all", "amax", "amin", "any", "argmax", "argmin"}
INEXACT = {"cumsum", "cumprod", "linear_scan", "logcumsumexp", "matmul", "random_normal"}


def is_exact(op: type[Op]) -> bool:
    """Ops that NumPy and machine code round alike: IEEE operations one by one, or none."""
    if op.has_decomposition() or op.name in INEXACT or issubclass(op, SpecialFunction):
        return False
    if issubclass(op, Reduction):
        return op.name in EXACT_REDUCTIONS
    needs_fields = any(f.default is dataclasses.MISSING for f in dataclasses.fields(op))
    if not issubclass(op, Pointwise) or op.scalar is Pointwise.scalar or needs_fields:
        return True
    expression = op().scalar(*(scalar.arg(k, dtypes.float32) for k in range(op.arity)))
    return not any(e.fn in scalar.MATH for e in postorder([expression]))


@settings(max_examples=60)
@given(case=graphs(allow=is_exact))
def test_random_graphs_to_the_bit(case):
    graph, inputs = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NaN and infinities, which are wanted here
        want = interpreter.run(graph, inputs)
        run = compile_graph(graph, options=STRICT)
        for _ in range(2):
            for g, w in zip(run(inputs), want, strict=True):
                assert_same_bits(g, np.asarray(w), to_text(graph))


@settings(max_examples=60)
@given(case=graphs(awkward=False, dtypes=(dtypes.float64, dtypes.int64, dtypes.bool_)))
def test_fusing_changes_nothing(case):
    """One kernel per node, or as few as possible: the same numbers, but for contraction."""
    graph, inputs = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        apart = compile_graph(graph, options=CompileOptions(fuse=False, numerics="strict"))(inputs)
        for g, w in zip(compile_graph(graph, options=STRICT)(inputs), apart, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)  # sums in another order


# Inputs and outputs


LAYOUTS = {
    "transposed": lambda x: np.asfortranarray(x),
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("host", [False, True], ids=["native", "host"])
def test_layouts(layout, host):
    def formula(b, x, i):
        picked = b(Gather(1), x, i) if host else x
        return b(Mul(), picked, picked), x

    types = [f32(6, 8), TensorType((6, 8), dtypes.int64)]
    graph = build(types, formula)
    x, i = arrays(types)
    x = LAYOUTS[layout](x)
    agree(compile_graph(graph)([x, i]), interpreter.run(graph, [x, i]))


def test_hundreds_of_outputs():
    def formula(b, x):
        scaled = tuple(b(Mul(), x, full_like(b, x, float(k))) for k in range(300))
        return (*scaled, *(b(Sum((1,), False), y) for y in scaled))

    graph, (x,) = build([f32(3, 4)], formula), arrays([f32(3, 4)])
    agree(compile_graph(graph)([x]), interpreter.run(graph, [x]), 1e-4)


@pytest.mark.parametrize("op", [Sub, Remainder])
def test_deep_chains(op):
    def formula(b, x, y):
        z = x
        for _ in range(2000):
            z = b(op(), z, y)
        return z

    x, y = np.float32([5.5, -3.0]), np.float32([0.25, 2.0])
    graph = build([f32(2)] * 2, formula)
    run = compile_graph(graph, options=CompileOptions(passes=False))
    agree(run([x, y]), interpreter.run(graph, [x, y]))
    assert len(run.plan.steps) < 100


def test_wrong_inputs_are_refused():
    run = compile_graph(build([f32(3)], lambda b, x: b(Exp(), x)))
    for wrong in ([], [np.zeros(4, np.float32)], [np.zeros(3)]):
        with pytest.raises(InternalError):
            run(wrong)


def test_outputs_are_arrays_of_their_own():
    types, formula = CASES["views"]
    x = arrays(types)[0]
    outputs = compile_graph(build(types, formula))([x])
    for k, y in enumerate(outputs):
        assert y.flags.c_contiguous and y.flags.writeable
        assert not any(np.shares_memory(y, z) for z in (x, *outputs[:k]))


# Aliases


def update(b, p, g):
    """A gradient step, and the loss before it."""
    return b(Sub(), p, b(Mul(), g, full_like(b, g, 0.1))), b(Sum((0, 1), False), b(Mul(), p, p))


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("shape", [(5, 7), (600, 500)])
def test_updates_in_place(layout, shape):
    types = [f32(*shape)] * 2
    graph = build(types, update)
    run = compile_graph(graph, aliases={0: 0})
    p, g = arrays(types)
    p = layout(p)
    for _ in range(2):
        want = interpreter.run(graph, [p.copy(), g])
        got = run([p, g])
        assert got[0] is p
        agree(got, want, 1e-4)


def test_swap():
    x, y = np.arange(3.0, dtype=np.float32), np.ones(3, np.float32)
    compile_graph(build([f32(3)] * 2, lambda b, x, y: (y, x)), aliases={0: 0, 1: 1})([x, y])
    assert x.tolist() == [1, 1, 1] and y.tolist() == [0, 1, 2]


def test_every_reader_sees_the_old_value():
    def formula(b, p, x):
        new = b(Add(), p, x)
        return new, b(MatMul(), b(Exp(), b(MatMul(), new, x)), p), b(Permute((1, 0)), p), p

    types = [f32(4, 4)] * 2
    graph = build(types, formula)
    p, x = arrays(types)
    want = interpreter.run(graph, [p.copy(), x])
    got = compile_graph(graph, aliases={0: 0})([p, x])
    agree(got, want)
    assert got[0] is p and got[3] is not p


def test_two_updates_that_read_each_other():
    def formula(b, m, v):
        return b(Add(), m, v), b(Div(), v, b(Exp(), m))

    types = [f32(1000)] * 2
    graph = build(types, formula)
    m, v = arrays(types)
    want = interpreter.run(graph, [m.copy(), v.copy()])
    agree(compile_graph(graph, aliases={0: 0, 1: 1})([m, v]), want)


def test_a_read_only_array_is_not_written_to():
    p, g = arrays([f32(5, 7)] * 2)
    p.flags.writeable = False
    with pytest.raises(InternalError, match="read-only"):
        compile_graph(build([f32(5, 7)] * 2, update), aliases={0: 0})([p, g])


# Products


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 4, 1), (0, 4, 5), (3, 0, 5), (1, 1, 1)])
@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("views", [False, True])
def test_products(dtype, shape, batch, views):
    m, k, n = shape

    def formula(b, x, y):
        if views:
            rank = len(batch) + 2
            swapped = (*range(rank - 2), rank - 1, rank - 2)
            x, y = (
                b(Permute(swapped), b(Reshape((*batch, k, m)), x)),
                b(Permute(swapped), b(Reshape((*batch, n, k)), y)),
            )
        return b(MatMul(), x, y)

    types = [TensorType((*batch, m, k), dtype), TensorType((*batch, k, n), dtype)]
    graph, inputs = build(types, formula), arrays(types)
    (got,), (want,) = compile_graph(graph)(inputs), interpreter.run(graph, inputs)
    assert got.shape == want.shape and got.dtype == want.dtype
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-12}[dtype.itemsize]  # a few roundings of the result
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=tolerance, atol=tolerance)


# Reuse and resources


def test_other_shapes_compile_nothing():
    def compiled(n, m):
        return compile_graph(build([f32(n, m)] * 2, lambda b, x, y: softmax(b, gelu(b, b(Add(), x, y))))).stats

    assert compiled(6, 18).kernels == 1
    for shape in ((1, 18), (7, 19), (3000, 1000)):
        stats = compiled(*shape)
        assert (stats.compiled, stats.reused) == (0, 1)


def test_many_calls_of_a_small_graph_go_on_as_the_first_ones():
    """By the direct entry: with an arena, an input that is written, layouts that it refuses, and several threads."""
    types = [f32(8, 16), f32(16, 16), f32(8, 16)]
    graph = build(types, lambda b, x, w, y: (b(Add(), y, b(MatMul(), softmax(b, b(MatMul(), x, w)), w)), softmax(b, y)))
    run = compile_graph(graph, aliases={0: 2})

    def check(seed):
        inputs = arrays(types, seed)
        if seed % 3 == 0:
            inputs = [np.asfortranarray(x) for x in inputs]
        want = interpreter.run(graph, [x.copy() for x in inputs])
        got = run(inputs)
        assert got[0] is inputs[2]
        agree(got, want)

    for seed in range(40):
        check(seed)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, range(200)))
    assert run._direct is not None


def test_large_outputs_come_from_memory_used_before():
    pool = BufferPool()
    shape, dtype, nbytes = (512, 512), np.dtype(np.float32), 512 * 512 * 4
    first = pool.empty(shape, dtype, nbytes)
    address, view = first.ctypes.data, first[3:, ::2].T
    del first
    gc.collect()
    assert pool.kept == 0 and view.base is not None
    del view
    assert pool.kept > 0
    assert pool.empty(shape, dtype, nbytes).ctypes.data == address
    assert address % 4096 == 0  # what is read seldom lies just behind what is being written, in the low 12 bits


def test_the_pool_is_bounded():
    pool = BufferPool(max_kept=1 << 20)
    arrays = [pool.empty((200_000,), np.dtype(np.uint8), 200_000) for _ in range(20)]
    arrays.clear()
    assert 0 < pool.kept <= 1 << 20
    pool.clear()
    assert pool.kept == 0


def test_texts_of_all_stages(tmp_path):
    run = compile_graph(build(*CASES["perceptron"]))
    texts = run.dump(tmp_path)
    assert {p.stem: p.read_text() for p in tmp_path.iterdir()} == texts
    assert {"graph", "groups", "kernels", "plan", "llvm", "assembly"} <= set(texts)
    assert all(texts.values())
    assert run.stats.flops > 0 and run.stats.bytes > 0 and run.stats.total_ms > 0


def test_importing_the_package_does_not_load_numba():
    code = "import sys, jitgrad.codegen; assert not {'numba', 'llvmlite', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_call_may_borrow_an_arena_that_is_larger():
    pool = BufferPool()
    block = pool.take(3000)
    pool.give(block)
    assert pool.lend(2000) is block and pool.kept == 0
    pool.give(block)
    assert pool.lend(1000) is not block
    assert pool.lend(3000) is block
