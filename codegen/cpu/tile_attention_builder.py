"""What attention kernels are built with: sums of products in registers, exponentials, rows in tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jitgrad.ir.dtypes import float32
from jitgrad.ir.scalar import Fn

from ..loops.attention import ATTENTION_SLOTS, AttentionKernel
from . import llvm_ir as ir
from .emit_math import math_function, random_word
from .emit_types import I32, I64, lane_order, ramp_constant, splat, splat_constant, undefined
from .tile_builder import TileBuilder
from .tile_memory import declared, suffix

Sums: TypeAlias = list[list[ir.Value]]  # stack cells [row][vector]


class AttentionBuilder(TileBuilder):
    """Builds an attention kernel. `scales`: as in `EmitOptions`."""

    def __init__(self, module: ir.Module, symbol: str, kernel: AttentionKernel, scales: bool) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel, self._scales = kernel, scales
        self.tile = kernel.vectors * kernel.lanes
        self.blank = splat_constant(self.element, float("-inf"), self.lanes)
        self.endless = splat_constant(self.element, float("inf"), self.lanes)

    def n(self, name: str) -> ir.Value:
        """A run-time number, loaded anew wherever it is used: held in registers they would crowd out the rest."""
        return self.slot(ATTENTION_SLOTS[name])

    def scale(self) -> ir.Value:
        """What scores are scaled by, in every lane."""
        return splat(self.b, self._param(0, self.element), self.lanes)

    def called(self, fn: Fn, x: ir.Value) -> ir.Value:
        """A function of a vector."""
        return self.b.call(math_function(self.b.module, fn, self.wide, self.lanes, self._scales), [x])

    def exponential(self, x: ir.Value) -> ir.Value:
        """e**x, 0 where that is no normal number, for which machines take their time."""
        lowest = splat_constant(self.element, -87.0 if self.wide is float32 else -708.0, self.lanes)
        below = self.b.fcmp_ordered("<", x, lowest)
        return self.b.select(below, self.zero, self.called(Fn.EXP, self.b.select(below, lowest, x)))

    def read_random(self, index: int) -> int:
        """Have seed and offset, if there are any, in buffers from `index` on; gives the index of what follows."""
        if not self.kernel.drops:
            return index
        self.seed, self.offset = (self.b.load(self.buffer(i), typ=I64) for i in (index, index + 1))
        return index + 2

    def counter(self, number: ir.Value, query: ir.Value, key: ir.Value) -> ir.Value:
        """The counter that a weight of a head is dropped by."""
        row = self.sum(self.product(number, self.n("queries")), query)
        return self.sum(self.offset, self.product(row, self.n("keys")), key)

    def counters(self, first: ir.Value, step: int | ir.Value) -> ir.Value:
        """Those of a tile's lanes, `step` apart."""
        b, steps = self.b, splat(self.b, self.number(step), self.tile)
        return b.add(splat(b, first, self.tile), b.mul(ramp_constant(I64, range(self.tile)), steps))

    def kept(self, counters: ir.Value) -> list[ir.Value]:
        """Where weights with these counters are not dropped, by vector."""
        b = self.b
        words = b.call(random_word(b.module, self.tile), [self.seed, counters])
        kept = b.icmp_signed(">=", words, splat(b, self._param(1, I64), self.tile))
        parts = [range(first, first + self.lanes) for first in range(0, self.tile, self.lanes)]
        return [b.shuffle_vector(kept, undefined(kept.type), lane_order(tuple(part))) for part in parts]

    def kept_factor(self) -> ir.Value:
        """What weights are multiplied by that are not dropped."""
        return splat(self.b, self._param(2, self.element), self.lanes)

    def _param(self, index: int, kind: ir.Type) -> ir.Value:
        return self.b.load(self.b.gep(self.function.args[2], [I64(index)], source_etype=I64), typ=kind)

    def masked(self, score: ir.Value, mask: ir.Value) -> ir.Value:
        """A score with what a mask adds, or puts in its place."""
        if not self.kernel.is_chosen:
            return self.b.fadd(score, mask)
        return self.b.select(self.is_kept(mask), score, mask)

    def is_kept(self, mask: ir.Value) -> ir.Value:
        """Where a mask puts nothing in the place of scores."""
        return self.b.fcmp_unordered("uno", mask, mask)

    def magnitude(self, x: ir.Value) -> ir.Value:
        """A vector without its signs."""
        kind = x.type
        return self.b.call(declared(self.b.module, f"llvm.fabs.{suffix(kind)}", ir.FunctionType(kind, [kind])), [x])

    def larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger number, or `y` where `x` is NaN."""
        return self.b.select(self.b.fcmp_ordered(">", x, y), x, y)

    def ceiling(self, x: ir.Value, step: int | ir.Value) -> ir.Value:
        """How many steps cover `x`."""
        return self.b.sdiv(self.sum(x, step, -1), self.number(step))

    def maximum(self, x: int | ir.Value, y: int | ir.Value) -> ir.Value:
        """The larger integer."""
        x, y = self.number(x), self.number(y)
        return self.b.select(self.b.icmp_signed(">", x, y), x, y)

    def place(self, prefix: str, outer: ir.Value, head: ir.Value) -> ir.Value:
        """Where a head starts."""
        return self.sum(self.product(outer, self.n(prefix + "_outer")), self.product(head, self.n(prefix + "_head")))

    def places(self, base: ir.Value, *offsets: int | ir.Value) -> list[ir.Value]:
        """Addresses of neighbouring vectors."""
        return [self.at(base, *offsets, v * self.lanes) for v in range(self.kernel.vectors)]

    def lanes_left(self, count: ir.Value) -> list[ir.Value]:
        """Masks of the first `count` lanes of neighbouring vectors."""
        return [self.between(I64(0), self.b.sub(count, I64(v * self.lanes))) for v in range(self.kernel.vectors)]

    def lanes_from(self, first: ir.Value, v: int) -> ir.Value:
        """Where lane numbers, counted on through neighbouring vectors, are at least `first`: mask of vector `v`."""
        ramp = ramp_constant(I32, range(v * self.lanes, (v + 1) * self.lanes))
        return self.b.icmp_signed(">=", ramp, splat(self.b, self.b.trunc(first, I32), self.lanes))

    def lanes_up_to(self, last: ir.Value, v: int) -> ir.Value:
        """Where such lane numbers are at most `last`."""
        ramp = ramp_constant(I32, range(v * self.lanes, (v + 1) * self.lanes))
        return self.b.icmp_signed("<=", ramp, splat(self.b, self.b.trunc(last, I32), self.lanes))

    def cleared(self, base: ir.Value, count: ir.Value) -> None:
        """Zeros in memory."""
        with self.loop(count, step=self.lanes) as i:
            self.write_some(self.at(base, i), self.zero, self.between(I64(0), self.b.sub(count, i)))

    def sums(self, rows: int) -> Sums:
        """Cells of zeros."""
        cells = [[self.cell(self.vector) for _ in range(self.kernel.vectors)] for _ in range(rows)]
        for row in cells:
            for cell in row:
                self.b.store(self.zero, cell)
        return cells

    def add_products(
        self,
        sums: Sums,
        stop: ir.Value,
        scalar: Callable[[int, ir.Value], ir.Value],
        vectors: Callable[[ir.Value], list[ir.Value]],
        start: int | ir.Value = 0,
    ) -> None:
        """`sums[row] += scalar(row, k) * vectors(k)` for k from `start` to `stop`; `scalar` gives addresses."""
        b = self.b
        with self.loop(stop, start=start) as k:
            factors = vectors(k)
            for r, row in enumerate(sums):
                value = self.spread(scalar(r, k))
                for factor, cell in zip(factors, row, strict=True):
                    b.store(self.fma(value, factor, b.load(cell, typ=self.vector)), cell)

    def held(self, cell: ir.Value) -> ir.Value:
        """What is in a cell."""
        return self.b.load(cell, typ=self.vector)

    def by_rows(self, start: int | ir.Value, stop: ir.Value, body: Callable[[ir.Value, int], None]) -> None:
        """`body(row, rows)` for tiles of the kernel's rows, and for each row that is left over."""
        rows = self.kernel.rows
        with self.loop(self.sum(stop, 1 - rows), step=rows, start=start) as i:
            body(i, rows)
        if rows > 1:
            whole = self.b.sdiv(self.b.sub(stop, self.number(start)), I64(rows))
            with self.loop(stop, start=self.sum(start, self.product(whole, rows))) as i:
                body(i, 1)

    def pack(
        self, source: ir.Value, by_row: ir.Value, rows: ir.Value, columns: ir.Value, target: ir.Value, pitch: ir.Value,
        room: ir.Value,
    ) -> None:  # fmt: skip
        """A matrix [rows, columns] transposed into the kernel's memory, [columns, room], zeros behind the rows."""
        with self.loop(columns, step=self.lanes) as c, self.loop(room, step=self.lanes) as r:
            left = self.b.sub(columns, c)
            self.pack_square(
                self.at(source, self.product(r, by_row), c), by_row, self.b.sub(rows, r), self.between(I64(0), left),
                self.at(target, self.product(c, pitch), r), pitch, left, self.everywhere,
            )  # fmt: skip
