"""Column groups, where the last axis is kept, or what is read is contiguous along one that is: tasks are blocks of
columns by chunks of rows.

    chunks: for each task: the accumulators of a block of columns lie in memory (in cache); row by row is folded in
    totals: for each block of columns: the chunks' accumulators are folded in order, then finished and stored

Rows are the positions among the reduced axes. Where rows and columns lie one after another in all that is read, short
rows are taken several at a time, as one wide row with accumulators of its own for each, so that loops have a length
worth having. (That changes the order of folding, and so is done for reductions alone that do not ask for positions.)
Boundaries depend on the shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Expr, Fn
from jitgrad.ir.tracked import computed

from ..loops.ir import Init, Stmt, loop_var
from .group_lowering import GroupLowering, accumulator_dtypes, ceil_div, fold_over, new_fold
from .kernel_builder import KernelBuilder, Launch, Scratch
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, nest, stretch
from .nest import Axis
from .split import outer_statements
from .tuning import Tuning


@dataclass(frozen=True, slots=True)
class _Columns:
    """The loops of a column group, and how they are cut. `flat` runs through rows and columns as one, if that can
    be."""

    lowering: GroupLowering
    outer: Sequence[Axis]
    reduced: Sequence[Axis]
    inner: Axis
    flat: Axis | None

    @property
    def tuning(self) -> Tuning:
        """Sizes."""
        return self.lowering.tuning

    @property
    def outer_length(self) -> int:
        """Positions among the outer axes."""
        return math.prod(a.extent for a in self.outer)

    @property
    def together(self) -> int:
        """Rows in one wide row: a power of two."""
        return 1 if self.flat is None else computed(_rows_together, self.tuning.columns, self.inner.extent)

    @property
    def width(self) -> int:
        """Elements in one wide row."""
        return self.together * self.inner.extent

    @property
    def wide_rows(self) -> int:
        """Wide rows."""
        return -(-math.prod(a.extent for a in self.reduced) // self.together)

    @property
    def rows_each(self) -> int:
        """Wide rows in a chunk: about the square root of all, so that neither chunks nor their number grow long."""
        return computed(_rows_each, self.wide_rows, self.tuning.min_rows, self.tuning.max_rows)

    @property
    def chunks(self) -> int:
        """Chunks of wide rows."""
        return ceil_div(self.wide_rows, self.rows_each)

    @property
    def cells(self) -> int:
        """Accumulators in all."""
        return self.chunks * self.outer_length * self.width

    def cell(self, b: KernelBuilder, chunk: Expr | None, place: Expr) -> Expr:
        """Where the accumulator at `place` in a chunk (by default the first) lies, at the current outer place."""
        row = chunk
        if self.outer:
            outer = b.row_major(self.outer)
            row = outer if chunk is None else chunk * b.slot("outer length", self.outer_length) + outer
        return place if row is None else row * b.slot("width", self.width) + place


def _rows_each(rows: int, least: int, most: int) -> int:
    """About the square root of so many rows."""
    root = 1 << math.ceil(math.log2(max(1, rows)) / 2)
    return min(max(root, least), most)


def _rows_together(columns: int, width: int) -> int:
    """How many rows of a width fill so many columns."""
    return 1 << (max(1, columns // max(1, width)).bit_length() - 1)


def lower_column(lowering: GroupLowering) -> list[Launch]:
    """Columns along the last axis: two launches."""
    group = lowering.group
    everything = lowering.all_expressions()
    kept = lowering.loops(group.kept, everything)
    return lower_columns(lowering, kept[:-1], lowering.loops(group.axes or (), everything), kept[-1])


def lower_columns(lowering: GroupLowering, outer: Sequence[Axis], reduced: Sequence[Axis], inner: Axis) -> list[Launch]:
    """Two launches: chunks, and totals. Columns lie along `inner`, and there are some for each place of `outer`."""
    columns = _Columns(lowering, outer, reduced, inner, _flat(lowering, reduced, inner))
    partials = [[Scratch(d, columns.cells) for d in accumulator_dtypes(r)] for r in lowering.reductions]
    return [_first(columns, partials), _second(columns, partials)]


def _flat(lowering: GroupLowering, reduced: Sequence[Axis], inner: Axis) -> Axis | None:
    """Rows and columns as one axis, if everything streamed lies so and no reduction asks where an element is."""
    if lowering.asks_positions:
        return None
    order = [v for axis in (*reduced, inner) for v in axis.variables]
    merged = lowering.streamed_loops(lowering.group.index.index(v) for v in order)
    return merged[0] if len(merged) == 1 else None


def _first(columns: _Columns, partials: Sequence[Sequence[Scratch]]) -> Launch:
    lowering, b = columns.lowering, columns.lowering.builder()
    b.use_axes([*columns.outer, *((columns.flat,) if columns.flat else (*columns.reduced, columns.inner))])
    chunks = b.slot("chunks", columns.chunks)
    rest = TASK / chunks
    chunk = TASK - rest * chunks
    blocks = ceil_div(columns.width, columns.tuning.columns)
    block = _outer_place(columns, b, rest, b.slot("blocks", blocks))
    j, row, height = loop_var("j"), loop_var("row"), b.slot("rows each", columns.rows_each)
    start = chunk * height
    rows = Header(row, start, scalar.minimum(start + height, b.slot("rows", columns.wide_rows)), SERIAL)
    length = scalar.const(columns.tuning.columns)
    first, width = block * length, b.slot("width", columns.width)
    stop = scalar.minimum(first + length, width)
    whole = Header(j, first, stop, VECTOR)
    if columns.flat:
        b.place[columns.flat.var] = row * width + j
        used = Header(j, first, scalar.minimum(stop, b.extent(columns.flat) - row * width), VECTOR)
    else:
        b.place[columns.inner.var] = j
        b.split(row, columns.reduced)
        used = whole
    starting: list[Stmt] = []
    folding: list[Stmt] = []
    cell = columns.cell(b, chunk, j)
    if columns.tuning.registers:
        body = _down_each_column(columns, b, partials, whole, rows, cell)
    else:
        for root, places in zip(lowering.reductions, partials):
            fold = fold_over(root, [b.load_scratch(p, cell) for p in places])
            updated = fold.stepped(b.finish(lowering.expression(root)), row)
            starting += [b.store_scratch(p, cell, v) for p, v in zip(places, fold.initial)]
            folding += _set_at_once(lowering, b, places, cell, updated)
        folding += lowering.store_full(b, lowering.full_stores)
        body = (*nest([whole], starting), *nest([rows, used], folding))
    tasks = columns.outer_length * blocks * columns.chunks
    parallel = Header(TASK, scalar.const(0), b.slot("tasks", tasks), PARALLEL)
    return b.launch(nest([parallel], body), tasks, lowering.operations, lowering.label(" chunks"))


def _down_each_column(
    columns: _Columns, b: KernelBuilder, partials: Sequence[Sequence[Scratch]], whole: Header, rows: Header, cell: Expr
) -> tuple[Stmt, ...]:
    """Each lane goes down a column with accumulators of its own, and stores them at the end."""
    lowering = columns.lowering
    if columns.flat:  # the last wide row may be shorter than the others
        width = b.slot("width", columns.width)
        height = (b.extent(columns.flat) - whole.var + (width - scalar.const(1))) / width
        rows = replace(rows, stop=scalar.minimum(rows.stop, height))
    folds = [new_fold(lowering, r) for r in lowering.reductions]
    body: list[Stmt] = [s for f in folds for s in f.inits()]
    folding: list[Stmt] = []
    for root, fold in zip(lowering.reductions, folds):
        folding.append(fold.update(fold.stepped(b.finish(lowering.expression(root)), rows.var)))
    body += nest([rows], folding + lowering.store_full(b, lowering.full_stores))
    for fold, places in zip(folds, partials):
        body += [b.store_scratch(p, cell, a) for p, a in zip(places, fold.state)]
    return nest([whole], body)


def _set_at_once(
    lowering: GroupLowering, b: KernelBuilder, places: Sequence[Scratch], cell: Expr, values: Sequence[Expr]
) -> list[Stmt]:
    """Store accumulators that are computed from each other's old values: all computed before any is stored."""
    if len(values) == 1:
        return [b.store_scratch(places[0], cell, values[0])]
    held = [lowering.new_accumulator(v.dtype) for v in values]
    inits: list[Stmt] = [Init(a.index, v) for a, v in zip(held, values)]
    return inits + [b.store_scratch(p, cell, a) for p, a in zip(places, held)]


def _outer_place(columns: _Columns, b: KernelBuilder, position: Expr, blocks: Expr) -> Expr:
    """Place the outer axes; what is left of `position` is the block of columns."""
    if not columns.outer:
        return position
    outer = position / blocks
    b.split(outer, columns.outer)
    return position - outer * blocks


def _second(columns: _Columns, partials: Sequence[Sequence[Scratch]]) -> Launch:
    """Folds the chunks of a block in order, then the rows of the wide row in halves, and stores what follows."""
    lowering, b = columns.lowering, columns.lowering.builder()
    b.use_axes([*columns.outer, columns.inner])
    blocks = ceil_div(columns.width, columns.tuning.columns)
    block = _outer_place(columns, b, TASK, b.slot("blocks", blocks))
    length = scalar.const(columns.tuning.columns)
    first = block * length
    j, c, k, halving = loop_var("j"), loop_var("c"), loop_var("k"), loop_var("halving")
    wide = Header(k, first, scalar.minimum(first + length, b.slot("width", columns.width)), VECTOR)
    half = scalar.apply(Fn.SHR, b.slot("together", columns.together), halving + scalar.const(1))
    half = half * b.extent(columns.inner)
    b.place[columns.inner.var] = j
    finishing: list[Stmt] = []
    for root, places in zip(lowering.reductions, partials):
        fold = fold_over(root, [b.load_scratch(p, columns.cell(b, None, j)) for p in places])
        finishing.append(Init(lowering.bindings[root.number].index, fold.result))
    finishing += outer_statements(lowering, b)
    chunks = Header(c, scalar.const(1), b.slot("chunks", columns.chunks), SERIAL)
    body = [
        *_merging_chunks(columns, b, partials, chunks, wide),
        *nest(
            [
                Header(halving, scalar.const(0), b.slot("halvings", columns.together.bit_length() - 1), SERIAL),
                Header(k, scalar.const(0), half, VECTOR),
            ],
            _merging(columns, b, partials, columns.cell(b, None, k), columns.cell(b, None, k + half)),
        ),
        *nest([stretch(b, columns.inner, "j", block, length, VECTOR)], finishing),
    ]
    tasks = columns.outer_length * blocks
    parallel = Header(TASK, scalar.const(0), b.slot("tasks", tasks), PARALLEL)
    return b.launch(nest([parallel], body), tasks, columns.cells, lowering.label(" totals"))


def _merging_chunks(
    columns: _Columns, b: KernelBuilder, partials: Sequence[Sequence[Scratch]], chunks: Header, wide: Header
) -> tuple[Stmt, ...]:
    """Folds the accumulators of all chunks, in order, into those of the first."""
    first, other = columns.cell(b, None, wide.var), columns.cell(b, chunks.var, wide.var)
    if not columns.tuning.registers:
        return nest([chunks, wide], _merging(columns, b, partials, first, other))
    before: list[Stmt] = []
    merging: list[Stmt] = []
    after: list[Stmt] = []
    for root, places in zip(columns.lowering.reductions, partials):
        fold = new_fold(columns.lowering, root)
        before += [Init(a.index, b.load_scratch(p, first)) for a, p in zip(fold.accumulators, places)]
        merging.append(fold.update(fold.merged(tuple(b.load_scratch(p, other) for p in places))))
        after += [b.store_scratch(p, first, a) for p, a in zip(places, fold.state)]
    return nest([wide], [*before, *nest([chunks], merging), *after])


def _merging(
    columns: _Columns, b: KernelBuilder, partials: Sequence[Sequence[Scratch]], left: Expr, right: Expr
) -> list[Stmt]:
    """Folds the accumulators at cell `right` into those at cell `left`."""
    stmts: list[Stmt] = []
    for root, places in zip(columns.lowering.reductions, partials):
        fold = fold_over(root, [b.load_scratch(p, left) for p in places])
        merged = fold.merged(tuple(b.load_scratch(p, right) for p in places))
        stmts += _set_at_once(columns.lowering, b, places, left, merged)
    return stmts
