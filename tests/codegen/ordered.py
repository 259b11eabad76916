"""Gathers, scans and scatters that the tests of lowering and of the CUDA backend share."""

from collections.abc import Sequence

from codegen.formulas import Formula, f32

from jitgrad.ir import dtypes
from jitgrad.ir.ops.indexing import Gather, IndexAdd, IndexPut, IndexSelect, Scatter, ScatterAdd, TakeNd
from jitgrad.ir.ops.math import Exp
from jitgrad.ir.ops.scan import CumProd, CumSum, LinearScan
from jitgrad.ir.ops.scatter_extreme import ScatterExtreme
from jitgrad.ir.ops.scatter_product import ScatterProduct
from jitgrad.ir.types import TensorType


def i64(*shape: int) -> TensorType:
    """An int64 type; `arrays` gives numbers from 0 to 2 for it, so that places repeat."""
    return TensorType(shape, dtypes.int64)


def half(*shape: int) -> TensorType:
    """A float16 type."""
    return TensorType(shape, dtypes.float16)


def i8(*shape: int) -> TensorType:
    """An int8 type."""
    return TensorType(shape, dtypes.int8)


GATHERS: dict[str, tuple[Sequence[TensorType], Formula]] = {
    "gather": ([f32(6, 9), i64(4, 9)], lambda b, x, i: b(Exp(), b(Gather(0), x, i))),
    "gather rows": ([f32(6, 9), i64(6, 2)], lambda b, x, i: b(Gather(1), x, i)),
    "index select": ([f32(6, 9), i64(40)], lambda b, x, i: b(IndexSelect(0), x, i)),
    "take": ([f32(6, 9, 3), i64(40), i64(40)], lambda b, x, i, j: b(TakeNd((0, 1)), x, i, j)),
}
SCANS: dict[str, tuple[Sequence[TensorType], Formula]] = {
    "cumsum": ([f32(5, 40)], lambda b, x: b(CumSum(1, False), x)),
    "cumsum middle": ([f32(3, 20, 7)], lambda b, x: b(CumSum(1, True), b(Exp(), x))),
    "cumsum long": ([i64(4200)], lambda b, x: b(CumSum(0, True), x)),
    "cumsum chunks": ([i64(1100)], lambda b, x: b(CumSum(0, False), x)),
    "cumsum few columns": ([i8(1, 4200, 2)], lambda b, x: b(CumSum(1, False), x)),
    "cumsum half": ([half(5, 40)], lambda b, x: b(CumSum(1, False), x)),
    "cumprod": ([f32(5, 9)], lambda b, x: b(CumProd(0), x)),
    "linear scan": ([f32(5, 9)] * 2, lambda b, x, y: b(LinearScan(1, True), x, y)),
    "scan of nothing": ([f32(5, 0), f32(0, 5)], lambda b, x, y: (b(CumSum(1, False), x), b(CumSum(1, False), y))),
}
SCATTERS: dict[str, tuple[Sequence[TensorType], Formula]] = {
    "scatter add": ([f32(6, 9), i64(4, 9), f32(4, 9)], lambda b, x, i, y: b(ScatterAdd(0), x, i, y)),
    "scatter add rows": ([f32(6, 9), i64(6, 4), f32(6, 4)], lambda b, x, i, y: b(ScatterAdd(1), x, i, b(Exp(), y))),
    "scatter": ([f32(6, 9), i64(6, 40), f32(6, 40)], lambda b, x, i, y: b(Scatter(1), x, i, y)),
    "scatter amax": ([f32(6, 9), i64(6, 4), f32(6, 4)], lambda b, x, i, y: b(ScatterExtreme(1, True), x, i, y)),
    "scatter prod": ([f32(6, 9), i64(6, 4), f32(6, 4)], lambda b, x, i, y: b(ScatterProduct(1), x, i, y)),
    "index add": ([f32(50, 9), i64(400), f32(400, 9)], lambda b, x, i, y: b(IndexAdd(0), x, i, y)),
    "index add middle": ([f32(5, 9, 6), i64(40), f32(5, 40, 6)], lambda b, x, i, y: b(IndexAdd(1), x, i, y)),
    "index add half": ([half(6, 9), i64(40), half(40, 9)], lambda b, x, i, y: b(IndexAdd(0), x, i, y)),
    "histogram": ([i8(6), i64(200), i8(200)], lambda b, x, i, y: b(IndexAdd(0), x, i, y)),
    "index put add": (
        [f32(5, 9, 6), i64(7), i64(7), f32(7, 6)], lambda b, x, i, j, y: b(IndexPut((0, 1), True), x, i, j, y),
    ),
    "index put": (
        [f32(5, 9, 6), i64(7), i64(7), f32(7, 9)], lambda b, x, i, j, y: b(IndexPut((0, 2), False), x, i, j, y),
    ),
    "scatter of nothing": ([f32(5, 3), i64(0), f32(0, 3)], lambda b, x, i, y: b(IndexAdd(0), x, i, y)),
}  # fmt: skip
ORDERED = {**GATHERS, **SCANS, **SCATTERS}
