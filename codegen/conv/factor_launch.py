"""From products by packed factors, and the packing of transposed ones, to their launches."""

from __future__ import annotations

from typing import Final

from jitgrad.ir.graph import Node

from ..loops.tile import FACTOR, TURNED, TileKernel
from ..lower.kernel_builder import Launch
from .factor_ops import FactorProduct, TurnedFactor, factor_tile
from .target import TileTarget

_CHUNK_BYTES: Final = 1 << 19  # of the first factor, beside a block of the packed one in a core's second cache
_LEAST_CHUNK: Final = 32  # rows
_LEAST_TASKS: Final = 64


def factor_launch(node: Node, op: FactorProduct, target: TileTarget) -> Launch:
    """One launch, whose tasks are a chunk of rows by a block of columns; numbers as in `tile_factor`."""
    x, w = (v.type for v in node.operands)
    (rows, inner), lanes = op.sides(x), target.lanes(x.dtype)
    tile = factor_tile(max(1, rows), op.columns, lanes, target)
    kernel = TileKernel(FACTOR, x.dtype, tile.rows, w.shape[2] // lanes, lanes, 1, turned=(op.swapped, False))
    chunks, chunk = _chunks(rows, inner * x.dtype.itemsize, w.shape[0], tile.rows)
    by_row, by_inner = (1, rows) if op.swapped else (inner, 1)
    slots = rows, inner, op.columns, by_row, by_inner, w.shape[0], chunks, chunk
    return Launch(
        kernel, (*node.operands, node.result), slots, (), chunks * w.shape[0] if rows else 0,
        node.result.type.numel * inner, f"product in tiles of {tile.rows} by {w.shape[2]}",
    )  # fmt: skip


def _chunks(rows: int, row_bytes: int, blocks: int, tile: int) -> tuple[int, int]:
    """How many chunks of rows, and the rows of each but the last: with as many as a core's second cache holds well.

    Each chunk goes through all of the packed factor, which comes from further away.
    """
    held = max(_LEAST_CHUNK, _CHUNK_BYTES // max(1, row_bytes))
    chunks = max(-(-rows // held), min(rows // _LEAST_CHUNK, _LEAST_TASKS // blocks), 1)
    return chunks, max(tile, rows // chunks // tile * tile)


def turned_launch(node: Node, op: TurnedFactor, target: TileTarget) -> Launch:
    """One launch, whose tasks are blocks of columns."""
    w, packed = node.operands[0].type, node.result.type
    lanes = target.lanes(w.dtype)
    kernel = TileKernel(TURNED, w.dtype, 1, op.block // lanes, lanes, 1)
    slots = w.shape[1], w.shape[0]
    extent = packed.shape[0] if w.numel else 0
    return Launch(kernel, (node.operands[0], node.result), slots, (), extent, packed.numel, "a factor, transposed")
