"""Map groups: one nest of loops over the domain, stores in its body.

Stores run along the last axis. Where something is read along another axis (a transposition), these two axes are cut
into tiles, so that a cache line that is read is used up before it is evicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitgrad.ir import scalar

from ..loops.ir import Stmt, loop_var
from .group_lowering import GroupLowering
from .kernel_builder import KernelBuilder, Launch
from .loops import SERIAL, TASK, VECTOR, Header, nest, parallel, stretch
from .nest import Axis

TILE_READ: Final = 64  # along the axis that is contiguous in what is read
TILE_WRITTEN: Final = 16  # along the last axis


def lower_map(lowering: GroupLowering) -> list[Launch]:
    """One launch."""
    group, b = lowering.group, lowering.builder()
    loops = lowering.loops(range(len(group.domain)), lowering.all_expressions())
    b.use_axes(loops)
    crossed = lowering.crossed(loops)
    headers, extent = parallel(b, loops, 0) if crossed is None else _tiles(b, loops, crossed)
    stores: Sequence[Stmt] = lowering.store_full(b, lowering.full_stores)
    return [b.launch(nest(headers, stores), extent, lowering.operations, lowering.label())]


def _tiles(b: KernelBuilder, loops: Sequence[Axis], crossed: Axis) -> tuple[list[Header], int]:
    """Tasks are the other axes by blocks of the crossed one; inside, tile by tile along the last axis."""
    last = loops[-1]
    others = [a for a in loops if a not in (crossed, last)]
    blocks = Axis((loop_var("blocks"),), -(-crossed.extent // TILE_READ))
    b.split(TASK, [*others, blocks])
    tasks = Header(TASK, scalar.const(0), b.length([*others, blocks]), "parallel")
    tile = loop_var("tile")
    headers = [
        tasks,
        Header(tile, scalar.const(0), b.slot("tiles", -(-last.extent // TILE_WRITTEN)), SERIAL),
        stretch(b, crossed, "i", b.finish(blocks.var), scalar.const(TILE_READ), SERIAL),
        stretch(b, last, "j", tile, scalar.const(TILE_WRITTEN), VECTOR),
    ]
    return headers, math.prod(a.extent for a in (*others, blocks))
