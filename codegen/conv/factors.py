"""Which matrix products become tile ops, and which of their factors are packed in front of them."""

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
from jitgrad.ir.tracked import happens_to_be

from .factor_ops import FactorProduct, PackedFactor, TileProduct, factor_tile
from .target import TileTarget

_FEW_ROWS: Final = 800  # up to which tasks pack what they need of the second factor themselves


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
        """A product of matrices, of whatever sizes: one kernel serves them all."""
        x, w = node.operands
        if node.result.ndim != 2 or x.type.dtype not in (dtypes.float32, dtypes.float64):
            return None
        inner, swapped = _unswapped(x)
        source, turned = _unswapped(w)
        if not _is_in_memory(inner):
            return None  # a copy that BLAS does without
        if not self.in_loop and not _is_in_memory(source):
            return None
        if self.in_loop and _is_in_memory(source) and happens_to_be(x.shape[0], 1):
            return b(TileProduct((swapped, turned)), inner, source)  # of a row, as BLAS multiplies it
        if not self.in_loop and x.shape[0] <= _FEW_ROWS:
            return b(TileProduct((swapped, turned)), inner, source)
        source, turned = (source, turned) if _is_in_memory(source) else (w, False)
        block = factor_tile(self.target).vectors * self.target.lanes(x.type.dtype)
        return b(FactorProduct(w.shape[1], swapped), inner, b(PackedFactor(block, turned), source))


def _unswapped(v: Value) -> tuple[Value, bool]:
    """A matrix, or the one that it is the transpose of."""
    node = v.node
    if node is not None and isinstance(node.op, Permute) and node.op.perm == (1, 0):
        return node.operands[0], True
    return v, False


def _is_in_memory(v: Value) -> bool:
    """Whether a matrix lies in memory as it is, or does once it is computed."""
    return v.node is None or not isinstance(v.node.op, View) or isinstance(v.node.op, Reshape)
