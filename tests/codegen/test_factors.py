"""Matrix products by tile kernels over packed factors."""

import numpy as np
import pytest

from jitgrad.codegen import compile_graph, set_num_threads
from jitgrad.codegen.conv.factor_ops import FactorProduct, PackedFactor, TileProduct, TurnedFactor, factor_tile
from jitgrad.codegen.conv.product_launch import product_cut
from jitgrad.codegen.conv.schedule import TileShape
from jitgrad.codegen.conv.target import TileTarget
from jitgrad.codegen.cpu.threads import get_num_threads
from jitgrad.codegen.fuse import TileStep
from jitgrad.codegen.options import CompileOptions
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import ShapeError
from jitgrad.ir.ops.linalg import MatMul, transposed
from jitgrad.ir.ops.slicing import Slice
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


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "sizes",
    [
        (64, 32, 16),
        (67, 33, 19),
        (100, 200, 65),
        (129, 5, 257),
        (65, 300, 33),
        (71, 40, 100),
        (600, 70, 33),
        (203, 700, 300),
    ],
)
def test_values(sizes, turned):
    for dtype, rtol in ((dtypes.float32, 1e-5), (dtypes.float64, 1e-13)):  # sums of up to 300 products
        graph, arrays = product(*sizes, turned, dtype)
        compiled = compile_graph(graph)
        assert any(isinstance(s, TileStep) for s in compiled.steps)
        want = expected(arrays, turned)
        for _ in range(2):
            np.testing.assert_allclose(compiled(arrays)[0], want, rtol=rtol, atol=rtol * np.abs(want).max())


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_registers_of_other_machines(bits):
    graph, arrays = product(70, 40, 37, (True, True))
    compiled = compile_graph(graph, options=CompileOptions(vector_bits=bits))
    want = expected(arrays, (True, True))
    np.testing.assert_allclose(compiled(arrays)[0], want, rtol=1e-5, atol=1e-4)


def test_the_same_bits_for_any_number_of_threads():
    graph, arrays = product(300, 128, 300, (True, False))
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


@pytest.mark.parametrize("sizes", [(8, 64, 64), (64, 4, 8), (64, 64, 7), (0, 64, 64), (64, 0, 64)])
def test_what_is_too_small_is_left_to_blas(sizes):
    graph, arrays = product(*sizes)
    compiled = compile_graph(graph)
    assert not any(isinstance(s, TileStep) for s in compiled.steps)
    np.testing.assert_allclose(compiled(arrays)[0], expected(arrays, (False, False)), rtol=1e-5, atol=1e-5)


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


def test_one_factor_is_packed_once():
    b = Builder()
    x, y = (b.input(TensorType((600, 50), dtypes.float32)) for _ in range(2))
    w = b.input(TensorType((50, 40), dtypes.float32))
    compiled = compile_graph(b.build([b(MatMul(), x, w), b(MatMul(), y, w)]))
    assert len(compiled.steps) == 3


def test_references_and_rules():
    w = np.arange(15.0).reshape(5, 3)
    packed = PackedFactor(2).reference(w)
    assert packed.shape == (2, 5, 2) and packed[1, :, 1].tolist() == [0] * 5
    np.testing.assert_array_equal(TurnedFactor(2).reference(w.T), packed)
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


def test_tasks_of_a_product_are_many_and_fit_a_stack():
    for turned in (False, True):
        for rows, inner, columns in ((64, 64, 64), (128, 784, 512), (512, 3, 10000), (4000, 4000, 65), (65, 5000, 300)):
            for size, lanes in ((4, 16), (8, 8), (4, 4)):
                tile = TileShape(8, 2)
                cut = product_cut(TileProduct((turned, False)), rows, inner, columns, tile, lanes, size)
                packed = cut.rows * cut.depth if turned else 0
                assert (packed + cut.depth * 2 * lanes) * size <= 384 << 10
                assert cut.rows % tile.rows == 0 and cut.depth % lanes == 0 and cut.blocks >= 1


def test_tiles_fit_the_registers():
    for target in (TileTarget(128, 16), TileTarget(256, 16), TileTarget(512, 32)):
        for rows in (1, 2, 3, 5, 8, 100):
            for columns in (8, 10, 33, 65, 512):
                tile = factor_tile(rows, columns, target.lanes(dtypes.float32), target)
                assert 1 <= tile.rows <= min(rows, 8) and tile.vectors >= 1
                assert tile.rows * tile.vectors + tile.vectors + 1 <= target.registers or tile.rows < 4
