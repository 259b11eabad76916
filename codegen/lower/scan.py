"""Scans: along their axis one element after another, the other axes in parallel.

    one launch:    for each row: the accumulators go along it, every state is stored

Where rows are few and long, and stretches of one may be merged, they are cut into chunks about as long as there are
chunks:

    totals:        for each row and chunk: its elements are folded
    prefixes:      for each row: the totals before each chunk, in place
    results:       for each row and chunk: from the prefix on, every state is stored

Places along the axis are counted in the direction of the scan. Boundaries depend on the shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jitgrad.ir import scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.op import ScanOp
from jitgrad.ir.scalar import Expr

from ..loops.ir import AccRef, Init, LoopVar, Stmt, Update, loop_var
from .group_lowering import GroupLowering, ceil_div, operand_dtype
from .kernel_builder import KernelBuilder, Launch, Scratch
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, nest, stretch
from .nest import Axis


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan: what it is of, and its loops."""

    lowering: GroupLowering
    op: ScanOp
    dtype: DType
    elements: tuple[Expr, ...]
    outer: Sequence[Axis]
    along: Axis
    inner: Sequence[Axis]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return math.prod(a.extent for a in (*self.outer, *self.inner))

    @property
    def chunks(self) -> int:
        """How many chunks a row is cut into."""
        tuning, n = self.lowering.tuning, self.along.extent
        if type(self.op).merge is ScanOp.merge or n < tuning.long_scan or self.rows >= tuning.scan_rows:
            return 1
        return ceil_div(n, 1 << math.ceil(math.log2(n) / 2))

    @property
    def chunk(self) -> Axis:
        """The axis of chunks."""
        return Axis((loop_var("chunk"),), self.chunks)

    def state(self) -> tuple[AccRef, ...]:
        """Fresh accumulators."""
        return tuple(self.lowering.new_accumulator(v.dtype) for v in self.op.initial(self.dtype))

    def inits(self, state: Sequence[AccRef], values: Sequence[Expr]) -> list[Stmt]:
        """Declares accumulators."""
        return [Init(a.index, v) for a, v in zip(state, values)]

    def update(self, state: Sequence[AccRef], values: Sequence[Expr]) -> Update:
        """Sets accumulators."""
        return Update(tuple(a.index for a in state), tuple(values))

    def builder(self) -> KernelBuilder:
        """For one of the kernels."""
        b = self.lowering.builder()
        b.use_axes([*self.outer, self.along, *self.inner])
        return b

    def lanes(self, b: KernelBuilder, chunked: bool) -> tuple[list[Header], int]:
        """The loops over rows, and over chunks if there are; and the length of the parallel one."""
        tasks = [*self.outer, *([self.chunk] if chunked else [])]
        if self.lowering.tuning.flat or not self.inner:
            return self.tasks(b, [*tasks, *self.inner])
        length, last = self.lowering.tuning.columns, self.inner[-1]
        blocks = Axis((loop_var("blocks"),), ceil_div(last.extent, length))
        headers, extent = self.tasks(b, [*tasks, *self.inner[:-1], blocks])
        return [*headers, stretch(b, last, "j", b.finish(blocks.var), scalar.const(length), VECTOR)], extent

    @staticmethod
    def tasks(b: KernelBuilder, axes: Sequence[Axis]) -> tuple[list[Header], int]:
        """One parallel loop over `axes`, and its length."""
        b.split(TASK, axes)
        extent = math.prod(a.extent for a in axes)
        return [Header(TASK, scalar.const(0), b.length(axes), PARALLEL)], extent

    def stretch(self, b: KernelBuilder, kind: str) -> Header:
        """The loop along a chunk."""
        length = b.slot("chunk length", ceil_div(self.along.extent, self.chunks))
        start = b.finish(self.chunk.var) * length
        stop = scalar.minimum(start + length, b.extent(self.along))
        return Header(self._place(b), start, stop, kind)

    def whole(self, b: KernelBuilder) -> Header:
        """The loop along a row."""
        return Header(self._place(b), scalar.const(0), b.extent(self.along), SERIAL)

    def _place(self, b: KernelBuilder) -> LoopVar:
        k = loop_var("k")
        b.place[self.along.var] = b.extent(self.along) - scalar.const(1) - k if self.op.reverse else k
        return k

    def folding(self, b: KernelBuilder, state: Sequence[AccRef]) -> list[Stmt]:
        """One element more."""
        return [self.update(state, self.op.step(tuple(state), tuple(b.finish(e) for e in self.elements)))]

    def storing(self, b: KernelBuilder, state: Sequence[AccRef]) -> list[Stmt]:
        """One element more, and the state after it stored."""
        (root,) = self.lowering.group.roots
        result = self.op.finish(tuple(state), self.dtype)
        return [*self.folding(b, state), b.store(root.number, self.lowering.group.index, result)]


def lower_scan(lowering: GroupLowering) -> list[Launch]:
    """One launch, or three for few long rows."""
    (root,) = lowering.group.roots
    assert root.value.node is not None and isinstance(root.value.node.op, ScanOp)
    op, rank = root.value.node.op, len(lowering.group.domain)
    elements = (lowering.expression(root), *root.ordered)
    outer = lowering.loops(range(op.axis), elements)
    inner = lowering.loops(range(op.axis + 1, rank), elements)
    (along,) = lowering.loops([op.axis], elements)
    scan = _Scan(lowering, op, operand_dtype(root), elements, outer, along, inner)
    if scan.chunks == 1:
        return [_in_one(scan)]
    totals = [Scratch(v.dtype, scan.rows * scan.chunks) for v in op.initial(scan.dtype)]
    return [_totals(scan, totals), _prefixes(scan, totals), _results(scan, totals)]


def _in_one(scan: _Scan) -> Launch:
    b, lowering = scan.builder(), scan.lowering
    headers, extent = scan.lanes(b, chunked=False)
    state = scan.state()
    body = [*scan.inits(state, scan.op.initial(scan.dtype)), *nest([scan.whole(b)], scan.storing(b, state))]
    return b.launch(nest(headers, body), extent, lowering.operations, lowering.label())


def _cell(scan: _Scan, b: KernelBuilder) -> Expr:
    """Where the totals of a chunk lie."""
    return b.row_major([*scan.outer, scan.chunk, *scan.inner])


def _totals(scan: _Scan, totals: Sequence[Scratch]) -> Launch:
    b, lowering = scan.builder(), scan.lowering
    headers, extent = scan.lanes(b, chunked=True)
    state = scan.state()
    body = scan.inits(state, scan.op.initial(scan.dtype))
    body += nest([scan.stretch(b, SERIAL if scan.inner else VECTOR)], scan.folding(b, state))
    body += [b.store_scratch(t, _cell(scan, b), a) for t, a in zip(totals, state)]
    return b.launch(nest(headers, body), extent, lowering.operations, lowering.label(" totals"))


def _prefixes(scan: _Scan, totals: Sequence[Scratch]) -> Launch:
    b, c = scan.builder(), loop_var("c")
    headers, extent = scan.tasks(b, [*scan.outer, *scan.inner])
    b.place[scan.chunk.var] = c
    state, held = scan.state(), scan.state()
    merged = scan.op.merge(state, held)
    assert merged is not None
    step = [
        *scan.inits(held, [b.load_scratch(t, _cell(scan, b)) for t in totals]),
        *(b.store_scratch(t, _cell(scan, b), a) for t, a in zip(totals, state)),
        scan.update(state, merged),
    ]
    chunks = Header(c, scalar.const(0), b.extent(scan.chunk), SERIAL)
    body = [*scan.inits(state, scan.op.initial(scan.dtype)), *nest([chunks], step)]
    return b.launch(nest(headers, body), extent, extent * scan.chunks, scan.lowering.label(" prefixes"))


def _results(scan: _Scan, totals: Sequence[Scratch]) -> Launch:
    b, lowering = scan.builder(), scan.lowering
    headers, extent = scan.lanes(b, chunked=True)
    state = scan.state()
    body = scan.inits(state, [b.load_scratch(t, _cell(scan, b)) for t in totals])
    body += nest([scan.stretch(b, SERIAL)], scan.storing(b, state))
    return b.launch(nest(headers, body), extent, lowering.operations, lowering.label())
