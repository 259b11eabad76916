"""Convolutions by tile kernels against their references in float64: shapes, types, vector widths, threads."""

import itertools
import math

import numpy as np
import pytest
from properties.comparison import assert_same_bits

from jitgrad.codegen import CompileOptions, compile_graph
from jitgrad.codegen.conv.factor_ops import TileProduct
from jitgrad.codegen.conv.ops import PackedWeight
from jitgrad.codegen.conv.phases import phases
from jitgrad.codegen.conv.rules import tile_rules
from jitgrad.codegen.conv.schedule import SCRATCH_BYTES, Work, blocks, conv_tile
from jitgrad.codegen.conv.target import TileTarget
from jitgrad.codegen.cpu.threads import get_num_threads, set_num_threads
from jitgrad.codegen.fuse import TileStep
from jitgrad.codegen.loops.tile import TileOp
from jitgrad.ir import dtypes, interpreter
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.activation import Relu
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.passes.decompose import Decompose
from jitgrad.ir.types import TensorType

# The largest error allowed, as a part of the largest result: roundings of some hundred products, and of results.
TOLERANCE = {"float32": 4e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.2e-2}

# images, groups, channels of input and output in a group, lengths, kernel, stride, padding, dilation
CASES = {
    "like most": (3, 1, 16, 20, (12, 13), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one pixel": (2, 1, 5, 18, (1, 1), (3, 3), (1, 1), (1, 1), (1, 1)),
    "pointwise": (2, 1, 7, 33, (9, 17), (1, 1), (1, 1), (0, 0), (1, 1)),
    "strided": (2, 1, 6, 17, (11, 20), (3, 5), (2, 3), (1, 2), (1, 1)),
    "dilated": (2, 1, 3, 16, (19, 21), (3, 2), (1, 2), (4, 1), (3, 2)),
    "stride beyond the kernel": (2, 1, 4, 16, (9, 10), (1, 2), (2, 3), (0, 0), (1, 1)),
    "kernel beyond the input": (1, 1, 3, 16, (2, 3), (5, 4), (1, 1), (3, 2), (1, 1)),
    "row": (2, 1, 4, 19, (70,), (7,), (2,), (3,), (1,)),
    "long row": (1, 1, 2, 16, (30000,), (9,), (1,), (4,), (1,)),
    "volume": (2, 1, 3, 16, (5, 6, 7), (3, 2, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1)),
    "groups": (2, 3, 4, 18, (8, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "depthwise": (2, 21, 1, 1, (14, 33), (3, 3), (1, 1), (1, 1), (1, 1)),
    "depthwise, strided": (2, 5, 1, 2, (15, 40), (3, 3), (2, 2), (1, 1), (1, 1)),
    "small groups, dilated": (2, 3, 4, 3, (10, 24), (2, 5), (1, 3), (1, 4), (2, 2)),
    "to one channel": (2, 1, 17, 1, (9, 18), (3, 3), (1, 1), (1, 1), (1, 1)),
    "depthwise volume": (2, 4, 1, 1, (5, 6, 17), (3, 3, 3), (2, 1, 2), (1, 1, 1), (1, 1, 1)),
}


def graph_of(case, dtype=dtypes.float32):
    """A convolution, its gradient in the input, and that in the weight, of inputs x, weight, gradient of the output."""
    n, groups, c, o, lengths, kernel, stride, padding, dilation = case
    b = Builder()
    x = b.input(TensorType((n, groups * c, *lengths), dtype))
    weight = b.input(TensorType((groups * o, c, *kernel), dtype))
    op = Conv(stride, padding, dilation, groups)
    (y_type,) = op.infer(x.type, weight.type)
    y = b.input(y_type)
    numbers = stride, padding, dilation, groups
    results = (
        b(op, x, weight),
        b(ConvInputGrad(lengths, *numbers), y, weight),
        b(ConvWeightGrad(kernel, *numbers), x, y),
    )
    return b.build(list(results))


def arrays_of(graph, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(v.shape).astype(v.type.dtype.np) for v in graph.inputs]


def check(graph, options, wide, tolerance):
    run = compile_graph(graph, options=options)
    inputs = arrays_of(graph)
    for got, want in zip(run(inputs), interpreter.run(wide, [x.astype(np.float64) for x in inputs]), strict=True):
        assert (got.shape, got.dtype) == (want.shape, inputs[0].dtype)
        scale = np.abs(want).max(initial=1e-300)
        assert np.abs(got.astype(np.float64) - want).max(initial=0.0) <= tolerance * scale
    return run


@pytest.mark.parametrize("case", CASES)
def test_convolutions_and_their_gradients(case):
    graph = graph_of(CASES[case])
    run = check(graph, CompileOptions(), graph_of(CASES[case], dtypes.float64), TOLERANCE["float32"])
    steps = [step for step in run.steps if isinstance(step, TileStep)]
    assert sum(not isinstance(step.node.op, PackedWeight) for step in steps) == 3


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("case", ["strided", "small groups, dilated"])
def test_other_types(case, dtype):
    wide = graph_of(CASES[case], dtypes.float64)
    check(graph_of(CASES[case], getattr(dtypes, dtype)), CompileOptions(), wide, TOLERANCE[dtype])


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("case", ["strided", "depthwise, strided"])
def test_any_width_of_registers(case, bits):
    wide = graph_of(CASES[case], dtypes.float64)
    check(graph_of(CASES[case]), CompileOptions(vector_bits=bits), wide, TOLERANCE["float32"])


@pytest.mark.parametrize("empty", [(0, 1, 3, 16), (2, 1, 0, 16), (2, 1, 3, 0)], ids=["batch", "input", "output"])
def test_nothing_to_sum_up(empty):
    case = (*empty, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1))
    check(graph_of(case), CompileOptions(), graph_of(case, dtypes.float64), TOLERANCE["float32"])


def test_same_bits_for_any_number_of_threads():
    before = get_num_threads()
    graph = graph_of((9, 1, 16, 32, (24, 24), (3, 3), (1, 1), (1, 1), (1, 1)))
    run, inputs = compile_graph(graph), arrays_of(graph)
    try:
        found = []
        for count in (1, 2, 5):
            set_num_threads(count)
            found.append([y.tobytes() for y in run(inputs)])
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_sizes_compile_nothing():
    compile_graph(graph_of((2, 1, 16, 16, (16, 16), (3, 3), (1, 1), (1, 1), (1, 1))))
    run = compile_graph(graph_of((7, 1, 24, 16, (30, 16), (5, 3), (1, 1), (2, 1), (1, 1))))
    tiles = {
        x.kernel for step, launches in zip(run.steps, run.plan.launches) if isinstance(step, TileStep) for x in launches
    }
    assert tiles and run.stats.compiled == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_it_is(value):
    """Neither padding nor lanes that idle spread it."""
    for name in ("like most", "depthwise"):
        graph = graph_of(CASES[name])
        inputs = arrays_of(graph)
        inputs[0][0, 0, 3, 4] = value
        with np.errstate(invalid="ignore"):
            wants = interpreter.run(graph, inputs)
        for got, want in zip(compile_graph(graph)(inputs), wants, strict=True):
            np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


def test_a_kernel_that_needs_too_much_memory_is_left_to_matrix_products():
    case = (1, 1, 1, 16, (600_000,), (2,), (1,), (0,), (599_990,))
    run = check(graph_of(case), CompileOptions(), graph_of(case, dtypes.float64), TOLERANCE["float32"])
    assert all(isinstance(step.node.op, TileProduct) for step in run.steps if isinstance(step, TileStep))


def test_integers_and_complex_numbers_are_left_to_matrix_products():
    target = TileTarget(256, 16)
    for dtype in (dtypes.int64, dtypes.complex64):
        graph = Decompose(backend=tile_rules(target)).apply(graph_of(CASES["like most"], dtype))
        assert not any(isinstance(node.op, TileOp) for node in graph.nodes)


@pytest.mark.parametrize(
    "case", ["strided", "dilated", "volume", "groups", "depthwise, strided", "small groups, dilated"]
)
def test_tile_ops_mean_the_same(case):
    """Each op's reference, from the tile rules' graph."""
    graph = graph_of(CASES[case], dtypes.float64)
    tiled = Decompose(backend=tile_rules(TileTarget(256, 16))).apply(graph)
    assert sum(isinstance(node.op, TileOp) and not isinstance(node.op, PackedWeight) for node in tiled.nodes) == 3
    inputs = arrays_of(graph)
    for got, want in zip(interpreter.run(tiled, inputs), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("transposed", [False, True], ids=["direct", "transposed"])
def test_bias_and_relu_are_taken_in(dtype, transposed):
    """With the bits of separate kernels."""
    dtype = getattr(dtypes, dtype)
    b = Builder()
    x = b.input(TensorType((2, 5, 9, 10), dtype))
    weight = b.input(TensorType((5, 19, 3, 3) if transposed else (19, 5, 3, 3), dtype))
    bias = b.input(TensorType((19,), dtype))
    op = ConvInputGrad((9, 10), (1, 1), (1, 1), (1, 1)) if transposed else Conv((1, 1), (1, 1), (1, 1))
    y = b(op, x, weight)
    y = b(Add(), y, b(BroadcastTo(y.shape), b(Reshape((19, 1, 1)), bias)))
    graph = b.build([b(Relu(), y)])
    run, inputs = compile_graph(graph), arrays_of(graph)
    assert isinstance(run.steps[-1], TileStep)
    (got,), (want,) = run(inputs), compile_graph(graph, options=CompileOptions(fuse=False))(inputs)
    assert_same_bits(got, want)
    assert not got.all() and got.any()


def test_what_is_needed_elsewhere_is_not_taken_in():
    b = Builder()
    x, weight = b.input(TensorType((2, 5, 9, 10), dtypes.float32)), b.input(TensorType((16, 5, 3, 3), dtypes.float32))
    y = b(Conv((1, 1), (1, 1), (1, 1)), x, weight)
    numbers = b.input(TensorType((), dtypes.float32))
    spread = b(BroadcastTo((4,)), numbers)  # an addition far from any convolution
    graph = b.build([b(Relu(), y), b(Relu(), b(Relu(), y)), y, b(Add(), spread, spread)])
    inputs = arrays_of(graph)
    for got, want in zip(compile_graph(graph)(inputs), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_sums_without_channels_are_left_alone():
    """A number added to a vector, beside a convolution, as in an optimizer's step."""
    b = Builder()
    x, weight = b.input(TensorType((2, 5, 9, 10), dtypes.float32)), b.input(TensorType((16, 5, 3, 3), dtypes.float32))
    vector, number = b.input(TensorType((7,), dtypes.float32)), b.input(TensorType((), dtypes.float32))
    graph = b.build([b(Conv((1, 1), (1, 1), (1, 1)), x, weight), b(Add(), vector, b(BroadcastTo((7,)), number))])
    inputs = arrays_of(graph)
    for got, want in zip(compile_graph(graph)(inputs), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_phases_cover_each_pair_once():
    for length, kernel, stride, padding, dilation in itertools.product(
        (1, 4, 9), (1, 2, 5), (1, 2, 3), (0, 1, 3), (1, 2, 3)
    ):
        outputs = (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        found = {
            (p.offset + m * stride, kernel - 1 - (p.first + t * p.step), m - p.low + t * p.dilation)
            for p in phases(length, kernel, stride, padding, dilation)
            for m in range(p.length)
            for t in range(p.taps)
        }
        want = {
            (q * stride + k * dilation - padding, k, q)
            for q in range(outputs)
            for k in range(kernel)
            if 0 <= q * stride + k * dilation - padding < length
        }
        assert want == {entry for entry in found if 0 <= entry[2] < outputs}


@pytest.mark.parametrize("bits, registers", [(128, 32), (256, 16), (512, 32)])
def test_tiles_fit_the_registers(bits, registers):
    tile = conv_tile(TileTarget(bits, registers))
    assert tile.rows * tile.vectors + tile.vectors < registers


def test_blocks_fit_the_cache():
    work = Work(100, 200, 3, 4, 10**9, lambda rows, columns: 4 * 64 * (rows + 2) * (columns + 2))
    cut = blocks(work)
    assert work.scratch(cut.rows, cut.columns) <= SCRATCH_BYTES
    assert 3 * math.ceil(100 / cut.rows) * math.ceil(200 / cut.columns) * math.ceil(4 / cut.chunk) >= 16
