"""Attention and its gradients by tile kernels, against their formulas in float64."""

import itertools

import numpy as np
import pytest

from jitgrad.codegen import compile_graph, set_num_threads
from jitgrad.codegen.attention.ops import TileAttention, TileAttentionGrad
from jitgrad.codegen.cpu.threads import get_num_threads
from jitgrad.codegen.fuse import TileStep
from jitgrad.codegen.options import CompileOptions
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.attention import Attention, AttentionGrad, AttentionLse
from jitgrad.ir.types import TensorType

ROUNDING = {dtypes.float32: 5e-6, dtypes.float64: 1e-13, dtypes.bfloat16: 1e-2, dtypes.float16: 2e-3}

# leading axes of queries, groups, queries, keys, width of keys, width of values
SIZES = [
    ((), 1, 64, 64, 32, 32),
    ((2, 3), 1, 65, 65, 16, 16),
    ((4,), 2, 100, 77, 20, 24),
    ((2, 2), 1, 130, 513, 13, 7),
    ((1, 6), 3, 33, 200, 64, 96),
    ((2,), 1, 8, 40, 1, 1),
    ((1, 1), 1, 40, 70, 300, 260),
]


def graph_of(op, arrays):
    """The graph of one op, with inputs like the arrays."""
    b = Builder()
    inputs = [b.input(TensorType(x.shape, dtypes.FROM_NUMPY[x.dtype])) for x in arrays]
    return b.build(b.emit(op, *inputs))


def operands(size, dtype=dtypes.float32, mask=None):
    """Queries, keys, values, and a mask or none."""
    lead, groups, queries, keys, width, out = size
    rng = np.random.default_rng(queries + keys)
    shared = (*lead[:-1], lead[-1] // groups) if lead else ()
    shapes = [(*lead, queries, width), (*shared, keys, width), (*shared, keys, out)]
    arrays = [rng.normal(size=s).astype(dtype.np) for s in shapes]
    if mask is not None:
        arrays.append(np.where(rng.random(mask) < 0.2, -np.inf, rng.normal(size=mask)).astype(dtype.np))
    return arrays


def expected(op, arrays):
    """The formulas in float64."""
    found = op.reference(*[a if a.dtype == np.int64 else a.astype(np.float64) for a in arrays])
    return found if isinstance(found, tuple) else (found,)


def check(op, arrays, dtype, options=None, rounding=1):
    """A compiled op against the formulas, twice."""
    graph = graph_of(op, arrays)
    compiled = compile_graph(graph) if options is None else compile_graph(graph, options=options)
    assert any(isinstance(s, TileStep) for s in compiled.steps)
    for _ in range(2):
        for got, want in zip(compiled(arrays), expected(op, arrays), strict=True):
            seen = np.isfinite(want)
            scale = np.abs(want[seen]).max(initial=1.0)
            got = got.astype(np.float64)
            np.testing.assert_allclose(got, want, rtol=0, atol=rounding * ROUNDING[dtype] * scale)


def gradient_operands(op, arrays):
    """What `AttentionGrad` takes: the results' logarithms, and a cotangent with its delta."""
    y, lse = AttentionLse(op.scale, op.causal, op.groups, op.dropout).reference(*arrays)
    g = np.random.default_rng(1).normal(size=y.shape).astype(y.dtype)
    delta = (g.astype(lse.dtype) * y.astype(lse.dtype)).sum(-1)
    return [*arrays[:3], g, lse, delta, *arrays[3:]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_values(size, causal):
    scale = size[4] ** -0.5
    for dtype in (dtypes.float32, dtypes.float64):
        arrays = operands(size, dtype)
        check(AttentionLse(scale, causal, size[1]), arrays, dtype)
        op = AttentionGrad(scale, causal, size[1])
        check(op, gradient_operands(op, arrays), dtype)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_half_types_are_computed_in_float32(dtype):
    size = ((2, 4), 2, 70, 90, 24, 40)
    arrays = operands(size, dtype)
    check(Attention(0.2, False, 2), arrays, dtype)
    op = AttentionGrad(0.2, True, 2)
    check(op, gradient_operands(op, arrays), dtype)


@pytest.mark.parametrize("mask", [(70, 90), (1, 90), (70, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("lead", [(1, 1), (2, 4), (2, 1), (1, 4)], ids=str)
def test_masks_stretch_along_each_axis(lead, mask):
    size = ((2, 4), 2, 70, 90, 24, 40)
    arrays = operands(size, dtypes.float32, (*lead, *mask))
    check(AttentionLse(0.2, False, 2), arrays, dtypes.float32)
    op = AttentionGrad(0.2, False, 2)
    check(op, gradient_operands(op, arrays), dtypes.float32)


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_dropout_drops_what_random_numbers_say(size, p):
    scale, random = size[4] ** -0.5, [np.array(-3), np.array(2**32 - 40)]  # counters whose upper half is not zero
    for dtype, causal in ((dtypes.float32, True), (dtypes.float64, False)):
        arrays = [*operands(size, dtype), *random]
        check(AttentionLse(scale, causal, size[1], p), arrays, dtype)
        op = AttentionGrad(scale, causal, size[1], p)
        check(op, gradient_operands(op, arrays), dtype)


def test_dropout_with_masks_and_halves():
    size, random = ((2, 4), 2, 70, 90, 24, 40), [np.array(5), np.array(77)]
    for dtype, mask in ((dtypes.float32, (2, 1, 70, 90)), (dtypes.bfloat16, (1, 4, 1, 90))):
        arrays = [*operands(size, dtype, mask), *random]
        check(AttentionLse(0.2, False, 2, 0.25), arrays, dtype)
        op = AttentionGrad(0.2, False, 2, 0.25)
        check(op, gradient_operands(op, arrays), dtype)


def test_another_probability_compiles_nothing():
    arrays = [*operands(SIZES[1]), np.array(5), np.array(77)]
    kernels = [compile_graph(graph_of(AttentionLse(0.2, dropout=p), arrays)).kernels for p in (0.1, 0.2)]
    assert [k.key for k in kernels[0]] == [k.key for k in kernels[1]]


def test_a_query_that_sees_no_key_gets_zeros():
    arrays = operands(((), 1, 40, 50, 8, 8), dtypes.float32, (40, 50))
    arrays[3][3] = -np.inf
    run = compile_graph(graph_of(AttentionLse(0.5), arrays))
    y, lse = run(arrays)
    assert not y[3].any()
    assert lse[3] == np.inf
    op = AttentionGrad(0.5)
    dq, dk, dv = compile_graph(graph_of(op, inner := gradient_operands(op, arrays)))(inner)
    assert not dq[3].any()
    assert np.isfinite(dk).all()
    assert np.isfinite(dv).all()


def test_large_scores_neither_overflow_nor_lose_the_largest():
    arrays = operands(((2,), 1, 64, 300, 16, 16))
    arrays[0] *= 100
    check(AttentionLse(1.0), arrays, dtypes.float32, rounding=300)  # scores of hundreds have so much coarser rounding


def test_what_is_not_a_number_stays_so_in_its_query_alone():
    arrays = operands(((), 1, 40, 50, 8, 8))
    arrays[0][5] = np.nan
    y, lse = compile_graph(graph_of(AttentionLse(0.5), arrays))(arrays)
    assert np.isnan(y[5]).all()
    assert np.isnan(lse[5])
    assert np.isfinite(np.delete(y, 5, 0)).all()


@pytest.mark.parametrize("bits", [128, 256])
def test_narrower_registers(bits):
    options = CompileOptions(vector_bits=bits)
    for size, causal in itertools.product(SIZES[1:4], (False, True)):
        arrays = operands(size)
        check(AttentionLse(0.3, causal, size[1]), arrays, dtypes.float32, options)
        op = AttentionGrad(0.3, causal, size[1])
        check(op, gradient_operands(op, arrays), dtypes.float32, options)


def test_bits_do_not_depend_on_threads():
    before = get_num_threads()
    arrays = operands(((2,), 1, 700, 900, 32, 32))
    op = AttentionGrad(0.3, True)
    runs = [(compile_graph(graph_of(o, a)), a) for o, a in (
        (AttentionLse(0.3, True), arrays), (op, gradient_operands(op, arrays)))]  # fmt: skip
    try:
        found = []
        for count in (1, 2, 3):
            set_num_threads(count)
            found.append([x.tobytes() for run, a in runs for x in run(a)])
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1100, 512, 513])
def test_many_queries_by_few_heads(queries, causal):
    arrays = operands(((2,), 2, queries, 900, 24, 40))
    check(op := AttentionGrad(0.3, causal, 2), gradient_operands(op, arrays), dtypes.float32)


def test_memory_does_not_grow_with_the_length():
    for length in (2000, 4000):
        arrays = operands(((), 1, length, length, 16, 16))
        op = AttentionGrad(0.3)
        for o, a in ((AttentionLse(0.3), arrays), (op, gradient_operands(op, arrays))):
            assert compile_graph(graph_of(o, a)).plan.arena_bytes < 1 << 20


def test_few_queries_are_products_and_a_softmax():
    arrays = operands(((2,), 1, 1, 300, 16, 16))
    compiled = compile_graph(graph_of(Attention(0.3), arrays))
    assert not any(isinstance(s, TileStep) and isinstance(s.node.op, TileAttention) for s in compiled.steps)
    np.testing.assert_allclose(compiled(arrays)[0], expected(Attention(0.3), arrays)[0], atol=1e-6)


def test_tile_ops_mean_what_the_ops_mean():
    arrays = operands(((2, 4), 2, 9, 11, 3, 5), dtypes.float64)
    for got, want in zip(TileAttention(0.3, True, 2).reference(*arrays),
                         AttentionLse(0.3, True, 2).reference(*arrays), strict=True):  # fmt: skip
        np.testing.assert_array_equal(got, want)
    op = AttentionGrad(0.3, True, 2)
    inner = gradient_operands(op, arrays)
    types = [TensorType(x.shape, dtypes.float64) for x in inner]
    for strands in (1, 3):
        tiles = TileAttentionGrad(0.3, True, 2, strands, 4)
        found = tiles.reference(*inner)
        assert [t.shape for t in tiles.infer(*types)] == [x.shape for x in found]
        for got, want in zip(found[:3], op.reference(*inner), strict=True):
            np.testing.assert_array_equal(got, want)
