"""Row groups of few, long rows, for machines that would be idle with one task a row: each phase is launches of its own.

    phase p:   for each row and chunk: fold what phase p folds, store what it stores
    totals:    for each row: the chunks' results in order, what follows from them, stores of what is ready

Results that later launches need lie in scratch memory. Which rows are long is a matter of the shape, and so of the
kernels chosen for it; chunk boundaries depend on the shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Expr

from ..fuse.element import walk
from ..fuse.roots import Root
from ..loops.ir import AccRef, Init, Stmt, loop_var
from .group_lowering import Fold, GroupLowering, ceil_div, new_fold
from .kernel_builder import KernelBuilder, Launch, Scratch
from .loops import PARALLEL, TASK, VECTOR, Header, nest
from .nest import Axis
from .phases import Phases


@dataclass(slots=True)
class _LongRows:
    """A group on its way; `kept_results` are values over the kept axes that later launches read."""

    lowering: GroupLowering
    phases: Phases
    kept: Sequence[Axis]
    reduced: Sequence[Axis]
    kept_results: dict[int, Scratch] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return math.prod(a.extent for a in self.kept)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return math.prod(a.extent for a in self.reduced)

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return ceil_div(self.length, self.lowering.tuning.chunk)

    def builder(self) -> KernelBuilder:
        """For one of the kernels."""
        b = self.lowering.builder()
        b.use_axes([*self.kept, *self.reduced])
        return b

    def row(self, b: KernelBuilder) -> Expr:
        """The number of the row at hand."""
        return b.row_major(self.kept)

    def known(self, b: KernelBuilder, expressions: Iterable[Expr], made_here: Iterable[Root] = ()) -> list[Stmt]:
        """Declares the earlier results that `expressions` use."""
        used = {e for x in expressions for e in walk(x) if isinstance(e, AccRef)}
        here = {r.number for r in made_here}
        return [
            Init(binding.index, b.load_scratch(self.kept_results[number], self.row(b)))
            for number, binding in self.lowering.bindings.items()
            if binding in used and number not in here
        ]


def lower_long_row(
    lowering: GroupLowering, phases: Phases, kept: Sequence[Axis], reduced: Sequence[Axis]
) -> list[Launch]:
    """Up to two launches per phase."""
    rows = _LongRows(lowering, phases, kept, reduced)
    launches = []
    for p in range(phases.count):
        roots = [r for r in lowering.reductions if phases.phase(r) == p]
        folds = [new_fold(lowering, r) for r in roots]
        partials = [[Scratch(a.dtype, rows.rows * rows.chunks) for a in f.state] for f in folds]
        launches.append(_stream(rows, p, roots, folds, partials))
        if roots:
            launches.append(_totals(rows, p, roots, partials))
    return launches


def _stream(
    rows: _LongRows, p: int, roots: Sequence[Root], folds: Sequence[Fold], partials: Sequence[Sequence[Scratch]]
) -> Launch:
    """Chunks of all rows."""
    lowering, b = rows.lowering, rows.builder()
    inner = [r for r in lowering.full_stores if rows.phases.phase(r) == p]
    chunk, j = Axis((loop_var("chunk"),), rows.chunks), loop_var("j")
    tasks = [*rows.kept, chunk]
    b.split(TASK, tasks)
    b.split(j, rows.reduced)
    length = scalar.const(lowering.tuning.chunk)
    start = b.finish(chunk.var) * length
    whole = Axis((j,), rows.length)
    vector = Header(j, start, scalar.minimum(start + length, b.extent(whole)), VECTOR)
    body = rows.known(b, [lowering.expression(r) for r in (*roots, *inner)])
    stream: list[Stmt] = []
    for root, fold in zip(roots, folds):
        body += fold.inits()
        stream.append(fold.update(fold.stepped(b.finish(lowering.expression(root)), j)))
    body += nest([vector], stream + lowering.store_full(b, inner))
    for fold, places in zip(folds, partials):
        body += [b.store_scratch(place, TASK, a) for place, a in zip(places, fold.state)]
    extent = rows.rows * rows.chunks
    parallel = Header(TASK, scalar.const(0), b.length(tasks), PARALLEL)
    return b.launch(nest([parallel], body), extent, lowering.operations, lowering.label(f" phase {p}"))


def _totals(rows: _LongRows, p: int, roots: Sequence[Root], partials: Sequence[Sequence[Scratch]]) -> Launch:
    """The chunks' results in order, and what is ready then."""
    lowering, b, c = rows.lowering, rows.builder(), loop_var("c")
    b.split(TASK, rows.kept)
    folds = [new_fold(lowering, r) for r in roots]
    maps = [r for r in lowering.outer_maps if rows.phases.ready[r.number] == p + 1]
    body = rows.known(b, [lowering.expression(r) for r in maps], [*roots, *maps])
    body += [s for f in folds for s in f.inits()]
    cell = TASK * b.slot("chunks", rows.chunks) + c
    merges: list[Stmt] = [
        fold.update(fold.merged(tuple(b.load_scratch(place, cell) for place in places)))
        for fold, places in zip(folds, partials)
    ]
    body += nest([Header(c, scalar.const(0), b.slot("chunks", rows.chunks), VECTOR)], merges)
    for root, fold in zip(roots, folds):
        body.append(Init(lowering.bindings[root.number].index, fold.result))
    for root in maps:
        body.append(Init(lowering.bindings[root.number].index, b.finish(lowering.expression(root))))
    for root in (*roots, *maps):
        binding = lowering.bindings[root.number]
        if lowering.is_outer_store(root):
            body.append(b.store(root.number, lowering.outer_index(root), binding))
        memory = rows.kept_results[root.number] = Scratch(binding.dtype, rows.rows)
        body.append(b.store_scratch(memory, rows.row(b), binding))
    parallel = Header(TASK, scalar.const(0), b.length(rows.kept), PARALLEL)
    return b.launch(nest([parallel], body), rows.rows, rows.rows * rows.chunks, lowering.label(f" totals {p}"))
