"""Emits one kernel as one LLVM function: statements, loops, accumulators.

A "vector" loop becomes explicit vector code: whole registers first (several at a time where a reduction's latency
wants it), then the rest under a mask, or one element at a time on machines without masked memory access. Reductions
keep one partial result per lane and fold them in a fixed tree; the order is fixed by the text and the target, never
by the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..loops.analysis import changes
from ..loops.ir import Init, Kernel, Loop, Stmt, Store, Update, acc_ref
from ..loops.pieces import Pieces, pieces_of
from . import llvm_ir as ir
from .emit_analysis import has_many_addresses, is_multiple
from .emit_pieces import PieceEmitter
from .emit_reduction import VectorPlan, combine, combine_lanes, vector_plan
from .emit_scalar import constant
from .emit_square import Square, exchanged, square_of
from .emit_stream import STREAMED_FROM, Streams, are_aligned, bytes_per_iteration, streamed_buffers, wait_for_stores
from .emit_types import I32, I64, plain, ramp_constant, register_type, splat
from .emit_values import Accumulator, Scope
from .options import EmitOptions


def emit_kernel(module: ir.Module, symbol: str, kernel: Kernel, options: EmitOptions) -> ir.Function:
    """Add `kernel` to `module` as function `symbol` with the signature of `abi`."""
    return KernelEmitter(module, symbol, kernel, options).run()


class KernelEmitter(PieceEmitter):
    """Emits statements; `ValueEmitter` does expressions and memory, `PieceEmitter` conditions of vector loops."""

    def run(self) -> ir.Function:
        """Emit the whole body."""
        self.block(self.kernel.body)
        self.builder.ret_void()
        return self.function

    def block(self, body: Iterable[Stmt]) -> None:
        """Emit statements in order."""
        for stmt in body:
            match stmt:
                case Loop():
                    self._loop(stmt)
                case Init():
                    self._init(stmt)
                case Update():
                    self._update(stmt)
                case Store():
                    self.store(stmt, self.scope.lanes)

    def _init(self, stmt: Init) -> None:
        lanes, dtype = self.scope.lanes, stmt.value.dtype
        value = self.value(stmt.value, lanes)
        cell = self.alloca(register_type(dtype, lanes))
        self.builder.store(value, cell)
        self.scope.accumulators[stmt.index] = Accumulator(cell, dtype, lanes)
        self.forget(frozenset({("acc", stmt.index)}))

    def _update(self, stmt: Update) -> None:
        b = self.builder
        targets = [self.accumulator(i) for i in stmt.indices]
        values = [self.value(v, t.lanes) for t, v in zip(targets, stmt.values)]
        mask = self.scope.mask
        for target, index, value in zip(targets, stmt.indices, values):
            if mask is not None and target.outer:
                value = b.select(mask, value, self.value(acc_ref(index, target.dtype), target.lanes))
            b.store(value, target.cell)
        self.forget(frozenset({("acc", i) for i in stmt.indices}))

    # Loops

    def _loop(self, loop: Loop) -> None:
        b = self.builder
        square = square_of(loop, self.kernel) if self.scope.vector is None else None
        if square is not None:
            self._square(square)
            return
        if loop.kind.startswith("parallel"):
            start, stop = self.function.args[3], self.function.args[4]
        else:
            start, stop = self.value(loop.start, 1), self.value(loop.stop, 1)
        changed = changes(loop)
        self.forget(changed)
        name, before = loop.var.name, b.block
        enter, leave = b.append_basic_block(f"{name}.enter"), b.append_basic_block(f"{name}.leave")
        b.cbranch(b.icmp_signed("<", start, stop), enter, leave)
        b.position_at_end(enter)
        around = self.scope
        guarded = Scope(around, frozenset(), before, True, around.lanes, around.vector, around.mask)
        plan = None
        if loop.kind.endswith("vector") and around.vector is None:
            plan = vector_plan(loop, self.kernel, self.dependencies, self.options)
        with self.inside(guarded):
            if plan is None:
                self._serial_loop(loop, start, stop, enter)
            else:
                self.streams = self._streams(loop, start)
                pieces = pieces_of(loop, self.dependencies) if self._may_be_in_pieces(plan) else None
                if pieces is None:
                    self._vector_loop(loop, plan, start, stop)
                else:
                    self._loop_in_pieces(loop, plan, pieces, start, stop)
        if self.streams is not None:
            wait_for_stores(b, self.streams.chosen)
            self.streams = None
        b.branch(leave)
        b.position_at_end(leave)
        self.forget(changed)

    def _streams(self, loop: Loop, start: ir.Value) -> Streams | None:
        """What the loop may write past the caches."""
        buffers = streamed_buffers(loop, self.kernel)
        if not buffers:
            return None
        b = self.builder
        moved = b.mul(self.value(loop.stop, 1), I64(bytes_per_iteration(loop, self.kernel)))
        aligned = are_aligned(b, (self._address(k, start) for k in sorted(buffers)))
        return Streams(buffers, b.and_(b.icmp_signed(">=", moved, I64(STREAMED_FROM)), aligned))

    def _square(self, square: Square) -> None:
        """Rows as vectors, turned, and stored as columns."""
        b, around, side, store = self.builder, self.scope, square.side, square.store
        itemsize = self.kernel.buffers[store.buffer].dtype.itemsize
        before, rows = self._next_block("square"), []
        changed = changes(square.row)
        self.forget(changed)
        columns = Scope(around, changes(square.column), before, False, side, square.column.var)
        columns.values[square.column.var, 1] = I64(0)
        with self.inside(columns):
            for k in range(side):
                row = Scope(columns, frozenset({("loop", square.row.var.name)}), self._next_block("row"), False, side,
                            square.column.var)  # fmt: skip
                row.values[square.row.var, 1] = I64(k)
                with self.inside(row):
                    rows.append(self.bits(square.value, side))
        for k, column in enumerate(exchanged(b, rows)):
            place = Scope(around, changed, self._next_block("column"))
            place.values[square.row.var, 1], place.values[square.column.var, 1] = I64(0), I64(k)
            with self.inside(place):
                address = self._address(store.buffer, self.value(store.index, 1))
                b.store(column, address, align=itemsize)
        self.forget(changed)

    def _next_block(self, name: str) -> ir.Block:
        """Go on in a new block; the one that ends here."""
        b, before = self.builder, self.builder.block
        following = b.append_basic_block(name)
        b.branch(following)
        b.position_at_end(following)
        return before

    def _serial_loop(self, loop: Loop, start: ir.Value, stop: ir.Value, enter: ir.Block) -> None:
        """A loop of one element (per lane of the vector loop around it, if any) at a time; `start < stop` holds."""
        b, around = self.builder, self.scope
        body, done = b.append_basic_block(f"{loop.var.name}.body"), b.append_basic_block(f"{loop.var.name}.done")
        came_from = b.block
        b.branch(body)
        b.position_at_end(body)
        index = b.phi(I64)
        index.add_incoming(start, came_from)
        scope = Scope(around, changes(loop), enter, False, around.lanes, around.vector, around.mask)
        scope.values[loop.var, 1] = plain(b, index) if has_many_addresses(loop) else index
        with self.inside(scope):
            self.block(loop.body)
        following = b.add(index, I64(1))
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, stop), body, done)
        b.position_at_end(done)

    def _vector_loop(self, loop: Loop, plan: VectorPlan, start: ir.Value, stop: ir.Value) -> None:
        """Whole registers, then the rest; `start < stop` holds."""
        b, name, step = self.builder, loop.var.name, plan.lanes * plan.interleave
        enter = b.block
        if plan.masked:
            partial = self._partials(plan)
            self._masked_loop(loop, plan, enter, start, stop, partial)
            self._fold(plan, partial)
            return
        partials = [self._partials(plan) for _ in range(plan.interleave)]
        count = b.sub(stop, start)
        main_stop = b.add(start, b.sub(count, b.and_(count, I64(step - 1))))
        body, joined, after = (b.append_basic_block(f"{name}.{part}") for part in ("vector", "joined", "rest"))
        b.cbranch(b.icmp_signed("<", start, main_stop), body, after)

        b.position_at_end(body)
        index = b.phi(I64)
        index.add_incoming(start, enter)
        for copy in range(plan.interleave):
            first = index if copy == 0 else b.add(index, I64(copy * plan.lanes))
            self._vector_body(loop, plan, enter, first, partials[copy], None)
        following = b.add(index, I64(step))
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, main_stop), body, joined)

        b.position_at_end(joined)
        self._join(plan, partials)  # here, so that short rows, which have a rest alone, do without it
        b.branch(after)

        b.position_at_end(after)
        if is_multiple(loop, step):
            self._fold(plan, partials[0])
        elif self.options.masked_tails:
            self._masked_rest(loop, plan, enter, main_stop, stop, partials[0])
            self._fold(plan, partials[0])
        else:
            self._fold(plan, partials[0])
            self._scalar_rest(loop, enter, main_stop, stop)

    def _may_be_in_pieces(self, plan: VectorPlan) -> bool:
        """Whether elements are folded in the same order in pieces."""
        return not plan.folds or (plan.interleave == 1 and self.options.masked_tails)

    def _loop_in_pieces(self, loop: Loop, plan: VectorPlan, pieces: Pieces, start: ir.Value, stop: ir.Value) -> None:
        """Whole registers up to where a condition changes, one under masks there, and so on; `start < stop` holds."""
        b, name, lanes = self.builder, loop.var.name, I64(plan.lanes)
        enter, partial = b.block, self._partials(plan)
        borders = self.borders_of(loop, pieces, start, enter)
        piece, whole, mixed, following, done = (
            b.append_basic_block(f"{name}.{part}") for part in ("piece", "whole", "mixed", "following", "done")
        )
        b.branch(piece)
        b.position_at_end(piece)
        first = b.phi(I64)
        first.add_incoming(start, enter)
        left = b.sub(self.next_border(borders, first, stop), first)
        b.cbranch(b.icmp_signed(">=", left, lanes), whole, mixed)

        b.position_at_end(whole)
        end = b.add(first, b.and_(left, I64(-plan.lanes)))
        self._whole_registers(loop, plan, pieces, first, end, enter, partial)
        came_from = b.block
        b.branch(following)

        b.position_at_end(mixed)
        after = b.add(first, lanes)
        self._one_register(loop, plan, enter, first, after, stop, partial)
        came_from_mixed = b.block
        b.branch(following)

        b.position_at_end(following)
        next_first = b.phi(I64)
        next_first.add_incoming(end, came_from)
        next_first.add_incoming(after, came_from_mixed)
        first.add_incoming(next_first, following)
        b.cbranch(b.icmp_signed("<", next_first, stop), piece, done)
        b.position_at_end(done)
        self._fold(plan, partial)

    def _whole_registers(
        self, loop: Loop, plan: VectorPlan, pieces: Pieces, start: ir.Value, stop: ir.Value, enter: ir.Block,
        partial: dict[int, Accumulator],
    ) -> None:  # fmt: skip
        """Registers between which no condition changes."""
        b, name = self.builder, loop.var.name
        with self.inside(self.piece_scope(loop, pieces, plan.lanes, start, enter)):
            came_from, body, end = b.block, b.append_basic_block(f"{name}.whole"), b.append_basic_block(f"{name}.end")
            b.branch(body)
            b.position_at_end(body)
            index = b.phi(I64)
            index.add_incoming(start, came_from)
            first = plain(b, index) if has_many_addresses(loop) else index
            scope = Scope(self.scope, changes(loop), came_from, False, plan.lanes, loop.var)
            scope.chosen = self.scope.chosen
            scope.accumulators.update(partial)
            scope.values[loop.var, 1] = first
            with self.inside(scope):
                self.block(loop.body)
            following = b.add(index, I64(plan.lanes))
            index.add_incoming(following, b.block)
            b.cbranch(b.icmp_signed("<", following, stop), body, end)
            b.position_at_end(end)

    def _one_register(
        self, loop: Loop, plan: VectorPlan, enter: ir.Block, start: ir.Value, after: ir.Value, stop: ir.Value,
        partial: dict[int, Accumulator],
    ) -> None:  # fmt: skip
        """As many elements as a register has, if there are, each under its own conditions."""
        b = self.builder
        if not self.options.masked_tails:
            self._serial_loop(loop, start, b.select(b.icmp_signed("<", after, stop), after, stop), enter)
            return
        first = plain(b, start)
        mask, whole = self._mask(plan, first, stop)
        self._vector_body(loop, plan, enter, first, partial, mask, whole)

    def _mask(self, plan: VectorPlan, first: ir.Value, stop: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Which lanes are below `stop`, and whether all are."""
        b, lanes = self.builder, I64(plan.lanes)
        left = b.sub(stop, first)
        whole = b.icmp_signed(">=", left, lanes)
        left = b.trunc(b.select(b.icmp_signed("<", left, lanes), left, lanes), I32)
        return b.icmp_signed("<", ramp_constant(I32, range(plan.lanes)), splat(b, left, plan.lanes)), whole

    def _vector_body(
        self, loop: Loop, plan: VectorPlan, enter: ir.Block, first: ir.Value,
        partials: dict[int, Accumulator], mask: ir.Value | None, whole: ir.Value | None = None,
    ) -> None:  # fmt: skip
        scope = Scope(self.scope, changes(loop), enter, False, plan.lanes, loop.var, mask, whole)
        scope.values[loop.var, 1] = first
        scope.accumulators.update(partials)
        with self.inside(scope):
            self.block(loop.body)

    def _masked_rest(
        self, loop: Loop, plan: VectorPlan, enter: ir.Block, start: ir.Value, stop: ir.Value,
        partials: dict[int, Accumulator],
    ) -> None:  # fmt: skip
        """The last elements, if there are any left."""
        b, name = self.builder, loop.var.name
        some, done = b.append_basic_block(f"{name}.some"), b.append_basic_block(f"{name}.done")
        b.cbranch(b.icmp_signed("<", start, stop), some, done)
        b.position_at_end(some)
        self._masked_loop(loop, plan, enter, start, stop, partials)
        b.branch(done)
        b.position_at_end(done)

    def _masked_loop(
        self, loop: Loop, plan: VectorPlan, enter: ir.Block, start: ir.Value, stop: ir.Value,
        partials: dict[int, Accumulator],
    ) -> None:  # fmt: skip
        """Registers in which the lanes beyond `stop` are idle; `start < stop` holds."""
        b, name = self.builder, loop.var.name
        came_from = b.block
        body, end = b.append_basic_block(f"{name}.masked"), b.append_basic_block(f"{name}.end")
        b.branch(body)
        b.position_at_end(body)
        index = b.phi(I64)
        index.add_incoming(start, came_from)
        is_tail = not plan.masked
        first, lanes = plain(b, index) if is_tail or has_many_addresses(loop) else index, I64(plan.lanes)
        mask, whole = self._mask(plan, first, stop)
        self._vector_body(loop, plan, enter, first, partials, mask, whole)
        following = b.add(index, lanes)
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, stop), body, end)
        b.position_at_end(end)

    def _scalar_rest(self, loop: Loop, enter: ir.Block, start: ir.Value, stop: ir.Value) -> None:
        """The last elements, one at a time."""
        b, done = self.builder, self.builder.append_basic_block(f"{loop.var.name}.finished")
        single = b.append_basic_block(f"{loop.var.name}.single")
        b.cbranch(b.icmp_signed("<", start, stop), single, done)
        b.position_at_end(single)
        self._serial_loop(loop, start, stop, enter)
        b.branch(done)
        b.position_at_end(done)

    # Reductions

    def _partials(self, plan: VectorPlan) -> dict[int, Accumulator]:
        """Fresh partial results of the folded accumulators."""
        cells: dict[int, Accumulator] = {}
        for fold in plan.folds:
            for m, index in enumerate(fold.indices):
                target = self.accumulator(index)
                cell = self.alloca(register_type(target.dtype, plan.lanes))
                if fold.neutral is None:
                    kind = register_type(target.dtype, 1)
                    start = splat(self.builder, self.builder.load(target.cell, typ=kind), plan.lanes)
                else:
                    start = constant(fold.neutral[m], target.dtype, plan.lanes)
                self.builder.store(start, cell)
                cells[index] = Accumulator(cell, target.dtype, plan.lanes, outer=True)
        return cells

    def _join(self, plan: VectorPlan, partials: list[dict[int, Accumulator]]) -> None:
        """Fold the partial results of several registers into those of the first, in halves."""
        b = self.builder
        for fold in plan.folds:
            parts = [[self._read(cells[i]) for i in fold.indices] for cells in partials]
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [combine(b, fold, low, high, plan.lanes) for low, high in pairs]
            for index, value in zip(fold.indices, parts[0]):
                b.store(value, partials[0][index].cell)

    def _fold(self, plan: VectorPlan, partials: dict[int, Accumulator]) -> None:
        """Fold the lanes of partial results into the accumulators they stand for."""
        b = self.builder
        for fold in plan.folds:
            whole = combine_lanes(b, fold, [self._read(partials[i]) for i in fold.indices], plan.lanes)
            targets = [self.accumulator(i) for i in fold.indices]
            new = combine(b, fold, [self._read(t) for t in targets], whole, 1)
            for target, value in zip(targets, new):
                b.store(value, target.cell)

    def _read(self, accumulator: Accumulator) -> ir.Value:
        kind = register_type(accumulator.dtype, accumulator.lanes)
        return self.builder.load(accumulator.cell, typ=kind)


__all__ = ["KernelEmitter", "emit_kernel"]
