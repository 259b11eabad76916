"""Matrix products by tile kernels: one kernel for all sizes."""

import numpy as np
import pytest

from jitgrad.codegen import compile_graph, set_num_threads
from jitgrad.codegen.cache import COUNTERS
from jitgrad.codegen.conv.factor_ops import FactorProduct, PackedFactor, TileProduct, factor_tile
from jitgrad.codegen.conv.product_launch import Shape, product_cut
from jitgrad.codegen.conv.target import TileTarget
from jitgrad.codegen.cpu.blas import product_of
from jitgrad.codegen.cpu.threads import get_num_threads
from jitgrad.codegen.fuse import ControlStep, TileStep
from jitgrad.codegen.loops.tile import PACKED, STRAIGHT, TURNED
from jitgrad.codegen.options import CompileOptions
from jitgrad.codegen.schedule import tile_grain
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import ShapeError
from jitgrad.ir.ops.linalg import MatMul, transposed
from jitgrad.ir.ops.math import Tanh
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.slicing import Slice
from jitgrad.ir.parser import parse
from jitgrad.ir.types import TensorType


def product(rows, inner, columns, turned=(False, False), dtype=dtypes.float32):
    """The graph of a product, and its factors."""
    rng = np.random.default_rng(rows + inner + columns)
    shapes = [(inner, rows) if turned[0] else (rows, inner), (columns, inner) if turned[1] else (inner, columns)]
    arrays = [rng.normal(size=s).astype(dtype.np) for s in shapes]
    b = Builder()
    values = [b.input(TensorType(s, dtype)) for s in shapes]
    values = [transposed(b, v) if t else v for v, t in zip(values, turned, strict=True)]
    return b.build([b(MatMul(), *values)]), arrays


def expected(arrays, turned):
    x, w = (a.astype(np.float64).T if t else a.astype(np.float64) for a, t in zip(arrays, turned, strict=True))
    return x @ w


TURNS = [(False, False), (True, False), (False, True), (True, True)]
SIZES = [
    (2, 3, 2), (1, 300, 7), (5, 300, 1), (8, 1, 48), (7, 600, 50), (64, 32, 16), (67, 33, 19), (100, 200, 65),
    (129, 5, 257), (65, 300, 33), (71, 40, 100), (600, 70, 33), (203, 700, 300), (257, 513, 97), (900, 300, 70),
    (1, 900, 1300), (1300, 900, 1), (0, 4, 5), (5, 0, 4), (4, 5, 0),
]  # fmt: skip


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.parametrize("sizes", SIZES)
def test_values(sizes, turned):
    for dtype, rtol in ((dtypes.float32, 1e-5), (dtypes.float64, 1e-13)):  # sums of up to 300 products
        graph, arrays = product(*sizes, turned, dtype)
        compiled = compile_graph(graph)
        assert any(isinstance(s, TileStep) for s in compiled.steps)
        want = expected(arrays, turned)
        for _ in range(2):
            np.testing.assert_allclose(compiled(arrays)[0], want, rtol=rtol, atol=rtol * np.abs(want).max(initial=1))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_one_kernel_serves_all_sizes(dtype):
    compile_graph(product(2, 3, 4, dtype=dtype)[0])
    before = COUNTERS.compiled
    for turned in TURNS:
        for sizes in SIZES:
            compile_graph(product(*sizes, turned, dtype)[0])
    assert COUNTERS.compiled == before


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("turned", TURNS)
def test_registers_of_other_machines(bits, turned):
    for sizes in ((70, 40, 37), (900, 90, 61)):
        graph, arrays = product(*sizes, turned)
        compiled = compile_graph(graph, options=CompileOptions(vector_bits=bits))
        np.testing.assert_allclose(compiled(arrays)[0], expected(arrays, turned), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.parametrize("sizes", [(300, 128, 300), (40, 600, 400), (900, 40, 100), (1, 900, 1300)])
def test_the_same_bits_for_any_number_of_threads(sizes, turned):
    graph, arrays = product(*sizes, turned)
    compiled, before = compile_graph(graph), get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            set_num_threads(count)
            found.append(compiled(arrays)[0].copy())
    finally:
        set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_what_is_behind_the_factors_is_not_read():
    """NaN around the memory of the factors, which whole vectors at the end of a row or column would reach."""
    for turned in TURNS:
        for sizes in ((70, 35, 19), (900, 35, 50), (3, 20, 5)):
            graph, arrays = product(*sizes, turned)
            framed = [np.full(a.size + 256, np.nan, np.float32) for a in arrays]
            for frame, a in zip(framed, arrays, strict=True):
                frame[128 : 128 + a.size] = a.ravel()
            views = [f[128 : 128 + a.size].reshape(a.shape) for f, a in zip(framed, arrays, strict=True)]
            want = expected(arrays, turned)
            np.testing.assert_allclose(compile_graph(graph)(views)[0], want, rtol=1e-5, atol=1e-4)


def test_a_slice_is_not_copied():
    b = Builder()
    x, w = b.input(TensorType((80, 100), dtypes.float32)), b.input(TensorType((50, 40), dtypes.float32))
    part = b(Slice((0, 50), (80, 50), (1, 1)), x)
    compiled = compile_graph(b.build([b(MatMul(), part, w)]))
    assert not any(isinstance(s, TileStep) for s in compiled.steps)
    part = b(Slice((0, 10), (50, 20), (1, 1)), w)  # a factor to be packed may be anything
    compiled = compile_graph(b.build([b(MatMul(), b(Slice((0, 0), (80, 50), (1, 1)), x), part)]))
    arrays = [np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((80, 100), (50, 40))]
    np.testing.assert_allclose(compiled(arrays)[0], arrays[0][:, :50] @ arrays[1][:, 10:30], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("column", ["left", "right"])
def test_a_view_of_what_a_kernel_computes_times_one_column(column):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 5, 20)).astype("f4"), rng.normal(size=(5, 1)).astype("f4")
    b = Builder()
    values = [b.input(TensorType(a.shape, dtypes.float32)) for a in (x, w)]
    rows = b(Reshape((20, 5)), b(Permute((0, 2, 1)), b(Tanh(), values[0])))
    operands = (rows, values[1]) if column == "right" else (transposed(b, values[1]), transposed(b, rows))
    (got,) = compile_graph(b.build([b(MatMul(), *operands)]))([x, w])
    np.testing.assert_allclose(got.ravel(), (np.tanh(x[0]).T @ w).ravel(), rtol=1e-5, atol=1e-6)


def test_one_factor_is_packed_once():
    b = Builder()
    x, y = (b.input(TensorType((1000, 50), dtypes.float32)) for _ in range(2))
    w = b.input(TensorType((50, 40), dtypes.float32))
    compiled = compile_graph(b.build([b(MatMul(), x, w), b(MatMul(), y, w)]))
    assert len(compiled.steps) == 3


LOOP = """graph(%h: f32[{rows},256], %xs: f32[3,{rows},1024], %w: f32[1024,256]) -> (f32[{rows},256]) {{
  %last = scan[body=graph(%h: f32[{rows},256], %x: f32[{rows},1024], %w: f32[1024,256]) -> (f32[{rows},256]) {{
    %t = permute[perm=(1, 0)](%w) : f32[256,1024]
    %m = matmul(%h, %t) : f32[{rows},1024]
    %s = add(%m, %x) : f32[{rows},1024]
    %n = slice[starts=(0, 512), sizes=({rows}, 256), steps=(1, 1)](%s) : f32[{rows},256]
    return %n
  }}, carries=1, sequences=1, reverse=false](%h, %xs, %w) : f32[{rows},256]
  return %last
}}"""


def test_a_row_in_a_loop_is_multiplied_by_the_matrix_where_it_lies():
    """By BLAS, whose pieces threads share; several rows by tiles, of a matrix that is packed in front of the loop."""
    rng = np.random.default_rng(0)
    for rows in (1, 4):
        compiled = compile_graph(parse(LOOP.format(rows=rows)))
        plan = compiled.plan
        (loop,) = [s for s in plan.steps if isinstance(s, ControlStep)]
        (inner,) = plan.inner[loop].plans
        (product,) = [s for s in inner.steps if isinstance(s, TileStep)]
        assert isinstance(product.node.op, TileProduct if rows == 1 else FactorProduct)
        if rows == 1:
            assert len(product_of(product.node).tiles) == 8 and tile_grain(product_of(product.node)) == 1
        arrays = [rng.uniform(-0.1, 0.1, s).astype("f4") for s in ((rows, 256), (3, rows, 1024), (1024, 256))]
        want = arrays[0].astype("f8")
        for x in arrays[1]:
            want = (want @ arrays[2].T + x)[:, 512:768]
        found = [compiled(arrays)[0].copy()]
        before = get_num_threads()
        try:
            for count in (1, 3):
                set_num_threads(count)
                found.append(compiled(arrays)[0].copy())
        finally:
            set_num_threads(before)
        np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-5)
        assert all(np.array_equal(found[0], f) for f in found)


def test_references_and_rules():
    w = np.arange(15.0).reshape(5, 3)
    packed = PackedFactor(2).reference(w)
    assert packed.shape == (2, 5, 2) and packed[1, :, 1].tolist() == [0] * 5
    np.testing.assert_array_equal(PackedFactor(2, True).reference(w.T), packed)
    x = np.ones((4, 5))
    np.testing.assert_array_equal(FactorProduct(3).reference(x, packed), x @ w)
    np.testing.assert_array_equal(FactorProduct(3, True).reference(x.T, packed), x @ w)
    for turned, factors in {(False, False): (x, w), (True, False): (x.T, w), (False, True): (x, w.T)}.items():
        np.testing.assert_array_equal(TileProduct(turned).reference(*factors), x @ w)
        assert TileProduct(turned).infer(*[TensorType(f.shape, dtypes.float64) for f in factors])[0].shape == (4, 3)
    with pytest.raises(ShapeError, match="do not fit"):
        TileProduct((True, True)).infer(*[TensorType(f.shape, dtypes.float64) for f in (x, w)])
    types = [TensorType(s, dtypes.float64) for s in ((4, 5), (2, 5, 2))]
    assert FactorProduct(3).infer(*types)[0].shape == (4, 3)
    with pytest.raises(ShapeError, match="do not fit 5 columns"):
        FactorProduct(5).infer(*types)
    with pytest.raises(ShapeError, match="a matrix is needed"):
        PackedFactor(2).infer(types[1])


def test_tasks_of_a_product_fit_a_stack():
    target = TileTarget(512, 32)
    tile = factor_tile(target)
    for second in (STRAIGHT, TURNED, PACKED):
        for turned in (False, True):
            for rows, inner, columns in (
                (64, 64, 64),
                (128, 784, 512),
                (512, 3, 10000),
                (4000, 4000, 65),
                (65, 5000, 300),
            ):
                for dtype in (dtypes.float32, dtypes.float64):
                    cut = product_cut(Shape(rows, inner, columns, turned, second), dtype, target)
                    packed = (-(-rows // tile.rows) // cut.chunks + 1) * tile.rows * cut.depth if turned else 0
                    panel = cut.depth * tile.vectors * target.lanes(dtype)
                    assert (packed + panel) * dtype.itemsize <= 384 << 10
                    assert cut.depth % target.lanes(dtype) == 0 and cut.chunks >= 1 and cut.groups >= 1


def test_tiles_fit_the_registers():
    for target in (TileTarget(128, 16), TileTarget(128, 32), TileTarget(256, 16), TileTarget(512, 32)):
        tile = factor_tile(target)
        assert tile.rows * tile.vectors + tile.vectors + 1 <= target.registers


def test_small_products_are_few_tasks():
    """Each task packs what it needs of the second factor: more tasks than balance threads pack in vain."""
    target = TileTarget(512, 32)
    for rows, inner, columns, turned in ((256, 256, 256, False), (128, 512, 512, False), (512, 128, 512, True)):
        cut = product_cut(Shape(rows, inner, columns, turned, STRAIGHT), dtypes.float32, target)
        assert 8 <= cut.chunks * cut.groups < 16


def test_tasks_of_a_product_come_out_even():
    """512 columns are ten blocks and a narrow one: shared out by blocks alone, one of two threads would wait."""
    target = TileTarget(512, 32)
    for second, turned in ((STRAIGHT, False), (TURNED, False), (PACKED, False), (STRAIGHT, True)):
        for sizes in ((128, 784, 512), (128, 512, 512), (512, 128, 784), (32, 1024, 256), (256, 300, 400)):
            rows, inner, columns = sizes
            cut = product_cut(Shape(rows, inner, columns, turned, second), dtypes.float32, target)
            width = 48 if second == PACKED else 16
            units = -(-columns // width)
            groups = [units * (k + 1) // cut.groups - units * k // cut.groups for k in range(cut.groups)]
            tasks = groups * cut.chunks
            first, last = (sum(tasks[: len(tasks) // 2]), sum(tasks[(len(tasks) + 1) // 2 :]))
            assert abs(first - last) <= 0.05 * sum(tasks), (sizes, second, cut)


@pytest.mark.parametrize("inner", [5, 300, 700])
def test_the_tile_that_packs_a_panel_has_the_bits_of_others(inner):
    """Rows of a product are the same, whichever tile they are in and whether it packs for those behind it."""
    graph, (x, w) = product(100, inner, 170)
    whole = compile_graph(graph)((x, w))[0]
    for start, stop in ((0, 8), (8, 40), (3, 99), (95, 100)):
        part, _ = product(stop - start, inner, 170)
        np.testing.assert_array_equal(compile_graph(part)((x[start:stop], w))[0], whole[start:stop])
