"""The convolution kernel whose lanes are pixels of a row: for few output channels in each group, as in depthwise ones.

    for each task: an image, a group, a depth, a block of rows, a block of columns
        pack the input that the block needs: [kernel depth][channels][rows][columns], zeros around it
        for each output channel, for each tile of rows by vectors of columns
            registers [row][columns] += input[row][columns] * weight, over the input channels and the kernel

A weight is read as it is, [o, c, ...], in the type that sums are in. Tiles are functions (`tile_pixel_sums`), tall ones
or, where there are few rows, wide ones: one kernel serves all sizes.
"""

from __future__ import annotations

from typing import Final

from ..loops.tile import TileKernel
from . import llvm_ir as ir
from .emit_types import I64, POINTER
from .tile_pixel_sums import pixel_sums_function
from .tile_planes import PlanesBuilder

_FEW_ROWS: Final = 2


def emit_pixels(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: input, weight, result."""
    return _Pixels(module, symbol, kernel).run()


class _Pixels(PlanesBuilder):
    def run(self) -> ir.Function:
        """The whole function."""
        n = self.n
        self.weight, self.y = self.buffer(1), self.buffer(2)
        self.reserve(I64(self.kernel.vectors * self.lanes * self.kernel.step))
        self.by_row = self.product(n["down"], n["pitch"])
        self.places = self.product(n["kernel_depth"], n["kernel_height"], n["kernel_width"])
        self.table = self.scratch(self.product(self.places, 8 // self.wide.itemsize))
        self._tabulate()
        with self.loop(self.end, start=self.begin) as task:
            self._task(task)
        return self.finish()

    def _tabulate(self) -> None:
        """Where each place of the kernel is from a pixel."""
        n, b, cell = self.n, self.b, self.cell(POINTER)
        b.store(self.table, cell)
        down = self.product(n["dilation_height"], n["pitch"])
        with (
            self.loop(n["kernel_depth"]) as kd,
            self.loop(n["kernel_height"]) as kh,
            self.loop(n["kernel_width"]) as kw,
        ):
            tap = self.sum(self.product(kd, self.cube), self.product(kh, down), self.product(kw, n["dilation_width"]))
            place = b.load(cell, typ=POINTER)
            b.store(tap, place)
            b.store(b.gep(place, [I64(1)], source_etype=I64), cell)

    def _task(self, task: ir.Value) -> None:
        n, b = self.n, self.b
        image, group, depth, row_block, column_block = self.split(
            task, n["groups"], n["out_depth"], n["row_blocks"], n["column_blocks"]
        )
        row0, column0 = self.product(row_block, n["rows"]), self.product(column_block, n["columns"])
        rows = self.minimum(n["rows"], b.sub(n["out_height"], row0))
        columns = self.minimum(n["columns"], b.sub(n["out_width"], column0))
        self.pack(image, group, depth, row0, column0)
        place = self.sum(self.product(self.sum(self.product(depth, n["out_height"]), row0), n["out_width"]), column0)
        taps = self.product(self.places, n["in_channels"])
        with self.loop(n["out_channels"]) as o:
            channel = self.sum(self.product(group, n["out_channels"]), o)
            weight = self.at(self.weight, self.product(channel, taps), wide=True)
            out = self.sum(self.product(image, n["y_image"]), self.product(channel, n["y_channel"]), place)
            with b.if_else(b.icmp_signed("<=", rows, I64(_FEW_ROWS))) as (are_few, are_many):
                with are_few, self.loop(rows) as r:
                    self._strip((1, self.kernel.vectors), out, weight, (r, I64(1)), columns)
                with are_many:
                    self._strips(out, weight, rows, columns)

    def _strips(self, out: ir.Value, weight: ir.Value, rows: ir.Value, columns: ir.Value) -> None:
        """Rows by tiles that are a vector wide, and no taller than twice as tall as they must be."""
        b, tall = self.b, self.kernel.rows
        with self.loop(rows, step=tall) as r:
            left = b.sub(rows, r)
            with b.if_else(b.icmp_signed(">", left, I64(tall // 2))) as ways:
                for height, way in zip((tall, tall // 2), ways):
                    with way:
                        self._strip((height, 1), out, weight, (r, left), columns)

    def _strip(
        self, tile: tuple[int, int], out: ir.Value, weight: ir.Value, rows: tuple[ir.Value, ir.Value], columns: ir.Value
    ) -> None:
        """As many rows as a tile has, from one on, of which there are so many."""
        b, n, (row, count) = self.b, self.n, rows
        b.call(pixel_sums_function(b.module, self.dtype, self.lanes, self.kernel.step, *tile), [
            self.at(self.packed, self.product(row, self.by_row), wide=True), self.by_row, count, self.table,
            self.places, self.plane, n["in_channels"], weight, self.at(self.y, out, self.product(row, n["out_width"])),
            n["out_width"], columns,
        ])  # fmt: skip
