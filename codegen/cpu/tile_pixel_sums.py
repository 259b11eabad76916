"""The innermost loops of convolutions whose lanes are pixels of a row, as a function: tiles of sums, from end to end.

    void sums(source, by row, rows, table, taps, plane, channels, weight, target, width, columns)

        target[row][pixel] = sum over the channels and the taps of source[row][pixel] * weight

A tap says how far from a pixel what it is multiplied by is; channels are `plane` elements apart, rows `by row`. `rows`
are those that there are: one behind the last is the last one again. Tile by tile, all `columns` are gone through.
"""

from __future__ import annotations

from typing import Final

from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir
from .emit_types import I32, I64, POINTER, lane_order, undefined
from .tile_builder import FunctionBuilder
from .tile_memory import shared_part

_KIND: Final = ir.FunctionType(
    ir.VoidType(), [POINTER, I64, I64, POINTER, I64, I64, I64, POINTER, POINTER, I64, I64]
)  # fmt: skip


def pixel_sums_function(module: ir.Module, dtype: DType, lanes: int, step: int, rows: int, vectors: int) -> ir.Function:
    """The function for tiles of `rows` by `vectors` registers, whose lanes are `step` elements of the input apart."""
    name = f"pixel_sums.{dtype.name}.{lanes}.{step}.{rows}.{vectors}"
    return shared_part(module, name, _KIND, lambda f: _PixelSums(f, dtype, lanes, step, rows, vectors).build())


def strided(builder: FunctionBuilder, address: ir.Value, step: int) -> ir.Value:
    """A vector of elements `step` apart in the kernel's own memory."""
    b, lanes = builder.b, builder.lanes
    if step == 1:
        return builder.read(address)
    if step == 2:
        low, high = (builder.read(builder.at(address, k * lanes, wide=True)) for k in range(2))
        return b.shuffle_vector(low, high, lane_order(tuple(range(0, 2 * lanes, 2))))
    found: ir.Value = undefined(builder.vector)
    for k in range(lanes):
        one = b.load(builder.at(address, k * step, wide=True), typ=builder.element)
        found = b.insert_element(found, one, I32(k))
    return found


class _PixelSums(FunctionBuilder):
    def __init__(self, function: ir.Function, dtype: DType, lanes: int, step: int, rows: int, vectors: int) -> None:
        super().__init__(function, dtype, lanes)
        self.step, self.tall, self.vectors = step, rows, vectors
        (
            self.source, self.by_row, self.rows, self.table, self.taps, self.plane, self.channels, self.weight,
            self.target, self.width, self.columns,
        ) = function.args  # fmt: skip

    def build(self) -> ir.Function:
        """The whole function."""
        b = self.b
        sources = self._lines(self.source, self.by_row, wide=True)
        targets = self._lines(self.target, self.width, wide=False)
        sums = [[self.cell(self.vector) for _ in range(self.vectors)] for _ in sources]
        with self.loop(self.columns, step=self.vectors * self.lanes) as j:
            for cell in (c for cells in sums for c in cells):
                b.store(self.zero, cell)
            self._add_up(sources, self.product(j, self.step), sums)
            left = b.sub(self.columns, j)
            masks = [self.between(I64(0), b.sub(left, I64(v * self.lanes))) for v in range(self.vectors)]
            for line, cells in zip(targets, sums, strict=True):
                for v, (cell, mask) in enumerate(zip(cells, masks, strict=True)):
                    self.write_some(self.at(line, j, v * self.lanes), b.load(cell, typ=self.vector), mask)
        return self.finish()

    def _lines(self, first: ir.Value, pitch: ir.Value, wide: bool) -> list[ir.Value]:
        """The addresses of the rows."""
        b, found = self.b, [first]
        for p in range(1, self.tall):
            there = b.icmp_signed("<", I64(p), self.rows)
            found.append(self.at(found[-1], b.select(there, pitch, I64(0)), wide=wide))
        return found

    def _add_up(self, lines: list[ir.Value], column: ir.Value, sums: list[list[ir.Value]]) -> None:
        b, ahead = self.b, self.cell(POINTER)
        b.store(self.weight, ahead)
        with self.loop(self.channels) as c:
            plane = self.sum(self.product(c, self.plane), column)
            with self.loop(self.taps) as k:
                tap = b.load(b.gep(self.table, [k], source_etype=I64), typ=I64)
                here, weight = self.sum(plane, tap), b.load(ahead, typ=POINTER)
                factor = self.spread(weight)
                for line, cells in zip(lines, sums, strict=True):
                    place = self.at(line, here, wide=True)
                    for v, cell in enumerate(cells):
                        x = strided(self, self.at(place, v * self.lanes * self.step, wide=True), self.step)
                        b.store(self.fma(x, factor, b.load(cell, typ=self.vector)), cell)
                b.store(self.at(weight, 1, wide=True), ahead)
