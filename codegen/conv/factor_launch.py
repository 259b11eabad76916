"""From a product by a packed factor to its launch."""

from __future__ import annotations

from jitgrad.ir.graph import Node

from ..lower.kernel_builder import Launch
from .factor_ops import FactorProduct, factor_tile
from .kernel import FACTOR, TileKernel
from .target import TileTarget


def factor_launch(node: Node, op: FactorProduct, target: TileTarget) -> Launch:
    """One launch, whose tasks are blocks of columns. Its numbers: rows, inner, columns."""
    x, w = (v.type for v in node.operands)
    tile, lanes = factor_tile(x.shape[0], target), target.lanes(x.dtype)
    kernel = TileKernel(FACTOR, x.dtype, tile.rows, tile.vectors, lanes, 1)
    return Launch(
        kernel, (*node.operands, node.result), (x.shape[0], x.shape[1], op.columns), (), w.shape[0] if x.numel else 0,
        node.result.type.numel * x.shape[1], f"product in tiles of {tile.rows} by {tile.vectors * lanes}",
    )  # fmt: skip
