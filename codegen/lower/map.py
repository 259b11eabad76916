"""Map groups: one nest of loops over the domain, stores in its body.

Stores run along the last axis. Where something is read along another axis (a transposition), these two axes are cut
into tiles, so that a cache line that is read is used up before it is evicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jitgrad.ir import scalar

from ..fuse.element import Element, postorder
from ..loops.ir import Stmt, loop_var
from .group_lowering import GroupLowering
from .kernel_builder import KernelBuilder, Launch
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, counted, nest, parallel, stretch
from .nest import Axis
from .squares import fits_squares, lower_squares
from .transposed import crossed_elements, lower_transposed
from .tuning import Tuning


def lower_map(lowering: GroupLowering) -> list[Launch]:
    """One launch."""
    group, b = lowering.group, lowering.builder()
    loops = lowering.loops(range(len(group.domain)), lowering.all_expressions())
    b.use_axes(loops)
    crossed = lowering.crossed(loops)
    tuning = lowering.tuning
    read = crossed_elements(lowering, crossed, loops[-1]) if crossed is not None else []
    if crossed is not None and read and tuning.flat:
        return [lower_transposed(lowering, loops, crossed, read)]
    if crossed is not None and read and fits_squares(read):
        return [lower_squares(lowering, loops, crossed, read)]
    if crossed is None and not tuning.flat and _is_stacked(lowering, loops):
        headers, extent = _sideways(b, loops)
    else:
        headers, extent = parallel(b, loops, 0, tuning.flat) if crossed is None else _tiles(b, loops, crossed, tuning)
    stores: Sequence[Stmt] = lowering.store_full(b, lowering.full_stores)
    return [b.launch(nest(headers, stores), extent, lowering.operations, lowering.label())]


def _tiles(b: KernelBuilder, loops: Sequence[Axis], crossed: Axis, tuning: Tuning) -> tuple[list[Header], int]:
    """Tasks are the other axes by blocks of the crossed one; inside, tile by tile along the last axis.

    Where all parallel loops are one, each tile is a task of its own.
    """
    last = loops[-1]
    blocks = Axis((loop_var("blocks"),), -(-crossed.extent // tuning.tile_read))
    tiles = Axis((loop_var("tiles"),), -(-last.extent // tuning.tile_written))
    shared_out = [a for a in loops if a not in (crossed, last)] + [blocks] + ([tiles] if tuning.flat else [])
    b.split(TASK, shared_out)
    headers = [Header(TASK, scalar.const(0), b.length(shared_out), PARALLEL)]
    if not tuning.flat:
        b.place[tiles.var] = loop_var("tile")
        headers.append(Header(loop_var("tile"), scalar.const(0), b.slot("tiles", tiles.extent), SERIAL))
    tile = b.finish(tiles.var)
    headers.append(stretch(b, crossed, "i", b.finish(blocks.var), scalar.const(tuning.tile_read), SERIAL))
    headers.append(stretch(b, last, "j", tile, scalar.const(tuning.tile_written), VECTOR))
    return headers, math.prod(a.extent for a in shared_out)


def _is_stacked(lowering: GroupLowering, loops: Sequence[Axis]) -> bool:
    """Whether the last axis counts single elements that are put side by side, as `stack` does: then it is short."""
    if len(loops) < 2:
        return False
    last = loops[-1].var
    elements = [e for e in postorder(lowering.all_expressions()) if isinstance(e, Element)]
    if any(last in postorder(e.index) for e in elements):
        return False
    return any(e.masked and last in postorder((e.args[-2],)) for e in elements)


def _sideways(b: KernelBuilder, loops: Sequence[Axis]) -> tuple[list[Header], int]:
    """Vectors along the last axis but one, and inside them one element of the last after the other."""
    headers, extent = parallel(b, loops[:-1], 0, flat=False)
    return [*headers, *counted(b, loops[-1:], "k")], extent
