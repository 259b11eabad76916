"""From products of matrices to their launches: how they are cut into tasks and blocks, by their shape alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from jitgrad.ir.graph import Node

from ..loops.tile import PRODUCT, TileKernel
from ..lower.kernel_builder import Launch
from .factor_ops import TileProduct, factor_tile
from .schedule import MIN_TASKS, TileShape
from .target import TileTarget

_PANEL_BYTES: Final = 32 << 10  # of the second factor, packed: most of a core's first cache
_CHUNK_BYTES: Final = 256 << 10  # of the first factor in a piece of a task: a part of the second cache
_PACKED_BYTES: Final = 128 << 10  # where it is packed
_FEW_BLOCKS: Final = 4  # of columns, for which packing the first factor is still cheap
_FEW_TILES: Final = 4


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows and blocks of columns in a task, and terms of the sums that are packed at a time."""

    rows: int
    blocks: int
    depth: int


def product_cut(op: TileProduct, rows: int, inner: int, columns: int, tile: TileShape, lanes: int, size: int) -> Cut:
    """How a product of elements of `size` bytes is cut.

    >>> product_cut(TileProduct((True, False)), 1024, 2048, 256, TileShape(8, 2), 16, 4)
    Cut(rows=128, blocks=4, depth=256)
    """
    width = tile.vectors * lanes
    pieces = math.ceil(inner / (_PANEL_BYTES // (width * size)))
    depth = math.ceil(inner / pieces / lanes) * lanes
    blocks = math.ceil(columns / width)
    most = _PACKED_BYTES if op.turned[0] else _CHUNK_BYTES
    chunks, group = math.ceil(rows * depth * size / most), blocks if op.turned[0] else 1
    while chunks * math.ceil(blocks / group) < MIN_TASKS and group > _FEW_BLOCKS:
        group = math.ceil(group / 2)
    while chunks * math.ceil(blocks / group) < MIN_TASKS and rows > chunks * tile.rows * _FEW_TILES:
        chunks += 1
    return Cut(math.ceil(rows / chunks / tile.rows) * tile.rows, group, depth)


def product_launch(node: Node, op: TileProduct, target: TileTarget) -> Launch:
    """One launch, whose tasks are a chunk of rows by some blocks of columns; numbers as in `tile_product`."""
    x, w = (v.type for v in node.operands)
    (rows, inner), (_, columns) = op.sides(x, 0), op.sides(w, 1)
    lanes = target.lanes(x.dtype)
    tile = factor_tile(rows, columns, lanes, target)
    cut = product_cut(op, rows, inner, columns, tile, lanes, x.dtype.itemsize)
    blocks, chunks = math.ceil(columns / (tile.vectors * lanes)), math.ceil(rows / cut.rows)
    groups = math.ceil(blocks / cut.blocks)
    kernel = TileKernel(PRODUCT, x.dtype, tile.rows, tile.vectors, lanes, 1, turned=op.turned)
    slots = rows, inner, columns, cut.rows, cut.blocks, groups, blocks, cut.depth
    return Launch(
        kernel, (*node.operands, node.result), slots, (), chunks * groups, rows * columns * inner,
        f"product in tiles of {tile.rows} by {tile.vectors * lanes}",
    )  # fmt: skip
