"""Maps that read along another axis than they write, on a CPU: through squares that are turned in registers.

    for each tile:
        squares of what is read, turned, into memory of the task's own
        or, where most of a square would be empty: what is read, element by element, into that memory
        along the last axis: everything else, from there

The loops over a square have lengths of the kernel's structure, so that the emitter sees what they are. The length of
the crossed axis decides between squares and elements as a kernel runs, so that one serves all lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn
from jitgrad.ir.tracked import computed

from ..fuse.element import Element
from ..loops.ir import Stmt, loop_var
from .group_lowering import GroupLowering
from .kernel_builder import KernelBuilder, Launch, Tile
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, nest
from .nest import Axis
from .transposed import masked_element

_TALL: Final = 128  # of a task, at most, along the axis that is contiguous in what is read
_LOW: Final = 32  # at least
_TASKS: Final = 16  # as many as there should be before tasks grow: then threads have enough to share
_WIDE: Final = 64  # of a tile, along the axis that is contiguous in what is written
_LEAST: Final = 8  # of the crossed axis in squares
_REGISTER: Final = 16  # elements, of one register or of several
_ZERO: Final = scalar.const(0)


def fits_squares(read: Sequence[Element]) -> bool:
    """Whether such elements are turned in registers."""
    return all(e.dtype is not dtypes.bool_ and e.dtype.itemsize > 1 for e in read)


def lower_squares(lowering: GroupLowering, loops: Sequence[Axis], crossed: Axis, read: Sequence[Element]) -> Launch:
    """One launch, a task for each block of the crossed axis."""
    b, last = lowering.builder(), loops[-1]
    b.use_axes(loops)
    others = [a for a in loops if a not in (crossed, last)]
    tall = computed(_height, crossed.extent, math.prod(a.extent for a in others))
    blocks = Axis((loop_var("blocks"),), -(-crossed.extent // tall))
    tasks = [*others, blocks]
    b.split(TASK, tasks)
    side = min(64 // max(e.dtype.itemsize for e in read), 16)
    tile, height = loop_var("tile"), b.slot("tall", tall)
    corner = b.finish(blocks.var) * height, tile * scalar.const(_WIDE)
    held = [Tile(e.dtype, _TALL * _WIDE) for e in read]
    few = computed(_few, crossed.extent)
    in_squares = b.slot("in squares", computed(_if_none, tall, few))
    body = [s for e, t in zip(read, held) for s in _turned(b, crossed, last, corner, in_squares, side, e, t)]
    body += [s for e, t in zip(read, held) for s in _copied(b, crossed, last, corner, b.slot("few", few), e, t)]
    body += _written(lowering, b, crossed, last, corner, height, dict(zip(read, held)))
    headers = [
        Header(TASK, _ZERO, b.length(tasks), PARALLEL),
        Header(tile, _ZERO, b.slot(("tiles", _WIDE), -(-last.extent // _WIDE)), SERIAL),
    ]
    extent = math.prod(a.extent for a in tasks)
    return b.launch(nest(headers, body), extent, lowering.operations, lowering.label())


def _turned(
    b: KernelBuilder, crossed: Axis, last: Axis, corner: tuple[Expr, Expr], height: Expr, side: int, e: Element,
    tile: Tile,
) -> tuple[Stmt, ...]:  # fmt: skip
    """Squares of one element; zero where there is nothing."""
    across, down, row, column = (loop_var(name) for name in ("across", "down", "row", "column"))
    i, j = down * scalar.const(side) + column, across * scalar.const(side) + row
    b.place[crossed.var], b.place[last.var] = corner[0] + i, corner[1] + j
    b.forget()
    inside = (crossed.var < b.extent(crossed)) & (last.var < b.extent(last))
    value = b.finish(masked_element(e, inside))
    store = b.store_scratch(tile, i * scalar.const(_WIDE) + j, value)
    headers = [
        Header(across, _ZERO, _squares(b.extent(last) - corner[1], side, scalar.const(_WIDE)), SERIAL),
        Header(down, _ZERO, _squares(b.extent(crossed) - corner[0], side, height), SERIAL),
        Header(row, _ZERO, scalar.const(side), SERIAL),
        Header(column, _ZERO, scalar.const(side), VECTOR),
    ]
    return nest(headers, [store])


def _copied(
    b: KernelBuilder, crossed: Axis, last: Axis, corner: tuple[Expr, Expr], few: Expr, e: Element, tile: Tile
) -> tuple[Stmt, ...]:
    """A tile of one element without squares: lines of registers that are gathered, and what is left of them."""
    i, j, across, k = (loop_var(name) for name in ("i", "j", "across", "k"))
    width = scalar.minimum(scalar.const(_WIDE), b.extent(last) - corner[1])
    whole = scalar.apply(Fn.SHR, width, _REGISTER.bit_length() - 1)
    b.place[crossed.var] = i

    def copied(at: Expr) -> Stmt:
        b.place[last.var] = corner[1] + at
        b.forget()
        return b.store_scratch(tile, i * scalar.const(_WIDE) + at, b.finish(e))

    registers = nest(
        [Header(across, _ZERO, whole, SERIAL), Header(k, _ZERO, scalar.const(_REGISTER), VECTOR)],
        [copied(across * scalar.const(_REGISTER) + k)],
    )
    rest = nest([Header(j, whole * scalar.const(_REGISTER), width, SERIAL)], [copied(j)])
    return nest([Header(i, _ZERO, few, SERIAL)], [*registers, *rest])


def _few(extent: int) -> int:
    """The length of a crossed axis that squares do not suit, or 0."""
    return extent if extent < _LEAST else 0


def _if_none(height: int, few: int) -> int:
    """The height of squares where nothing is copied otherwise."""
    return 0 if few else height


def _squares(left: Expr, side: int, most: Expr) -> Expr:
    """How many squares there are along an axis of a tile, of `left` elements or of as many as `most`."""
    return scalar.apply(Fn.SHR, scalar.minimum(left, most) + (side - 1), side.bit_length() - 1)


def _height(extent: int, others: int) -> int:
    """How much of the crossed axis a task takes: much, so that what it reads are long pieces, but tasks for all."""
    height = _TALL
    while height > _LOW and -(-extent // height) * others < _TASKS:
        height //= 2
    return height


def _written(
    lowering: GroupLowering, b: KernelBuilder, crossed: Axis, last: Axis, corner: tuple[Expr, Expr], height: Expr,
    held: dict[Element, Tile],
) -> tuple[Stmt, ...]:  # fmt: skip
    """What is stored, line by line."""
    i, j = loop_var("i"), loop_var("j")
    b.place[crossed.var], b.place[last.var] = corner[0] + i, corner[1] + j
    b.forget()
    for e, tile in held.items():
        b.substitute(e, b.load_scratch(tile, i * scalar.const(_WIDE) + j))
    stores = lowering.store_full(b, lowering.full_stores)
    headers = [
        Header(i, _ZERO, scalar.minimum(height, b.extent(crossed) - corner[0]), SERIAL),
        Header(j, _ZERO, scalar.minimum(scalar.const(_WIDE), b.extent(last) - corner[1]), VECTOR),
    ]
    return nest(headers, stores)
