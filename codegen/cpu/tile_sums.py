"""The innermost loops of convolutions whose lanes are output channels, as a function: a tile of sums, from end to end.

    void sums(pixels, taps, count, terms, pitch, weight, weight pitch, target, target pitch)

        target[pixel][channel] = sum over the taps and the terms of each of pixel * weight

`pixels` are addresses in the packed input, one for each pixel of the tile: pixels need not be neighbours, so that tiles
go on from row to row, and one function serves all widths. A tap is a place of the kernel: two numbers, how far from the
pixels and how far from the weight's start its terms begin. Terms are `pitch` elements of the input apart. The weight's
blocks of channels, a register wide each, are `weight pitch` apart, and the target's pixels `target pitch`.
"""

from __future__ import annotations

from typing import Final

from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir
from .emit_types import I64, POINTER
from .tile_builder import FunctionBuilder
from .tile_memory import shared_part

_KIND: Final = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I64, I64, POINTER, I64, POINTER, I64])


def sums_function(module: ir.Module, dtype: DType, lanes: int, rows: int, vectors: int) -> ir.Function:
    """The function for tiles of `rows` pixels by `vectors` registers, added to `module` if it is not there yet."""
    name = f"sums.{dtype.name}.{lanes}.{rows}.{vectors}"
    return shared_part(module, name, _KIND, lambda f: _Sums(f, dtype, lanes, rows, vectors).build())


class _Sums(FunctionBuilder):
    def __init__(self, function: ir.Function, dtype: DType, lanes: int, rows: int, vectors: int) -> None:
        super().__init__(function, dtype, lanes)
        self.rows, self.vectors = rows, vectors
        (
            self.pixels, self.table, self.count, self.terms, self.pitch, self.weight, self.weight_pitch, self.target,
            self.target_pitch,
        ) = function.args  # fmt: skip

    def build(self) -> ir.Function:
        """The whole function."""
        b = self.b
        pixels = [b.load(b.gep(self.pixels, [I64(p)], source_etype=POINTER), typ=POINTER) for p in range(self.rows)]
        sums = [[self.cell(self.vector) for _ in range(self.vectors)] for _ in pixels]
        for cell in (c for cells in sums for c in cells):
            b.store(self.zero, cell)
        with self.loop(self.product(self.count, 2), step=2) as k:
            place, weight = (b.load(b.gep(self.table, [self.sum(k, i)], source_etype=I64), typ=I64) for i in (0, 1))
            self._add_up(place, self.at(self.weight, weight, wide=True), pixels, sums)
        place = self.target
        for cells in sums:
            for v, cell in enumerate(cells):
                self.write(self.at(place, v * self.lanes, wide=True), b.load(cell, typ=self.vector))
            place = self.at(place, self.target_pitch, wide=True)
        return self.finish()

    def _add_up(self, place: ir.Value, weight: ir.Value, pixels: list[ir.Value], sums: list[list[ir.Value]]) -> None:
        """The innermost loop."""
        b = self.b
        here, ahead = self.cell(I64), self.cell(POINTER)
        b.store(place, here)
        b.store(weight, ahead)
        with self.loop(self.terms):
            weight, place = b.load(ahead, typ=POINTER), b.load(here, typ=I64)
            pitch = self.weight_pitch
            factors = [self.read(self.at(weight, self.product(pitch, v), wide=True)) for v in range(self.vectors)]
            for pixel, cells in zip(pixels, sums, strict=True):
                x = self.spread(self.at(pixel, place, wide=True))
                for factor, cell in zip(factors, cells, strict=True):
                    b.store(self.fma(x, factor, b.load(cell, typ=self.vector)), cell)
            b.store(self.at(weight, self.lanes, wide=True), ahead)
            b.store(self.sum(place, self.pitch), here)
