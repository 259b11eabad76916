"""Which matrix products become products by packed factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import View
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.rewrite import Rules, map_sub_graphs, rewrite
from jitgrad.ir.tracked import decided

from .factor_ops import FactorProduct, PackedFactor, TileProduct, TurnedFactor, factor_tile
from .target import TileTarget

_LEAST_ROWS: Final = 64  # outside of loops, where a factor is packed for one product
_FEW_ROWS: Final = 512  # up to which tasks pack the second factor themselves, as each part of it has few readers
_LEAST_WORK: Final = 1 << 15  # multiplications


def pack_factors(graph: Graph, target: TileTarget) -> Graph:
    """`graph` with tile kernels for products of matrices, also in its sub-graphs."""
    return _Packing(target, False).graph(graph)


@dataclass(frozen=True, slots=True)
class _Packing:
    target: TileTarget
    in_loop: bool

    def graph(self, graph: Graph) -> Graph:
        """A graph and its sub-graphs."""
        graph = map_sub_graphs(graph, _Packing(self.target, True).graph)
        rules = Rules()
        rules(MatMul)(self.product)
        return rewrite(graph, rules)

    def product(self, b: Builder, node: Node) -> Value | None:
        """A product of matrices."""
        x, w = node.operands
        if not self._is_worth_it(node):
            return None
        inner, swapped = _unswapped(x)
        if isinstance(inner.node.op if inner.node else None, View) and not _is_reshape(inner):
            return None  # a copy that BLAS does without
        source, turned = _unswapped(w)
        straight = source.node is None or not isinstance(source.node.op, View) or _is_reshape(source)
        if straight and not self.in_loop and (swapped or x.shape[0] <= _FEW_ROWS):
            return b(TileProduct((swapped, turned)), inner, source)
        lanes = self.target.lanes(x.type.dtype)
        block = decided(_vectors, x.shape[0], w.shape[1], lanes, self.target) * lanes
        packed = b(TurnedFactor(block), source) if turned and straight else b(PackedFactor(block), w)
        return b(FactorProduct(w.shape[1], swapped), inner, packed)

    def _is_worth_it(self, node: Node) -> bool:
        x, w = (v.type for v in node.operands)
        if node.result.ndim != 2 or x.dtype not in (dtypes.float32, dtypes.float64):
            return False
        rows, inner = x.shape
        least = 1 if self.in_loop else _LEAST_ROWS
        return rows >= least and rows * inner * w.shape[1] >= _LEAST_WORK and w.shape[1] >= self.target.lanes(x.dtype)


def _vectors(rows: int, columns: int, lanes: int, target: TileTarget) -> int:
    return factor_tile(rows, columns, lanes, target).vectors


def _unswapped(v: Value) -> tuple[Value, bool]:
    """A matrix, or the one that it is the transpose of."""
    node = v.node
    if node is not None and isinstance(node.op, Permute) and node.op.perm == (1, 0):
        return node.operands[0], True
    return v, False


def _is_reshape(v: Value) -> bool:
    return v.node is not None and isinstance(v.node.op, Reshape)
