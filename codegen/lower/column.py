"""Column groups, where the last axis is kept: tasks are blocks of columns by chunks of rows.

    chunks: for each task: the accumulators of a block of columns lie in memory (in cache); row by row is folded in
    totals: for each block of columns: the chunks' accumulators are folded in order, then finished and stored

Rows are the positions among the reduced axes. Chunk boundaries depend on the shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Expr

from ..loops.ir import Init, Stmt, loop_var
from .group_lowering import GroupLowering, accumulator_dtypes, ceil_div, fold_over
from .kernel_builder import KernelBuilder, Launch, Scratch
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, nest, stretch
from .nest import Axis
from .split import outer_statements

COLUMNS: Final = 1024
_MIN_ROWS, _MAX_ROWS = 64, 4096


@dataclass(frozen=True, slots=True)
class _Columns:
    """The loops of a column group, and how they are cut."""

    lowering: GroupLowering
    outer: Sequence[Axis]
    reduced: Sequence[Axis]
    inner: Axis

    @property
    def outer_length(self) -> int:
        """Positions among the outer axes."""
        return math.prod(a.extent for a in self.outer)

    @property
    def rows(self) -> int:
        """Positions among the reduced axes."""
        return math.prod(a.extent for a in self.reduced)

    @property
    def blocks(self) -> int:
        """Blocks of columns."""
        return ceil_div(self.inner.extent, COLUMNS)

    @property
    def rows_each(self) -> int:
        """Rows in a chunk: about the square root of all, so that neither chunks nor their number grow long."""
        root = 1 << math.ceil(math.log2(max(1, self.rows)) / 2)
        return min(max(root, _MIN_ROWS), _MAX_ROWS)

    @property
    def chunks(self) -> int:
        """Chunks of rows."""
        return ceil_div(self.rows, self.rows_each)

    def builder(self) -> KernelBuilder:
        """With the loops' merged variables known."""
        b = self.lowering.builder()
        b.use_axes([*self.outer, *self.reduced, self.inner])
        return b

    def cell(self, b: KernelBuilder, chunk: Expr | None) -> Expr:
        """Where the accumulators of a chunk (by default the first) lie, at the current outer and inner place."""
        column, row = b.finish(self.inner.var), chunk
        if self.outer:
            outer = b.row_major(self.outer)
            row = outer if chunk is None else chunk * b.slot("outer length", self.outer_length) + outer
        return column if row is None else row * b.extent(self.inner) + column


def lower_column(lowering: GroupLowering) -> list[Launch]:
    """Two launches: chunks, and totals."""
    group = lowering.group
    everything = lowering.all_expressions()
    kept = lowering.loops(group.kept, everything)
    reduced = lowering.loops(group.axes or (), everything)
    columns = _Columns(lowering, kept[:-1], reduced, kept[-1])
    length = columns.chunks * columns.outer_length * columns.inner.extent
    partials = []
    for root in lowering.reductions:
        partials.append([Scratch(d, length) for d in accumulator_dtypes(root)])
    return [_first(columns, partials), _second(columns, partials)]


def _first(columns: _Columns, partials: Sequence[Sequence[Scratch]]) -> Launch:
    b, lowering = columns.builder(), columns.lowering
    chunks, blocks = b.slot("chunks", columns.chunks), b.slot("blocks", columns.blocks)
    rest = TASK / chunks
    chunk = TASK - rest * chunks
    block = _outer_place(columns, b, rest, blocks)
    vector = stretch(b, columns.inner, "j", block, scalar.const(COLUMNS), VECTOR)
    row, height = loop_var("row"), b.slot("rows each", columns.rows_each)
    b.split(row, columns.reduced)
    start = chunk * height
    rows = Header(row, start, scalar.minimum(start + height, b.slot("rows", columns.rows)), SERIAL)
    starting: list[Stmt] = []
    folding: list[Stmt] = []
    cell = columns.cell(b, chunk)
    for root, places in zip(lowering.reductions, partials):
        fold = fold_over(root, [b.load_scratch(p, cell) for p in places])
        updated = fold.stepped(b.finish(lowering.expression(root)), row)
        starting += [b.store_scratch(p, cell, v) for p, v in zip(places, fold.initial)]
        folding += _set_at_once(lowering, b, places, cell, updated)
    folding += lowering.store_full(b, lowering.full_stores)
    tasks = columns.outer_length * columns.blocks * columns.chunks
    parallel = Header(TASK, scalar.const(0), b.slot("tasks", tasks), PARALLEL)
    body = [*nest([vector], starting), *nest([rows, vector], folding)]
    return b.launch(nest([parallel], body), tasks, lowering.operations, lowering.label(" chunks"))


def _set_at_once(
    lowering: GroupLowering, b: KernelBuilder, places: Sequence[Scratch], cell: Expr, values: Sequence[Expr]
) -> list[Stmt]:
    """Store accumulators that are computed from each other's old values: all computed before any is stored."""
    if len(values) == 1:
        return [b.store_scratch(places[0], cell, values[0])]
    held = [lowering.new_accumulator(v.dtype) for v in values]
    inits: list[Stmt] = [Init(a.index, v) for a, v in zip(held, values)]
    return inits + [b.store_scratch(p, cell, a) for p, a in zip(places, held)]


def _set(
    lowering: GroupLowering, b: KernelBuilder, places: Sequence[Scratch], cell: Expr, values: Sequence[Expr]
) -> list[Stmt]:
    """Set a state in memory. Several accumulators are computed before any is stored, since each may read all."""
    inits: list[Stmt] = []
    if len(values) > 1:
        held = [lowering.new_accumulator(v.dtype) for v in values]
        inits = [Init(a.index, v) for a, v in zip(held, values)]
        values = held
    return inits + [b.store_scratch(p, cell, v) for p, v in zip(places, values)]


def _outer_place(columns: _Columns, b: KernelBuilder, position: Expr, blocks: Expr) -> Expr:
    """Place the outer axes; what is left of `position` is the block of columns."""
    if not columns.outer:
        return position
    outer = position / blocks
    b.split(outer, columns.outer)
    return position - outer * blocks


def _second(columns: _Columns, partials: Sequence[Sequence[Scratch]]) -> Launch:
    b, lowering = columns.builder(), columns.lowering
    block = _outer_place(columns, b, TASK, b.slot("blocks", columns.blocks))
    vector = stretch(b, columns.inner, "j", block, scalar.const(COLUMNS), VECTOR)
    c = loop_var("c")
    merging: list[Stmt] = []
    finishing: list[Stmt] = []
    total, part = columns.cell(b, None), columns.cell(b, c)
    for root, places in zip(lowering.reductions, partials):
        fold = fold_over(root, [b.load_scratch(p, total) for p in places])
        merged = fold.merged(tuple(b.load_scratch(p, part) for p in places))
        merging += _set_at_once(lowering, b, places, total, merged)
        finishing.append(Init(lowering.bindings[root.number].index, fold.result))
    finishing += outer_statements(lowering, b)
    chunks = Header(c, scalar.const(1), b.slot("chunks", columns.chunks), SERIAL)
    tasks = columns.outer_length * columns.blocks
    parallel = Header(TASK, scalar.const(0), b.slot("tasks", tasks), PARALLEL)
    body = [*nest([chunks, vector], merging), *nest([vector], finishing)]
    work = columns.outer_length * columns.inner.extent * (columns.chunks + 1)
    return b.launch(nest([parallel], body), tasks, work, lowering.label(" totals"))
