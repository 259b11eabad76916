"""Split groups, where nothing is kept: fixed chunks are folded in parallel, then their results in order.

Chunk boundaries depend on the shape alone, so that the result has the same bits for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Expr
from jitgrad.ir.tracked import computed

from ..loops.ir import Init, Stmt, loop_var
from .group_lowering import Fold, GroupLowering, ceil_div, new_fold
from .kernel_builder import KernelBuilder, Launch, Scratch
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, nest, stretch
from .nest import Axis


def lower_split(lowering: GroupLowering) -> list[Launch]:
    """Two launches: chunks, and their results."""
    group, b = lowering.group, lowering.builder()
    loops = lowering.loops(lowering.in_memory_order(range(len(group.domain))), lowering.all_expressions())
    b.use_axes(loops)
    chunks, headers = _chunks(b, loops, lowering.tuning.chunk)
    folds = [new_fold(lowering, r) for r in lowering.reductions]
    partials = [[Scratch(a.dtype, chunks) for a in f.state] for f in folds]
    body: list[Stmt] = [s for f in folds for s in f.inits()]
    body += nest(headers, _stream(lowering, b, loops, folds))
    for fold, places in zip(folds, partials):
        body += [b.store_scratch(place, TASK, a) for place, a in zip(places, fold.state)]
    parallel = Header(TASK, scalar.const(0), b.slot("chunks", chunks), PARALLEL)
    first = b.launch(nest([parallel], body), chunks, lowering.operations, lowering.label(" chunks"))
    return [first, _second(lowering, partials, chunks)]


def _chunks(b: KernelBuilder, loops: Sequence[Axis], length: int) -> tuple[int, list[Header]]:
    """How many chunks of about `length` elements there are, and the loops through chunk number `TASK`.

    A chunk is a stretch of the innermost axis, or several whole rows of it where they are short.
    """
    if not loops:
        return 1, []
    inner, outer = loops[-1], loops[:-1]
    blocks = ceil_div(inner.extent, length)
    if not outer:
        return blocks, [stretch(b, inner, "j", TASK, scalar.const(length), VECTOR)]
    rows = math.prod(a.extent for a in outer)
    rows_each = computed(_rows_each, length, inner.extent)
    per_row, height = b.slot("blocks", blocks), b.slot("rows each", rows_each)
    band = TASK / per_row
    row = loop_var("row")
    b.split(row, outer)
    start = band * height
    stop = scalar.minimum(start + height, b.slot("rows", rows))
    headers = [
        Header(row, start, stop, SERIAL),
        stretch(b, inner, "j", TASK - band * per_row, scalar.const(length), VECTOR),
    ]
    return ceil_div(rows, rows_each) * blocks, headers


def _rows_each(length: int, width: int) -> int:
    """Rows of a width that make about so many elements."""
    return max(1, length // max(1, width))


def _stream(lowering: GroupLowering, b: KernelBuilder, loops: Sequence[Axis], folds: Sequence[Fold]) -> list[Stmt]:
    stmts: list[Stmt] = []
    for root, fold in zip(lowering.reductions, folds):
        element = b.finish(lowering.expression(root))
        stmts.append(fold.update(fold.stepped(element, b.row_major(loops))))
    return stmts + lowering.store_full(b, lowering.full_stores)


def _second(lowering: GroupLowering, partials: Sequence[Sequence[Scratch]], chunks: int) -> Launch:
    """Folds the chunks' results, and computes what follows from the totals."""
    b = lowering.builder()
    c = loop_var("c")
    folds = [new_fold(lowering, r) for r in lowering.reductions]
    body: list[Stmt] = [s for f in folds for s in f.inits()]
    merges: list[Stmt] = []
    for fold, places in zip(folds, partials):
        loaded: tuple[Expr, ...] = tuple(b.load_scratch(place, c) for place in places)
        merges.append(fold.update(fold.merged(loaded)))
    body += nest([Header(c, scalar.const(0), b.slot("chunks", chunks), VECTOR)], merges)
    for root, fold in zip(lowering.reductions, folds):
        body.append(Init(lowering.bindings[root.number].index, fold.result))
    body += outer_statements(lowering, b)
    return b.launch(body, 1, chunks, lowering.label(" totals"))


def outer_statements(lowering: GroupLowering, b: KernelBuilder) -> list[Stmt]:
    """Maps over the kept axes, and stores of whatever lives there."""
    stmts: list[Stmt] = []
    for root in lowering.outer_maps:
        stmts.append(Init(lowering.bindings[root.number].index, b.finish(lowering.expression(root))))
    for root in lowering.group.roots:
        if lowering.is_outer_store(root):
            stmts.append(b.store(root.number, lowering.outer_index(root), lowering.bindings[root.number]))
    return stmts
