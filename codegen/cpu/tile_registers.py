"""The innermost loop of matrix products, as a function: a tile of registers is summed up and added to the result.

    void tile(shared, x, y, rows, ahead)

        registers [row][column] = sum over the terms of x[row] * panel[column]
        y[row][column] += registers, or = where it does not go on

`rows` are those that there are: one behind the last is the last one again, and is not kept. Meanwhile the lines at
`ahead`, those of the next tile of `x`, and its result, are brought near. A function of its own, whose addresses are
arguments, compiles in half the time of a loop over tiles.
"""

from __future__ import annotations

from typing import Final

from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir
from .emit_types import I32, I64, POINTER, ramp_constant, splat
from .tile_builder import FunctionBuilder
from .tile_memory import shared_part

SHARED: Final = (
    "panel", "panel_pitch", "copy", "row_pitch", "term_pitch", "tile_pitch", "line_pitch", "terms", "columns", "left",
    "goes_on", "ahead_by_term", "ahead_by_line",
)  # fmt: skip
"""What the tiles of a panel share, eight bytes each.

The panel, and its pitch from term to term; where a tile that copies it puts it, without gaps; the pitches of `x` from
row to row of a tile, from term to term, from tile to tile, and between the lines of memory that the next terms of all
rows are in; terms; the pitch of `y`; the columns that there are; 1 if something is there already, or 0; the pitches of
what is `ahead` from term to term and from line to line. All pitches are in elements.
"""
LINE: Final = 64  # bytes
_KIND: Final = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, I64, POINTER])


def tile_function(
    module: ir.Module, dtype: DType, lanes: int, rows: int, vectors: int, copies: bool = False
) -> ir.Function:
    """The function for tiles of `rows` by `vectors` registers, added to `module` if it is not there yet.

    One that `copies` packs the panel meanwhile.
    """
    name = f"tile.{dtype.name}.{lanes}.{rows}.{vectors}.{copies}"
    return shared_part(module, name, _KIND, lambda f: _Tile(f, dtype, lanes, rows, vectors, copies).build())


class _Tile(FunctionBuilder):
    def __init__(self, function: ir.Function, dtype: DType, lanes: int, rows: int, vectors: int, copies: bool) -> None:
        super().__init__(function, dtype, lanes)
        self.tall, self.vectors, self.copies = rows, vectors, copies
        self.step = LINE // self.wide.itemsize
        shared, self.x, self.y, self.rows, self.ahead = function.args
        self.n = {name: self._shared(shared, k, name) for k, name in enumerate(SHARED)}

    def _shared(self, shared: ir.Value, index: int, name: str) -> ir.Value:
        address = self.b.gep(shared, [I64(index)], source_etype=I64)
        return self.b.load(address, typ=POINTER if name in ("panel", "copy") else I64)

    def build(self) -> ir.Function:
        """The whole function."""
        b, n = self.b, self.n
        with self.loop(self.minimum(self.rows, self.tall)) as r:
            self._bring(self.at(self.y, self.product(r, n["columns"])), writes=True)
        is_there = [b.icmp_signed("<", I64(r), self.rows) for r in range(self.tall)]
        places = [self.x]
        for there in is_there[1:]:
            places.append(self.at(places[-1], b.select(there, n["row_pitch"], I64(0))))
        sums = [[self.cell(self.vector) for _ in range(self.vectors)] for _ in places]
        for cell in (c for cells in sums for c in cells):
            b.store(self.zero, cell)
        self._add_up(places, sums)
        self._keep(is_there, sums)
        return self.finish()

    def _bring(self, row: ir.Value, writes: bool = False) -> None:
        """Have a row of the result brought near."""
        for v in range(self.vectors):
            self.prefetch(self.at(row, v * self.lanes), writes, 3 if writes else 2)

    def _keep(self, is_there: list[ir.Value], sums: list[list[ir.Value]]) -> None:
        """Add to what is there."""
        b, n = self.b, self.n
        masks = self._columns(n["left"])
        old = self._columns(self.product(n["left"], n["goes_on"]))
        nowhere, y = self.scratch(I64(self.vectors * self.lanes)), self.y
        for there, cells in zip(is_there, sums):
            row = b.select(there, y, nowhere)
            for v, cell in enumerate(cells):
                place = self.at(row, v * self.lanes)
                value = b.fadd(self.read_some(place, old[v]), b.load(cell, typ=self.vector))
                self.write_some(place, value, masks[v])
            y = self.at(y, n["columns"])

    def _columns(self, count: ir.Value) -> list[ir.Value]:
        """The masks of the first columns."""
        b, lanes = self.b, self.lanes
        clipped = splat(b, b.trunc(self.minimum(count, self.vectors * lanes), I32), lanes)
        ramps = [ramp_constant(I32, range(v * lanes, (v + 1) * lanes)) for v in range(self.vectors)]
        return [b.icmp_signed("<", ramp, clipped) for ramp in ramps]

    def _add_up(self, rows: list[ir.Value], sums: list[list[ir.Value]]) -> None:
        """The innermost loop."""
        b, n = self.b, self.n
        offset, panel, copy, result = self.cell(I64), self.cell(POINTER), self.cell(POINTER), self.cell(POINTER)
        b.store(I64(0), offset)
        b.store(n["panel"], panel)
        b.store(n["copy"], copy)
        b.store(self.at(self.y, self.product(n["columns"], self.tall)), result)
        with self.loop(n["terms"], step=self.step) as k:
            self._expect(b.load(offset, typ=I64), k, result)
            with self.loop(self.minimum(self.step, b.sub(n["terms"], k))):
                factors = self._add(b.load(panel, typ=POINTER), b.load(offset, typ=I64), rows, sums)
                if self.copies:
                    self._copy(factors, copy)
                b.store(self.at(b.load(panel, typ=POINTER), n["panel_pitch"]), panel)
                b.store(self.sum(b.load(offset, typ=I64), n["term_pitch"]), offset)

    def _copy(self, factors: list[ir.Value], cell: ir.Value) -> None:
        """Put down a term of the panel."""
        place = self.b.load(cell, typ=POINTER)
        for v, factor in enumerate(factors):
            self.write(self.at(place, v * self.lanes), factor)
        self.b.store(self.at(place, self.vectors * self.lanes), cell)

    def _expect(self, offset: ir.Value, k: ir.Value, result: ir.Value) -> None:
        """Have brought near, for a line of terms, what will be needed: of `x`, of the result, and of the next panel."""
        b, n = self.b, self.n
        line = self.at(self.x, self.sum(offset, n["tile_pitch"]))
        for _ in range(self.tall):
            self.prefetch(line, nearness=2)
            line = self.at(line, n["line_pitch"])
        row = b.load(result, typ=POINTER)
        self._bring(row)
        b.store(b.select(b.icmp_signed("<", k, I64(self.tall * self.step)), self.at(row, n["columns"]), row), result)
        line = self.at(self.ahead, self.product(k, n["ahead_by_term"]))
        for _ in range(self.vectors):
            self.prefetch(line, nearness=2)
            line = self.at(line, n["ahead_by_line"])

    def _add(
        self, panel: ir.Value, offset: ir.Value, rows: list[ir.Value], sums: list[list[ir.Value]]
    ) -> list[ir.Value]:
        """One term; its part of the panel."""
        factors = [self.read(self.at(panel, v * self.lanes)) for v in range(self.vectors)]
        for row, cells in zip(rows, sums):
            value = self.spread(self.at(row, offset))
            for factor, cell in zip(factors, cells):
                self.b.store(self.fma(value, factor, self.b.load(cell, typ=self.vector)), cell)
        return factors
