"""Row groups: a parallel loop over the kept axes; inside, the row is gone through once per phase.

    for each row:
        phase 0: fold reductions that read nothing of the row's other results, store what can be stored already
        phase 1: fold reductions that read results of phase 0, ...
        last: store the rest

Short rows are done side by side instead, one in each lane of a vector, each from end to end. A kernel holds both loops,
of which the length decides as it runs, so that one kernel serves all lengths. Where several axes are folded and nothing
is kept or stored meanwhile, it holds only the folds of short rows, which go from end to end in the same order, one row
after another: such rows are hardly ever short, and everything twice took twice the time to compile. Rows that lie in
memory as columns, and of which nothing but sums is wanted, are columns (`column.py`).

A row is read again in each phase, from cache; `kept.py` says what is not computed again. Inexact folds go in blocks of
bounded length, so that the error of a float32 sum does not grow with the length of the row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from jitgrad.ir import scalar
from jitgrad.ir.tracked import computed

from ..fuse.element import element
from ..fuse.roots import Root
from ..loops.ir import Init, Stmt, loop_var
from .column import lower_column, lower_columns
from .group_lowering import Fold, GroupLowering, ceil_div, new_fold
from .kept import HELD, Keeping, Kept, kept_values
from .kernel_builder import KernelBuilder, Launch
from .long_row import lower_long_row
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, counted, nest, parallel, stretch
from .nest import Axis
from .phases import Phases

_ROWS: Final = 256  # short ones in a task
_ELEMENTS: Final = 1024  # of long rows in a task, at least
_LONG, _SHORT, _ALL = "long", "short", "all"  # the rows that code is for


def lower_column_group(lowering: GroupLowering) -> list[Launch]:
    """Columns; rows, where that is what they are in memory, as the columns of a transposed matrix."""
    group, folded = lowering.group, lowering.reductions
    is_kept = lowering.is_contiguous(group.index[group.kept[-1]], folded)
    innermost = lowering.in_memory_order(group.axes or ())[-1]
    is_reduced = lowering.is_contiguous(group.index[innermost], folded)
    if is_reduced and not (is_kept or lowering.full_stores or lowering.tuning.flat):
        return lower_row(lowering)
    return lower_column(lowering)


def lower_row(lowering: GroupLowering) -> list[Launch]:
    """One launch."""
    group, b = lowering.group, lowering.builder()
    everything = lowering.all_expressions()
    kept = lowering.loops(group.kept, everything)
    reduced = lowering.loops(lowering.in_memory_order(group.axes or ()), everything)
    b.use_axes([*kept, *reduced])
    phases = Phases(lowering)
    along = _read_along(lowering, phases, kept, reduced)
    if along is not None:
        return lower_columns(lowering, [a for a in kept if a is not along], reduced, along)
    if _is_long(lowering, phases, kept, reduced):
        return lower_long_row(lowering, phases, kept, reduced)
    if kept and not lowering.tuning.flat:
        return [_of_any_length(lowering, b, phases, kept, reduced)]
    short = bool(kept) and math.prod(a.extent for a in reduced) <= lowering.tuning.short_row
    headers, extent = parallel(b, kept, 0 if short else max(1, len(reduced)), lowering.tuning.flat)
    body = nest(headers, _row(lowering, b, phases, reduced, _SHORT if short else _LONG, {}))
    return [b.launch(body, extent, lowering.operations, lowering.label())]


def _of_any_length(
    lowering: GroupLowering, b: KernelBuilder, phases: Phases, kept: Sequence[Axis], reduced: Sequence[Axis]
) -> Launch:
    """A loop over some rows for each kind of length. A task has rows for one of them, and none for the others."""
    last = kept[-1]
    kinds = list(_kinds(lowering, phases, reduced, 0 if len(kept) < 3 else last.extent))
    blocks = Axis((loop_var("blocks"),), ceil_div(last.extent, sum(rows for rows, _, _ in kinds)))
    tasks = [*kept[:-1][:2], blocks]
    b.split(TASK, tasks)
    headers = [Header(TASK, scalar.const(0), b.length(tasks), PARALLEL), *counted(b, kept[2:-1], "i")]
    rows_each, body = 0, list[Stmt]()
    stop = start = b.finish(blocks.var) * b.slot("rows each", sum(rows for rows, _, _ in kinds))
    b.place[last.var] = loop_var("row")
    for n, (rows, which, held) in enumerate(kinds):
        b.forget()
        rows_each += rows
        before, stop = stop, scalar.minimum(start + b.slot(("rows each", n), rows_each), b.extent(last))
        stretch = Header(loop_var("row"), before, stop, VECTOR if which is _SHORT else SERIAL)
        body += nest([stretch], _row(lowering, b, phases, reduced, which, held))
    extent = math.prod(a.extent for a in tasks)
    return b.launch(nest(headers, body), extent, lowering.operations, lowering.label())


def _kinds(
    lowering: GroupLowering, phases: Phases, reduced: Sequence[Axis], many: int
) -> Iterator[tuple[int, str, Keeping]]:
    """How many rows a task has, which, and what is kept of them, for each loop over rows."""
    length, short = _length(reduced), lowering.tuning.short_row
    longer_than, keeping = short, kept_values(lowering, phases, tiles=True)
    if len(reduced) > 1 and not keeping and not _store_while_folding(lowering, phases):
        yield computed(_rows_of, length, -1, math.inf, many), _ALL, keeping
        return
    if any(k.tile is not None for held in keeping.values() for k in held):
        yield computed(_rows_of, length, short, HELD, many), _LONG, keeping
        longer_than, keeping = HELD, kept_values(lowering, phases, tiles=False)
    yield computed(_rows_of, length, longer_than, math.inf, many), _LONG, keeping
    yield computed(_rows_of, length, -1, short, many or _ROWS), _SHORT, {}


def _rows_of(length: int, above: int, most: float, many: int) -> int:
    """How many rows a task takes, if they are longer than `above` and as long as `most` at most; else none.

    `many`, or else as many as make up for what a task takes by itself.
    """
    return (many or max(1, _ELEMENTS // max(1, length))) if above < length <= most else 0


def _unless(count: int, length: int, least: int, most: float) -> int:
    """`count`, but none if rows are as long as `least` at least and `most` at most."""
    return 0 if least <= length <= most else count


def _length(axes: Sequence[Axis]) -> int:
    return math.prod(a.extent for a in axes)


def _store_while_folding(lowering: GroupLowering, phases: Phases) -> bool:
    """Whether some elements are stored by loops that fold."""
    folding = {phases.phase(r) for r in lowering.reductions}
    return any(phases.phase(r) in folding for r in lowering.full_stores)


def _row(
    lowering: GroupLowering, b: KernelBuilder, phases: Phases, reduced: Sequence[Axis], which: str, keeping: Keeping
) -> list[Stmt]:
    """What happens to a row, or to several side by side."""
    body: list[Stmt] = list(_outer(lowering, b, phases, 0))
    for p in range(phases.count):
        body += _phase(lowering, b, phases, p, reduced, which, keeping.get(p, ()))
        held = [k for before in range(p + 1) for k in keeping.get(before, ()) if phases.phase(k.root) > p]
        _find_kept(lowering, b, reduced, held)
        body += _outer(lowering, b, phases, p + 1)
    return body


def _read_along(lowering: GroupLowering, phases: Phases, kept: Sequence[Axis], reduced: Sequence[Axis]) -> Axis | None:
    """The kept axis along which all that is folded is contiguous, where rows are not: these are columns in memory."""
    if lowering.tuning.flat or lowering.full_stores or phases.count > 1 or not reduced:
        return None
    if not all(phases.ready[r.number] for r in lowering.outer_maps):
        return None
    along = lowering.crossed([*kept, *reduced])
    return along if along in kept and not lowering.is_contiguous(reduced[-1].var) else None


def _is_long(lowering: GroupLowering, phases: Phases, kept: Sequence[Axis], reduced: Sequence[Axis]) -> bool:
    """Whether rows are so few and long that one task for each would leave the machine idle."""
    tuning, length = lowering.tuning, math.prod(a.extent for a in reduced)
    few = bool(kept) and math.prod(a.extent for a in kept) < tuning.few_rows
    return few and length >= tuning.long_row and all(phases.ready[r.number] for r in lowering.outer_maps)


def _find_kept(lowering: GroupLowering, b: KernelBuilder, reduced: Sequence[Axis], kept: Sequence[Kept]) -> None:
    """From now on, read what has been kept and not been stored over."""
    b.forget()
    for k in kept:
        if k.tile is None:
            found = b.finish(element(k.root.number, k.expr.dtype, lowering.group.index))
        else:
            found = b.load_scratch(k.tile, b.row_major(reduced))
        b.substitute(k.expr, found)


def _phase(
    lowering: GroupLowering, b: KernelBuilder, phases: Phases, p: int, reduced: Sequence[Axis], which: str,
    keeping: Sequence[Kept],
) -> list[Stmt]:  # fmt: skip
    """The loops of one phase, and its reductions' results."""
    roots = [r for r in lowering.reductions if phases.phase(r) == p]
    folds = [new_fold(lowering, r) for r in roots]
    inner = [r for r in lowering.full_stores if phases.phase(r) == p]
    stmts: list[Stmt] = [s for f in folds for s in f.inits()]
    if lowering.tuning.flat and which is not _SHORT and len(reduced) > 1:
        reduced = [_together(b, reduced)]
    if which is not _SHORT and reduced and any(not f.is_exact for f in folds):
        stmts += _blocked(lowering, b, reduced, roots, folds, inner, keeping, which)
        if which is _ALL:
            stmts += _from_end_to_end(lowering, b, reduced, roots, folds)
    else:
        headers = counted(b, reduced, "j", SERIAL if which is _SHORT else VECTOR)
        stmts += nest(headers, _stream(lowering, b, reduced, roots, folds, inner, keeping))
    for root, fold in zip(roots, folds):
        stmts.append(Init(lowering.bindings[root.number].index, fold.result))
    return stmts


def _together(b: KernelBuilder, axes: Sequence[Axis]) -> Axis:
    """One axis that runs through all of `axes`, which are placed by it."""
    together = Axis((loop_var("j0"),), math.prod(a.extent for a in axes))
    b.split(together.var, axes)
    return together


def _blocked(
    lowering: GroupLowering, b: KernelBuilder, reduced: Sequence[Axis], roots: Sequence[Root],
    folds: Sequence[Fold], inner: Sequence[Root], keeping: Sequence[Kept], which: str,
) -> tuple[Stmt, ...]:  # fmt: skip
    """The innermost axis in blocks, each with accumulators of its own."""
    length = lowering.tuning.row_block
    block, blocks = loop_var("block"), ceil_div(reduced[-1].extent, length)
    headers = counted(b, reduced[:-1], "j")
    if which is _ALL:
        stop = computed(_unless, reduced[0].extent, _length(reduced), 0, lowering.tuning.short_row)
        headers[0] = replace(headers[0], stop=b.slot("long", stop))
    headers.append(Header(block, scalar.const(0), b.slot("blocks", blocks), SERIAL))
    vector = stretch(b, reduced[-1], f"j{len(reduced) - 1}", block, scalar.const(length), VECTOR)
    parts = [new_fold(lowering, r) for r in roots]
    body: list[Stmt] = [s for f in parts for s in f.inits()]
    body += nest([vector], _stream(lowering, b, reduced, roots, parts, inner, keeping))
    body += [whole.update(whole.merged(part.state)) for whole, part in zip(folds, parts)]
    return nest(headers, body)


def _from_end_to_end(
    lowering: GroupLowering, b: KernelBuilder, reduced: Sequence[Axis], roots: Sequence[Root], folds: Sequence[Fold]
) -> tuple[Stmt, ...]:
    """The folds of a short row, without blocks; nothing if it is long."""
    b.forget()
    headers = counted(b, reduced, "j")
    stop = computed(_unless, reduced[0].extent, _length(reduced), lowering.tuning.short_row + 1, math.inf)
    headers[0] = replace(headers[0], stop=b.slot("short", stop))
    stmts = nest(headers, _stream(lowering, b, reduced, roots, folds, (), ()))
    b.forget()
    return stmts


def _stream(
    lowering: GroupLowering, b: KernelBuilder, reduced: Sequence[Axis], roots: Sequence[Root],
    folds: Sequence[Fold], inner: Sequence[Root], keeping: Sequence[Kept],
) -> list[Stmt]:  # fmt: skip
    """What happens to one element: folded, kept, and stored."""
    stmts: list[Stmt] = []
    for root, fold in zip(roots, folds):
        element = b.finish(lowering.expression(root))
        stmts.append(fold.update(fold.stepped(element, b.row_major(reduced))))
    stmts += [_keep(lowering, b, reduced, k) for k in keeping]
    return stmts + lowering.store_full(b, inner)


def _keep(lowering: GroupLowering, b: KernelBuilder, reduced: Sequence[Axis], kept: Kept) -> Stmt:
    value = b.finish(kept.expr)
    if kept.tile is None:
        return b.store(kept.root.number, lowering.group.index, value)
    return b.store_scratch(kept.tile, b.row_major(reduced), value)


def _outer(lowering: GroupLowering, b: KernelBuilder, phases: Phases, p: int) -> list[Stmt]:
    """Maps over the kept axes that are ready at phase `p`, and stores of what is."""
    stmts: list[Stmt] = []
    for root in lowering.outer_maps:
        if phases.ready[root.number] == p:
            stmts.append(Init(lowering.bindings[root.number].index, b.finish(lowering.expression(root))))
    for root in lowering.group.roots:
        if lowering.is_outer_store(root) and phases.ready[root.number] == p:
            stmts.append(b.store(root.number, lowering.outer_index(root), lowering.bindings[root.number]))
    return stmts
