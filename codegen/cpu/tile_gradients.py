"""The innermost loops of a convolution's weight gradient, as a function: a tile of sums that goes on.

    void gradients(slots, x, y, lines, columns, rows, left, y pitch, target)

        registers [input channel][output channel] = target
        registers += x[input channel] * y[output channel], over `lines` of `columns` pixels
        target = registers

`rows` of the result and `left` of its columns are there: what is beyond is computed, but not kept. So the result has no
gaps, whatever its sizes.
"""

from __future__ import annotations

from typing import Final

from jitgrad.ir.dtypes import DType

from ..loops.tile import SLOTS
from . import llvm_ir as ir
from .emit_types import I64, POINTER
from .tile_builder import FunctionBuilder
from .tile_memory import masked_read, shared_part

_KIND: Final = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, I64, I64, I64, I64, I64, POINTER])


def gradients_function(module: ir.Module, dtype: DType, lanes: int, rows: int, vectors: int) -> ir.Function:
    """The function for tiles of `rows` by `vectors` registers, added to `module` if it is not there yet."""
    name = f"gradients.{dtype.name}.{lanes}.{rows}.{vectors}"
    return shared_part(module, name, _KIND, lambda f: _Gradients(f, dtype, lanes, rows, vectors).build())


class _Gradients(FunctionBuilder):
    def __init__(self, function: ir.Function, dtype: DType, lanes: int, rows: int, vectors: int) -> None:
        super().__init__(function, dtype, lanes)
        self.tall, self.vectors = rows, vectors
        self.slots, self.x, self.y, self.lines, self.columns, self.rows, self.left, self.pitch, self.target = (
            function.args
        )

    def _slot(self, name: str) -> ir.Value:
        return self.b.load(self.b.gep(self.slots, [I64(SLOTS[name])], source_etype=I64), typ=I64)

    def build(self) -> ir.Function:
        """The whole function."""
        b = self.b
        nowhere = self.scratch(I64(self.vectors * self.lanes))
        masks = [self.between(I64(0), b.sub(self.left, I64(v * self.lanes))) for v in range(self.vectors)]
        row, places = self.target, []
        for p in range(self.tall):
            there = b.select(b.icmp_signed("<", I64(p), self.rows), row, nowhere)
            places.append([self.at(there, v * self.lanes, wide=True) for v in range(self.vectors)])
            row = self.at(row, self._slot("row_pitch"), wide=True)
        sums = [[self.cell(self.vector) for _ in addresses] for addresses in places]
        for addresses, cells in zip(places, sums, strict=True):
            for address, cell, mask in zip(addresses, cells, masks, strict=True):
                b.store(masked_read(b, self.wide, address, mask, self.lanes), cell)
        self._add_up(sums)
        for addresses, cells in zip(places, sums, strict=True):
            for address, cell, mask in zip(addresses, cells, masks, strict=True):
                self.write_some_wide(address, b.load(cell, typ=self.vector), mask)
        return self.finish()

    def _add_up(self, sums: list[list[ir.Value]]) -> None:
        b, channels = self.b, self._slot("in_channels")
        by_pixel = self.product(channels, self._slot("stride_width"))
        by_line = self.product(self._slot("down"), channels, self._slot("pitch"))
        gradient, here = self.cell(POINTER), self.cell(POINTER)
        b.store(self.y, gradient)
        with self.loop(self.lines) as line:
            b.store(self.at(self.x, self.product(line, by_line), wide=True), here)
            with self.loop(self.columns):
                self._pixel(here, gradient, by_pixel, sums)

    def _pixel(self, here: ir.Value, gradient: ir.Value, by_pixel: ir.Value, sums: list[list[ir.Value]]) -> None:
        """The innermost loop."""
        b = self.b
        pixel, y = b.load(here, typ=POINTER), b.load(gradient, typ=POINTER)
        factors = [self.read(self.at(y, v * self.lanes, wide=True)) for v in range(self.vectors)]
        for p, cells in enumerate(sums):
            value = self.spread(self.at(pixel, p, wide=True))
            for factor, cell in zip(factors, cells, strict=True):
                b.store(self.fma(value, factor, b.load(cell, typ=self.vector)), cell)
        b.store(self.at(pixel, by_pixel, wide=True), here)
        b.store(self.at(y, self.pitch, wide=True), gradient)
