"""Matrix products whose factors are packed by the tasks that need them.

    for each task: a chunk of rows, some blocks of columns
        for each piece of the contracted axis
            pack the chunk of `x` as [tile][term][row], if it is turned
            for each block of columns
                pack the block of `w` as [term][column]
                for each tile of rows
                    registers [row][column] += x[row] * w[column], over the piece

What stands in the result after one piece is where the next goes on, so that sums are added up in order. Rows behind
the last are the last one again, and are not stored. The numbers: rows, inner, columns, rows of a chunk, blocks of a
task, tasks side by side, blocks, terms of a piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..loops.tile import TileKernel
from . import llvm_ir as ir
from .emit_types import I1, I64
from .tile_builder import TileBuilder

_NUMBERS: Final = ("rows", "inner", "columns", "chunk", "group", "groups", "blocks", "depth")
_GAP: Final = 16  # elements between packed tiles, which else begin in the same set of a cache


def emit_product(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the product to `module`. Buffers: first factor, second factor, result."""
    return _Product(module, symbol, kernel).run()


class _Product(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.width = kernel.vectors * kernel.lanes
        self.turns_first, self.turns_second = kernel.turned

    def run(self) -> ir.Function:
        """The whole function."""
        b, kernel = self.b, self.kernel
        self.x, self.w, self.y = (self.buffer(k) for k in range(3))
        self.n = n = {name: self.slot(k) for k, name in enumerate(_NUMBERS)}
        self.panel = self.scratch(self.product(n["depth"], self.width))
        if self.turns_first:
            tiles = b.sdiv(self.sum(n["chunk"], kernel.rows - 1), I64(kernel.rows))
            self.packed = self.scratch(self.product(tiles, self.sum(self.product(n["depth"], kernel.rows), _GAP)))
        pieces = b.sdiv(self.sum(n["inner"], n["depth"], -1), n["depth"])
        with self.loop(self.end, start=self.begin) as task:
            chunk, group = self.split(task, n["groups"])
            start, first = self.product(chunk, n["chunk"]), self.product(group, n["group"])
            rows = start, self.minimum(self.sum(start, n["chunk"]), n["rows"])
            last = self.minimum(self.sum(first, n["group"]), n["blocks"])
            with self.loop(pieces) as piece:
                at = self.product(piece, n["depth"])
                terms = at, self.minimum(n["depth"], b.sub(n["inner"], at))
                if self.turns_first:
                    self._pack_rows(rows, terms)
                with self.loop(last, start=first) as block:
                    self._block(rows, terms, self.product(block, self.width))
        return self.finish()

    def _block(self, rows: tuple[ir.Value, ir.Value], terms: tuple[ir.Value, ir.Value], column: ir.Value) -> None:
        """All rows of a chunk, for one block of columns; `terms` are the first one of a piece, and how many."""
        b, n = self.b, self.n
        left = b.sub(n["columns"], column)
        masks = [self.between(I64(0), b.sub(left, I64(v * self.lanes))) for v in range(self.kernel.vectors)]
        if self.turns_second:
            self._turn_columns(terms, column, left)
        else:
            self._pack_columns(terms, column, masks)
        with self.loop(rows[1], step=self.kernel.rows, start=rows[0]) as row:
            self._tile(rows, row, terms, column, masks)

    # Packing

    def _pack_columns(self, terms: tuple[ir.Value, ir.Value], column: ir.Value, masks: list[ir.Value]) -> None:
        first, count = terms
        source = self.at(self.w, self.product(first, self.n["columns"]), column)
        with self.loop(count) as k:
            place = self.product(k, self.n["columns"])
            for v, mask in enumerate(masks):
                value = self.read_some(self.at(source, place, v * self.lanes), mask)
                self.write(self.at(self.panel, self.product(k, self.width), v * self.lanes), value)

    def _turn_columns(self, terms: tuple[ir.Value, ir.Value], column: ir.Value, left: ir.Value) -> None:
        b, inner, (first, count) = self.b, self.n["inner"], terms
        with self.loop(count, step=self.lanes) as k:
            there = b.sub(count, k)
            mask = self.between(I64(0), there)
            for v in range(self.kernel.vectors):
                row = self.sum(column, v * self.lanes)
                source = self.at(self.w, self.product(row, inner), first, k)
                target = self.at(self.panel, self.product(k, self.width), v * self.lanes)
                rows = b.sub(left, I64(v * self.lanes))
                self.pack_square(source, inner, rows, mask, target, I64(self.width), there, self.everywhere)

    def _pack_rows(self, rows: tuple[ir.Value, ir.Value], terms: tuple[ir.Value, ir.Value]) -> None:
        """Term by term, because each is a run of memory, and two are far apart."""
        b, n, tall, (start, stop), (first, count) = self.b, self.n, self.kernel.rows, rows, terms
        kind = ir.VectorType(self.element, tall)
        whole = b.sub(stop, b.srem(b.sub(stop, start), I64(tall)))
        with self.loop(count) as k:
            source = self.at(self.x, self.product(self.sum(first, k), n["rows"]))
            place = self.product(k, tall)
            with self.loop(whole, step=tall, start=start) as row:
                value = b.load(self.at(source, row), align=self.wide.itemsize, typ=kind)
                b.store(value, self.at(self._packed_tile(b.sub(row, start)), place), align=self.wide.itemsize)
            with self.loop(stop, start=whole) as row:
                target = self.at(self._packed_tile(b.sub(whole, start)), place, b.sub(row, whole))
                b.store(self.read_one(self.at(source, row)), target)

    def _packed_tile(self, row: ir.Value) -> ir.Value:
        """Where the tile is that begins with a row of the chunk, which a tile begins with."""
        return self.at(
            self.packed, self.product(row, self.n["depth"]), self.b.sdiv(self.product(row, _GAP), I64(self.kernel.rows))
        )

    # Sums

    def _tile(
        self, rows: tuple[ir.Value, ir.Value], row: ir.Value, terms: tuple[ir.Value, ir.Value], column: ir.Value,
        masks: list[ir.Value],
    ) -> None:  # fmt: skip
        b, n, tall = self.b, self.n, self.kernel.rows
        left = b.sub(rows[1], row)
        target = self.at(self.y, self.product(row, n["columns"]), column)
        sums = [[self.cell(self.vector) for _ in masks] for _ in range(tall)]
        places = [
            [self.at(target, self.product(n["columns"], r), v * self.lanes) for v in range(len(masks))]
            for r in range(tall)
        ]
        with b.if_else(b.icmp_signed(">", terms[0], I64(0))) as (goes_on, begins):
            with goes_on:
                self._for_each(left, sums, places, masks, self._resume)
            with begins:
                for cell in (c for cells in sums for c in cells):
                    b.store(self.zero, cell)
        self._add_up(rows, row, terms, sums)
        self._for_each(left, sums, places, masks, self._keep)

    def _for_each(
        self, left: ir.Value, sums: list[list[ir.Value]], places: list[list[ir.Value]], masks: list[ir.Value],
        act: Callable[[ir.Value, ir.Value, ir.Value], None],
    ) -> None:  # fmt: skip
        """Do something with each cell and its place in the result, as far as there are `left` rows."""
        b = self.b
        nowhere = ir.Constant(ir.VectorType(I1, self.lanes), [0] * self.lanes)
        with b.if_else(b.icmp_signed(">=", left, I64(self.kernel.rows))) as (whole, part):
            with whole:
                for cells, addresses in zip(sums, places):
                    for cell, address, mask in zip(cells, addresses, masks):
                        act(cell, address, mask)
            with part:
                for r, (cells, addresses) in enumerate(zip(sums, places)):
                    is_there = b.icmp_signed("<", I64(r), left)
                    for cell, address, mask in zip(cells, addresses, masks):
                        act(cell, address, b.select(is_there, mask, nowhere))

    def _resume(self, cell: ir.Value, address: ir.Value, mask: ir.Value) -> None:
        self.b.store(self.read_some(address, mask), cell)

    def _keep(self, cell: ir.Value, address: ir.Value, mask: ir.Value) -> None:
        self.write_some(address, self.b.load(cell, typ=self.vector), mask)

    def _add_up(
        self, rows: tuple[ir.Value, ir.Value], row: ir.Value, terms: tuple[ir.Value, ir.Value],
        sums: list[list[ir.Value]],
    ) -> None:  # fmt: skip
        """The innermost loop."""
        b, n, tall, (start, stop), (first, count) = self.b, self.n, self.kernel.rows, rows, terms
        if self.turns_first:
            packed = self._packed_tile(b.sub(row, start))
        else:
            numbers = [self.minimum(self.sum(row, r), b.sub(stop, I64(1))) for r in range(tall)]
            places = [self.at(self.x, self.product(r, n["inner"]), first) for r in numbers]
        with self.loop(count) as k:
            here = self.at(self.panel, self.product(k, self.width))
            factors = [self.read(self.at(here, v * self.lanes)) for v in range(self.kernel.vectors)]
            term = self.at(packed, self.product(k, tall)) if self.turns_first else None
            for r, cells in enumerate(sums):
                value = self.spread(self.at(places[r], k) if term is None else self.at(term, r))
                for factor, cell in zip(factors, cells):
                    b.store(self.fma(value, factor, b.load(cell, typ=self.vector)), cell)
