"""How convolutions are cut: register tiles, blocks whose input fits a cache, and tasks.

All follows from shapes and the machine's registers, never from the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .target import TileTarget

SCRATCH_BYTES: Final = 160 << 10  # aimed at, of a task's input and results: part of a core's second cache
MOST_SCRATCH_BYTES: Final = 384 << 10  # on a thread's stack, which may have no more than 512 KiB
_MIN_COLUMNS: Final = 16  # of a block
TASK_FLOPS: Final = 4_000_000
MIN_TASKS: Final = 16


@dataclass(frozen=True, slots=True)
class TileShape:
    """`rows` by `vectors` registers."""

    rows: int
    vectors: int


def conv_tile(target: TileTarget) -> TileShape:
    """The largest register tile: what fits the registers, of whatever sizes a convolution is.

    Addresses of the pixels need a register of the other kind each, of which there are 16.

    >>> conv_tile(TileTarget(512, 32)), conv_tile(TileTarget(256, 16))
    (TileShape(rows=8, vectors=2), TileShape(rows=6, vectors=2))
    """
    return TileShape(8 if target.registers >= 32 else 6, 2)


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


def blocks(work: Work) -> Blocks:
    """The largest blocks that fit `SCRATCH_BYTES` (or one row of a few columns), and enough tasks to share out."""
    columns = work.width
    while columns > _MIN_COLUMNS and work.scratch(1, columns) > SCRATCH_BYTES:
        columns = max(_MIN_COLUMNS, math.ceil(columns / 2))
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
