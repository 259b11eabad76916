"""Matrix products of loops whose second factor is the same in every step: it is packed once, in front of the loop.

    x:      [rows, inner]
    packed: [blocks, inner, columns of a block]      filled up with zeros
    result: [rows, columns]

BLAS packs both factors at each call, which for few rows takes as long as a good part of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import scalar
from jitgrad.ir.builder import Builder
from jitgrad.ir.control import Scan, WhileLoop
from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import IndexMap, Load, op
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.passes.loops import same_in_each_step
from jitgrad.ir.rewrite import Rules, map_sub_graphs, rewrite
from jitgrad.ir.scalar import Expr
from jitgrad.ir.types import TensorType

from .ops import TileOp
from .schedule import TileShape
from .target import TileTarget

Array = np.ndarray[Any, Any]
_MOST_ROWS = 256  # from here on packing costs little beside the product, and BLAS has the better blocks
_LEAST_WORK = 1 << 15  # multiplications


@op
class PackedFactor(IndexMap):
    """A matrix [inner, columns] as [blocks, inner, `block`], zeros behind the last column."""

    block: int
    name = "packed_factor"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """One matrix."""
        (w,) = operands
        if w.ndim != 2 or self.block < 1:
            raise ShapeError(f"packed_factor: a matrix is needed{operand_lines(operands)}")
        return (w.with_shape((-(-w.shape[1] // self.block), w.shape[0], self.block)),)

    def reference(self, *operands: Array) -> Array:
        """Padded, cut and turned."""
        (w,) = operands
        blocks = -(-w.shape[1] // self.block)
        padded = np.pad(w, ((0, 0), (0, blocks * self.block - w.shape[1])))
        return np.ascontiguousarray(padded.reshape(w.shape[0], blocks, self.block).swapaxes(0, 1))

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element, or zero behind the last column."""
        block, row, place = index
        (w,) = operands
        column = block * scalar.size(self.block) + place
        return w((row, column), column < scalar.size(w.type.shape[1]))


@op
class FactorProduct(TileOp):
    """The product of a matrix and a packed one, which has `columns` columns."""

    columns: int
    name = "factor_product"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Factors of one dtype that fit."""
        x, w = operands
        fits = x.ndim == 2 and w.ndim == 3 and x.shape[1] == w.shape[1] and x.dtype is w.dtype
        if not fits or not (w.shape[0] - 1) * w.shape[2] < self.columns <= w.shape[0] * w.shape[2]:
            raise ShapeError(
                f"factor_product: operands that do not fit {self.columns} columns{operand_lines(operands)}"
            )
        return (x.with_shape((x.shape[0], self.columns)),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.matmul`."""
        x, packed = operands
        w = packed.swapaxes(0, 1).reshape(packed.shape[1], -1)[:, : self.columns]
        return np.matmul(x, w)


def factor_tile(rows: int, target: TileTarget) -> TileShape:
    """The register tile for products of `rows` rows: at least eight sums at a time, as far as registers go."""
    tall = min(rows, 8)
    vectors = min(8, max(2, -(-8 // max(1, tall))))
    while tall > 1 and tall * vectors + vectors + 1 > target.registers:
        tall -= 1
    return TileShape(max(1, tall), vectors)


def pack_factors(graph: Graph, target: TileTarget) -> Graph:
    """`graph` whose loops multiply by packed factors, where a factor is the same in each step."""
    graph = map_sub_graphs(graph, lambda g: pack_factors(g, target))
    rules = Rules()
    rules(Scan, WhileLoop)(lambda b, node: _packed(b, node, target))
    return rewrite(graph, rules)


def _packed(b: Builder, node: Node, target: TileTarget) -> Sequence[Value] | None:
    op = node.op
    assert isinstance(op, Scan | WhileLoop)
    same = same_in_each_step(op.body, op)
    inner = Builder()
    env: dict[Value, Value] = {}
    packed: dict[tuple[Value, int], Value] = {}
    for n in op.body.nodes:
        if not _is_worth_it(n, same):
            inner.copy(n, env)
            continue
        inner.location, inner.scope = n.location, n.scope
        x, w = (env.get(v, v) for v in n.operands)
        tile = factor_tile(x.shape[0], target)
        key = n.operands[1], tile.vectors * target.lanes(x.type.dtype)
        if key not in packed:
            packed[key] = inner(PackedFactor(key[1]), w)
        env[n.result] = inner(FactorProduct(w.shape[1]), x, packed[key])
    if not packed:
        return None
    body = Graph(op.body.inputs, inner.nodes, [env.get(v, v) for v in op.body.outputs])
    made = Scan(body, op.carries, op.sequences, op.reverse) if isinstance(op, Scan) else None
    return b.emit(made or WhileLoop(op.condition, body, op.carries), *node.operands)  # type: ignore[union-attr]


def _is_worth_it(node: Node, same: set[Value]) -> bool:
    """Whether a node is a product of few rows by a matrix that is the same in each step."""
    if not isinstance(node.op, MatMul) or node.result.ndim != 2 or node.operands[1] not in same:
        return False
    x, w = (v.type for v in node.operands)
    rows, inner = x.shape
    return (
        x.dtype.name in ("float32", "float64") and node.operands[0] not in same
        and 1 <= rows <= _MOST_ROWS and rows * inner * w.shape[1] >= _LEAST_WORK
    )  # fmt: skip


__all__ = ["FactorProduct", "PackedFactor", "factor_tile", "pack_factors"]
