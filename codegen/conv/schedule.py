"""How convolutions are cut: register tiles, blocks whose input fits a cache, and tasks.

All follows from shapes and the machine's registers, never from the number of threads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from .target import TileTarget

SCRATCH_BYTES: Final = 160 << 10  # aimed at, of a task's input and results: part of a core's second cache
MOST_SCRATCH_BYTES: Final = 384 << 10  # on a thread's stack, which may have no more than 512 KiB
_MIN_SUMS: Final = 8  # registers being summed up, below which a core waits for its own additions
_TILE_OVERHEAD: Final = 6.0  # instructions to begin and end a tile, per register
TASK_FLOPS: Final = 4_000_000
MIN_TASKS: Final = 16


@dataclass(frozen=True, slots=True)
class TileShape:
    """`rows` by `vectors` registers."""

    rows: int
    vectors: int


@functools.lru_cache(maxsize=1024)
def tile_shape(length: int, channels: int, terms: int, lanes: int, target: TileTarget) -> TileShape:
    """The cheapest tile for rows of `length` elements, `channels` in lanes, and sums of `terms` products.

    >>> tile_shape(32, 64, 576, 16, TileTarget(512, 32))
    TileShape(rows=16, vectors=1)
    """
    return min(_shapes(length, channels, lanes, target), key=lambda t: _cost(t, length, channels, terms, lanes))


def _shapes(length: int, channels: int, lanes: int, target: TileTarget) -> Iterator[TileShape]:
    vectors = 1
    while vectors == 1 or (vectors - 1) * lanes < channels:
        for rows in range(1, min(length, 16) + 1):
            if rows * vectors + vectors + 1 <= target.registers:
                yield TileShape(rows, vectors)
        vectors += 1
        if vectors > 4:
            return


def _cost(tile: TileShape, length: int, channels: int, terms: int, lanes: int) -> float:
    """Roughly the cycles for a row: what is waited for most (sums, loads, latency), and each tile's overhead."""
    sums = tile.rows * tile.vectors
    each = max(sums, _MIN_SUMS, 0.9 * (tile.rows + tile.vectors))
    tiles = math.ceil(length / tile.rows) * math.ceil(channels / (lanes * tile.vectors))
    return tiles * (terms * (each + 0.5) + _TILE_OVERHEAD * sums)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows and columns of the output in a block, and blocks of channels in a task."""

    rows: int
    columns: int
    chunk: int


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be cut: an output of `height` by `width` in `tasks` tasks already, and `channel_blocks` of channels.

    `flops` are those of all of it. `scratch(rows, columns)` is how many bytes a block needs.
    """

    height: int
    width: int
    tasks: int
    channel_blocks: int
    flops: int
    scratch: Callable[[int, int], int]


def blocks(work: Work, tile: TileShape) -> Blocks:
    """The largest blocks that fit `SCRATCH_BYTES` (or a row of one tile), and enough tasks to share out."""
    columns = work.width
    while columns > tile.rows and work.scratch(1, columns) > SCRATCH_BYTES:
        columns = max(tile.rows, math.ceil(columns / 2))
    fixed, each = work.scratch(0, columns), work.scratch(1, columns) - work.scratch(0, columns)
    rows = max(1, min(work.height, (SCRATCH_BYTES - fixed) // max(1, each)))
    others = max(1, work.tasks * math.ceil(work.width / max(1, columns)))
    wanted = min(MIN_TASKS, max(1, work.flops // TASK_FLOPS))
    if others * math.ceil(work.height / rows) < wanted:
        rows = max(1, work.height // math.ceil(wanted / others))
    if work.height:
        rows = math.ceil(work.height / math.ceil(work.height / rows))
    others *= math.ceil(work.height / rows)
    chunks = min(work.channel_blocks, math.ceil(wanted / max(1, others)))
    return Blocks(rows, columns, math.ceil(work.channel_blocks / max(1, chunks)))
