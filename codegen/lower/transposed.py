"""Maps that read along another axis than they write, through tiles that the threads of a block share.

    for each tile:
        read:   what is contiguous along the crossed axis, that way, into the tile
        write:  along the last axis, from the tile

Both ways neighbouring lanes touch neighbouring places in memory. A row of a tile is one element longer than it is
filled, so that columns lie in different banks of a GPU's shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn

from ..fuse.element import Element, element, postorder
from ..loops.ir import Init, Stmt, loop_var
from .group_lowering import GroupLowering
from .kernel_builder import KernelBuilder, Launch, Tile
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, nest
from .nest import Axis

SIDE: Final = 32
_BITS: Final = SIDE.bit_length() - 1
_PITCH: Final = SIDE + 1
_MOST: Final = 4  # elements by tile: more would leave room for few blocks


def crossed_elements(lowering: GroupLowering, crossed: Axis, last: Axis) -> list[Element]:
    """What is read along the crossed axis; empty where tiles would not do."""
    found: list[Element] = []
    for e in postorder(lowering.all_expressions()):
        if isinstance(e, Element) and not e.masked and e.index and e.index[-1] is crossed.var and last.var in e.index:
            found.append(e)
    return found if len(found) <= _MOST else []


def lower_transposed(lowering: GroupLowering, loops: Sequence[Axis], crossed: Axis, read: Sequence[Element]) -> Launch:
    """One launch, a task for each tile."""
    b, last = lowering.builder(), loops[-1]
    b.use_axes(loops)
    blocks = Axis((loop_var("blocks"),), -(-crossed.extent // SIDE))
    tiles = Axis((loop_var("tiles"),), -(-last.extent // SIDE))
    tasks = [*(a for a in loops if a not in (crossed, last)), blocks, tiles]
    b.split(TASK, tasks)
    corner = b.finish(blocks.var) * scalar.const(SIDE), b.finish(tiles.var) * scalar.const(SIDE)
    k = loop_var("k")
    high, low = scalar.apply(Fn.SHR, k, _BITS), k & (SIDE - 1)
    held = [Tile(e.dtype, SIDE * _PITCH) for e in read]
    along = Header(k, scalar.const(0), scalar.const(SIDE * SIDE), VECTOR)

    inside = _place(b, crossed, last, corner[0] + low, corner[1] + high)
    reading = [
        b.store_scratch(tile, high * scalar.const(_PITCH) + low, b.finish(masked_element(e, inside)))
        for tile, e in zip(held, read)
    ]
    b.forget()
    inside = _place(b, crossed, last, corner[0] + high, corner[1] + low)
    writing: list[Stmt] = []
    for tile, e in zip(held, read):
        value = lowering.new_accumulator(e.dtype)
        writing.append(Init(value.index, b.load_scratch(tile, low * scalar.const(_PITCH) + high)))
        b.substitute(e, value)
    writing += lowering.store_full(b, lowering.full_stores)
    hit = scalar.convert(b.finish(inside), dtypes.int64)
    condition = Header(loop_var("hit"), scalar.const(0), hit, SERIAL)  # a loop of one iteration, or none
    extent = math.prod(a.extent for a in tasks)
    parallel = Header(TASK, scalar.const(0), b.length(tasks), PARALLEL)
    body = [*nest([along], reading), *nest([along, condition], writing)]
    return b.launch(nest([parallel], body), extent, lowering.operations, lowering.label())


def _place(b: KernelBuilder, crossed: Axis, last: Axis, along_crossed: Expr, along_last: Expr) -> Expr:
    """Place the two axes; whether that is inside."""
    b.place[crossed.var], b.place[last.var] = along_crossed, along_last
    return (crossed.var < b.extent(crossed)) & (last.var < b.extent(last))


def masked_element(e: Element, inside: Expr) -> Element:
    """The element, read only where it is inside."""
    return element(e.number, e.dtype, e.index, inside, scalar.const(0, e.dtype))
