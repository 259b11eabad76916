"""From products of matrices to their launches: how they are cut into tasks and blocks, by their shape alone."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Final

from jitgrad.ir.dtypes import DType
from jitgrad.ir.graph import Node

from ..loops.tile import PACKED, PACKS, PRODUCT, STRAIGHT, TURNED, TileKernel
from ..lower.kernel_builder import Launch
from .factor_ops import FactorProduct, PackedFactor, TileProduct, factor_tile
from .schedule import TileShape
from .target import TileTarget

_TERMS: Final = 512  # of a piece of the sums: results are read and written once for each, and panels come near in time
_CHUNK_ROWS: Final = 256  # of the first factor in a task: a piece of them is a part of the second cache
_PACKED_BYTES: Final = 256 << 10  # of the first factor, packed by a task
_RESULT_BYTES: Final = 512 << 10  # of a task's part of the result, which stays in the second cache from piece to piece
_PACKING: Final = {STRAIGHT: 2.0, TURNED: 8.0, PACKED: 0.2}  # cycles per register of a factor, or for having it near
_NEAR: Final = 0.7  # cycles per register of the first factor, which each group of columns brings near anew
_TURNING: Final = 8.0  # cycles per register of the first factor
_NARROW: Final = 1.15  # the time of a tile of one register, beside that of each register of a wide one
_TASK_CYCLES: Final = 1500.0  # to take a task, and begin it
_SERIAL_CYCLES: Final = 30_000  # of sums that one thread does alone
_THREADS: Final = {2: 4 / 7, 4: 2 / 7, 8: 1 / 7}  # among which tasks should come out even, and how much that counts
_PACKED_AT_ONCE: Final = 1 << 14  # elements


@dataclass(frozen=True, slots=True)
class Shape:
    """A product of [rows, inner], which is `turned` or not, and [inner, columns], which lies as `second` says."""

    rows: int
    inner: int
    columns: int
    turned: bool
    second: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Into how many chunks rows are cut, and blocks of columns into groups; terms of a piece of the sums."""

    chunks: int
    groups: int
    depth: int


@functools.lru_cache(maxsize=1024)
def product_cut(p: Shape, dtype: DType, target: TileTarget) -> Cut:
    """How a product is cut: so that packing, the taking of tasks, and waiting for the last ones cost least.

    >>> from jitgrad.ir import dtypes
    >>> product_cut(Shape(1024, 2048, 256, True, PACKED), dtypes.float32, TileTarget(512, 32))
    Cut(chunks=32, groups=1, depth=512)
    """
    tile, lanes = factor_tile(target), target.lanes(dtype)
    pieces = max(1, math.ceil(p.inner / _TERMS))
    depth = max(1, math.ceil(p.inner / pieces / lanes)) * lanes
    blocks, tiles = max(1, math.ceil(p.columns / (tile.vectors * lanes))), max(1, math.ceil(p.rows / tile.rows))
    chunks = max(1, math.ceil(p.rows / _CHUNK_ROWS))
    if p.turned:
        chunks = max(1, math.ceil(tiles * tile.rows * depth * dtype.itemsize / _PACKED_BYTES))
    cuts = [Cut(c, g, depth) for c in _counts(chunks, tiles) for g in _counts(1, blocks)]
    most = _RESULT_BYTES // dtype.itemsize
    near = [cut for cut in cuts if math.ceil(p.rows / cut.chunks) * math.ceil(p.columns / cut.groups) <= most]
    return min(near if pieces > 1 and near else cuts, key=lambda cut: _cost(cut, p, tile, lanes))


def _counts(least: int, most: int) -> list[int]:
    """Numbers of parts to try: the least, the next power of two, its double and so on, and the most."""
    doubled = 1 << (least - 1).bit_length()
    found = {least, most}
    while doubled < most:
        found.add(max(least, doubled))
        doubled *= 2
    return sorted(found)


def _cost(cut: Cut, p: Shape, tile: TileShape, lanes: int) -> float:
    """Cycles of all cores, roughly, beside those of the sums themselves."""
    registers, tiles = math.ceil(p.columns / lanes), math.ceil(p.rows / tile.rows)
    unit = tile.vectors if p.second == PACKED else 1
    wide, narrow = divmod(min(registers, math.ceil(registers / unit / cut.groups) * unit), tile.vectors)
    task = math.ceil(tiles / cut.chunks) * tile.rows * (wide * tile.vectors + narrow * _NARROW)
    tasks = cut.chunks * cut.groups
    idle = sum(math.ceil(tasks / t) * t * task * weight for t, weight in _THREADS.items()) - p.rows * registers
    packing = cut.chunks * registers * _PACKING[p.second]
    packing += cut.groups * p.rows / lanes * (_TURNING if p.turned else _NEAR)
    if p.inner * p.rows * registers < _SERIAL_CYCLES:
        idle = task = 0.0
    return p.inner * (packing + idle + task / 8) + tasks * _TASK_CYCLES


def tile_product_launch(node: Node, op: TileProduct, target: TileTarget) -> Launch:
    """One launch, of no tasks where BLAS does the work: the kernel is there for other sizes."""
    x, w = (v.type for v in node.operands)
    (rows, inner), (_, columns) = op.sides(x, 0), op.sides(w, 1)
    shape = Shape(rows, inner, columns, op.turned[0], TURNED if op.turned[1] else STRAIGHT)
    launch = _launch(node, shape, target)
    return dataclasses.replace(launch, extent=0) if is_by_vector(node) else launch


def is_by_vector(node: Node) -> bool:
    """Whether a node is a product with one row or column, which BLAS does at the speed of memory."""
    return isinstance(node.op, TileProduct) and 1 in node.result.shape


def factor_product_launch(node: Node, op: FactorProduct, target: TileTarget) -> Launch:
    """One launch."""
    rows, inner = op.sides(node.operands[0].type)
    return _launch(node, Shape(rows, inner, op.columns, op.swapped, PACKED), target)


def _launch(node: Node, p: Shape, target: TileTarget) -> Launch:
    """Its tasks are a chunk of rows by a group of blocks of columns; numbers as in `tile_product`."""
    kernel, cut = _kernel(node, target), product_cut(p, node.result.type.dtype, target)
    part = (kernel.vectors if p.second == PACKED else 1) * kernel.lanes
    first = TURNED if p.turned else STRAIGHT
    parts = math.ceil(p.columns / part)
    slots = p.rows, p.inner, p.columns, cut.chunks, cut.groups, parts, part, cut.depth, first, p.second
    return Launch(
        kernel, (*node.operands, node.result), slots, (), cut.chunks * cut.groups if p.rows * p.columns else 0,
        p.rows * p.columns * p.inner, f"product in tiles of {kernel.rows} by {kernel.vectors * kernel.lanes}",
    )  # fmt: skip


def _kernel(node: Node, target: TileTarget) -> TileKernel:
    dtype, tile = node.result.type.dtype, factor_tile(target)
    return TileKernel(PRODUCT, dtype, tile.rows, tile.vectors, target.lanes(dtype), 1)


def packed_launch(node: Node, op: PackedFactor, target: TileTarget) -> Launch:
    """One launch of the same kernel. Tasks are blocks of columns, or pieces of rows, as the matrix lies in memory."""
    (w,), packed = node.operands, node.result.type
    (inner, columns), blocks = op.sides(w.type), packed.shape[0]
    chunks, groups = 1, blocks
    if not op.turned:
        chunks, groups = max(1, min(inner, inner * columns // _PACKED_AT_ONCE)), 1
    second = TURNED if op.turned else STRAIGHT
    slots = 0, inner, columns, chunks, groups, blocks, packed.shape[2], 1, PACKS, second
    extent = chunks * groups if packed.numel else 0
    return Launch(_kernel(node, target), (w, w, node.result), slots, (), extent, packed.numel, "a factor, packed")
